"""This process's ZooKeeper session, numbered: what was made in one session is gone in the next.

Above ``Znodes``, below everything that has ephemeral znodes. A session that is lost is counted before any
operation of the next one returns, so code that finds the number unchanged after an operation knows that the
operation, and what it made, belong to that session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from herdpy.bookkeeper.metadata.znodes import Watch, Znodes, ZooKeeperState

Listener = Callable[[ZooKeeperState], None]


class ZooKeeperSession:
    """To be made on the loop, before the first ephemeral znode."""

    def __init__(self, znodes: Znodes) -> None:
        self.number = 1
        """Rises with each session that is lost."""
        self.state = ZooKeeperState.CONNECTED
        self._listeners: dict[object, Listener] = {}
        self._watch = znodes.on_session(self._changed)

    def on_change(self, listener: Listener) -> Watch:
        """Call back at each change, in the same turn of the loop in which it is heard of."""
        key = object()
        self._listeners[key] = listener
        return _Cancel(lambda: self._listeners.pop(key, None))

    def close(self) -> None:
        """Hear no more."""
        self._watch.cancel()
        self._listeners.clear()

    def _changed(self, state: ZooKeeperState) -> None:
        if state is ZooKeeperState.LOST:
            self.number += 1
        self.state = state
        for key, listener in list(self._listeners.items()):
            if key not in self._listeners:
                continue
            try:
                listener(state)
            except Exception as error:  # noqa: BLE001 -- the others must hear of it too
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "a listener to the ZooKeeper session failed", "exception": error}
                )


class _Cancel:
    def __init__(self, forget: Callable[[], object]) -> None:
        self._forget = forget

    def cancel(self) -> None:
        self._forget()

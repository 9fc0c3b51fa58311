"""This process's ZooKeeper session, numbered; the records below a znode, kept up to date by watches.

Above ``Znodes``, below everything that has ephemeral znodes. What was made in one session is gone in the
next. A session that is lost is counted before any operation of the next one returns, so code that finds the
number unchanged after an operation knows that the operation, and what it made, belong to that session.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from herdpy.bookkeeper.metadata.znodes import Listeners, Watch, WatchedChildren, Znodes, ZooKeeperState
from herdpy_server.cluster.errors import MalformedMetadataError
from herdpy_server.cluster.layout import Record, decode

_log = logging.getLogger("herdpy.cluster")

Listener = Callable[[ZooKeeperState], None]
R = TypeVar("R", bound=Record)


class ZooKeeperSession:
    """To be made on the loop, before the first ephemeral znode."""

    def __init__(self, znodes: Znodes) -> None:
        self.number = 1
        """Rises with each session that is lost."""
        self.state = ZooKeeperState.CONNECTED
        self._listeners: Listeners[[ZooKeeperState]] = Listeners()
        self._watch = znodes.on_session(self._changed)

    def on_change(self, listener: Listener) -> Watch:
        """Call back at each change, in the same turn of the loop in which it is heard of."""
        return self._listeners.add(listener)

    def close(self) -> None:
        """Hear no more."""
        self._watch.cancel()
        self._listeners.clear()

    def _changed(self, state: ZooKeeperState) -> None:
        if state is ZooKeeperState.LOST:
            self.number += 1
        self.state = state
        self._listeners.notify_now(state)


def watched_records(
    znodes: Znodes, path: str, kind: type[R], changed: Callable[[str, R | None], None]
) -> WatchedChildren[R]:
    """The records below a znode; one that is not understood is logged, and is none."""

    def parse(name: str, data: bytes) -> R | None:
        try:
            return decode(kind, f"{path}/{name}", data)
        except MalformedMetadataError as error:
            _log.error("znode not understood", extra={"reason": str(error)})
            return None

    return WatchedChildren(znodes, path, parse, changed)

"""This process's ZooKeeper session, numbered; the records below a znode, kept up to date by watches.

Above ``Znodes``, below everything that has ephemeral znodes. What was made in one session is gone in the
next. A session that is lost is counted before any operation of the next one returns, so code that finds the
number unchanged after an operation knows that the operation, and what it made, belong to that session.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from herdpy.bookkeeper.metadata.znodes import Watch, Znode, Znodes, ZooKeeperState
from herdpy_server.cluster.errors import MalformedMetadataError
from herdpy_server.cluster.layout import Record, decode

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


_log = logging.getLogger("herdpy.cluster")

R = TypeVar("R", bound=Record)


class WatchedChildren(Generic[R]):
    """Attributes:
    records: what is there, by name.
    complete: set once every child has been read for the first time.
    """

    def __init__(
        self, znodes: Znodes, path: str, kind: type[R], changed: Callable[[str, R | None], None]
    ) -> None:
        """Args:
        changed: called after each change of ``records`` with the name, and None when it is gone.
        """
        self.records: dict[str, R] = {}
        self.complete = asyncio.Event()
        self._znodes = znodes
        self._path = path
        self._kind = kind
        self._changed = changed
        self._watch: Watch | None = None
        self._children: dict[str, Watch] = {}
        self._unread: set[str] = set()

    def start(self) -> None:
        """Watch from now on."""
        if self._watch is None:
            self._watch = self._znodes.watch_children(self._path, self._listed)

    def close(self) -> None:
        """Watch no more; ``records`` stay."""
        if self._watch is not None:
            self._watch.cancel()
        for watch in self._children.values():
            watch.cancel()
        self._children.clear()

    def _listed(self, names: list[str] | None) -> None:
        present = set(names or ())
        for name in [known for known in self._children if known not in present]:
            self._children.pop(name).cancel()
            self._unread.discard(name)
            self._set(name, None)
        for name in sorted(present - self._children.keys()):
            self._unread.add(name)
            self._children[name] = self._znodes.watch_data(
                f"{self._path}/{name}", functools.partial(self._read, name)
            )
        self._check_complete()

    def _read(self, name: str, znode: Znode | None) -> None:
        if name not in self._children:
            return
        record = None
        if znode is not None:
            try:
                record = decode(self._kind, f"{self._path}/{name}", znode.data)
            except MalformedMetadataError as error:
                _log.error("znode not understood", extra={"reason": str(error)})
        self._unread.discard(name)
        self._set(name, record)
        self._check_complete()

    def _set(self, name: str, record: R | None) -> None:
        if self.records.get(name) == record:
            return
        if record is None:
            del self.records[name]
        else:
            self.records[name] = record
        self._changed(name, record)

    def _check_complete(self) -> None:
        if not self._unread:
            self.complete.set()

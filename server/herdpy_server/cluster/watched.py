"""The children of a znode, each with its data, kept up to date by watches.

Above ``Znodes``, below membership and the tablespaces. What cannot be read is told in the log and left out.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from herdpy.bookkeeper.metadata.znodes import Watch, Znode, Znodes
from herdpy_server.cluster.errors import MalformedMetadataError
from herdpy_server.cluster.layout import Record, decode

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

"""Store layer, bottom: the file in which a large transaction keeps what does not stay in memory.

An LMDB environment of its own, without a name: it is unlinked as soon as it is open, so that it goes with the
last who reads it, and with the process. Nothing of it is ever synced: the log makes the transaction durable.
It is written in small steps, each with a new view; who holds an older view reads what was there then.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import finalize

import lmdb

from herdpy_server.store import physical
from herdpy_server.store.disk_view import DiskView
from herdpy_server.store.layers import Item
from herdpy_server.store.limits import ADDRESS_SPACE
from herdpy_sql.errors import SqlError

_SLOTS = 1000
"""Deltas that may lie in one file; those beyond stay in memory."""
_READERS = 1022
_FULL = (errno.ENOSPC, errno.EDQUOT)


class SpillFile:
    """Ordered items in a temporary file, by *slot*: the number of a delta or a set of locks.

    Attributes:
        written_bytes: what was ever written to it.
    """

    def __init__(self, directory: Path) -> None:
        """Raise SqlError 53100, 53400, 58030 when the machine does not allow another file."""
        self._handles: dict[int, Any] = {}
        self._slots = 0
        self._view: DiskView | None = None
        self.written_bytes = 0
        size_bytes = ADDRESS_SPACE.take(0)
        give_back = finalize(self, ADDRESS_SPACE.give_back, size_bytes)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            place = tempfile.mkdtemp(prefix="transaction-", dir=directory)
            try:
                self._env = lmdb.open(
                    place,
                    map_size=size_bytes,
                    max_dbs=_SLOTS,
                    max_readers=_READERS,
                    sync=False,
                    metasync=False,
                    readahead=False,
                    meminit=False,
                    max_spare_txns=2,
                )
            finally:
                shutil.rmtree(place)
        except (OSError, lmdb.Error) as error:
            give_back()
            raise spill_error(error) from error

    def slot(self) -> int | None:
        """A number that nobody has; None when there are no more."""
        if self._slots >= _SLOTS:
            return None
        self._slots += 1
        return self._slots

    def view(self) -> DiskView:
        """What is in the file now; SqlError 53400 when too many older states of it are read."""
        view = self._view
        if view is None:
            try:
                view = DiskView(self._env.begin(), dict(self._handles))
            except lmdb.ReadersFullError as error:
                raise SqlError(
                    "53400", "too many states of a large transaction are read", detail=str(error)
                ) from error
            for handle in view.handles.values():  # threads share the view: see ``Disk.renewed``
                view.txn.stat(handle)
            self._view = view
        return view

    def write(self, slot: int, items: Sequence[Item], gone: Sequence[bytes] = ()) -> None:
        """Put items, sorted by key, into a slot, and take keys out.

        Raises:
            SqlError: 53100, 58030; nothing was written.
        """
        try:
            with self._env.begin(write=True) as txn:
                handle = self._handles.get(slot)
                if handle is None:
                    handle = self._env.open_db(b"%d" % slot, txn=txn)
                if items and max(len(key) for key, _ in items) > physical.MAX_PLAIN:
                    items = [physical.to_physical(*item) for item in items]
                txn.cursor(handle).putmulti(items)
                for key in gone:
                    txn.delete(key if len(key) <= physical.MAX_PLAIN else physical.long_key(key), db=handle)
        except lmdb.Error as error:
            raise spill_error(error) from error
        self._handles[slot] = handle
        self.written_bytes += sum(len(key) + len(value) for key, value in items)
        self._view = None


def spill_error(error: Exception) -> SqlError:
    """What to tell when the changes of a large transaction cannot be kept in a file."""
    text = str(error)
    if getattr(error, "errno", None) in _FULL or any(os.strerror(number) in text for number in _FULL):
        return SqlError(
            "53100",
            "no space is left for the changes of a large transaction",
            detail=text,
            hint="Free some space and run the transaction again; others go on meanwhile.",
        )
    return SqlError("58030", "the changes of a large transaction could not be kept in a file", detail=text)

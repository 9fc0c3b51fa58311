"""Store layer, bottom: where a large transaction puts what is not to stay in memory.

Below ``transaction_state``. Rows and locks of keys go into an ordered file (``SpillFile``), what ``undo``
needs and the records of the log into a stack each (``Spool``), oldest first. All of it is gone with the
transaction, and what others still read of it with the last of them.

``SpillFile`` is an LMDB environment of its own, without a name: it is unlinked as soon as it is open, so
that it goes with the last who reads it, and with the process. Nothing of it is ever synced: the log makes
the transaction durable. It is written in small steps, each with a new view; who holds an older view reads
what was there then.

``SpilledRows`` are the rows of one delta, the newest in memory and the others in a file. What is written
goes to ``_fresh``, in memory. When the transaction takes too much of that, ``_fresh`` becomes ``_moving``,
which does not change any more and is put into the file in steps, in key order; until the last step it hides
what the file has. A key that was taken back (``del``) and may be in the file has MISSING in memory.
"""

from __future__ import annotations

import errno
import heapq
import marshal
import os
import shutil
import struct
import tempfile
from collections.abc import Collection, ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast
from weakref import finalize

import lmdb

from herdpy.log.entry import encode_records
from herdpy.log.errors import RecordError
from herdpy.log.records import LoadBatch, LoadDone, Record, decode_records
from herdpy_server.store import physical
from herdpy_server.store.disk_view import DiskView
from herdpy_server.store.layers import (
    ENTRY_BYTES,
    MISSING,
    Delta,
    Item,
    LargeRows,
    Missing,
    changed_keys,
    distinct,
)
from herdpy_server.store.limits import ADDRESS_SPACE
from herdpy_server.store.physical import MAX_PLAIN
from herdpy_server.store.table_counts import Counts, count_records
from herdpy_sql.errors import SqlError

_SLOTS = 1000
"""Deltas that may lie in one file; those beyond stay in memory."""
_READERS = 1022
_FULL = (errno.ENOSPC, errno.EDQUOT)
_LITTLE_BYTES = 1 << 20
"""A disk with less is full."""


class SpillFile:
    """Ordered items in a temporary file, by *slot*: the number of a delta or a set of locks."""

    def __init__(self, directory: Path) -> None:
        """Raise SqlError 53100, 53400, 58030 when the machine does not allow another file."""
        self._handles: dict[int, Any] = {}
        self._slots = 0
        self._view: DiskView | None = None
        self._directory = directory
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
            raise spill_error(error, self._directory) from error
        self._handles[slot] = handle
        self._view = None


def spill_error(error: Exception, directory: Path | None = None) -> SqlError:
    """The error of changes of a large transaction that cannot be kept in a file, of LMDB in ``directory``."""
    text = str(error)
    is_full = getattr(error, "errno", None) in _FULL or any(os.strerror(number) in text for number in _FULL)
    if directory is not None and os.strerror(errno.EIO) in text:
        # LMDB reports a write so, of which the disk took the first part only.
        is_full = shutil.disk_usage(directory).free < _LITTLE_BYTES
    if is_full:
        return SqlError(
            "53100",
            "no space is left for the changes of a large transaction",
            detail=text,
            hint="Free some space and run the transaction again; others go on meanwhile.",
        )
    return SqlError("58030", "the changes of a large transaction could not be written to a file", detail=text)


class Spool:
    """A stack of blocks, each of so many items.

    Attributes:
        count: items in all blocks together.
        size_bytes: bytes of all blocks together.
    """

    def __init__(self, directory: Path) -> None:
        """Raise SqlError 53100, 58030 when no file can be made."""
        self._blocks: list[tuple[int, int]] = []  # size, items
        self.count = self.size_bytes = 0
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory) as file:
                self._fd = os.dup(file.fileno())
        except OSError as error:
            raise spill_error(error) from error
        finalize(self, os.close, self._fd)

    def push(self, data: bytes, count: int) -> None:
        """Put a block of ``count`` items on top. SqlError 53100, 58030; then nothing was put there."""
        at, view = self.size_bytes, memoryview(data)
        try:
            while view:
                done = os.pwrite(self._fd, view, at)
                at, view = at + done, view[done:]
        except OSError as error:
            raise spill_error(error) from error
        self._blocks.append((len(data), count))
        self.size_bytes += len(data)
        self.count += count

    def pop(self) -> tuple[bytes, int]:
        """Take the newest block, and how many items it has. SqlError 58030: it could not be read."""
        size, count = self._blocks[-1]
        try:
            data = self.read(self.size_bytes - size, size)
        except OSError as error:
            raise spill_error(error) from error
        self._blocks.pop()
        self.size_bytes -= size
        self.count -= count
        return data, count

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes from ``offset`` on; OSError."""
        parts: list[bytes] = []
        while size and (part := os.pread(self._fd, size, offset)):
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        if size:
            raise OSError(errno.EIO, "a temporary file ends too early")
        return parts[0] if len(parts) == 1 else b"".join(parts)


_D = TypeVar("_D")
_DELETED = b"\0"
_PRESENT = b"\1"
_NOWHERE = Missing()
_WRITTEN_AT_ONCE = 8192
"""Rows that go to the file in one transaction of LMDB, whose pages are in memory meanwhile."""


class SpilledRows(LargeRows):
    """Values by key, None for a deleted key; see ``LargeRows``.

    Args:
        rows: what there is so far; it is not to be used by others any more.
        nbytes: about what that takes of memory.
    """

    __slots__ = ("_file", "_fresh", "_long", "_moved", "_moving", "_pinned", "_slot", "_todo")

    def __init__(self, file: SpillFile, slot: int, rows: dict[bytes, bytes | None], nbytes: int) -> None:
        self._file = file
        self._slot = slot
        self._fresh = Delta()
        self._fresh.rows, self._fresh.nbytes = rows, nbytes
        self._moving: Delta | None = None
        self._todo: list[bytes] = []  # its keys, of which the first ``_moved`` are in the file
        self._moved = 0
        self._pinned: DiskView | None = None
        self._long = False  # whether a key in the file may be a long one

    @property
    def _view(self) -> DiskView:
        return self._file.view() if self._pinned is None else self._pinned

    @property
    def _in_memory(self) -> list[Delta]:
        return [self._fresh] if self._moving is None else [self._fresh, self._moving]

    @property
    def resident_bytes(self) -> int:
        """About what it takes of memory."""
        return sum(delta.nbytes for delta in self._in_memory)

    # Moving to the file.

    def move_some(self, most: int) -> int:
        """Put some keys into the file, ``most`` at most; returns how many, 0 when all are there.

        SqlError 53100, 58030: nothing is lost.
        """
        if self._moving is None:
            if not self._fresh.rows:
                return 0
            self._moving, self._fresh = self._fresh, Delta()
            self._todo, self._moved = sorted(self._moving.rows), 0
        some = self._todo[self._moved : self._moved + min(most, _WRITTEN_AT_ONCE)]
        self._put(self._moving.rows, some)
        self._long |= any(len(key) > MAX_PLAIN for key in some)
        self._moved += len(some)
        if self._moved == len(self._todo):
            self._moving, self._todo = None, []
        return len(some)

    def _put(self, rows: Mapping[bytes, bytes | None], keys: list[bytes]) -> None:
        items: list[Item] = []
        gone: list[bytes] = []
        for key in keys:
            value: bytes | Missing | None = rows[key]
            if value is None:
                items.append((key, _DELETED))
            elif isinstance(value, Missing):
                gone.append(key)
            else:
                items.append((key, _PRESENT + value))
        self._file.write(self._slot, items, gone)

    # Reading.

    def _find(self, key: bytes) -> bytes | Missing | None:
        for delta in self._in_memory:
            value: bytes | Missing | None = delta.rows.get(key, _NOWHERE)
            if value is not _NOWHERE:
                return value
        stored = self._view.get(self._slot, key)
        return MISSING if stored is None else _decoded(stored)

    def get(self, key: bytes, default: _D = None) -> bytes | _D | None:  # type: ignore[assignment]
        """The value under ``key``."""
        value = self._find(key)
        return default if isinstance(value, Missing) else value

    def __getitem__(self, key: bytes) -> bytes | None:
        value = self._find(key)
        if isinstance(value, Missing):
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self._find(cast("bytes", key)) is not MISSING

    def __len__(self) -> int:
        return sum(len(delta.rows) for delta in self._in_memory) + self._view.entries(self._slot)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def __iter__(self) -> Iterator[bytes]:
        return self.keys_within(None, None, False)

    def items(self) -> ItemsView[bytes, bytes | None]:
        """Pairs of key and value, in key order."""
        return ItemsView(self)

    def keys_within(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[bytes]:
        """The keys in [low, high), each once, in order."""
        above = changed_keys(self._in_memory, low, high, reverse)
        under = self._view.scan(self._slot, low, high, reverse=reverse, may_be_long=self._long)
        keys = distinct(heapq.merge(above, (key for key, _ in under), reverse=reverse))
        return (key for key in keys if not self._is_taken_back(key))

    def _is_taken_back(self, key: bytes) -> bool:
        """Whether a key that is in memory or in the file is not to be seen."""
        value: bytes | Missing | None = self._fresh.rows.get(key, _NOWHERE)
        if value is _NOWHERE and self._moving is not None:
            value = self._moving.rows.get(key, _NOWHERE)
        return value is MISSING

    def known(self, keys: Collection[bytes]) -> set[bytes]:
        """Those of the ``keys`` that are here."""
        found: set[bytes] = set()
        below = set(keys)
        for delta in self._in_memory:
            there = delta.known(below)
            found.update(key for key in there if not isinstance(delta.rows[key], Missing))
            below -= there
        if self._long or (below and max(map(len, below)) > MAX_PLAIN):
            view = self._view
            found.update(key for key in below if view.get(self._slot, key) is not None)
        else:
            found.update(self._view.existing(self._slot, sorted(below)))
        return found

    # Writing.

    def __setitem__(self, key: bytes, value: bytes | None) -> None:
        fresh = self._fresh
        rows = fresh.rows
        assert isinstance(rows, dict)
        before = rows.get(key, MISSING)
        if before is MISSING and key not in rows:
            fresh.nbytes += len(key) + ENTRY_BYTES
        elif isinstance(before, bytes):
            fresh.nbytes -= len(before)
        rows[key] = value
        if isinstance(value, bytes):
            fresh.nbytes += len(value)

    def __delitem__(self, key: bytes) -> None:
        self[key] = MISSING  # type: ignore[assignment]
        if self._moving is None and self._view.get(self._slot, key) is None:
            self._fresh.nbytes -= len(key) + ENTRY_BYTES
            del self._fresh.rows[key]
            self._fresh.forget_order()

    def update(self, other: Mapping[bytes, bytes | None]) -> None:  # type: ignore[override]
        """Put many."""
        for key, value in other.items():
            self[key] = value

    def copy(self) -> SpilledRows:
        """Equal rows that do not change with these."""
        twin = SpilledRows(self._file, self._slot, {}, 0)
        twin._fresh = self._fresh.copy()
        twin._moving = self._moving
        twin._pinned, twin._long = self._view, self._long
        return twin


def _decoded(stored: bytes) -> bytes | None:
    return None if stored == _DELETED else stored[1:]


AT_ONCE = 2048
"""Rows, notes and records that go to the file in one step, and twice as many as have come since the last."""
_STAY = (LoadBatch, LoadDone)
"""Records that are looked at again when the transaction is applied: they, and what follows, stay."""

Change = tuple[Delta | int, object, object]
"""What was changed: see ``TransactionState.undo``."""


@dataclass(frozen=True, slots=True)
class SpillSettings:
    """Where transactions put what is too much for memory, and how much that is; see ``DatabaseSettings``."""

    directory: Path
    memory_bytes: int

    @classmethod
    def of(cls, directory: Path, memory_bytes: int) -> SpillSettings | None:
        """What these settings mean; None: everything stays in memory."""
        return cls(directory, memory_bytes) if memory_bytes else None


def move_rows(file: SpillFile, deltas: Iterable[Delta], most: int) -> None:
    """Put up to ``most`` rows into the file. SqlError 53100, 53400, 58030, and nothing is lost."""
    left = most
    for delta in deltas:
        if isinstance(delta.rows, dict) and delta.rows:
            slot = file.slot()
            if slot is None:
                continue
            delta.rows = SpilledRows(file, slot, delta.rows, delta.nbytes)
            delta.forget_order()
        while isinstance(delta.rows, SpilledRows) and left > 0 and (moved := delta.rows.move_some(left)):
            left -= moved


class Spill:
    """What of one transaction lies in files.

    Attributes:
        file: rows, and locks.
        records: the first records of the transaction, encoded.
    """

    def __init__(self, directory: Path) -> None:
        """SqlError 53100, 53400, 58030."""
        self.file = SpillFile(directory)
        self.records = Spool(directory)
        self.counts: list[Counts] = []  # what they change, by piece
        self._notes = Spool(directory)
        self._deltas: dict[int, Delta] = {}  # those that notes speak of, by serial number

    # What ``undo`` needs.

    @property
    def note_count(self) -> int:
        """How many changes are noted in the file."""
        return self._notes.count

    def move_notes(self, changes: list[Change], most: int) -> None:
        """Put the oldest notes into the file. SqlError 53100, and nothing is lost."""
        some = changes[:most]
        if some:
            self._notes.push(marshal.dumps([self._flat(*one) for one in some]), len(some))
            del changes[: len(some)]

    def newest_notes(self) -> list[Change]:
        """The newest notes of the file, which it has no more."""
        data, _count = self._notes.pop()
        return [self._deep(*one) for one in marshal.loads(data)]

    def _flat(self, where: Delta | int, key: object, previous: object) -> tuple[object, ...]:
        if isinstance(where, int):
            if not isinstance(key, Delta):
                return 0, where, -1, None
            self._deltas[key.serial] = key
            return 0, where, key.serial, None
        self._deltas[where.serial] = where
        return (1, where.serial, key, None) if previous is MISSING else (2, where.serial, key, previous)

    def _deep(self, kind: int, number: int, key: Any, previous: object) -> Change:
        if kind == 0:
            return number, self._deltas.get(key), None
        return self._deltas[number], key, MISSING if kind == 1 else previous

    # Records.

    def move_records(self, records: list[Record], most: int) -> int:
        """Put the oldest records into the file, but never all of them; how many. Errors as ``move_rows``."""
        some = records[: max(min(most, len(records) - 1), 0)]
        stay = next((at for at, one in enumerate(some) if type(one) in _STAY), None)
        if stay is not None:
            del some[stay:]
        if some:
            self.records.push(_encoded(some), len(some))
            counts: Counts = {}
            count_records(some, counts)
            self.counts.append(counts)
            del records[: len(some)]
        return len(some)

    def cut_records(self, count: int) -> list[Record]:
        """Forget all records of the file behind the first ``count``.

        Returns the newest of those, at least one where there are any: the file has them no more.
        """
        left: list[Record] = []
        while self.records.count and self.records.count >= count:
            data, there = self.records.pop()
            del self.counts[-1]
            if self.records.count < count:
                left = decode_records(data, 0, there)[: count - self.records.count]
        return left


def _encoded(records: list[Record]) -> bytes:
    try:
        return encode_records(records)
    except (RecordError, struct.error) as error:
        raise SqlError("54000", f"a change cannot be logged: {error}") from error

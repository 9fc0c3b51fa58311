"""Which stretches of the log change a table, and how much, without its rows. Pure; above ``table``.

The driver steps over the records of a batch's transactions by their frames: it must know what the table's
name means where a task begins, and tasks shall read nothing that other tables wrote. So it can cut the
batch where transactions end, into parts of about the same number of changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from struct import Struct

from herdpy.log.errors import RecordError
from herdpy.log.lsn import LSN
from herdpy.log.records import (
    FRAME,
    FRAME_BYTES,
    TYPES,
    Delete,
    Insert,
    InsertBatch,
    LoadBatch,
    Truncate,
    Update,
    decode_record,
)
from herdpy_spark.feed.table import DEFINING, FollowedTable
from herdpy_spark.log.entries import TransactionsAtEntry
from herdpy_sql.catalog import Table

_FRAME = FRAME.unpack_from
_U32 = Struct(">I").unpack_from
_PAD = bytes(16)  # so that numbers can be read where a record is shorter than others are
_ROW = frozenset(TYPES[one] for one in (Insert, Update, Delete, Truncate, InsertBatch, LoadBatch))
_BATCH, _LOAD = TYPES[InsertBatch], TYPES[LoadBatch]
_HEAD = 9  # of a transaction: its time (8), the length of its request id (1); then that, then the count (4)

GRAIN = 2_000
"""Changes from which on a stretch may be cut."""
_GAP = 32


@dataclass(frozen=True, slots=True)
class LogStretch:
    """Entries of the log that one task reads.

    Attributes:
        after, crc: reading begins after this entry, a transaction's end; its running CRC where it is known.
        upto: the last entry.
        table: the definition after ``after``.
        changes: how many there are, about.
        parts: rows of each staged part of the loads in it.
        slice: only the rows of these parts, from the first to before the second; the changes that are no
            load's go with part 0. None: all.
    """

    after: LSN
    crc: int | None
    upto: LSN
    table: Table | None
    changes: int
    parts: tuple[int, ...] = ()
    slice: tuple[int, int] | None = None


@dataclass(slots=True)
class _Skimmed:
    """What a transaction does to the table: changes, staged parts; whether it does anything."""

    changes: int = 0
    parts: list[int] = field(default_factory=list)
    matters: bool = False


def frames(body: bytes) -> Iterator[tuple[int, int, int]]:
    """The records of a transaction, undecoded: type, where the record begins and where it ends in ``body``.

    Raises:
        RecordError: the bytes are no transaction.
    """
    total = len(body)
    if total < _HEAD + 4:
        raise RecordError("a transaction is shorter than its head")
    at = _HEAD + body[_HEAD - 1] + 4
    data = body + _PAD
    while at < total:
        kind, _, length = _FRAME(data, at)
        stop = at + FRAME_BYTES + length
        if stop > total:
            raise RecordError("a record is longer than its transaction")
        yield kind, at, stop
        at = stop


class Skimmer:
    """Goes along the log.

    Attributes:
        followed: the table where it stands.
        lsn: the last transaction end that it passed.
        entries: how many it passed.
        changes: how many of the table's it passed.
    """

    def __init__(self, followed: FollowedTable, after: LSN, crc: int | None = None) -> None:
        self.followed = followed
        self.lsn = after
        self.entries = 0
        self.changes = 0
        self._passed = 0
        self._resume: tuple[LSN, int | None] = (after, crc)
        self._done: list[LogStretch] = []
        self._open: LogStretch | None = None
        self._touched = 0

    def take(self, entry: TransactionsAtEntry) -> None:
        """The next entry. RecordError: its bytes are no transaction."""
        self._passed += 1
        before = self.followed.table
        changes, parts, matters = 0, [], False
        for body in entry.bodies:
            found = self._skim(body)
            changes += found.changes
            parts += found.parts
            matters = matters or found.matters
        if matters:
            self._extend(entry, before, changes, parts)
        if entry.complete:
            self._resume = (entry.lsn, entry.crc)
            self.lsn, self.entries = entry.lsn, self._passed
            if self._open is not None and (
                self._open.changes >= GRAIN or self._passed - self._touched >= _GAP
            ):
                self._close()

    def stretches(self, most: int, least_changes: int) -> list[LogStretch]:
        """Everything that was passed and matters, in order, in at most ``most`` stretches (a few more where
        loads stand between), none with fewer changes than ``least_changes`` if it can be helped."""
        self._close()
        return _grouped(self._done, most, least_changes)

    def _extend(
        self, entry: TransactionsAtEntry, before: Table | None, changes: int, parts: list[int]
    ) -> None:
        if parts and self._open is not None and self._open.upto <= self._resume[0]:
            self._close()
        if self._open is None:
            after, crc = self._resume
            self._open = LogStretch(after, crc, entry.lsn, before, 0)
        one = self._open
        self._open = replace(one, upto=entry.lsn, changes=one.changes + changes, parts=(*one.parts, *parts))
        self._touched = self._passed
        self.changes += changes
        if parts and entry.complete:
            self._close()

    def _close(self) -> None:
        if self._open is not None:
            self._done.append(self._open)
            self._open = None

    def _skim(self, body: bytes) -> _Skimmed:
        found = _Skimmed()
        followed = self.followed
        table_id = followed.id
        data = body + _PAD
        for kind, at, stop in frames(body):
            if kind in DEFINING:
                if followed.see(decode_record(body[at:stop])):
                    found.matters = True
                    found.changes += 1
                table_id = followed.id
            elif kind in _ROW and _U32(data, at + FRAME_BYTES)[0] == table_id:
                found.matters = True
                if kind == _BATCH:
                    found.changes += _U32(data, at + FRAME_BYTES + 4)[0]
                elif kind == _LOAD:
                    record = decode_record(body[at:stop])
                    assert isinstance(record, LoadBatch)
                    found.parts += [part.rows for part in record.parts]
                    found.changes += record.rows
                else:
                    found.changes += 1
        return found


def _grouped(stretches: Sequence[LogStretch], most: int, least_changes: int) -> list[LogStretch]:
    """Neighbours joined, and loads taken apart, so that each has about as many changes."""
    wanted = max(least_changes, -(-sum(one.changes for one in stretches) // most), 1)
    groups: list[LogStretch] = []
    passed = 0
    for one in stretches:
        last = groups[-1] if groups else None
        if one.parts and one.changes > wanted:
            groups += _sliced(one, wanted)
        elif last is None or last.parts or one.parts or passed >= wanted * len(groups):
            groups.append(one)
        else:
            groups[-1] = replace(last, upto=one.upto, changes=last.changes + one.changes)
        passed += one.changes
    return groups


def _sliced(one: LogStretch, wanted: int) -> list[LogStretch]:
    """A load in slices of whole parts."""
    slices: list[LogStretch] = []
    low = rows = 0
    for number, count in enumerate(one.parts):
        if rows and rows + count > wanted:
            slices.append(replace(one, changes=rows, slice=(low, number)))
            low, rows = number, 0
        rows += count
    slices.append(replace(one, changes=rows, slice=(low, len(one.parts))))
    return slices

"""The records of the log: one change each, as bytes and back. Below transactions.

First those of tables and their rows, then those of what is no table (objects of the catalog, sequences), then
those that loads, change feeds and NOTIFY brought; ``decode_records`` reads them all.

A record is framed by its type, the version of its body's layout and the body's length, so that a
reader can step over what it does not know. Keys and row images are opaque here; ``herdpy.codec``
makes them. All integers are big-endian. The layouts are in docs/log-format.md, byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final

from herdpy.log.errors import NewerFormatError, RecordError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


FRAME = Struct(">BBI")
FRAME_BYTES = FRAME.size


def exactly(start: int, end: int, size: int) -> None:
    """RecordError unless a body has so many bytes."""
    if end - start != size:
        raise RecordError(f"a record's body has {end - start} bytes, not {size}")


def at_least(start: int, end: int, size: int) -> None:
    """RecordError if a body has fewer bytes."""
    if end - start < size:
        raise RecordError(f"a record's body has {end - start} bytes, fewer than {size}")


_T = Struct(">BBII")  # frame, table
_TI: Final = Struct(">BBIII")  # frame, table, index or key length
_TII: Final = Struct(">BBIIII")  # frame, table, old key length, key length
_U32 = Struct(">I")
_U32X2 = Struct(">II")
_U32X3 = Struct(">III")
_CHECKSUM = Struct(">IQQ")
_UNCHANGED: Final = 0xFFFF_FFFF
_ID = Struct(">BBII")  # frame, id
_BEFORE = Struct(">BBIII")  # frame, table, key length
LOAD_BATCH_HEAD = Struct(">IBqI")  # table, op, first row id, parts
LOAD_BATCH_PART = Struct(">qqQIQ")
LOAD_BATCH_NUMBER: Final = 21
_DONE = Struct(">IQQQQ")
_LOAD_ID_BYTES = 64
_NOTIFY = Struct(">BBIIB")  # frame, process id, length of the channel
_NOTIFY_BODY = Struct(">IB")
NOTIFY_NUMBER: Final = 26
CHANNEL_BYTES: Final = 63
"""So long may the name of a channel be."""


@dataclass(slots=True)
class CreateTable:
    """A table comes to be; the definition (with the table's id) is the catalog's."""

    definition: bytes

    def encode(self) -> bytes:
        return FRAME.pack(1, 1, len(self.definition)) + self.definition

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> CreateTable:
        return CreateTable(data[start:end])


@dataclass(slots=True)
class AlterTable:
    """A table has another definition from here on: the same id and columns, other properties."""

    definition: bytes

    def encode(self) -> bytes:
        return FRAME.pack(2, 1, len(self.definition)) + self.definition

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> AlterTable:
        return AlterTable(data[start:end])


@dataclass(slots=True)
class DropTable:
    """A table and its indexes cease to be."""

    table_id: int

    def encode(self) -> bytes:
        return _T.pack(3, 1, 4, self.table_id)

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> DropTable:
        exactly(start, end, 4)
        return DropTable(_U32.unpack_from(data, start)[0])


@dataclass(slots=True)
class CreateIndex:
    """An index comes to be, filled from the rows that are there."""

    table_id: int
    definition: bytes

    def encode(self) -> bytes:
        return _T.pack(4, 1, 4 + len(self.definition), self.table_id) + self.definition

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> CreateIndex:
        at_least(start, end, 4)
        return CreateIndex(_U32.unpack_from(data, start)[0], data[start + 4 : end])


@dataclass(slots=True)
class DropIndex:
    """An index ceases to be."""

    table_id: int
    index_id: int

    def encode(self) -> bytes:
        return _TI.pack(5, 1, 8, self.table_id, self.index_id)

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> DropIndex:
        exactly(start, end, 8)
        return DropIndex(*_U32X2.unpack_from(data, start))


@dataclass(slots=True)
class Truncate:
    """All rows of a table go."""

    table_id: int

    def encode(self) -> bytes:
        return _T.pack(6, 1, 4, self.table_id)

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> Truncate:
        exactly(start, end, 4)
        return Truncate(_U32.unpack_from(data, start)[0])


@dataclass(slots=True)
class PutRole:
    """A role comes to be, or has other attributes; what it is, is opaque here."""

    name: bytes
    definition: bytes

    def encode(self) -> bytes:
        size = len(self.name)
        return _T.pack(7, 1, 4 + size + len(self.definition), size) + self.name + self.definition

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> PutRole:
        at_least(start, end, 4)
        split = start + 4 + _U32.unpack_from(data, start)[0]
        if split > end:
            raise RecordError("a role's name is longer than its record")
        return PutRole(data[start + 4 : split], data[split:end])


@dataclass(slots=True)
class DropRole:
    """A role ceases to be."""

    name: bytes

    def encode(self) -> bytes:
        return FRAME.pack(8, 1, len(self.name)) + self.name

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> DropRole:
        return DropRole(data[start:end])


@dataclass(slots=True, init=False)
class Insert:
    """A new row: its key and its image."""

    table_id: int
    key: bytes
    row: bytes

    def __init__(self, table_id: int, key: bytes, row: bytes) -> None:  # one that is compiled
        self.table_id = table_id
        self.key = key
        self.row = row

    def encode(self) -> bytes:
        key, row = self.key, self.row
        size = len(key)
        return b"%b%b%b" % (_TI.pack(16, 1, 8 + size + len(row), self.table_id, size), key, row)

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> Insert:
        table_id, size = _U32X2.unpack_from(data, start)
        split = start + 8 + size
        if split > end:
            raise RecordError("an insert's key is longer than its record")
        return Insert(table_id, data[start + 8 : split], data[split:end])


@dataclass(slots=True, init=False)
class Update:
    """A row's new image. ``old_key`` is None when the key stays as it is."""

    table_id: int
    old_key: bytes | None
    key: bytes
    row: bytes

    def __init__(self, table_id: int, old_key: bytes | None, key: bytes, row: bytes) -> None:
        self.table_id = table_id
        self.old_key = old_key
        self.key = key
        self.row = row

    def encode(self) -> bytes:
        old, key, row = self.old_key, self.key, self.row
        size = len(key)
        if old is None:
            head = _TII.pack(17, 1, 12 + size + len(row), self.table_id, _UNCHANGED, size)
            return b"%b%b%b" % (head, key, row)
        head = _TII.pack(17, 1, 12 + len(old) + size + len(row), self.table_id, len(old), size)
        return b"%b%b%b%b" % (head, old, key, row)

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> Update:
        table_id, old_size, size = _U32X3.unpack_from(data, start)
        at = start + 12
        old = None
        if old_size != _UNCHANGED:
            old = data[at : at + old_size]
            at += old_size
        split = at + size
        if split > end:
            raise RecordError("an update's keys are longer than its record")
        return Update(table_id, old, data[at:split], data[split:end])


@dataclass(slots=True)
class Delete:
    """A row goes."""

    table_id: int
    key: bytes

    def encode(self) -> bytes:
        return _T.pack(18, 1, 4 + len(self.key), self.table_id) + self.key

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> Delete:
        at_least(start, end, 4)
        return Delete(_U32.unpack_from(data, start)[0], data[start + 4 : end])


@dataclass(slots=True)
class InsertBatch:
    """New rows as the Arrow IPC stream they came in.

    Attributes:
        stream: one Arrow IPC stream, opaque here.
        rows: how many rows the stream holds.
        expanded: room for what the applying layer makes of the stream; neither logged nor compared.
    """

    table_id: int
    stream: bytes
    rows: int
    expanded: object | None = field(default=None, compare=False, repr=False)

    def encode(self) -> bytes:
        return _TI.pack(19, 1, 8 + len(self.stream), self.table_id, self.rows) + self.stream

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> InsertBatch:
        at_least(start, end, 8)
        table_id, rows = _U32X2.unpack_from(data, start)
        return InsertBatch(table_id, data[start + 8 : end], rows)


@dataclass(slots=True)
class TablesChecksum:
    """What the tables must hold at this place of the log: (table id, rows, checksum) of each."""

    checksums: list[tuple[int, int, int]]

    def encode(self) -> bytes:
        body = b"".join(_CHECKSUM.pack(*checksum) for checksum in self.checksums)
        return _T.pack(32, 1, 4 + len(body), len(self.checksums)) + body

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> TablesChecksum:
        at_least(start, end, 4)
        (count,) = _U32.unpack_from(data, start)
        exactly(start, end, 4 + count * _CHECKSUM.size)
        return TablesChecksum(list(_CHECKSUM.iter_unpack(data[start + 4 : end])))


@dataclass(slots=True)
class PutObject:
    """A schema, sequence, view, type or the like comes to be, or is another; its id is in the definition."""

    definition: bytes

    def encode(self) -> bytes:
        return FRAME.pack(23, 1, len(self.definition)) + self.definition

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> PutObject:
        return PutObject(data[start:end])


@dataclass(slots=True)
class DropObject:
    """Such a thing ceases to be."""

    object_id: int

    def encode(self) -> bytes:
        return _ID.pack(24, 1, 4, self.object_id)

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> DropObject:
        exactly(start, end, 4)
        return DropObject(_U32.unpack_from(data, start)[0])


@dataclass(slots=True)
class SequenceAdvance:
    """A sequence has come this far: what it gives next follows from ``state``."""

    sequence_id: int
    state: bytes

    def encode(self) -> bytes:
        return _ID.pack(25, 1, 4 + len(self.state), self.sequence_id) + self.state

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> SequenceAdvance:
        at_least(start, end, 4)
        return SequenceAdvance(_U32.unpack_from(data, start)[0], data[start + 4 : end])


class LoadOp(IntEnum):
    """What a load does with a row, and with one whose key is there already."""

    INSERT = 0  # all rows are new
    UPSERT = 1  # present: updated, else inserted
    IGNORE = 2  # present: skipped, else inserted
    DELETE = 3  # present: deleted, else skipped


@dataclass(slots=True)
class Before:
    """A row as it was before the record that follows changes or removes it; applying this changes nothing."""

    table_id: int
    key: bytes
    row: bytes

    def encode(self) -> bytes:
        key, row = self.key, self.row
        size = len(key)
        return b"%b%b%b" % (_BEFORE.pack(20, 1, 8 + size + len(row), self.table_id, size), key, row)

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> Before:
        at_least(start, end, 8)
        table_id, size = _U32X2.unpack_from(data, start)
        split = start + 8 + size
        if split > end:
            raise RecordError("a key is longer than its record")
        return Before(table_id, data[start + 8 : split], data[split:end])


@dataclass(slots=True, frozen=True)
class StagedPart:
    """Rows in a ledger of their own: the data of its entries, joined, is one Arrow IPC stream.

    Attributes:
        last_entry_id: the ledger is closed there; entries count from 0.
        size_bytes: of the stream.
        crc: CRC32C of the stream.
        rows: in the stream.
    """

    ledger_id: int
    last_entry_id: int
    size_bytes: int
    crc: int
    rows: int


@dataclass(slots=True)
class LoadBatch:
    """The rows of a load, which stand in staged ledgers, and what becomes of them.

    The streams of INSERT, UPSERT and IGNORE have the table's columns in order, without the hidden key;
    those of DELETE have the key's columns, in the key's order. Rows count through all parts in order.

    Attributes:
        first_row_id: the hidden key of row i is this plus i; -1 where the table has a key.
        present: bit ``i % 8`` of byte ``i // 8`` says that row i's key was there when its turn came, earlier
            rows of the same load counted. Bits beyond the end are not set.
        staged: room for what the applying layer has read of the parts; neither logged nor compared.
    """

    table_id: int
    op: LoadOp
    first_row_id: int
    parts: tuple[StagedPart, ...]
    present: bytes = b""
    staged: object | None = field(default=None, compare=False, repr=False)

    @property
    def rows(self) -> int:
        """How many rows all parts have."""
        return sum(part.rows for part in self.parts)

    def present_mask(self, first: int, count: int) -> NDArray[np.bool_]:
        """``present`` of the rows from ``first`` on, so many, as a numpy array."""
        import numpy as np

        mask = np.zeros(count, dtype=np.bool_)
        packed = np.frombuffer(self.present, dtype=np.uint8)[first >> 3 : (first + count + 7) >> 3]
        bits = np.unpackbits(packed, bitorder="little")[first & 7 :][:count]
        mask[: len(bits)] = bits
        return mask

    def encode(self) -> bytes:
        parts = b"".join(
            LOAD_BATCH_PART.pack(part.ledger_id, part.last_entry_id, part.size_bytes, part.crc, part.rows)
            for part in self.parts
        )
        head = LOAD_BATCH_HEAD.pack(self.table_id, self.op, self.first_row_id, len(self.parts))
        size = len(head) + len(parts) + len(self.present)
        return b"".join((FRAME.pack(LOAD_BATCH_NUMBER, 1, size), head, parts, self.present))

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> LoadBatch:
        at_least(start, end, LOAD_BATCH_HEAD.size)
        table_id, op, first_row_id, count = LOAD_BATCH_HEAD.unpack_from(data, start)
        if op > LoadOp.DELETE:
            raise RecordError(f"a load does {op}, which is not known here")
        at = start + LOAD_BATCH_HEAD.size
        at_least(start, end, LOAD_BATCH_HEAD.size + count * LOAD_BATCH_PART.size)
        stop = at + count * LOAD_BATCH_PART.size
        parts = tuple(StagedPart(*one) for one in LOAD_BATCH_PART.iter_unpack(data[at:stop]))
        record = LoadBatch(table_id, LoadOp(op), first_row_id, parts, data[stop:end])
        if len(record.present) > (record.rows + 7) >> 3:
            raise RecordError("a load declares more rows than it has")
        return record


@dataclass(slots=True)
class LoadDone:
    """A load and what became of it; the last record of its transaction but for sequences.

    Attributes:
        load_id: the client's name for it, 1 to 64 bytes of UTF-8; no load is done twice under one name.
        inserted, updated, deleted, skipped: rows.
    """

    load_id: str
    table_id: int
    inserted: int
    updated: int
    deleted: int
    skipped: int

    def encode(self) -> bytes:
        name = self.load_id.encode()
        if not 1 <= len(name) <= _LOAD_ID_BYTES:
            raise RecordError(f"a load's id has 1 to {_LOAD_ID_BYTES} bytes, not {len(name)}")
        body = _DONE.pack(self.table_id, self.inserted, self.updated, self.deleted, self.skipped)
        return b"".join((FRAME.pack(22, 1, len(body) + 1 + len(name)), body, bytes((len(name),)), name))

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> LoadDone:
        at_least(start, end, _DONE.size + 2)
        table_id, *counts = _DONE.unpack_from(data, start)
        at = start + _DONE.size + 1
        size = data[at - 1]
        if not 1 <= size <= _LOAD_ID_BYTES or size != end - at:
            raise RecordError("a load's id is not as long as its record says")
        try:
            return LoadDone(data[at:end].decode(), table_id, *counts)
        except UnicodeDecodeError as error:
            raise RecordError(f"a load's id is not UTF-8: {error}") from error


@dataclass(slots=True)
class Notify:
    """A notification, for sessions that listen when its transaction is applied; it changes nothing.

    Attributes:
        pid: the process id of the session that sends it.
        channel, payload: UTF-8; the channel has 1 to 63 bytes.
    """

    pid: int
    channel: bytes
    payload: bytes

    def encode(self) -> bytes:
        channel = self.channel
        if not 1 <= len(channel) <= CHANNEL_BYTES:
            raise RecordError(f"a channel's name has 1 to {CHANNEL_BYTES} bytes, not {len(channel)}")
        head = _NOTIFY.pack(NOTIFY_NUMBER, 1, 5 + len(channel) + len(self.payload), self.pid, len(channel))
        return b"%b%b%b" % (head, channel, self.payload)

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> Notify:
        at_least(start, end, 5)
        pid, size = _NOTIFY_BODY.unpack_from(data, start)
        split = start + 5 + size
        if not 1 <= size <= CHANNEL_BYTES or split > end:
            raise RecordError("a channel's name is not as long as its record says")
        return Notify(pid, data[start + 5 : split], data[split:end])


Record = (
    CreateTable
    | AlterTable
    | DropTable
    | CreateIndex
    | DropIndex
    | Truncate
    | PutRole
    | DropRole
    | PutObject
    | DropObject
    | SequenceAdvance
    | Insert
    | Update
    | Delete
    | InsertBatch
    | Before
    | LoadBatch
    | LoadDone
    | Notify
    | TablesChecksum
)

TYPES: dict[type[Record], int] = {
    CreateTable: 1,
    AlterTable: 2,
    DropTable: 3,
    CreateIndex: 4,
    DropIndex: 5,
    Truncate: 6,
    PutRole: 7,
    DropRole: 8,
    Insert: 16,
    Update: 17,
    Delete: 18,
    InsertBatch: 19,
    TablesChecksum: 32,
    PutObject: 23,
    DropObject: 24,
    SequenceAdvance: 25,
    Before: 20,
    LoadBatch: LOAD_BATCH_NUMBER,
    LoadDone: 22,
    Notify: NOTIFY_NUMBER,
}
"""The number of each in its frame."""
LAYOUT_VERSION = 1
"""The version of the layout of every record's body."""
_DECODERS: dict[int, Callable[[bytes, int, int], Record]] = {
    number << 8 | LAYOUT_VERSION: kind.decode for kind, number in TYPES.items()
}
_LEAST_BODY = {TYPES[Insert]: 8, TYPES[Update]: 12}
_INSERT: Final = 16
_UPDATE: Final = 17
_DELETE: Final = 18
_LEAST_FRAMED: Final = 14
"""Bytes of the shortest Insert; a shorter Delete is left to :func:`decode_records`."""


def decode_records(data: bytes, start: int, count: int) -> list[Record]:
    """``count`` records that fill ``data`` from ``start`` to its end.

    Raises:
        NewerFormatError: an unknown type or version.
        RecordError: lengths that do not meet.
    """
    records: list[Record] = []
    total = len(data)
    unpack, decoders, least = FRAME.unpack_from, _DECODERS, _LEAST_BODY
    for _ in range(count):
        if start + FRAME_BYTES > total:
            raise RecordError("a transaction ends in the middle of a record")
        number, version, length = unpack(data, start)
        start += FRAME_BYTES
        end = start + length
        if end > total:
            raise RecordError("a record is longer than its transaction")
        decoder = decoders.get(number << 8 | version)
        if decoder is None:
            raise NewerFormatError(f"record type {number}, version {version} is not known here")
        if length < least.get(number, 0):
            raise RecordError(f"a record of type {number} is too short")
        records.append(decoder(data, start, end))
        start = end
    if start != total:
        raise RecordError(f"{total - start} bytes follow the last record of a transaction")
    return records


class GatheredRows:
    """Rows of one table as several records leave them.

    Attributes:
        rows: the new image by key, None for a row that goes.
        size_bytes: of keys and images in the records, also of those that later ones replace.
        net: how many more rows there are after them.
    """

    __slots__ = ("net", "rows", "size_bytes")

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes | None] = {}
        self.size_bytes = 0
        self.net = 0


def gather_rows(data: bytes, start: int, count: int, gathered: Mapping[int, GatheredRows]) -> tuple[int, int]:
    """Take what the next records of a transaction change, up to ``count`` of them, without decoding each.

    It stops at the first one that is not an Insert, a Delete or an Update under the same key of a table in
    ``gathered``, or is damaged: :func:`decode_records` says what that is.

    Returns:
        Where that record begins, and how many are left.
    """
    total = len(data)
    find, table_key, table_keys = gathered.get, _TI.unpack_from, _TII.unpack_from
    while count and start + _LEAST_FRAMED <= total:
        kind = data[start]
        if kind == _UPDATE:
            if start + _TII.size > total:
                break
            _, version, length, table_id, old, size = table_keys(data, start)
            one = None if old != _UNCHANGED else find(table_id)
            body = start + _TII.size
        elif kind == _INSERT:
            _, version, length, table_id, size = table_key(data, start)
            one = find(table_id)
            body = start + _TI.size
        else:
            if kind != _DELETE:
                break
            _, version, length, table_id = _T.unpack_from(data, start)
            one = find(table_id)
            body = start + _T.size
            size = length - 4
        end = start + FRAME_BYTES + length
        split = body + size
        if one is None or version != LAYOUT_VERSION or not body <= split <= end <= total:
            break
        if kind == _DELETE:
            one.rows[data[body:split]] = None
            one.net -= 1
        else:
            one.rows[data[body:split]] = data[split:end]
            if kind == _INSERT:
                one.net += 1
        one.size_bytes += end - body
        start = end
        count -= 1
    return start, count


def decode_record(data: bytes) -> Record:
    """The one record that ``data``, as ``encode`` wrote it, holds; RecordError if it is not."""
    return decode_records(data, 0, 1)[0]

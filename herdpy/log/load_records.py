"""The records that loads and change feeds ask for: staged rows, what a load came to, images of before.

Beside ``records``, which decodes them with all the others. A load's tasks write their rows to ledgers apart
from the log (``staging``); one ``LoadBatch`` names those that count and says of each row whether its key was
there, so that whoever applies the log, or only reads it, needs no look at the table for that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, ClassVar

from herdpy.log.errors import RecordError
from herdpy.log.record_frame import FRAME, at_least

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BEFORE = Struct(">BBIII")  # frame, table, key length
_BATCH = Struct(">IBqI")  # table, op, first row id, parts
_PART = Struct(">qqQIQ")
_DONE = Struct(">IQQQQ")
_U32X2 = Struct(">II")
_LOAD_ID_BYTES = 64


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
    type: ClassVar[int] = 20

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
    type: ClassVar[int] = 21

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
            _PART.pack(part.ledger_id, part.last_entry_id, part.size_bytes, part.crc, part.rows)
            for part in self.parts
        )
        head = _BATCH.pack(self.table_id, self.op, self.first_row_id, len(self.parts))
        size = len(head) + len(parts) + len(self.present)
        return b"".join((FRAME.pack(21, 1, size), head, parts, self.present))

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> LoadBatch:
        at_least(start, end, _BATCH.size)
        table_id, op, first_row_id, count = _BATCH.unpack_from(data, start)
        if op > LoadOp.DELETE:
            raise RecordError(f"a load does {op}, which is not known here")
        at = start + _BATCH.size
        at_least(start, end, _BATCH.size + count * _PART.size)
        stop = at + count * _PART.size
        parts = tuple(StagedPart(*one) for one in _PART.iter_unpack(data[at:stop]))
        record = LoadBatch(table_id, LoadOp(op), first_row_id, parts, data[stop:end])
        if len(record.present) > (record.rows + 7) >> 3:
            raise RecordError("a load says more of its rows than it has")
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
    type: ClassVar[int] = 22

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

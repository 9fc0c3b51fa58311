"""Store layer, bottom: a segment, which is columns of one table in one file, as of one state of LMDB.

Beside ``disk``; ``segments`` says where such files lie and which of them are good. Data passes through in two
ways: ``write`` puts the blocks of a :class:`SegmentDraft` into a file, ``SegmentFile`` maps one and gives
blocks of the wanted columns without a copy.

The file, all integers little-endian::

    part*     a column of a block as an Arrow IPC message of one column, its buffers at a multiple of 64 bytes
    footer    MessagePack of SegmentFooter
    trailer   length of the footer (8 bytes), its XXH3-128 (16 bytes), MAGIC (8 bytes)

The parts of a column lie one behind the other. Each has an XXH3-64 in the footer, which is compared before
Arrow sees a byte of it: Arrow trusts lengths and offsets. What does not fit is a SegmentDamagedError.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from xxhash import xxh3_64_intdigest, xxh3_128_digest, xxh3_128_hexdigest

from herdpy.log.files import sync_directory
from herdpy.log.lsn import LSN
from herdpy.machine import sync_all
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import encode_table

MAGIC = b"HPCOLS1\n"
_TRAILER = struct.Struct("<Q16s8s")
_PREFIX = struct.Struct("<Ii")
_ALIGNED = 64


class SegmentDamagedError(Exception):
    """A file that is no whole segment."""


class Stamp(NamedTuple):
    """What a table holds: how many rows, and their checksum, as the store keeps them for each table."""

    rows: int
    checksum: int


class SegmentPart(NamedTuple):
    """Where a column of a block lies, in bytes, and its XXH3-64."""

    start: int
    nbytes: int
    checksum: int


class SegmentFooter(msgspec.Struct, frozen=True):
    """What a segment says of itself.

    Attributes:
        store: the uuid of the store.
        table: the table's id.
        definition: as of ``definition_digest``.
        lsn: the position of the state, as ``ledger:entry``; for people.
        stamp: what the table holds in that state.
        positions: of the columns, in the table.
        block_rows: the rows of each block.
        parts: by column, by block.
        changed: keys whose rows may be others in that state than they are here.
    """

    store: str
    table: int
    definition: str
    lsn: str
    stamp: Stamp
    positions: list[int]
    block_rows: list[int]
    parts: list[list[SegmentPart]]
    changed: list[bytes]


@dataclass(frozen=True, slots=True)
class SegmentDraft:
    """A segment that is to be written.

    Attributes:
        table, positions: whose columns, and which of them ``blocks`` have, in this order.
        blocks: in the order of the keys; a column may be dictionaries, whose values are written.
        lsn, stamp: of the state of LMDB.
        changed: see SegmentFooter.
    """

    table: Table
    positions: tuple[int, ...]
    blocks: Sequence[pa.RecordBatch]
    lsn: LSN
    stamp: Stamp
    changed: Collection[bytes]


def definition_digest(table: Table, schema: pa.Schema) -> str:
    """What the meaning of a table's row images comes to: its columns, its key, and Arrow's types of them.

    Args:
        schema: of all columns of the table.
    """
    bare = Table(table.id, "", table.columns, table.key, "")
    return xxh3_128_hexdigest(encode_table(bare) + str(schema.types).encode())


def write(draft: SegmentDraft, store: str, definition: str, partial: Path, target: Path) -> int:
    """Write a segment, synced, at first as ``partial`` and then under its name; returns its bytes.

    Raises:
        OSError: it could not be written. What is left of it lies at ``partial``.
    """
    with partial.open("xb") as file:
        parts = [
            [_write_part(file, block, place) for block in draft.blocks]
            for place in range(len(draft.positions))
        ]
        footer = msgspec.msgpack.encode(
            SegmentFooter(
                store,
                draft.table.id,
                definition,
                str(draft.lsn),
                draft.stamp,
                list(draft.positions),
                [block.num_rows for block in draft.blocks],
                parts,
                list(draft.changed),
            )
        )
        file.write(footer)
        file.write(_TRAILER.pack(len(footer), xxh3_128_digest(footer), MAGIC))
        nbytes = file.tell()
        file.flush()
        sync_all(file.fileno())
    os.rename(partial, target)
    sync_directory(target.parent)
    return nbytes


def _write_part(file: Any, block: pa.RecordBatch, place: int) -> SegmentPart:
    column: Any = block.column(place)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    message = pa.RecordBatch.from_arrays([column], [block.schema.names[place]]).serialize()
    _, head_bytes = _PREFIX.unpack(message[: _PREFIX.size].to_pybytes())
    body = file.tell() + _PREFIX.size + head_bytes
    file.write(bytes(-body % _ALIGNED))
    start = file.tell()
    file.write(message)
    return SegmentPart(start, message.size, xxh3_64_intdigest(message))


class SegmentFile:
    """A segment, mapped into memory for as long as anything read out of it is in use.

    Attributes:
        footer: what it says of itself.
        nbytes: its size.
    """

    def __init__(self, path: Path) -> None:
        """SegmentDamagedError when it is not whole, OSError when it cannot be read."""
        self._path = path
        with pa.memory_map(str(path), "r") as mapped:
            self._buffer: Any = mapped.read_buffer()
        self.nbytes: int = self._buffer.size
        self.footer = self._footer()

    def _footer(self) -> SegmentFooter:
        at = self.nbytes - _TRAILER.size
        if at < 0:
            raise SegmentDamagedError(f"{self._path} is too short")
        nbytes, digest, magic = _TRAILER.unpack(self._buffer[at:].to_pybytes())
        if magic != MAGIC or nbytes > at:
            raise SegmentDamagedError(f"{self._path} has no end")
        footer = self._buffer[at - nbytes : at].to_pybytes()
        if xxh3_128_digest(footer) != digest:
            raise SegmentDamagedError(f"the checksum of the footer of {self._path} differs")
        try:
            return msgspec.msgpack.decode(footer, type=SegmentFooter)
        except msgspec.MsgspecError as error:
            raise SegmentDamagedError(f"the footer of {self._path}: {error}") from error

    def blocks(self, schema: pa.Schema, positions: Sequence[int]) -> list[pa.RecordBatch]:
        """The columns at these positions of the table, all of which it has; ``schema`` is theirs.

        Raises:
            SegmentDamagedError: what is there is not what was written.
        """
        places = [self.footer.positions.index(position) for position in positions]
        columns = [
            self._column(pa.schema([field]), place) for field, place in zip(schema, places, strict=True)
        ]
        return [
            pa.RecordBatch.from_arrays([column[nth] for column in columns], schema=schema)
            for nth in range(len(self.footer.block_rows))
        ]

    def _column(self, schema: pa.Schema, place: int) -> list[pa.Array[Any]]:
        read: Any = pa.ipc.read_record_batch
        arrays = []
        for part, rows in zip(self.footer.parts[place], self.footer.block_rows, strict=True):
            message = self._buffer[part.start : part.start + part.nbytes]
            if xxh3_64_intdigest(message) != part.checksum:
                raise SegmentDamagedError(f"the checksum of a part of {self._path} differs")
            array = read(message, schema).column(0)
            if len(array) != rows:
                raise SegmentDamagedError(f"a part of {self._path} has {len(array)} rows, not {rows}")
            arrays.append(array)
        return arrays

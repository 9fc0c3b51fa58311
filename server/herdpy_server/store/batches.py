"""Store layer, inside: Arrow batches as the log carries or names them, and as rows are kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from herdpy.codec.arrow_bytes import batch_to_images, batch_to_keys
from herdpy.log.records import InsertBatch, LoadBatch
from herdpy_sql.catalog import Table


class Expanded(NamedTuple):
    """The rows of an Arrow batch as they are kept."""

    keys: list[bytes]
    images: list[bytes]


def expand(table: Table, batch: pa.RecordBatch) -> Expanded:
    """Keys and images of a batch's rows, whose columns are the table's; ValueError when one does not fit."""
    keys = batch_to_keys(table.key_codec.fields, [batch.column(at) for at in table.key_positions])
    return Expanded(keys, batch_to_images(table.fields, batch))


def to_stream(batch: pa.RecordBatch) -> bytes:
    """An Arrow IPC stream of one batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def in_pieces(table: Table, stream: bytes, rows: int) -> Iterator[Expanded]:
    """What an Arrow IPC stream holds, so many rows at a time; ValueError when one does not fit."""
    with pa.ipc.open_stream(stream) as reader:
        for batch in reader:
            for start in range(0, batch.num_rows, rows):
                yield expand(table, batch.slice(start, rows))


def expanded(table: Table, record: InsertBatch) -> Expanded:
    """What a record's stream holds, made once and kept with the record."""
    if not isinstance(record.expanded, Expanded):
        keys: list[bytes] = []
        images: list[bytes] = []
        with pa.ipc.open_stream(record.stream) as reader:
            for batch in reader:
                one = expand(table, batch)
                keys += one.keys
                images += one.images
        record.expanded = Expanded(keys, images)
    return record.expanded


def staged_batches(record: LoadBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """The staged rows of a load, so many at a time; ValueError when they are not what the record says."""
    if not isinstance(record.staged, list):
        raise ValueError("the staged rows of a load were not read")
    for number, (part, stream) in enumerate(zip(record.parts, record.staged, strict=True)):
        count = 0
        with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
            for batch in reader:
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)
                count += batch.num_rows
        if count != part.rows:
            raise ValueError(f"staged ledger {part.ledger_id} has {count} rows, not {part.rows}")
        record.staged[number] = b""  # they are in memory as rows now

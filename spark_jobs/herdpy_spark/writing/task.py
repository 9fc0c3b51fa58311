"""One attempt at a partition: conform its rows, stage them, tell where they are. Above ``staging``.

StreamPieces makes record batches the pieces of one Arrow IPC stream, with its size and checksum; it is
pure.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import google_crc32c
import pyarrow as pa

from herdpy_spark.writing.conforming import Conformer
from herdpy_spark.writing.plan import Staged, TaskRows, WriteMode, WritePlan
from herdpy_spark.writing.staging import Sink, open_sink

_END = struct.pack("<Ii", 0xFFFFFFFF, 0)


class StreamPieces:
    """Gives the bytes of a stream piece by piece: ``start``, ``batch`` again and again, ``end``.

    Attributes:
        rows, size_bytes, crc: of what was given so far; ``crc`` is CRC32C.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.rows = 0
        self.size_bytes = 0
        self.crc = 0

    def start(self) -> bytes:
        """The schema's message."""
        return self._counted(self._schema.serialize().to_pybytes())

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """A batch's message."""
        self.rows += batch.num_rows
        return self._counted(batch.serialize().to_pybytes())

    def end(self) -> bytes:
        """The mark of the stream's end."""
        return self._counted(_END)

    def _counted(self, piece: bytes) -> bytes:
        self.size_bytes += len(piece)
        self.crc = google_crc32c.extend(self.crc, piece)
        return piece


def conformer_of(plan: WritePlan, partition: int | None = None) -> Conformer:
    """What makes a DataFrame's batches the plan's; rows to delete may have more columns than the key."""
    return Conformer(
        plan.columns,
        plan.constant_row(),
        key=plan.key,
        partition=partition,
        more=plan.mode is WriteMode.DELETE,
    )


def stage(
    plan: WritePlan,
    batches: Iterator[pa.RecordBatch],
    partition: int,
    task_attempt: int,
    *,
    open_sink: Callable[[WritePlan, int, int], Sink] = open_sink,
) -> TaskRows:
    """Stage a partition's rows as one stream, or several; nothing is made for a partition without rows.

    Raises:
        RowError: a row does not fit the table.
        ColumnError: the columns do not.
        LoadError: the rows cannot be stored.
    """
    conformer = conformer_of(plan, partition)
    sink: Sink | None = None
    parts: list[Staged] = []
    pieces: StreamPieces | None = None
    try:
        for batch in batches:
            for slice_ in conformer.batches(batch, plan.max_chunk_bytes):
                if sink is None:
                    sink = open_sink(plan, partition, task_attempt)
                if pieces is None:
                    pieces = StreamPieces(conformer.schema)
                    sink.write(pieces.start())
                sink.write(pieces.batch(slice_))
                if pieces.size_bytes >= sink.part_bytes:
                    parts.append(_ended(sink, pieces))
                    pieces = None
        if sink is not None:
            if pieces is not None:
                parts.append(_ended(sink, pieces))
            sink.close()
    except BaseException:
        if sink is not None:
            sink.abandon()
        raise
    return TaskRows(partition, task_attempt, tuple(parts))


def _ended(sink: Sink, pieces: StreamPieces) -> Staged:
    sink.write(pieces.end())
    return sink.finish(pieces.rows)

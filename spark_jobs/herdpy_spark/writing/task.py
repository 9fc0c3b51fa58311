"""One attempt at a partition: conform its rows, stage them, tell where they are. Above ``staging``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from herdpy_spark.writing.conforming import Conformer
from herdpy_spark.writing.messages import Staged, TaskRows
from herdpy_spark.writing.pieces import StreamPieces
from herdpy_spark.writing.plan import WriteMode, WritePlan
from herdpy_spark.writing.staging import Sink, open_sink


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

"""Carried rows: those of small partitions, which come in their tasks' messages and are staged together.

Above ``staging``. A ledger for each of hundreds of partitions of a few rows would cost more than the rows.
So a task stages only what is too much to be carried, and the driver writes the rest, partition after
partition, into parts that are sized by bytes, before it publishes. Neighbours in the order of partitions
share a part, for that is the order in which rows count.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from herdpy_spark.writing.plan import CarriedBatch, TaskRows, WritePlan, target_schema
from herdpy_spark.writing.staging import PartWriter, Sink, open_sink

_MOST_BYTES = 64 << 10
_ALL_BYTES = 64 << 20
_JOINED_BYTES = 1 << 20

ipc: Any = pa.ipc


def carried_bytes(partition: int) -> int:
    """How many bytes of rows a partition's message may carry.

    The number of partitions is not known to a task. The later ones may carry less, so that what the driver
    holds grows with the logarithm of their number: 64 MiB of a thousand, 360 MiB of a hundred thousand.
    """
    return min(_MOST_BYTES, _ALL_BYTES // (partition + 1))


def gathered(
    plan: WritePlan,
    ordered: Sequence[TaskRows],
    *,
    open_sink: Callable[[WritePlan, int, int], Sink] = open_sink,
) -> Iterator[TaskRows]:
    """The same rows, all of them staged: of partitions that share parts, the first has these.

    What was given when an error ends it is the caller's to remove.

    Args:
        ordered: in the order of partitions.

    Raises:
        LoadError: rows cannot be stored.
    """
    for is_carried, run in itertools.groupby(ordered, lambda one: bool(one.carried)):
        if is_carried:
            yield from _staged_together(plan, list(run), open_sink)
        else:
            yield from run


def _staged_together(
    plan: WritePlan, run: list[TaskRows], open_sink: Callable[[WritePlan, int, int], Sink]
) -> list[TaskRows]:
    first, schema = run[0], target_schema(plan.columns)
    writer = PartWriter(schema, partial(open_sink, plan, first.partition, first.task_attempt))
    try:
        carried = (batch for one in run for batch in one.carried)
        for batch in _joined(carried, schema, min(_JOINED_BYTES, plan.max_chunk_bytes)):
            writer.add(batch)
        parts = writer.end()
    except BaseException:
        writer.abandon()
        raise
    return [replace(one, parts=parts if one is first else (), carried=()) for one in run]


def _joined(carried: Iterable[CarriedBatch], schema: pa.Schema, most_bytes: int) -> Iterator[CarriedBatch]:
    """Batches of up to so many bytes: whoever publishes works on whole batches."""
    some: list[CarriedBatch] = []
    size_bytes = 0
    for batch in carried:
        if some and size_bytes + len(batch.message) > most_bytes:
            yield _one(some, schema)
            some, size_bytes = [], 0
        some.append(batch)
        size_bytes += len(batch.message)
    if some:
        yield _one(some, schema)


def _one(some: list[CarriedBatch], schema: pa.Schema) -> CarriedBatch:
    if len(some) == 1:
        return some[0]
    batches = [ipc.read_record_batch(pa.py_buffer(one.message), schema) for one in some]
    (whole,) = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return CarriedBatch(whole.serialize().to_pybytes(), whole.num_rows)

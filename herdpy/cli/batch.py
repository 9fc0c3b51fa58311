"""Command line, ``herdpy import``: the rows of one block, in the table's types.

A block is taken as it is, column by column; when something in it does not fit, record by record, so
that only what does not fit is left out. ``load`` ingests the batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from herdpy.cli.fields import TargetField, why
from herdpy.cli.rejects import Bad
from herdpy.cli.source import Array, RecordBlock, SourceRecord


@dataclass(frozen=True, slots=True)
class ImportBatch:
    """Rows, and the records they are, where those were needed."""

    rows: pa.RecordBatch
    records: list[SourceRecord] | None

    def part(self, begin: int, end: int) -> ImportBatch:
        """Some of them."""
        records = None if self.records is None else self.records[begin:end]
        return ImportBatch(self.rows.slice(begin, end - begin), records)


def _columns(fields: Sequence[TargetField], arrays: Sequence[Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(arrays), names=[field.name for field in fields])


def whole(block: RecordBlock, fields: Sequence[TargetField]) -> ImportBatch:
    """The rows of a block, column by column; Misfit when something in it does not fit."""
    return ImportBatch(_columns(fields, block.arrays(fields)), None)


def one_by_one(block: RecordBlock, fields: Sequence[TargetField]) -> tuple[ImportBatch, list[Bad]]:
    """The rows of a block in which something does not fit, and what does not."""
    from herdpy_sql.errors import SqlError

    good: list[SourceRecord] = []
    bad: list[Bad] = []
    columns: list[list[Any]] = [[] for _ in fields]
    for record in block.records(fields):
        if record.error is not None:
            bad.append(Bad(record, record.error))
            continue
        row = []
        for field in fields:
            value = record.values[field.place]
            try:
                row.append(None if value is None else field.convert(value))
            except SqlError as error:
                bad.append(Bad(record, f"column {field.name}: {why(error)}"))
                break
        else:
            good.append(record)
            for column, datum in zip(columns, row, strict=True):
                column.append(datum)
    arrays = [field.array_of_datums(column) for field, column in zip(fields, columns, strict=True)]
    return ImportBatch(_columns(fields, arrays), good), bad

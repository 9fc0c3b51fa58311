"""Store layer, inside: which table's database has a row of a partitioned table. Below ``transaction_state``.

A partitioned table has no rows; each partition is a table with a database, indexes and locks of its own, and
its rows have the form of the partitioned table. So a row goes where its values say, and is found where its
key says, which has the values of the partition key in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.codec.arrow import array_to_datums
from herdpy.imports import lazy_module
from herdpy_sql.partition_map import no_partition, partitions_of, siblings_of

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.partition_map import PartitionMap

pc: Any = lazy_module("pyarrow.compute")


def placed(catalog: Catalog, table: Table, values: Sequence[Datum]) -> Table:
    """Where a row goes that is written to ``table``. SqlError 23514: no partition takes it, or another."""
    if table.partition_key is not None:
        return partitions_of(catalog, table).route(values)
    siblings_of(catalog, table).check(table, values)
    return table


def holder(catalog: Catalog, table: Table, key: bytes) -> Table | None:
    """Where the row of ``table`` with that key is, if it is anywhere; None: it is nowhere."""
    return table if table.partition_key is None else partitions_of(catalog, table).of_key(key)


def grouped_keys(catalog: Catalog, table: Table, keys: Collection[bytes]) -> list[tuple[Table, list[bytes]]]:
    """The keys of rows by the partitions that have them."""
    found: dict[int, tuple[Table, list[bytes]]] = {}
    for key in keys:
        one = holder(catalog, table, key)
        if one is not None:
            found.setdefault(one.id, (one, []))[1].append(key)
    return list(found.values())


def grouped_rows(
    catalog: Catalog, table: Table, rows: Sequence[Sequence[Datum]]
) -> list[tuple[Table, list[Sequence[Datum]]]]:
    """Rows that are written to ``table`` by where they go. SqlError as of :func:`placed`."""
    found: dict[int, tuple[Table, list[Sequence[Datum]]]] = {}
    for row in rows:
        one = placed(catalog, table, row)
        found.setdefault(one.id, (one, []))[1].append(row)
    return list(found.values())


def grouped_batch(
    catalog: Catalog, table: Table, batch: pa.RecordBatch
) -> Iterator[tuple[Table, pa.RecordBatch]]:
    """The rows of a batch with every physical column by where they go. SqlError as of :func:`placed`."""
    spread = siblings_of(catalog, table) if table.bound is not None else partitions_of(catalog, table)
    key = spread.keyed.key_positions
    if len(key) == 1 and (only := _all_in_one(spread, batch.column(key[0]), key[0])) is not None:
        if table.bound is not None and only.id != table.id:
            spread.check(table, _row(table, batch, 0))
        yield only, batch
        return
    columns = [array_to_datums(table.fields[at], batch.column(at)) for at in key]
    places: dict[int, tuple[Table, list[int]]] = {}
    for nth, values in enumerate(zip(*columns, strict=True)):
        one = spread.of_values(values)
        if one is None and table.bound is None:
            raise no_partition(table, _row(table, batch, nth))
        if table.bound is not None and (one is None or one.id != table.id):
            spread.check(table, _row(table, batch, nth))
        assert one is not None
        places.setdefault(one.id, (one, []))[1].append(nth)
    for one, rows in places.values():
        yield one, batch if len(rows) == batch.num_rows else batch.take(pa.array(rows, pa.int64()))


def _all_in_one(spread: PartitionMap, column: Any, position: int) -> Table | None:
    """The partition that takes all of a column's values, where its ends say so; None where they do not."""
    kind = column.type
    if column.null_count or not len(column) or not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        return None
    ends = pc.min_max(column)
    both = pa.array([ends["min"].as_py(), ends["max"].as_py()], kind)
    low, high = array_to_datums(spread.table.fields[position], both)
    return spread.of_all_between(low, high)


def _row(table: Table, batch: pa.RecordBatch, nth: int) -> list[Datum]:
    return [
        array_to_datums(field, batch.column(at).slice(nth, 1))[0] for at, field in enumerate(table.fields)
    ]

"""Tables and queries as DataFrames: one state, cut into partitions that are read side by side.

Data passes through so: ``replica`` and ``from_log`` (with ``leases``) hold a state and read it, both as
``rows`` says; ``selection`` picks columns and rows out of a table's batches, ``query`` runs a SELECT over
several tables; ``reader`` is what Spark calls, and this module decides which of them it is.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy.log.lsn import LSN, START
from herdpy_spark.access import AccessError, SparkDatabase, find
from herdpy_spark.batch import from_log, replica
from herdpy_spark.batch.leases import lease_log
from herdpy_spark.batch.query import BatchQuery
from herdpy_spark.batch.selection import Selection
from herdpy_spark.directory import publish
from herdpy_spark.log import LogAddress
from herdpy_spark.options import OptionError, Options
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import decode_table, encode_table

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader
    from pyspark.sql.types import StructType

    from herdpy_spark.batch.rows import BatchRows, StateKeeper

__all__ = ["batch_reader", "batch_schema", "table_definition"]


def batch_schema(options: Options) -> StructType:
    """The columns of the table or query, in Spark's types.

    Raises:
        OptionError: an option makes no sense with the table.
        AccessError, herdpy.log.LogError: the database, or its log, cannot be reached.
    """
    from herdpy_spark.batch.reader import query_schema, table_schema

    database = find(options)
    if options.query is not None:
        query = BatchQuery.of(options.query)
        return query_schema(query, _definitions(database, options, query.tables()))
    assert options.table is not None
    (definition,) = _definitions(database, options, (options.table,))
    selection = Selection.of(definition, options.columns, options.where, 0)
    return table_schema(selection.table, selection.columns)


def table_definition(options: Options) -> Table:
    """The table of the options, as it is now (or at the snapshot). Raises as :func:`batch_schema`."""
    assert options.table is not None
    (definition,) = _definitions(find(options), options, (options.table,))
    return decode_table(definition)


def batch_reader(options: Options, schema: StructType) -> DataSourceReader:
    """Hold a state, and plan how it is read.

    Args:
        schema: what the batches shall be: that of ``batch_schema``, or columns of it.

    Raises:
        as :func:`batch_schema`.
    """
    from herdpy_spark.batch.reader import QueryReader, TableReader, check, query_schema, table_schema

    database = find(options)
    if options.query is not None:
        query = BatchQuery.of(options.query)
        rows = _rows_of_tables(database, options, query.tables())
        there = query_schema(query, rows.definitions)
        check(schema, there)
        if schema.names != there.names:
            raise OptionError(f"a query's columns are read as they are: {', '.join(there.names)}")
        return QueryReader(rows, query, schema)
    now_us = time.time_ns() // 1000
    rows = _rows_of_table(database, options, now_us)
    selection = Selection.of(rows.definitions[0], schema.names, options.where, now_us)
    check(schema, table_schema(selection.table, selection.columns))
    return TableReader(rows, selection, schema)


def _definitions(database: SparkDatabase, options: Options, tables: tuple[str, ...]) -> tuple[bytes, ...]:
    """Of tables, as they are read."""
    if database.servers is None or _reads_log(database, options):
        log = _log(database, options, lease=False)
        return from_log.plan_tables(log.address, tables, log.at, None, log.least).definitions
    return tuple(encode_table(table) for name in tables if (table := database.table(name)) is not None)


def _rows_of_table(database: SparkDatabase, options: Options, now_us: int) -> BatchRows:
    assert options.table is not None
    bounds = options.low, options.high
    partitions = options.partitions or _usual_partitions()
    if _reads_log(database, options):
        log = _log(database, options)
        return from_log.plan_table(
            log.address,
            options.table,
            log.at,
            partitions=partitions,
            bounds=bounds,
            keeper=log.keeper,
            least=log.least,
        )
    assert database.servers is not None
    definition = encode_table(table) if (table := database.table(options.table)) is not None else b""
    while True:
        keys = Selection.of(definition, None, options.where, now_us).keys()
        rows = replica.plan_table(
            database.servers,
            options.table,
            partitions=partitions,
            bounds=bounds,
            keys=keys,
            lease_s=options.lease_s,
        )
        if keys == (None, None) or decode_table(rows.definitions[0]).key == decode_table(definition).key:
            return rows
        definition = rows.definitions[0]  # made anew meanwhile, with another key


def _rows_of_tables(database: SparkDatabase, options: Options, tables: tuple[str, ...]) -> BatchRows:
    if _reads_log(database, options):
        log = _log(database, options)
        return from_log.plan_tables(log.address, tables, log.at, log.keeper, log.least)
    assert database.servers is not None
    return replica.plan_tables(database.servers, tables, options.lease_s)


def _reads_log(database: SparkDatabase, options: Options) -> bool:
    return database.servers is None or options.source == "log" or options.snapshot != "latest"


@dataclass(frozen=True, slots=True)
class _Log:
    """A log that is read from: at a position, or (None) at the newest, which is ``least`` or later."""

    address: LogAddress
    at: LSN | int | None
    keeper: StateKeeper | None
    least: LSN = START


def _log(database: SparkDatabase, options: Options, *, lease: bool = True) -> _Log:
    """The log, the position in it, and who keeps it."""
    at = None if isinstance(options.snapshot, str) else options.snapshot
    if database.directory is not None:
        publication = publish(database.directory)
        return _Log(publication.address, publication.newest if at is None else at, publication)
    address, least = database.log, START
    if database.servers is not None and (address is None or at is None):
        try:
            described = database.servers.describe()
            address, least = address or described.log, database.servers.newest(described)
        except AccessError as error:
            if address is None or not error.is_transient:
                raise  # otherwise ZooKeeper has said where the log is, and no server is needed
    assert address is not None, "the cluster in ZooKeeper has no servers"
    keeper: StateKeeper | None = None
    if lease and database.servers is not None:
        keeper = lease_log(database.servers, at, options.lease_s)
    return _Log(address, at, keeper, least)


def _usual_partitions() -> int:
    return max(2, min(16, os.cpu_count() or 2))

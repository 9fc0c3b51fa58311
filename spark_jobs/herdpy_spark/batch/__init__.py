"""Tables and queries as DataFrames: one state, cut into partitions that are read side by side.

``rows`` holds a state and reads it, ``strides`` cuts it at even steps, ``query`` picks of it; here is which
of them, and what Spark calls: the plan in the driver, partitions in the tasks. Spark makes one reader for a
DataFrame and keeps it, so all actions, and all DataFrames made of it, see one position. It goes to the tasks
pickled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from herdpy.log.lsn import LSN, START
from herdpy_spark.access import AccessError, SparkDatabase, find
from herdpy_spark.batch.query import BatchQuery, Selection
from herdpy_spark.batch.rows import (
    BatchRows,
    lease_log,
    plan_log_table,
    plan_log_tables,
    plan_replica_table,
    plan_replica_tables,
)
from herdpy_spark.batch.strides import Strides
from herdpy_spark.directory import publish
from herdpy_spark.lines import task_lines
from herdpy_spark.log import LogAddress
from herdpy_spark.options import OptionError, Options
from herdpy_spark.types import spark_schema, to_spark
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import decode_table, encode_table

if TYPE_CHECKING:
    from herdpy_spark.batch.rows import StateKeeper

__all__ = ["batch_reader", "batch_schema", "table_definition"]


def batch_schema(options: Options) -> StructType:
    """The columns of the table or query, in Spark's types.

    Raises:
        OptionError: an option makes no sense with the table.
        AccessError, herdpy.log.LogError: the database, or its log, cannot be reached.
    """
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
    database = find(options)
    if options.query is not None:
        query = BatchQuery.of(options.query)
        rows = _rows_of_tables(database, options, query.tables())
        with _released_by_errors(rows):
            there = query_schema(query, rows.definitions)
            check(schema, there)
            if schema.names != there.names:
                raise OptionError(f"a query's columns are read as they are: {', '.join(there.names)}")
            return QueryReader(rows, query, schema, options.batch_rows)
    now_us = time.time_ns() // 1000
    rows = _rows_of_table(database, options, now_us)
    with _released_by_errors(rows):
        selection = Selection.of(rows.definitions[0], schema.names, options.where, now_us)
        check(schema, table_schema(selection.table, selection.columns))
        return TableReader(rows, selection, schema, options.batch_rows)


@contextmanager
def _released_by_errors(kept: BatchRows | StateKeeper | None) -> Iterator[None]:
    """Release a state that no DataFrame reads because of an error of the block."""
    try:
        yield
    except BaseException:
        if kept is not None:
            kept.release()
        raise


def _definitions(database: SparkDatabase, options: Options, tables: tuple[str, ...]) -> tuple[bytes, ...]:
    """Of tables, as they are read."""
    if database.servers is None or _reads_log(database, options):
        log = _log(database, options, lease=False)
        return plan_log_tables(log.address, tables, log.at, None, log.least).definitions
    return tuple(encode_table(table) for name in tables if (table := database.table(name)) is not None)


def _rows_of_table(database: SparkDatabase, options: Options, now_us: int) -> BatchRows:
    if options.partition_column is None:
        partitions = options.partitions or _usual_partitions()
        return _rows_in_ranges(database, options, now_us, (options.low, options.high), partitions)
    assert options.low is not None
    assert options.high is not None
    assert options.partitions is not None
    strides = Strides(options.partition_column, options.low, options.high, options.partitions)
    rows = _rows_in_ranges(database, options, now_us, (None, None), 1)
    with _released_by_errors(rows):
        return strides.of(rows, decode_table(rows.definitions[0]))


def _rows_in_ranges(
    database: SparkDatabase,
    options: Options,
    now_us: int,
    bounds: tuple[str | None, str | None],
    partitions: int,
) -> BatchRows:
    assert options.table is not None
    if _reads_log(database, options):
        log = _log(database, options)
        with _released_by_errors(log.keeper):
            return plan_log_table(
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
        rows = plan_replica_table(
            database.servers,
            options.table,
            partitions=partitions,
            bounds=bounds,
            keys=keys,
            lease_s=options.lease_s,
        )
        if keys == (None, None) or decode_table(rows.definitions[0]).key == decode_table(definition).key:
            return rows
        rows.release()
        definition = rows.definitions[0]  # made anew meanwhile, with another key


def _rows_of_tables(database: SparkDatabase, options: Options, tables: tuple[str, ...]) -> BatchRows:
    if _reads_log(database, options):
        log = _log(database, options)
        with _released_by_errors(log.keeper):
            return plan_log_tables(log.address, tables, log.at, log.keeper, log.least)
    assert database.servers is not None
    return plan_replica_tables(database.servers, tables, options.lease_s)


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


class TableReader(DataSourceReader):
    """Reads a table in partitions; ``schema`` is what Spark expects of batches of ``batch_rows`` at most."""

    def __init__(
        self, rows: BatchRows, selection: Selection, schema: StructType, batch_rows: int | None
    ) -> None:
        self._rows, self._selection, self._schema = rows, selection, schema
        self._batch_rows = batch_rows

    @property
    def lsn(self) -> LSN:
        """The position that is read at."""
        return self._rows.lsn

    @property
    def definition(self) -> str:
        """Of the table there, the catalog's JSON."""
        return self._rows.definitions[0].decode()

    def release(self) -> None:
        """Nobody reads the state any more; it raises nothing."""
        self._rows.release()

    def partitions(self) -> Sequence[InputPartition]:
        """See Spark; one for each range of keys."""
        return [InputPartition(number) for number in range(self._rows.count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See Spark. SqlError for what the condition meets, LapsedError when the lease was over."""
        found = self._read(partition)
        yield from task_lines("read rows", found, table=self._selection.table.name, position=str(self.lsn))

    def _read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        selection = self._selection
        table = selection.table
        types = [table.columns[table.positions[name]].type for name in self._schema.names]
        with self._rows.held():
            batches = self._rows.read(partition.value, selection.needed(), *selection.keys())
            for batch in selection.apply(batches):
                yield from _pieces(to_spark(batch, self._schema, types), self._batch_rows)


class QueryReader(DataSourceReader):
    """Runs a query in one task; ``schema`` is what Spark expects of batches of ``batch_rows`` at most."""

    def __init__(
        self, rows: BatchRows, query: BatchQuery, schema: StructType, batch_rows: int | None
    ) -> None:
        self._rows, self._query, self._schema = rows, query, schema
        self._batch_rows = batch_rows

    @property
    def lsn(self) -> LSN:
        """The position that is read at."""
        return self._rows.lsn

    @property
    def definition(self) -> str:
        """Empty: a query has none."""
        return ""

    def release(self) -> None:
        """As of a table."""
        self._rows.release()

    def partitions(self) -> Sequence[InputPartition]:
        """See Spark; the whole query."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See Spark. Errors as of a table."""
        yield from task_lines("read a query's rows", self._run(), position=str(self.lsn))

    def _run(self) -> Iterator[pa.RecordBatch]:
        types = [type_ for _, type_ in self._query.columns(self._rows.definitions)]
        with self._rows.held():
            for batch in self._query.run(self._rows):
                yield from _pieces(to_spark(batch, self._schema, types), self._batch_rows)


def _pieces(batch: pa.RecordBatch, most_rows: int | None) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of so many rows at most; None or 0: as it is."""
    step = most_rows or max(batch.num_rows, 1)
    yield from (batch.slice(at, step) for at in range(0, batch.num_rows, step))


def table_schema(table: Table, columns: Sequence[str]) -> StructType:
    """Of columns of a table."""
    found = [table.columns[table.positions[name]] for name in columns]
    return spark_schema([(one.name, one.type, not one.not_null) for one in found])


def query_schema(query: BatchQuery, definitions: Sequence[bytes]) -> StructType:
    """Of a query's result. OptionError when it makes no sense."""
    columns = query.columns(definitions)
    return spark_schema([(name, type_, True) for name, type_ in columns])


def check(wanted: StructType, there: StructType) -> None:
    """That Spark, or ``schema(...)`` of the job, expects of each column what it is.

    Raises:
        OptionError: it does not; the table may have been altered since the schema was asked for.
    """
    for field in wanted:
        found = next((one for one in there if one.name == field.name), None)
        if found is None:
            raise OptionError(f"there is no column {field.name}: {', '.join(there.names)}")
        if found.dataType != field.dataType or (found.nullable and not field.nullable):
            raise OptionError(
                f"the column {field.name} is {_shown(found.dataType.simpleString(), found.nullable)}, not "
                f"{_shown(field.dataType.simpleString(), field.nullable)}"
            )


def _shown(type_: str, nullable: bool) -> str:
    return type_ if nullable else f"{type_} NOT NULL"

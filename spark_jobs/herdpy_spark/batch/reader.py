"""What Spark calls to read a table or a query: the plan in the driver, partitions in the tasks. Top of batch.

Spark makes one reader for a DataFrame and keeps it: all its actions, and all DataFrames made of it, see one
position. It goes to the tasks pickled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from herdpy.log.lsn import LSN
from herdpy_spark.batch.query import BatchQuery
from herdpy_spark.batch.rows import BatchRows
from herdpy_spark.batch.selection import Selection
from herdpy_spark.options import OptionError
from herdpy_spark.types import column_of, spark_schema, to_spark
from herdpy_sql.catalog import Table


class TableReader(DataSourceReader):
    """Reads a table in partitions; ``schema`` is what Spark expects of the batches."""

    def __init__(self, rows: BatchRows, selection: Selection, schema: StructType) -> None:
        self._rows, self._selection, self._schema = rows, selection, schema

    @property
    def lsn(self) -> LSN:
        """The position that is read at."""
        return self._rows.lsn

    def partitions(self) -> Sequence[InputPartition]:
        """See Spark; one for each range of keys."""
        return [InputPartition(number) for number in range(self._rows.count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See Spark. SqlError for what the condition meets, LapsedError when the lease was over."""
        selection = self._selection
        table = selection.table
        types = [table.columns[table.positions[name]].type for name in self._schema.names]
        with self._rows.held():
            batches = self._rows.read(partition.value, selection.needed(), *selection.keys())
            for batch in selection.apply(batches):
                yield to_spark(batch, self._schema, types)


class QueryReader(DataSourceReader):
    """Runs a query in one task; ``schema`` is what Spark expects of the batches."""

    def __init__(self, rows: BatchRows, query: BatchQuery, schema: StructType) -> None:
        self._rows, self._query, self._schema = rows, query, schema

    @property
    def lsn(self) -> LSN:
        """The position that is read at."""
        return self._rows.lsn

    def partitions(self) -> Sequence[InputPartition]:
        """See Spark; the whole query."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See Spark. Errors as of a table."""
        types = [type_ for _, type_ in self._query.columns(self._rows.definitions)]
        with self._rows.held():
            for batch in self._query.run(self._rows):
                yield to_spark(batch, self._schema, types)


def table_schema(table: Table, columns: Sequence[str]) -> StructType:
    """Of columns of a table."""
    found = [table.columns[table.positions[name]] for name in columns]
    return spark_schema([column_of(one.name, one.type, nullable=not one.not_null) for one in found])


def query_schema(query: BatchQuery, definitions: Sequence[bytes]) -> StructType:
    """Of a query's result. OptionError when it makes no sense."""
    columns = query.columns(definitions)
    return spark_schema([column_of(name, type_, nullable=True) for name, type_ in columns])


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

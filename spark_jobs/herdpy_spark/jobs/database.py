"""The database that a job works on: its log, its tables' keys, and DataFrames whose position is known.

Above the data source. Spark plans a DataFrame's reading in a process of its own, and has no way to tell what
position was chosen there. A job must know it, since the position is what the next export goes on from. So
``pinned`` chooses the position here: a state of the log by its position, a state of a replica by planning its
reading in this process and handing the plan to Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from herdpy.log.lsn import LSN
from herdpy_spark.jobs.job import JobError
from herdpy_spark.options import Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from herdpy_spark.access import SparkDatabase as Access
    from herdpy_spark.log import LogAddress
    from herdpy_spark.writing.plan import WriteOutcome
    from herdpy_sql.catalog import Table


@dataclass(frozen=True, slots=True)
class Pinned:
    """Rows at one position.

    Attributes:
        definition: of the table there, the catalog's JSON; empty for a query.
    """

    lsn: LSN
    frame: DataFrame
    schema: StructType
    definition: str


class JobDatabase:
    """A tablespace, and a table of it.

    Args:
        base: the data source's options that say where it is.
        table: None where there is none, as of a query.
    """

    def __init__(self, base: dict[str, str], table: str | None) -> None:
        self._base = base
        self._table = table

    @cached_property
    def access(self) -> Access:
        """The servers, or the directory. JobError: nobody answers there."""
        from herdpy_spark.access import AccessError, find
        from herdpy_spark.options import OptionError

        try:
            return find(Options.parse(self._base | {"table": self._table or "none"}))
        except (AccessError, OptionError) as error:
            raise JobError(str(error)) from error

    @cached_property
    def address(self) -> LogAddress:
        """Where the log is."""
        return self.access.address()

    @property
    def log_id(self) -> str:
        """The log's own identity; empty where it is not known."""
        return self.address.log_id

    @cached_property
    def definition(self) -> Table:
        """The table's; JobError when there is none."""
        from herdpy_spark.access import AccessError
        from herdpy_spark.batch import table_definition

        assert self._table is not None
        try:
            return table_definition(Options.parse(self._base | {"table": self._table}))
        except AccessError as error:
            raise JobError(str(error)) from error

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the primary key's columns; none where there is none."""
        return key_names(self.definition)

    @contextmanager
    def pinned(
        self, spark: SparkSession, selection: dict[str, str], reading: dict[str, str]
    ) -> Iterator[Pinned]:
        """The rows that are asked for, at a position that stands in the report; held until the block ends."""
        from herdpy_spark.batch import batch_reader, batch_schema

        options = Options.parse(self._base | selection | reading, "read")
        schema = batch_schema(options)
        reader: Any = batch_reader(options, schema)
        try:
            frame = _frame(spark, reader, reader.partitions(), schema)
            yield Pinned(reader.lsn, frame, schema, reader.definition)
        finally:
            reader.release()


def key_names(table: Table) -> tuple[str, ...]:
    """Names of the primary key's columns; none where there is none."""
    return () if table.has_hidden_key else tuple(table.columns[at].name for at in table.key_positions)


def _frame(spark: SparkSession, reader: Any, partitions: list[Any], schema: StructType) -> DataFrame:
    """What the reader reads, a task for each partition."""
    if not partitions:
        return spark.createDataFrame([], schema)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from reader.read(partitions[int(number or 0)])

    numbers = spark.range(0, len(partitions), 1, len(partitions))
    return numbers.mapInArrow(read, schema)


def load_outcome(options: dict[str, str], load_id: str, mode: str, columns: list[str]) -> WriteOutcome | None:
    """What a load came to, if it was published; None: it was not."""
    from herdpy_spark.writing import loads_of
    from herdpy_spark.writing.plan import WriteMode, WriteOutcome

    # Whoever begins a load that was published gets its outcome.
    found = loads_of(Options.parse(options, "write")).begin(
        load_id, options["table"], WriteMode(mode), columns
    )
    return found if isinstance(found, WriteOutcome) else None

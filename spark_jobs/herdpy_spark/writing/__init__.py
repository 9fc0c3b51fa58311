"""Writing a DataFrame: tasks stage their rows, the driver publishes them all at once or not at all.

``load_writer`` runs once, beside the driver, and plans the load; the writer is then pickled to every task
(``write``) and to one more process (``commit`` or ``abort``). Spark calls ``abort`` also when ``commit``
raised, whatever the leader has done by then: the leader knows.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema

from herdpy_spark.access import find
from herdpy_spark.lines import task_lines
from herdpy_spark.options import OptionError, Options
from herdpy_spark.workers import freeze_worker
from herdpy_spark.writing.conforming import matched
from herdpy_spark.writing.directory import DirectoryLoads
from herdpy_spark.writing.gathering import carried_bytes, gathered
from herdpy_spark.writing.loads import LoadService, ServerLoads
from herdpy_spark.writing.plan import LoadError, TaskRows, WriteMode, WriteOutcome, WritePlan, staged_in_order
from herdpy_spark.writing.staging import conformer_of, stage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_NO_SUCH_COLUMN = "42703"


def begin(
    loads: LoadService, load_id: str, table: str, mode: WriteMode, schema: pa.Schema
) -> WritePlan | WriteOutcome:
    """What to stage of a DataFrame with this schema, or what the load came to when it was published before.

    Raises:
        LoadError: the server says no.
        ColumnError: columns are not the table's, or cannot be stored there.
    """
    plan = _begun(loads, load_id, table, mode, schema.names)
    if isinstance(plan, WriteOutcome):
        return plan
    definition = loads.definition(table)
    if definition is not None and definition.id == plan.table_id:
        plan = plan.of_table(definition)
    conformer_of(plan).check(schema)
    return plan


def _begun(
    loads: LoadService, load_id: str, table: str, mode: WriteMode, names: Sequence[str]
) -> WritePlan | WriteOutcome:
    """Begin with the table's own names for the columns: Spark's may differ in case."""
    try:
        return loads.begin(load_id, table, mode, names)
    except LoadError as error:
        definition = loads.definition(table) if error.sqlstate == _NO_SUCH_COLUMN else None
        if definition is None:
            raise
        own = [definition.columns[at].name for at in definition.visible]
    return loads.begin(load_id, table, mode, list(matched(names, own)))


_log = logging.getLogger("herdpy_spark.writer")


class LoadWriter(DataSourceArrowWriter):
    """One load. Attempts at tasks stage their rows; the commit publishes the winners', in partition order."""

    def __init__(self, loads: LoadService, plan: WritePlan | WriteOutcome) -> None:
        """Args:
        plan: the outcome of a load that was published before: then nothing is written or read.
        """
        self._loads = loads
        self._plan = plan

    def write(  # type: ignore[override]  # Spark's own class breaks its base's promise
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """In a task: stage its rows. Raises RowError, ColumnError, LoadError."""
        context = TaskContext.get()
        assert context is not None, "a writer writes in a task"
        partition, attempt = context.partitionId(), context.taskAttemptId()
        if isinstance(self._plan, WriteOutcome):
            return TaskRows(partition, attempt)
        plan = self._plan
        given = task_lines("stage rows", iterator, table=plan.table, load_id=plan.load_id)
        rows = stage(plan, given, partition, attempt, carried_bytes=carried_bytes(partition))
        freeze_worker()
        return rows

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Beside the driver: publish. Raises LoadError, LoadUnknownError."""
        if isinstance(self._plan, WriteOutcome):
            return
        outcome = self._published(self._plan, staged_in_order(_rows(messages)))
        _log.info("a load was published", extra={"load": outcome})

    def _published(self, plan: WritePlan, ordered: list[TaskRows]) -> WriteOutcome:
        """Stage what tasks have carried here, and publish all."""
        staged: list[TaskRows] = []
        try:
            staged.extend(gathered(plan, ordered))
            return self._loads.publish(plan, staged)
        except Exception:
            if any(one.carried for one in ordered):  # Spark's own abort knows what tasks have staged
                self._loads.abort(plan, staged)
            raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Beside the driver: remove what was staged. After a commit that was done it does nothing."""
        if not isinstance(self._plan, WriteOutcome):
            self._loads.abort(self._plan, _rows(messages))


def _rows(messages: list[WriterCommitMessage | None]) -> list[TaskRows]:
    return [one for one in messages if isinstance(one, TaskRows)]


def load_writer(options: Options, schema: StructType, overwrite: bool) -> LoadWriter:
    """Begin the load that the options ask for.

    Args:
        schema: the DataFrame's.
        overwrite: Spark's save mode: the table's rows give way.

    Raises:
        OptionError: options contradict each other, or the URL makes no sense.
        AccessError: the database is not found.
        LoadError: its server says no.
        ColumnError: the DataFrame's columns are not those of the table.
    """
    assert options.table is not None, "Options.parse takes no query for df.write"
    loads, mode = loads_of(options), mode_of(options, overwrite)
    arrow = to_arrow_schema(schema, timezone="UTC")
    return LoadWriter(loads, begin(loads, options.load_id or new_load_id(), options.table, mode, arrow))


def loads_of(options: Options) -> LoadService:
    """Who publishes loads where the options say. AccessError; LoadError: nobody does."""
    database = find(options)
    if database.directory is not None:
        return DirectoryLoads(database.directory)
    if database.servers is None:
        raise LoadError("every server of the tablespace is stopped, and one must publish the load")
    return ServerLoads(database.servers.places, database.servers.tablespace)


def mode_of(options: Options, overwrite: bool) -> WriteMode:
    """The mode of Spark's save mode and the option ``mode``; OptionError when they contradict each other."""
    if overwrite:
        if options.mode not in {None, "append"}:
            raise OptionError(
                f'the option mode is {options.mode}, and the save mode overwrite: use .mode("append") with it'
            )
        return WriteMode.OVERWRITE
    return WriteMode(options.mode or "append")


def new_load_id() -> str:
    """A name for a load that was given none."""
    return f"spark-{uuid.uuid4()}"


__all__ = ["load_writer", "loads_of"]

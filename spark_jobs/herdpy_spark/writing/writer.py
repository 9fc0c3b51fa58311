"""What Spark calls to write a DataFrame. The top of the package.

``load_writer`` runs once, beside the driver, and plans the load; the writer then is pickled to every task
(``write``) and, at the end, to one more process (``commit`` or ``abort``), so all it knows is in its fields.
Spark calls ``abort`` also when ``commit`` raised, whatever the leader has done by then: the leader knows.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from herdpy_spark.options import OptionError, Options
from herdpy_spark.writing.loads import Loads
from herdpy_spark.writing.messages import TaskRows, staged_in_order
from herdpy_spark.writing.plan import LoadMode, LoadOutcome, LoadPlan
from herdpy_spark.writing.task import stage

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("herdpy_spark.writer")


class LoadWriter(DataSourceArrowWriter):
    """One load. Attempts at tasks stage their rows; the commit publishes the winners', in partition order."""

    def __init__(self, loads: Loads, plan: LoadPlan | LoadOutcome) -> None:
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
        if isinstance(self._plan, LoadOutcome):
            return TaskRows(partition, attempt, None)
        return stage(self._plan, iterator, partition, attempt)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Beside the driver: publish. Raises LoadError, LoadUnknownError."""
        if isinstance(self._plan, LoadOutcome):
            return
        outcome = self._loads.publish(self._plan, staged_in_order(_rows(messages)))
        _log.info("a load was published", extra={"load": outcome})

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Beside the driver: remove what was staged. After a commit that was done it does nothing."""
        if not isinstance(self._plan, LoadOutcome):
            self._loads.abort(self._plan, [one for one in _rows(messages) if one.staged is not None])


def _rows(messages: list[WriterCommitMessage | None]) -> list[TaskRows]:
    return [one for one in messages if isinstance(one, TaskRows)]


def mode_of(options: Options, overwrite: bool) -> LoadMode:
    """The mode of Spark's save mode and the option ``mode``; OptionError when they contradict each other."""
    if overwrite:
        if options.mode not in {None, "append"}:
            raise OptionError(
                f'the option mode is {options.mode}, and the save mode overwrite: use .mode("append") with it'
            )
        return LoadMode.OVERWRITE
    return LoadMode(options.mode or "append")


def new_load_id() -> str:
    """A name for a load that was given none."""
    return f"spark-{uuid.uuid4()}"

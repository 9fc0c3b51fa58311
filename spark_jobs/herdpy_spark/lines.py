"""Lines of JSON about a job's tasks, on the standard error of Spark's processes of Python.

At the bottom: it knows nothing of tables. The driver puts what a line has of the job (its run, its name, its
table) into one local property of Spark, which Spark hands to every task of that job; without it a task writes
nothing. The lines are a server's (``herdpy.logging_lines``), so one collector reads both.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from herdpy.logging_lines import JsonFormatter

if TYPE_CHECKING:
    import pyarrow as pa

PROPERTY = "herdpy.lines"
LOGGER = "herdpy.spark"
_IN_URL = re.compile(r"(//[^/@:\s]*):[^/@\s]*@")


def write_line(message: str, fields: dict[str, Any], *, level: str = "info") -> None:
    """Write one line to standard error, without passwords that stand in URLs."""
    known = {"name": LOGGER, "levelname": level.upper(), "msg": without_passwords(message)}
    record = logging.makeLogRecord({**fields, **known})
    sys.stderr.write(JsonFormatter().format(record) + "\n")
    sys.stderr.flush()


def without_passwords(text: str) -> str:
    """A text whose URLs have lost their passwords."""
    return _IN_URL.sub(r"\1:***@", text)


def task_lines(work: str, batches: Iterator[pa.RecordBatch], **fields: object) -> Iterator[pa.RecordBatch]:
    """The batches of a task's work, with a line when it begins, and one when it is done or fails.

    Args:
        work: what the task does, such as "read rows".
        fields: of the lines, such as the table and the position.
    """
    about = _about()
    if about is None:
        yield from batches
        return
    about |= fields
    began, rows = time.perf_counter(), 0
    write_line(f"{work}: begun", about)
    try:
        for batch in batches:
            rows += batch.num_rows
            yield batch
    except Exception as error:
        failed = about | {"rows": rows, "error": without_passwords(f"{type(error).__name__}: {error}")}
        write_line(f"{work}: failed", failed, level="error")
        raise
    write_line(f"{work}: done", about | {"rows": rows, "seconds": round(time.perf_counter() - began, 3)})


def _about() -> dict[str, Any] | None:
    """What the job's lines have, and where in Spark this task is; None: no lines are asked for."""
    from pyspark import TaskContext

    context = TaskContext.get()
    given = context.getLocalProperty(PROPERTY) if context is not None else None
    if context is None or not given:
        return None
    found: dict[str, Any] = json.loads(given)
    return found | {
        "stage": context.stageId(),
        "partition": context.partitionId(),
        "attempt": context.attemptNumber(),
        "task_attempt": context.taskAttemptId(),
    }

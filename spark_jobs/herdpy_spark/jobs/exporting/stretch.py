"""A stretch of the change feed, from a position to the log's end, read once and kept while it is merged.

The feed is a stream; ``availableNow`` runs it to the position that was the end when it began, which is the
end of a transaction. Its batches are kept as Parquet beside the export, under the number that Spark gives
them: a batch that is tried again takes the place of what it left. What is kept is removed when the merge is
over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy.log.lsn import LSN
from herdpy_spark.jobs.errors import JobError
from herdpy_spark.jobs.exporting.places import ExportPlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCRATCH = "_scratch"
_TRIMMED = "LogTrimmedError"


@dataclass(frozen=True, slots=True)
class ExportStretch:
    """Changes after one position up to another.

    Attributes:
        upto: the end of a transaction; the position after which the next stretch begins.
        changes: rows of the feed, in any order.
    """

    upto: LSN
    changes: DataFrame


@contextmanager
def stretch(
    spark: SparkSession, options: dict[str, str], after: LSN, at: ExportPlace, run_id: str
) -> Iterator[ExportStretch]:
    """The changes after a position.

    Raises:
        JobError: the log does not go back as far.
    """
    scratch = f"{SCRATCH}/{run_id}"
    at.remove(scratch)
    feed = spark.readStream.format("herdpy").options(**options, startingOffsets=str(after)).load()
    schema = feed.schema
    batches: list[int] = []

    def keep(batch: DataFrame, number: int) -> None:
        batches.append(number)
        batch.write.mode("overwrite").parquet(at.join(f"{scratch}/batch-{number}"))

    try:
        query = (
            feed.writeStream.foreachBatch(keep)
            .option("checkpointLocation", at.join(f"{scratch}/checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except Exception as error:
            query.stop()
            if _TRIMMED in str(error) or "trimmed" in str(error):
                raise JobError(
                    f"the changes after {after} are not in the log any more: {error_line(error)}",
                    hint="Run a full export, and the next ones more often; or keep the log for longer.",
                ) from error
            raise
        progress = query.lastProgress
        end = None if progress is None else progress["sources"][0]["endOffset"]
        upto = after if end is None else _position(end)
        kept = [at.join(f"{scratch}/batch-{number}") for number in sorted(set(batches))]
        changes = spark.read.schema(schema).parquet(*kept) if kept else spark.createDataFrame([], schema)
        yield ExportStretch(upto, changes)
    finally:
        at.remove(scratch)


def _position(offset: object) -> LSN:
    found = json.loads(offset) if isinstance(offset, str) else offset
    assert isinstance(found, dict)
    return LSN(int(found["ledger"]), int(found["entry"]))


def error_line(error: BaseException) -> str:
    """The line of a long error that says what it was about."""
    lines = [line.strip() for line in str(error).splitlines() if "rror:" in line or "trimmed" in line]
    return lines[-1] if lines else str(error).splitlines()[0]

"""What has changed since an export: a stretch of the change feed, read once, and its net effect.

    changes (op, key, after, sequence, schema) -> one row a key: its columns, and whether it is gone

A stretch goes from a position to the log's end, and is kept while it is merged. The feed is a stream;
``availableNow`` runs it to the position that was the end when it began, which is the end of a transaction.
Its batches are kept as Parquet beside the export, under the number that Spark gives them: a batch that is
tried again takes the place of what it left. What is kept is removed when the merge is over.

The net effect is what became of each key, and whether all else went away. A truncation (or the table's
being dropped and made again with the same columns) voids all rows before it, those of the generation before
and those changed before it in the same stretch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy.log.lsn import LSN
from herdpy_spark.jobs.errors import JobError
from herdpy_spark.jobs.exporting.fingerprint import quoted
from herdpy_spark.jobs.exporting.places import ExportPlace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


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


GONE = "__gone"
"""Column of a change set: the key's row was deleted."""
_HALF = "__half"
_SEQUENCE = "sequence"
_VOIDING = ("truncate", "drop")
_DEFINING = ("create", "alter", "drop")


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """What happened to a table after a generation.

    Attributes:
        rows: one row a key that changed: the table's columns, and ``GONE``. A key that is gone has NULL in
            all columns but the key's.
        voided: no row of the generation before is left but those that ``rows`` brings again.
        events: how many changes of rows there were.
        defined: the table's definition changed: (op, JSON) of each change, in order.
    """

    rows: DataFrame
    voided: bool
    events: int
    defined: tuple[tuple[str, str | None], ...]


def net(feed: DataFrame, schema: StructType, key: tuple[str, ...]) -> ChangeSet:
    """The change set of a stretch of the feed, which must be whole and can be in any order.

    Args:
        schema: the columns wanted.
        key: names of the key's columns, which are among them.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.window import Window

    told = (
        feed.where(sql.col("op").isin(*_VOIDING, *_DEFINING))
        .select("op", "schema", _SEQUENCE)
        .sort(_SEQUENCE)
        .collect()
    )
    voids = [row for row in told if row["op"] in _VOIDING]
    changed = feed.where(sql.col("op").isin("insert", "update", "delete"))
    if voids:
        last = voids[-1][_SEQUENCE].asDict()
        kind = feed.schema[_SEQUENCE].dataType.simpleString()
        changed = changed.where(
            sql.col(_SEQUENCE) > sql.struct(*(sql.lit(v).alias(n) for n, v in last.items())).cast(kind)
        )
    # An update can give a row another key: it ends one key's row and makes another's, in this order.
    ended = changed.where("op <> 'insert'").select(*_columns(schema, key, "key", gone=True))
    made = changed.where("op <> 'delete'").select(*_columns(schema, key, "after", gone=False))
    by_key = Window.partitionBy(*map(quoted, key)).orderBy(sql.col(_SEQUENCE).desc(), sql.col(_HALF).desc())
    newest = ended.unionByName(made).withColumn("__nth", sql.row_number().over(by_key)).where("__nth = 1")
    return ChangeSet(
        newest.drop("__nth", _HALF, _SEQUENCE),
        bool(voids),
        changed.count(),
        tuple((row["op"], row["schema"]) for row in told if row["op"] in _DEFINING),
    )


def _columns(schema: StructType, key: tuple[str, ...], source: str, *, gone: bool) -> list[Column]:
    """A change's columns: all of ``after``, or the ``key`` alone."""
    from pyspark.sql import functions as sql

    columns = [
        sql.col(f"{source}.{quoted(one.name)}").cast(one.dataType).alias(one.name)
        if not gone or one.name in key
        else sql.lit(None).cast(one.dataType).alias(one.name)
        for one in schema.fields
    ]
    half = sql.lit(0 if gone else 1).alias(_HALF)
    return [*columns, sql.lit(gone).alias(GONE), half, sql.col(_SEQUENCE)]

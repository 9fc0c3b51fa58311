"""The job ``changes``: the change feed of a table, into files, a table of Delta Lake, or the console.

    readStream -> envelope (one column a part of the change, or key and value as messages have them) -> sink

It runs until it is stopped, or with --available-now to the position that is the log's end when it begins.
Where it stopped is in its checkpoint, and it goes on exactly there: sinks of files and Delta take each batch
once.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, cast

from herdpy_spark.jobs.database import JobDatabase
from herdpy_spark.jobs.exporting.generations import for_spark
from herdpy_spark.jobs.exporting.rows import TIMES
from herdpy_spark.jobs.job import (
    JobError,
    JobRun,
    SparkJob,
    UsageError,
    count,
    given,
    shown_url,
    source_options,
)
from herdpy_spark.jobs.running import main

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

_OTHER_COLUMNS = "SchemaChangedError"  # a stream's columns are settled when it begins
SINKS = ("parquet", "json", "delta", "console")


def _arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what")
    what.add_argument("--table", required=True, help="the table")
    what.add_argument(
        "--starting",
        default="earliest",
        metavar="earliest|latest|LSN|TIME",
        help="where to begin where there is no checkpoint (earliest)",
    )
    what.add_argument(
        "--on-trimmed", choices=("error", "snapshot"), help="when the log does not go back as far (error)"
    )
    what.add_argument("--max-entries", type=count, metavar="N", help="entries of the log in a batch, at most")
    when = parser.add_argument_group("when")
    when.add_argument("--available-now", action="store_true", help="stop at what is the log's end now")
    when.add_argument("--every", default="1 second", metavar="INTERVAL", help="between batches (1 second)")
    where = parser.add_argument_group("where to")
    where.add_argument(
        "--format", choices=SINKS, required=True, help="json: lines of key and value, as for Kafka"
    )
    where.add_argument("--to", metavar="PATH", help="directory or URL; not for console")
    where.add_argument(
        "--checkpoint", metavar="PATH", help="where the position is kept; <to>/_checkpoint where not given"
    )
    where.add_argument(
        "--apply", action="store_true", help="with delta: keep a copy of the table, instead of its changes"
    )


def run(this: JobRun) -> None:
    """Follow the table. UsageError for what does not fit together; what ends the stream otherwise."""
    arguments = this.arguments
    sink = arguments.format
    if (sink == "console") == bool(arguments.to):
        raise UsageError("--to is needed" if sink != "console" else "--to is not for the console")
    if arguments.apply and sink != "delta":
        raise UsageError("--apply is for --format delta")
    base = source_options(arguments)
    options = base | {"table": arguments.table, "startingOffsets": arguments.starting}
    options |= given(arguments, on_trimmed="onTrimmed", max_entries="maxEntriesPerTrigger")
    this.report |= {
        "url": shown_url(base["url"]),
        "table": arguments.table,
        "to": arguments.to,
        "format": sink,
    }
    key: tuple[str, ...] = ()
    if arguments.apply:
        key = JobDatabase(base, arguments.table).key
        if not key:
            raise UsageError(f"table {arguments.table} has no primary key: its changes cannot be applied")
    if sink == "delta":
        from herdpy_spark.jobs.exporting.to_delta import DELTA_HINT, NO_DELTA
        from herdpy_spark.jobs.running import has_delta

        if not has_delta(this.spark):
            raise JobError(NO_DELTA, hint=DELTA_HINT)
    _run(this, options, key)


def _run(this: JobRun, options: dict[str, str], key: tuple[str, ...]) -> None:
    """Follow the table through its columns: a stream for each stretch of the log in which it has the same."""
    batches = -1
    while True:
        feed = this.spark.readStream.format("herdpy").options(**options).load()
        if this.dry:
            this.report["plan"] = {"columns": [one.name for one in feed.schema.fields]}
            return
        try:
            _follow(this, _start(this, feed, key))
            return
        except Exception as error:
            now = int(this.report.get("batches", 0))
            if _OTHER_COLUMNS not in str(error) or now <= batches:  # it was begun again, and got no further
                raise
            batches = now
        this.note("the table has columns that it had not: going on with them")


def _follow(this: JobRun, query: StreamingQuery) -> None:
    try:
        _await(this, query)
    except KeyboardInterrupt:
        query.stop()
        raise
    finally:
        last = query.lastProgress
        if last is not None:
            this.report["position"] = _position_text(last["sources"][0]["endOffset"])


def _start(this: JobRun, feed: DataFrame, key: tuple[str, ...]) -> StreamingQuery:
    arguments = this.arguments
    sink = arguments.format
    shown = messages(feed) if sink == "json" else feed
    writer = shown.writeStream.queryName(f"herdpy changes of {arguments.table}")
    to = for_spark(arguments.to).rstrip("/") if arguments.to else None
    if arguments.checkpoint or to:
        kept = for_spark(arguments.checkpoint) if arguments.checkpoint else f"{to}/_checkpoint"
        writer = writer.option("checkpointLocation", kept)
    if arguments.available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=arguments.every)
    if arguments.apply:
        from herdpy_spark.jobs.exporting.delta_copy import Copy

        copy = Copy(arguments.to, key)
        copy.prepare(this.spark, cast("StructType", feed.schema["after"].dataType))
        return writer.foreachBatch(copy.apply).start()
    if sink == "console":
        return writer.format("console").option("truncate", "false").start()
    if sink == "delta":
        writer = writer.option("mergeSchema", "true")  # changes of a table that gets columns have them
    return writer.format(sink).start(to)


def _await(this: JobRun, query: StreamingQuery) -> None:
    shown = -1
    rows = int(this.report.get("changes", 0))
    while True:
        over = query.awaitTermination(1)
        for one in query.recentProgress:
            if one["batchId"] > shown:
                shown = one["batchId"]
                rows += one["numInputRows"]
                behind = _entries_behind(one["sources"][0])
                this.report["behind"] = behind
                if one["numInputRows"]:
                    this.note(f"batch {shown}: {one['numInputRows']:,} changes; {behind:,} entries behind")
        this.report |= {"changes": rows, "batches": shown + 1}
        if over:
            return


def messages(feed: DataFrame) -> DataFrame:
    """Changes as messages: ``key`` and ``value`` are JSON texts.

    The value has op, before, after, other_key, and ``source`` with lsn, transaction_id, position,
    commit_time, and sequence, which sorts changes in the log's order: texts of LSNs do not. Changes of the
    whole table have no key.
    """
    from pyspark.sql import functions as sql

    value = sql.struct(
        "op",
        "before",
        "after",
        "other_key",
        "schema",
        sql.struct("lsn", "transaction_id", "position", "request_id", "commit_time", "sequence").alias(
            "source"
        ),
    )
    # What is NULL is said: a message without a column would mean another table.
    options = {"ignoreNullFields": "false", **TIMES}
    return feed.select(sql.to_json("key", options).alias("key"), sql.to_json(value, options).alias("value"))


def _entries_behind(source: Any) -> int:
    """How many entries of the log were after the batch when it was planned."""
    offset = source["latestOffset"]
    found = json.loads(offset) if isinstance(offset, str) else offset
    return int(found["entriesBehind"]) if found else 0


def _position_text(offset: Any) -> str | None:
    found = json.loads(offset) if isinstance(offset, str) else offset
    return None if found is None else f"{found['ledger']}:{found['entry']}"


JOB = SparkJob(
    name="changes",
    says=(
        "Follow a table: every change, once, in the order of the log.\n\n"
        "Into Parquet, JSON lines of key and value, a Delta table (of the changes; with --apply a copy"
        " of the\n"
        "table that follows it), or the console. Runs until it is stopped; with --available-now it ends"
        " when\n"
        "it has what was committed before it began. A checkpoint says where the next run goes on."
    ),
    examples=(
        "changes --url herdpy://db1/shop --table orders --format console --starting latest",
        "changes --url herdpy://db1/shop --table orders --format json --to /feeds/orders --available-now",
        "changes --url herdpy://db1/shop --table orders --format delta --apply --to /lake/orders"
        " --with-delta",
    ),
    add_arguments=_arguments,
    run=run,
)

if __name__ == "__main__":
    raise SystemExit(main(JOB))

"""The job ``bulk-load``: CSV, JSON, Parquet or another database's table into a table, all of it or nothing.

    source -> rows of the table, and rows that are none -> the one loaded, the other set aside or an error

The whole load is one transaction, whose id makes it safe to run again: what was loaded under an id is not
loaded twice.
"""

from __future__ import annotations

import argparse
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from herdpy_spark.jobs import loading
from herdpy_spark.jobs.database import JobDatabase, load_outcome
from herdpy_spark.jobs.exporting.generations import for_spark
from herdpy_spark.jobs.job import (
    JobError,
    JobRun,
    SparkJob,
    UsageError,
    count,
    names,
    pair,
    shown_url,
    source_options,
)
from herdpy_spark.jobs.running import main
from herdpy_spark.jobs.steps import step
from herdpy_sql.staged import staged_positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from herdpy_sql.catalog import Table

MODES = ("append", "overwrite", "upsert", "ignore", "delete")


def _arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what")
    what.add_argument("paths", nargs="*", metavar="PATH", help="files, directories, patterns or URLs")
    what.add_argument("--source", choices=loading.KINDS, help="what they are; by their names where not given")
    what.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", type=pair, help="of Spark's reader"
    )
    what.add_argument(
        "--jdbc-url",
        metavar="URL",
        help="another database; its driver comes with --jars (a rare one needs --option driver=CLASS);"
        f" --option user=NAME, and ${loading.JDBC_PASSWORD_VARIABLE}",
    )
    what.add_argument("--jdbc-table", metavar="TABLE", help='a table there, or "(SELECT ...) t"')
    what.add_argument(
        "--columns",
        type=names,
        default=(),
        metavar="COL,...",
        help="names of a CSV's columns, in order, where it has no header (--option header=false);"
        " else those of the table",
    )
    where = parser.add_argument_group("where to")
    where.add_argument("--table", required=True, help="the table")
    where.add_argument(
        "--mode", choices=MODES, default="append", help="rows whose key is there: append (an error)"
    )
    where.add_argument(
        "--load-id", metavar="ID", help="names the load: it is done once, however often it is run"
    )
    where.add_argument("--create", action="store_true", help="make the table from the source's columns first")
    where.add_argument("--key", type=names, default=(), metavar="COL,...", help="primary key, with --create")
    where.add_argument(
        "--type", action="append", default=[], metavar="COL=TYPE", type=pair, help="SQL type, with --create"
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--rename", action="append", default=[], metavar="SOURCE=COL", type=pair, help="a column's name"
    )
    how.add_argument("--drop", type=names, default=(), metavar="COL,...", help="columns to leave out")
    how.add_argument("--null", metavar="TEXT", help="means NULL in CSV, as an empty field does")
    how.add_argument("--partitions", type=count, help="how many tasks write (as many as read)")
    how.add_argument("--quarantine", metavar="PATH", help="bad rows go there, and the others are loaded")
    how.add_argument(
        "--max-bad", type=count, metavar="N", help="with more bad rows than this nothing is loaded"
    )


def source_of(arguments: argparse.Namespace) -> loading.LoadSource:
    """The source that is asked for; UsageError where it makes no sense."""
    options = dict(arguments.option)
    if arguments.jdbc_url or arguments.source == loading.JDBC:
        if not (arguments.jdbc_url and arguments.jdbc_table) or arguments.paths:
            raise UsageError("another database: give --jdbc-url and --jdbc-table, and no paths")
        return loading.jdbc(arguments.jdbc_url, arguments.jdbc_table, options)
    if not arguments.paths:
        raise UsageError("no source: give paths, or --jdbc-url and --jdbc-table")
    kind = arguments.source or _by_name(arguments.paths)
    if arguments.null is not None:
        if kind != loading.CSV:
            raise UsageError("--null is for CSV")
        if any(name.lower() == "nullvalue" for name in options):
            raise UsageError("--null and --option nullValue: give one of them")
        options["nullValue"] = arguments.null
    source = loading.LoadSource(kind, tuple(map(for_spark, arguments.paths)), options, arguments.columns)
    if arguments.columns and source.has_header:
        raise UsageError("--columns is for CSV without a header: --option header=false")
    return source


def _by_name(paths: list[str]) -> str:
    kinds = set()
    for path in paths:
        suffixes = [one for one in Path(path).suffixes if one not in {".gz", ".bz2", ".zst", ".lz4"}]
        ending = suffixes[-1].removeprefix(".") if suffixes else ""
        kinds.add({"jsonl": loading.JSON, "ndjson": loading.JSON}.get(ending, ending))
    if len(kinds) != 1 or not kinds <= {loading.CSV, loading.JSON, loading.PARQUET}:
        raise UsageError(f"{', '.join(paths)}: say with --source what they are: {', '.join(loading.KINDS)}")
    return kinds.pop()


def run(this: JobRun) -> None:
    """Load. JobError, UsageError as they say; nothing is loaded then."""
    arguments = this.arguments
    source = source_of(arguments)
    if (arguments.key or arguments.type) and not arguments.create:
        raise UsageError("--key and --type are for --create")
    if arguments.max_bad and not arguments.quarantine:
        raise UsageError("--max-bad is for --quarantine")
    base = source_options(arguments)
    load_id = arguments.load_id or f"job-{uuid.uuid4()}"
    options = base | {"table": arguments.table}
    this.report |= {
        "url": shown_url(base["url"]),
        "table": arguments.table,
        "load_id": load_id,
        "mode": arguments.mode,
    }
    if arguments.create:
        _create(this, source, base)
        if this.dry:
            return
    table = this.spark.read.format("herdpy").options(**options).load().schema
    definition = JobDatabase(base, arguments.table).definition
    if not source.has_header and not source.columns:
        source = replace(source, columns=_in_order(definition))
    rows = source.rows(this.spark).drop(*arguments.drop)
    columns = loading.columns_of(rows.columns, table, dict(arguments.rename))
    this.report["columns"] = columns
    if this.dry:
        this.report["plan"] = {"statement": None, "columns": columns}
        this.note(f"would load columns {', '.join(columns)} into {arguments.table}")
        return
    types = {one.name: one.type for one in definition.columns if not one.dropped}
    fitting = loading.checked(rows, table, columns, types)
    wanted = _without_bad(this, fitting, load_id) if arguments.quarantine else loading.strict(fitting)
    if arguments.partitions:
        wanted = wanted.repartition(arguments.partitions)
    this.note(f"loading into {arguments.table} as {load_id}")
    writer = wanted.write.format("herdpy").options(**options, loadId=load_id)
    with step(this.spark, f"stage and publish the rows as {load_id}"):
        if arguments.mode == "overwrite":
            writer.mode("overwrite").save()
        else:
            writer.option("mode", arguments.mode).mode("append").save()
    this.note(f"loaded: {_outcome(this, options, load_id, wanted.columns)}")


def _in_order(table: Table) -> tuple[str, ...]:
    """The columns that a file without a header has: all, as COPY takes them, but generated ones."""
    return tuple(table.columns[at].name for at in staged_positions(table, keys_only=False))


def _create(this: JobRun, source: loading.LoadSource, base: dict[str, str]) -> None:
    arguments = this.arguments
    from pyspark.sql.types import StructField, StructType

    inferred = source.inferred(this.spark)
    renamed = dict(arguments.rename)
    schema = StructType(
        [
            StructField(renamed.get(one.name, one.name), one.dataType, one.nullable)
            for one in inferred.fields
            if one.name not in arguments.drop
        ]
    )
    statement = loading.create_table(arguments.table, schema, arguments.key, dict(arguments.type))
    this.report["created"] = statement
    if this.dry:
        this.note(f"would make the table:\n{statement}")
        this.report["plan"] = {"statement": statement, "columns": schema.names}
        return
    try:
        loading.create(base, statement.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1))
    except JobError as error:
        if "+zk:" in base["url"]:
            raise UsageError("--create needs a server: give a URL herdpy://host/tablespace") from error
        raise


def _without_bad(this: JobRun, fitting: DataFrame, load_id: str) -> DataFrame:
    """The good rows. The bad ones are set aside first, under the load's name: a second run replaces them."""
    arguments = this.arguments
    fitting = fitting.persist()
    aside = loading.bad(fitting)
    with step(this.spark, "look for bad rows"):
        bad = aside.count()
    place = f"{for_spark(arguments.quarantine).rstrip('/')}/{load_id}"
    this.report["bad"] = bad
    if bad:
        aside.coalesce(1).write.mode("overwrite").json(place)
        this.report["quarantine"] = place
        this.note(f"{bad:,} bad rows are in {place}")
    if arguments.max_bad is not None and bad > arguments.max_bad:
        raise JobError(
            f"{bad:,} rows are bad, more than --max-bad {arguments.max_bad:,}: nothing was loaded",
            hint=f"See {place}.",
        )
    return loading.good(fitting)


def _outcome(this: JobRun, options: dict[str, str], load_id: str, columns: list[str]) -> str:
    """What became of the load, as the database remembers it."""
    outcome = load_outcome(options, load_id, this.arguments.mode, columns)
    if outcome is None:
        raise JobError(f"the load {load_id} is not known", hint="Run it again with the same --load-id.")
    figures = {name: getattr(outcome, name) for name in ("lsn", "inserted", "updated", "deleted", "skipped")}
    this.report |= figures
    return ", ".join(f"{name} {value}" for name, value in figures.items())


JOB = SparkJob(
    name="bulk-load",
    says=(
        "Load CSV, JSON, Parquet, or a table of another database into a table: all of it, or nothing.\n\n"
        "Values that are none of their column's type end the load with the row and the reason; with\n"
        "--quarantine such rows are set aside, and the others loaded. What only the database can see (keys\n"
        "that are there already, CHECK, UNIQUE) refuses the load, and names the row. A load with an id"
        " is done\n"
        "once: run it again when you do not know what became of it."
    ),
    examples=(
        "bulk-load --url herdpy://db1/shop --table flights --create --key id flights/*.parquet",
        "bulk-load --url herdpy://db1/shop --table planes planes.csv --null NA --quarantine /bad",
        "bulk-load --url herdpy://db1/shop --table orders --mode upsert --load-id 2026-03-02 day.jsonl",
        "bulk-load --url herdpy:///srv/shop --table t --create --jdbc-url jdbc:postgresql://pg/db"
        " --jdbc-table t --jars postgresql.jar",
    ),
    add_arguments=_arguments,
    run=run,
)

if __name__ == "__main__":
    raise SystemExit(main(JOB))

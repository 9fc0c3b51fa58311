"""Exports to a table of Delta Lake: overwritten whole, or one MERGE with what has changed.

The position stands in the metadata of the very commit that brings the rows, so it cannot differ from them. A
run that repeats a commit (the driver died before it heard of it) finds the new position, and goes on from
there. Of two runs that merge at once, Delta lets one commit: both name the same application and its next
version.

Copy is a Delta table that follows a table of the database: every batch of its changes is one commit.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from herdpy import __version__
from herdpy.log.lsn import LSN
from herdpy_spark.jobs.database import JobDatabase
from herdpy_spark.jobs.exporting import REWRITE, ExportRequest, changeset, generations, new_run_id, now
from herdpy_spark.jobs.exporting.changeset import GONE, SCRATCH, ChangeSet
from herdpy_spark.jobs.exporting.evolving import SchemaChange
from herdpy_spark.jobs.exporting.rows import quoted
from herdpy_spark.jobs.exporting.to_files import (
    FULL,
    INCREMENTAL,
    following,
    is_renamed,
    note_changes,
    require_key,
)
from herdpy_spark.jobs.job import JobError, UsageError
from herdpy_spark.jobs.running import has_delta, settings
from herdpy_sql.definitions import encode_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from herdpy_spark.jobs.job import JobRun


APPLICATION = "herdpy-export"
_METADATA = "spark__databricks__delta__commitInfo__userMetadata"
TRANSACTION = "spark__databricks__delta__write__txnAppId"
VERSION = "spark__databricks__delta__write__txnVersion"
"""Delta passes over a write whose application has written this version, or a later one."""
NO_DELTA = "Delta Lake is not on the class path"
DELTA_HINT = (
    "Give --with-delta, or spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 with the settings of"
    " docs/spark.md."
)


def export(this: JobRun, request: ExportRequest) -> None:
    """Bring the table up to date. JobError, UsageError as they say; the table is as it was then."""
    spark = this.spark
    if not has_delta(spark):
        raise JobError(NO_DELTA, hint=DELTA_HINT)
    table = generations.spark_place(request.to, spark).join("").rstrip("/")
    before = newest(spark, table)
    if before is not None and request.run_id is not None and before["run_id"] == request.run_id:
        this.report |= before | {"repeated": True}
        return
    database = JobDatabase(request.base, request.selection.get("table"))
    number = 1 if before is None else int(before["generation"]) + 1
    run_id = request.run_id or new_run_id()
    facts: dict[str, Any] = {
        "generation": number,
        "table": request.subject,
        "columns": request.selection.get("columns"),
        "log_id": database.log_id,
        "run_id": run_id,
        "created": now(),
        "herdpy": __version__,
    }
    merging = request.incremental and before is not None
    if request.incremental:
        require_key(request, database.key)
    if this.dry:
        kind = INCREMENTAL if merging else FULL
        this.report["plan"] = {"kind": kind, "generation": number, "since": (before or {}).get("lsn")}
        return
    if merging:
        assert before is not None
        _merge(this, request, database, table, before, facts)
    else:
        _overwrite(this, request, database, table, facts)
    committed = newest(spark, table)
    if committed is None or committed["run_id"] != run_id:  # Delta passes a version over that it knows
        raise JobError(
            f"another run exported to {request.to} meanwhile: it stands at {(committed or {}).get('lsn')}",
            hint="Nothing was changed by this one. Run it again to go on from there.",
        )
    this.report |= facts


def newest(spark: SparkSession, table: str) -> dict[str, Any] | None:
    """What the newest commit of an export says of itself; None: there is none, or no table."""
    from pyspark.sql import functions as sql

    if not generations.spark_place(table, spark).names("_delta_log"):
        return None
    history = spark.sql(f"DESCRIBE HISTORY delta.{quoted(table)}")
    for row in history.where(sql.col("userMetadata").isNotNull()).sort(sql.col("version").desc()).collect():
        try:
            found = json.loads(row["userMetadata"])[APPLICATION]
        except (ValueError, KeyError, TypeError):
            continue
        return dict(found)
    return None


def _commit_settings(facts: dict[str, Any]) -> dict[str, str]:
    return {
        _METADATA: json.dumps({APPLICATION: facts}),
        TRANSACTION: APPLICATION,
        VERSION: str(facts["generation"]),
    }


def _overwrite(
    this: JobRun, request: ExportRequest, database: JobDatabase, table: str, facts: dict[str, Any]
) -> None:
    with database.pinned(this.spark, request.selection, request.reading) as pinned:
        facts |= {"kind": FULL, "lsn": str(pinned.lsn), "definition": pinned.definition}
        this.note(f"exporting {request.subject} as it is at {pinned.lsn}")
        with settings(this.spark, **_commit_settings(facts)):
            _write_anew(pinned.frame, table)


def _write_anew(rows: DataFrame, table: str) -> None:
    """All rows and columns, in one commit; ``rows`` may be made of what is there."""
    rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(table)


def _merge(
    this: JobRun,
    request: ExportRequest,
    database: JobDatabase,
    table: str,
    before: dict[str, Any],
    facts: dict[str, Any],
) -> None:
    definition = before.get("definition") or ""  # exports of before had none
    for what, wanted in (
        ("table", request.subject),
        ("columns", facts["columns"]),
        ("log_id", database.log_id),
    ):
        if before[what] != wanted and not (what == "table" and is_renamed(database, definition)):
            raise UsageError(f"the table {request.to} has another {what}: {before[what]}, not {wanted}")
    since = LSN.parse(before["lsn"])
    with following(this, request, database, since, definition) as (found, change):
        if change.lines() and request.on_schema_change == REWRITE:
            _overwrite(this, request, database, table, facts)
            return
        changes = changeset.net(found.changes, change.schema, change.key)
        note_changes(this, changes, since, found.upto)
        facts |= {
            "kind": INCREMENTAL,
            "since": str(since),
            "lsn": str(found.upto),
            "changes": changes.events,
            "definition": encode_table(found.after).decode(),
        }
        with settings(this.spark, **_commit_settings(facts)):
            if change.is_other_shape or (changes.voided and change.lines()):
                _evolve(this.spark, table, changes, change)
            else:
                _apply(this.spark, table, changes, change.key)
    generations.spark_place(request.to, this.spark).remove(SCRATCH)


def _evolve(spark: SparkSession, table: str, changes: ChangeSet, change: SchemaChange) -> None:
    """The table in its columns of now, with the changes: written anew, in one commit."""
    rows = changes.rows.where(f"NOT {GONE}").drop(GONE)
    if not changes.voided:
        stored = change.carried(spark.read.format("delta").load(table))
        stays = changeset.by_key(stored, changes.rows, change.key, "left_anti")
        rows = stays.select(*map(quoted, rows.columns)).unionByName(rows)
    _write_anew(rows, table)


def _apply(spark: SparkSession, table: str, changes: ChangeSet, key: tuple[str, ...]) -> None:
    if not changes.events and not changes.voided:  # the position alone moves on
        empty = spark.createDataFrame([], changes.rows.drop(GONE).schema)
        empty.write.format("delta").mode("append").save(table)
        return
    merge(spark, table, changes, key)


def merge(spark: SparkSession, table: str, changes: ChangeSet, key: tuple[str, ...]) -> None:
    """Apply a change set to a Delta table, in one commit."""
    view = "herdpy_changes"
    changes.rows.createOrReplaceTempView(view)
    columns = [quoted(name) for name in changes.rows.columns if name != GONE]
    on = " AND ".join(f"t.{quoted(name)} = c.{quoted(name)}" for name in key)
    voiding = "WHEN NOT MATCHED BY SOURCE THEN DELETE" if changes.voided else ""
    try:
        spark.sql(
            f"MERGE INTO delta.{quoted(table)} t USING {view} c ON {on}"
            f" WHEN MATCHED AND c.{GONE} THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = c.{name}' for name in columns)}"
            f" WHEN NOT MATCHED AND NOT c.{GONE} THEN INSERT ({', '.join(columns)})"
            f" VALUES ({', '.join(f'c.{name}' for name in columns)}) {voiding}"
        )
    finally:
        spark.catalog.dropTempView(view)

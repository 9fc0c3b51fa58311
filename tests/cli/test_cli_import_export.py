"""``herdpy import`` and ``herdpy export`` with a server: as with a directory, by the driver and COPY."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import herdpy
from herdpy.cli import exporter, importer, target
from herdpy.cli.importer import open_source
from herdpy.cli.source import FileFormat, ReadOptions
from tests.cli.every_type import COLUMNS, DEFINITION, VALUES
from tests.support.server_process import RunningServer

RULES = "[{ method = 'scram-sha-256', user = 'bob' }, { method = 'trust', network = 'loopback' }]"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that wants a password of bob alone."""
    data = tmp_path_factory.mktemp("server") / "data"
    running = RunningServer(data, "--set", f"authentication.rules={RULES}").ready()
    with running.connect() as connection:
        connection.execute("CREATE ROLE bob LOGIN SUPERUSER PASSWORD 'right'")
    yield running
    running.close()


@pytest.fixture(scope="module")
def url(server: RunningServer) -> str:
    return f"herdpy://ann@127.0.0.1:{server.port}/test"


@pytest.fixture
def conn(url: str) -> Iterator[Any]:
    """A connection, and none of a test's tables there yet."""
    with herdpy.connect(url, autocommit=True) as connection:
        for name in ("t", "again", "herdpy_imports"):
            connection.execute(f"DROP TABLE IF EXISTS {name}")
        yield connection


class StopError(Exception):
    """The command is cut short."""


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_every_type_comes_back_as_it_was(run: Any, conn: Any, url: str, tmp_path: Path, kind: str) -> None:
    conn.execute(f"CREATE TABLE t ({DEFINITION}); CREATE TABLE again ({DEFINITION})")
    conn.execute(f"INSERT INTO t VALUES {', '.join(VALUES)}")
    file = tmp_path / f"t.{kind}"
    out = json.loads(run("export", url, "t", file, "--json").stdout)
    assert (out["file"], out["rows"], out["resumed_at"]) == (str(file), len(VALUES), 0)
    run("import", url, file, "-t", "again")
    texts = ", ".join(f"CAST({name} AS TEXT)" for name in COLUMNS)
    before = conn.execute(f"SELECT {texts} FROM t ORDER BY k").fetchall()
    assert conn.execute(f"SELECT {texts} FROM again ORDER BY k").fetchall() == before
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_server_and_a_directory_write_the_same_files(
    run: Any, conn: Any, url: str, db: Path, tmp_path: Path
) -> None:
    for database in (url, db):
        run("sql", database, "-c", f"CREATE TABLE t ({DEFINITION}); INSERT INTO t VALUES {', '.join(VALUES)}")
    for kind in ("csv", "jsonl"):
        there, here = tmp_path / f"there.{kind}", tmp_path / f"here.{kind}"
        run("export", url, "t", there)
        run("export", db, "t", here)
        assert there.read_bytes() == here.read_bytes()


def test_queries_and_tables_without_a_key(run: Any, conn: Any, url: str, tmp_path: Path) -> None:
    conn.execute("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1), (2), (2)")
    run("export", url, "t", tmp_path / "all.csv")
    assert (tmp_path / "all.csv").read_text() == "n\n1\n2\n2\n"
    query = "SELECT n, count(*) AS c FROM t GROUP BY n ORDER BY n -- it's )"
    for file, sql in (("a.csv", query), ("b.csv", "SELECT n FROM t WHERE n < 2;")):
        run("export", url, "--query", sql, tmp_path / file)
    assert (tmp_path / "a.csv").read_text() == "n,c\n1,1\n2,2\n"
    assert (tmp_path / "b.csv").read_text() == "n\n1\n"
    conn.execute("DELETE FROM t")
    for kind in ("csv", "jsonl", "parquet"):
        out = run("export", url, "t", tmp_path / f"none.{kind}", "--json").stdout
        assert json.loads(out)["rows"] == 0
    assert (tmp_path / "none.csv").read_text() == "n\n"
    assert parquet.read_table(tmp_path / "none.parquet").schema == pa.schema([("n", pa.int32())])


class Copied:
    """What a COPY sends: pieces, and then the end or an error."""

    def __init__(self, table: pa.Table, piece_bytes: int, error: Exception | None = None) -> None:
        out = io.BytesIO()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=100)
        data = out.getvalue()
        self._pieces = iter([data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)])
        self._error = error

    def read(self) -> bytes:
        piece = next(self._pieces, b"")
        if not piece and self._error is not None:
            raise self._error
        return piece


NUMBERS = pa.table({"k": range(1000), "s": ["x" * n for n in range(1000)]})


@pytest.mark.parametrize("piece_bytes", [3, 1000, 1 << 20])
def test_a_stream_may_come_in_any_pieces(piece_bytes: int) -> None:
    with exporter.of_stream(Copied(NUMBERS, piece_bytes)) as (kind, batches):
        assert pa.Table.from_batches(batches, kind) == NUMBERS


def test_an_error_after_the_last_row_is_told() -> None:
    with (
        pytest.raises(StopError),
        exporter.of_stream(Copied(NUMBERS, 1000, StopError())) as (_kind, batches),
    ):
        list(batches)


def test_a_stream_that_ends_early_is_no_answer() -> None:
    copied = Copied(NUMBERS, 1000)
    copied._pieces = iter(list(copied._pieces)[:-2])
    with exporter.of_stream(copied) as (_kind, batches), pytest.raises((OSError, pa.ArrowInvalid)):
        list(batches)


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_an_import_that_was_cut_goes_on_exactly_there(
    run: Any, conn: Any, url: str, tmp_path: Path, kind: str
) -> None:
    count = 3000
    file = tmp_path / f"a.{kind}"
    if kind == "csv":
        file.write_text("id,name\n" + "".join(f"{n},name {n}\n" for n in range(count)))
    elif kind == "jsonl":
        file.write_text("".join(f'{{"id": {n}, "name": "name {n}"}}\n' for n in range(count)))
    else:
        table = pa.table({"id": range(count), "name": [f"name {n}" for n in range(count)]})
        parquet.write_table(table, file, row_group_size=500)
    source = open_source(file, FileFormat(kind), ReadOptions(",", True, ("",), 4000))
    # As the command tells one import from another.
    reading = {"format": kind, "delimiter": ",", "header": True, "null": [], "names": source.names}
    key = importer.identity(file, "t", reading)
    seen = []

    def stop(progress: importer.ImportProgress) -> None:
        seen.append(progress.loaded)
        if len(seen) == 3:
            raise StopError

    with target.connect(target.parse(url, servers=True), autocommit=False) as connection:
        with pytest.raises(StopError):
            importer.Importer(connection, source, importer.ImportPlan(file, "t"), key).run(stop)
        connection.rollback()
    before = conn.execute("SELECT count(*) FROM t").fetchone()[0]
    assert 0 < before < count
    assert before == seen[-1]
    arguments = ("import", url, file, "-t", "t", "--block-bytes", 4000, "--json")
    out = json.loads(run(*arguments, "--resume").stdout)
    assert (out["resumed_at"], out["rows"], out["rejected"]) == (before, count, 0)
    found = conn.execute("SELECT count(*), count(DISTINCT id), min(id), max(id) FROM t").fetchone()
    assert found == (count, count, 0, count - 1)
    assert f"in table t already ({count:,} rows)" in run(*arguments, code=1).stderr


KEYS = ["PRIMARY KEY (n, k)", "CHECK (k >= 0)", "PRIMARY KEY (d, k)"]


@pytest.mark.parametrize(("kind", "key"), [*zip(["csv", "jsonl", "parquet"], KEYS, strict=True)])
def test_an_export_that_was_cut_goes_on_after_the_last_key_on_disk(
    run: Any, conn: Any, url: str, tmp_path: Path, kind: str, key: str
) -> None:
    count = 40_000  # rows of some batches of a server's answer
    conn.execute(f"CREATE TABLE t (n NUMERIC(8,2), k INTEGER, d TIMESTAMPTZ, {key})")
    conn.execute(
        "INSERT INTO t"
        " SELECT (k % 3) / 2.0, k, TIMESTAMPTZ '2024-01-01 00:00:00Z' + (k % 5) * INTERVAL '1 day'"
        f" FROM generate_series(0, {count - 1}) AS s (k)"
    )
    file = tmp_path / f"t.{kind}"
    found = target.parse(url, servers=True)
    seen: list[int] = []

    def stop(done: int, total: int | None) -> None:
        assert total is None
        seen.append(done)
        if len(seen) == 3:
            raise StopError

    plan = exporter.ExportPlan(file, FileFormat(kind), "t", save_rows=10_000)
    place = url.replace("ann@", "")
    with target.connect(found, autocommit=True) as connection, pytest.raises(StopError):
        exporter.Exporter(connection, plan, place, found).run(stop)
    assert not file.exists()
    assert "ann" not in (tmp_path / f"{file.name}.partial.json").read_text()
    out = json.loads(run("export", url, "t", file, "--resume", "--json").stdout)
    assert (out["resumed_at"], out["rows"]) == (seen[1], count)
    conn.execute("CREATE TABLE again (n NUMERIC(8,2), k INTEGER, d TIMESTAMPTZ)")
    run("import", url, file, "-t", "again")
    differing = "SELECT count(*) FROM t FULL JOIN again USING (n, k, d) WHERE t.k IS NULL OR again.k IS NULL"
    assert conn.execute(differing).fetchone() == (0,)
    assert conn.execute("SELECT count(*) FROM again").fetchone() == (count,)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_errors_say_what_is_wrong(
    run: Any, conn: Any, url: str, server: RunningServer, tmp_path: Path
) -> None:
    conn.execute("CREATE TABLE t (k INTEGER PRIMARY KEY); INSERT INTO t VALUES (7)")
    file, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    file.write_text("k\n1\n")
    with socket.socket() as nobody:  # bound, and not listening
        nobody.bind(("127.0.0.1", 0))
        dead = f"herdpy://ann@127.0.0.1:{nobody.getsockname()[1]}/test?connect_timeout=2"
        assert "refused" in run("export", dead, "t", out, code=1).stderr
        assert "refused" in run("import", dead, file, "-t", "t", code=1).stderr
    bob = f"herdpy://bob:secret@127.0.0.1:{server.port}/test"
    for arguments in (("export", bob, "t", out), ("import", bob, file, "-t", "t")):
        message = run(*arguments, code=1).stderr
        assert "28P01" in message
        assert "secret" not in message
    run("export", bob.replace("secret", "right"), "t", tmp_path / "whole.csv")
    assert 'there is no table "u"' in run("export", url, "u", out, code=1).stderr
    assert "there is no table u" in run("import", url, file, "-t", "u", "--append", code=1).stderr
    for sql, message in (
        ("SELECT 1 / 0 AS x", "22012: division by zero"),
        ("SELECT 10 / (5000 - k) AS x FROM generate_series(1, 20000) AS s (k)", "22012: division by zero"),
        ("SELECT nothing FROM t", '42703: column "nothing" does not exist'),
        ("SELECT FROM WHERE", "42601"),
        ("SELECT 1; SELECT 2", "42601"),
        ("DELETE FROM t", "this statement gives no rows"),
    ):
        assert message in run("export", url, "--query", sql, out, code=1).stderr, sql
        assert not out.exists()
    message = run("export", url, "--query", "DELETE FROM t RETURNING k", out, code=1).stderr
    assert "25006: cannot execute DELETE in a read-only transaction" in message
    assert conn.execute("SELECT count(*) FROM t").fetchone() == (1,)
    assert "exists already" in run("export", url, "t", tmp_path / "whole.csv", code=2).stderr


def test_bad_rows_stop_an_import_or_are_kept_aside(run: Any, conn: Any, url: str, tmp_path: Path) -> None:
    conn.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, n SMALLINT CHECK (n > 0), v VARCHAR(3))")
    file = tmp_path / "dirty.csv"
    file.write_text("k,n,v\n1,10,a\n2,ten,b\n3,-1,c\n1,5,d\n4,5,long\n5,7,e\n")
    message = run("import", url, file, "-t", "t", code=1).stderr
    assert f"{file}:3: column n: invalid input syntax for type smallint" in message
    assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)
    out = json.loads(run("import", url, file, "-t", "t", "--on-error", "skip", "--json").stdout)
    rejects = tmp_path / "dirty.csv.rejects.jsonl"
    assert (out["rows"], out["rejected"], out["rejects_file"]) == (2, 4, str(rejects))
    assert conn.execute("SELECT k, n, v FROM t ORDER BY k").fetchall() == [(1, 10, "a"), (5, 7, "e")]
    kept = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [one["line"] for one in kept] == [3, 4, 5, 6]
    for one, why in zip(kept, ("smallint", "check constraint", "duplicate key", "too long"), strict=True):
        assert why in one["error"]

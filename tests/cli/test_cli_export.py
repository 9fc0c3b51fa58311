"""``herdpy export``: round trips of every type, one file that appears whole, going on after a stop."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyarrow import parquet

import herdpy
from herdpy.cli import exporter
from herdpy.cli.source import FileFormat
from tests.cli.every_type import COLUMNS, DEFINITION, VALUES


def rows(db, sql):
    with herdpy.connect(db, autocommit=True) as connection:
        return connection.execute(sql).fetchall()


@pytest.fixture
def every_type(run, db):
    run("sql", db, "-c", f"CREATE TABLE t ({DEFINITION}); CREATE TABLE again ({DEFINITION})")
    for row in VALUES:
        run("sql", db, "-c", f"INSERT INTO t VALUES {row}")
    return db


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_every_type_comes_back_as_it_was(run, every_type, tmp_path, kind):
    file = tmp_path / f"t.{kind}"
    run("export", every_type, "t", file)
    run("import", every_type, file, "-t", "again")
    texts = ", ".join(f"CAST({name} AS TEXT)" for name in COLUMNS)
    before = rows(every_type, f"SELECT {texts} FROM t ORDER BY k")
    assert rows(every_type, f"SELECT {texts} FROM again ORDER BY k") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["db", f"t.{kind}"]


def test_golden_csv_and_json(run, db, tmp_path):
    run("sql", db, "-c", "CREATE TABLE t (i INTEGER, n NUMERIC(4,2), s TEXT, y BYTEA); INSERT INTO t VALUES "
        "(1, 1.5, 'a \"b\"', '\\x01'), (2, NULL, '', NULL)")  # fmt: skip
    run("export", db, "t", tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == 'i,n,s,y\n1,1.50,"a ""b""","\\x01"\n2,,"",\n'
    run("export", db, "t", tmp_path / "t.csv", "--overwrite", "--no-header")
    assert (tmp_path / "t.csv").read_text().startswith("1,1.50")
    run("export", db, "t", tmp_path / "t.jsonl")
    assert (tmp_path / "t.jsonl").read_text() == (
        '{"i": 1, "n": 1.50, "s": "a \\"b\\"", "y": "\\\\x01"}\n{"i": 2, "n": null, "s": "", "y": null}\n'
    )


def test_queries_and_refusals(run, db, tmp_path):
    run("sql", db, "-c", "CREATE TABLE t (i INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)")
    out = tmp_path / "q.parquet"
    shown = run(
        "export", db, "--query", "SELECT i * 2 AS x FROM t WHERE i > 1 ORDER BY i", out, "--json"
    ).stdout
    assert json.loads(shown)["rows"] == 2
    assert parquet.read_table(out).to_pydict() == {"x": [4, 6]}
    assert "exists already" in run("export", db, "t", out, code=2).stderr
    assert 'there is no table "u"' in run("export", db, "u", tmp_path / "u.csv", code=1).stderr
    assert "no interrupted export" in run("export", db, "t", tmp_path / "u.csv", "--resume", code=1).stderr
    assert "there is no database" in run("export", tmp_path / "x", "t", tmp_path / "u.csv", code=1).stderr
    for change in ("DELETE FROM t", "DELETE FROM t RETURNING i"):
        assert "25006" in run("export", db, "--query", change, tmp_path / "u.csv", code=1).stderr
    assert rows(db, "SELECT count(*) FROM t") == [(3,)]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_an_empty_table_gives_a_whole_file(run, db, tmp_path, kind):
    run("sql", db, "-c", "CREATE TABLE t (i INTEGER PRIMARY KEY, s TEXT)")
    file = tmp_path / f"t.{kind}"
    run("export", db, "t", file)
    if kind == "parquet":
        assert parquet.read_table(file).schema.names == ["i", "s"]
    else:
        assert file.read_text() == ("i,s\n" if kind == "csv" else "")


class StopError(Exception):
    """The export is cut short."""


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("key", ["PRIMARY KEY (a, b)", "CHECK (b >= 0)"])
def test_an_interrupted_export_goes_on_after_the_last_key_on_disk(run, db, tmp_path, kind, key):
    run("sql", db, "-c", f"CREATE TABLE t (a TEXT NOT NULL, b INTEGER NOT NULL, {key})")
    with herdpy.connect(db) as connection:
        data = pa.table({"a": [f"k{n % 3}" for n in range(900)], "b": pa.array(range(900), pa.int32())})
        connection.cursor().adbc_ingest("t", data, mode="append")
    file = tmp_path / f"t.{kind}"
    plan = exporter.ExportPlan(file, FileFormat(kind), "t", batch_rows=100, save_rows=200)

    def stop(done, total):
        if done == 500:
            raise StopError

    with herdpy.connect(db, autocommit=True) as connection:
        with pytest.raises(StopError):
            exporter.Exporter(connection, plan, "here").run(stop)
        assert not file.exists()
        again = exporter.Exporter(connection, plan, "here")
        again.run(lambda done, total: None)
    assert (again.resumed_at, again.rows) == (400, 900)
    run("import", db, file, "-t", "u", "--type", "a=text", "--type", "b=integer")
    assert rows(db, "SELECT * FROM u ORDER BY b") == rows(db, "SELECT * FROM t ORDER BY b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["db", file.name]


def test_a_sink_cuts_off_what_was_not_saved(tmp_path):
    partial = tmp_path / "x.partial"
    partial.write_bytes(b"saved\nnot saved")
    text = exporter.TextSink(partial, 6)
    text.finish(tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"saved\n"

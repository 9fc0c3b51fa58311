"""``herdpy import``: inference, formats, bad rows, and going on after SIGKILL exactly where it stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import herdpy
from herdpy.cli import source_text
from herdpy.cli.errors import CliError
from herdpy.cli.source import Position, ReadOptions
from herdpy.cli.source_text import CsvSource, JsonlSource, scan
from herdpy.log import LogError, inspect
from tests.cli.processes import command, environment


def rows(db, sql):
    with herdpy.connect(db, autocommit=True) as connection:
        return connection.execute(sql).fetchall()


def types(db, table):
    from herdpy.cli import schema

    with herdpy.connect(db, autocommit=True) as connection:
        return {column.name: column.type for column in schema.table(connection, table).columns}


def test_csv_types_are_inferred_and_the_table_is_made(run, db, tmp_path):
    file = tmp_path / "a.csv"
    file.write_text(
        "id,price,ok,day,at,zoned,code,name,nothing\n"
        '1,1.5,true,2024-01-02,2024-01-02 03:04:05,2024-01-02T03:04:05Z,007,"a, ""b""\nc",\n'
        '2,,false,,,,008,"",\n'
    )
    out = json.loads(run("import", db, file, "--table", "T", "--key", "id", "--json").stdout)
    assert (out["rows"], out["rejected"], out["resumed_at"]) == (2, 0, 0)
    assert types(db, "t") == {
        "id": "bigint",
        "price": "double precision",
        "ok": "boolean",
        "day": "date",
        "at": "timestamp without time zone",
        "zoned": "timestamp with time zone",
        "code": "text",
        "name": "text",
        "nothing": "text",
    }
    assert rows(db, "SELECT id, price, code, name, nothing FROM t ORDER BY id") == [
        (1, 1.5, "007", 'a, "b"\nc', None),
        (2, None, "008", "", None),
    ]


def test_modes(run, db, tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("a,b\n1,x\n2,y\n")
    assert "there is no table t" in run("import", db, file, "-t", "t", "--append", code=1).stderr
    run("import", db, file, "-t", "t", "--create", "--type", "a=smallint")
    assert "in table t already (2 rows)" in run("import", db, file, "-t", "t", code=1).stderr
    run("import", db, file, "-t", "t", "--resume")  # nothing is left to do
    assert rows(db, "SELECT count(*) FROM t") == [(2,)]
    run("import", db, file, "-t", "t", "--append", "--restart")
    assert rows(db, "SELECT count(*) FROM t") == [(4,)]
    run("import", db, file, "-t", "t", "--replace", "--key", "a")
    assert rows(db, "SELECT a, b FROM t ORDER BY a") == [(1, "x"), (2, "y")]
    other = tmp_path / "b.csv"
    other.write_text("b,a\nz,3\n")  # columns are matched by name
    assert "exists already" in run("import", db, other, "-t", "t", "--create", code=1).stderr
    assert "no interrupted import" in run("import", db, other, "-t", "t", "--resume", code=1).stderr
    run("import", db, other, "-t", "t")
    assert rows(db, "SELECT a, b FROM t WHERE a = 3") == [(3, "z")]
    strange = tmp_path / "c.csv"
    strange.write_text("a,c\n4,x\n")
    assert "has no column for 'c'" in run("import", db, strange, "-t", "t", code=1).stderr
    run("import", db, file, "-t", "t", "--create", "--append", code=2)
    run("import", db, tmp_path / "c.csv", "-t", "u", "--type", "a", code=2)


def test_nulls_delimiters_and_missing_headers(run, db, tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes(b'\xef\xbb\xbf1;NA\r\n2;"NA"\r\n;-\r\n')
    options = ["--format", "csv", "--delimiter", ";", "--no-header", "--null", "NA", "--null", "-"]
    run("import", db, file, "-t", "t", *options)
    assert rows(db, "SELECT * FROM t ORDER BY column1 NULLS LAST") == [(1, None), (2, "NA"), (None, None)]


def test_packed_files_are_unpacked(run, db, tmp_path):
    import gzip

    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"a\n" + b"".join(b"%d\n" % n for n in range(1000))))
    run("import", db, file, "-t", "t", "--block-bytes", "100")
    assert rows(db, "SELECT count(*), sum(a) FROM t") == [(1000, 499500)]


DIRTY = """\
id,n,day
1,10,2024-01-01
2,ten,2024-01-02
3,30,"2024-
13-01"
4,40

5,-1,2024-01-05
1,60,2024-01-06
7,70,
"""


@pytest.fixture
def dirty(run, db, tmp_path):
    ddl = "CREATE TABLE t (id INTEGER PRIMARY KEY, n SMALLINT CHECK (n > 0), day DATE)"
    run("sql", db, "-c", ddl)
    file = tmp_path / "dirty.csv"
    file.write_text(DIRTY)
    return file


def test_a_bad_row_stops_the_import_and_is_named(run, db, dirty):
    result = run("import", db, dirty, "-t", "t", code=1)
    assert f"{dirty}:3: column n: invalid input syntax for type smallint" in result.stderr
    assert "--on-error skip" in result.stderr
    assert rows(db, "SELECT count(*) FROM t") == [(0,)]


@pytest.mark.parametrize("block_bytes", [10, 40, 4 << 20])
def test_bad_rows_are_skipped_and_kept_aside(run, db, dirty, tmp_path, block_bytes):
    run("import", db, dirty, "-t", "t", "--on-error", "skip", "--block-bytes", block_bytes)
    assert rows(db, "SELECT id, n FROM t ORDER BY id") == [(1, 10), (7, 70)]
    rejects = [json.loads(line) for line in (tmp_path / "dirty.csv.rejects.jsonl").read_text().splitlines()]
    assert [one["line"] for one in rejects] == [3, 4, 6, 8, 9]
    assert "smallint" in rejects[0]["error"]
    assert "date" in rejects[1]["error"]
    assert "2 fields, and the file has 3 columns" in rejects[2]["error"]
    assert "violates check constraint" in rejects[3]["error"]
    assert "duplicate key" in rejects[4]["error"]
    assert rejects[0]["text"] == "2,ten,2024-01-02"


def test_json_lines(run, db, tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"a": 1, "b": "x", "c": {"k":  [1]}}\n\n{"b": null, "a": 2.5, "d": true}\n')
    run("import", db, file, "-t", "t")
    assert types(db, "t") == {"a": "double precision", "b": "text", "c": "json", "d": "boolean"}
    assert rows(db, "SELECT a, b, d FROM t ORDER BY a") == [(1.0, "x", None), (2.5, None, True)]
    assert rows(db, "SELECT CAST(c AS TEXT) FROM t WHERE a = 1") == [('{"k":  [1]}',)]
    more = tmp_path / "b.jsonl"
    more.write_text('{"a": 3}\n{"a": \n{"a": "x"}\n{"z": 1}\n[]\n')
    result = run("import", db, more, "-t", "t", "--on-error", "skip", code=1)
    assert "has no column for 'z'" in result.stderr
    run("sql", db, "-c", "CREATE TABLE u (a INTEGER, z INTEGER)")
    run("import", db, more, "-t", "u", "--on-error", "skip")
    rejects = [json.loads(line) for line in (tmp_path / "b.jsonl.rejects.jsonl").read_text().splitlines()]
    assert [one["line"] for one in rejects] == [2, 3, 5]
    assert rows(db, "SELECT a, z FROM u ORDER BY a") == [(3, None), (None, 1)]


def test_parquet_types(run, db, tmp_path):
    file = tmp_path / "a.parquet"
    table = pa.table(
        {
            "i8": pa.array([1, None], pa.int8()),
            "u32": pa.array([2**32 - 1, None], pa.uint32()),
            "dec": pa.array(["1.50", None], pa.string()).cast(pa.decimal128(9, 2)),
            "dict": pa.array(["x", None]).dictionary_encode(),
            "bin": pa.array([b"\x00", None]),
            "ms": pa.array([1, None], pa.timestamp("ms")),
            "doc": pa.array(['{"a": [1, null]}', None]).cast(pa.json_()),
        }
    )
    parquet.write_table(table, file)
    run("import", db, file, "-t", "t")
    assert list(types(db, "t").values()) == [
        *("smallint", "bigint", "numeric(9,2)", "text", "bytea", "timestamp without time zone", "json")
    ]
    assert rows(db, "SELECT doc::text, doc -> 'a' ->> 0 FROM t ORDER BY i8") == [
        ('{"a": [1, null]}', "1"),
        (None, None),
    ]
    assert rows(db, "SELECT i8, u32, CAST(dec AS TEXT), dict, bin FROM t ORDER BY i8") == [
        (1, 2**32 - 1, "1.50", "x", b"\x00"),
        (None, None, None, None, None),
    ]
    parquet.write_table(pa.table({"l": [[1]]}), file)
    assert "which no column of a table can have" in run("import", db, file, "-t", "u", code=1).stderr


@pytest.mark.parametrize(
    ("kind", "given", "kept", "rejected"),
    [
        ("int", pa.array([1.0, 2.5]), ["1"], [2]),
        ("date", pa.array([0, 1, 86_400_000_000], pa.timestamp("us")), ["1970-01-01", "1970-01-02"], [2]),
        ("numeric(10,2)", pa.array([1.005, 1.2345]), ["1.01", "1.23"], []),
        ("numeric(10,2)", pa.array(["1.23456"]).cast(pa.decimal128(12, 5)), ["1.23"], []),
        ("boolean", pa.array([1, 0]), [], [1, 2]),
    ],
)
def test_parquet_values_are_what_they_were_or_refused(run, db, tmp_path, kind, given, kept, rejected):
    """Into a table that is there: exact, rounded as INSERT rounds, or kept aside with the row."""
    file = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"v": given}), file)
    with herdpy.connect(db, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE t (v {kind})")
    run("import", db, file, "-t", "t", "--append", "--on-error", "skip")
    assert [text for (text,) in rows(db, "SELECT v::text FROM t ORDER BY v")] == kept
    rejects = tmp_path / "a.parquet.rejects.jsonl"
    lines = rejects.read_text().splitlines() if rejects.exists() else []
    assert [json.loads(line)["line"] for line in lines] == rejected


def test_every_row_of_an_import_has_a_default_of_its_own(run, db, tmp_path):
    with herdpy.connect(db, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v int, n serial)")
    (tmp_path / "a.csv").write_text("v\n10\n20\n30\n")
    run("import", db, tmp_path / "a.csv", "-t", "t", "--append")
    assert rows(db, "SELECT id, v, n FROM t ORDER BY id") == [(1, 10, 1), (2, 20, 2), (3, 30, 3)]


def test_a_table_in_a_schema_is_the_one_that_is_meant(run, db, tmp_path):
    with herdpy.connect(db, autocommit=True) as connection:
        for sql in ("CREATE SCHEMA s2", "CREATE TABLE t (v int)", "CREATE TABLE s2.t (v int)"):
            connection.execute(sql)
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("INSERT INTO s2.t VALUES (2)")
    (tmp_path / "a.csv").write_text("v\n3\n")
    run("import", db, tmp_path / "a.csv", "-t", "s2.t", "--append")
    assert rows(db, "SELECT v FROM s2.t ORDER BY v") == [(2,), (3,)]
    run("import", db, tmp_path / "a.csv", "-t", "s2.t", "--replace", "--restart")
    assert rows(db, "SELECT v FROM s2.t") == [(3,)]
    assert rows(db, "SELECT v FROM t") == [(1,)]
    run("import", db, tmp_path / "a.csv", "-t", "s2.fresh")
    assert rows(db, "SELECT v FROM s2.fresh") == [(3,)]
    run("export", db, "s2.t", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "v\n3\n"
    run("export", db, "t", tmp_path / "public.csv")
    assert (tmp_path / "public.csv").read_text() == "v\n1\n"


def write_numbers(path, kind, count):
    if kind == "csv":
        path.write_text("id,name\n" + "".join(f'{n},"name\n{n}"\n' for n in range(count)))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps({"id": n, "name": f"name\n{n}"}) + "\n" for n in range(count)))
    else:
        table = pa.table({"id": range(count), "name": [f"name\n{n}" for n in range(count)]})
        parquet.write_table(table, path, row_group_size=7_000)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_an_import_killed_in_the_middle_goes_on_exactly_there(run, db, tmp_path, kind):
    count = 60_000
    file = tmp_path / f"numbers.{kind}"
    write_numbers(file, kind, count)
    arguments = ("import", db, file, "-t", "numbers", "--block-bytes", "12000")
    with subprocess.Popen(command(*arguments), stderr=-1, env=environment(tmp_path)) as child:
        while child.poll() is None and entries(db / "log") < 12:
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
    ((before,),) = rows(db, "SELECT count(*) FROM numbers")
    ((recorded,),) = rows(db, "SELECT rows_loaded FROM herdpy_imports")
    assert child.returncode == -signal.SIGKILL
    assert 0 < before < count
    assert before == recorded
    out = json.loads(run(*arguments, "--resume", "--json").stdout)
    assert (out["resumed_at"], out["rows"]) == (before, count)
    assert rows(db, "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM numbers") == [
        (count, count, 0, count - 1)
    ]
    assert rows(db, "SELECT name FROM numbers WHERE id = 59999") == [("name\n59999",)]


def entries(directory):
    """How many entries the log has by now: two for the tables, then one a block."""
    try:
        return sum(1 for _ in inspect.entries(str(directory)))
    except (LogError, OSError):  # being made
        return 0


@settings(deadline=None)
@given(
    st.lists(st.lists(st.text(alphabet='ab",\n\r é', max_size=5), min_size=2, max_size=2), max_size=12),
    st.integers(min_value=1, max_value=40),
)
def test_blocks_cut_a_file_between_records_whatever_is_in_it(tmp_path_factory, records, block_bytes):
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in record) for record in records]
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(("a,b\n" + "".join(f"{line}\n" for line in quoted)).encode())
    source = CsvSource(path, ReadOptions(block_bytes=max(block_bytes, 4)))
    found, ends = [], [Position()]
    for block in source.blocks(Position()):
        found += [list(record.values) for record in block.records(())]
        ends.append(block.end)
    assert found == records
    if len(ends) > 2:  # from any end, the rest follows
        again = [list(r.values) for block in source.blocks(ends[1]) for r in block.records(())]
        assert again == records[ends[1].rows :]


def test_scanning_keeps_quotes_apart_from_text():
    assert list(scan('a,"b","",\n"x""y"z,\n', ",")) == [
        ([("a", False), ("b", True), ("", True), ("", False)], 'a,"b","",\n'),
        ([('x"yz', True), ("", False)], '"x""y"z,\n'),
    ]


@pytest.mark.parametrize(
    ("make", "text"), [(CsvSource, 'a\n1\n"' + "x\n" * 99), (JsonlSource, '{"a": 1}\n\n{"a": "' + "x" * 99)]
)
def test_a_record_that_never_ends_is_refused_with_its_line(monkeypatch, tmp_path, make, text):
    monkeypatch.setattr(source_text, "_RECORD_LIMIT", 20)
    file = tmp_path / "a.txt"
    file.write_text(text)
    source = make(file, ReadOptions(block_bytes=9, sample_bytes=9))
    with pytest.raises(CliError, match=r"a\.txt:3: a record that does not end within"):
        [list(block.records(())) for block in source.blocks(Position())]

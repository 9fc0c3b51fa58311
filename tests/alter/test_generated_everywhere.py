"""Whatever way a row comes, its generated columns and what indexes on expressions keep are computed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import herdpy
from herdpy_server.embedded import opened
from herdpy_server.loading import StagingPlan, directory
from herdpy_sql.catalog import Column, KeyPart, Table
from herdpy_sql.staged import kept_rows
from herdpy_sql.types import INTEGER, TEXT
from tests.support.server_process import RunningServer

TABLE = (
    "CREATE TABLE {name} (k int PRIMARY KEY, a int, b text DEFAULT 'Def',"
    " g int GENERATED ALWAYS AS (a * 2) STORED CHECK (g < 1000),"
    " u text GENERATED ALWAYS AS (upper(b)) STORED);"
    "CREATE INDEX {name}_lower ON {name} (lower(b)); CREATE INDEX {name}_part ON {name} (a) WHERE a > 3"
)
ROWS = [(k, k % 7, f"Na{k}") for k in range(20)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path_factory.mktemp("generated") / "data").ready()
    yield running
    running.close()


@pytest.fixture(scope="module")
def connection(server: RunningServer) -> psycopg.Connection:
    return server.connect()


def check(connection: Any, name: str, count: int) -> None:
    """Every row has what it should, and each index has it."""
    rows = connection.execute(f"SELECT k, a, b, g, u FROM {name} ORDER BY k").fetchall()
    assert len(rows) == count
    for k, a, b, g, u in rows:
        assert (g, u) == (None if a is None else a * 2, None if b is None else b.upper())
        if b is not None:
            found = connection.execute(f"SELECT k FROM {name} WHERE lower(b) = %s", (b.lower(),)).fetchall()
            assert (k,) in found
        if a is not None and a > 3:
            found = connection.execute(f"SELECT k FROM {name} WHERE a = {a} AND a > 3 LIMIT 100").fetchall()
            assert (k,) in found
    total = connection.execute(f"SELECT count(*) FROM {name} WHERE a > 3").fetchall()
    assert total == [(sum(a is not None and a > 3 for _, a, *_ in rows),)]


def inserted(connection: Any, name: str) -> None:
    connection.execute(f"INSERT INTO {name} (k, a, b) VALUES (0, 0, 'x'), (1, 4, NULL)")
    connection.execute(f"INSERT INTO {name} VALUES (2)")


def inserted_many(connection: Any, name: str) -> None:
    connection.cursor().executemany(f"INSERT INTO {name} (k, a, b) VALUES (%s, %s, %s)", ROWS)


def selected(connection: Any, name: str) -> None:
    connection.execute(f"INSERT INTO {name} (k, a) SELECT i, i FROM generate_series(1, 300) i")
    connection.execute(f"INSERT INTO {name} (k, a, b) SELECT k + 1000, a, lower(b) FROM {name}")


def updated(connection: Any, name: str) -> None:
    inserted_many(connection, name)
    connection.execute(f"UPDATE {name} SET a = a + 1, b = b || '!' WHERE k = 3")
    connection.execute(f"UPDATE {name} SET a = a + 1 WHERE k > 5")
    connection.execute(f"UPDATE {name} t SET a = s.a, b = 'J' FROM {name} s WHERE s.k = t.k + 1")
    connection.execute(f"UPDATE {name} SET k = k + 100 WHERE a > 2")


def in_conflict(connection: Any, name: str) -> None:
    inserted_many(connection, name)
    for k in (3, 30):
        change = "DO UPDATE SET a = excluded.a + 1, b = 'C'"
        connection.execute(f"INSERT INTO {name} (k, a) VALUES ({k}, 5) ON CONFLICT (k) {change}")
    connection.execute(f"UPSERT INTO {name} (k, a, b) VALUES (4, 6, 'Ups'), (40, 6, 'Ups')")


def merged(connection: Any, name: str) -> None:
    inserted_many(connection, name)
    connection.execute(
        f"MERGE INTO {name} t USING (SELECT i FROM generate_series(1, 40) i) s ON t.k = s.i"
        " WHEN MATCHED AND s.i < 5 THEN DELETE WHEN MATCHED THEN UPDATE SET a = s.i, b = 'M'"
        " WHEN NOT MATCHED THEN INSERT (k, a) VALUES (s.i, 9)"
    )


def copied(connection: psycopg.Connection, name: str, form: str, data: bytes) -> None:
    with connection.cursor().copy(f"COPY {name} (k, a, b) FROM STDIN (FORMAT {form})") as copy:
        copy.write(data)


def copied_text(connection: psycopg.Connection, name: str) -> None:
    copied(connection, name, "text", b"1\t4\tAb\n2\t\\N\t\\N\n")
    copied(connection, name, "csv", b"".join(b"%d,5,%sCsv\n" % (k, b"long" * 9) for k in range(3, 60)))


def copied_binary(connection: psycopg.Connection, name: str) -> None:
    with connection.cursor().copy(f"COPY {name} (k, a, b) FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int4", "int4", "text"])
        for row in ROWS:
            copy.write_row(row)


def copied_arrow(connection: psycopg.Connection, name: str) -> None:
    columns = list(zip(*ROWS, strict=True))
    table = pa.table(
        {"k": pa.array(columns[0], pa.int32()), "a": pa.array(columns[1], pa.int32()), "b": columns[2]}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    copied(connection, name, "arrow", sink.getvalue().to_pybytes())


def cascaded(connection: psycopg.Connection, name: str) -> None:
    connection.execute(f"CREATE TABLE {name}_p (id int PRIMARY KEY)")
    connection.execute(f"INSERT INTO {name}_p SELECT i FROM generate_series(0, 9) i")
    inserted_many(connection, name)
    connection.execute(
        f"ALTER TABLE {name} ADD FOREIGN KEY (a) REFERENCES {name}_p ON UPDATE CASCADE ON DELETE SET NULL"
    )
    connection.execute(f"UPDATE {name}_p SET id = 44 WHERE id = 4")
    connection.execute(f"DELETE FROM {name}_p WHERE id = 5")


WAYS: list[tuple[Callable[[Any, str], None], int]] = [
    (inserted, 3),
    (inserted_many, 20),
    (selected, 600),
    (updated, 20),
    (in_conflict, 22),
    (merged, 37),
    (copied_text, 59),
    (copied_binary, 20),
    (copied_arrow, 20),
    (cascaded, 20),
]


@pytest.mark.parametrize(("way", "count"), WAYS, ids=[way.__name__ for way, _ in WAYS])
def test_every_way_in(connection: psycopg.Connection, way: Callable[[Any, str], None], count: int) -> None:
    name = f"t_{way.__name__}"
    connection.execute(TABLE.format(name=name))
    way(connection, name)
    check(connection, name, count)


def test_what_is_copied_out_has_none(connection: psycopg.Connection) -> None:
    connection.execute(TABLE.format(name="t_out"))
    connection.execute("INSERT INTO t_out VALUES (1, 2, 'x')")
    with connection.cursor().copy("COPY t_out TO STDOUT") as copy:
        assert b"".join(map(bytes, copy)) == b"1\t2\tx\n"
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("COPY t_out (k, g) TO STDOUT")
    assert caught.value.sqlstate == "42P10"


def test_a_row_that_does_not_fit_is_named(connection: psycopg.Connection) -> None:
    connection.execute(TABLE.format(name="t_bad"))
    with pytest.raises(psycopg.Error) as caught:
        copied(connection, "t_bad", "text", b"1\t4\tAb\n2\t500\tx\n")
    assert caught.value.sqlstate == "23514"
    with pytest.raises(psycopg.Error) as caught:
        copied(connection, "t_bad", "text", b"1\t2000000000\tAb\n")
    assert caught.value.sqlstate == "22003"
    check(connection, "t_bad", 0)


def test_arrow_is_taken_in_process(tmp_path: Path) -> None:
    with herdpy.connect(tmp_path / "d", autocommit=True) as ours:
        for statement in TABLE.format(name="t").split(";"):
            ours.execute(statement)
        columns = list(zip(*ROWS, strict=True))
        data = pa.table({"k": pa.array(columns[0], pa.int32()), "a": pa.array(columns[1], pa.int32())})
        ours.cursor().adbc_ingest("t", data, mode="append")
        check(ours, "t", 20)
    with herdpy.connect(tmp_path / "d") as again:
        check(again, "t", 20)


@pytest.mark.parametrize("mode", ["append", "upsert", "ignore"])
def test_loads_compute_them(tmp_path: Path, mode: str) -> None:
    with opened(tmp_path / "d") as database:
        session = database.session()
        for statement in TABLE.format(name="t").split(";"):
            database.run(session.execute(statement))
        database.run(session.execute("INSERT INTO t VALUES (100, 1, 'there')"))
        plan = directory.begin(database, "load", "t", mode, ["k", "a", "b"])
        assert isinstance(plan, StagingPlan)
        assert plan.schema.names == ["k", "a", "b"]
        rows = [*ROWS, (100, 6, "new")] if mode != "append" else ROWS
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(zip(*rows, strict=True), plan.schema, strict=True)
        ]
        directory.publish_batches(
            database, "load", "t", mode, [pa.RecordBatch.from_arrays(arrays, schema=plan.schema)]
        )
        database.run(session.close())
    for _ in range(2):  # as it was loaded, and as the log has it
        with herdpy.connect(tmp_path / "d") as again:
            check(again, "t", 21)


def test_writers_go_on_while_an_index_is_made(server: RunningServer, connection: psycopg.Connection) -> None:
    """Several writers, and an index made beside them: it has what the rows are, and nobody had an error."""
    connection.execute("CREATE TABLE w (k int PRIMARY KEY, v int, s text)")
    connection.execute("INSERT INTO w SELECT i, i % 100, 'x' FROM generate_series(1, 20000) i")
    stop, moved, errors, counts = threading.Event(), threading.Event(), list[psycopg.Error](), [0, 0]

    def write(number: int) -> None:
        try:
            own, at = server.connect(), 0
            while not stop.is_set():
                at += 1
                key = (at * 7919 + number) % 20000 + 1
                own.execute("UPDATE w SET v = v + 1 WHERE k = %s", (key,))
                own.execute("INSERT INTO w VALUES (%s, 3, 'n')", (100_000 * (number + 1) + at,))
                own.execute("DELETE FROM w WHERE k = %s", (key % 13 + 100_000 * (number + 1),))
                counts[number] = at
                moved.set()
        except psycopg.Error as error:
            errors.append(error)
            moved.set()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    while not all(counts) and not errors:
        moved.wait()
        moved.clear()
    before = sum(counts)
    connection.execute("CREATE INDEX w_v ON w (v)")
    during = sum(counts) - before
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert during > 0
    for v in range(0, 102, 5):
        own = connection.execute(
            f"SELECT count(*) FROM (SELECT k FROM w WHERE v = {v} LIMIT 100000) x"
        ).fetchone()
        scan = connection.execute(f"SELECT count(*) FROM w WHERE v + 0 = {v}").fetchone()
        assert own == scan


def test_staged_rows_get_them_where_the_log_is_applied() -> None:
    generated = Column("g", INTEGER, generated="a * 2")
    lower = Column("__expr_3", TEXT, hidden=True, generated="lower(b)")
    columns = (Column("a", INTEGER, not_null=True), generated, Column("b", TEXT), lower)
    table = Table(1, "t", columns, (KeyPart(0),), "t_pkey")
    staged = pa.RecordBatch.from_pydict({"a": pa.array([1, 2], pa.int32()), "b": ["X", None]})
    kept = kept_rows(table, staged, -1)
    assert kept.to_pydict() == {"a": [1, 2], "g": [2, 4], "b": ["X", None], "__expr_3": ["x", None]}

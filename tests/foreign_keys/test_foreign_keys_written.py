"""Every way of writing rows keeps foreign keys: statements, executemany, COPY, Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pyarrow as pa
import pytest

import herdpy
from herdpy.dbapi import Connection
from tests.pgwire.servers import thread_server

ROWS = 300


@pytest.fixture(scope="module", params=["embedded", "server"])
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    path = tmp_path_factory.mktemp("foreign")
    if request.param == "embedded":
        with herdpy.connect(path / "db", autocommit=True) as connection:
            define(connection)
            yield connection
    else:
        with (
            thread_server(path / "served") as server,
            herdpy.connect(f"herdpy://herdpy@127.0.0.1:{server.port}/herdpy", autocommit=True) as connection,
        ):
            define(connection)
            PORTS[connection] = server.port
            yield connection


PORTS: dict[Connection, int] = {}
"""Of the connections that go to a server."""


def define(connection: Connection) -> None:
    for statement in (
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p)",
        "CREATE TABLE d (id INT PRIMARY KEY, p INT REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
        "CREATE TABLE t (id INT PRIMARY KEY, p INT REFERENCES t)",
        "CREATE TABLE source (id INT PRIMARY KEY, p INT)",
    ):
        connection.execute(statement)


@pytest.fixture(autouse=True)
def cleared(database: Connection) -> None:
    database.execute("TRUNCATE p, c, d, t, source")
    database.execute("INSERT INTO p SELECT * FROM generate_series(0, 9)")


Rows = list[tuple[int, int | None]]
Write = Callable[[Connection, str, Rows], object]


def values(connection: Connection, table: str, rows: Rows) -> None:
    listed = ", ".join(f"({one}, {'NULL' if two is None else two})" for one, two in rows)
    connection.execute(f"INSERT INTO {table} VALUES {listed}")


def many(connection: Connection, table: str, rows: Rows) -> None:
    connection.cursor().executemany(f"INSERT INTO {table} VALUES (%s, %s)", rows)


def selected(connection: Connection, table: str, rows: Rows) -> None:
    values(connection, "source", rows)
    connection.execute(f"INSERT INTO {table} SELECT id, p FROM source ORDER BY id")


def by_conflict(connection: Connection, table: str, rows: Rows) -> None:
    values(connection, table, [(one, None) for one, _ in rows])
    listed = ", ".join(f"({one}, {'NULL' if two is None else two})" for one, two in rows)
    connection.execute(f"INSERT INTO {table} VALUES {listed} ON CONFLICT (id) DO UPDATE SET p = excluded.p")


def merged(connection: Connection, table: str, rows: Rows) -> None:
    values(connection, "source", rows)
    connection.execute(
        f"MERGE INTO {table} t USING source s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.p)"
    )


def by_with(connection: Connection, table: str, rows: Rows) -> None:
    values(connection, "source", rows)
    connection.execute(
        f"WITH new AS (INSERT INTO {table} SELECT id, p FROM source RETURNING id) SELECT count(*) FROM new"
    )


def updated(connection: Connection, table: str, rows: Rows) -> None:
    values(connection, "source", rows)
    values(connection, table, [(one, None) for one, _ in rows])
    connection.execute(f"UPDATE {table} SET p = s.p FROM source s WHERE s.id = {table}.id")


def ingested(connection: Connection, table: str, rows: Rows) -> None:
    one, two = zip(*rows, strict=True)
    data = pa.table({"id": pa.array(one, pa.int32()), "p": pa.array(two, pa.int32())})
    connection.cursor().adbc_ingest(table, data, mode="append")


WAYS: list[Write] = [values, many, selected, by_conflict, merged, by_with, updated, ingested]


def count(connection: Connection, table: str) -> int:
    found = connection.execute(f"SELECT count(*) FROM {table} WHERE p IS NOT NULL").fetchone()
    assert found is not None
    number = found[0]
    assert isinstance(number, int)
    return number


@pytest.mark.parametrize("write", WAYS, ids=lambda one: one.__name__)
def test_rows_that_refer_to_something(database: Connection, write: Write) -> None:
    rows: Rows = [(n, n % 10 if n % 7 else None) for n in range(ROWS)]
    write(database, "c", rows)
    assert count(database, "c") == sum(two is not None for _, two in rows)


@pytest.mark.parametrize("write", WAYS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("table", ["c", "d"])
def test_one_row_that_refers_to_nothing(database: Connection, write: Write, table: str) -> None:
    rows: Rows = [(n, 77 if n == 251 else n % 10) for n in range(ROWS)]
    with pytest.raises(herdpy.IntegrityError, match=f"{table}_p_fkey") as caught:
        write(database, table, rows)
    assert caught.value.sqlstate == "23503"
    assert caught.value.detail == 'Key (p)=(77) is not present in table "p".'
    assert count(database, table) == 0


@pytest.mark.parametrize("write", WAYS, ids=lambda one: one.__name__)
def test_checks_put_off(database: Connection, write: Write) -> None:
    rows: Rows = [(n, n) for n in range(100, 100 + ROWS)]
    database.execute("BEGIN")
    write(database, "d", rows)
    database.execute("INSERT INTO p SELECT * FROM generate_series(100, 500)")
    database.execute("COMMIT")
    assert count(database, "d") == ROWS


@pytest.mark.parametrize("write", [values, selected, merged, by_with, ingested], ids=lambda one: one.__name__)
def test_rows_of_one_statement_may_refer_to_later_ones(database: Connection, write: Write) -> None:
    write(database, "t", [(n, n + 1 if n + 1 < ROWS else None) for n in range(ROWS)])
    assert count(database, "t") == ROWS - 1
    with pytest.raises(herdpy.IntegrityError):
        write(database, "t", [(1000, 1001), (1001, 1002)])


def test_rows_of_executemany_are_statements_each(database: Connection) -> None:
    with pytest.raises(herdpy.IntegrityError):
        many(database, "t", [(n, n + 1 if n + 1 < ROWS else None) for n in range(ROWS)])
    many(database, "t", [(n, n - 1 if n else None) for n in range(ROWS)])
    assert count(database, "t") == ROWS - 1


def test_copy(database: Connection) -> None:
    if database not in PORTS:
        return  # there is no COPY without a server
    dsn = f"host=127.0.0.1 port={PORTS[database]} user=herdpy dbname=herdpy"
    where: list[str | None] = []
    for table, rows, good in (
        ("c", [(n, n % 10) for n in range(ROWS)], True),
        ("c", [(n, 77 if n == 1251 else 1) for n in range(1000, 1300)], False),
        ("d", [(n, 77 if n == 1251 else 1) for n in range(1000, 1300)], False),
        ("t", [(n, n + 1 if n + 1 < ROWS else None) for n in range(ROWS)], True),
        ("t", [(1000, 1001), (1001, 1002)], False),
    ):
        before = count(database, table)
        with psycopg.connect(dsn, autocommit=True) as connection:
            try:
                with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                    for row in rows:
                        copy.write_row(row)
            except psycopg.errors.ForeignKeyViolation as caught:
                where.append(caught.diag.context)
            else:
                where.append("nowhere")
        assert (count(database, table) > before) is good
    assert where == [
        "nowhere", "row 252 of the data for c", None, "nowhere", "row 2 of the data for t",
    ]  # fmt: skip


def test_a_load_names_the_row(database: Connection) -> None:
    rows: Rows = [(n, 77 if n >= 251 else n % 10) for n in range(ROWS)]
    with pytest.raises(herdpy.IntegrityError) as caught:
        ingested(database, "c", rows)
    if database not in PORTS:  # the protocol has other words for it
        assert caught.value.fields["row"] == "252"


def test_rows_that_are_referred_to(database: Connection) -> None:
    values(database, "c", [(1, 1)])
    database.execute("INSERT INTO source VALUES (1, 1)")
    for statement in (
        "DELETE FROM p WHERE id = 1",
        "DELETE FROM p USING source s WHERE s.id = p.id",
        "UPDATE p SET id = 11 WHERE id = 1",
        "UPDATE p SET id = p.id + 100 FROM source s WHERE s.id = p.id",
        "MERGE INTO p USING source s ON s.id = p.id WHEN MATCHED THEN DELETE",
        "WITH gone AS (DELETE FROM p WHERE id = 1 RETURNING id) SELECT * FROM gone",
        "INSERT INTO p VALUES (1) ON CONFLICT (id) DO UPDATE SET id = 12",
    ):
        with pytest.raises(herdpy.IntegrityError):
            database.execute(statement)
    assert database.execute("SELECT id FROM p WHERE id = 1").fetchone() == (1,)


def test_a_large_delete_cascades(database: Connection) -> None:
    database.execute("CREATE TABLE big (id INT PRIMARY KEY)")
    database.execute("CREATE TABLE small (id INT PRIMARY KEY, big INT REFERENCES big ON DELETE CASCADE)")
    database.execute("CREATE INDEX ON small (big)")
    database.execute("INSERT INTO big SELECT * FROM generate_series(1, 3000)")
    database.execute("INSERT INTO small SELECT i, i FROM generate_series(1, 3000) AS s(i)")
    assert database.execute("DELETE FROM big WHERE id > 10").rowcount == 2990
    assert database.execute("SELECT count(*) FROM small").fetchone() == (10,)
    database.execute("DROP TABLE big, small")

"""psycopg2, which writes values into its statements' texts: what it does every day."""

from __future__ import annotations

import datetime as dt
import io
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.support.server_process import RunningServer

psycopg2 = pytest.importorskip("psycopg2", reason="psycopg2 is not installed")
extras = pytest.importorskip("psycopg2.extras")


@pytest.fixture
def connection(clients_server: RunningServer) -> Iterator[Any]:
    found = psycopg2.connect(host="127.0.0.1", port=clients_server.port, user="ann", dbname="test")
    yield found
    found.close()


def test_values_both_ways(connection: Any) -> None:
    extras.register_uuid(conn_or_curs=connection)
    values = (
        1, 1.5, Decimal("1.20"), "a'b\\c", b"\x00\xff", dt.date(2026, 2, 28), True, None, ["x", None], [1, 2],
        dt.datetime(2026, 2, 28, 1, 2, 3, tzinfo=dt.UTC), dt.timedelta(days=3, seconds=5), uuid.UUID(int=7),
    )  # fmt: skip
    with connection, connection.cursor() as cursor:
        for value in values:
            cursor.execute("SELECT %s", (value,))
            (found,) = cursor.fetchone()
            assert (bytes(found) if isinstance(found, memoryview) else found) == value
        cursor.execute("SELECT %s::jsonb, %s = ANY(%s)", (extras.Json({"a": [1, None]}), 2, [1, 2]))
        assert cursor.fetchone() == ({"a": [1, None]}, True)
        cursor.execute("SELECT state, tags, meta, lent FROM lib_book WHERE id IN %s", ((1, 2),))
        row = cursor.fetchone()
        assert row == ("fine", ["a", "b c", None], {"a": [1, None]}, dt.timedelta(32, 10800, 500_000))


def test_batches_copies_and_cursors(connection: Any) -> None:
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE two (k int PRIMARY KEY, t text)")
        extras.execute_values(cursor, "INSERT INTO two VALUES %s", [(k, f"t{k}") for k in range(500)])
        extras.execute_batch(cursor, "UPDATE two SET t = %s WHERE k = %s", [("x", k) for k in range(10)])
        cursor.copy_expert("COPY two FROM STDIN (FORMAT csv)", io.StringIO("1000,a\n1001,b\n"))
        out = io.StringIO()
        cursor.copy_expert("COPY (SELECT * FROM two WHERE k >= 1000 ORDER BY k) TO STDOUT", out)
        assert out.getvalue() == "1000\ta\n1001\tb\n"
    with connection, connection.cursor("named", cursor_factory=extras.RealDictCursor) as cursor:
        cursor.itersize = 100
        cursor.execute("SELECT * FROM two WHERE t <> 'x' ORDER BY k")
        assert [row["k"] for row in cursor] == [*range(10, 500), 1000, 1001]


def test_transactions_and_errors(connection: Any) -> None:
    connection.set_session(isolation_level="SERIALIZABLE", readonly=True)
    with connection.cursor() as cursor:
        cursor.execute("SHOW transaction_isolation")
        assert cursor.fetchone() == ("serializable",)
        with pytest.raises(psycopg2.errors.ReadOnlySqlTransaction):
            cursor.execute("DELETE FROM lib_loan")
    connection.rollback()
    connection.reset()
    connection.autocommit = True
    with connection.cursor() as cursor, pytest.raises(psycopg2.errors.UniqueViolation) as caught:
        cursor.execute("INSERT INTO lib_author (name) VALUES ('ann')")
    assert caught.value.diag.constraint_name == "lib_author_name_key"
    assert caught.value.diag.table_name == "lib_author"

"""Rows of cursors that come with their bytes: cut anywhere, and in any form, they are the same rows."""

from __future__ import annotations

import random
from typing import Any

import psycopg
import pytest

from herdpy_server.sessions.encoded_rows import EncodedRows
from tests.pgwire.servers import ThreadServer

ROWS = 20_000
TABLE = "CREATE TABLE mixed (id int PRIMARY KEY, t text, n numeric(9,2), at timestamptz, b bytea, l int[])"
FILLED = (
    "INSERT INTO mixed SELECT i,"
    " CASE WHEN i % 7 = 0 THEN NULL WHEN i % 5 = 0 THEN '' ELSE repeat('é', i % 40) END,"
    " CASE WHEN i % 3 = 0 THEN NULL ELSE i / 4.0 END,"
    " timestamptz '2026-01-01 00:00+00' + make_interval(mins => i),"
    " decode(lpad(to_hex(i), 8, '0'), 'hex'), ARRAY[i, NULL, -i]"
    f" FROM generate_series(1, {ROWS}) i"
)
QUERY = "SELECT * FROM mixed ORDER BY id % 17, id"


@pytest.fixture(scope="module")
def filled(server: ThreadServer) -> ThreadServer:
    with connected(server) as connection:
        connection.execute(TABLE)
        connection.execute(FILLED)
    return server


def connected(server: ThreadServer) -> psycopg.Connection[Any]:
    host, port = server.address
    return psycopg.connect(host=host, port=port, user="herdpy", dbname="default", options="-c TimeZone=UTC")


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each piece had that was sent as it had come."""
    sent: list[int] = []
    real = EncodedRows.data

    def data(self: EncodedRows) -> bytes:
        found: bytes = real.fget(self)  # type: ignore[attr-defined]
        sent.append(len(found))
        return found

    monkeypatch.setattr(EncodedRows, "data", property(data))
    return sent


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("how", ["NO SCROLL", "", "SCROLL"])
def test_fetches_of_any_size_give_all_rows(
    filled: ThreadServer, encoded: list[int], how: str, binary: bool
) -> None:
    draw = random.Random(f"{how}{binary}")
    with connected(filled) as connection, connection.cursor(binary=binary) as cursor:
        expected = cursor.execute(QUERY).fetchall()
        cursor.execute(f"DECLARE c {how} CURSOR FOR {QUERY}")
        came: list[Any] = []
        while True:
            count = draw.choice((1, 3, 65, 100, 1000, 4096, 8192, 8193))
            if draw.random() < 0.2:
                moved = cursor.execute(f"MOVE {count} FROM c").rowcount
                came += expected[len(came) : len(came) + moved]
            rows = cursor.execute(f"FETCH {count} FROM c").fetchall()
            came += rows
            if not rows:
                break
        assert came == expected
        assert encoded


def test_other_forms_than_that_of_the_cursor_are_made_of_the_rows(
    filled: ThreadServer, encoded: list[int]
) -> None:
    draw = random.Random(3)
    with connected(filled) as connection:
        expected = connection.execute(QUERY).fetchall()
        connection.execute(f"DECLARE c NO SCROLL CURSOR FOR {QUERY}")
        came: list[Any] = []
        kinds = set()
        while len(came) < ROWS:
            before = len(encoded)
            binary, zone = draw.random() < 0.5, draw.choice(("UTC", "Asia/Tokyo"))
            connection.execute(f"SET TIME ZONE '{zone}'")
            with connection.cursor(binary=binary) as cursor:
                came += cursor.execute("FETCH 777 FROM c").fetchall()
            kinds.add((binary, zone, len(encoded) > before))
        assert came == expected
        assert kinds == {
            (False, "UTC", True),
            (True, "UTC", False),
            (False, "Asia/Tokyo", False),
            (True, "Asia/Tokyo", False),
        }


def test_rows_are_given_again_backward(filled: ThreadServer, encoded: list[int]) -> None:
    with connected(filled) as connection:
        expected = connection.execute(QUERY).fetchall()
        connection.execute(f"DECLARE c SCROLL CURSOR FOR {QUERY}")
        assert connection.execute("FETCH 9000 FROM c").fetchall() == expected[:9000]
        assert connection.execute("FETCH BACKWARD 8500 FROM c").fetchall() == expected[499:8999][::-1]
        assert connection.execute("FETCH ALL FROM c").fetchall() == expected[500:]
        assert encoded


def test_a_cursor_that_is_held_has_its_rows_alone(filled: ThreadServer, encoded: list[int]) -> None:
    with connected(filled) as connection:
        expected = connection.execute(QUERY).fetchall()
        connection.execute(f"DECLARE c CURSOR WITH HOLD FOR {QUERY}")
        connection.commit()
        assert connection.execute("FETCH ALL FROM c").fetchall() == expected
        assert not encoded
        connection.execute("CLOSE c")
        connection.commit()

"""Intervals, arrays, JSONB, vectors and ENUMs over PostgreSQL's protocol: in text, in binary, and by COPY."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

DEFINITION = """CREATE TABLE every (
    id int PRIMARY KEY, span interval, numbers int[], words text[], prices numeric(10,2)[], doc jsonb,
    place vector(3), keys uuid[], moments timestamptz[], mood mood, moods mood[], spans interval[],
    docs jsonb[]
)"""
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
ROW = (
    1,
    dt.timedelta(days=40, seconds=3),
    [1, None, 3],
    ["a b", 'c"d', None, ""],
    [Decimal("1.50"), None],
    {"a": [1, {"b": None}]},
    "[1,2.5,-3]",
    [UUID(int=7)],
    [NOON],
    "ok",
    ["happy", "sad"],
    [dt.timedelta(hours=1)],
    [{"x": 1}, [2]],
)


@pytest.fixture(scope="module")
def client(server):
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        connection.execute(DEFINITION)
        yield connection


def _parameters(row):
    adapted = [Jsonb(one) if isinstance(one, dict) else one for one in row]
    return [*adapted[:-1], [Jsonb(one) for one in row[-1]]]


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_values_come_back(client, binary):
    client.execute("DELETE FROM every")
    marks = ", ".join(["%s"] * len(ROW))
    client.cursor(binary=binary).execute(f"INSERT INTO every VALUES ({marks})", _parameters(ROW))
    for question in ("WHERE id = 1", "WHERE id + 0 = 1"):  # one by the key, one by the columnar engine
        assert (
            client.cursor(binary=binary).execute(f"SELECT * FROM every {question}").fetchone()[:6] == ROW[:6]
        )
        text = client.execute(f"SELECT * FROM every {question}").fetchone()
        assert text[6:9] == ROW[6:9]
        assert text[9] == "ok"
        assert text[11:] == ROW[11:]


GRID = (1, [[1, None, 3], [4, 5, 6]], [["a b", None]], [[[Decimal("1.50")], [None]]], [[NOON], [None]])


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_arrays_of_several_dimensions_come_back_and_are_copied(client, binary):
    client.execute(
        "CREATE TEMPORARY TABLE grids (id int PRIMARY KEY, n int[][], w text[][],"
        " p numeric(10,2)[][][], at timestamptz[][])"
    )
    form = "binary" if binary else "text"
    try:
        cursor = client.cursor(binary=binary)
        cursor.execute("INSERT INTO grids VALUES (%s, %s, %s, %s, %s)", GRID)
        for question in ("WHERE id = 1", "WHERE id + 0 = 1"):
            assert cursor.execute(f"SELECT * FROM grids {question}").fetchone() == GRID
        found = cursor.execute("SELECT id FROM grids WHERE n = %s::int[][] AND id + 0 = 1", (GRID[1],))
        assert found.fetchone() == (1,)
        with client.cursor().copy(f"COPY grids TO STDOUT (FORMAT {form})") as copy:
            data = b"".join(bytes(piece) for piece in copy)
        client.execute("TRUNCATE grids")
        with client.cursor().copy(f"COPY grids FROM STDIN (FORMAT {form})") as copy:
            copy.write(data)
        assert client.execute("SELECT * FROM grids").fetchone() == GRID
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            cursor.execute("INSERT INTO grids (id, n) VALUES (2, %s)", ([1, 2],))
    finally:
        client.execute("DROP TABLE grids")


def test_object_ids_are_those_that_drivers_know(client):
    cursor = client.execute("SELECT span, numbers, words, doc, spans, docs FROM every WHERE id = 1")
    assert [column.type_code for column in cursor.description] == [1186, 1007, 1009, 3802, 1187, 3807]


@pytest.mark.parametrize("form", ["text", "csv", "binary"])
def test_copy_takes_what_it_gave(client, form):
    client.execute("DELETE FROM every")
    client.execute("INSERT INTO every VALUES (%s)" % ", ".join(["%s"] * len(ROW)), _parameters(ROW))  # noqa: UP031
    client.execute("INSERT INTO every (id) VALUES (2)")
    before = client.execute("SELECT * FROM every ORDER BY id").fetchall()
    with client.cursor().copy(f"COPY every TO STDOUT (FORMAT {form})") as copy:
        data = b"".join(bytes(piece) for piece in copy)
    client.execute("DELETE FROM every")
    with client.cursor().copy(f"COPY every FROM STDIN (FORMAT {form})") as copy:
        copy.write(data)
    assert client.execute("SELECT * FROM every ORDER BY id").fetchall() == before


def test_a_vector_of_another_size_is_refused(client):
    with pytest.raises(psycopg.Error) as caught:
        client.execute("INSERT INTO every (id, place) VALUES (9, '[1,2]')")
    assert caught.value.sqlstate == "22000"


def test_psycopg_knows_the_enum_from_the_catalog(client):
    from psycopg.types.enum import EnumInfo

    found = EnumInfo.fetch(client, "mood")
    assert found is not None
    assert found.oid == client.execute("SELECT mood FROM every").description[0].type_code

"""Python's values of intervals, arrays, JSONB, vectors and ENUMs: the same in a directory and on a server."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import herdpy

VALUES: dict[str, tuple[str, Any]] = {
    "span": ("interval", dt.timedelta(days=40, seconds=3, microseconds=7)),
    "numbers": ("int[]", [1, None, 3]),
    "empty": ("int[]", []),
    "words": ("text[]", ["a b", 'c"d', None, "", "NULL", "{}", "\\"]),
    "floats": ("double precision[]", [1.5, float("inf"), None]),
    "truths": ("boolean[]", [True, False, None]),
    "prices": ("numeric(10,2)[]", [Decimal("1.50"), None]),
    "doc": ("jsonb", {"a": [1, {"b": None}], "ü": 1.5}),
    "list_doc": ("jsonb", [1, "x", [None]]),
    "place": ("vector(3)", [1.0, 2.5, -3.0]),
    "keys": ("uuid[]", [UUID(int=7), None]),
    "days": ("date[]", [dt.date(2024, 2, 29)]),
    "moments": ("timestamptz[]", [dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)]),
    "mood": ("mood", "ok"),
    "moods": ("mood[]", ["happy", None, "sad"]),
    "spans": ("interval[]", [dt.timedelta(hours=1), None]),
    "docs": ("jsonb[]", [{"x": 1}, [2, "3"], None]),
}
LABELS = pa.array(["ok", None, "sad"])


@pytest.fixture(scope="module", params=["directory", "server"])
def connection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if request.param == "directory":
        url = f"herdpy://{tmp_path_factory.mktemp('driver') / 'db'}"
    else:
        url = f"herdpy://ann@127.0.0.1:{request.getfixturevalue('server').port}/test"
    with herdpy.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS every; DROP TABLE IF EXISTS given")
        connection.execute("DROP TYPE IF EXISTS mood; CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        columns = ", ".join(f"{name} {kind}" for name, (kind, _) in VALUES.items())
        connection.execute(f"CREATE TABLE every (id int PRIMARY KEY, {columns})")
        connection.execute("CREATE TABLE given (id int, mood mood, moods mood[])")
        yield connection
        connection.execute("DROP TABLE every; DROP TABLE given; DROP TYPE mood")


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back(connection: Any, name: str) -> None:
    _, value = VALUES[name]
    connection.execute("DELETE FROM every")
    connection.execute(f"INSERT INTO every (id, {name}) VALUES (1, %s)", (value,))
    connection.cursor().executemany(
        f"INSERT INTO every (id, {name}) VALUES (%s, %s)",
        [(k, value if k % 3 else None) for k in range(2, 30)],
    )
    for where in ("id < 30", "id + 0 < 30"):
        rows = connection.execute(f"SELECT id, {name} FROM every WHERE {where} ORDER BY id").fetchall()
        assert rows == [(k, value if k % 3 else None) for k in range(1, 30)]
        assert type(rows[0][1]) is type(value)


@pytest.mark.parametrize("encoded", [LABELS, LABELS.dictionary_encode(), LABELS.cast(pa.large_string())])
def test_arrow_has_labels(connection: Any, encoded: Any) -> None:
    connection.execute("TRUNCATE given")
    data = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "mood": encoded})
    assert connection.cursor().adbc_ingest("given", data, mode="append") == 3
    question = "SELECT mood, id FROM given WHERE mood > 'sad' OR mood IS NULL ORDER BY mood"
    assert connection.execute(question).fetchall() == [("ok", 1), (None, 2)]
    for where in ("", " WHERE id + 0 > 0"):
        found = connection.execute(f"SELECT mood FROM given{where}").fetch_arrow_table()
        assert found.schema.field("mood").type == pa.string()
        assert sorted(found.column("mood").to_pylist(), key=str) == [None, "ok", "sad"]


def test_arrow_has_lists_of_labels(connection: Any) -> None:
    connection.execute("TRUNCATE given")
    lists = pa.array([["x"], ["sad", None], None, [], ["happy"]]).slice(1)
    data = pa.table({"id": pa.array(range(4), pa.int32()), "moods": lists})
    connection.cursor().adbc_ingest("given", data, mode="append")
    rows = connection.execute("SELECT moods FROM given ORDER BY id").fetchall()
    assert rows == [(["sad", None],), (None,), ([],), (["happy"],)]


@pytest.mark.parametrize(
    ("column", "values", "sqlstate"),
    [
        ("mood", pa.array(["ok", None, "angry"]), "22P02"),
        ("moods", pa.array([["ok", "sad"], [], ["ok", "angry"]]), "22P02"),
        ("mood", pa.array([1.0, 2.0, 7.5]), "22023"),
    ],
)
def test_what_is_no_label_is_refused(connection: Any, column: str, values: Any, sqlstate: str) -> None:
    connection.execute("TRUNCATE given")
    data = pa.table({"id": pa.array(range(3), pa.int32()), column: values})
    with pytest.raises(herdpy.DataError) as caught:
        connection.cursor().adbc_ingest("given", data, mode="append")
    assert caught.value.sqlstate == sqlstate
    if sqlstate == "22P02":
        assert caught.value.message == 'invalid input value for enum mood: "angry"'
    assert connection.execute("SELECT count(*) FROM given").fetchone() == (0,)


def test_a_type_takes_its_columns_along(connection: Any) -> None:
    connection.execute("CREATE TYPE colour AS ENUM ('red', 'green')")
    connection.execute(
        "CREATE TABLE a (id int, c colour, n int, PRIMARY KEY (c, id), CHECK (c <> 'red' OR n > 0))"
    )
    connection.execute("CREATE TABLE b (id int PRIMARY KEY, many colour[], c colour, r int)")
    connection.execute("ALTER TABLE b ADD FOREIGN KEY (c, r) REFERENCES a (c, id)")
    connection.execute("CREATE INDEX b_c ON b (c); CREATE VIEW sees AS SELECT id, many FROM b")
    connection.execute("INSERT INTO a VALUES (1, 'green', 5), (2, 'red', 6)")
    connection.execute("INSERT INTO b VALUES (1, '{red}', 'green', 1), (2, NULL, NULL, 9)")
    with pytest.raises(herdpy.Error) as caught:
        connection.execute("DROP TYPE colour")
    assert caught.value.sqlstate == "2BP01"
    connection.execute("BEGIN; DROP TYPE colour CASCADE; ROLLBACK")
    assert connection.execute("SELECT * FROM sees WHERE id = 1").fetchone() == (1, ["red"])
    connection.execute("DROP TYPE colour CASCADE")
    assert connection.execute("SELECT * FROM a ORDER BY id").fetchall() == [(1, 5), (2, 6)]
    assert connection.execute("SELECT * FROM b ORDER BY id").fetchall() == [(1, 1), (2, 9)]
    connection.execute("INSERT INTO a VALUES (1, -5); INSERT INTO b VALUES (3, 77)")
    for gone in ("SELECT * FROM sees", "SELECT c FROM a", "SELECT 'red'::colour"):
        with pytest.raises(herdpy.Error) as caught:
            connection.execute(gone)
        assert caught.value.sqlstate in {"42P01", "42703", "42704"}
    connection.execute("DROP TABLE a; DROP TABLE b")

"""Python's values of intervals, arrays, JSONB, vectors and ENUMs: the same in a directory and on a server."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from ipaddress import ip_address, ip_interface, ip_network
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
    "card": ("macaddr", "08:00:2b:01:02:03"),
    "cards": ("macaddr[]", ["08:00:2b:01:02:03", None]),
    "long_card": ("macaddr8", "08:00:2b:ff:fe:01:02:03"),
    "address": ("inet", ip_address("10.0.0.7")),
    "interface": ("inet", ip_interface("10:23::f1/64")),
    "network": ("cidr", ip_network("10.1.0.0/16")),
    "addresses": ("inet[]", [ip_address("::1"), None, ip_interface("10.0.0.7/24")]),
    "networks": ("cidr[]", [ip_network("::/0"), None]),
    "bits": ("bit(3)", "101"),
    "more_bits": ("varbit[]", ["101", None, ""]),
    "days": ("date[]", [dt.date(2024, 2, 29)]),
    "moments": ("timestamptz[]", [dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)]),
    "mood": ("mood", "ok"),
    "moods": ("mood[]", ["happy", None, "sad"]),
    "spans": ("interval[]", [dt.timedelta(hours=1), None]),
    "docs": ("jsonb[]", [{"x": 1}, [2, "3"], None]),
    "grid": ("int[][]", [[1, None, 3], [4, 5, 6]]),
    "word_grid": ("text[][]", [["a b", 'c"d'], [None, "{}"]]),
    "price_grid": ("numeric(10,2)[][]", [[Decimal("1.50")], [None]]),
    "cube": ("float8[][][]", [[[1.5], [float("inf")]], [[None], [-2.0]]]),
    "day_grid": ("date[][]", [[dt.date(2024, 2, 29)], [dt.date(2024, 3, 1)]]),
    "key_grid": ("uuid[][]", [[UUID(int=7), UUID(int=8)]]),
    "moment_grid": ("timestamptz[][]", [[dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC), None]]),
    "span_grid": ("interval[][]", [[dt.timedelta(hours=1)], [None]]),
    "mood_grid": ("mood[][]", [["happy", None], ["sad", "ok"]]),
    "no_grid": ("int[][]", []),
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


GRIDS = {
    "n": pa.array([[[1, 2], [3, None]], None, [], [[5]]], pa.list_(pa.list_(pa.int64()))),
    "m": pa.array([[["ok"], ["sad"]], None, [], [[None]]], pa.list_(pa.list_(pa.string()))),
}


@pytest.fixture(scope="module")
def grids(connection: Any) -> Iterator[Any]:
    connection.execute("CREATE TABLE grids (id int, n int[][], m mood[][])")
    yield connection
    connection.execute("DROP TABLE grids")


def test_arrow_has_lists_of_lists(grids: Any) -> None:
    data = pa.table({"id": pa.array(range(4), pa.int32()), **GRIDS})
    assert grids.cursor().adbc_ingest("grids", data, mode="append") == 4
    for where in ("", " WHERE id + 0 >= 0"):
        found = grids.execute(f"SELECT id, n, m FROM grids{where} ORDER BY id").fetchall()
        assert found == [
            (0, [[1, 2], [3, None]], [["ok"], ["sad"]]),
            (1, None, None),
            (2, [], []),
            (3, [[5]], [[None]]),
        ]


@pytest.mark.parametrize(
    "wrong",
    [[[[1, 2], [3]]], [[[1, 2], None]], [[[1], [2]], [[3], [4, 5]]]],
    ids=["ragged", "null", "second"],
)
def test_lists_without_a_shape_are_refused(grids: Any, wrong: list[Any]) -> None:
    before = grids.execute("SELECT count(*) FROM grids").fetchone()
    data = pa.table(
        {
            "id": pa.array(range(len(wrong)), pa.int32()),
            "n": pa.array(wrong, pa.list_(pa.list_(pa.int32()))),
        }
    )
    with pytest.raises(herdpy.DataError) as caught:
        grids.cursor().adbc_ingest("grids", data, mode="append")
    assert caught.value.sqlstate == "22023"
    assert grids.execute("SELECT count(*) FROM grids").fetchone() == before


@pytest.mark.parametrize(
    ("statement", "parameter"),
    [
        ("INSERT INTO grids (n) VALUES (%s)", [1, 2]),
        ("INSERT INTO grids (n) VALUES (%s)", [[[1, 2]]]),
        ("INSERT INTO grids (n) SELECT %s::int[] FROM (VALUES (1)) AS one (x)", [1]),
        ("UPDATE grids SET n = n[1:1] || %s::int[]", [[[[1]]]]),
        ("UPDATE grids SET m = %s::mood[]", ["ok"]),
    ],
)
def test_a_column_takes_arrays_of_its_dimensions(grids: Any, statement: str, parameter: Any) -> None:
    before = grids.execute("SELECT id, n, m FROM grids ORDER BY id").fetchall()
    grids.execute("INSERT INTO grids VALUES (9, '{{1}}', '{{ok}}')")
    try:
        with pytest.raises(herdpy.Error) as caught:
            grids.execute(statement, (parameter,))
        assert caught.value.sqlstate in ("0A000", "2202E")
    finally:
        grids.execute("DELETE FROM grids WHERE id = 9")
    assert grids.execute("SELECT id, n, m FROM grids ORDER BY id").fetchall() == before


def test_many_rows_are_refused_as_one_is(grids: Any) -> None:
    cursor = grids.cursor()
    for wrong, sqlstate in (([1, 2], "0A000"), ([[1], [2, 3]], "2202E")):
        with pytest.raises(herdpy.Error) as caught:
            cursor.executemany(
                "INSERT INTO grids (id, n) VALUES (%s, %s)",
                [(100 + k, [[k]]) for k in range(40)] + [(200, wrong)],
            )
        assert caught.value.sqlstate == sqlstate
    assert grids.execute("SELECT count(*) FROM grids WHERE id >= 100").fetchone() == (0,)


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

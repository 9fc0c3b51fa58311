"""Arrays in columns, read and changed: both engines say what a real PostgreSQL says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import herdpy

KEYS = [f"'00000000-0000-0000-0000-00000000000{n}'::uuid" for n in range(3)]
DEFINED = (
    "CREATE TEMP TABLE held (id int PRIMARY KEY, u uuid, us uuid[], ug uuid[][], n numeric, n2 numeric(6,2),"
    " a int[], g int[][])",
    f"INSERT INTO held VALUES (1, {KEYS[1]}, ARRAY[{KEYS[2]}, NULL, {KEYS[0]}],"
    f" ARRAY[[{KEYS[1]}], [NULL::uuid]], 1.500,"
    " 2.5, '{1,2}', '{{1,2},{3,4}}'), (2, NULL, NULL, '{}', NULL, 3, '{1,2,3,4}', NULL),"
    f" (3, {KEYS[0]}, '{{}}', ARRAY[[{KEYS[0]}]], 2, 0.25, NULL, '{{{{1}}}}')",
)
READ = (
    "us || u",
    "u || us",
    "array[u, u]",
    "array[us, us]",
    "array[[u, u]]",
    "array[u] = us",
    "array[u] < us",
    "us[1]",
    "us[1] < u",
    "us[2:3]",
    "ug || array[[u]]",
    "ug[1][1]",
    "ug = array[array[u]]",
    "us < ug",
    "u = any (us)",
    "u = any (ug)",
    "array_position(us, u)",
    "array_remove(us, u)",
    "array_replace(ug, u, null)",
    "array_to_string(us, ' ', '-')",
    "to_json(ug)",
    "us",
    "array[n, n2]",
    "array[n2, 1]",
    "array[[n2, n], [1, 1.125]]",
    "array[n, n2] = array[n2, n]",
    "array[n, n2] || n2",
    "array[coalesce(n, 1.25), n2]",
    "a = g",
    "a < g",
    "g > a",
    "a is distinct from g",
    "a = any (select g from held)",
    "(a, id) in (select g, id from held)",
)


@pytest.fixture(scope="module")
def both(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    directory = str(tmp_path_factory.mktemp("arrays") / "db")
    with (
        herdpy.connect(directory, autocommit=True) as ours,
        psycopg.connect(postgres, autocommit=True) as theirs,
    ):
        for statement in DEFINED:
            ours.execute(statement)
            theirs.execute(statement)
        yield ours, theirs


def rows(connection: Any, statement: str) -> Any:
    try:
        found = connection.execute(statement)
    except (psycopg.Error, herdpy.Error) as error:
        return error.sqlstate
    return found.fetchall() if found.description else None


@pytest.mark.parametrize("engine", ["auto", "columnar"])
def test_stored_arrays_are_read_as_postgresql_does(both: tuple[Any, Any], engine: str) -> None:
    ours, theirs = both
    ours.execute(f"SET herdpy.engine = '{engine}'")
    different = []
    for text in READ:
        for order in ("id", text):
            statement = f"SELECT id, ({text})::text FROM held ORDER BY {order}, id"
            mine, expected = rows(ours, statement), rows(theirs, statement)
            if mine != expected and expected != "42883":  # PostgreSQL cannot sort JSON
                different.append(f"{statement}\n    here {mine}, PostgreSQL {expected}")
    ours.execute("RESET herdpy.engine")
    assert not different, "\n".join(different)


SORTED = (
    "ORDER BY array[id, null]",
    "ORDER BY array[a[1], a[9]] DESC, id",
    "ORDER BY array[null, n2]",
    "ORDER BY array[a[1] * 'NaN'::float8, 1] NULLS FIRST, id",
    "ORDER BY g DESC NULLS LAST, id",
    "ORDER BY us, id LIMIT 2",
    "ORDER BY array[u, null] DESC LIMIT 1",
)


@pytest.mark.parametrize("engine", ["auto", "own", "columnar"])
def test_arrays_with_nulls_are_sorted_as_postgresql_does(both: tuple[Any, Any], engine: str) -> None:
    ours, theirs = both
    ours.execute(f"SET herdpy.engine = '{engine}'")
    statements = [f"SELECT id FROM held {order}" for order in SORTED]
    different = [one for one in statements if rows(ours, one) != rows(theirs, one)]
    ours.execute("RESET herdpy.engine")
    assert not different, "\n".join(different)


MIXED = (
    "greatest(g, a)",
    "least(a, g, '{{3}}')",
    "coalesce(a, g)",
    "CASE WHEN id = 1 THEN a ELSE g END",
    "CASE id WHEN 1 THEN g ELSE '{7}' END",
)


def test_own_plans_choose_among_arrays_of_different_dimensions(both: tuple[Any, Any]) -> None:
    """DuckDB has no value for them: the query is an own plan's where either engine could have it."""
    ours, theirs = both
    for text in MIXED:
        statement = f"SELECT {text} FROM held ORDER BY id"
        for engine in ("auto", "own", "columnar"):
            ours.execute(f"SET herdpy.engine = '{engine}'")
            expected = "0A000" if engine == "columnar" else rows(theirs, statement)
            assert rows(ours, statement) == expected, (engine, statement)
    ours.execute("RESET herdpy.engine")
    assert rows(ours, "SELECT DISTINCT coalesce(a, g) FROM held") == "0A000"


SETS = (
    "a[1] = 2",
    "a[2] = NULL",
    "a[id] = id * 10",
    "a[5] = 9",
    "a[1] = 7, a[3] = 8",
    "a[2] = a[1], n2 = a[1]",
    "(a[1], n2) = (4, 5)",
    "(a[1], a[2]) = (SELECT 4, 5)",
    "a[1:2] = '{8,9,10}'",
    "a[:2] = '{8,9}'",
    "a[2:] = a",
    "a[2:5] = '{5,6,7,8}'",
    "a[2:1] = '{5}'",
    "a[1:3] = '{5}'",
    "a[1:2] = NULL",
    "a[1][1] = 1",
    "a[1][1:2] = '{{1,2}}'",
    "a[NULL] = 1",
    "a[1:NULL] = '{1}'",
    "a['1'] = '2'",
    "a[1] = 'x'",
    "a[1] = 2.6",
    "a[1] = 3000000000",
    "a['x'] = 1",
    "a[true] = 1",
    "a[1] = true",
    "a[1] = DEFAULT",
    "a[1] = 1, a = '{}'",
    "a = '{}', a[1] = 1",
    "n[1] = 1",
    "none[1] = 1",
    "a[1][1][1][1][1][1][1] = 1",
    "g[1][2] = 9",
    "g[1][3] = 9",
    "g[1][1] = 9, g[1][1] = g[1][1] + 1",
    "g[1] = 9",
    "g[1:1] = '{{7,8}}'",
    "g[1:2][2:2] = '{5,6}'",
    "g[1:2][2] = '{5,6,7,8}'",
    "g[1:2][3:3] = '{5,6}'",
    "g[1:2][1:2] = '{5}'",
    "us[2] = u",
    "us[1] = 'x'",
    "ug[1][1] = u",
    "a[1] = held.id FROM (VALUES (1), (3)) AS other (k) WHERE held.id = k",
    "a[other.k] = other.k FROM (VALUES (1), (2)) AS other (k) WHERE held.id = k",
)


def changed(connection: Any, statement: str) -> Any:
    """The rows after a change that is taken back, or what it failed with."""
    connection.execute("BEGIN")
    try:
        connection.execute(statement)
        return connection.execute(
            "SELECT id, a::text, g::text, us::text, ug::text, n, n2 FROM held ORDER BY id"
        ).fetchall()
    except (psycopg.Error, herdpy.Error) as error:
        return error.sqlstate
    finally:
        connection.execute("ROLLBACK")


@pytest.mark.parametrize("engine", ["auto", "columnar"])
def test_elements_are_set_as_postgresql_does(both: tuple[Any, Any], engine: str) -> None:
    ours, theirs = both
    ours.execute(f"SET herdpy.engine = '{engine}'")
    different = []
    for text in SETS:
        for place in (1, 2, 3) if engine == "auto" and " FROM " not in text else (1,):
            statement = f"UPDATE held SET {text}" + ("" if " FROM " in text else f" WHERE id = {place}")
            mine, expected = changed(ours, statement), changed(theirs, statement)
            if mine != expected and not (mine == "0A000" and begins_elsewhere(expected)):
                different.append(f"{statement}\n    here {mine}, PostgreSQL {expected}")
    ours.execute("RESET herdpy.engine")
    assert not different, "\n".join(different)


def begins_elsewhere(found: Any) -> bool:
    """Whether an array in it does not begin at 1, or has other dimensions than its column: ours never do."""
    return not isinstance(found, str) and any(
        "[" in str(row[1:5])
        or (row[1] or "").startswith("{{")
        or not (row[2] or "{}").startswith(("{}", "{{"))
        for row in found
    )


@pytest.mark.parametrize(
    "text", ["a[2] = excluded.a[1]", "a[2:3] = excluded.a", "a[1] = held.a[2] + excluded.id", "a[1][1] = 1"]
)
def test_elements_are_set_on_conflict(both: tuple[Any, Any], text: str) -> None:
    ours, theirs = both
    statement = (
        "INSERT INTO held (id, a) VALUES (1, '{7,8}'), (2, '{9,9}'), (4, '{1}')"
        " ON CONFLICT (id) DO UPDATE SET "
    )
    assert changed(ours, statement + text) == changed(theirs, statement + text)


def test_elements_are_set_by_parameters(both: tuple[Any, Any]) -> None:
    ours, theirs = both
    for connection in both:
        connection.execute("BEGIN")
        connection.execute("UPDATE held SET a[%s] = %s, g[1:1] = %s WHERE id = %s", (3, 5, [[8, 9]], 1))
    question = "SELECT a, g FROM held WHERE id = 1"
    assert rows(ours, question) == rows(theirs, question) == [([1, 2, 5], [[8, 9], [3, 4]])]
    for connection in both:
        connection.execute("ROLLBACK")


@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("UPDATE held SET a[0] = 1 WHERE id = 1", "0A000"),
        ("UPDATE held SET a[2] = 1 WHERE id = 3", "0A000"),
        ("UPDATE held SET a[100000000] = 1 WHERE id = 1", "54000"),
        ("UPDATE held SET g[1] = 1 WHERE id = 2", "0A000"),
        ("INSERT INTO held (id, a[1]) VALUES (9, 1)", "0A000"),
    ],
)
def test_what_cannot_be_set_is_refused(both: tuple[Any, Any], statement: str, sqlstate: str) -> None:
    assert changed(both[0], statement) == sqlstate

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

"""A database of DuckDB has the macros and functions that queries have named, each with all that it needs."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from herdpy_sql.columnar import callbacks, engine, macros
from herdpy_sql.columnar.macros import BARE, MACROS, define, needed
from herdpy_sql.values.styles import PLAIN, in_zone

NAMES = [
    *(name for macro in MACROS for name in needed(macro)),
    *(f"{name}_bare" for name in BARE),
    *(name for name, *_ in (*callbacks.FUNCTIONS, *callbacks.styled(PLAIN))),
]


def _defined(connection: Any) -> set[str]:
    found = connection.execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
    return {name for (name,) in found} & set(NAMES)


@pytest.mark.parametrize("name", sorted(macros._STATEMENTS))
def test_each_macro_is_made_with_what_it_needs_and_nothing_else(name: str) -> None:
    with duckdb.connect(":memory:") as connection:
        made = needed(f"SELECT {name}(1)")
        for one in made:
            define(connection, one, PLAIN)
        assert made[-1] == name
        assert _defined(connection) == set(made)
        for one in made:
            text = macros._STATEMENTS.get(one, "")
            assert set(macros._NAMES.findall(text)) <= set(made)


def test_functions_need_nothing() -> None:
    names = sorted(macros._FUNCTIONS)
    assert needed(" ".join(names)) == names
    with duckdb.connect(":memory:") as connection:
        for name in names:
            define(connection, name, PLAIN)
        assert _defined(connection) == set(names)


def test_all_of_them_are_known_by_their_names() -> None:
    assert {name for name in NAMES if name in macros._STATEMENTS or name in macros._FUNCTIONS} == set(NAMES)
    assert len(set(NAMES)) > len(MACROS)
    assert needed("SELECT pg_unknown(1), my_pg_upper(2)") == []


def test_a_database_is_given_what_is_named_once() -> None:
    connection = engine.database(64 << 20, 1, None, in_zone("Europe/Vaduz"))  # of this test alone
    assert _defined(connection) == set()
    for _ in range(2):
        engine.provide(connection, "SELECT pg_upper('é')", (), in_zone("Europe/Vaduz"))
    assert _defined(connection) == {"pg_upper", "pg_uppertext"}
    assert connection.execute("SELECT pg_upper('é')").fetchall() == [("É",)]

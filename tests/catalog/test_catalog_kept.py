"""What is made of the catalog once is made again when it changes: rows, plans, names."""

from __future__ import annotations

import pytest

import herdpy
from herdpy_sql.system import select

COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = 'kept'::regclass AND attnum > 0 ORDER BY attnum"


@pytest.fixture
def connection(tmp_path):
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (a INTEGER)")
        yield connection


def test_rows_follow_changes(connection):
    assert connection.execute(COLUMNS).fetchall() == [("a",)]
    connection.execute("ALTER TABLE kept ADD COLUMN b TEXT")
    assert connection.execute(COLUMNS).fetchall() == [("a",), ("b",)]
    connection.execute("ALTER TABLE kept DROP COLUMN a")
    assert "b" in {name for (name,) in connection.execute(COLUMNS)}
    assert "a" not in {name for (name,) in connection.execute(COLUMNS)}


def test_rows_of_a_transaction_are_its_own(connection, tmp_path):
    with herdpy.connect(tmp_path / "db", autocommit=True) as other:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE mine (a INTEGER)")
        asked = "SELECT count(*) FROM pg_class WHERE relname = 'mine'"
        assert connection.execute(asked).fetchall() == [(1,)]
        assert other.execute(asked).fetchall() == [(0,)]
        connection.execute("ROLLBACK")
        assert connection.execute(asked).fetchall() == [(0,)]


def test_plans_outlive_other_changes(connection, monkeypatch):
    planned = []
    bound = select.catalog_query
    monkeypatch.setattr(select, "catalog_query", lambda *args: planned.append(1) or bound(*args))
    for number in range(3):
        assert connection.execute("SELECT count(*) FROM pg_am").fetchall() == [(2,)]
        connection.execute(f"CREATE TABLE other_{number} (a INTEGER)")
    assert len(planned) == 1


def test_a_users_table_takes_the_name(connection):
    asked = "SELECT * FROM pg_am ORDER BY 1"
    assert len(connection.execute(asked).fetchall()) == 2
    connection.execute("CREATE TABLE pg_am (mine INTEGER PRIMARY KEY)")
    connection.execute("INSERT INTO pg_am VALUES (7)")
    assert connection.execute(asked).fetchall() == [(7,)]
    assert len(connection.execute("SELECT * FROM pg_catalog.pg_am").fetchall()) == 2
    connection.execute("DROP TABLE pg_am")
    assert len(connection.execute(asked).fetchall()) == 2


def test_arrays_and_json_are_values(connection):
    ((names, numbers, told),) = connection.execute(
        "SELECT array_agg(attname), array_agg(attnum), json_build_object('always', true, 'n', 1)"
        " FROM pg_attribute WHERE attrelid = 'kept'::regclass AND attnum = ANY (ARRAY[$1::INTEGER, 2])",
        (1,),
    ).fetchall()
    assert (names, numbers, told) == (["a"], [1], {"always": True, "n": 1})


def test_ids_are_names_in_arrow(connection):
    asked = "SELECT 'kept'::regclass AS r, ARRAY['kept'::regclass] AS a, NULL::regtype AS t"
    found = connection.execute(asked).fetch_arrow_table()
    assert found.to_pylist() == [{"r": "kept", "a": ["kept"], "t": None}]

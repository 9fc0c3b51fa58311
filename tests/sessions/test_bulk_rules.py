"""Loading columns does to each row what INSERT does: CHAR, JSON, DEFAULT, NOT NULL and CHECK."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import herdpy
from herdpy_sql import storage

TABLE = """CREATE TABLE {name} (
    k int PRIMARY KEY CHECK (k < 50),
    c char(3),
    v varchar(3) NOT NULL,
    j json,
    n numeric(4,1) DEFAULT 1.5 CHECK (n <> 9 AND 100 / n < 1000),
    w text DEFAULT 'w' || 'x',
    u uuid DEFAULT gen_random_uuid(),
    at timestamptz DEFAULT now(),
    CHECK (v <> c OR c IS NULL)
)"""
COLUMNS = {"k": pa.int32(), "c": pa.string(), "v": pa.string(), "j": pa.string(), "n": pa.decimal128(6, 2)}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[herdpy.Connection]:
    with herdpy.connect(f"herdpy://{tmp_path_factory.mktemp('bulk')}/db", autocommit=True) as found:
        found.execute(TABLE.format(name="loaded"))
        found.execute(TABLE.format(name="inserted"))
        yield found


def numbers(texts: list[str | None]) -> st.SearchStrategy[Decimal | None]:
    return st.sampled_from([None if text is None else Decimal(text) for text in texts])


ROWS = st.fixed_dictionaries(
    {
        "k": st.one_of(st.integers(0, 51), st.none()),
        "c": st.sampled_from(["", "a", "ab ", "abc", "abc  ", "abcd", None]),
        "v": st.sampled_from(["", "a", "abc", "abc ", "x", "abcd", None]),
        "j": st.sampled_from(["1", '{"a": [1]}', "{", None]),
        "n": numbers(["1.5", "9", "0.1", "0", "9.04", "999.9", None]),
    }
)
BAD_VALUES = {"c": {"abcd"}, "v": {"abcd"}, "j": {"{"}}


def has_one_bad_value(row: dict[str, Any]) -> bool:
    """Of several the way decides which is reported first, as it does in PostgreSQL."""
    return sum(row[name] in bad for name, bad in BAD_VALUES.items()) <= 1


GOOD = st.fixed_dictionaries(
    {
        "k": st.integers(0, 49),
        "c": st.sampled_from(["", "a", "ab ", "abc", None]),
        "v": st.sampled_from(["x", "xy", "xyz", "xyz "]),
        "j": st.sampled_from(["1", '{"a": [1]}', None]),
        "n": numbers(["1.5", "2.25", "999.9", None]),
    }
)


def outcome(connection: herdpy.Connection, act: Any, name: str) -> Any:
    try:
        act()
    except herdpy.Error as error:
        found: Any = ("refused", error.sqlstate, str(error).partition("\n")[0].replace(name, "t"))
    else:
        found = ("loaded",)
    rows = connection.execute(f"SELECT k, c, v, j, n, w FROM {name} ORDER BY k").fetchall()
    return found, rows


@settings(max_examples=60)
@given(
    good=st.lists(GOOD, max_size=6, unique_by=lambda row: row["k"]),
    doubtful=st.lists(ROWS.filter(has_one_bad_value), max_size=1),
    given_columns=st.sets(st.sampled_from(["c", "j", "n"])),
    slice_rows=st.sampled_from([1, 2, 100]),
)
def test_loading_is_inserting(
    connection: herdpy.Connection,
    good: list[dict[str, Any]],
    doubtful: list[dict[str, Any]],
    given_columns: set[str],
    slice_rows: int,
) -> None:
    connection.execute("DELETE FROM loaded")
    connection.execute("DELETE FROM inserted")
    rows = good + doubtful
    names = [name for name in COLUMNS if name in {"k", "v"} | given_columns]
    data = pa.table({name: pa.array([row[name] for row in rows], COLUMNS[name]) for name in names})
    marks = ", ".join(["%s"] * len(names))
    statement = f"INSERT INTO inserted ({', '.join(names)}) VALUES ({marks})"
    before, storage.BATCH_ROWS = storage.BATCH_ROWS, slice_rows
    try:
        cursor = connection.cursor()
        found = outcome(connection, lambda: cursor.adbc_ingest("loaded", data, mode="append"), "loaded")
    finally:
        storage.BATCH_ROWS = before
    parameters = [tuple(row[name] for name in names) for row in rows]
    expected = outcome(
        connection, lambda: cursor.executemany(statement, parameters) if rows else None, "inserted"
    )
    assert found == expected

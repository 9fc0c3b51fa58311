"""The same Python values through a directory and a server: one by one, by executemany, and as Arrow."""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import herdpy
from herdpy import Interval, Json, Jsonb

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e15, 1e15) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
NUMBERS = st.decimals(allow_nan=False, allow_infinity=False).filter(
    lambda number: abs(number.adjusted()) < 300
)
MONTHS = st.integers(1, 9_999) | st.integers(-9_999, -1)
COLUMNS = {
    "n": ("numeric", NUMBERS),
    "span": ("interval", st.timedeltas(dt.timedelta(-300_000), dt.timedelta(300_000))),
    "months": ("interval", st.builds(Interval, MONTHS, st.integers(-99, 99), st.integers(-(10**12), 10**12))),
    "doc": ("json", JSON.map(Json)),
    "docb": ("jsonb", JSON.map(Jsonb)),
    "ints": ("integer[]", st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=4)),
    "texts": ("text[]", st.lists(st.none() | TEXT, max_size=4)),
    "days": ("date[]", st.lists(st.none() | st.dates(), max_size=3)),
    "colour": ("colour", st.sampled_from(["red", "it's green", "ü"])),
    "v": ("vector(3)", st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3)),
}
ROW = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in COLUMNS.items()})


@pytest.fixture(scope="module")
def table(shared):
    shared.execute("DROP TYPE IF EXISTS colour")
    shared.execute("CREATE TYPE colour AS ENUM ('red', 'it''s green', 'ü')")
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    shared.execute(f"CREATE TABLE alike (id INTEGER PRIMARY KEY, {columns})")
    yield shared
    shared.execute("DROP TABLE IF EXISTS alike")
    shared.execute("DROP TYPE colour")


def wanted(value: object) -> object:
    """What comes back: JSON as what it says, numbers of VECTOR by their four bytes."""
    if isinstance(value, Json):
        return json.loads(value)
    if isinstance(value, list) and value and isinstance(value[0], float):
        return struct.pack("3f", *value)
    return value


def same(value: object, back: object) -> bool:
    if isinstance(back, list) and back and isinstance(back[0], float) and not isinstance(value, Json):
        back = struct.pack("3f", *back)
    value = wanted(value)
    if isinstance(value, Decimal):
        return value == back and isinstance(back, Decimal)
    return value == back and (type(value) is type(back) or isinstance(value, list | float | int))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(row=ROW, many=st.booleans())
def test_it_comes_back_as_it_went(table, row, many):
    table.execute("DELETE FROM alike")
    names = ", ".join(row)
    insert = f"INSERT INTO alike (id, {names}) VALUES (%s, {', '.join(['%s'] * len(row))})"
    count = 30 if many else 1
    table.cursor().executemany(insert, [(id, *row.values()) for id in range(count)])
    for back in table.execute(f"SELECT {names} FROM alike").fetchall():
        wrong = [
            (name, row[name], got) for name, got in zip(row, back, strict=True) if not same(row[name], got)
        ]
        assert not wrong
    arrow = table.execute(f"SELECT ints, texts, days, colour FROM alike WHERE id = {count - 1}", arrow=True)
    found = arrow.fetch_arrow_table().to_pylist()[0]
    assert found == {name: row[name] for name in found}


@pytest.mark.parametrize(
    "value",
    [dt.timedelta(-1, 5, 7), Interval(14, -3, 1), Interval(-1, 0, -1), Interval(0, 10**9, 0)],
    ids=repr,
)
def test_intervals_without_a_place(auto, value):
    (back,) = auto.execute("SELECT %s", (value,)).fetchone()
    assert (type(back), back) == (type(value), value)


def test_json_that_cannot_be():
    with pytest.raises(herdpy.ProgrammingError):
        Json(math.nan)
    with pytest.raises(herdpy.ProgrammingError):
        Json({1: object()})

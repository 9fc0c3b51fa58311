"""Python objects to SQL and back, for every type, with its extremes."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
import struct
import uuid
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import herdpy

COLUMNS = {
    "boolean": st.booleans(),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "real": st.floats(width=32, allow_nan=True, allow_infinity=True),
    "double": st.floats(allow_nan=True, allow_infinity=True),
    "small_numeric": st.decimals(-(10**8) + 1, 10**8 - 1, places=2, allow_nan=False, allow_infinity=False),
    "large_numeric": st.decimals(-(10**28) + 1, 10**28 - 1, places=10, allow_nan=False, allow_infinity=False),
    "any_numeric": st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**60), max_value=10**60),
    "text": st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    "varchar": st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
    "bytea": st.binary(),
    "date": st.dates(),
    "time": st.times(),
    "timestamp": st.datetimes(),
    "timestamptz": st.datetimes(
        dt.datetime(1, 1, 3),
        dt.datetime(9999, 12, 29),
        timezones=st.builds(
            dt.timezone,
            st.timedeltas(dt.timedelta(hours=-14), dt.timedelta(hours=14)).map(
                lambda d: dt.timedelta(minutes=d // dt.timedelta(minutes=1))
            ),
        ),
    ),
    "uuid": st.uuids(),
    "json": st.recursive(
        st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("abü"), inner),
        max_leaves=8,
    ).filter(lambda value: isinstance(value, dict | list)),
}
TYPES = {
    "double": "double precision",
    "small_numeric": "numeric(10,2)",
    "large_numeric": "numeric(38,10)",
    "any_numeric": "numeric",
    "varchar": "varchar(12)",
}


@pytest.fixture(scope="module")
def table(shared):
    columns = ", ".join(f"c_{name} {TYPES.get(name, name)}" for name in COLUMNS)
    shared.execute(f"CREATE TABLE every (id INTEGER PRIMARY KEY, {columns})")
    return shared


def same(value: object, back: object, name: str) -> bool:
    if isinstance(value, float) and math.isnan(value):
        return isinstance(back, float) and math.isnan(back)
    if isinstance(value, float) and isinstance(back, float):
        if name == "real":
            value, back = struct.pack("f", value), struct.pack("f", back)
        else:
            value, back = struct.pack("d", value), struct.pack("d", back)
        return value == back
    return type(value) is type(back) and value == back


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(row=st.fixed_dictionaries({name: st.none() | values for name, values in COLUMNS.items()}))
def test_every_type_comes_back(table, row):
    table.execute("DELETE FROM every WHERE id = 1")
    names = ", ".join(f"c_{name}" for name in row)
    places = ", ".join(f"%({name})s" for name in row)
    table.execute(f"INSERT INTO every (id, {names}) VALUES (1, {places})", row)
    for where in ("id = 1", "id + 0 = 1"):  # by key, and by whatever engine scans
        back = table.execute(f"SELECT {names} FROM every WHERE {where}").fetchone()
        wrong = {
            name: (value, got)
            for (name, value), got in zip(row.items(), back, strict=True)
            if not same(value, got, name)
        }
        assert not wrong


EXTREMES = [
    ("boolean", True),
    ("smallint", -(2**15)),
    ("integer", 2**31 - 1),
    ("bigint", -(2**63)),
    ("bigint", 2**63 - 1),
    ("real", 1e-45),
    ("double precision", 5e-324),
    ("double precision", 1.7976931348623157e308),
    ("double precision", math.inf),
    ("double precision", -0.0),
    ("numeric", Decimal("1E+300")),
    ("numeric", Decimal("0.000")),
    ("numeric(38,0)", Decimal("9" * 38)),
    ("text", ""),
    ("text", "\U0010ffff\x01\n'\"\\%$1ü"),
    ("text", "x" * 1_000_000),
    ("bytea", bytes(range(256))),
    ("bytea", b""),
    ("date", dt.date.min),
    ("date", dt.date.max),
    ("time", dt.time.max),
    ("timestamp", dt.datetime.min),
    ("timestamp", dt.datetime.max),
    ("timestamptz", dt.datetime(1, 1, 1, tzinfo=dt.UTC)),
    ("timestamptz", dt.datetime.max.replace(tzinfo=dt.UTC)),
    ("uuid", uuid.UUID(int=0)),
    ("uuid", uuid.UUID(int=2**128 - 1)),
    ("json", {"a": [1, 2.5, None, True, "ü", {}]}),
    ("json", []),
]


@pytest.mark.parametrize(("kind", "value"), EXTREMES)
def test_extremes(conn, kind, value):
    conn.execute(f"CREATE TABLE t (a {kind})")
    conn.execute("INSERT INTO t VALUES (%s)", (value,))
    (back,) = conn.execute("SELECT a FROM t").fetchone()
    assert type(back) is type(value)
    assert repr(back) == repr(value) or (isinstance(value, Decimal) and back == value)
    if kind != "json":
        assert conn.execute(f"SELECT count(*) FROM t WHERE a = CAST(%s AS {kind})", (value,)).fetchone() == (
            1,
        )


class Colour(enum.IntEnum):
    RED = 3


@pytest.mark.parametrize(
    ("kind", "value", "back"),
    [
        ("integer", "42", 42),
        ("integer", Colour.RED, 3),
        ("integer", 7.0, 7),
        ("double precision", 7, 7.0),
        ("numeric(6,2)", 1.005, Decimal("1.01")),
        ("numeric", "1.50", Decimal("1.50")),
        ("numeric(6,2)", 5, Decimal("5.00")),
        ("boolean", "yes", True),
        ("bytea", bytearray(b"ab"), b"ab"),
        ("bytea", memoryview(b"ab"), b"ab"),
        ("bytea", "\\x6162", b"ab"),
        ("date", "2024-02-29", dt.date(2024, 2, 29)),
        ("timestamp", dt.date(2024, 2, 29), dt.datetime(2024, 2, 29)),
        ("timestamptz", "2024-02-29 12:00+02", dt.datetime(2024, 2, 29, 10, tzinfo=dt.UTC)),
        (
            "timestamptz",
            dt.datetime(2024, 2, 29, 12, tzinfo=dt.timezone(dt.timedelta(hours=-5))),
            dt.datetime(2024, 2, 29, 17, tzinfo=dt.UTC),
        ),
        ("uuid", "0000000000000000000000000000000a", uuid.UUID(int=10)),
        ("json", '{"a": 1}', {"a": 1}),
        ("json", [1, [2]], [1, [2]]),
        ("char(4)", "ab", "ab  "),
    ],
)
def test_what_else_a_type_takes(conn, kind, value, back):
    conn.execute(f"CREATE TABLE t (a {kind})")
    conn.execute("INSERT INTO t VALUES (%s)", (value,))
    (got,) = conn.execute("SELECT a FROM t").fetchone()
    assert got == back
    assert type(got) is type(back)


@pytest.mark.parametrize(
    ("kind", "value", "error", "sqlstate"),
    [
        ("smallint", 2**15, herdpy.DataError, "22003"),
        ("integer", 2**31, herdpy.DataError, "22003"),
        ("bigint", 2**63, herdpy.DataError, "22003"),
        ("bigint", 10**400, herdpy.DataError, "22003"),
        ("integer", "4x", herdpy.DataError, "22P02"),
        ("integer", object(), herdpy.ProgrammingError, "42804"),
        ("integer", b"5", herdpy.ProgrammingError, "42804"),
        ("integer", True, herdpy.ProgrammingError, "42804"),
        ("boolean", 2, herdpy.ProgrammingError, "42804"),
        ("real", 1e300, herdpy.DataError, "22003"),
        ("numeric(5,2)", 12345, herdpy.DataError, "22003"),
        ("text", "a\0b", herdpy.DataError, "22021"),
        ("text", "\ud800", herdpy.DataError, "22021"),
        ("text", object(), herdpy.ProgrammingError, "42804"),
        ("varchar(3)", "abcd", herdpy.DataError, "22001"),
        ("bytea", object(), herdpy.ProgrammingError, "42804"),
        ("date", "2023-02-29", herdpy.DataError, "22008"),
        ("date", "never", herdpy.DataError, "22007"),
        ("date", 5, herdpy.ProgrammingError, "42804"),
        ("time", "25:00", herdpy.DataError, "22008"),
        ("uuid", "nonsense", herdpy.DataError, "22P02"),
        ("json", "{", herdpy.DataError, "22P02"),
        ("json", {1: object()}, herdpy.ProgrammingError, "42804"),
        ("json", {"a": math.nan}, herdpy.ProgrammingError, "42804"),
        ("integer", {1, 2}, herdpy.ProgrammingError, "42804"),
    ],
)
def test_what_a_type_refuses(auto, kind, value, error, sqlstate):
    auto.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, a {kind})")
    with pytest.raises(error) as caught:
        auto.execute("INSERT INTO t VALUES (1, %s)", (value,))
    assert caught.value.sqlstate == sqlstate
    with pytest.raises(error) as caught:
        auto.cursor().executemany("INSERT INTO t VALUES (%s, %s)", [(1, None), (2, value)])
    assert caught.value.sqlstate == sqlstate
    assert auto.execute("SELECT count(*) FROM t").fetchone() == (0,)


@pytest.mark.parametrize(
    "value",
    [
        True,
        5,
        2**40,
        2.5,
        Decimal("1.10"),
        "x",
        b"x",
        dt.date(2024, 1, 1),
        dt.time(1, 2),
        None,
        dt.datetime(2024, 1, 1, 2),
        dt.datetime(2024, 1, 1, 2, tzinfo=dt.UTC),
        uuid.UUID(int=5),
        {"a": 1},
    ],
    ids=repr,
)
def test_parameters_whose_place_says_no_type(auto, value):
    """SELECT of a bare parameter: text is what PostgreSQL takes it for, other objects have a type."""
    (back,) = auto.execute("SELECT %s", (value,)).fetchone()
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("text", ["infinity", "-infinity", "10000-01-01"])
def test_dates_that_python_does_not_have(auto, text):
    auto.execute("CREATE TABLE t (a DATE, b TIMESTAMP)")
    auto.execute("INSERT INTO t VALUES (%s, %s)", (text, text))
    for column in "ab":
        cursor = auto.execute(f"SELECT {column} FROM t")
        with pytest.raises(herdpy.DataError) as caught:
            cursor.fetchone()
        assert caught.value.sqlstate == "22008"
        shown = auto.execute(f"SELECT {column}::text FROM t").fetchone()[0]
        assert shown.startswith(text)


def test_json_keeps_its_text(auto):
    text = '{"b": 1, "a": [ 1.10, 2e3 ], "b": 2}'
    auto.execute("CREATE TABLE t (a JSON)")
    auto.execute("INSERT INTO t VALUES (%s)", (text,))
    assert auto.execute("SELECT a::text FROM t").fetchone() == (text,)
    assert auto.execute("SELECT a FROM t").fetchone() == (json.loads(text),)


def test_many_rows_are_typed_by_all_of_them(conn):
    """Where a place cannot take a value (a number for a TEXT), the widest says the type, not the first."""
    conn.execute("CREATE TABLE priced (id BIGINT, price TEXT)")
    rows = [(1, None), (2, Decimal("0.50")), (40_000, Decimal("1.25")), (3_000_000_000, Decimal("2"))]
    conn.cursor().executemany("INSERT INTO priced VALUES (%s, %s)", rows)
    assert conn.execute("SELECT * FROM priced ORDER BY id").fetchall() == [
        (1, None),
        (2, "0.50"),
        (40_000, "1.25"),
        (3_000_000_000, "2"),
    ]

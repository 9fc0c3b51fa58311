"""Values of subclasses go in as what they are, whatever their class makes of str() and hash()."""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import herdpy
import herdpy.aio

ZONE = dt.timezone(dt.timedelta(hours=2))


class Colour(str, enum.Enum):  # noqa: UP042  # str() of it is "Colour.RED"
    RED = "red"


class Shade(enum.StrEnum):
    RED = "red"


class Number(int, enum.Enum):
    FIVE = 5


class Level(enum.IntEnum):
    FIVE = 5


class Flags(enum.IntFlag):
    FIVE = 5


class Ratio(float, enum.Enum):
    HALF = 0.5


class Price(Decimal, enum.Enum):
    LOW = "1.50"


def shouting(base: type) -> type:
    """A subclass that says something else wherever it is asked for a text or a number."""

    def says(self: object, *args: object) -> str:
        return "something else"

    names = {"__str__": says, "__repr__": says, "__format__": says, "__hash__": lambda self: 7}
    return type(f"Loud{base.__name__}", (base,), names)


LoudText, LoudInt, LoudFloat, LoudBytes = map(shouting, (str, int, float, bytes))
LoudDecimal, LoudMoment, LoudDate, LoudTime = map(shouting, (Decimal, dt.datetime, dt.date, dt.time))
LoudSpan = shouting(dt.timedelta)
VALUES: list[tuple[str, Any, Any]] = [
    ("text", Colour.RED, "red"),
    ("text", Shade.RED, "red"),
    ("text", LoudText("red"), "red"),
    ("text", np.str_("red"), "red"),
    ("varchar(3)", Colour.RED, "red"),
    ("char(4)", Colour.RED, "red "),
    ("colour", Colour.RED, "red"),
    ("colour", LoudText("red"), "red"),
    ("boolean", LoudText("true"), True),
    ("integer", LoudText("5"), 5),
    ("json", LoudText('{"a": 1}'), {"a": 1}),
    ("jsonb", LoudText('{"a": 1}'), {"a": 1}),
    ("text[]", LoudText("{red}"), ["red"]),
    ("smallint", Level.FIVE, 5),
    ("integer", Number.FIVE, 5),
    ("bigint", Flags.FIVE, 5),
    ("integer", LoudInt(5), 5),
    ("numeric", LoudInt(5), Decimal(5)),
    ("double precision", LoudInt(5), 5.0),
    ("double precision", Ratio.HALF, 0.5),
    ("double precision", LoudFloat(0.5), 0.5),
    ("double precision", np.float64(0.1), 0.1),
    ("real", LoudFloat(0.5), 0.5),
    ("numeric", LoudFloat(0.5), Decimal("0.5")),
    ("numeric", Price.LOW, Decimal("1.50")),
    ("numeric(6,2)", LoudDecimal("1.50"), Decimal("1.50")),
    ("double precision", LoudDecimal("1.50"), 1.5),
    ("bytea", LoudBytes(b"\1\2"), b"\1\2"),
    ("bytea", np.bytes_(b"\1\2"), b"\1\2"),
    ("timestamp", LoudMoment(2026, 3, 1, 12, 30, 0, 5), dt.datetime(2026, 3, 1, 12, 30, 0, 5)),
    ("timestamp", pd.Timestamp("2026-03-01 12:30:00.000005"), dt.datetime(2026, 3, 1, 12, 30, 0, 5)),
    ("timestamp", pd.Timestamp("2026-03-01 12:30:00.000005600"), dt.datetime(2026, 3, 1, 12, 30, 0, 6)),
    ("timestamptz", pd.Timestamp("2026-03-01 12:30", tz="Europe/Berlin"),
     dt.datetime(2026, 3, 1, 11, 30, tzinfo=dt.UTC)),
    ("timestamptz", LoudMoment(2026, 3, 1, 12, 30, tzinfo=ZONE),
     dt.datetime(2026, 3, 1, 10, 30, tzinfo=dt.UTC)),
    ("date", LoudDate(2026, 3, 1), dt.date(2026, 3, 1)),
    ("time", LoudTime(12, 30), dt.time(12, 30)),
    ("interval", LoudSpan(hours=5), dt.timedelta(hours=5)),
    ("interval", pd.Timedelta("5h"), dt.timedelta(hours=5)),
    ("text[]", [Colour.RED, LoudText("b")], ["red", "b"]),
    ("integer[]", [Level.FIVE, 6], [5, 6]),
    ("date[]", [LoudDate(2026, 3, 1)], [dt.date(2026, 3, 1)]),
    ("timestamp[]", [pd.Timestamp("2026-03-01")], [dt.datetime(2026, 3, 1)]),
    ("json", [Colour.RED, Level.FIVE], ["red", 5]),
    ("json", {"a": Colour.RED}, {"a": "red"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def table(shared):
    shared.execute("DROP TABLE IF EXISTS subclasses")
    shared.execute("DROP TYPE IF EXISTS colour")
    shared.execute("CREATE TYPE colour AS ENUM ('red', 'green')")
    columns = ", ".join(f"c{at} {kind}" for at, (kind, _, _) in enumerate(VALUES))
    shared.execute(f"CREATE TABLE subclasses (id INTEGER PRIMARY KEY, {columns})")
    yield shared
    shared.execute("DROP TABLE IF EXISTS subclasses")
    shared.execute("DROP TYPE colour")


def rows_of(connection) -> list[tuple[Any, ...]]:
    rows = connection.execute("SELECT * FROM subclasses ORDER BY id").fetchall()
    connection.execute("TRUNCATE subclasses")
    return rows


GIVEN = [value for _, value, _ in VALUES]
WANTED = [value for _, _, value in VALUES]
INSERT = f"INSERT INTO subclasses VALUES (%s, {', '.join(['%s'] * len(VALUES))})"


def test_one_by_one_each_as_it_is(table):
    for at, (kind, value, wanted) in enumerate(VALUES):
        table.execute(f"INSERT INTO subclasses (id, c{at}) VALUES (%s, %s)", (at, value))
        ((found,),) = table.execute(f"SELECT c{at} FROM subclasses WHERE id = %s", (at,))
        assert (type(found), found) == (type(wanted), wanted), (kind, value)
    table.execute("TRUNCATE subclasses")


def test_all_together_and_many(table):
    table.execute(INSERT, (1, *GIVEN))
    table.execute(INSERT, (LoudInt(2), *GIVEN))
    with table.cursor() as cursor:
        cursor.executemany(INSERT, [(at, *GIVEN) for at in (3, 4)])
        cursor.executemany(INSERT, [(5, *WANTED), (6, *GIVEN)])
    assert rows_of(table) == [(at, *WANTED) for at in range(1, 7)]


def test_rows_are_found_by_them(table):
    table.execute(INSERT, (5, *GIVEN))
    wheres = ["c0", "c6", "c13", "c15", "c19", "c24", "c27", "c29", "c33", "c34"]
    for name in wheres:
        value = GIVEN[int(name[1:])]
        assert table.execute(f"SELECT id FROM subclasses WHERE {name} = %s", (value,)).fetchall() == [(5,)]
    assert table.execute("SELECT id FROM subclasses WHERE id = %s", (Level.FIVE,)).fetchall() == [(5,)]
    table.execute("TRUNCATE subclasses")


def test_without_a_place_they_are_what_their_class_is(table):
    found = table.execute("SELECT %s || '!', %s + 1, %s::text", (Colour.RED, Level.FIVE, LoudFloat(0.5)))
    assert found.fetchall() == [("red!", 6, "0.5")]


def test_no_time_is_refused(table):
    with pytest.raises(herdpy.Error):
        table.execute("INSERT INTO subclasses (id, c29) VALUES (1, %s)", (pd.NaT,))


def test_the_other_driver_takes_them_too(url):
    row = (Colour.RED, Level.FIVE, pd.Timestamp("2026-03-01"))

    async def ask() -> list[tuple[Any, ...]]:
        async with await herdpy.aio.connect(url, autocommit=True) as connection:
            await connection.execute("CREATE TABLE t (c text, n integer, d timestamp)")
            await connection.execute("INSERT INTO t VALUES (%s, %s, %s)", row)
            async with connection.cursor() as cursor:
                await cursor.executemany("INSERT INTO t VALUES (%s, %s, %s)", [row, row])
                await cursor.execute("SELECT * FROM t")
                return await cursor.fetchall()

    assert asyncio.run(ask()) == [("red", 5, dt.datetime(2026, 3, 1))] * 3

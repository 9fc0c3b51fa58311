"""The tables that ibis' suite of backends expects, with rows of our own.

The suite's rows are not in its package. Its tests compare the database's answers with what pandas makes of
the same rows, so tables of these columns, with values from these ranges, take their place.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterable, Iterator
from typing import Any

_SEED = 19
_COUNTS = "G AB R H X2B X3B HR RBI SB CS BB SO IBB HBP SH SF GIDP".split()  # noqa: SIM905

COLUMNS = {
    "functional_alltypes": "id INTEGER, bool_col BOOLEAN, tinyint_col SMALLINT, smallint_col SMALLINT,"
    " int_col INTEGER, bigint_col BIGINT, float_col REAL, double_col DOUBLE PRECISION, date_string_col TEXT,"
    " string_col TEXT, timestamp_col TIMESTAMP, year INTEGER, month INTEGER",
    "diamonds": 'carat FLOAT, cut TEXT, color TEXT, clarity TEXT, depth FLOAT, "table" FLOAT, price BIGINT,'
    " x FLOAT, y FLOAT, z FLOAT",
    "batting": '"playerID" TEXT, "yearID" BIGINT, stint BIGINT, "teamID" TEXT, "lgID" TEXT, '
    + ", ".join(f'"{name}" BIGINT' for name in _COUNTS),
    "awards_players": '"playerID" TEXT, "awardID" TEXT, "yearID" BIGINT, "lgID" TEXT, tie TEXT, notes TEXT',
    "astronauts": "id BIGINT, number BIGINT, nationwide_number BIGINT, name VARCHAR, original_name VARCHAR,"
    " sex VARCHAR, year_of_birth BIGINT, nationality VARCHAR, military_civilian VARCHAR, selection VARCHAR,"
    " year_of_selection BIGINT, mission_number BIGINT, total_number_of_missions BIGINT, occupation VARCHAR,"
    " year_of_mission BIGINT, mission_title VARCHAR, ascend_shuttle VARCHAR, in_orbit VARCHAR,"
    " descend_shuttle VARCHAR, hours_mission FLOAT, total_hrs_sum FLOAT, field21 BIGINT,"
    " eva_hrs_mission FLOAT, total_eva_hrs FLOAT",
    "tzone": "ts TIMESTAMPTZ, key TEXT, value FLOAT",
    "array_types": "x BIGINT[], y TEXT[], z FLOAT[], grouper TEXT, scalar_column FLOAT, multi_dim BIGINT[][]",
    "films": "code CHAR(5) PRIMARY KEY, title VARCHAR(40) NOT NULL, did INTEGER NOT NULL, date_prod DATE,"
    " kind VARCHAR(10), len INTERVAL HOUR TO MINUTE",
    "intervals": "c INTERVAL DAY, d INTERVAL HOUR, e INTERVAL MINUTE, f INTERVAL SECOND,"
    " h INTERVAL DAY TO HOUR, i INTERVAL DAY TO MINUTE, j INTERVAL DAY TO SECOND,"
    " k INTERVAL HOUR TO MINUTE, l INTERVAL HOUR TO SECOND, m INTERVAL MINUTE TO SECOND",
    "not_supported_intervals": "a INTERVAL YEAR, b INTERVAL YEAR, g INTERVAL YEAR TO MONTH",
    "json_t": "rowid BIGINT, js JSON",
    "jsonb_t": "rowid BIGINT, js JSONB",
    "win": "g TEXT, x BIGINT NOT NULL, y BIGINT",
    "map": "idx BIGINT, kv JSONB",
    "topk": "x BIGINT",
}

#: ibis' first() and last() are aggregates that its users make themselves.
_AGGREGATES = tuple(
    statement
    for name, kept in (("first", 1), ("last", 2))
    for statement in (
        f"CREATE FUNCTION public.{name}_agg (anyelement, anyelement) RETURNS anyelement"
        f" LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT ${kept}'",
        f"CREATE AGGREGATE public.{name} (anyelement)"
        f" (SFUNC = public.{name}_agg, STYPE = anyelement, PARALLEL = safe)",
    )
)

STATEMENTS = (
    *("CREATE EXTENSION fuzzystrmatch", *_AGGREGATES),
    *(f"CREATE TABLE {table} ({columns})" for table, columns in COLUMNS.items()),
    # The suite's view has a column of pgvector as well, which no plain PostgreSQL has.
    "CREATE VIEW awards_players_special_types AS"
    " SELECT *, to_tsvector('simple', notes) AS search FROM awards_players",
)
"""What is run before rows are copied, each by itself."""


def rows() -> Iterator[tuple[str, Iterable[tuple[Any, ...]]]]:
    """Each table with its rows."""
    chance = random.Random(_SEED)
    yield "functional_alltypes", _alltypes()
    yield "diamonds", _diamonds(chance)
    yield "batting", _batting(chance)
    yield "awards_players", _awards(chance)
    yield "astronauts", _astronauts(chance)
    yield from _small()


def _alltypes() -> Iterator[tuple[Any, ...]]:
    """Ten rows for each day of 2009 and 2010, a minute apart or more; values follow from the row's number."""
    start = datetime.date(2009, 1, 1)
    for number in range(7300):
        day, digit = start + datetime.timedelta(days=number // 10), number % 10
        moment = datetime.datetime.combine(day, datetime.time()) + datetime.timedelta(
            minutes=digit + 10 * (day.day - 1), milliseconds=10 * digit * (digit - 1) // 2
        )
        yield (
            *(number, digit % 2 == 0, digit, digit, digit, 10 * digit),
            *(round(1.1 * digit, 1), round(10.1 * digit, 1), f"{day:%m/%d/%y}", str(digit)),
            *(moment, day.year, day.month),
        )


def _diamonds(chance: random.Random) -> Iterator[tuple[Any, ...]]:
    cuts = ("Fair", "Good", "Very Good", "Premium", "Ideal")
    clarities = ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF")
    for _ in range(5000):
        carat = round(chance.uniform(0.2, 5.0), 2)
        size = round(4 + carat, 2)
        yield (
            *(carat, chance.choice(cuts), chance.choice("DEFGHIJ"), chance.choice(clarities)),
            *(round(chance.uniform(43, 79), 1), float(chance.randint(43, 95)), chance.randint(326, 18823)),
            *(size, round(size + 0.03, 2), round(size * 0.62, 2)),
        )


def _batting(chance: random.Random) -> Iterator[tuple[Any, ...]]:
    """Players with a year or several each; counts that their time did not keep are NULL."""
    for number in range(1500):
        first = chance.randint(1871, 2010)
        for year in range(first, min(first + chance.randint(1, 6), 2016)):
            games = chance.randint(0, 165)
            counts = [chance.randint(0, 4 * games) for _ in range(12)]
            late = [chance.randint(0, games) if year >= 1950 else None for _ in range(5)]
            yield (
                *(_player(number), year, chance.choice((1, 1, 1, 2))),
                *(chance.choice(("BOS", "CHN", "NYA", "PHI", "SLN")), chance.choice(("AL", "NL"))),
                *(games, *counts[:11], *late),
            )


def _awards(chance: random.Random) -> Iterator[tuple[Any, ...]]:
    names = ("Gold Glove", "Most Valuable Player", "Rookie of the Year", "Triple Crown")
    for _ in range(2000):
        yield (
            *(_player(chance.randint(0, 1499)), chance.choice(names), chance.randint(1877, 2015)),
            *(
                chance.choice(("AL", "NL", "ML")),
                chance.choice((None, None, "Y")),
                chance.choice((None, "OF", "1B")),
            ),
        )


def _astronauts(chance: random.Random) -> Iterator[tuple[Any, ...]]:
    for number in range(1, 401):
        born, flown = chance.randint(1921, 1983), chance.randint(1, 7)
        ship = f"STS-{chance.randint(1, 135)}"
        hours, outside = round(chance.uniform(1, 10505), 2), round(chance.uniform(0, 89), 2)
        yield (
            *(number, (number + 1) // 2, number % 97 + 1, f"Name, {number // 2}", f"Имя {number // 2}"),
            *(chance.choice(("male", "female")), born, chance.choice(("U.S.", "Japan", "France"))),
            *(chance.choice(("military", "civilian")), f"Group {number % 20}", born + 35, 1, flown),
            *(chance.choice(("pilot", "commander", "MSP")), born + 40, ship, ship, ship, ship),
            *(hours, round(hours * flown, 2), chance.randint(0, 7), outside, round(outside * flown, 2)),
        )


def _player(number: int) -> str:
    return f"player{number:04}"


def _small() -> Iterator[tuple[str, Iterable[tuple[Any, ...]]]]:
    """The tables whose rows the suite's tests name one by one."""
    noon = datetime.datetime(2017, 5, 28, 11, 1, 31, 400, tzinfo=datetime.UTC)
    step = datetime.timedelta(days=1, microseconds=1)
    yield "tzone", [(noon + n * step, chr(ord("a") + n), n + n / 10) for n in range(10)]
    yield "array_types", _arrays()
    yield (
        "films",
        [
            ("A", "Avengers", 1, datetime.date(2018, 1, 1), "Action", "02:35:00"),
            ("B", "Ghostbusters", 2, datetime.date(2018, 1, 2), "Ghost", "01:30:00"),
        ],
    )
    yield (
        "intervals",
        [
            (
                *("1 day", "01:00:00", "-00:01:00", "1.02999 seconds", "1 day 04:00:00", "1 day 00:17:00"),
                *("-1 day -01:42:30", "01:02:00", "01:01:53.000037", "00:01:03.002009"),
            )
        ],
    )
    texts = (
        *(
            '{"a": [1,2,3,4], "b": 1}',
            '{"a":null,"b":2}',
            '{"a":"foo", "c":null}',
            "null",
            "[42,47,55]",
            "[]",
        ),
        *('"a"', '""', '"b"', None, "true", "false", "42", "37.37"),
    )
    for table in ("json_t", "jsonb_t"):
        yield table, list(enumerate(texts, 1))
    yield "win", [("a", 0, 3), ("a", 1, 2), ("a", 2, 0), ("a", 3, 1), ("a", 4, 1)]
    yield "map", [(1, '{"a": 1, "b": 2, "c": 3}'), (2, '{"d": 4, "e": 5, "f": 6}')]
    yield "topk", [(1,), (1,), (None,)]


def _arrays() -> list[tuple[Any, ...]]:
    return [
        ("{1,2,3}", "{a,b,c}", "{1,2,3}", "a", 1.0, "{{NULL,NULL,NULL},{1,2,3}}"),
        ("{4,5}", "{d,e}", "{4,5}", "a", 2.0, "{}"),
        ("{6,NULL}", "{f,NULL}", "{6,NULL}", "a", 3.0, None),
        ("{NULL,1,NULL}", "{NULL,a,NULL}", "{}", "b", 4.0, "{{1},{2},{NULL},{3}}"),
        ("{2,NULL,3}", "{b,NULL,c}", None, "b", 5.0, None),
        ("{4,NULL,NULL,5}", "{d,NULL,NULL,e}", "{4,NULL,NULL,5}", "c", 6.0, "{{1,2,3}}"),
    ]

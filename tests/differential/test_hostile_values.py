# ruff: noqa: E501, PT017 - tables of statements; errors are looked at where they come
"""Hostile values and mutated statements: parameters of every kind for every type, long keys, broken tokens."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import math
import os
import random
import re
import sys
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import herdpy

sys.path.insert(0, str(Path(__file__).parent))

from diff_generate import Generator
from diff_values import TYPES

SEED = int(os.environ.get("HERDPY_SEED", "1"))


class Colour(enum.IntEnum):
    RED = 1


VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**15, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**400, 0.0, -0.0, 1.5, 1e308, 1e-320, math.inf, -math.inf, math.nan,
    Decimal("1.5"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e400"), Decimal("1e-400"), Decimal("1e200000"), Decimal((0, (1,) * 5000, -2500)), Decimal("-0"),
    "", " ", "1", " 1 ", "1.5", "1e400", "nan", "infinity", "x", "t", "\\x", "\\x0g", "{}", "[", "null", "\0", "\ud800", "é" * 10, "x" * 100_000, "9" * 200_000, "'", '"', "%s", "$1", "::",
    "2020-01-01", "2020-02-30", "0000-00-00", "infinity", "4714-11-24 BC", "9999999-01-01", "24:00:00", "25:00", "now", "epoch", "1 day", "2020-01-01 00:00:00+99",
    b"", b"\x00\xff", bytearray(b"a"), memoryview(b"a"), dt.date.min, dt.date.max, dt.datetime.min, dt.datetime.max, dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-23))),
    dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=23))), dt.time.max, dt.time(1, tzinfo=dt.UTC), dt.timedelta(days=1), dt.timedelta.max, uuid.UUID(int=0), uuid.UUID(int=2**128 - 1),
    [], {}, [1, None], {"a": float("nan")}, {1: 2}, {"\ud800": 1}, (1, 2), {1}, object(), Colour.RED, 1j, range(3), type, lambda: 1, ...,
]  # fmt: skip


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with herdpy.connect(tmp_path_factory.mktemp("values"), autocommit=True) as made:
        columns = ", ".join(f"c{i} {type_}" for i, type_ in enumerate(TYPES))
        made.execute(f"CREATE TABLE v (k integer PRIMARY KEY, {columns})")
        made.execute("INSERT INTO v (k) VALUES (1)")
        made.execute("SET statement_timeout = '20s'")
        yield made


def state_of(connection: Any, sql: Any, params: Any = None) -> str:
    """The SQLSTATE, or ""; no other exception may come, nor XX000."""
    try:
        cursor = connection.execute(sql, params)
        if cursor.description is not None:
            cursor.fetchall()
    except herdpy.Error as error:
        state = error.sqlstate or type(error).__name__
        assert state in {"InterfaceError", "DataError"} or re.fullmatch("[0-9A-Z]{5}", state), repr(error)
        assert state != "XX000", f"{str(sql)[:3000]!r} {str(params)[:300]}\n{error}\n{error.__cause__!r}"
        return state
    return ""


@pytest.mark.parametrize("number", range(len(TYPES)), ids=TYPES)
def test_every_value_for_every_type(number: int, connection: Any) -> None:
    type_, column = TYPES[number], f"c{number}"
    kept = set()
    for value in VALUES:
        connection.execute("BEGIN")
        if not state_of(connection, f"UPDATE v SET {column} = $1 WHERE k = 1", [value]):
            kept.add(repr(value)[:40])
            first = connection.execute(f"SELECT {column}::text FROM v").fetchall()
            connection.execute("SET LOCAL herdpy.engine = 'columnar'")
            assert connection.execute(f"SELECT {column}::text FROM v").fetchall() == first
        connection.execute("ROLLBACK")
        for sql in (
            f"SELECT k FROM v WHERE {column} {'IS DISTINCT FROM' if type_ != 'json' else '::text ='} $1",
            f"SELECT $1::{type_}",
            f"INSERT INTO v (k, {column}) VALUES (1, $1)",
        ):
            assert state_of(connection, sql, [value]) != "25P02"
    assert len(kept) >= 3
    assert connection.execute("SELECT * FROM v").fetchall() == [(1, *[None] * len(TYPES))]


def test_places_for_parameters_take_any_value(connection: Any) -> None:
    for value in VALUES:
        for sql in ("SELECT $1", "SELECT k FROM v LIMIT $1", "SELECT k FROM v ORDER BY $1", "SELECT $1 || 'a'", "SELECT 1 + $1",
                    "SELECT k FROM v WHERE $1", "SELECT coalesce($1, 1)", "SELECT k FROM v WHERE k IN ($1, 2)", "SELECT count($1) FROM v"):  # fmt: skip
            state_of(connection, sql, [value])
            assert connection.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("given", [0, 1, 3, 100])
def test_wrong_numbers_of_parameters(given: int, connection: Any) -> None:
    for sql in (
        "SELECT k FROM v WHERE k = $1 AND c1 = $2",
        "SELECT %s + %s",
        "INSERT INTO v (k, c1) VALUES (%s, %s)",
    ):
        assert state_of(connection, sql, [1] * given) not in {"", "XX000"}
    assert state_of(connection, "SELECT $2::int", [1]) not in {"", "XX000"}
    assert state_of(connection, "SELECT $70000", [1]) not in {"", "XX000"}
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_very_many_parameters(connection: Any) -> None:
    marks = ", ".join(f"${n}" for n in range(1, 10_001))
    assert connection.execute(f"SELECT k FROM v WHERE k IN ({marks})", list(range(10_000))).fetchall() == [
        (1,)
    ]
    marks = ", ".join(f"${n}" for n in range(1, 65_600))
    assert state_of(connection, f"SELECT k FROM v WHERE k IN ({marks})", list(range(65_599))) in {
        "42P02",
        "54023",
        "08P01",
    }


@pytest.mark.parametrize("type_", ["text", "bytea"])
def test_long_keys(type_: str, tmp_path: Path) -> None:
    """Keys of one byte to 1 MiB that share their beginnings: order, ranges and uniqueness are exact."""
    texts = [""]
    for length in (1, 2, 100, 478, 479, 480, 481, 482, 510, 511, 512, 600, 4096, 70_000, 1 << 20):
        texts += ["a" * length, "a" * (length - 1) + "b", "a" * (length - 1) + "B"]
    texts = sorted({*texts})
    values: list[Any] = texts if type_ == "text" else [text.encode() for text in texts]
    shuffled = random.Random(SEED).sample(values, len(values))
    with herdpy.connect(tmp_path, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE p (v {type_} PRIMARY KEY, n int)")
        connection.execute(f"CREATE TABLE u (n int PRIMARY KEY, v {type_}, w {type_} UNIQUE)")
        connection.execute("CREATE INDEX u_v ON u (v, n)")
        connection.execute("CREATE INDEX u_d ON u (v DESC)")
        for n, value in enumerate(shuffled):
            connection.execute("INSERT INTO p VALUES ($1, $2)", [value, n])
            connection.execute("INSERT INTO u VALUES ($2, $1, $1)", [value, n])
        for checkpointed in (False, True):
            if checkpointed:
                connection.execute("CHECKPOINT")
            for value in values:
                for sql in ("INSERT INTO p VALUES ($1, 1000)", "INSERT INTO u VALUES (1000, NULL, $1)"):
                    assert state_of(connection, sql, [value]) == "23505"
                assert connection.execute("SELECT v FROM p WHERE v = $1", [value]).fetchall() == [(value,)]
                assert connection.execute("SELECT w FROM u WHERE w = $1", [value]).fetchall() == [(value,)]
            for table in ("p", "u"):
                found = connection.execute(f"SELECT v FROM {table} ORDER BY v LIMIT 1000").fetchall()
                assert [v for (v,) in found] == values
                found = connection.execute(f"SELECT v FROM {table} ORDER BY v DESC LIMIT 1000").fetchall()
                assert [v for (v,) in found] == values[::-1]
                for low in values[::3]:
                    at = values.index(low)
                    sql = f"SELECT v FROM {table} WHERE v >= $1 AND v < $2 ORDER BY v LIMIT 1000"
                    found = connection.execute(sql, [low, values[-1]]).fetchall()
                    assert [v for (v,) in found] == values[at:-1]
                    sql = f"SELECT v FROM {table} WHERE v > $1 ORDER BY v LIMIT 3"
                    assert [v for (v,) in connection.execute(sql, [low]).fetchall()] == values[
                        at + 1 : at + 4
                    ]
        for value in values[::2]:
            assert connection.execute("DELETE FROM p WHERE v = $1", [value]).rowcount == 1
            assert connection.execute("UPDATE u SET v = NULL WHERE v = $1", [value]).rowcount == 1
        assert [
            v for (v,) in connection.execute("SELECT v FROM p ORDER BY v LIMIT 1000").fetchall()
        ] == values[1::2]
    with herdpy.connect(tmp_path, autocommit=True) as connection:
        assert [
            v for (v,) in connection.execute("SELECT v FROM p ORDER BY v LIMIT 1000").fetchall()
        ] == values[1::2]
        found = connection.execute("SELECT v FROM u WHERE v IS NOT NULL ORDER BY v LIMIT 1000").fetchall()
        assert [v for (v,) in found] == values[1::2]


_TOKENS = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+|\s+|.", re.DOTALL)
_JUNK = [
    "", "NULL", "1e400", "-1", "99999999999999999999", "'", '"', "(", ")", ",", ";", "--", "/*", "*/", "$1", "$0", "$$", "\0", "\ud800", "\u202e", "é", "::int", "::frob", "[1]", "*", ".",
    "SELECT", "FROM", "WHERE", "NOT", "IN", "CASE", "END", "OVER ()", "DISTINCT", "ALL", "E'\\x41'", "E'\\", "U&'x'", "x'ff'", "b'01'", "0x1F", "1_0", "count(*)", "max(c0)", "DEFAULT", "VALUES",
    "LIMIT -1", "UNION", "interval '1 day'", "ARRAY[1]", "ROW(1)", "current_user", "::text", "COLLATE \"C\"", "AT TIME ZONE 'x'", "ESCAPE ''", "LATERAL", "USING (c0)", "NATURAL", "t1", "t2.*", "@", "#", "~", "!", "?", "{", "\\",
]  # fmt: skip


def mutated(rng: random.Random, sql: str) -> str:
    """The statement with some of its tokens deleted, doubled, swapped or replaced."""
    tokens = _TOKENS.findall(sql)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        how = rng.random()
        if how < 0.2:
            tokens[at] = ""
        elif how < 0.35:
            tokens[at] += " " + tokens[at]
        elif how < 0.55:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif how < 0.9:
            tokens[at] = f" {rng.choice(_JUNK)} "
        else:
            tokens[at] = "".join(
                chr(rng.choice([rng.randrange(32, 127), rng.randrange(0x110000)])) for _ in range(3)
            )
    return "".join(tokens)


def run_mutations(path: Path, seed: int, count: int) -> int:
    generator, rng = Generator(seed), random.Random(seed)
    failed = 0
    with herdpy.connect(path, autocommit=True) as connection:
        connection.execute("SET statement_timeout = '10s'")
        for _ in range(40):
            generator.told(
                bool(
                    state_of(connection, (made := generator.next()).sql, [t for _, t in made.params] or None)
                )
            )
        last = generator.finish()
        if last is not None:
            connection.execute(last.sql)
        for _ in range(count):
            statement = generator.next()
            text = mutated(rng, statement.sql)
            connection.execute("BEGIN")
            state = state_of(connection, text, [t for _, t in statement.params] or None)
            failed += bool(state)
            connection.rollback()
            assert connection.execute("SELECT 1").fetchall() == [(1,)], text
            generator._at_begin, generator._failed, generator._savepoints = None, False, []
            if re.search(r"\b(COMMIT|END)\b", text):  # it may have ended the transaction, and lasted
                generator.tables = {
                    name: table for name, table in generator.tables.items()
                    if not state_of(connection, f"SELECT 1 FROM {name} WHERE false")
                }  # fmt: skip
    return failed


@pytest.mark.parametrize("seed", [SEED * 1000 + n for n in range(4)])
def test_mutated_statements(seed: int, tmp_path: Path) -> None:
    assert run_mutations(tmp_path, seed, 250) > 100


@pytest.mark.soak
def test_many_mutated_statements(tmp_path: Path) -> None:
    for seed in range(SEED * 1000 + 1000, SEED * 1000 + 1100):
        assert run_mutations(tmp_path / str(seed), seed, 500) > 200


__all__ = ["decimal"]

"""Bounds of a key in a columnar query: the rows are those that the condition gives without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy_server.embedded import Database, opened
from herdpy_sql.columnar.bounds import _EXACT
from tests.sessions.stepping import ask

KEYS = {
    "boolean": ["f", "t"],
    "integer": ["-2147483648", "-1", "7", "2147483647"],
    "oid": ["0", "26", "4294967295"],
    "text": ["", "a", "a ", "é"],
    "varchar(3)": ["", "a", "abc"],
    "char(3)": ["a", "ab", "b"],
    "name": ["a", "b"],
    "bytea": ["\\x", "\\x00", "\\x0001", "\\xff"],
    "date": ["-infinity", "0001-01-01 BC", "2024-02-29", "infinity"],
    "time": ["00:00", "12:30:00.5", "24:00"],
    "timestamp": ["-infinity", "2024-02-29 12:00", "infinity"],
    "timestamptz": ["-infinity", "2024-02-29 12:00+02", "infinity"],
    "uuid": ["0" * 32, "a" * 32, "f" * 32],
    "macaddr": ["000000000000", "08002b010203"],
    "macaddr8": ["08002b0102030405", "ffffffffffffffff"],
    "inet": ["0.0.0.0/0", "10.0.0.0/8", "10.0.0.7/8", "10.0.0.7", "::/0", "::1"],
    "cidr": ["10.0.0.0/8", "10.0.0.0/9", "10.0.0.0/32", "::/0", "::1/128"],
    "bit(3)": ["000", "101", "110"],
    "varbit": ["", "0", "1", "10", "101", "11"],
    "real": ["-Infinity", "-0", "1.1", "NaN"],
    "numeric(6,2)": ["-1.5", "0", "2.25"],
    "interval": ["1 day", "1 month"],
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    path: Path = tmp_path_factory.mktemp("bounds")
    with opened(path / "db") as database:
        yield database


@pytest.mark.parametrize("type_", KEYS)
def test_bounds_leave_out_no_row(database: Database, type_: str) -> None:
    session = database.session()
    ask(session, "DROP TABLE IF EXISTS t")
    ask(session, f"CREATE TABLE t (k {type_} PRIMARY KEY)")
    for key in KEYS[type_]:
        ask(session, f"INSERT INTO t VALUES ('{key}')")
    for op in ("=", "<", "<=", ">", ">="):
        for key in KEYS[type_]:
            counted = "SELECT count(*), min(k::text) FROM t WHERE"
            bounded = ask(session, f"{counted} k {op} '{key}' GROUP BY 1 > 2")
            whole = ask(session, f"{counted} (k {op} '{key}' OR k IS NULL) GROUP BY 1 > 2")
            assert bounded == whole, (op, key)


def test_types_that_bound_a_key() -> None:
    named = {base.value for base in _EXACT}
    assert {"bytea", "uuid", "macaddr", "time without time zone", "bigint", "oid"} <= named
    assert not named & {
        "real",
        "double precision",
        "numeric",
        "interval",
        "json",
        "jsonb",
        "enum",
        "regclass",
    }

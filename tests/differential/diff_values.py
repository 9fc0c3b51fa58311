"""Values of every column type for generated statements: small pools, so that rows collide and join.

A value is PostgreSQL's text of it, or None. The same text goes to both databases: as a literal with a
cast, as a text parameter, or (to HerdPy) as the Python object that a user would pass.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import uuid
from decimal import Decimal
from typing import Any

POOLS: dict[str, list[str]] = {
    "boolean": ["t", "f"],
    "smallint": ["0", "1", "2", "3", "-1", "7", "32767", "-32768"],
    "integer": ["0", "1", "2", "3", "4", "5", "-1", "7", "100", "2147483647", "-2147483648"],
    "bigint": ["0", "1", "2", "3", "5", "-1", "1000000000000", "9223372036854775807", "-9223372036854775808"],
    "real": ["0", "1", "2", "0.5", "-1.5", "0.25", "3", "1e+10", "16777216"],
    "double precision": ["0", "1", "2", "0.5", "-1.5", "3", "0.1", "1e+100", "-1e-07", "123456789.125"],
    "numeric(10,2)": ["0.00", "1.00", "1.50", "-1.50", "2.00", "99999999.99", "0.01", "-0.10"],
    "numeric(25,4)": ["0.0000", "1.5000", "123456789012345678901.2345", "-2.0000", "3.0001"],
    "numeric": ["0", "1", "1.5", "-2.25", "12345678901234567890.123456789", "100", "0.001"],
    "text": ["", "a", "b", "A", "ab", "abc", "a b", "Ab", "é", "日本", "z", "a'b", 'q"q', "%", "_x", "\\"],
    "character varying(5)": ["", "a", "b", "ab", "abc", "abcde", "é", "日本語", "zz", "a "],
    "character(4)": ["a   ", "b   ", "ab  ", "abcd", "é   ", "    "],
    "bytea": ["\\x", "\\x00", "\\x01", "\\x0102", "\\xff", "\\x00ff", "\\x61"],
    "date": ["2020-01-01", "2020-02-29", "1970-01-01", "1999-12-31", "2024-06-15", "0001-01-01"],
    "time without time zone": ["00:00:00", "12:34:56", "23:59:59.999999", "06:00:00"],
    "timestamp without time zone": [
        "2020-01-01 00:00:00", "2020-01-01 12:34:56.789", "1970-01-01 00:00:00", "1969-12-31 23:59:59.999999",
        "2024-06-15 08:00:00",
    ],
    "timestamp with time zone": [
        "2020-01-01 00:00:00+00", "2020-01-01 12:34:56.789+00", "1970-01-01 00:00:00+00",
        "1969-12-31 23:59:59.999999+00", "2024-06-15 08:00:00+00",
    ],
    "uuid": [
        "00000000-0000-0000-0000-000000000001", "a0000000-0000-0000-0000-00000000000f",
        "ffffffff-ffff-ffff-ffff-ffffffffffff", "00000000-0000-0000-0000-00000000000a",
    ],
    "json": ['{"a": 1}', "[1, 2]", "null", '"x"', "1.50", "{}"],
}  # fmt: skip

FAMILIES = {
    "int": ["smallint", "integer", "bigint"],
    "numeric": ["numeric(10,2)", "numeric(25,4)", "numeric"],
    "float": ["real", "double precision"],
    "text": ["text", "character varying(5)", "character(4)"],
}
FAMILY = {name: family for family, names in FAMILIES.items() for name in names}
TYPES = list(POOLS)
KEY_TYPES = [name for name in TYPES if name != "json"]
NUMBERS = {*FAMILIES["int"], *FAMILIES["numeric"], *FAMILIES["float"]}
FLOATS = set(FAMILIES["float"])
INTEGERS = set(FAMILIES["int"])


def value(rng: random.Random, type_: str, nulls: float = 0.12) -> str | None:
    """A value of a type, NULL with that probability."""
    if rng.random() < nulls:
        return None
    if type_ in {"integer", "bigint"} and rng.random() < 0.5:
        return str(rng.randrange(40))
    return rng.choice(POOLS[type_])


def literal(type_: str, text: str | None, *, bare: bool = False) -> str:
    """SQL for a value; ``bare``: without a cast, for places that give it its type."""
    if text is None:
        return "NULL"
    if type_ in NUMBERS and (bare or type_ in {"integer", "numeric"}):
        return text
    quoted = "'" + text.replace("'", "''") + "'"
    return quoted if bare or type_ == "text" else f"{quoted}::{type_}"


def python(type_: str, text: str | None) -> Any:
    """The Python object that stands for a value."""
    if text is None:
        return None
    if type_ == "boolean":
        return text == "t"
    if type_ in INTEGERS:
        return int(text)
    if type_ in FLOATS:
        return float(text)
    if type_.startswith("numeric"):
        return Decimal(text)
    if type_ == "bytea":
        return bytes.fromhex(text[2:])
    readers: dict[str, Any] = {
        "date": dt.date.fromisoformat,
        "time without time zone": dt.time.fromisoformat,
        "timestamp without time zone": dt.datetime.fromisoformat,
        "timestamp with time zone": lambda t: dt.datetime.fromisoformat(t + ":00"),
        "uuid": uuid.UUID,
        "json": lambda t: json.loads(t) if t[0] in "{[" else t,
    }
    return readers.get(type_, str)(text)

"""What executemany may be asked: a statement and its rows, by name."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from zoneinfo import ZoneInfo

TYPES = (
    "k BIGINT PRIMARY KEY, i INTEGER, s SMALLINT CHECK (s < 1000), n NUMERIC(8,2), m NUMERIC,"
    " d DOUBLE PRECISION, r REAL, t TEXT NOT NULL DEFAULT 'none', v VARCHAR(5), c CHAR(3), b BOOLEAN,"
    " y BYTEA, a DATE, h TIME, ts TIMESTAMP, tz TIMESTAMPTZ, u UUID UNIQUE, j JSON"
)
UTC = dt.UTC
KEYS = list(range(40))


def keyed(*columns):
    """Rows of a key and the same values."""
    return [(k, *columns) for k in KEYS]


def spoilt(rows, at, row):
    return [*rows[:at], row, *rows[at + 1 :]]


NOW = dt.datetime(2024, 2, 29, 12, 34, 56, 789012)
ONE = uuid.UUID(int=5)
GOOD = {
    "ints": ("INSERT INTO t (k, i, s) VALUES (%s, %s, %s)", [(k, k * 70_000, k) for k in KEYS]),
    "sizes": ("INSERT INTO t (k, m) VALUES (%s, %s)", [(k, 1 << k) for k in KEYS]),
    "int to numeric and double": (
        "INSERT INTO t (k, n, m, d) VALUES (%s, %s, %s, %s)",
        [(k, k, -k, (1 << 53) + k) for k in KEYS],
    ),
    "int to real": ("INSERT INTO t (k, r) VALUES (%s, %s)", [(k, 16_777_217 + k) for k in KEYS]),
    "int to text": ("INSERT INTO t (k, t) VALUES (%s, %s)", [(k, k) for k in KEYS]),
    "floats": (
        "INSERT INTO t (k, d, r) VALUES (%s, %s, %s)",
        [(k, v, v) for k, v in enumerate([0.1, -0.0, float("nan"), float("inf"), 1e-40, 3.3e38] * 5)],
    ),
    "float to numeric": ("INSERT INTO t (k, n, m) VALUES (%s, %s, %s)", keyed(1.005, 0.1)),
    "float to integer": ("INSERT INTO t (k, i) VALUES (%s, %s)", [(k, k + 0.5) for k in KEYS]),
    "decimals": (
        "INSERT INTO t (k, n, m, d) VALUES (%s, %s, %s, %s)",
        [(k, Decimal("1.005") + k, Decimal("1.500") * k, Decimal(k) / 7) for k in KEYS],
    ),
    "decimal of powers": ("INSERT INTO t (k, m) VALUES (%s, %s)", keyed(Decimal("1E+5"))),
    "decimal to integer": ("INSERT INTO t (k, i) VALUES (%s, %s)", keyed(Decimal("2.5"))),
    "texts": (
        "INSERT INTO t (k, t, v, c) VALUES (%s, %s, %s, %s)",
        [(k, "ü" * k, "abc  "[: k % 6], "x" + " " * (k % 9)) for k in KEYS],
    ),
    "blanks that are too many": ("INSERT INTO t (k, v) VALUES (%s, %s)", keyed("abcde    ")),
    "text as everything": (
        "INSERT INTO t (k, i, n, d, b, y, a, h, ts, tz, j) VALUES"
        " (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        keyed(
            " 12",
            "1.239",
            "1e3",
            "yes",
            "\\x00ff",
            "2020-01-02",
            "12:34",
            "2020-01-02 03:04",
            "2020-01-02 03:04+02",
            '{"a": 1}',
        ),
    ),
    "words for dates": (
        "INSERT INTO t (k, a, ts) VALUES (%s, %s, %s)",
        [(k, "2020-1-2" if k % 2 else "20200102", "epoch") for k in KEYS],
    ),
    "uuid as text": ("INSERT INTO t (k, u) VALUES (%s, %s)", [(k, str(uuid.UUID(int=k))) for k in KEYS]),
    "others": (
        "INSERT INTO t (k, b, y, u, j) VALUES (%s, %s, %s, %s, %s)",
        [(k, k % 2 == 0, bytes([k, 0]), uuid.UUID(int=k), {"k": [k, None, "ü"]}) for k in KEYS],
    ),
    "list as json": ("INSERT INTO t (k, j) VALUES (%s, %s)", [(k, [k] if k % 2 else {"k": k}) for k in KEYS]),
    "moments": (
        "INSERT INTO t (k, a, h, ts, tz) VALUES (%s, %s, %s, %s, %s)",
        [
            (
                k,
                dt.date(1, 1, 1 + k % 28),
                dt.time(23, 59, k),
                NOW - dt.timedelta(18_000 * k),
                NOW.replace(tzinfo=UTC),
            )
            for k in KEYS
        ],
    ),
    "zones": (
        "INSERT INTO t (k, tz) VALUES (%s, %s)",
        [(k, NOW.replace(tzinfo=ZoneInfo("Europe/Rome"), month=1 + k % 12, day=1, fold=k % 2)) for k in KEYS],
    ),
    "moments of the other kind": (
        "INSERT INTO t (k, ts, tz) VALUES (%s, %s, %s)",
        keyed(NOW.replace(tzinfo=UTC), NOW),
    ),
    "date as timestamp": (
        "INSERT INTO t (k, ts, tz) VALUES (%s, %s, %s)",
        keyed(dt.date(2020, 1, 2), dt.date(9, 9, 9)),
    ),
    "nulls": (
        "INSERT INTO t (k, i, v, n) VALUES (%s, %s, %s, %s)",
        [(k, None, "a" if k % 3 else None, None) for k in KEYS],
    ),
    "all nulls": ("INSERT INTO t (k, i, t, j) VALUES (%s, %s, DEFAULT, %s)", keyed(None, None)),
    "constants": ("INSERT INTO t (k, i, v) VALUES (%s, 5 + 1, 'abc')", keyed()),
    "expressions": (
        "INSERT INTO t (k, i, t) VALUES (%s, %s + 1, upper(%s))",
        [(k, k * 40_000, "a") for k in KEYS],
    ),
    "a parameter twice": ("INSERT INTO t (k, i, s) VALUES ($1, $2, $2)", [(k, k) for k in KEYS]),
    "two rows": ("INSERT INTO t (k, i) VALUES (%s, 1), (%s, 2)", [(k, -1 - k) for k in KEYS]),
    "by query": ("INSERT INTO t (k, i) SELECT %s, 3", keyed()),
    "names": ("INSERT INTO t (k, t) VALUES (%(k)s, %(t)s)", [{"k": k, "t": "a", "more": 1} for k in KEYS]),
    "quotes": ("INSERT INTO t (k, t) VALUES (%s, 'it''s; --' /* ' */ || E'\\n') -- the end", keyed()),
    "semicolon": ("INSERT INTO t (k) VALUES (%s);", keyed()),
    "generator": ("INSERT INTO t (k) VALUES (%s)", lambda: ((k,) for k in KEYS)),
    "one": ("INSERT INTO t (k) VALUES (%s)", [(1,)]),
}
SEEDED = [f"INSERT INTO t (k, i, t) VALUES ({k}, {k}, 'old')" for k in range(0, 40, 2)]
CHANGES = {
    "update": ("UPDATE t SET i = i + %s, t = %s WHERE k = %s", [(k, "new", k) for k in KEYS]),
    "update of sizes": ("UPDATE t SET m = %s * %s WHERE k = %s", [(k * 200, 3, k) for k in KEYS]),
    "update twice": ("UPDATE t SET i = i + 1 WHERE k = %s", [(2 * (k % 2),) for k in KEYS]),
    "delete": ("DELETE FROM t WHERE k = %s", [(k,) for k in KEYS]),
    "delete by range": ("DELETE FROM t WHERE k BETWEEN %s AND %s", [(k, k + 1) for k in range(30)]),
    "update by query": (
        "UPDATE t SET i = (SELECT max(k) FROM t AS o) + %s WHERE k = %s",
        [(k, k) for k in KEYS[:4]],
    ),
}
BAD = {
    "duplicate in row 7": ("INSERT INTO t (k) VALUES (%s)", spoilt(keyed(), 7, (3,))),
    "exists": ("INSERT INTO t (k, t) VALUES (%s, %s)", keyed("new")[1::2] + keyed("new")[6:8]),
    "unique": ("INSERT INTO t (k, u) VALUES (%s, %s)", [(k + 100, uuid.UUID(int=k % 30)) for k in KEYS]),
    "NULL in row 9": ("INSERT INTO t (k, t) VALUES (%s, %s)", spoilt(keyed("a"), 9, (9, None))),
    "NULL key": ("INSERT INTO t (k) VALUES (%s)", spoilt(keyed(), 9, (None,))),
    "overflow": ("INSERT INTO t (k, i) VALUES (%s, %s)", [(k + 100, 1 << k) for k in KEYS]),
    "check": ("INSERT INTO t (k, s) VALUES (%s, %s)", [(k + 100, 990 + k) for k in KEYS]),
    "too long": ("INSERT INTO t (k, v) VALUES (%s, %s)", spoilt(keyed("abc"), 5, (5, "abcdef"))),
    "too long as json": ("INSERT INTO t (k, c) VALUES (%s, %s)", keyed([1, 2, 3])),
    "json for a number": ("INSERT INTO t (k, i) VALUES (%s, %s)", keyed([1])),
    "numeric overflow": ("INSERT INTO t (k, n) VALUES (%s, %s)", [(k + 100, Decimal(10) ** k) for k in KEYS]),
    "no number": ("INSERT INTO t (k, i) VALUES (%s, %s)", spoilt(keyed("1"), 8, (8, "one"))),
    "no date": ("INSERT INTO t (k, a) VALUES (%s, %s)", spoilt(keyed("2020-02-02"), 8, (8, "2020-02-30"))),
    "no json": ("INSERT INTO t (k, j) VALUES (%s, %s)", spoilt(keyed("{}"), 8, (8, "{"))),
    "wrong type": ("INSERT INTO t (k, i) VALUES (%s, %s)", [(k + 100, True) for k in KEYS]),
    "wrong type in row 8": ("INSERT INTO t (k, i) VALUES (%s, %s)", spoilt(keyed(1), 8, (8, b"1"))),
    "two errors": (
        "INSERT INTO t (k, v) VALUES (%s, %s)",
        spoilt(spoilt(keyed("a"), 9, (9, "abcdef")), 5, (4, "a")),
    ),
    "uuid for date": ("INSERT INTO t (k, a) VALUES (%s, %s)", keyed(ONE)),
    "real out of range": ("INSERT INTO t (k, r) VALUES (%s, %s)", spoilt(keyed(1.0), 5, (5, 1e39))),
    "division by zero": ("INSERT INTO t (k, i) VALUES (%s, 10 / %s)", [(k + 100, 20 - k) for k in KEYS]),
    "int2 overflow": ("UPDATE t SET i = %s * %s WHERE k = %s", [(k * 1000, 2, k) for k in KEYS]),
    "no table": ("INSERT INTO nowhere (k) VALUES (%s)", keyed()),
    "no column": ("INSERT INTO t (k, nothing) VALUES (%s, %s)", keyed(1)),
    "no statement": ("INSERT INTO t (k) VALUES %s)", keyed()),
    "two statements": ("INSERT INTO t (k) VALUES (%s); DELETE FROM t", keyed()),
    "too many values": ("INSERT INTO t (k) VALUES (%s, %s)", keyed(1)),
    "NUL": ("INSERT INTO t (k, t) VALUES (%s, %s)", spoilt(keyed("a"), 8, (8, "a\0"))),
    "surrogate": ("INSERT INTO t (k, t) VALUES (%s, %s)", spoilt(keyed("a"), 8, (8, "\ud800"))),
    "NaN": ("INSERT INTO t (k, n) VALUES (%s, %s)", spoilt(keyed(Decimal(1)), 8, (8, Decimal("NaN")))),
    "NaN in json": ("INSERT INTO t (k, j) VALUES (%s, %s)", spoilt(keyed([1]), 8, (8, [float("nan")]))),
    "an object": ("INSERT INTO t (k, j) VALUES (%s, %s)", spoilt(keyed([1]), 8, (8, object()))),
    "set": ("INSERT INTO t (k, j) VALUES (%s, %s)", keyed({1})),
    "time with zone": ("INSERT INTO t (k, h) VALUES (%s, %s)", keyed(dt.time(1, tzinfo=UTC))),
    "beyond BIGINT": ("INSERT INTO t (k) VALUES (%s)", spoilt(keyed(), 8, (2**63,))),
    "count of parameters": ("INSERT INTO t (k, i) VALUES (%s, %s)", spoilt(keyed(1), 8, (8,))),
    "mapping for a sequence": ("INSERT INTO t (k) VALUES (%s)", spoilt(keyed(), 8, {"k": 8})),
    "name that is missing": ("INSERT INTO t (k) VALUES (%(k)s)", [{"k": 1}, {"j": 1}]),
}
ALONE = {
    "mixed numbers": ("INSERT INTO t (k, d) VALUES (%s, %s)", [(k, k if k % 2 else k / 3) for k in KEYS]),
    "mixed with text": ("INSERT INTO t (k, i) VALUES (%s, %s)", [(k, k if k % 2 else str(k)) for k in KEYS]),
    "duration": ("INSERT INTO t (k, h) VALUES (%s, %s)", keyed(dt.timedelta(1, 5))),
    "subclasses": ("INSERT INTO t (k, t) VALUES (%s, %s)", keyed(type("Words", (str,), {})("a"))),
    "returning": ("INSERT INTO t (k) VALUES (%s) RETURNING k", keyed()),
    "huge ints": ("INSERT INTO t (k, m) VALUES (%s, %s)", [(k, 10**k) for k in KEYS]),
    "query": ("SELECT %s", keyed()),
}
SEEDED_TOO = {*CHANGES, "exists", "int2 overflow"}

COLUMNS = ["i", "s", "n", "m", "d", "r", "t", "v", "c", "b", "y", "a", "h", "ts", "tz", "u", "j"]
VALUES = {
    "bool": [True, False, None],
    "small": [0, -1, 7, 999, -32_768],
    "int": [0, 40_000, -(2**31), 16_777_217],
    "big": [2**31, -(2**63), 2**63 - 1, 2**53 + 1],
    "float": [0.0, -0.0, 1.5, 2.5, 0.1, -1e-7],
    "far float": [1e300, 1e-300, float("inf")],
    "no number": [float("nan")],
    "decimal": [Decimal("1.50"), Decimal("0.005"), Decimal("-0.00"), Decimal("2.5")],
    "far decimal": [Decimal("1E+30"), Decimal("1E-30")],
    "text": ["", "a", "ü  ", "abcdef"],
    "text of a number": ["1", " 2 ", "-3", "1e2", "0x10", "1_000"],
    "text of a fraction": ["1.5", "1.005", ".5", "5.", "00.10"],
    "text of a truth": ["t", "yes", "off", "0", "TRUE", " f "],
    "text of a day": ["2020-02-29", "2020-1-1", "20200101", "infinity", "0044-03-15 BC"],
    "text of a moment": ["2020-02-29 12:34:56.789", "2020-02-29T12:34:56Z", "2020-02-29 12:34:56+15:59"],
    "text of a time": ["12:34", "12:34:56.7890123", "24:00:00", "12:34:60"],
    "text of a UUID": [str(ONE), ONE.hex, "{" + str(uuid.UUID(int=6)) + "}"],
    "text of bytes": ["\\x00ff", "\\xAB", "a\\\\b", "\\x 00"],
    "text of JSON": ['{"a": [1, null]}', "[]", ' "x" ', "1"],
    "bytes": [b"", b"\0\xff", b"abc"],
    "day": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2020, 2, 29)],
    "time": [dt.time(0), dt.time(23, 59, 59, 999_999)],
    "moment": [NOW, dt.datetime.min, dt.datetime.max],
    "moment of a zone": [NOW.replace(tzinfo=UTC), NOW.replace(tzinfo=ZoneInfo("Asia/Kolkata"))],
    "UUID": [ONE, uuid.UUID(int=2**128 - 1)],
    "JSON": [{"a": 1.5}, [], [None, "ü\0"]],
    "nothing": [None],
}
"""Python's values by kind, each to be given to each of the columns."""

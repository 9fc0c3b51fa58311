"""Random scalar expressions over the columns of one table, for comparing with PostgreSQL.

The columns and rows are given as SQL text, read by both sides. An expression is made from a seed, so
that a failure names what to run again.
"""

from __future__ import annotations

import random

COLUMNS: dict[str, str] = {
    "b": "boolean",
    "i2": "smallint",
    "i4": "integer",
    "i8": "bigint",
    "f4": "real",
    "f8": "double precision",
    "n": "numeric",
    "n2": "numeric(12,2)",
    "s": "text",
    "v": "varchar(8)",
    "c": "char(5)",
    "y": "bytea",
    "d": "date",
    "t": "time",
    "ts": "timestamp",
    "tz": "timestamptz",
    "u": "uuid",
    "j": "json",
}

ROWS: list[dict[str, str | None]] = [
    {
        "b": "t",
        "i2": "7",
        "i4": "-12",
        "i8": "5000000000",
        "f4": "0.1",
        "f8": "2.5",
        "n": "12.340",
        "n2": "-1.50",
        "s": "Hello World",
        "v": "abc",
        "c": "ab",
        "y": "\\x6869",
        "d": "2024-02-29",
        "t": "12:34:56.789",
        "ts": "2024-02-29 23:59:59.5",
        "tz": "2024-02-29 12:00:00+02",
        "u": "123e4567-e89b-12d3-a456-426614174000",
        "j": '{"a": 1}',
    },
    {
        "b": "f",
        "i2": "-32768",
        "i4": "2147483647",
        "i8": "-9223372036854775808",
        "f4": "3e38",
        "f8": "-1e300",
        "n": "-99999999999999999999.123456789",
        "n2": "9999999999.99",
        "s": "",
        "v": "a_b%c",
        "c": "",
        "y": "\\x",
        "d": "0001-01-01",
        "t": "00:00:00",
        "ts": "1969-12-31 23:59:59.999999",
        "tz": "9999-12-31 23:59:59.999999+00",
        "u": "00000000-0000-0000-0000-000000000000",
        "j": "[1, 2]",
    },
    {
        "b": None,
        "i2": "0",
        "i4": "0",
        "i8": "0",
        "f4": "0",
        "f8": "-0",
        "n": "0.00",
        "n2": "0",
        "s": "%",
        "v": "ÄöZ",
        "c": "xyz",
        "y": "\\x00ff",
        "d": "infinity",
        "t": "24:00:00",
        "ts": "infinity",
        "tz": "-infinity",
        "u": None,
        "j": "null",
    },
    {
        "b": "t",
        "i2": "3",
        "i4": "3",
        "i8": "3",
        "f4": "NaN",
        "f8": "Infinity",
        "n": "3.000",
        "n2": "3",
        "s": "3",
        "v": "3.5",
        "c": "3",
        "y": "\\x33",
        "d": "1970-01-01",
        "t": "03:00:00",
        "ts": "1970-01-01 00:00:00",
        "tz": "1970-01-01 00:00:00+00",
        "u": "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "j": "3",
    },
    dict.fromkeys(COLUMNS),
]

_LITERALS: dict[str, list[str]] = {
    "bool": ["true", "false", "null", "'t'"],
    "number": [
        "0",
        "1",
        "-1",
        "2",
        "3",
        "10",
        "2.5",
        "-0.5",
        "1.000",
        "1e3",
        "2147483647",
        "2147483648",
        "9223372036854775807",
        "100000000000000000000",
        "'5'",
        "null",
        "0.1::real",
        "1.5::float8",
        "123456.789",
        "3::smallint",
    ],
    "text": [
        "'abc'",
        "''",
        "'a%'",
        "'%o%'",
        "'3'",
        "' x '",
        "null",
        "'Hello World'",
        "'é'",
        "'_b%'",
        "'zz'::char(5)",
        "'ab'::varchar(2)",
    ],
    "moment": [
        "date '2024-02-29'",
        "timestamp '2024-02-29 12:00:00'",
        "timestamptz '2024-02-29 12:00:00+05'",
        "'2024-01-31'",
        "date '1970-01-01'",
        "time '12:00'",
    ],
    "other": ["'\\x6869'::bytea", "'123e4567-e89b-12d3-a456-426614174000'::uuid", "'00'", "null"],
}

_BY_FAMILY: dict[str, list[str]] = {
    "bool": ["b"],
    "number": ["i2", "i4", "i8", "f4", "f8", "n", "n2"],
    "text": ["s", "v", "c"],
    "moment": ["d", "t", "ts", "tz"],
    "other": ["y", "u", "j"],
}

_TYPES = [
    "boolean",
    "smallint",
    "integer",
    "bigint",
    "real",
    "double precision",
    "numeric",
    "numeric(8,3)",
    "text",
    "varchar(3)",
    "char(4)",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "uuid",
    "bytea",
    "json",
]


class Generator:
    """Makes expressions from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def expression(self, depth: int = 3) -> str:
        """An expression of any family; one in eight mixes families, which is mostly an error."""
        family = self._random.choice(["bool", "number", "number", "text", "text", "moment", "other", "bool"])
        return self.of(family, depth)

    def of(self, family: str, depth: int) -> str:
        """An expression of a family of types."""
        if self._random.random() < 0.04:
            family = self._random.choice(list(_BY_FAMILY))
        if depth <= 0 or self._random.random() < 0.15:
            return self._leaf(family)
        make = {
            "bool": self._bool,
            "number": self._number,
            "text": self._text,
            "moment": self._moment,
            "other": self._other,
        }[family]
        return make(depth - 1)

    def _leaf(self, family: str) -> str:
        if self._random.random() < 0.7:
            return self._random.choice(_BY_FAMILY[family])
        return self._random.choice(_LITERALS[family])

    def _any_of(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _shared(self, family: str, depth: int) -> str:
        one = self.of(family, depth)
        two = self.of(family, depth)
        condition = self.of("bool", depth)
        return self._any_of(
            f"coalesce({one}, {two})",
            f"nullif({one}, {two})",
            f"greatest({one}, {two})",
            f"least({one}, {two}, {one})",
            f"case when {condition} then {one} else {two} end",
            f"case when {condition} then {one} end",
            f"case {one} when {two} then {one} when {self.of(family, depth)} then {two} end",
        )

    def _bool(self, depth: int) -> str:
        family = self._any_of("number", "number", "text", "text", "moment", "bool", "other")
        one, two, three = (self.of(family, depth) for _ in range(3))
        a, b = self.of("bool", depth), self.of("bool", depth)
        s, p = (
            self.of("text", depth),
            self._any_of("'a%'", "'%o%'", "'_b_'", "v", "s", "'%'", "'\\%'", "'ab'"),
        )
        op = self._any_of("=", "<>", "<", "<=", ">", ">=", "!=")
        negate = self._any_of("", "not ")
        return self._any_of(
            f"({one} {op} {two})",
            f"({one} {op} {two})",
            f"({one} {op} {two})",
            f"({a} and {b})",
            f"({a} or {b})",
            f"(not {a})",
            f"({one} is {negate}null)",
            f"({a} is {negate}true)",
            f"({a} is {negate}false)",
            f"({a} is {negate}unknown)",
            f"({one} {negate}in ({two}, {three}))",
            f"({one} {negate}between {two} and {three})",
            f"({one} is {negate}distinct from {two})",
            f"({s} {negate}like {p})",
            f"({s} {negate}ilike {p})",
            f"({s} like {p} escape '!')",
            f"starts_with({s}, 'a')",
            self._shared("bool", depth),
        )

    def _number(self, depth: int) -> str:
        one, two = self.of("number", depth), self.of("number", depth)
        s, m = self.of("text", depth), self.of("moment", depth)
        field = self._any_of(
            "year",
            "month",
            "day",
            "hour",
            "minute",
            "second",
            "dow",
            "doy",
            "isodow",
            "week",
            "quarter",
            "epoch",
            "isoyear",
            "century",
            "decade",
            "millennium",
            "milliseconds",
            "microseconds",
        )
        small = self._any_of("0", "1", "2", "-1", "3", "i2")
        return self._any_of(
            f"({one} + {two})",
            f"({one} - {two})",
            f"({one} * {two})",
            f"({one} / {two})",
            f"({one} / {two})",
            f"({one} % {two})",
            f"(- {one})",
            f"abs({one})",
            f"sign({one})",
            f"ceil({one})",
            f"floor({one})",
            f"round({one})",
            f"round({one}, {small})",
            f"trunc({one})",
            f"trunc({one}, {small})",
            f"mod({one}, {two})",
            f"div({one}, {two})",
            f"sqrt({one})",
            f"power({one}, {small})",
            f"({one} & {two})",
            f"({one} | {two})",
            f"({one} # {two})",
            f"(~ {one})",
            f"({one} << {small})",
            f"({one} >> {small})",
            f"length({s})",
            f"octet_length({s})",
            f"ascii({s})",
            f"strpos({s}, {self.of('text', depth)})",
            f"position({s} in {self.of('text', depth)})",
            f"extract({field} from {self._any_of('d', 'ts', 'tz', 't', m)})",
            f"cast({one} as {self._any_of(*_TYPES[1:8])})",
            f"cast({self.of(self._any_of('text', 'bool', 'number'), depth)} as {self._any_of(*_TYPES[1:8])})",
            f"({self.of('moment', depth)} - {self.of('moment', depth)})",
            self._shared("number", depth),
        )

    def _text(self, depth: int) -> str:
        one, two = self.of("text", depth), self.of("text", depth)
        count = self._any_of("0", "1", "2", "-1", "-2", "5", "100", "i2")
        any_family = self._any_of(*_BY_FAMILY)
        return self._any_of(
            f"({one} || {two})",
            f"({one} || {self.of(any_family, depth)})",
            f"lower({one})",
            f"upper({one})",
            f"substring({one} from {count} for {self._any_of('0', '1', '3')})",
            f"substring({one}, {count})",
            f"substr({one}, {count}, 2)",
            f"trim({one})",
            f"trim(both 'ab' from {one})",
            f"ltrim({one}, {two})",
            f"rtrim({one})",
            f"replace({one}, {two}, 'zz')",
            f"left({one}, {count})",
            f"right({one}, {count})",
            f"lpad({one}, {self._any_of('0', '3', '12', '-1')}, {two})",
            f"rpad({one}, {self._any_of('0', '3', '12', '-1')})",
            f"repeat({one}, {self._any_of('0', '2', '-1')})",
            f"reverse({one})",
            f"split_part({one}, {two}, {self._any_of('1', '2', '-1', '0')})",
            f"md5({one})",
            f"concat({one}, {self.of(any_family, depth)}, {two})",
            f"concat_ws({one}, {self.of(any_family, depth)}, {two})",
            f"cast({self.of(any_family, depth)} as {self._any_of(*_TYPES[8:11])})",
            f"cast({self.of(any_family, depth)} as {self._any_of(*_TYPES[8:11])})",
            self._shared("text", depth),
        )

    def _moment(self, depth: int) -> str:
        one = self.of("moment", depth)
        sign = self._any_of("+", "-")
        unit = self._any_of(
            "1 day", "1 month", "-13 months", "36 hours", "1 year 2 months 3 days", "90 minutes"
        )
        part = self._any_of("day", "month", "year", "hour", "week", "quarter", "decade", "century", "second")
        return self._any_of(
            f"({one} {sign} interval '{unit}')",
            f"(d {sign} {self._any_of('1', '30', 'i2', 'i4')})",
            f"(d + {self._any_of('t', one)})",
            f"date_trunc('{part}', {self._any_of('ts', 'tz', 'd', one)})",
            f"cast({one} as {self._any_of(*_TYPES[11:15])})",
            f"cast({self._any_of('s', 'v', one)} as {self._any_of(*_TYPES[11:15])})",
            f"({one} at time zone 'UTC')",
            f"make_date(i4, {self._any_of('1', '2', '13')}, 30)",
            self._shared("moment", depth),
        )

    def _other(self, depth: int) -> str:
        one = self.of("other", depth)
        return self._any_of(
            "(y || y)",
            f"substring(y, {self._any_of('1', '2', '0')})",
            f"cast({self.of(self._any_of(*_BY_FAMILY), depth)} as {self._any_of(*_TYPES[15:])})",
            self._shared("other", depth),
            one,
        )

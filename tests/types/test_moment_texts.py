"""Texts of dates, times and intervals: read and written as PostgreSQL does, with each style, in three zones.

A grammar makes texts that are values, and many that nearly are. PostgreSQL reads a batch in one round trip.
"""

# ruff: noqa: E501 - a statement is one line
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import herdpy
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType
from herdpy_sql.values.moments import DATE_MAX, DATE_MIN, TIMESTAMP_END, TIMESTAMP_MIN
from herdpy_sql.values.styled import reader, writer
from herdpy_sql.values.styles import Style

ZONES = ["UTC", "America/New_York", "<+05:30>-05:30"]
LOOKS = ["ISO", "SQL", "Postgres", "German"]
ORDERS = ["MDY", "DMY", "YMD"]
INTERVAL_STYLES = ["postgres", "postgres_verbose", "sql_standard", "iso_8601"]
NOW = 1_700_000_000_123_456
TYPES = {
    "date": t.DATE,
    "time": t.TIME,
    "timestamp": t.TIMESTAMP,
    "timestamptz": t.TIMESTAMPTZ,
    "interval": t.INTERVAL,
}
FUNCTION = """
CREATE OR REPLACE FUNCTION pg_temp.as_read(given text[], kind text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE one text; shown text; found text[] = '{}';
BEGIN
  FOREACH one IN ARRAY given LOOP
    BEGIN
      EXECUTE format('SELECT (%L::%s)::text', one, kind) INTO shown;
    EXCEPTION WHEN OTHERS THEN shown = '!' || SQLSTATE;
    END;
    found = found || shown;
  END LOOP;
  RETURN found;
END $$
"""

_numbers = st.one_of(
    st.integers(0, 99).map(str),
    st.integers(0, 31).map("{:02d}".format),
    st.sampled_from(["1999", "2001", "0099", "366", "045", "20010203", "990203", "040506", "0405", "12345"]),
)
_months = st.sampled_from(["Jan", "January", "feb", "SEPT", "Dec", "Foo"])
_dates = st.one_of(
    st.tuples(_numbers, st.sampled_from("-/. "), _numbers, st.sampled_from("-/. "), _numbers).map("".join),
    st.tuples(_months, _numbers, st.sampled_from([", ", " ", "-"]), _numbers).map(
        lambda p: f"{p[0]} {p[1]}{p[2]}{p[3]}"
    ),
    st.tuples(_numbers, st.sampled_from("- "), _months, st.sampled_from("- "), _numbers).map("".join),
    st.sampled_from(
        ["1999-01-08", "19990108", "J2451187", "1999.008", "y1999 m1 d8", "J 2451187.5", "epoch", "infinity",
         "-infinity", "1999-366", "2000-366", "5874897-12-31", "4714-11-24"]
    ),
)  # fmt: skip
_times = st.one_of(
    st.tuples(st.integers(0, 25), st.integers(0, 61)).map(lambda p: f"{p[0]}:{p[1]:02d}"),
    st.tuples(
        st.integers(0, 24), st.integers(0, 59), st.sampled_from(["5", "59", "60", "1.5", "7.1234567"])
    ).map(lambda p: f"{p[0]}:{p[1]}:{p[2]}"),
    st.sampled_from(
        ["040506", "0405", "040506.789", "T040506", "t04:05:06", "allballs", "24:00:00", "12:30."]
    ),
)
_ends = st.sampled_from(
    ["", "", "", " AM", " pm", " BC", " AD", "Z", " UTC", "+02", "-07:30", "+0530", "+16", " EST", " MSK", " PDT",
     " Europe/Paris", " america/new_york", " MET DST", " EST5EDT", " Sat", " at", " Nowhere", " dst", "+02:03:04"]
)  # fmt: skip
MOMENTS = st.one_of(
    st.tuples(_dates, _ends).map("".join),
    st.tuples(_times, _ends).map("".join),
    st.tuples(_dates, st.sampled_from([" ", "T", ""]), _times, _ends, _ends).map("".join),
    st.tuples(_times, st.just(" "), _dates, _ends).map("".join),
)
_units = st.sampled_from(
    ["", "us", "ms", "s", "sec", "min", "h", "hours", "d", "days", "weeks", "mon", "months", "y", "years",
     "decade", "c", "millennia", "foo", "microseconds"]
)  # fmt: skip
_amounts = st.tuples(
    st.sampled_from(["", "", "-", "+", "- "]),
    st.sampled_from(["1", "2", "13", "1.5", "0.001", "1.", ".25", "99"]),
).map("".join)
_parts = st.one_of(
    st.tuples(_amounts, st.sampled_from(["", " "]), _units).map("".join),
    st.tuples(st.sampled_from(["", "-", "+"]), _times).map("".join),
    st.sampled_from(["1-2", "-1-2", "1-12", "@", "ago", "1:2:3.5", "1.5:2"]),
)
_iso = st.lists(
    st.tuples(st.sampled_from(["1", "-2", "1.5", "0.25", "10", "1e1"]), st.sampled_from("YMWDHSTX")).map(
        "".join
    ),
    min_size=1,
    max_size=4,
).map(lambda parts: "P" + "".join(parts))
INTERVALS = st.one_of(
    st.lists(_parts, min_size=1, max_size=4).map(" ".join),
    _iso,
    st.sampled_from(
        ["P0001-02-03T04:05:06", "P00010203T040506", "PT040506", "PT10:30", "P1-2", "P1-2-3", "P1Y2M3DT4H5M6.5S", "PT",
         "P", "P1YT", "PT1H30", "2147483647 days", "2147483648 days", "-2147483648 months ago", "1 2", "1 2:03"]
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def theirs(postgres: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(FUNCTION)
        yield connection


def _set(connection: Any, style: Style) -> None:
    connection.execute(
        f"SET timezone = '{style.zone}'; SET datestyle = '{style.dates}, {style.order}'; "
        f"SET intervalstyle = '{style.intervals}'; SET extra_float_digits = {style.float_digits}; "
        f"SET bytea_output = '{style.binary}'"
    )


styles = st.builds(
    Style,
    st.sampled_from(ZONES),
    st.sampled_from(LOOKS),
    st.sampled_from(ORDERS),
    st.sampled_from(INTERVAL_STYLES),
    st.sampled_from([-15, -3, 0, 1, 3]),
    st.sampled_from(["hex", "escape"]),
)


def _read(kind: SqlType, text: str, style: Style) -> str:
    """The value's text in the same session, or what is wrong."""
    try:
        return writer(kind, style)(reader(kind)(text, style, NOW))
    except SqlError as error:
        return f"!{error.sqlstate}"


_FAR_ZONE = re.compile(r"[a-z]{3,}[-+]?(?:2[4-9]|[3-9]\d|1\d\d)", re.IGNORECASE)
"""Zones of more than a day, such as "Jan-25", are not read behind everything; of two errors either will do."""


def _same_texts(theirs: psycopg.Connection, name: str, texts: list[str], style: Style) -> None:
    _set(theirs, style)
    row = theirs.execute("SELECT pg_temp.as_read(%s, %s)", [texts, name]).fetchone()
    assert row is not None
    found = [_read(TYPES[name], text, style) for text in texts]
    differing = [
        f"{name} {text!r}: {one}, PostgreSQL {wanted}"
        for text, one, wanted in zip(texts, found, row[0], strict=True)
        if one != wanted and not (one == "!22023" and (wanted[0] == "!" or _FAR_ZONE.search(text)))
    ]
    assert not differing, f"{style}\n" + "\n".join(differing)


@pytest.mark.parametrize("name", ["date", "time", "timestamp", "timestamptz"])
@given(st.lists(MOMENTS, min_size=20, max_size=40), styles)
def test_a_moment_is_read_as_postgresql_reads_it(
    theirs: psycopg.Connection, name: str, texts: list[str], style: Style
) -> None:
    _same_texts(theirs, name, texts, style)


@given(st.lists(INTERVALS, min_size=20, max_size=40), styles)
def test_an_interval_is_read_as_postgresql_reads_it(
    theirs: psycopg.Connection, texts: list[str], style: Style
) -> None:
    _same_texts(theirs, "interval", texts, style)


VALUES: dict[str, tuple[SqlType, st.SearchStrategy[Any], Callable[[Any], str]]] = {
    "date": (t.DATE, st.integers(DATE_MIN, DATE_MAX), lambda d: f"date '1970-01-01' + {d}"),
    "timestamp": (
        t.TIMESTAMP,
        st.integers(TIMESTAMP_MIN // 1000, TIMESTAMP_END // 1000 - 1).map(lambda ms: ms * 1000),
        lambda us: f"timestamp '{writer(t.TIMESTAMP, Style())(us)}'",
    ),
    "timestamptz": (
        t.TIMESTAMPTZ,
        st.integers(-10_000_000_000_000_000, 10_000_000_000_000_000),
        lambda us: f"timestamptz '{writer(t.TIMESTAMPTZ, Style())(us)}'",
    ),
    "interval": (
        t.INTERVAL,
        st.tuples(st.integers(-50, 50), st.integers(-40, 40), st.integers(-(10**11), 10**11)),
        lambda i: (
            f"make_interval(months => {i[0]}, days => {i[1]}) + make_interval(secs => {i[2]}::numeric / 1000000)"
        ),
    ),
    "float8": (t.DOUBLE, st.floats(), lambda x: f"'{x!r}'::float8"),
    "bytea": (t.BYTEA, st.binary(max_size=20), lambda b: f"'\\x{b.hex()}'::bytea"),
}


@pytest.mark.parametrize("name", list(VALUES))
@given(st.data(), styles)
def test_a_value_is_written_as_postgresql_writes_it(
    theirs: psycopg.Connection, name: str, data: st.DataObject, style: Style
) -> None:
    kind, values, constant = VALUES[name]
    drawn = data.draw(st.lists(values, min_size=10, max_size=20))
    _set(theirs, Style())
    constants = ", ".join(f"({constant(one)})" for one in drawn)
    _set(theirs, style._replace(dates="ISO", order="MDY"))
    theirs.execute(f"CREATE TEMP TABLE given AS SELECT ARRAY[{constants}] AS values")
    _set(theirs, style)
    row = theirs.execute(
        "SELECT values::text, array(SELECT v::text FROM unnest(values) v) FROM given"
    ).fetchone()
    theirs.execute("DROP TABLE given")
    assert row is not None
    assert [writer(kind, style)(one) for one in drawn] == row[1]
    assert writer(t.array_of(kind), style)(tuple(drawn)) == row[0]


STATEMENTS = [
    "SELECT date '2001-02-03'::text, timestamp '2001-02-03 04:05:06.5'::text, timestamptz '2001-07-03 04:05+00'::text",
    "SELECT '0.1'::float8::text, '0.1'::real::text, '\\x0041'::bytea::text, interval '-1 day 2:03:04'::text",
    "SELECT concat(d, ' ', s), format('%s', i), array[d]::text, array_to_string(array[s], '|'), row(d, f)::text FROM v ORDER BY d",
    "SELECT d::text, s::text, z::text, i::text, f::text, b::text FROM v ORDER BY d",
    "SELECT '02/03/2001'::date = date '2001-02-03', '01.02.03'::text::date::text, quote_literal(d) FROM v ORDER BY d",
    "SELECT max(d)::text || min(s)::text || count(DISTINCT z::text) FROM v",
    "SELECT string_agg(i::text, ',' ORDER BY d) FROM v WHERE s > 'Jan 8 1999' AND d < '8-Jan-2030'",
    "SELECT 'now'::timestamptz = now(), date 'today' - 'yesterday', (timestamp 'tomorrow' - 'today')::text, 'now'::time <= 'now'",
    "SELECT (z AT TIME ZONE 'MSK')::text, (s AT TIME ZONE 'PST')::text, (z AT TIME ZONE 'CET')::text FROM v ORDER BY d",
    "SELECT extract(timezone_minute FROM z), date_trunc('day', z, 'VET')::text FROM v ORDER BY d",
]
TABLE = """
CREATE TABLE v (d date PRIMARY KEY, s timestamp, z timestamptz, i interval, f float8, b bytea);
INSERT INTO v VALUES ('2001-02-03', '2001-02-03 04:05:06.7', '2001-07-03 04:05:06+00', '1 year 2 mons -3 days', 0.1, '\\x0001'),
('1999-12-31', 'infinity', '1999-12-31 23:59:59+00', '-4:05:06.7', 1e20, 'abc')
"""


@pytest.fixture(scope="module")
def both(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    directory = str(tmp_path_factory.mktemp("texts") / "db")
    with herdpy.connect(directory) as connection, psycopg.connect(postgres, autocommit=True) as reference:
        reference.prepare_threshold = None  # PostgreSQL keeps what literals were when it prepared them
        connection.autocommit = True
        ours = connection.cursor()
        for one in (ours, reference):
            one.execute("DROP TABLE IF EXISTS v")
            for sql in TABLE.strip().split(";\n"):
                one.execute(sql)
        yield ours, reference


def _answer(connection: Any, sql: str) -> Any:
    try:
        return connection.execute(sql).fetchall()
    except (psycopg.Error, herdpy.Error) as error:
        return error.sqlstate


@pytest.mark.parametrize("engine", ["auto", "columnar"])
@pytest.mark.parametrize(
    "style",
    [
        Style("UTC", "ISO", "MDY", "postgres", 1, "hex"),
        Style("America/New_York", "SQL", "DMY", "sql_standard", 0, "escape"),
        Style("Asia/Kolkata", "Postgres", "MDY", "postgres_verbose", -3, "hex"),
        Style("<+02>-02", "German", "DMY", "iso_8601", 3, "escape"),
    ],
    ids=lambda style: style.dates,
)
def test_statements_follow_the_settings_on_both_engines(
    both: tuple[Any, Any], style: Style, engine: str
) -> None:
    ours, reference = both
    for one in both:
        for setting in (
            f"SET timezone = '{style.zone}'",
            f"SET datestyle = '{style.dates}, {style.order}'",
            f"SET intervalstyle = '{style.intervals}'",
            f"SET extra_float_digits = {style.float_digits}",
            f"SET bytea_output = '{style.binary}'",
        ):
            one.execute(setting)
    ours.execute(f"SET herdpy.engine = '{engine}'")
    differing = [
        f"{sql}\n    {mine}\n    {wanted}"
        for sql in STATEMENTS
        if (mine := _answer(ours, sql)) != (wanted := _answer(reference, sql))
    ]
    assert not differing, "\n".join(differing)

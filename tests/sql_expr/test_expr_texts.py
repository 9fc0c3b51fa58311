"""PostgreSQL's text forms, both ways."""

import math
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import from_text, to_text

VARCHAR3 = SqlType(Base.VARCHAR, 3)
CHAR3 = SqlType(Base.CHAR, 3)
N52 = SqlType(Base.NUMERIC, precision=5, scale=2)

# (type, text read, text printed)
FORMS = [
    (t.BOOLEAN, "yes", "t"),
    (t.BOOLEAN, " OFF ", "f"),
    (t.BOOLEAN, "tr", "t"),
    (t.SMALLINT, " -32768 ", "-32768"),
    (t.BIGINT, "+9223372036854775807", "9223372036854775807"),
    (t.DOUBLE, "1e20", "1e+20"),
    (t.DOUBLE, "0.1", "0.1"),
    (t.DOUBLE, "100000000000000", "100000000000000"),
    (t.DOUBLE, "1e15", "1e+15"),
    (t.DOUBLE, "0.00001", "1e-05"),
    (t.DOUBLE, "0.0001", "0.0001"),
    (t.DOUBLE, "-0", "-0"),
    (t.DOUBLE, "inf", "Infinity"),
    (t.DOUBLE, "-Infinity", "-Infinity"),
    (t.DOUBLE, "nan", "NaN"),
    (t.DOUBLE, "5e-324", "5e-324"),
    (t.DOUBLE, "123456789012345678", "1.2345678901234568e+17"),
    (t.REAL, "0.1", "0.1"),
    (t.REAL, "123456", "123456"),
    (t.REAL, "1e6", "1e+06"),
    (t.REAL, "1e-45", "1e-45"),
    (t.REAL, "16777217", "1.6777216e+07"),
    (t.NUMERIC, "1e3", "1000"),
    (t.NUMERIC, "-0.00", "0.00"),
    (t.NUMERIC, ".5", "0.5"),
    (t.NUMERIC, "12.3400", "12.3400"),
    (t.NUMERIC, "1e-5", "0.00001"),
    (N52, "1.005", "1.01"),
    (N52, "-1.005", "-1.01"),
    (t.TEXT, " x ", " x "),
    (VARCHAR3, "abc  ", "abc"),
    (CHAR3, "a", "a  "),
    (CHAR3, "abc   ", "abc"),
    (t.BYTEA, "\\x6869", "\\x6869"),
    (t.BYTEA, "a\\\\b\\001", "\\x615c6201"),
    (t.DATE, "2024-2-9", "2024-02-09"),
    (t.DATE, "20240209", "2024-02-09"),
    (t.DATE, "2/9/2024", "2024-02-09"),
    (t.DATE, "2024-02-09 23:00:00", "2024-02-09"),
    (t.DATE, "infinity", "infinity"),
    (t.DATE, "0044-03-15 BC", "0044-03-15 BC"),
    (t.DATE, "5874897-12-31", "5874897-12-31"),
    (t.TIME, "1:02", "01:02:00"),
    (t.TIME, "24:00:00", "24:00:00"),
    (t.TIME, "12:34:56.7890", "12:34:56.789"),
    (t.TIMESTAMP, "2024-02-29T10:00:00", "2024-02-29 10:00:00"),
    (t.TIMESTAMP, "2024-02-29 10:00:00.1234565+05", "2024-02-29 10:00:00.123456"),
    (t.TIMESTAMP, "1969-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999"),
    (t.TIMESTAMP, "294247-01-10 04:00:54", "294247-01-10 04:00:54"),
    (t.TIMESTAMP, "epoch", "1970-01-01 00:00:00"),
    (t.TIMESTAMPTZ, "2024-02-29 10:00:00+02", "2024-02-29 08:00:00+00"),
    (t.TIMESTAMPTZ, "2024-02-29 10:00:00 -05:30", "2024-02-29 15:30:00+00"),
    (t.TIMESTAMPTZ, "2024-02-29 10:00:00Z", "2024-02-29 10:00:00+00"),
    (t.TIMESTAMPTZ, "-infinity", "-infinity"),
    (t.UUID, "{123E4567-e89b12d3a456426614174000}", "123e4567-e89b-12d3-a456-426614174000"),
    (t.JSON, ' {"a" : [1.50, null]} ', ' {"a" : [1.50, null]} '),
]

REFUSED = [
    (t.BOOLEAN, "o", "22P02"),
    (t.BOOLEAN, "", "22P02"),
    (t.INTEGER, "1.5", "22P02"),
    (t.INTEGER, "", "22P02"),
    (t.INTEGER, "2147483648", "22003"),
    (t.INTEGER, "9" * 5000, "22003"),
    (t.BIGINT, "٣", "22P02"),
    (t.DOUBLE, "1e400", "22003"),
    (t.DOUBLE, "1e-400", "22003"),
    (t.DOUBLE, "1_0", "22P02"),
    (t.REAL, "1e39", "22003"),
    (t.NUMERIC, "1,5", "22P02"),
    (t.NUMERIC, "1e200000", "22003"),
    (t.NUMERIC, "1e99999999999", "22P02"),
    (t.NUMERIC, "NaN", "0A000"),
    (N52, "999.995", "22003"),
    (VARCHAR3, "abcd", "22001"),
    (CHAR3, "abcd", "22001"),
    (t.TEXT, "a\0b", "22021"),
    (t.TEXT, "\ud800", "22021"),
    (t.BYTEA, "\\x1", "22023"),
    (t.BYTEA, "\\xzz", "22023"),
    (t.BYTEA, "\\9", "22P02"),
    (t.DATE, "2024-02-30", "22008"),
    (t.DATE, "0000-01-01", "22008"),
    (t.DATE, "yesterdayish", "22007"),
    (t.DATE, "", "22007"),
    (t.DATE, "5874898-01-01", "22008"),
    (t.TIME, "25:00:00", "22008"),
    (t.TIMESTAMP, "2024-01-01 24:00:01", "22008"),
    (t.TIMESTAMP, "294277-01-01 00:00:00", "22008"),
    (t.TIMESTAMP, "2024-01-01 10:00:00 Mars/Olympus", "22023"),
    (t.TIMESTAMPTZ, "2024-01-01 10:00:00+16", "22009"),
    (t.TIMESTAMPTZ, "now", "0A000"),
    (t.UUID, "123", "22P02"),
    (t.JSON, "{'a': 1}", "22P02"),
    (t.JSON, "NaN", "22P02"),
    (t.JSON, "", "22P02"),
    (t.JSON, "[" * 100_000, "54001"),
]


@pytest.mark.parametrize(("sql_type", "read", "printed"), FORMS, ids=lambda x: str(x)[:30])
def test_text_forms(sql_type, read, printed):
    datum = from_text(sql_type)(read)
    assert to_text(sql_type)(datum) == printed
    assert to_text(sql_type)(from_text(sql_type)(printed)) == printed


@pytest.mark.parametrize(("sql_type", "text", "sqlstate"), REFUSED, ids=lambda x: str(x)[:30])
def test_refused_text(sql_type, text, sqlstate):
    with pytest.raises(SqlError) as caught:
        from_text(sql_type)(text)
    assert caught.value.sqlstate == sqlstate


def test_char_datum_has_no_trailing_blanks():
    assert from_text(CHAR3)("a ") == "a"


def test_long_json_integers_stay_as_they_are():
    text = "[" + "9" * 10_000 + "]"
    assert from_text(t.JSON)(text) == text


@given(st.floats())
def test_every_double_reads_back(value):
    back = from_text(t.DOUBLE)(to_text(t.DOUBLE)(value))
    assert struct.pack("<d", back) == struct.pack("<d", value) or math.isnan(value)


@given(st.floats(width=32))
def test_every_real_reads_back(value):
    back = from_text(t.REAL)(to_text(t.REAL)(value))
    assert struct.pack("<f", back) == struct.pack("<f", value) or math.isnan(value)


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_every_numeric_reads_back(value):
    datum = from_text(t.NUMERIC)(str(value))
    assert datum == value
    again = from_text(t.NUMERIC)(to_text(t.NUMERIC)(datum))
    assert again.as_tuple() == datum.as_tuple()
    assert int(datum.as_tuple().exponent) <= 0


@given(st.integers(-2_440_588, 2_145_042_905))
def test_every_date_reads_back(days):
    assert from_text(t.DATE)(to_text(t.DATE)(days)) == days


@given(st.integers(-210_866_803_200_000_000, 9_224_318_015_999_999_999))
def test_every_timestamp_reads_back(us):
    us = min(us, 2**63 - 2)
    assert from_text(t.TIMESTAMP)(to_text(t.TIMESTAMP)(us)) == us
    assert from_text(t.TIMESTAMPTZ)(to_text(t.TIMESTAMPTZ)(us)) == us


def test_numeric_datum_of_a_column_has_its_scale():
    assert from_text(N52)("7").as_tuple() == Decimal("7.00").as_tuple()

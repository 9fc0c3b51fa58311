"""Python objects in and out."""

import datetime as dt
import enum
import uuid
from decimal import Decimal

import numpy as np
import pytest

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import input_converter, output_converter, type_of

N52 = SqlType(Base.NUMERIC, precision=5, scale=2)
CHAR3 = SqlType(Base.CHAR, 3)
EAST = dt.timezone(dt.timedelta(hours=2))
UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"


class Colour(enum.IntEnum):
    RED = 1


# (type, given, given back)
ROUND_TRIPS = [
    (t.BOOLEAN, True, True),
    (t.BOOLEAN, "f", False),
    (t.BOOLEAN, np.bool_(True), True),
    (t.SMALLINT, 5, 5),
    (t.INTEGER, Colour.RED, 1),
    (t.INTEGER, np.int64(7), 7),
    (t.INTEGER, 3.0, 3),
    (t.INTEGER, Decimal("3.00"), 3),
    (t.BIGINT, "12", 12),
    (t.DOUBLE, 1, 1.0),
    (t.DOUBLE, Decimal("0.5"), 0.5),
    (t.DOUBLE, np.float32(0.5), 0.5),
    (t.DOUBLE, float("inf"), float("inf")),
    (t.REAL, 0.1, 0.1),
    (t.REAL, 16777217, 16777216.0),
    (N52, 1, Decimal("1.00")),
    (N52, Decimal("1.005"), Decimal("1.01")),
    (t.NUMERIC, Decimal("1E+3"), Decimal(1000)),
    (t.NUMERIC, 0.1, Decimal("0.1")),
    (t.NUMERIC, 10**40, Decimal(10**40)),
    (t.TEXT, "é", "é"),
    (SqlType(Base.VARCHAR, 2), "ab ", "ab"),
    (CHAR3, "a", "a  "),
    (t.BYTEA, b"x", b"x"),
    (t.BYTEA, bytearray(b"x"), b"x"),
    (t.BYTEA, memoryview(b"x"), b"x"),
    (t.BYTEA, "\\x00", b"\0"),
    (t.DATE, dt.date(2024, 2, 29), dt.date(2024, 2, 29)),
    (t.DATE, dt.datetime(2024, 2, 29), dt.date(2024, 2, 29)),
    (t.DATE, dt.date.min, dt.date.min),
    (t.DATE, dt.date.max, dt.date.max),
    (t.TIME, dt.time(1, 2, 3, 4), dt.time(1, 2, 3, 4)),
    (t.TIMESTAMP, dt.datetime(2024, 2, 29, 1, 2, 3, 4), dt.datetime(2024, 2, 29, 1, 2, 3, 4)),
    (t.TIMESTAMP, dt.datetime.max, dt.datetime.max),
    (t.TIMESTAMP, dt.datetime(2024, 1, 1, 2, tzinfo=EAST), dt.datetime(2024, 1, 1)),
    (t.TIMESTAMP, dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)),
    (t.TIMESTAMPTZ, dt.datetime(2024, 1, 1, 2, tzinfo=EAST), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    (t.TIMESTAMPTZ, dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    (t.UUID, uuid.UUID(UUID_TEXT), uuid.UUID(UUID_TEXT)),
    (t.UUID, UUID_TEXT, uuid.UUID(UUID_TEXT)),
    (t.JSON, {"é": [1, None]}, {"é": [1, None]}),
    (t.JSON, "[1.5]", [1.5]),
    (t.JSON, "[" + "9" * 5000 + "]", [Decimal("9" * 5000)]),
]

REFUSED = [
    (t.INTEGER, True, "42804"),
    (t.INTEGER, 5.5, "42804"),
    (t.INTEGER, float("nan"), "42804"),
    (t.INTEGER, Decimal("0.1"), "42804"),
    (t.INTEGER, b"1", "42804"),
    (t.INTEGER, 2**31, "22003"),
    (t.INTEGER, float(2**40), "22003"),
    (t.INTEGER, "x", "22P02"),
    (t.BOOLEAN, 1, "42804"),
    (t.DOUBLE, True, "42804"),
    (t.DOUBLE, object(), "42804"),
    (t.DOUBLE, 10**400, "22003"),
    (t.REAL, 1e39, "22003"),
    (t.NUMERIC, True, "42804"),
    (t.NUMERIC, float("inf"), "0A000"),
    (t.NUMERIC, Decimal("NaN"), "0A000"),
    (N52, 1000, "22003"),
    (t.NUMERIC, Decimal("1E+999999"), "22003"),
    (t.TEXT, 1, "42804"),
    (t.TEXT, "\0", "22021"),
    (t.TEXT, "\udfff", "22021"),
    (SqlType(Base.VARCHAR, 2), "abc", "22001"),
    (t.BYTEA, 1, "42804"),
    (t.DATE, dt.datetime(2024, 1, 1, 1), "42804"),
    (t.DATE, 5, "42804"),
    (t.DATE, "tuesday", "22007"),
    (t.TIME, dt.time(1, tzinfo=dt.UTC), "42804"),
    (t.TIMESTAMP, 5, "42804"),
    (t.UUID, b"x" * 16, "42804"),
    (t.JSON, object(), "42804"),
    (t.JSON, [float("nan")], "42804"),
]

ALL = [t.BOOLEAN, t.SMALLINT, t.REAL, t.DOUBLE, N52, t.TEXT, CHAR3, t.BYTEA, t.DATE, t.TIME, t.TIMESTAMP]
ALL += [t.TIMESTAMPTZ, t.UUID, t.JSON]


def shown(value):
    """A parameter's name, the same in every process: no addresses."""
    text = str(value)
    return type(value).__name__ if " at 0x" in text else text[:30]


@pytest.mark.parametrize(("sql_type", "given", "back"), ROUND_TRIPS, ids=shown)
def test_round_trip(sql_type, given, back):
    datum = input_converter(sql_type)(given)
    convert = output_converter(sql_type)
    result = datum if convert is None else convert(datum)
    assert result == back
    assert type(result) is type(back)
    if isinstance(back, Decimal):
        assert result.as_tuple() == back.as_tuple()


@pytest.mark.parametrize(("sql_type", "given", "sqlstate"), REFUSED, ids=shown)
def test_refused(sql_type, given, sqlstate):
    with pytest.raises(SqlError) as caught:
        input_converter(sql_type)(given)
    assert caught.value.sqlstate == sqlstate


@pytest.mark.parametrize("sql_type", ALL, ids=str)
def test_null_stays_null(sql_type):
    assert input_converter(sql_type)(None) is None
    convert = output_converter(sql_type)
    assert convert is None or convert(None) is None


@pytest.mark.parametrize(
    ("sql_type", "text"),
    [(t.DATE, "infinity"), (t.DATE, "10000-01-01"), (t.TIMESTAMP, "-infinity"), (t.TIME, "24:00"),
     (t.TIMESTAMPTZ, "0001-01-01 00:00:00 BC")],
)  # fmt: skip
def test_beyond_datetime_is_an_error(sql_type, text):
    convert = output_converter(sql_type)
    datum = input_converter(sql_type)(text)
    with pytest.raises(SqlError) as caught:
        convert(datum)
    assert caught.value.sqlstate == "22008"


def test_types_of_python_objects():
    given = [None, "x", True, 1, 40_000, 2**40, 2**70, 1.5, Decimal(1), b"", dt.date.min, dt.time.min]
    given += [dt.datetime.min, dt.datetime.min.replace(tzinfo=dt.UTC), uuid.uuid4(), {}, Colour.RED]
    wanted = [
        t.UNKNOWN,
        t.UNKNOWN,
        t.BOOLEAN,
        t.SMALLINT,
        t.INTEGER,
        t.BIGINT,
        t.NUMERIC,
        t.DOUBLE,
        t.NUMERIC,
    ]
    wanted += [t.BYTEA, t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.UUID, t.JSON, t.SMALLINT]
    assert [type_of(one) for one in given] == wanted
    with pytest.raises(SqlError) as caught:
        type_of(object())
    assert caught.value.sqlstate == "42804"

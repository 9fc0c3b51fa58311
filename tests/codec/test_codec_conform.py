"""Arrow columns of other types become the field's, or are refused by row."""

from __future__ import annotations

import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

from herdpy.codec.arrow import array_to_datums, arrow_type
from herdpy.codec.arrow_conform import conform
from herdpy.codec.kinds import Field, Kind

D = Decimal
IDENTITY = uuid.UUID("12345678-1234-5678-1234-567812345678")
ACCEPTED = [
    (Field(Kind.INT16), pa.array([1, None, -5], pa.int64()), [1, None, -5]),
    (Field(Kind.INT64), pa.array([2**63 - 1], pa.uint64()), [2**63 - 1]),
    (Field(Kind.INT64), pa.array([1.0, None]), [1, None]),
    (Field(Kind.INT32), pa.array([D("12.00")]), [12]),
    (Field(Kind.FLOAT64), pa.array([1, None]), [1.0, None]),
    (Field(Kind.FLOAT32), pa.array([0.1]), [0.10000000149011612]),
    (Field(Kind.FLOAT64), pa.array([D("1.5")]), [1.5]),
    (Field(Kind.DECIMAL64, 2), pa.array([5, None]), [D("5.00"), None]),
    (
        Field(Kind.DECIMAL64, 2),
        pa.array([D("1.005"), D("-1.005"), D("1.0049")]),
        [D("1.01"), D("-1.01"), D("1.00")],
    ),
    (Field(Kind.DECIMAL64, 2), pa.array([D("9.999")]), [D("10.00")]),
    (Field(Kind.DECIMAL128, 3), pa.array([D("1.5")]), [D("1.500")]),
    (Field(Kind.DECIMAL64, 2), pa.array([1.005, 0.1]), [D("1.01"), D("0.10")]),
    (Field(Kind.DECIMAL), pa.array([D("1.50"), None]), [D("1.50"), None]),
    (Field(Kind.DECIMAL), pa.array([0.1, 1e20]), [D("0.1"), D(10**20)]),
    (Field(Kind.DECIMAL), pa.array([7]), [D(7)]),
    (Field(Kind.DECIMAL), pa.array(["1.50", "1E+3", "007", None]), [D("1.50"), D(1000), D(7), None]),
    (Field(Kind.TEXT), pa.array(["a", None], pa.large_string()), ["a", None]),
    (
        Field(Kind.TEXT),
        pa.array(["a", "more than twelve bytes"], pa.string_view()),
        ["a", "more than twelve bytes"],
    ),
    (Field(Kind.TEXT), pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
    (Field(Kind.TEXT), pa.chunked_array([["a"], ["b"]]), ["a", "b"]),
    (Field(Kind.TEXT), pa.nulls(2), [None, None]),
    (Field(Kind.UUID), pa.nulls(1), [None]),
    (Field(Kind.BYTES), pa.array([b"a"], pa.large_binary()), [b"a"]),
    (Field(Kind.BYTES), pa.array([b"ab"], pa.binary(2)), [b"ab"]),
    (Field(Kind.DATE), pa.array([86_400_000], pa.date64()), [1]),
    (Field(Kind.DATE), pa.array([86_400 * 2, None], pa.timestamp("s")), [2, None]),
    (Field(Kind.DATE), pa.array([-86_400_000_000_000], pa.timestamp("ns")), [-1]),
    (Field(Kind.DATE), pa.array([86_400_000], pa.timestamp("ms", "UTC")), [1]),
    (Field(Kind.TIME), pa.array([5], pa.time32("s")), [5_000_000]),
    (Field(Kind.TIME), pa.array([1_499, 1_500, None], pa.time64("ns")), [1, 2, None]),
    (Field(Kind.TIMESTAMP), pa.array([-1_499, 1_500], pa.timestamp("ns")), [-1, 2]),
    (Field(Kind.TIMESTAMP), pa.array([5, None], pa.timestamp("ms")), [5_000, None]),
    (Field(Kind.TIMESTAMP), pa.array([1], pa.date32()), [86_400_000_000]),
    (Field(Kind.TIMESTAMPTZ), pa.array([7], pa.timestamp("us", "Europe/Paris")), [7]),
    (Field(Kind.TIMESTAMPTZ), pa.array([7], pa.timestamp("us")), [7]),
    (Field(Kind.UUID), pa.array([IDENTITY.bytes], pa.binary(16)), [IDENTITY.bytes]),
    (Field(Kind.UUID), pa.array([str(IDENTITY), None]), [IDENTITY.bytes, None]),
]


@pytest.mark.parametrize(("field", "given", "expected"), ACCEPTED)
def test_what_fits_is_taken(field, given, expected):
    result = conform(given, field)
    assert result.type == arrow_type(field)
    assert array_to_datums(field, result) == expected


@pytest.mark.parametrize(
    ("field", "given", "message"),
    [
        (Field(Kind.INT16), pa.array([1, 2, None, 40_000, 50_000]), "row 3: 40000 does not fit int16"),
        (Field(Kind.INT64), pa.array([2**63], pa.uint64()), "row 0: "),
        (Field(Kind.INT64), pa.array([1.0, 1.5]), "row 1: 1.5"),
        (Field(Kind.INT64), pa.array(["1"]), "type string cannot be stored as INT64"),
        (Field(Kind.BOOL), pa.array([1]), "cannot be stored as BOOL"),
        (Field(Kind.FLOAT32), pa.array([1.0, 1e300]), "row 1: 1e\\+300"),
        (Field(Kind.DECIMAL64, 2), pa.array([0, 10**17]), "row 1: "),
        (Field(Kind.DECIMAL64, 2), pa.array([float("nan")]), "row 0: "),
        (Field(Kind.DECIMAL), pa.array(["1", "one"]), "row 1: 'one'"),
        (Field(Kind.DECIMAL), pa.array(["NaN"]), "row 0: 'NaN'"),
        (Field(Kind.TEXT), pa.array(["a", None, "b\0"]), "row 2: .*U\\+0000"),
        (Field(Kind.TEXT), pa.array([b"\xff"]).view(pa.string()), "not a valid Arrow array"),
        (Field(Kind.TEXT), pa.array([b"x"]), "type binary cannot be stored as TEXT"),
        (Field(Kind.DATE), pa.array([0, 5], pa.timestamp("s")), "row 1: .*time of day"),
        (Field(Kind.DATE), pa.array([0, -1], pa.timestamp("ns")), "row 1: .*time of day"),
        (Field(Kind.TIME), pa.array([-1]).view(pa.time64("us")), "row 0: |not a valid"),
        (Field(Kind.TIMESTAMP), pa.array([0, 2**62], pa.timestamp("s")), "row 1: "),
        (Field(Kind.UUID), pa.array(["x"]), "row 0: 'x'"),
        (Field(Kind.JSON), pa.array([[1]]), "cannot be stored as JSON"),
    ],
)
def test_what_does_not_fit_is_refused_by_row(field, given, message):
    with pytest.raises(ValueError, match=message):
        conform(given, field)


def test_precision_is_checked_when_it_is_known():
    field = Field(Kind.DECIMAL64, 2)
    assert conform(pa.array([D("123.45")]), field, 5).type == pa.decimal128(5, 2)
    with pytest.raises(ValueError, match="row 1: "):
        conform(pa.array([D("1.00"), D("1234.50")]), field, 5)

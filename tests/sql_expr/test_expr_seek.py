"""seek(): the comparison it gives must hold for exactly the same values of the column."""

import operator
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import seek
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.floats import round32

COMPARE = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "never": lambda a, b: False,
    "always": lambda a, b: True,
}
N52 = SqlType(Base.NUMERIC, precision=5, scale=2)
OPS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
HUNDREDTHS = st.integers(-99_999, 99_999).map(lambda n: Decimal(n).scaleb(-2))
NEAR = st.one_of(
    st.integers(-40_000, 40_000),
    st.integers(),
    st.decimals(-40_000, 40_000, places=4),
    st.decimals(allow_nan=False, allow_infinity=False),
)


@given(OPS, NEAR, st.integers(-32_768, 32_767))
def test_integers(op, value, held):
    new_op, datum = seek(t.SMALLINT, op, value)
    assert COMPARE[new_op](held, datum) == COMPARE[op](held, value)
    assert datum is None or (type(datum) is int and -32_768 <= datum <= 32_767)


@given(OPS, st.decimals(-1001, 1001, places=3), HUNDREDTHS)
def test_numerics(op, value, held):
    new_op, datum = seek(N52, op, value)
    assert COMPARE[new_op](held, datum) == COMPARE[op](held, value)
    assert datum is None or (datum.as_tuple().exponent == -2 and abs(datum) < 1000)


@given(OPS, st.floats(allow_nan=False), st.floats(width=32, allow_nan=False))
def test_reals(op, value, held):
    new_op, datum = seek(t.REAL, op, value)
    assert COMPARE[new_op](held, datum) == COMPARE[op](held, value)
    if datum is not None:
        assert round32(datum) == datum


def test_null_never_matches():
    assert seek(t.TEXT, "=", None) == ("never", None)


@pytest.mark.parametrize("op", ["=", "<", ">="])
def test_other_types_keep_the_comparison(op):
    assert seek(t.TEXT, op, "x") == (op, "x")


def test_round32_refuses_overflow():
    with pytest.raises(SqlError):
        round32(1e39)

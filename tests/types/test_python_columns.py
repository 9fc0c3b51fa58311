"""Columns of an Arrow answer as Python's objects: as each value alone becomes one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy.codec.arrow import datums_to_array
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType
from herdpy_sql.values import output_converter
from herdpy_sql.values.python_columns import column_to_python

DAYS = (dt.date.max - dt.date(1970, 1, 1)).days
FIRST_DAY = (dt.date.min - dt.date(1970, 1, 1)).days
US = 86_400_000_000
EDGES = {
    t.DATE: [FIRST_DAY, DAYS, 0, -1, FIRST_DAY - 1, DAYS + 1, 2**31 - 1, -(2**31)],
    t.TIMESTAMP: [FIRST_DAY * US, (DAYS + 1) * US - 1, 0, -1, FIRST_DAY * US - 1, (DAYS + 1) * US, 2**63 - 1],
}
EDGES[t.TIMESTAMPTZ] = EDGES[t.TIMESTAMP]


def one_by_one(sql_type: SqlType, datums: Sequence[Any]) -> Any:
    convert = output_converter(sql_type)
    try:
        return [repr(one if convert is None or one is None else convert(one)) for one in datums]
    except SqlError as error:
        return error.sqlstate, error.message


def as_column(sql_type: SqlType, datums: Sequence[Any], start: int) -> Any:
    array = datums_to_array(sql_type.field, [*([None] * start), *datums])
    try:
        return [repr(one) for one in column_to_python(array.slice(start), sql_type)]
    except SqlError as error:
        return error.sqlstate, error.message


@pytest.mark.parametrize("sql_type", EDGES, ids=str)
@given(data=st.data(), start=st.integers(0, 9))
def test_moments(sql_type: SqlType, data: st.DataObject, start: int) -> None:
    edges = EDGES[sql_type]
    inside = st.integers(edges[0], edges[1])
    value = data.draw(
        st.sampled_from([inside, inside | st.none(), inside | st.none() | st.sampled_from(edges)])
    )
    datums = data.draw(st.lists(value, max_size=12))
    assert as_column(sql_type, datums, start) == one_by_one(sql_type, datums)


@pytest.mark.parametrize("sql_type", EDGES, ids=str)
def test_the_last_that_python_has_and_the_next(sql_type: SqlType) -> None:
    for edge in EDGES[sql_type]:
        assert as_column(sql_type, [edge, None], 0) == one_by_one(sql_type, [edge, None])


def test_other_types() -> None:
    arrays = t.array_of(t.TIMESTAMP)
    assert as_column(arrays, [(0, None)], 1) == one_by_one(arrays, [(0, None)])
    assert as_column(t.UUID, [bytes(16), None], 1) == one_by_one(t.UUID, [bytes(16), None])
    assert as_column(t.INTEGER, [1, None], 1) == ["1", "None"]

"""Rows made column by column are the rows that are made one by one."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy.codec.arrow import datums_to_array
from herdpy_server.wire import DataRowForm, decoder, rows_encoder
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.types import OID, Base, SqlType
from herdpy_sql.values.styles import in_zone
from tests.wire_formats.wire_values import TYPES, texts

LEAST = 8
"""Rows from which columns are laid out."""


def column(sql_type: SqlType, values: list[bytes | None]) -> list[Any]:
    """What of the values is a value, as datums."""
    read = decoder(sql_type, False)
    found: list[Any] = []
    for value in values:
        try:
            found.append(None if value is None else read(value))
        except SqlError:
            found.append(None)
    return found


def batch_of(types: list[SqlType], columns: list[list[Any]]) -> pa.RecordBatch:
    arrays = [
        datums_to_array(one.field, datums, one.precision) for one, datums in zip(types, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[str(at) for at in range(len(arrays))])


def same(types: list[SqlType], columns: list[list[Any]], formats: list[bool], zone: str = "UTC") -> None:
    form = pickle.loads(pickle.dumps(DataRowForm(types, formats, in_zone(zone))))
    batch = batch_of(types, columns)
    rows = list(zip(*columns, strict=True))
    encode = rows_encoder(types, formats, in_zone(zone))
    assert form.batch(batch) == encode(rows)
    if len(rows) > LEAST:
        assert form.batch(batch.slice(1)) == encode(rows[1:])


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("sql_type", TYPES, ids=str)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_type(sql_type: SqlType, *, binary: bool, data: st.DataObject) -> None:
    nulls = data.draw(st.booleans())
    value = st.one_of(st.none(), texts(sql_type)) if nulls else texts(sql_type)
    datums = column(sql_type, data.draw(st.lists(value, min_size=LEAST, max_size=20)))
    if not nulls:
        datums = [one for one in datums if one is not None]
    zone = data.draw(st.sampled_from(["UTC", "Europe/Rome"]))
    same([sql_type], [datums], [binary], zone)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_several_columns(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(TYPES), max_size=6))
    rows = data.draw(st.integers(0, 20))
    columns = [
        column(one, data.draw(st.lists(st.one_of(st.none(), texts(one)), min_size=rows, max_size=rows)))
        for one in types
    ]
    if types:
        same(types, columns, data.draw(st.lists(st.booleans(), min_size=len(types), max_size=len(types))))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(1e-5, 1e12) | st.floats(-1e11, 1e11) | st.just(-0.0), min_size=LEAST, max_size=40))
def test_floats_of_common_sizes(values: list[float]) -> None:
    same([t.DOUBLE], [values], [False])
    same([t.REAL], [pa.array(values, pa.float32()).to_pylist()], [False])


def test_object_ids_are_half_as_wide_as_their_slots() -> None:
    same([OID], [[0, 1, 26, 2**31, 2**32 - 1] * 3], [True])


def test_no_columns_and_large_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = pa.table({"a": [1] * 10}).select([]).to_batches()
    assert DataRowForm([], [], in_zone("UTC")).batch(pa.RecordBatch.from_pylist([{}] * 0)) == b""
    assert not empty or DataRowForm([], [], in_zone("UTC")).batch(empty[0]) == rows_encoder([], [])(
        [()] * empty[0].num_rows
    )
    monkeypatch.setattr("herdpy_server.wire.columns._LARGE_BYTES", 100)
    text = SqlType(Base.TEXT)
    same([text, t.INTEGER], [["x" * at for at in range(50)], list(range(50))], [False, True])

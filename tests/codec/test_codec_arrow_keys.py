"""Keys become Arrow arrays of the values that reading them one by one gives."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy.codec.arrow import array_to_datums, arrow_type
from herdpy.codec.arrow_bytes import keys_to_arrays
from herdpy.codec.keys import KeyCodec
from herdpy.codec.kinds import Field, KeyField, Kind
from tests.codec.codec_data import key_fields, keys, same_rows

FIXED = [
    Kind.BOOL,
    Kind.INT16,
    Kind.INT32,
    Kind.INT64,
    Kind.DATE,
    Kind.TIME,
    Kind.TIMESTAMP,
    Kind.TIMESTAMPTZ,
    Kind.DECIMAL64,
    Kind.UUID,
]


@pytest.mark.parametrize("kinds", [None, FIXED], ids=["any", "fixed"])
@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_keys_become_the_arrays_of_their_values(kinds, data):
    columns = data.draw(st.lists(key_fields(kinds), min_size=1, max_size=4))
    if kinds:
        columns = [KeyField(one.kind, one.scale, one.descending, element=one.element) for one in columns]
    many = data.draw(st.lists(keys(columns, arrow=True), max_size=6))
    codec = KeyCodec(columns)
    encoded = [codec.encode(values) for values in many]
    arrays = keys_to_arrays(columns, encoded)
    assert [array.type for array in arrays] == [arrow_type(one) for one in columns]
    for array in arrays:
        array.validate()
    lists = [
        array_to_datums(Field(one.kind, one.scale, element=one.element), array)
        for one, array in zip(columns, arrays, strict=True)
    ]
    assert len({len(column) for column in lists}) == 1
    for row, key in zip(zip(*lists, strict=True), encoded, strict=True):
        assert same_rows(row, codec.decode(key))


def test_a_decimals_precision_is_kept_where_it_is_known():
    field = KeyField(Kind.DECIMAL64, 2)
    assert keys_to_arrays([field], [b"\x80" + bytes(7)], [9])[0].type == pa.decimal128(9, 2)
    assert keys_to_arrays([field], [], [9])[0].type == pa.decimal128(9, 2)


@pytest.mark.parametrize("field", [KeyField(Kind.INT64), KeyField(Kind.INT64, nullable=True)])
def test_what_is_no_key_is_refused(field):
    whole = KeyCodec([field]).encode((1,))
    for damaged in (whole[:-1], whole + b"\0"):
        with pytest.raises(ValueError, match="not a key of this index"):
            keys_to_arrays([field], [whole, damaged])
    # Together they are as long as three keys are.
    with pytest.raises(ValueError, match="not a key of this index"):
        keys_to_arrays([field], [whole[:-1], whole + b"\0", whole])

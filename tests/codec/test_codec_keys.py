"""Keys: bytes sort as PostgreSQL sorts the values, and the values come back."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy.codec.keys import KeyCodec, successor
from herdpy.codec.kinds import Field, Grid, KeyField, Kind
from tests.codec.codec_data import compare, key_fields, keys

KEY_KINDS = [kind for kind in Kind if kind != Kind.JSON]


def order(left: bytes, right: bytes) -> int:
    return int(left > right) - int(left < right)


@pytest.mark.parametrize("kind", KEY_KINDS)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_one_column_sorts_as_its_values(kind, data):
    columns = [data.draw(key_fields([kind]))]
    left, right = data.draw(keys(columns)), data.draw(keys(columns))
    codec = KeyCodec(columns)
    assert order(codec.encode(left), codec.encode(right)) == compare(columns, left, right)


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_composite_keys_sort_column_by_column(data):
    columns = data.draw(st.lists(key_fields(), min_size=1, max_size=4))
    left, right = data.draw(keys(columns)), data.draw(keys(columns))
    shared = data.draw(st.integers(0, len(columns)))
    right = left[:shared] + right[shared:]
    codec = KeyCodec(columns)
    assert order(codec.encode(left), codec.encode(right)) == compare(columns, left, right)


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_keys_come_back(data):
    columns = data.draw(st.lists(key_fields(), max_size=4))
    key = data.draw(keys(columns))
    codec = KeyCodec(columns)
    decoded = codec.decode(codec.encode(key))
    assert compare(columns, decoded, key) == 0
    assert [type(value) for value in decoded] == [type(value) for value in key]


@settings(deadline=None)
@given(data=st.data())
def test_prefixes_are_prefixes(data):
    columns = data.draw(st.lists(key_fields(), min_size=1, max_size=4))
    key = data.draw(keys(columns))
    codec = KeyCodec(columns)
    whole = codec.encode(key)
    for count in range(len(columns) + 1):
        assert whole.startswith(codec.encode_prefix(key[:count]))
    with pytest.raises(ValueError, match="values for a key of"):
        codec.encode_prefix((*key, None))


@settings(deadline=None)
@given(data=st.data())
def test_no_key_is_the_proper_prefix_of_another(data):
    columns = data.draw(st.lists(key_fields(), min_size=1, max_size=2))
    codec = KeyCodec(columns)
    left, right = codec.encode(data.draw(keys(columns))), codec.encode(data.draw(keys(columns)))
    assert left == right or not right.startswith(left)


SHORT = st.lists(st.sampled_from([b"\0", b"\x01", b"\xfe", b"\xff"]), max_size=4).map(b"".join)


@settings(deadline=None)
@given(SHORT, SHORT)
def test_successor_ends_what_starts_with_a_prefix(prefix, other):
    end = successor(prefix)
    inside = other.startswith(prefix)
    assert (other >= prefix and (end is None or other < end)) == inside
    if end is None:
        assert prefix.strip(b"\xff") == b""


def test_bytes_are_those_of_the_format():
    assert KeyCodec([KeyField(Kind.INT32)]).encode((-1,)) == bytes.fromhex("7fffffff")
    plain = KeyCodec([KeyField(Kind.ARRAY, element=Field(Kind.INT16))])
    assert plain.encode(((1, None),)) == bytes.fromhex("01 8001 02 00")
    with pytest.raises(ValueError, match="one dimension"):
        plain.encode((Grid((1, None), (2, 1)),))
    shaped = KeyCodec([KeyField(Kind.ARRAY, 2, element=Field(Kind.INT16))])
    assert shaped.encode((Grid((1, None), (2, 1)),)) == bytes.fromhex("01 8001 02 00 02 00000002 00000001")
    assert KeyCodec([KeyField(Kind.INT32, descending=True)]).encode((-1,)) == bytes.fromhex("80000000")
    assert KeyCodec([KeyField(Kind.TEXT, nullable=True)]).encode(("a",)) == b"\x01a\0"
    assert KeyCodec([KeyField(Kind.TEXT, nullable=True)]).encode((None,)) == b"\x02"
    assert KeyCodec([KeyField(Kind.TEXT, nullable=True, nulls_first=True)]).encode((None,)) == b"\0"
    assert KeyCodec([KeyField(Kind.BYTES)]).encode((b"a\0",)) == b"a\0\xff\0\0"
    assert KeyCodec([KeyField(Kind.FLOAT64)]).encode((1.0,)) == bytes.fromhex("bff0000000000000")
    decimal = KeyCodec([KeyField(Kind.DECIMAL)])
    assert decimal.encode((Decimal("120.50"),)) == bytes.fromhex("03 80000002 13 06 00")
    assert decimal.encode((Decimal("-120.5"),)) == bytes.fromhex("01 7ffffffd ec f9 ff")


def test_equal_values_have_one_key():
    decimal = KeyCodec([KeyField(Kind.DECIMAL)])
    assert len({decimal.encode((Decimal(s),)) for s in ["1", "1.0", "1.00", "0.1E+1", "10E-1"]}) == 1
    assert len({decimal.encode((Decimal(s),)) for s in ["0", "-0", "0.00", "0E+9"]}) == 1
    for kind in (Kind.FLOAT32, Kind.FLOAT64):
        codec = KeyCodec([KeyField(kind)])
        assert codec.encode((0.0,)) == codec.encode((-0.0,))
        assert codec.encode((math.nan,)) == codec.encode((-math.nan,)) > codec.encode((math.inf,))


def test_decimals_of_postgresql_extremes_come_back():
    codec = KeyCodec([KeyField(Kind.DECIMAL)])
    for text in ["9" * 5000 + "." + "1" * 5000, "0." + "0" * 16382 + "1", "1" + "0" * 131071]:
        for value in (Decimal(text), Decimal(text).copy_negate()):
            assert codec.decode(codec.encode((value,))) == (value,)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (KeyField(Kind.INT64), None, r"key column 1 \(INT64\) cannot be NULL"),
        (KeyField(Kind.TEXT), None, r"key column 1 \(TEXT\) cannot be NULL"),
        (KeyField(Kind.BOOL), None, r"key column 1 \(BOOL\) cannot be NULL"),
        (KeyField(Kind.INT16), 2**15, r"key column 1 \(INT16\) cannot hold 32768"),
        (KeyField(Kind.INT64, descending=True), -(2**63) - 1, r"cannot hold"),
        (KeyField(Kind.TEXT), "a\0b", r"U\+0000"),
        (KeyField(Kind.TEXT, nullable=True), 5, r"cannot hold 5"),
        (KeyField(Kind.DECIMAL), Decimal("NaN"), r"not a finite number"),
        (KeyField(Kind.DECIMAL64, 1), Decimal("1.23"), r"more than 1 digits"),
        (KeyField(Kind.DECIMAL128), Decimal(2**127), r"cannot hold"),
        (KeyField(Kind.FLOAT32), 1e39, r"cannot hold"),
        (KeyField(Kind.UUID), b"x", r"16 bytes"),
    ],
)
def test_what_does_not_fit_is_refused_by_column(field, value, message):
    with pytest.raises(ValueError, match=message):
        KeyCodec([KeyField(Kind.INT64), field]).encode((1, value))


def test_json_is_refused():
    with pytest.raises(ValueError, match="JSON has no order"):
        KeyCodec([KeyField(Kind.JSON)])


def test_damaged_keys_are_refused():
    columns = [KeyField(k, nullable=True) for k in (Kind.INT32, Kind.TEXT, Kind.BYTES, Kind.DECIMAL)]
    codec = KeyCodec(columns)
    key = codec.encode((7, "text", b"a\0b", Decimal("-1.5")))
    for cut in range(len(key)):
        with pytest.raises(ValueError, match="not a key of this index"):
            codec.decode(key[:cut])
    for damaged in (key + b"x", b"\x07" + key[1:]):
        with pytest.raises(ValueError, match="not a key of this index"):
            codec.decode(damaged)

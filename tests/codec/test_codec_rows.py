"""Row images: every value comes back, whatever the layout, and what does not fit is refused."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy.codec.kinds import Field, Grid, Kind
from herdpy.codec.rows import VARIABLE, RowCodec
from tests.codec.codec_data import fields, rows, same_rows


@settings(deadline=None)
@given(st.data())
def test_rows_come_back(data):
    columns = data.draw(st.lists(fields(), max_size=12))
    row = data.draw(rows(columns))
    codec = RowCodec(columns)
    assert same_rows(codec.decode(codec.encode(row)), row)


@settings(deadline=None)
@given(st.data())
def test_projection_decodes_any_columns_in_any_order(data):
    columns = data.draw(st.lists(fields(), min_size=1, max_size=12))
    row = data.draw(rows(columns))
    positions = data.draw(st.lists(st.integers(0, len(columns) - 1), max_size=6))
    codec = RowCodec(columns)
    decode = codec.decoder(positions)
    assert same_rows(decode(codec.encode(row)), tuple(row[p] for p in positions))
    assert codec.decoder(positions) is decode


@settings(deadline=None)
@given(st.data())
def test_a_patch_is_what_the_row_is_encoded_to(data):
    columns = data.draw(st.lists(fields(), min_size=1, max_size=20))
    row, other = data.draw(rows(columns)), data.draw(rows(columns))
    positions = data.draw(st.sets(st.integers(0, len(columns) - 1), min_size=1, max_size=4))
    codec = RowCodec(columns)
    patch = codec.patcher(sorted(positions))
    assert (patch is None) == any(columns[p].kind in VARIABLE for p in positions)
    if patch is None:
        return
    image, new = codec.encode(row), [other[p] if p in positions else None for p in range(len(columns))]
    whole = codec.encode([other[p] if p in positions else row[p] for p in range(len(columns))])
    is_null = any(row[p] is None or other[p] is None for p in positions)
    assert patch(image, new) == (b"" if is_null else whole)
    assert patch(image + b"x", new) == patch(image[:-1], new) == patch(b"", new) == b""
    assert patch(RowCodec(columns[:-1]).encode(row[:-1]), new) == b""


def test_a_patch_with_what_does_not_fit_is_none():
    codec = RowCodec([Field(Kind.INT16), Field(Kind.DECIMAL64, 2), Field(Kind.UUID)])
    image = codec.encode((1, Decimal("2.50"), bytes(16)))
    for position, value in ((0, 1 << 15), (0, "1"), (1, Decimal("0.001")), (2, b"short")):
        patch = codec.patcher([position])
        assert patch is not None
        assert patch(image, [value] * 3) == b""


@settings(deadline=None)
@given(st.data())
def test_a_sparse_row_has_none_for_the_other_columns(data):
    columns = data.draw(st.lists(fields(), min_size=1, max_size=12))
    old = data.draw(st.integers(0, len(columns)))
    row = data.draw(rows(columns[:old]))
    positions = data.draw(st.sets(st.integers(0, len(columns) - 1), max_size=6))
    whole = row + tuple(f.missing for f in columns[old:])
    found = RowCodec(columns).sparse_decoder(positions)(RowCodec(columns[:old]).encode(row))
    assert same_rows(found, tuple(whole[p] if p in positions else None for p in range(len(columns))))


@settings(deadline=None)
@given(st.data())
def test_images_of_older_layouts_have_the_missing_values(data):
    columns = data.draw(st.lists(fields(), max_size=12))
    old = data.draw(st.integers(0, len(columns)))
    row = data.draw(rows(columns[:old]))
    image = RowCodec(columns[:old]).encode(row)
    whole = row + tuple(f.missing for f in columns[old:])
    codec = RowCodec(columns)
    assert same_rows(codec.decode(image), whole)
    positions = data.draw(st.permutations(range(len(columns))))
    assert same_rows(codec.decoder(positions)(image), tuple(whole[p] for p in positions))


def test_bytes_are_those_of_the_format():
    codec = RowCodec(
        [Field(Kind.INT16), Field(Kind.TEXT), Field(Kind.BOOL), Field(Kind.DECIMAL), Field(Kind.BYTES)]
    )
    assert codec.encode((-2, "hé", None, Decimal("1.50"), b"")) == bytes.fromhex(
        "0500 04 feff 03000000 00 07000000 07000000 68c3a9 312e3530"
    )
    decimals = RowCodec([Field(Kind.DECIMAL64, 2), Field(Kind.DECIMAL128, 1)])
    assert decimals.encode((Decimal("-0.01"), Decimal("25.6"))) == bytes.fromhex(
        "0200 00 ffffffffffffffff 00010000000000000000000000000000"
    )


ONE_DIMENSION = bytes.fromhex("0100 00 0e000000 01 03000000 02 01000000 03000000")
"""An image with {1,NULL,3} as it was written before there were arrays of several dimensions."""


@pytest.mark.parametrize("dimensions", [0, 2])
def test_arrays_of_one_dimension_have_the_bytes_that_they_always_had(dimensions):
    codec = RowCodec([Field(Kind.ARRAY, dimensions, element=Field(Kind.INT32))])
    assert codec.encode(((1, None, 3),)) == ONE_DIMENSION
    assert codec.decode(ONE_DIMENSION) == ((1, None, 3),)
    assert codec.decode(bytes.fromhex("0100 00 01000000 00")) == ((),)


def test_bytes_of_an_array_of_several_dimensions():
    codec = RowCodec([Field(Kind.ARRAY, 2, element=Field(Kind.TEXT))])
    row = (Grid(("a", None, "bc", "d"), (2, 2)),)
    image = bytes.fromhex("0100 00 1a000000 02 02000000 02000000 02 01000000 61 02000000 6263 01000000 64")
    assert codec.encode(row) == image
    (found,) = codec.decode(image)
    assert found == row[0]
    assert found != tuple(found)
    assert found.sizes == (2, 2)


@pytest.mark.parametrize(
    "array",
    [
        "07 01000000 01000000 01000000 01000000 01000000 01000000 01000000 00 05000000",
        "02 ffffffff ffffffff 00",
        "02 02000000 02000000 00 01000000 02000000 03000000",
        "02 02000000",
    ],
    ids=["seven", "enormous", "short", "cut"],
)
def test_a_damaged_array_is_an_error(array):
    codec = RowCodec([Field(Kind.ARRAY, 2, element=Field(Kind.INT32))])
    content = bytes.fromhex(array)
    image = bytes.fromhex("0100 00") + len(content).to_bytes(4, "little") + content
    with pytest.raises((ValueError, struct.error)):
        codec.decode(image)


def test_a_null_before_a_variable_column_keeps_its_start():
    codec = RowCodec([Field(Kind.TEXT), Field(Kind.TEXT), Field(Kind.TEXT)])
    image = codec.encode(("ab", None, "c"))
    assert image == bytes.fromhex("0300 02 02000000 02000000 03000000 616263")
    assert codec.decoder([2])(image) == ("c",)


def test_empty_row():
    assert RowCodec([]).encode(()) == b"\0\0"
    assert RowCodec([]).decode(b"\0\0") == ()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (Field(Kind.INT16), 2**15),
        (Field(Kind.INT32), -(2**31) - 1),
        (Field(Kind.INT64), 2**63),
        (Field(Kind.INT64), "1"),
        (Field(Kind.INT64), 1.0),
        (Field(Kind.DATE), 2**31),
        (Field(Kind.FLOAT32), 1e39),
        (Field(Kind.FLOAT64), "1"),
        (Field(Kind.BOOL), "t"),
        (Field(Kind.DECIMAL64, 2), Decimal("1.234")),
        (Field(Kind.DECIMAL64, 2), Decimal(2**63)),
        (Field(Kind.DECIMAL64, 2), Decimal("NaN")),
        (Field(Kind.DECIMAL128), Decimal(2**127)),
        (Field(Kind.DECIMAL), Decimal("Infinity")),
        (Field(Kind.DECIMAL), 1),
        (Field(Kind.TEXT), b"x"),
        (Field(Kind.TEXT), "\ud800"),
        (Field(Kind.BYTES), "x"),
        (Field(Kind.UUID), b"short"),
    ],
)
def test_what_does_not_fit_is_refused_by_column(field, value):
    codec = RowCodec([Field(Kind.INT64), field, Field(Kind.TEXT)])
    with pytest.raises(ValueError, match=rf"column 1 \({field.kind.name}\) cannot hold"):
        codec.encode((1, value, "x"))
    with pytest.raises(ValueError, match=rf"column 1 \({field.kind.name}\) cannot hold"):
        codec.encode((None, value, None))


def test_decimals_of_another_scale_fit_when_they_are_equal():
    codec = RowCodec([Field(Kind.DECIMAL64, 2)])
    assert str(codec.decode(codec.encode((Decimal("1.5"),)))[0]) == "1.50"
    assert str(codec.decode(codec.encode((Decimal("1E+3"),)))[0]) == "1000.00"
    assert str(codec.decode(codec.encode((Decimal("2.5000"),)))[0]) == "2.50"


def test_wrong_number_of_values_is_refused():
    codec = RowCodec([Field(Kind.INT64), Field(Kind.TEXT)])
    for row in [(), (1,), (1, "x", 2)]:
        with pytest.raises(ValueError, match="values to unpack"):
            codec.encode(row)


def test_damaged_images_are_refused():
    codec = RowCodec([Field(Kind.INT64), Field(Kind.TEXT)])
    image = codec.encode((7, "text"))
    for cut in range(len(image)):
        with pytest.raises(ValueError, match="not a row image"):
            codec.decode(image[:cut])
    with pytest.raises(ValueError, match="not a row image"):
        codec.decode(image + b"x")
    with pytest.raises(ValueError, match="3 columns, where 2 are known"):
        codec.decode(RowCodec([*codec.fields, Field(Kind.BOOL)]).encode((7, "text", True)))


def test_decoder_of_no_such_column():
    with pytest.raises(IndexError):
        RowCodec([Field(Kind.BOOL)]).decoder([1])


def test_a_wide_row():
    codec = RowCodec([Field(Kind.INT32), Field(Kind.TEXT)] * 800)
    row = tuple(value for i in range(800) for value in (i, None if i % 7 == 0 else str(i)))
    assert codec.decode(codec.encode(row)) == row
    assert codec.decoder([1599, 0])(codec.encode(row)) == ("799", 0)

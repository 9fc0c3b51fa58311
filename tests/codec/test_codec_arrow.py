"""Arrow batches: the vectorised paths give what the row-by-row paths give."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy.codec.arrow import array_to_datums, arrow_type, datums_to_array
from herdpy.codec.arrow_bytes import batch_to_images, batch_to_keys, images_to_batch
from herdpy.codec.keys import KeyCodec
from herdpy.codec.kinds import Field, Interval, KeyField, Kind
from herdpy.codec.rows import RowCodec
from tests.codec.codec_data import fields, key_fields, keys, rows, same, same_rows


def images_of(columns, many):
    """The images of rows of these fields."""
    return list(map(RowCodec(columns).encode, many))


def table(columns, names, rows_):
    """Return rows as a batch, by way of datums_to_array."""
    arrays = [datums_to_array(f, [row[i] for row in rows_]) for i, f in enumerate(columns)]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def datums(columns, batch):
    """Return a batch as rows, by way of array_to_datums."""
    lists = [array_to_datums(f, column) for f, column in zip(columns, batch.columns, strict=True)]
    return list(zip(*lists, strict=True))


@pytest.mark.parametrize("kind", list(Kind))
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_datums_come_back_from_arrays(kind, data):
    field = data.draw(fields([kind], arrow=True))
    column = [row[0] for row in data.draw(st.lists(rows([field], arrow=True), max_size=5))]
    array = datums_to_array(field, column)
    array.validate()
    assert array.type == arrow_type(field)
    begin = data.draw(st.integers(0, len(column)))
    assert same_rows(tuple(array_to_datums(field, array)), tuple(column))
    assert same_rows(tuple(array_to_datums(field, array.slice(begin))), tuple(column[begin:]))


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_images_become_the_batch_that_rows_become(data):
    columns = data.draw(st.lists(fields(arrow=True), min_size=1, max_size=6))
    many = data.draw(st.lists(rows(columns, arrow=True), max_size=5))
    positions = data.draw(st.lists(st.integers(0, len(columns) - 1), min_size=1, max_size=6))
    codec = RowCodec(columns)
    names = [f"n{i}" for i in range(len(positions))]
    batch = images_to_batch(columns, names, positions, [codec.encode(row) for row in many])
    batch.validate()
    wanted = [columns[p] for p in positions]
    assert batch.schema.names == names
    assert batch.schema.types == [arrow_type(f) for f in wanted]
    expected = [tuple(row[p] for p in positions) for row in many]
    assert all(map(same_rows, datums(wanted, batch), expected))
    assert batch.num_rows == len(many)


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_images_of_several_layouts_share_a_batch_in_order(data):
    columns = data.draw(st.lists(fields(arrow=True), min_size=1, max_size=5))
    images, expected = [], []
    for count in data.draw(st.lists(st.integers(0, len(columns)), min_size=1, max_size=5)):
        row = data.draw(rows(columns[:count], arrow=True))
        images.append(RowCodec(columns[:count]).encode(row))
        expected.append(row + tuple(f.missing for f in columns[count:]))
    names = [str(i) for i in range(len(columns))]
    batch = images_to_batch(columns, names, range(len(columns)), images)
    batch.validate()
    assert all(map(same_rows, datums(columns, batch), expected))
    assert batch.num_rows == len(expected)


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_batches_become_the_images_that_rows_become(data):
    columns = data.draw(st.lists(fields(arrow=True), min_size=1, max_size=6))
    many = data.draw(st.lists(rows(columns, arrow=True), max_size=5))
    batch = table(columns, [str(i) for i in range(len(columns))], many)
    images = images_of(columns, many)
    assert batch_to_images(columns, batch) == images
    begin = data.draw(st.integers(0, len(many)))
    assert batch_to_images(columns, batch.slice(begin)) == images[begin:]


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_columns_become_the_keys_that_rows_become(data):
    columns = data.draw(st.lists(key_fields(), min_size=1, max_size=4))
    many = data.draw(st.lists(keys(columns, arrow=True), max_size=5))
    arrays = [
        datums_to_array(Field(f.kind, f.scale, element=f.element), [row[i] for row in many])
        for i, f in enumerate(columns)
    ]
    codec = KeyCodec(columns)
    whole = [codec.encode(row) for row in many]
    assert batch_to_keys(columns, arrays) == whole
    begin = data.draw(st.integers(0, len(many)))
    assert batch_to_keys(columns, [a.slice(begin) for a in arrays]) == whole[begin:]


def test_images_may_come_as_an_arrow_array():
    columns = [Field(Kind.INT64), Field(Kind.TEXT)]
    images = images_of(columns, [(i, str(i) * i) for i in range(9)])
    expected = images_to_batch(columns, ["a", "b"], [0, 1], images)
    for kind in (pa.binary(), pa.large_binary()):
        array = pa.array([b"before", *images], kind).slice(1)
        assert images_to_batch(columns, ["a", "b"], [0, 1], array).equals(expected)


def test_a_batch_of_no_columns_keeps_its_rows():
    images = images_of([Field(Kind.INT64)], [(1,), (2,)])
    assert images_to_batch([Field(Kind.INT64)], [], [], images).num_rows == 2


def test_precision_is_in_the_type_when_it_is_known():
    columns = [Field(Kind.DECIMAL64, 2)]
    images = images_of(columns, [(Decimal("1.25"),)])
    batch = images_to_batch(columns, ["d"], [0], images, [7])
    assert batch.schema.types == [pa.decimal128(7, 2)]
    assert batch.to_pylist() == [{"d": Decimal("1.25")}]
    assert arrow_type(columns[0], 7) == pa.decimal128(7, 2)


def as_bytes(array):
    """What is compared of arrays: they do not equal themselves where they have a NaN."""
    return pa.record_batch([array], ["a"]).serialize().to_pybytes()


@given(data=st.data())
def test_short_decimals_are_the_same_values_in_half_the_width(data):
    columns = data.draw(st.lists(fields(arrow=True), min_size=1, max_size=4))
    columns.append(Field(Kind.DECIMAL64, data.draw(st.integers(0, 18))))
    many = data.draw(st.lists(rows(columns, arrow=True), max_size=5))
    layouts = [data.draw(st.integers(0, len(columns))) for _ in many]
    images = [RowCodec(columns[:count]).encode(row[:count]) for row, count in zip(many, layouts, strict=True)]
    names = [f"n{i}" for i in range(len(columns))]
    long = images_to_batch(columns, names, range(len(columns)), images)
    short = images_to_batch(columns, names, range(len(columns)), images, short_decimals=True)
    short.validate(full=True)
    assert pa.types.is_decimal64(short.schema.types[-1])
    for mine, other in zip(short.columns, long.columns, strict=True):
        if pa.types.is_decimal64(mine.type):
            assert mine.cast(other.type).equals(other)
        else:
            assert as_bytes(mine) == as_bytes(other)


def test_a_short_decimal_has_the_precision_that_is_known():
    columns = [Field(Kind.DECIMAL64, 2), Field(Kind.DECIMAL128, 3)]
    ends = [(Decimal("-9999999999999999.99"), Decimal("0.001")), (Decimal("9999999999999999.99"), None)]
    batch = images_to_batch(
        columns, ["a", "b"], [0, 1], images_of(columns, ends), [None, 38], short_decimals=True
    )
    assert batch.schema.types == [pa.decimal64(18, 2), pa.decimal128(38, 3)]
    assert [tuple(row.values()) for row in batch.to_pylist()] == ends
    empty = images_to_batch(columns, ["a", "b"], [0, 1], [], [7, 20], short_decimals=True)
    assert empty.schema.types == [pa.decimal64(7, 2), pa.decimal128(20, 3)]


def test_a_short_decimal_that_older_rows_lack_stands_beside_others():
    columns = [Field(Kind.INT32), Field(Kind.DECIMAL64, 2, missing=Decimal("1.50"))]
    images = [*images_of(columns[:1], [(1,)]), *images_of(columns, [(2, Decimal("9.25")), (3, None)])]
    batch = images_to_batch(columns, ["a", "b"], [0, 1], images, [None, 9], short_decimals=True)
    assert batch.column(1).type == pa.decimal64(9, 2)
    assert batch.column(1).to_pylist() == [Decimal("1.50"), Decimal("9.25"), None]


def test_infinities_are_those_of_duckdb():
    for kind, bits in ((Kind.DATE, 32), (Kind.TIMESTAMP, 64), (Kind.TIMESTAMPTZ, 64)):
        ends = [2 ** (bits - 1) - 1, -(2 ** (bits - 1))]
        field = Field(kind)
        integers = pa.int32() if bits == 32 else pa.int64()
        images = images_of([field], [(end,) for end in ends])
        for array in (datums_to_array(field, ends), images_to_batch([field], ["x"], [0], images).column(0)):
            assert array.view(integers).to_pylist() == [ends[0], ends[1] + 1]
            assert array_to_datums(field, array) == ends
            batch = pa.RecordBatch.from_arrays([array], names=["x"])
            assert batch_to_images([field], batch) == images
            assert batch_to_keys([KeyField(kind)], [array]) == [
                KeyCodec([KeyField(kind)]).encode((end,)) for end in ends
            ]


def test_duckdb_reads_every_kind():
    duckdb = pytest.importorskip("duckdb")
    columns = [
        Field(
            kind,
            2 if kind in {Kind.DECIMAL64, Kind.DECIMAL128} else 0,
            element=Field(Kind.INT32) if kind == Kind.ARRAY else None,
        )
        for kind in Kind
    ]
    row = tuple(
        {
            Kind.BOOL: True,
            Kind.INT16: -5,
            Kind.FLOAT32: 0.5,
            Kind.FLOAT64: math.inf,
            Kind.DECIMAL64: Decimal("-1.25"),
            Kind.DECIMAL128: Decimal("12345678901234567890123.45"),
            Kind.DECIMAL: Decimal("1.50"),
            Kind.TEXT: "héllo, more than twelve bytes",
            Kind.JSON: '{"a": 1}',
            Kind.BYTES: b"\0\xff",
            Kind.DATE: -(2**31),
            Kind.TIMESTAMP: -(2**63),
            Kind.UUID: bytes(range(16)),
            Kind.INTERVAL: Interval(-1, 2, 3),
            Kind.ARRAY: (1, None),
            Kind.JSONB: '{"a": 1}',
            Kind.VECTOR: (0.5, -1.0),
        }.get(f.kind, 7)
        for f in columns
    )
    images = images_of(columns, [row, tuple(None for _ in columns)])
    batch = images_to_batch(columns, [f.kind.name for f in columns], range(len(columns)), images)
    with duckdb.connect() as connection:
        connection.execute("SET arrow_lossless_conversion = true; SET TimeZone = 'UTC'")
        connection.register("t", pa.Table.from_batches([batch]))
        (types,) = connection.sql("SELECT typeof(COLUMNS(*)) FROM t LIMIT 1").fetchall()
        assert dict(zip(batch.schema.names, types, strict=True)) == {
            "BOOL": "BOOLEAN",
            "INT16": "SMALLINT",
            "INT32": "INTEGER",
            "INT64": "BIGINT",
            "FLOAT32": "FLOAT",
            "FLOAT64": "DOUBLE",
            "DECIMAL64": "DECIMAL(18,2)",
            "DECIMAL128": "DECIMAL(38,2)",
            "DECIMAL": "VARCHAR",
            "TEXT": "VARCHAR",
            "BYTES": "BLOB",
            "DATE": "DATE",
            "TIME": "TIME",
            "TIMESTAMP": "TIMESTAMP",
            "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
            "UUID": "UUID",
            "JSON": "VARCHAR",
            "INTERVAL": "INTERVAL",
            "ARRAY": "INTEGER[]",
            "JSONB": "VARCHAR",
            "VECTOR": "FLOAT[]",
        }
        assert connection.sql('SELECT "DATE"::text, "TIMESTAMP"::text FROM t LIMIT 1').fetchall() == [
            ("-infinity", "-infinity")
        ]
        back = connection.sql("FROM t").to_arrow_table().combine_chunks().to_batches()[0]
    assert batch_to_images(columns, back) == images


def test_damaged_images_are_refused():
    columns = [Field(Kind.INT64), Field(Kind.TEXT), Field(Kind.TEXT)]
    codec = RowCodec(columns)
    image = codec.encode((7, "text", "more"))
    whole = bytearray(image)
    whole[11:15] = (2**32 - 1).to_bytes(4, "little")
    for damaged in (image[:5], image[:-5], b"", b"\x01", bytes(whole)):
        with pytest.raises(ValueError, match="row image"):
            images_to_batch(columns, ["a", "b", "c"], [0, 1, 2], [image, damaged])
    with pytest.raises(ValueError, match="3 columns, where 2 are known"):
        images_to_batch(columns[:2], ["a", "b"], [0, 1], [image])


def test_refusals_name_the_column_and_the_row():
    batch = pa.RecordBatch.from_pydict({"a": pa.array([1, 2**40, None]), "b": pa.array(["x", "y", "z"])})
    with pytest.raises(ValueError, match=r'column "a": row 1: 1099511627776 does not fit int32'):
        batch_to_images([Field(Kind.INT32), Field(Kind.TEXT)], batch)
    with pytest.raises(ValueError, match="2 columns for 1 fields"):
        batch_to_images([Field(Kind.INT64)], batch)
    with pytest.raises(ValueError, match="key column 0: row 2: NULL is not allowed"):
        batch_to_keys([KeyField(Kind.INT64)], [batch.column(0)])
    with pytest.raises(ValueError, match="key column 0: row 1: "):
        batch_to_keys([KeyField(Kind.TEXT)], [pa.array(["a", "b\0"])])
    with pytest.raises(TypeError, match="conform it first"):
        array_to_datums(Field(Kind.INT16), batch.column(0))


def test_many_rows_at_once():
    columns = [Field(Kind.INT64), Field(Kind.TEXT), Field(Kind.BOOL), Field(Kind.TEXT)]
    many = [(i, None if i % 3 == 0 else "é" * (i % 17), i % 2 == 0, str(i)) for i in range(10_000)]
    images = images_of(columns, many)
    batch = images_to_batch(columns, list("abcd"), range(4), images)
    assert datums(columns, batch) == many
    assert batch_to_images(columns, batch) == images
    assert all(map(same, array_to_datums(columns[1], batch.column(1)), [row[1] for row in many]))

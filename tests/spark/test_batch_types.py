"""SQL's types in Spark: nothing is lost, and what Spark has no type for is text."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from herdpy.codec.arrow import arrow_type, datums_to_array
from herdpy_spark.types import METADATA, spark_schema, spark_type, to_spark
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import from_text


def numeric(precision=None, scale=None):
    return SqlType(Base.NUMERIC, precision=precision, scale=scale)


CASES = [
    (SqlType(Base.BOOLEAN), "boolean", ["true", "false"], [True, False]),
    (SqlType(Base.SMALLINT), "smallint", ["-32768"], [-32768]),
    (SqlType(Base.INTEGER), "int", ["2147483647"], [2**31 - 1]),
    (SqlType(Base.BIGINT), "bigint", ["-9223372036854775808"], [-(2**63)]),
    (SqlType(Base.REAL), "float", ["0.5", "Infinity"], [0.5, float("inf")]),
    (SqlType(Base.DOUBLE), "double", ["0.1"], [0.1]),
    (numeric(10, 2), "decimal(10,2)", ["-12345678.90"], ["-12345678.90"]),
    (numeric(38, 10), "decimal(38,10)", ["0.0000000001"], ["1E-10"]),
    (numeric(), "string", ["123456789012345678901234567890123456789012.5", "-0.001"], None),
    (numeric(50, 3), "string", ["12345678901234567890123456789012345678901234567.125"], None),
    (SqlType(Base.TEXT), "string", ["é"], ["é"]),
    (SqlType(Base.VARCHAR, length=5), "string", ["ab"], ["ab"]),
    (SqlType(Base.BYTEA), "binary", ["\\x00ff"], [b"\x00\xff"]),
    (SqlType(Base.JSON), "string", ['{"a": 1}'], ['{"a": 1}']),
    (
        SqlType(Base.TIME),
        "string",
        ["00:00:00", "12:34:56.789", "23:59:59.999999", "24:00:00"],
        ["00:00:00.000000", "12:34:56.789000", "23:59:59.999999", "24:00:00.000000"],
    ),
    (SqlType(Base.UUID), "string", [str(uuid.UUID(int=n)) for n in (0, 1 << 100, 2**128 - 1)], None),
]


@pytest.mark.parametrize(("type_", "name", "texts", "values"), CASES)
def test_values_arrive_as_they_are(type_, name, texts, values):
    assert spark_type(type_).simpleString() == name
    datums = [from_text(type_)(text) for text in texts]
    # A slice with a NULL, so that offsets and validity count.
    array = datums_to_array(type_.field, [datums[0], None, *datums], type_.precision)[1:]
    schema = spark_schema([("c", type_, True)])
    batch = to_spark(pa.RecordBatch.from_arrays([array], names=["x"]), schema, [type_])
    found = [
        str(one) if name.startswith("decimal") and one is not None else one
        for one in batch.column(0).to_pylist()
    ]
    assert found == [None, *(texts if values is None else values)]
    assert schema["c"].metadata == {METADATA: str(type_)}


@pytest.mark.parametrize(
    ("base", "wanted"),
    [
        (Base.DATE, spark.DateType()),
        (Base.TIMESTAMP, spark.TimestampNTZType()),
        (Base.TIMESTAMPTZ, spark.TimestampType()),
    ],
)
def test_times_keep_their_integers_infinity_too(base, wanted):
    type_ = SqlType(base)
    assert spark_type(type_) == wanted
    texts = ["infinity", "1970-01-02", "9999-12-31", None]
    array = datums_to_array(type_.field, [None if text is None else from_text(type_)(text) for text in texts])
    schema = spark_schema([("c", type_, True)])
    batch = to_spark(pa.RecordBatch.from_arrays([array], names=["x"]), schema, [type_])
    integers = pa.int32() if base is Base.DATE else pa.int64()
    assert batch.column(0).cast(integers).equals(array.cast(integers))


def test_columns_are_as_spark_wants_them_without_null_too():
    types = [SqlType(Base.INTEGER), numeric(5, 1)]
    schema = spark_schema([("a", types[0], False), ("b", types[1], True)])
    arrays = [pa.array([1], pa.int32()), pa.array([None], arrow_type(numeric(5, 1).field))]
    batch = to_spark(pa.RecordBatch.from_arrays(arrays, names=["a", "b"]), schema, types)
    assert [(one.name, one.nullable) for one in batch.schema] == [("a", False), ("b", True)]
    assert batch.schema.field("b").type == pa.decimal128(5, 1)

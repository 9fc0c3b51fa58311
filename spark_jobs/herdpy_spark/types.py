"""SQL types as Spark's, and Arrow arrays of the one as of the other. Nothing is lost.

Where Spark has no such type a value is text, as SQL writes it: uuid, json, time (whose 24:00:00 Spark's does
not have), interval, inet, cidr, and numeric without a precision or with more than 38 digits. Arrays are
Spark's arrays, vectors arrays of floats; of an enum there are the labels. timestamp is Spark's TIMESTAMP_NTZ,
timestamp with time zone its TIMESTAMP. What a column was in SQL is in its metadata, under ``herdpy.type``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from herdpy.codec.arrow import changed_lists
from herdpy.codec.kinds import Kind
from herdpy_spark.texts import interval_texts, time_texts, uuid_texts
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.label_columns import check_places, labels_of

Array = Any  # pyarrow's stubs know arrays by element type

pc: Any = pyarrow.compute
METADATA = "herdpy.type"
_PLAIN: dict[Kind, spark.DataType] = {
    Kind.BOOL: spark.BooleanType(),
    Kind.INT16: spark.ShortType(),
    Kind.INT32: spark.IntegerType(),
    Kind.INT64: spark.LongType(),
    Kind.FLOAT32: spark.FloatType(),
    Kind.FLOAT64: spark.DoubleType(),
    Kind.BYTES: spark.BinaryType(),
    Kind.DATE: spark.DateType(),
    Kind.TIMESTAMP: spark.TimestampNTZType(),
    Kind.TIMESTAMPTZ: spark.TimestampType(),
}


def spark_type(type_: SqlType) -> spark.DataType:
    """What values of a SQL type are in Spark."""
    if type_.element is not None:
        made: spark.DataType = spark_type(type_.element_type)
        for _ in range(type_.dimensions):
            made = spark.ArrayType(made)
        return made
    if type_.has_places:
        return spark.StringType()
    if type_.base is Base.VECTOR:
        return spark.ArrayType(spark.FloatType())
    if type_.kind in (Kind.DECIMAL64, Kind.DECIMAL128) and type_.precision is not None:
        return spark.DecimalType(type_.precision, type_.scale or 0)
    return _PLAIN.get(type_.kind, spark.StringType())


def spark_schema(columns: Sequence[tuple[str, SqlType, bool]]) -> spark.StructType:
    """Of columns: name, type, and whether NULL may stand there."""
    return spark.StructType(
        [
            spark.StructField(name, spark_type(type_), nullable, {METADATA: str(type_)})
            for name, type_, nullable in columns
        ]
    )


def to_spark(batch: pa.RecordBatch, schema: spark.StructType, types: Sequence[SqlType]) -> pa.RecordBatch:
    """A batch of the codec's Arrow types, its columns in the schema's order, as Spark takes it.

    SqlError 22P02: an ENUM's label is not known in the definition that ``types`` are from.
    """
    wanted = to_arrow_schema(schema, timezone="UTC")
    arrays = [
        as_spark(array, field.type, type_)
        for array, field, type_ in zip(batch.columns, wanted, types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def as_spark(array: Array, wanted: pa.DataType, type_: SqlType | None = None) -> Array:
    """One column of a SQL type as :func:`to_spark` has it."""
    if type_ is not None and type_.has_places:
        check_places(array, type_)
        array = labels_of(array, type_)
    if array.type == wanted:
        return array
    if array.type == pa.uuid():
        return uuid_texts(array.storage)
    if pa.types.is_time64(array.type):
        return time_texts(array)
    if pa.types.is_interval(array.type):
        return interval_texts(array)
    if pa.types.is_list(array.type):
        value_type = wanted.value_type  # type: ignore[attr-defined]
        return changed_lists(array, lambda values: as_spark(values, value_type)).cast(wanted)
    if pa.types.is_fixed_size_binary(array.type):  # a UUID's storage, within lists
        return uuid_texts(array)
    return array.cast(wanted)

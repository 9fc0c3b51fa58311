"""The columns of a feed in Spark. Above ``table``."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type

from herdpy_spark.feed.table import (
    AFTER,
    BEFORE,
    KEY,
    LSN_,
    OP,
    OTHER_KEY,
    POSITION,
    REQUEST,
    SCHEMA,
    SEQUENCE,
    TIME,
    TRANSACTION,
    Array,
    Dress,
    FeedShape,
)
from herdpy_spark.options import OptionError
from herdpy_spark.types import as_spark, spark_schema, spark_type
from herdpy_sql.catalog import Column, Table


def _type_of(column: Column) -> Any:
    return to_arrow_type(spark_type(column.type), timezone="UTC")


def _convert(column: Column, array: Array) -> Array:
    return as_spark(array, _type_of(column), column.type)


SPARK = Dress(_type_of, _convert)
"""Values as DataFrames have them."""

_SEQUENCE = spark.StructType(
    [
        spark.StructField("ledger", spark.LongType()),
        spark.StructField("entry", spark.LongType()),
        spark.StructField("transaction", spark.IntegerType()),
        spark.StructField("position", spark.LongType()),
    ]
)


def columns_of(table: Table) -> spark.StructType:
    """The columns of a feed of this table."""

    def struct(positions: tuple[int, ...]) -> spark.StructType:
        columns = [table.columns[at] for at in positions]
        return spark_schema([(column.name, column.type, True) for column in columns])

    text, row = spark.StringType(), struct(table.visible)
    key = struct(table.key_positions)
    types: dict[str, spark.DataType] = {
        OP: text,
        KEY: key,
        AFTER: row,
        BEFORE: row,
        LSN_: text,
        POSITION: spark.LongType(),
        TRANSACTION: text,
        REQUEST: text,
        TIME: spark.TimestampType(),
        SCHEMA: text,
        SEQUENCE: _SEQUENCE,
        OTHER_KEY: key,
    }
    return spark.StructType([spark.StructField(name, kind) for name, kind in types.items()])


def shape_of(schema: spark.StructType) -> FeedShape:
    """The shape of a stream with these columns; OptionError when they are not a feed's."""
    try:
        return FeedShape.from_schema(to_arrow_schema(schema, timezone="UTC"), SPARK)
    except ValueError as error:
        raise OptionError(
            f"{error}. Give the stream no schema, or one that a feed of the table has"
        ) from error

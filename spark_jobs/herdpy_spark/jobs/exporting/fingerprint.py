"""Rows as a number that does not depend on their order, computed by Spark's executors.

Every row has a 64-bit hash of its columns in order; a table's fingerprint is how many rows it has, and the
sum and the exclusive or of their hashes. Two tables that differ in a row, a value, or in how often a row is
there have the same only by an accident of about one in 2**64 (xxHash64 is no cryptographic hash: this tells
accidents and bugs, not forgers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy_spark.jobs.exporting.generations import Fingerprint

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_MASK = 2**64 - 1
NAMES = ("rows", "sum", "xor")


def row_hash(schema: StructType) -> Column:
    """The hash of a row, as a signed 64-bit integer."""
    from pyspark.sql import functions as sql

    parts: list[Column] = []
    for one in schema.fields:
        column = sql.col(quoted(one.name))
        # Spark passes NULLs over when it hashes: (1, NULL) and (NULL, 1) would be alike.
        parts += [column.isNull(), _plain(column, one.dataType)]
    return sql.xxhash64(*parts)


def aggregates(schema: StructType) -> list[Column]:
    """The columns ``rows``, ``sum`` and ``xor``, for ``agg`` and ``observe``."""
    from pyspark.sql import functions as sql

    hashed = row_hash(schema)
    return [
        sql.count(sql.lit(1)).alias(NAMES[0]),
        sql.sum(hashed.cast("decimal(20,0)")).alias(NAMES[1]),
        sql.bit_xor(hashed).alias(NAMES[2]),
    ]


def from_row(row: Any) -> Fingerprint:
    """What the aggregates say."""
    return Fingerprint(int(row["rows"]), int(row["sum"] or 0) & _MASK, int(row["xor"] or 0) & _MASK)


def fingerprint(frame: DataFrame) -> Fingerprint:
    """That of a DataFrame; one pass over it."""
    return from_row(frame.agg(*aggregates(frame.schema)).collect()[0])


def quoted(name: str) -> str:
    """A column's name as Spark's SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _plain(column: Column, kind: DataType) -> Column:
    """The value in a form whose hash tells NULLs within it apart."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, ArrayType | MapType | StructType):
        return sql.to_json(column)
    return column

"""How the rows of an export become files, and files rows again, without losing anything on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_spark.jobs.exporting.fingerprint import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

PARQUET = "parquet"
CSV = "csv"
FORMATS = (PARQUET, CSV)

#: Spark's JSON and CSV cut times to milliseconds where nothing else is said.
TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
#: Both ways alike. Spark's own defaults trim blanks, and escape with a backslash.
_CSV = {
    "header": "true",
    "escape": '"',
    "multiLine": "true",
    "nullValue": "\\N",
    "lineSep": "\n",
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "dateFormat": "yyyy-MM-dd",
    **TIMES,
}


def write(frame: DataFrame, directory: str, file_format: str, compression: str | None) -> None:
    """Write all rows to new files in a directory that is not there yet."""
    options = {"compression": compression} if compression else {}
    if file_format == CSV:
        _as_text(frame).write.mode("errorifexists").options(**_CSV, **options).csv(directory)
    else:
        frame.write.mode("errorifexists").options(**options).parquet(directory)


def read(
    spark: SparkSession, files: list[str], schema: StructType, file_format: str, extra: tuple[str, ...] = ()
) -> DataFrame:
    """The rows of these files.

    Args:
        extra: columns of ``_metadata`` wanted besides, such as ``file_path``.
    """
    from pyspark.sql import functions as sql

    if not files:
        return spark.createDataFrame([], schema)
    if file_format == PARQUET:
        stored = spark.read.schema(schema).parquet(*files)
    else:
        stored = spark.read.schema(_text_schema(schema)).options(**_CSV).csv(files)
    return stored.select(
        *(_back(one.name, one.dataType.typeName(), file_format) for one in schema.fields),
        *(sql.col(f"_metadata.{name}").alias(name) for name in extra),
    )


def _as_text(frame: DataFrame) -> DataFrame:
    """CSV has no bytes: hexadecimal digits stand for them."""
    from pyspark.sql import functions as sql

    columns = [
        sql.hex(quoted(one.name)).alias(one.name)
        if one.dataType.typeName() == "binary"
        else sql.col(quoted(one.name))
        for one in frame.schema.fields
    ]
    return frame.select(*columns)


def _text_schema(schema: StructType) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType(
        [
            StructField(one.name, StringType() if one.dataType.typeName() == "binary" else one.dataType)
            for one in schema.fields
        ]
    )


def _back(name: str, kind: str, file_format: str) -> Column:
    from pyspark.sql import functions as sql

    column = sql.col(quoted(name))
    return sql.unhex(column).alias(name) if kind == "binary" and file_format == CSV else column

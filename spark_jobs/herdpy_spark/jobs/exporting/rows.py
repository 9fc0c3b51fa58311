"""Rows of an export: as files and back, without losing anything, and as a number that ignores their order.

Every row has a 64-bit hash of its columns in order; a table's fingerprint is how many rows it has, and the
sum and the exclusive or of their hashes. It finds accidents and bugs (one in 2**64 is missed), not forgers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from herdpy_spark.jobs.exporting.generations import DATA, ExportPlace, Fingerprint

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
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


FILE_PATH = "__herdpy_file"


class RowFiles(Protocol):
    """Files of rows of one export. Names are relative to its directory."""

    partition_by: tuple[str, ...]

    def arranged(self, frame: DataFrame, key: Sequence[str] = ()) -> DataFrame:
        """The rows, where they are to be written from."""

    def write(self, frame: DataFrame, directory: str) -> list[str]:
        """Write all rows to new files in a directory that is not there yet; their names."""

    def read(
        self, spark: SparkSession, names: Sequence[str], schema: StructType, *, path: bool = False
    ) -> DataFrame:
        """The rows of these files; with ``path``, the column ``FILE_PATH`` says which one each is from."""

    def named(self, path: str) -> str:
        """The name of a file from what stands in ``FILE_PATH``."""


class SparkFiles:
    """``RowFiles``: written and read by Spark's own sources, side by side in one directory."""

    partition_by: tuple[str, ...] = ()

    def __init__(self, place: ExportPlace, file_format: str, compression: str | None) -> None:
        self._place = place
        self._format = file_format
        self._compression = compression

    def arranged(self, frame: DataFrame, key: Sequence[str] = ()) -> DataFrame:
        """As they are."""
        return frame

    def write(self, frame: DataFrame, directory: str) -> list[str]:
        """Spark's commit moves what the tasks wrote there."""
        write_files(frame, self._place.join(directory), self._format, self._compression)
        names = self._place.names(directory)
        return [f"{directory}/{name}" for name in names if not name.startswith(("_", "."))]

    def read(
        self, spark: SparkSession, names: Sequence[str], schema: StructType, *, path: bool = False
    ) -> DataFrame:
        """The rows."""
        files = [self._place.join(name) for name in names]
        return read_files(spark, files, schema, self._format, path=path)

    def named(self, path: str) -> str:
        """From a URL."""
        directory, name = path.split("/")[-2:]
        return f"{DATA}/{directory}/{name}"


def write_files(frame: DataFrame, directory: str, file_format: str, compression: str | None) -> None:
    """Write all rows to new files in a directory that is not there yet."""
    options = {"compression": compression} if compression else {}
    if file_format == CSV:
        _as_text(frame).write.mode("errorifexists").options(**_CSV, **options).csv(directory)
    else:
        frame.write.mode("errorifexists").options(**options).parquet(directory)


def read_files(
    spark: SparkSession, files: list[str], schema: StructType, file_format: str, *, path: bool = False
) -> DataFrame:
    """The rows of these files; with ``path``, the column ``FILE_PATH`` has the URL of each one's file."""
    from pyspark.sql import functions as sql

    if not files:
        return spark.createDataFrame([], schema)
    if file_format == PARQUET:
        stored = spark.read.schema(schema).parquet(*files)
    else:
        stored = spark.read.schema(_text_schema(schema)).options(**_CSV).csv(files)
    return stored.select(
        *(_back(one.name, one.dataType.typeName(), file_format) for one in schema.fields),
        *([sql.col("_metadata.file_path").alias(FILE_PATH)] if path else []),
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

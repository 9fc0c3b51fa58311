"""Parquet files that tasks write and read themselves, by pyarrow and fsspec: Spark needs no jars for that.

Above ``rows``, below ``changeset``. ``TaskFiles`` serves object stores, and exports in Hive's partitions:

    _data/00000007-<run>/region=EU/day=2026-03-01/part-<id>.parquet

Files have all columns, those of the partitions as well, so nothing is read from a path: NULL and '' stay
two values. A task attempt gives its files names that no other attempt has, and says which they are when it
is done; what an attempt left that was lost is named by nobody, and removed.
"""

from __future__ import annotations

import datetime as dt
import posixpath
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from herdpy_spark.jobs.exporting.generations import ExportPlace
from herdpy_spark.jobs.exporting.objects import StoreAddress
from herdpy_spark.jobs.exporting.rows import FILE_PATH, PARQUET, RowFiles, SparkFiles, quoted
from herdpy_spark.jobs.job import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ROWS_PER_FILE = 1_000_000
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_CODECS = frozenset({"none", "snappy", "gzip", "zstd", "lz4", "brotli"})
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(number) for number in range(0x20)}
_PARTITION_TYPES = frozenset(
    {"boolean", "byte", "short", "integer", "long", "decimal", "string", "date", "timestamp", "timestamp_ntz"}
)
_GROUP_BYTES = 64 << 20  # of Arrow, before it is a row group
_READERS_PER_CORE = 4


def escaped(text: str) -> str:
    """A name or value as Hive writes it in a path."""
    return "".join(f"%{ord(one):02X}" if one in _ESCAPED else one for one in text)


def partition_text(value: object) -> str:
    """A value as Hive writes it in a path; times are UTC."""
    match value:
        case None | "":
            return NO_VALUE
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            moment = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
            return escaped(moment.isoformat(" "))
        case _:
            return escaped(str(value))


def partition_path(columns: Sequence[str], values: Sequence[object]) -> str:
    """``region=EU/day=2026-03-01``."""
    return "/".join(
        f"{escaped(name)}={partition_text(value)}" for name, value in zip(columns, values, strict=True)
    )


def partition_of(path: str) -> str:
    """The partition of an export's file, from its name; empty where there are none."""
    return "/".join(path.split("/")[2:-1])


def check_partitions(columns: Sequence[str], schema: StructType) -> None:
    """UsageError: rows cannot be parted by these columns."""
    kinds = {one.name: one.dataType.typeName() for one in schema.fields}
    for name in columns:
        if name not in kinds:
            raise UsageError(f"--partition-by: there is no column {name}; there are {', '.join(kinds)}")
        if kinds[name] not in _PARTITION_TYPES:
            raise UsageError(
                f"--partition-by: column {name} is of type {kinds[name]}, whose values are no names of"
                " directories"
            )
    if len(columns) >= len(kinds):
        raise UsageError("--partition-by names all columns: each row would be a partition")


class TaskFiles:
    """``RowFiles``: written and read by tasks.

    Args:
        address: of the export's directory.
        compression: None: zstd.
        partition_by: columns.

    Raises:
        UsageError: the codec is none of Parquet's.
    """

    def __init__(
        self, address: StoreAddress, compression: str | None, partition_by: tuple[str, ...] = ()
    ) -> None:
        self._address = address
        self._codec = (compression or "zstd").lower()
        self.partition_by = partition_by
        if self._codec not in _CODECS:
            raise UsageError(f"--compression {compression}: there are {', '.join(sorted(_CODECS))}")

    def arranged(self, frame: DataFrame, key: Sequence[str] = ()) -> DataFrame:
        """Rows of a partition together, so that few files have them."""
        columns = [*map(quoted, self.partition_by)]
        if not columns:
            return frame
        order = [*columns, *map(quoted, key)]
        return frame.hint("rebalance", *columns).sortWithinPartitions(*order)

    def write(self, frame: DataFrame, directory: str) -> list[str]:
        """Write all rows to new files; their names."""
        task = partial(_written, self._address, directory, self.partition_by, self._codec)
        return sorted(row["name"] for row in frame.mapInArrow(task, "name string").collect())

    def read(
        self, spark: SparkSession, names: Sequence[str], schema: StructType, *, path: bool = False
    ) -> DataFrame:
        """The rows; with ``path``, a column ``FILE_PATH`` has each one's file."""
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StringType, StructField, StructType

        wanted = StructType([*schema.fields, StructField(FILE_PATH, StringType())]) if path else schema
        if not names:
            return spark.createDataFrame([], wanted)
        most = _READERS_PER_CORE * spark.sparkContext.defaultParallelism
        numbers = spark.range(0, len(names), 1, min(len(names), most))
        arrow = to_arrow_schema(schema, timezone="UTC")
        task = partial(_read, self._address, tuple(names), arrow, path)
        return numbers.mapInArrow(task, wanted)

    def named(self, path: str) -> str:
        """The export's name of a file from what stands in ``FILE_PATH``."""
        return path


def _written(
    address: StoreAddress,
    directory: str,
    columns: tuple[str, ...],
    codec: str,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """A task's rows into files; the names of these."""
    import pyarrow as pa

    writer = _TaskWriter(address, directory, codec)
    try:
        for batch in batches:
            for at, rows in _parted(batch, columns):
                writer.take(at, rows)
        names = writer.finish()
    finally:
        writer.abandon()
    yield pa.RecordBatch.from_arrays([pa.array(names, pa.string())], names=["name"])


def _parted(batch: pa.RecordBatch, columns: tuple[str, ...]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """A batch in runs of rows of one partition, each with its path."""
    import numpy as np

    if not columns or not batch.num_rows:
        yield "", batch
        return
    codes = []
    values: list[list[object]] = []
    for name in columns:
        column: Any = batch.column(batch.schema.get_field_index(name)).dictionary_encode("encode")
        codes.append(column.indices.to_numpy(zero_copy_only=False))
        values.append(column.dictionary.to_pylist())
    table = np.stack(codes, axis=1)
    starts = [0, *(np.flatnonzero((table[1:] != table[:-1]).any(axis=1)) + 1).tolist()]
    for start, stop in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        row = [those[code] for those, code in zip(values, table[start], strict=True)]
        yield partition_path(columns, row), batch.slice(start, stop - start)


class _TaskWriter:
    """One file at a time: rows come sorted by partition."""

    def __init__(self, address: StoreAddress, directory: str, codec: str) -> None:
        self._files, root = address.opened()
        self._root = root
        self._directory = directory
        self._codec = codec
        self._at = ""
        self._file: Any = None
        self._writer: Any = None
        self._rows = 0
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._names: list[str] = []

    def take(self, at: str, rows: pa.RecordBatch) -> None:
        """Rows of one partition."""
        if self._writer is not None and (at != self._at or self._rows >= ROWS_PER_FILE):
            self._close()
        if self._writer is None and rows.num_rows:
            self._open(at, rows.schema)
        if rows.num_rows:
            self._held.append(rows)
            self._rows += rows.num_rows
            self._bytes += rows.nbytes
        if self._bytes >= _GROUP_BYTES:
            self._flush()

    def _open(self, at: str, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        name = posixpath.join(self._directory, at, f"part-{uuid.uuid4().hex}.parquet")
        path = f"{self._root}/{name}"
        self._files.makedirs(posixpath.dirname(path), exist_ok=True)
        self._at, self._rows = at, 0
        self._file = self._files.open(path, "wb")
        codec: Any = self._codec
        self._writer = pq.ParquetWriter(self._file, schema, compression=codec)
        self._names.append(name)

    def _flush(self) -> None:
        import pyarrow as pa

        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held))
        self._held, self._bytes = [], 0

    def _close(self) -> None:
        self._flush()
        self._writer.close()
        self._file.close()  # an object is there from here on
        self._writer = None

    def finish(self) -> list[str]:
        """Close the last file; the names of all."""
        if self._writer is not None:
            self._close()
        return self._names

    def abandon(self) -> None:
        """After a failure: what is open is no file of the export. After ``finish``: nothing."""
        if self._writer is not None:
            self._writer = None
            try:
                self._file.discard()  # a store of objects never has it
            except (AttributeError, RuntimeError):
                self._file.close()


def _read(
    address: StoreAddress,
    names: tuple[str, ...],
    schema: pa.Schema,
    path: bool,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The rows of the files with these numbers."""
    files, root = address.opened()
    for batch in batches:
        for number in batch.column(0).to_pylist():
            name = names[int(number or 0)]
            with files.open(f"{root}/{name}", "rb") as file:
                for rows in _batches(file, schema):
                    yield _with_path(rows, name) if path else rows


def _batches(file: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A file's rows with these columns; NULL where it lacks one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(file)
    there = set(parquet.schema_arrow.names)
    columns = None if there == set(schema.names) else [name for name in schema.names if name in there]
    for rows in parquet.iter_batches(columns=columns):
        count = rows.num_rows
        found = {one: rows.column(at) for at, one in enumerate(rows.schema.names)}
        arrays = [
            found[one.name].cast(one.type) if one.name in found else pa.nulls(count, one.type)
            for one in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _with_path(rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
    import pyarrow as pa

    paths: Any = pa.array([name], pa.string()).take(pa.array([0] * rows.num_rows, pa.int64()))
    return pa.RecordBatch.from_arrays(
        [*rows.columns, paths], schema=rows.schema.append(pa.field(FILE_PATH, pa.string()))
    )


def row_files(
    place: ExportPlace,
    file_format: str,
    compression: str | None,
    partition_by: tuple[str, ...] = (),
) -> RowFiles:
    """How rows of an export are written there and read.

    Raises:
        UsageError: not in this format, or not in partitions.
    """
    if place.spark_reads and not partition_by:
        return SparkFiles(place, file_format, compression)
    if file_format != PARQUET:
        raise UsageError(
            f"--format {file_format} is for local directories and Hadoop's file systems, without partitions",
            hint="Export Parquet.",
        )
    if place.address is None:
        raise UsageError(
            "--partition-by is for local directories and URLs of fsspec (s3://, gs://, abfs://)",
            hint="s3a:// is Hadoop's name of s3://.",
        )
    return TaskFiles(place.address, compression, partition_by)

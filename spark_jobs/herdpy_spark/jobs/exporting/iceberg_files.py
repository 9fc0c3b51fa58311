"""Data files of an Iceberg table, written and read by Spark's tasks.

    DataFrame -> tasks write Parquet through the table's own FileIO -> DataFile with metrics -> the driver
    files -> tasks read them, by field ids, in the columns of now -> DataFrame

Iceberg's runtime for Spark is of another version of Spark, so PyIceberg is used, in the driver and in tasks.
The table's FileIO has the credentials that the catalog gives, so Spark need not reach the warehouse itself.
A task that is tried again writes under another name; only what tasks report is committed.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.fileformat import FileFormatFactory
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import FileScanTask
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from herdpy_spark.jobs.exporting.changeset import check_held, ranged
from herdpy_spark.jobs.exporting.generations import DataFile, Fingerprint
from herdpy_spark.jobs.exporting.rows import FILE_PATH, aggregates, from_row, quoted
from herdpy_spark.jobs.exporting.task_files import ROWS_PER_FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ROW_GROUP_BYTES = 64 << 20


@dataclass
class IcebergFiles:
    """``ExportStore`` of one run on a table.

    Attributes:
        metadata: of the table as the run will leave it, with the schema of now.
        schema: Spark's, of the same columns.
        known: the table's files by path, those that this run adds, too.
        per_file: rows, about.
    """

    spark: SparkSession
    io: FileIO
    metadata: TableMetadata
    schema: StructType
    run_id: str
    known: dict[str, IcebergFile] = field(default_factory=dict)
    per_file: int = ROWS_PER_FILE

    def add(self, frame: DataFrame, key: tuple[str, ...], rows: int) -> tuple[DataFile, ...]:
        """In ranges of the key."""
        return self.write(ranged(frame, key, rows, self.per_file))

    def write(self, frame: DataFrame) -> tuple[DataFile, ...]:
        """A file for each partition of the DataFrame that has rows."""
        from pyspark.sql import Observation

        seen = Observation()
        write = _writer(self.io, self.metadata, self.run_id)
        # mapInArrow names its input's columns without quotes: a dot in one would be taken for a field's.
        numbered = [f"c{number}" for number in range(len(frame.columns))]
        observed = frame.observe(seen, *aggregates(frame.schema)).toDF(*numbered)
        reports = observed.mapInArrow(write, "report binary").collect()
        made = [_from_report(bytes(row["report"])) for row in reports]
        self.known |= {one.file_path: one for one in made}
        plain = [DataFile(one.file_path, one.file_size_in_bytes, Fingerprint()) for one in made]
        found = self.named_rows(plain).groupBy(FILE_PATH).agg(*aggregates(self.schema)).collect()
        held = {row[FILE_PATH]: from_row(row) for row in found}
        files = tuple(DataFile(one.path, one.size_bytes, held[one.path]) for one in plain)
        check_held(self.metadata.location, files, from_row(seen.get))
        return files

    def rows(self, files: Sequence[DataFile]) -> DataFrame:
        """As the columns are now, whatever they were when the files were written."""
        return self.named_rows(files).drop(FILE_PATH)

    def keys(self, files: Sequence[DataFile], key: tuple[str, ...]) -> DataFrame:
        """See ``ExportStore``."""
        return self.named_rows(files).select(*map(quoted, key), FILE_PATH)

    def named_rows(self, files: Sequence[DataFile]) -> DataFrame:
        """The rows, and the file of each in ``FILE_PATH``."""
        from pyspark.sql.types import StringType, StructField, StructType

        schema = StructType([*self.schema.fields, StructField(FILE_PATH, StringType())])
        if not files:
            return self.spark.createDataFrame([], schema)
        known = [self.known[one.path] for one in files]
        read = _reader(self.io, self.metadata, [(one.file_path, one.spec_id) for one in known], schema)
        return self.spark.range(0, len(known), 1, len(known)).mapInArrow(read, schema)

    def path(self, found: str) -> str:
        """The same."""
        return found

    def beside(self, names: set[str], arrived: DataFrame) -> set[str] | None:
        """There are no partitions."""
        return None


def _writer(io: FileIO, metadata: TableMetadata, run_id: str) -> Any:
    """What a task does with its batches: all into one file, which it reports."""
    file_schema = sanitize_column_names(metadata.schema())

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups = _row_groups(batches, schema_to_pyarrow(file_schema))
        first = next(groups, None)
        if first is None:
            return
        provider = load_location_provider(metadata.location, metadata.properties)
        path = provider.new_data_location(f"{run_id}-{uuid.uuid4()}.parquet")
        output = io.new_output(path)
        writer = FileFormatFactory.get(FileFormat.PARQUET).create_writer(
            output, file_schema, metadata.properties
        )
        try:
            with writer:
                writer.write(first)
                for group in groups:
                    writer.write(group)
        except BaseException:
            io.delete(path)
            raise
        facts = writer.result().to_serialized_dict()
        report = pickle.dumps((path, len(output), metadata.default_spec_id, facts))
        yield pa.RecordBatch.from_pydict({"report": [report]})

    return write


def _row_groups(batches: Iterator[pa.RecordBatch], kind: pa.Schema) -> Iterator[pa.Table]:
    """The rows in the file's types, in as few groups as memory allows."""
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            columns = [column.cast(one.type) for column, one in zip(batch.columns, kind, strict=True)]
            gathered.append(pa.RecordBatch.from_arrays(columns, schema=kind))
        if sum(one.nbytes for one in gathered) >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered = []
    if gathered:
        yield pa.Table.from_batches(gathered)


def _from_report(report: bytes) -> IcebergFile:
    return _data_file(*pickle.loads(report))


def _data_file(path: str, size_bytes: int, spec_id: int, facts: dict[str, Any]) -> IcebergFile:
    made = IcebergFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        file_size_in_bytes=size_bytes,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **facts,
    )
    made.spec_id = spec_id
    return made


def _reader(io: FileIO, metadata: TableMetadata, files: list[tuple[str, int]], schema: StructType) -> Any:
    """What reads the files whose numbers come in; of each its path, and the id of its partitioning."""
    from pyspark.sql.pandas.types import to_arrow_schema

    expected = to_arrow_schema(schema, timezone="UTC")
    projected: Schema = metadata.schema()

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbers in batches:
            for number in numbers.column(0).to_pylist():
                path, spec_id = files[int(number or 0)]
                # A DataFile does not outlive pickling, and of this one no more is read.
                task = FileScanTask(_data_file(path, 0, spec_id, {"record_count": 0}))
                scan = ArrowScan(metadata, io, projected, AlwaysTrue())
                for batch in scan.to_record_batches([task]):
                    columns = [
                        column.cast(one.type) for column, one in zip(batch.columns, expected, strict=False)
                    ]
                    file = pa.repeat(pa.scalar(path, expected.field(FILE_PATH).type), batch.num_rows)
                    yield pa.RecordBatch.from_arrays([*columns, file], schema=expected)

    return read

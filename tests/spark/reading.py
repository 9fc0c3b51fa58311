"""DataFrames without Spark: what Spark would call, in this process, one partition after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.serializers import CPickleSerializer
from pyspark.sql.pandas.types import to_arrow_schema

from herdpy_spark.batch import batch_reader, batch_schema
from herdpy_spark.options import Options


@dataclass
class Read:
    """A DataFrame's schema, reader and partitions; the reader as tasks get it."""

    schema: Any
    reader: Any
    partitions: list[Any]

    def partition(self, number: int) -> list[tuple[Any, ...]]:
        """A partition's rows; its batches are what Spark wants of them."""
        wanted = to_arrow_schema(self.schema, timezone="UTC")
        rows: list[tuple[Any, ...]] = []
        for batch in self.reader.read(self.partitions[number]):
            assert wanted.equals(batch.schema)
            rows += tuples(pa.Table.from_batches([batch]))
        return rows

    def rows(self) -> list[tuple[Any, ...]]:
        """All rows, partition by partition."""
        return [row for number in range(len(self.partitions)) for row in self.partition(number)]


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a table."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def read(url: str, **options: object) -> Read:
    """Plan a DataFrame; ``source`` is the option from."""
    given = {"from" if name == "source" else name: str(value) for name, value in options.items()}
    parsed = Options.parse({"url": url, **given}, "read")
    schema = batch_schema(parsed)
    reader = batch_reader(parsed, schema)
    pickler = CPickleSerializer()
    sent = pickler.loads(pickler.dumps((reader, list(reader.partitions()))))
    return Read(schema, *sent)

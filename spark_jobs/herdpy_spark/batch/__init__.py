"""Tables and queries as DataFrames: one state, cut into partitions that are read side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_spark.options import OptionError, Options

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader
    from pyspark.sql.types import StructType

__all__ = ["batch_reader", "batch_schema"]


def batch_schema(options: Options) -> StructType:
    """The columns of the table, in Spark's types."""
    raise OptionError(f"the table {options.table} cannot be read yet")


def batch_reader(options: Options, schema: StructType) -> DataSourceReader:
    """Plan the reading of a table."""
    raise OptionError(f"the table {options.table} cannot be read yet")

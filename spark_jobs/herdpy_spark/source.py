"""The data source "herdpy": what Spark calls, handed on to batch, writing and feed.

Spark makes one, in a Python process of its own beside the driver, for every DataFrame, load and stream; it
asks for the schema before it says which of these it is. So ``startingOffsets``, which a stream must have,
tells: with it the schema is that of the change feed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from herdpy_spark.options import OptionError, Options

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceWriter
    from pyspark.sql.types import StructType


class HerdPyDataSource(DataSource):
    """``spark.read``, ``df.write`` and ``spark.readStream`` with ``format("herdpy")``; see ``options``."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return "herdpy"

    def schema(self) -> StructType:
        """Of the table or query, or of the feed of its changes. Raises OptionError; what a server says."""
        options = Options.parse(self.options)
        if options.is_feed:
            from herdpy_spark.feed.reader import feed_schema

            return feed_schema(options)
        from herdpy_spark.batch import batch_schema

        return batch_schema(options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of a table or query at one LSN, which is chosen here, once for the DataFrame."""
        options = Options.parse(self.options, "read")
        from herdpy_spark.batch import batch_reader

        return batch_reader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Of a load; with ``overwrite`` the table's rows give way to it."""
        options = Options.parse(self.options, "write")
        from herdpy_spark.writing import load_writer

        return load_writer(options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Of the changes of a table."""
        options = Options.parse(self.options, "stream")
        if not options.is_feed:
            raise OptionError(
                "a stream needs a beginning: set the option startingOffsets to earliest, latest, an LSN "
                "or a timestamp"
            )
        from herdpy_spark.feed.reader import FeedReader

        return FeedReader(options, schema)

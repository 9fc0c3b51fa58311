"""The change feed: ``spark.readStream.format("herdpy")`` with ``startingOffsets``.

From the bottom: ``table``, what a name means along the log, and the feed's columns; ``changes``, transactions
into Arrow batches; ``stretches``, which of the log a batch is, and how tasks share it; ``driver``, where a
stream stands; ``reader``, what Spark calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_spark.options import OptionError, Options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from herdpy_spark.feed.reader import FeedReader


def feed_schema(options: Options) -> StructType:
    """The columns of a stream of the table's changes, by the table as it is now.

    Raises:
        OptionError: no table is named, or there is none of that name.
        AccessError, LogError: nobody can say what it is.
    """
    from herdpy_spark.access import find
    from herdpy_spark.feed.driver import newest_table
    from herdpy_spark.feed.table import columns_of

    if options.table is None:
        raise OptionError("a stream is of a table: name it with the option table")
    table = newest_table(find(options), options.table)
    if table is None:
        raise OptionError(
            f'the option table: there is no table "{options.table}" now. To wait for one, give the stream the'
            " schema that its feed will have"
        )
    return columns_of(table)


def feed_reader(options: Options, schema: StructType) -> FeedReader:
    """What Spark calls for a stream with these columns. OptionError: they are not a feed's."""
    from herdpy_spark.feed.reader import FeedReader

    return FeedReader(options, schema)


__all__ = ["feed_reader", "feed_schema"]

"""The change feed: ``spark.readStream.format("herdpy")`` with ``startingOffsets``.

From the bottom: ``shape``, the feed's columns; ``followed``, what the table's name means along the log;
``block`` and ``changes``, transactions into Arrow batches, which is all that tasks do.
"""

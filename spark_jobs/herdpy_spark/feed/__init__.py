"""The change feed: ``spark.readStream.format("herdpy")`` with ``startingOffsets``.

From the bottom: ``table``, what a name means along the log, and the feed's columns; ``changes``, transactions
into Arrow batches; ``stretches``, which of the log a batch is, and how tasks share it; ``driver``, where a
stream stands; ``tasks``, what a task reads; ``lease``, what keeps the log there. None of these knows Spark.
``spark_columns`` and ``reader`` are what Spark calls.
"""

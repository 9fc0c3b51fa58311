"""Writing a DataFrame: tasks stage their rows, the driver publishes them all at once or not at all.

``conforming`` (pure) makes Spark's Arrow batches those of the table; ``staging`` brings them to where the
leader reads them; ``loads`` asks the leader to begin, publish or abort a load; ``writer`` is Spark's.
"""

from __future__ import annotations

from herdpy_spark.writing.writer import load_writer, loads_of

__all__ = ["load_writer", "loads_of"]

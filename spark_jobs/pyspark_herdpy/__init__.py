"""Where Spark finds the format "herdpy" by itself: it looks for ``DefaultSource`` in modules ``pyspark_*``.

Spark looks once, in a Python process of its own, when a session first needs a format in Python. An error here
would end that search for all packages, so without what ``herdpydb[spark]`` brings there is simply no source.
"""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):
    from herdpy_spark.source import HerdPyDataSource as DefaultSource

    __all__ = ["DefaultSource"]

"""What the Python processes of Spark's tasks do once; imports nothing of the package."""

from __future__ import annotations

import functools
import gc


@functools.cache
def freeze_worker() -> None:
    """Take what a worker process has made so far out of garbage collection; once in a process.

    Spark collects garbage after every task. Going through all that HerdPy and its libraries have imported
    takes longer than a small task does, and none of it is ever garbage.
    """
    gc.collect()
    gc.freeze()

"""What a job shows while it runs: its own lines, and every few seconds how many of Spark's tasks are done."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL_S = 3.0


class JobProgress:
    """Lines on standard error, unless ``quiet``."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._began = time.monotonic()
        self._over = threading.Event()
        self._watcher: threading.Thread | None = None

    def tell(self, text: str) -> None:
        """Show a line, with the seconds since the beginning."""
        if not self._quiet:
            sys.stderr.write(f"[{time.monotonic() - self._began:6.1f} s] {text}\n")
            sys.stderr.flush()

    def watch(self, spark: SparkSession) -> None:
        """Show how far the session's stages are, whenever that has changed."""
        if self._quiet or self._watcher is not None:
            return
        self._watcher = threading.Thread(target=self._watch, args=(spark,), name="progress", daemon=True)
        self._watcher.start()

    def _watch(self, spark: SparkSession) -> None:
        tracker = spark.sparkContext.statusTracker()
        shown = ""
        while not self._over.wait(INTERVAL_S):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            text = "; ".join(
                f"stage {one.stageId}: {one.numCompletedTasks} of {one.numTasks} tasks"
                for one in stages
                if one
            )
            if text and text != shown:
                shown = text
                self.tell(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._watcher is not None:
            self._watcher.join()

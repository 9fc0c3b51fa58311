"""Logs of a server: Python's ``logging`` under ``herdpy`` as lines of text or JSON.

The lines are ``herdpy.logging_lines``. The loop's thread only queues a record; a thread of the logs formats
and writes it, so that a slow disk or a reader of standard error that has stopped holds up no session. When
the queue is full records are dropped, and their number is logged as soon as there is room. No secret is ever
handed to ``logging``: who logs has to see to that, not this module.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Mapping
from logging.handlers import WatchedFileHandler
from typing import Literal

from herdpy.logging_lines import JsonFormatter, TextFormatter

ROOT = "herdpy"
_QUEUE_RECORDS = 10_000
_CLOSE_PATIENCE_S = 5.0


class _Queue(logging.Handler):
    """Hands records to the thread that writes them; never blocks."""

    def __init__(self, records: queue.Queue[logging.LogRecord | None]) -> None:
        super().__init__()
        self._records = records
        self.dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.args:  # arguments may change until the record is written
            record.msg, record.args = record.getMessage(), None
        try:
            self._records.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class Logs:
    """The logs of this process, from :meth:`open` to :meth:`close`.

    Attributes:
        lines: how many were written.
    """

    def __init__(self, format: Literal["text", "json"], file: str = "") -> None:
        """``file`` is appended to; empty: standard error. OSError when it cannot be opened."""
        self.lines = 0
        self._writer: logging.Handler = (
            WatchedFileHandler(file, encoding="utf-8") if file else logging.StreamHandler(sys.stderr)
        )
        self._writer.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
        self._records: queue.Queue[logging.LogRecord | None] = queue.Queue(_QUEUE_RECORDS)
        self._queue = _Queue(self._records)
        self._reported_dropped = 0
        self._levels: dict[str, str] = {}
        self._level = "info"
        self._thread = threading.Thread(target=self._run, name="herdpy-logs", daemon=True)
        self._root = logging.getLogger()
        self._root_level = self._root.level

    def open(self) -> None:
        """Take all records there are from now on."""
        self._root.addHandler(self._queue)
        self._thread.start()

    def close(self) -> None:
        """Write what is queued, and take no more; a second call does nothing."""
        if self._queue not in self._root.handlers:
            return
        self._root.removeHandler(self._queue)
        self.set_levels("notset", {})
        self._root.setLevel(self._root_level)
        try:
            self._records.put(None, timeout=_CLOSE_PATIENCE_S)
            self._thread.join(_CLOSE_PATIENCE_S)
        except queue.Full:  # nobody reads standard error: what is left cannot be written
            pass
        self._writer.close()

    @property
    def dropped(self) -> int:
        """Records that found the queue full."""
        return self._queue.dropped

    def set_levels(self, level: str, levels: Mapping[str, str]) -> None:
        """The least level of ``herdpy`` and of single loggers below it; of others warnings are logged."""
        self._root.setLevel(logging.WARNING)
        for name in self._levels.keys() - levels.keys():
            logging.getLogger(name).setLevel(logging.NOTSET)
        logging.getLogger(ROOT).setLevel(level.upper())
        for name, own in levels.items():
            logging.getLogger(name).setLevel(own.upper())
        self._levels = dict(levels)
        self._level = level

    @property
    def levels(self) -> tuple[str, Mapping[str, str]]:
        """What :meth:`set_levels` set."""
        return self._level, dict(self._levels)

    def _run(self) -> None:
        while (record := self._records.get()) is not None:
            self._write(record)
            if self._records.empty():
                self._report_dropped()
        self._report_dropped()

    def _report_dropped(self) -> None:
        missing = self._queue.dropped - self._reported_dropped
        if missing:
            self._reported_dropped += missing
            said = ("%d records were dropped", (missing,), None)
            self._write(logging.LogRecord("herdpy.logs", logging.WARNING, __file__, 0, *said))

    def _write(self, record: logging.LogRecord) -> None:
        self._writer.handle(record)
        self.lines += 1

"""What a job says while it runs: lines for people, or lines of JSON that have the run's id (``--log-json``).

Both go to standard error. The tasks' lines are ``herdpy_spark.lines``: ``share`` hands them what they have of
the job. No line has a password of the command's, whatever an error says.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

from herdpy_spark.jobs.job import PASSWORD_VARIABLE, password_of
from herdpy_spark.jobs.loading import JDBC_PASSWORD_VARIABLE
from herdpy_spark.lines import PROPERTY, without_passwords, write_line

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession


class JobOutput:
    """One run's.

    Args:
        job: the job's name.
        report: of the run; lines have the position that stands in it.

    Attributes:
        run: names the run in lines of JSON: as ``--run-id`` or ``--load-id`` says, else by chance.
    """

    def __init__(self, job: str, arguments: argparse.Namespace, report: dict[str, Any]) -> None:
        given = (getattr(arguments, name, None) for name in ("run_id", "load_id"))
        self.run = next((one for one in given if one), None) or uuid.uuid4().hex[:16]
        self._about = {"run": self.run, "job": job}
        if table := getattr(arguments, "table", None):
            self._about["table"] = table
        self._quiet, self._as_json = arguments.quiet, arguments.log_json
        self._report = report
        self._hidden = _passwords(arguments)
        self._began = time.monotonic()
        if self._as_json:
            report["run"] = self.run

    def note(self, text: str) -> None:
        """A line of progress, unless the job is quiet."""
        if self._quiet:
            return
        if self._as_json:
            self._write(text, "info", None)
        else:
            _print(self._plain(f"[{time.monotonic() - self._began:6.1f} s] {text}"))

    def error(self, text: str, hint: str | None = None) -> None:
        """What the job ends with."""
        if self._as_json:
            self._write(text, "error", hint)
        else:
            _print(self._plain(f"error: {text}" + (f"\nHINT:  {hint}" if hint else "")))

    def interrupted(self) -> None:
        """Somebody ended the job."""
        if self._as_json:
            self._write("interrupted", "error", None)
        else:
            _print("interrupted")

    def share(self, spark: SparkSession) -> None:
        """Have the tasks of what this thread starts write lines, too, where lines are of JSON."""
        if self._as_json:
            spark.sparkContext.setLocalProperty(PROPERTY, json.dumps(self._about))

    def _write(self, text: str, level: str, hint: str | None) -> None:
        about: dict[str, Any] = dict(self._about)
        for name in ("lsn", "position"):
            if self._report.get(name):
                about["position"] = self._report[name]
        if hint:
            about["hint"] = self._plain(hint)
        write_line(self._plain(text), about, level=level)

    def _plain(self, text: str) -> str:
        for one in self._hidden:
            text = text.replace(one, "***")
        return without_passwords(text)


def _passwords(arguments: argparse.Namespace) -> list[str]:
    """All that this command was given, the longest first."""
    found = {password_of(arguments), *map(os.environ.get, (PASSWORD_VARIABLE, JDBC_PASSWORD_VARIABLE))}
    return sorted((one for one in found if one), key=len, reverse=True)


def _print(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()

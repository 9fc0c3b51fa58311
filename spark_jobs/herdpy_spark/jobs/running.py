"""Running a job: its arguments parsed, progress shown, failures told, the report written, an exit code.

argv -> JobRun -> SparkJob.run -> report: {"job", "status": "done" | "failed" | "interrupted", "seconds", ...}

JobProgress shows while it runs the job's own lines, and every few seconds how many of Spark's tasks are done.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from herdpy import __version__
from herdpy_spark.jobs import JOBS, arguments
from herdpy_spark.jobs.errors import DONE, FAILED, INTERRUPTED, USAGE, JobError, UsageError
from herdpy_spark.jobs.job import JobRun, SparkJob
from herdpy_spark.jobs.session import open_session

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


_PYTHON_ERROR = re.compile(r"^\s*(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)


def job_named(name: str) -> SparkJob:
    """The job of that name; UsageError with those that there are."""
    module = JOBS.get(name)
    if module is None:
        raise UsageError(f"there is no job {name!r}: there are {', '.join(JOBS)}")
    found: SparkJob = importlib.import_module(f"herdpy_spark.jobs.{module}").JOB
    return found


def main(job: SparkJob, argv: Sequence[str] | None = None) -> int:
    """Run a job with these arguments (else the program's); its exit code."""
    began = time.perf_counter()
    report: dict[str, Any] = {
        "job": job.name,
        "herdpy": __version__,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        parsed = arguments.parser(job).parse_args(argv)
    except UsageError as error:
        _tell(f"error: {error.message}\nHINT:  {error.hint}")
        return USAGE
    code = _run(job, parsed, report)
    report |= {
        "dry_run": bool(parsed.dry_run),
        "status": {DONE: "done", INTERRUPTED: "interrupted"}.get(code, "failed"),
        "exit_code": code,
        "seconds": round(time.perf_counter() - began, 3),
    }
    try:
        _write(report, parsed.report)
    except OSError as error:
        _tell(f"error: the report cannot be written: {error}")
        return code or FAILED
    return code


def _run(job: SparkJob, parsed: Any, report: dict[str, Any]) -> int:
    ours: list[SparkSession] = []
    progress = JobProgress(quiet=parsed.quiet)

    def session() -> SparkSession:
        found, made = open_session(parsed, job.name)
        if made:
            ours.append(found)
        progress.watch(found)
        return found

    try:
        with progress:
            job.run(JobRun(parsed, report, progress.tell, session))
    except KeyboardInterrupt:
        _tell("interrupted")
        report["error"] = {"message": "interrupted"}
        return INTERRUPTED
    except JobError as error:
        report["error"] = {"message": error.message, "hint": error.hint}
        _tell(f"error: {error.message}" + (f"\nHINT:  {error.hint}" if error.hint else ""))
        return error.code
    except Exception as error:  # noqa: BLE001 - the edge of the program: whatever it was is told and reported
        message = said(error)
        report["error"] = {"message": message, "type": type(error).__name__}
        _tell(f"error: {message}")
        return FAILED
    finally:
        for one in ours:
            one.stop()
    return DONE


def said(error: BaseException) -> str:
    """What an error of Spark is about: the innermost error of Python in it, or else its first lines."""
    text = str(error)
    found = _PYTHON_ERROR.findall(text)
    if found:
        return f"{found[-1][0]}: {found[-1][1]}"
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join([f"{type(error).__name__}: {lines[0] if lines else ''}", *lines[1:4]])


def _write(report: dict[str, Any], to: str | None) -> None:
    if to is None:
        return
    text = json.dumps(report, indent=1, default=str) + "\n"
    if to == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        Path(to).write_text(text)


def _tell(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()

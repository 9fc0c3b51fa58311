"""Running a job: arguments, Spark's session, progress, failures in words, the report, an exit code.

argv -> JobRun -> SparkJob.run -> report: {"job", "status": "done" | "failed" | "interrupted", "seconds", ...}

The session is the one that is there, or one that is made for the job and stopped after it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from herdpy import __version__
from herdpy.distribution import install_line
from herdpy_spark.jobs import JOBS, steps
from herdpy_spark.jobs.job import (
    DONE,
    FAILED,
    INTERRUPTED,
    USAGE,
    JobError,
    JobRun,
    SparkJob,
    UsageError,
    job_parser,
)
from herdpy_spark.jobs.output import JobOutput
from herdpy_spark.jobs.priority import IS_KNOWN_HERE, NICENESS, lower

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_EXTENSIONS = "spark.sql.extensions"
_CATALOG = "spark.sql.catalog.spark_catalog"


def open_session(arguments: argparse.Namespace, name: str) -> tuple[SparkSession, bool]:
    """The session, with the data source registered; and whether it was made here.

    Raises:
        JobError: PySpark is not installed; Delta cannot be fetched.
        UsageError: --niceness, and Spark runs already, or this is not Linux.
    """
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise JobError(f"PySpark is needed: {error}", hint=install_line("spark")) from None
    import herdpy_spark

    context: Any = SparkContext
    is_running = context._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ
    if arguments.niceness is not None and (is_running or not IS_KNOWN_HERE):
        raise UsageError(
            "--niceness: Spark runs already" if is_running else "--niceness is for Linux",
            hint="Start spark-submit, or Spark's workers, with nice.",
        )
    there = SparkSession.getActiveSession()
    if there is not None:
        herdpy_spark.register(there)
        return there, False
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"herdpy {name}")
    # Jobs compare times with those of the database and of other runs: one zone for all.
    settings = {"spark.sql.session.timeZone": "UTC"}
    jars = list(arguments.jars)
    if arguments.with_delta:
        jars += delta_jars()
        settings |= {_EXTENSIONS: DELTA_EXTENSION, _CATALOG: DELTA_CATALOG}
    if jars:
        settings["spark.jars"] = ",".join(jars)
    settings |= dict(arguments.conf)
    if arguments.master:
        builder = builder.master(arguments.master)
    elif "MASTER" not in os.environ and "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master("local[*]")  # not below spark-submit, which has chosen one
    for key, value in settings.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    if not is_running and IS_KNOWN_HERE:
        _lower_priority(made, arguments.niceness)
    herdpy_spark.register(made)
    return made, True


def _lower_priority(spark: SparkSession, niceness: int | None) -> None:
    """Lower Spark's JVM, which was started for this job, and so the processes of Python that it starts."""
    context: Any = spark.sparkContext
    if niceness is None:
        niceness = NICENESS if context.master.startswith("local") else 0
    lower(context._gateway.proc.pid, niceness)


def delta_jars() -> list[str]:
    """Delta Lake's jars, from the cache or fetched with Maven; JobError where that cannot be."""
    from herdpy.testing.errors import MissingSoftwareError
    from herdpy.testing.java import delta_jars as fetched

    try:
        return [str(path) for path in sorted(fetched().glob("*.jar"))]
    except MissingSoftwareError as error:
        raise JobError(
            f"Delta Lake is not here: {error}",
            hint="Give its jars with --jars, or with spark-submit --packages.",
        ) from None


def has_delta(spark: SparkSession) -> bool:
    """Whether the session reads and writes tables of Delta Lake."""
    return DELTA_EXTENSION in (spark.conf.get(_EXTENSIONS, "") or "")


def lake(module: str) -> Any:
    """A module of exports to Iceberg. JobError: PyIceberg is not installed."""
    try:
        return importlib.import_module(f"herdpy_spark.jobs.exporting.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyiceberg":
            raise
        raise JobError(f"PyIceberg is needed: {error}", hint=install_line("iceberg")) from None


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    """The session with these settings (dots are written as two underscores), and as it was after it."""
    named = {name.replace("__", "."): value for name, value in values.items()}
    before = {name: spark.conf.get(name, None) for name in named}
    try:
        for name, value in named.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


INTERVAL_S = 3.0


class JobProgress:
    """How far the stages of Spark are, as lines of the job, unless ``quiet``."""

    def __init__(self, output: JobOutput, *, quiet: bool) -> None:
        self._output = output
        self._quiet = quiet
        self._over = threading.Event()
        self._watcher: threading.Thread | None = None

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
                self._output.note(text)

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
        parsed = job_parser(job).parse_args(argv)
    except UsageError as error:
        _print_note(f"error: {error.message}\nHINT:  {error.hint}")
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
        _print_note(f"error: the report cannot be written: {error}")
        return code or FAILED
    return code


def _run(job: SparkJob, parsed: Any, report: dict[str, Any]) -> int:
    ours: list[SparkSession] = []
    others: list[SparkSession] = []
    output = JobOutput(job.name, parsed, report)
    progress = JobProgress(output, quiet=parsed.quiet)

    def session() -> SparkSession:
        found, made = open_session(parsed, job.name)
        (ours if made else others).append(found)
        steps.begin_job(found, job_title(job.name, parsed))
        output.share(found)
        progress.watch(found)
        return found

    try:
        with progress:
            job.run(JobRun(parsed, report, output.note, session))
    except KeyboardInterrupt:
        output.interrupted()
        report["error"] = {"message": "interrupted"}
        return INTERRUPTED
    except JobError as error:
        report["error"] = {"message": error.message, "hint": error.hint}
        output.error(error.message, error.hint)
        return error.code
    except Exception as error:  # noqa: BLE001 - the edge of the program: whatever it was is shown and reported
        message = said(error)
        report["error"] = {"message": message, "type": type(error).__name__}
        output.error(message)
        return FAILED
    finally:
        for one in others:
            steps.end_job(one)
        for one in ours:
            one.stop()
    return DONE


def job_title(name: str, arguments: argparse.Namespace) -> str:
    """What the run is called in Spark's UI: of which table, or which export."""
    given = (getattr(arguments, what, None) for what in ("table", "export", "query", "to"))
    subject = next((text for text in given if text), "")
    return f"herdpy {name} of {subject}" if subject else f"herdpy {name}"


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


def _print_note(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()

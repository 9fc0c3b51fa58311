"""A job of herdpy_spark in a process of its own: its command line, its name for retries, its report.

job, arguments, identity of the task -> command, environment -> process -> JobOutcome

The process has its own session, so that ending it ends Spark's JVM too. The password goes by the environment,
never as an argument. Nothing here imports Airflow.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herdpy_airflow.addresses import ConnectionAddress

#: The argument by which each job takes a name that makes its repetition harmless.
NAMED_BY = {"export": "--run-id", "compact": "--run-id", "archive": "--run-id", "bulk-load": "--load-id"}
#: Arguments that are given here, and by nobody else.
_OURS = frozenset({"--url", "--user", "--report", "--run-id", "--load-id"})
_NAME_LENGTH = 48
_HASH_LENGTH = 16


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What became of a job: its exit code, and its report (empty when it wrote none)."""

    code: int
    report: dict[str, Any]

    @property
    def message(self) -> str:
        """What was wrong, in the job's words."""
        error = self.report.get("error") or {}
        return str(error.get("message") or f"exit code {self.code}; its output is in the task's log")


def run_name(task_id: str, *identity: object) -> str:
    """A name for a run, the same for each try of one task instance, and no other: 48 characters or fewer."""
    whole = "\0".join(map(str, (task_id, *identity)))
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_HASH_LENGTH]
    readable = re.sub(r"[^A-Za-z0-9_.-]", "-", task_id).lstrip("-_.")[: _NAME_LENGTH - _HASH_LENGTH - 1]
    return f"{readable}-{digest}" if readable else digest


def job_arguments(
    job: str, address: ConnectionAddress, arguments: Sequence[str], name: str, report: Path
) -> list[str]:
    """The job's command line after its name.

    Raises:
        ValueError: ``arguments`` have one that is given here.
    """
    taken = sorted({one.partition("=")[0] for one in arguments} & _OURS)
    if taken:
        raise ValueError(f"{', '.join(taken)}: the operator gives these, from the connection and the task")
    named = [NAMED_BY[job], name] if job in NAMED_BY else []
    user = ["--user", address.user] if address.user else []
    return ["--url", address.driver_url, *user, *arguments, *named, "--report", str(report)]


def job_command(job: str, rest: Sequence[str], python: str | None, submit: Sequence[str]) -> list[str]:
    """The whole command line: a Spark of that process, or ``submit`` with the job's script."""
    interpreter = python or sys.executable
    if not submit:
        return [interpreter, "-m", "herdpy_spark.jobs", job, *rest]
    where = [interpreter, "-m", "herdpy_spark.jobs", "--path", job]
    script = subprocess.run(where, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return [*submit, script, *rest]


class JobProcess:
    """One run of a job."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def run(
        self,
        make_command: Callable[[Path], Sequence[str]],
        password: str | None,
        environment: Mapping[str, str],
        log: Callable[[str], None],
    ) -> JobOutcome:
        """Start what ``make_command`` makes for the report's path, log its lines, wait for its end."""
        with tempfile.TemporaryDirectory(prefix="herdpy-job-") as scratch:
            report = Path(scratch) / "report.json"
            whole = {**os.environ, **environment}
            if password is not None:
                whole["HERDPY_PASSWORD"] = password
            with subprocess.Popen(
                list(make_command(report)),
                env=whole,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            ) as process:
                self._process = process
                if self._stopped:  # stopped between the beginning and here
                    self.stop()
                assert process.stdout is not None
                for line in process.stdout:
                    log(line.rstrip("\n"))
                code = process.wait()
            found = json.loads(report.read_text()) if report.exists() else {}
        return JobOutcome(code, found)

    def stop(self) -> None:
        """End the process and all that it started. The job is as after a kill: a next run goes on."""
        self._stopped = True
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)

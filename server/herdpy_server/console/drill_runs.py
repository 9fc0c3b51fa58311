"""Failover drills that were begun in the console: each is a process of its own, with files of its own.

Below ``pages.drills``. A drill kills servers, this one perhaps: so its process outlives the server, and all
about it is in files: what was requested (``run.json``), its output, its report, its picture. A server that
was started again finds them.
"""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from herdpy_sql.errors import SqlError

PROGRAM: Sequence[str] = (sys.executable, "-m", "herdpy.cli")
MAX_SECONDS = 3600
_RUN = re.compile(r"\d{8}T\d{6}Z-[a-z0-9-]{1,60}")
_MAX_RUNS = 50
_TAIL_BYTES = 64 << 10
_MAX_REPORT_BYTES = 64 << 20
_LIST_S = 60.0


@dataclass(frozen=True, slots=True)
class ConsoleDrill:
    """One run.

    Attributes:
        ident: the name of its directory.
        state: "running", what its report says ("valid", "violated", "undecided", "skipped"), or "broken":
            it has ended without a report.
    """

    ident: str
    drill: str
    user: str
    seconds: float
    seed: int | None
    began: datetime
    state: str
    has_picture: bool
    output: str
    report: dict[str, Any] | None


class DrillRuns:
    """The runs of which a directory has the files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def drills(self) -> list[dict[str, Any]]:
        """Which drills there are: name, what each does. Blocks; SqlError 58000 when that cannot be said."""
        return _listed(tuple(PROGRAM))

    def begin(self, drill: str, user: str, url: str, commands: str, *, seconds: int, seed: int | None) -> str:
        """Begin a run; its ident. Blocks.

        Raises:
            SqlError: 55006, one runs already; 58030, its files cannot be written.
        """
        if any(run.state == "running" for run in self.runs()):
            raise SqlError("55006", "a drill runs already", hint="Stop it, or wait for its end.")
        ident = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{drill}"
        place = self._directory / ident
        command = [*PROGRAM, "drill", drill, "--url", url, "--commands", commands, "--seconds", str(seconds)]
        command += ["--report", str(place / "report.json"), "--picture", str(place / "picture.svg")]
        command += ["--history", str(place / "history.jsonl")]
        command += [] if seed is None else ["--seed", str(seed)]
        try:
            place.mkdir(parents=True)
            with (place / "output.txt").open("wb") as output:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            wish = {"drill": drill, "user": user, "seconds": seconds, "seed": seed, "pid": process.pid}
            wish["started"] = _started(process.pid)
            (place / "run.json").write_text(json.dumps(wish))
        except OSError as error:
            raise SqlError("58030", f"a drill cannot be begun: {error}") from error
        threading.Thread(target=process.wait, daemon=True, name=f"drill {ident}").start()
        return ident

    def runs(self) -> list[ConsoleDrill]:
        """The newest runs, newest first. Blocks."""
        try:
            names = sorted((one.name for one in self._directory.iterdir()), reverse=True)
        except FileNotFoundError:
            return []
        found = (self._run(name) for name in names if _RUN.fullmatch(name))
        return [
            run for run, _ in zip((one for one in found if one is not None), range(_MAX_RUNS), strict=False)
        ]

    def find(self, ident: str) -> ConsoleDrill:
        """One of them. SqlError 42704."""
        found = self._run(ident) if _RUN.fullmatch(ident) else None
        if found is None:
            raise SqlError("42704", "there is no such run of a drill")
        return found

    def stop(self, ident: str) -> None:
        """Have it end in order, as Ctrl-C does: it undoes its fault first. SqlError 42704, 55000."""
        run = self.find(ident)
        if run.state != "running":
            raise SqlError("55000", "it has ended already")
        os.kill(int(self._wish(ident)["pid"]), signal.SIGINT)

    def file(self, ident: str, name: Literal["picture.svg", "report.json", "output.txt"]) -> bytes:
        """One of its files. SqlError 42704."""
        self.find(ident)
        try:
            return (self._directory / ident / name).read_bytes()
        except OSError as error:
            raise SqlError("42704", f"it has no {name}") from error

    def _wish(self, ident: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._directory / ident / "run.json").read_text())
        return found

    def _run(self, ident: str) -> ConsoleDrill | None:
        place = self._directory / ident
        try:
            wish = self._wish(ident)
        except (OSError, ValueError):
            return None
        report = _report(place / "report.json")
        if _started(int(wish["pid"])) == wish["started"]:
            state = "running"
        else:
            state = "broken" if report is None else str(report.get("state"))
        return ConsoleDrill(
            ident,
            wish["drill"],
            wish["user"],
            wish["seconds"],
            wish["seed"],
            datetime.strptime(ident[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC),
            state,
            (place / "picture.svg").is_file(),
            _tail(place / "output.txt"),
            report,
        )


@functools.cache
def _listed(program: tuple[str, ...]) -> list[dict[str, Any]]:
    command = [*program, "drill", "list", "--json"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=_LIST_S)
    try:
        return list(json.loads(done.stdout))
    except ValueError as error:
        raise SqlError("58000", "the drills cannot be listed", detail=_end(done.stderr)) from error


def _started(pid: int) -> int | None:
    """When a process began, in ticks since the machine did; None: it is not there, or is over."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _report(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > _MAX_REPORT_BYTES:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _TAIL_BYTES, 0))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _end(data: bytes) -> str:
    return data[-500:].decode(errors="replace").strip()

"""One drill for the command line: what is wanted of it, where it happens, its progress, report and files."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from herdpy.cli.errors import USAGE, CliError

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from herdpy.drill.control import ClusterControl
    from herdpy.drill.drills import Drill, DrillResult
    from herdpy.drill.report import DrillReport
    from herdpy.drill.runner import DrillProgress

SHOWS_NOTHING = 3


@dataclass(frozen=True)
class DrillOptions:
    """How a drill is to be run; None is as the drill itself says."""

    url: str | None = None
    commands: Path | None = None
    seconds: float | None = None
    seed: int | None = None
    clients: int | None = None
    rate: float | None = None


@dataclass(frozen=True)
class DrillFiles:
    """What is to be written."""

    report: Path | None = None
    picture: Path | None = None
    history: Path | None = None

    def check(self) -> None:
        """Whether they can be written, before a drill takes minutes. Raises CliError."""
        for path in (self.report, self.picture, self.history):
            if path is not None and not path.absolute().parent.is_dir():
                raise CliError(f"there is no directory {path.parent} for {path.name}", code=USAGE)


def carry_out(
    drill: Drill, control: ClusterControl | None, wanted: DrillOptions, files: DrillFiles
) -> DrillReport:
    """Run it on the cluster that `control` has, or on one of its own; write what is wanted of it."""
    from herdpy.drill.report import DrillReport
    from herdpy.drill.runner import ClientLoad, run

    load = ClientLoad()
    load = replace(
        load,
        per_job=load.per_job if wanted.clients is None else wanted.clients,
        rate_per_s=load.rate_per_s if wanted.rate is None else wanted.rate,
    )
    with _Progress(drill.name) as progress:
        result = run(
            drill,
            control=control,
            seconds=wanted.seconds,
            seed=wanted.seed,
            load=load,
            on_progress=progress.tell,
        )
        kept = _keep(result, files.history)
        report = DrillReport.of(result, replay=_replay(result, wanted), history_file=kept)
    write(report, files)
    return report


def _keep(result: DrillResult, file: Path | None) -> str | None:
    """Write the history where it is wanted, that of a violation in any case; where it is, if it is kept."""
    from herdpy.drill.judged import HistoryOrigin

    drill = result.drill
    if file is None and result.valid:
        return None
    file = Path(f"{drill.name}-{result.seed}.jsonl") if file is None else file
    HistoryOrigin(drill.name, drill.explanation, result.seed, result.setting).write(result.history)
    result.history.save(file)
    return str(file)


def _replay(result: DrillResult, wanted: DrillOptions) -> list[str]:
    """The command that lets clients and faults decide the same again."""
    command = ["herdpy", "drill", result.drill.name, "--seed", str(result.seed)]
    for flag, value in (
        ("--seconds", None if wanted.seconds is None else f"{wanted.seconds:g}"),
        ("--clients", wanted.clients),
        ("--rate", None if wanted.rate is None else f"{wanted.rate:g}"),
        ("--url", wanted.url),
        ("--commands", wanted.commands),
    ):
        command += [] if value is None else [flag, str(value)]
    return command


def write(report: DrillReport, files: DrillFiles) -> None:
    """Write the report and the picture where they are wanted."""
    if files.report is not None:
        files.report.write_text(jsonlib.dumps(report.to_json(), indent=2) + "\n")
    if files.picture is not None:
        from herdpy.drill.picture import picture_of

        files.picture.write_text(picture_of(report), encoding="utf-8")


def control_of(wanted: DrillOptions) -> ClusterControl | None:
    """Who does faults to the cluster of --url; None: each drill makes a cluster of its own.

    Raises CliError for a URL or a file of commands that is wrong.
    """
    if wanted.url is None and wanted.commands is None:
        return None
    if wanted.url is None:
        raise CliError("--commands is for a cluster of yours: give its --url, too", code=USAGE)
    if wanted.commands is None:
        hint = "docs/drills.md tells of --commands FILE; without --url the drill makes a cluster of its own."
        raise CliError("how to kill, pause and cut the processes there is not known", hint=hint, code=USAGE)
    from herdpy.dbapi import url as urls
    from herdpy.dbapi.errors import Error
    from herdpy.drill.control.commands import CommandControl, CommandFile, CommandFileError

    try:
        if not isinstance(urls.parse(wanted.url), urls.Server):
            raise CliError(f"{wanted.url} names a directory, and drills are for clusters", code=USAGE)
        return CommandControl(wanted.url, CommandFile.load(wanted.commands))
    except Error as error:
        raise CliError(error.message, hint=error.hint, code=USAGE) from error
    except CommandFileError as error:
        raise CliError(str(error), code=USAGE) from error


@contextmanager
def errors() -> Iterator[None]:
    """Failures in words that say what to do next."""
    try:
        yield
    except (CliError, typer.Exit):
        raise
    except ImportError as error:
        hint = 'pip install "herdpy[server,remote]" brings what is missing.'
        raise CliError(str(error), hint=hint) from error
    except Exception as error:
        if (told := _in_words(error)) is None:
            raise
        raise told from error


def _in_words(error: Exception) -> CliError | None:
    from herdpy.dev import DevError
    from herdpy.drill.control.control import ControlError
    from herdpy.drill.history import HistoryError
    from herdpy.drill.runner import DrillError
    from herdpy.testing import KitError

    if isinstance(error, HistoryError):
        return CliError(str(error), code=USAGE)
    if isinstance(error, (DrillError, ControlError, DevError, KitError)):
        about = f"the drill could not be carried out: {error}"
        return CliError(about, hint="This says nothing of the database.", code=SHOWS_NOTHING)
    return None


class _Progress:
    """A bar on a terminal: the phase, and how much of the clients' time is over. Silent elsewhere."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def tell(self, progress: DrillProgress) -> None:
        """Show where the drill is."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=progress.done, phase=progress.phase)

    def __enter__(self) -> _Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[phase]}"),
                console=Console(file=sys.stderr),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self._name, total=1.0, phase="")
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

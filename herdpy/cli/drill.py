"""``herdpy drill``: faults on purpose, and a judgement of what clients saw meanwhile.

The commands' signatures first, then one drill over ``herdpy.drill`` (what is wanted of it, where it happens,
its progress, report and files), then how reports are shown. ``herdpy.drill`` is imported when a command runs.
"""

from __future__ import annotations

import difflib
import json as jsonlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from herdpy.cli.errors import FAILED, USAGE, CliError, interruptible, print_note, without_package
from herdpy.cli.output import Bar, write_document, write_table
from herdpy.cli.target import JsonOption, spelled_out

if TYPE_CHECKING:
    from typer._click import Command

    from herdpy.drill.control import ClusterControl
    from herdpy.drill.drills import Drill, DrillResult
    from herdpy.drill.extensions import DrillRegistry
    from herdpy.drill.report import DrillReport, DrillState


HELP = "\n\n".join(
    (
        "Harm a cluster on purpose, and judge the answers that its clients got: failover drills.",
        "Clients of all kinds write and read while a fault is made; every operation is recorded, and the"
        " history is judged: registers are linearizable, nothing acknowledged is lost, nothing happens twice,"
        " all replicas are equal at the end.",
        "Without --url a drill makes a cluster of its own on this machine, and removes it (needs Java 17,"
        " Maven once, and the server extra). `herdpy drill list` lists the drills.",
        "Exit codes: 0 every promise was kept; 1 one was not, or it could not be decided; 2 wrong usage;"
        " 3 the drill shows nothing: its fault cannot be made here, or it could not be carried out.",
    )
)

NAME = "NAME"

Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="A cluster of yours; it needs --commands, too."),
]
Profile = Annotated[str | None, typer.Option("--profile", metavar="NAME", help="The same as --url @NAME.")]
Commands = Annotated[
    Path | None,
    typer.Option(
        "--commands",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="How to kill, pause and cut each process there (TOML).",
    ),
]
Seconds = Annotated[
    float | None, typer.Option("--seconds", min=1.0, metavar="N", help="How long clients run.")
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, metavar="S", help="What clients and faults decide; the report shows it."),
]
Clients = Annotated[
    int | None, typer.Option("--clients", min=1, max=200, metavar="N", help="Clients of each workload.")
]
Rate = Annotated[
    float | None, typer.Option("--rate", min=0.1, metavar="N", help="Operations a second of each client.")
]
Workloads = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        metavar="W",
        help="Instead of the drill's own; may be repeated. Of a package that is not installed: MODULE:CLASS.",
    ),
]
ReportFile = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write the report as JSON, too.")
]
PictureFile = Annotated[Path | None, typer.Option("--picture", metavar="FILE", help="Draw it (SVG).")]
HistoryFile = Annotated[
    Path | None, typer.Option("--history", metavar="FILE", help="Keep every operation (JSON lines).")
]
SHOWS_NOTHING = 3


class DrillGroup(TyperGroup):
    """The group takes the name of any drill for a command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """What is no command, and no option, is the NAME of the command of that name."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            return "", self.commands[NAME], args
        return super().resolve_command(ctx, args)


def run_command(
    name: Annotated[str, typer.Argument(metavar=NAME, help="Which drill: see herdpy drill list.")],
    url: Url = None,
    profile: Profile = None,
    seconds: Seconds = None,
    seed: Seed = None,
    commands: Commands = None,
    clients: Clients = None,
    rate: Rate = None,
    workload: Workloads = None,
    report: ReportFile = None,
    picture: PictureFile = None,
    history: HistoryFile = None,
    json: JsonOption = False,
) -> None:
    """Run the drill of that name.

    The report goes to standard output. When a promise was broken it ends with the smallest history that shows
    it and the command that does the same again, and the whole history is kept in a file.

    \b
    Examples:
      herdpy drill kill-leader
      herdpy drill pause-leader --seconds 20 --picture pause.svg --report pause.json
      herdpy drill storm --seed 17
      herdpy drill kill-leader --workload queue --workload bank
      herdpy drill kill-bookie --url herdpy://db1,db2,db3/herdpy --commands cluster.toml
    """
    wanted = DrillOptions(
        spelled_out(url, profile), commands, seconds, seed, clients, rate, tuple(workload or ()), name
    )
    run(name, wanted, DrillFiles(report, picture, history), json=json)


def list_command(json: JsonOption = False) -> None:
    """Show which drills there are, and what each does.

    \b
    Examples:
      herdpy drill list
      herdpy drill list --json
    """
    show_list(json=json)


def all_command(
    url: Url = None,
    profile: Profile = None,
    seconds: Seconds = None,
    seed: Seed = None,
    commands: Commands = None,
    clients: Clients = None,
    rate: Rate = None,
    report: ReportFile = None,
    pictures: Annotated[
        Path | None, typer.Option("--pictures", metavar="DIR", help="A picture of each drill in it.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run every drill, one after the other, and sum them up, with those that cannot be made here.

    A line for each goes to standard output when it has ended. The histories of those that broke a promise are
    kept, as by the drill alone. --report writes one document with all reports.

    \b
    Examples:
      herdpy drill all
      herdpy drill all --seconds 15 --pictures drills/ --report drills.json
      herdpy drill all --url herdpy://db1,db2,db3/herdpy --commands cluster.toml
    """
    wanted = DrillOptions(spelled_out(url, profile), commands, seconds, seed, clients, rate)
    run_all(wanted, report, pictures, json=json)


def judge_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="HISTORY", exists=True, dir_okay=False, help="A file that --history has written."
        ),
    ],
    report: ReportFile = None,
    picture: PictureFile = None,
    json: JsonOption = False,
) -> None:
    """Judge a history again, from its file: with another version, or to draw it.

    What was seen of the cluster itself (rests in ZooKeeper and bookies) is not in a history, and not judged.

    \b
    Examples:
      herdpy drill judge pause-leader-17.jsonl
      herdpy drill judge pause-leader-17.jsonl --picture pause-leader-17.svg
    """
    judge(file, DrillFiles(report, picture, None), json=json)


COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (
    (NAME, run_command),
    ("list", list_command),
    ("all", all_command),
    ("judge", judge_command),
)


@dataclass(frozen=True)
class DrillOptions:
    """How a drill is to be run; None, and no workload, is as the drill itself says.

    name: of the drill as the user wrote it, when it is one drill.
    """

    url: str | None = None
    commands: Path | None = None
    seconds: float | None = None
    seed: int | None = None
    clients: int | None = None
    rate: float | None = None
    workloads: tuple[str, ...] = ()
    name: str | None = None


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
    drill: Drill, control: ClusterControl | None, options: DrillOptions, files: DrillFiles
) -> DrillReport:
    """Run it on the cluster that `control` has, or on one of its own; write the files."""
    from herdpy.drill.report import DrillReport
    from herdpy.drill.runner import ClientLoad, run

    load = ClientLoad()
    load = replace(
        load,
        per_job=load.per_job if options.clients is None else options.clients,
        rate_per_s=load.rate_per_s if options.rate is None else options.rate,
    )
    with Bar(drill.name, transient=True) as bar:
        result = run(
            drill,
            control=control,
            seconds=options.seconds,
            seed=options.seed,
            load=load,
            on_progress=lambda progress: bar.show(progress.done, 1.0, progress.phase),
        )
        kept = _keep(result, files.history)
        report = DrillReport.of(result, replay=_replay(result, options), history_file=kept)
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


def _replay(result: DrillResult, options: DrillOptions) -> list[str]:
    """The command that lets clients and faults decide the same again."""
    command = ["herdpy", "drill", options.name or result.drill.name, "--seed", str(result.seed)]
    for flag, value in (
        ("--seconds", None if options.seconds is None else f"{options.seconds:g}"),
        ("--clients", options.clients),
        ("--rate", None if options.rate is None else f"{options.rate:g}"),
        ("--url", options.url),
        ("--commands", options.commands),
    ):
        command += [] if value is None else [flag, str(value)]
    for workload in options.workloads:
        command += ["--workload", workload]
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
        hint = "See docs/drills.md for --commands FILE; without --url the drill makes a cluster of its own."
        raise CliError("how to kill, pause and cut the processes there is not known", hint=hint, code=USAGE)
    from herdpy.dbapi import url as urls
    from herdpy.dbapi.errors import Error
    from herdpy.drill.control.commands import CommandControl, CommandFile, CommandFileError

    try:
        if not isinstance(urls.parse(wanted.url), urls.ServersUrl):
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
        raise without_package(error, "server") or error from error
    except Exception as error:
        if (readable := _in_words(error)) is None:
            raise
        raise readable from error


def _in_words(error: Exception) -> CliError | None:
    from herdpy.dev import DevError
    from herdpy.drill.control.control import ControlError
    from herdpy.drill.extensions import ExtensionError
    from herdpy.drill.history import HistoryError
    from herdpy.drill.runner import DrillError
    from herdpy.testing import KitError

    if isinstance(error, (HistoryError, ExtensionError)):
        return CliError(str(error), code=USAGE)
    if isinstance(error, (DrillError, ControlError, DevError, KitError)):
        about = f"the drill could not be carried out: {error}"
        return CliError(about, hint="The database was not judged.", code=SHOWS_NOTHING)
    return None


def run(name: str, wanted: DrillOptions, files: DrillFiles, *, json: bool) -> None:
    """Run one drill and show it."""
    with errors():
        drill = _drill(name)
        if wanted.workloads:
            drill = _with_workloads(drill, wanted.workloads)
        files.check()
        control = control_of(wanted)
        with interruptible():
            report = carry_out(drill, control, wanted, files)
    _show(report, json=json)
    _end([report.state])


def show_list(*, json: bool) -> None:
    """Which drills there are."""
    with errors():
        drills = [*_drills().values(), *_extensions()]
    if json:
        rows = [
            {
                "name": drill.name,
                "explanation": drill.explanation,
                "faults": list(drill.faults),
                "workloads": list(drill.workloads),
                "seconds": drill.seconds,
            }
            for drill in drills
        ]
        write_document(rows)
        return
    shown = [(drill.name, f"{drill.seconds:g} s", drill.explanation) for drill in drills]
    write_table(("drill", "clients run", "what is done, and what must not come of it"), shown, sys.stdout)


def run_all(wanted: DrillOptions, report_file: Path | None, pictures: Path | None, *, json: bool) -> None:
    """Run every drill, and show a line of each."""
    reports: list[DrillReport] = []
    failed: list[tuple[str, str]] = []
    with errors(), interruptible():
        from herdpy.drill.runner import DrillError

        DrillFiles(report=report_file).check()
        if pictures is not None:
            pictures.mkdir(parents=True, exist_ok=True)
        control = control_of(wanted)
        for drill in _drills().values():
            picture = None if pictures is None else pictures / f"{drill.name}.svg"
            try:
                report = carry_out(drill, control, wanted, DrillFiles(picture=picture))
            except DrillError as error:
                failed.append((drill.name, str(error)))
                print_note(f"{drill.name}: could not be carried out: {error}")
                continue
            reports.append(report)
            if not json:
                sys.stdout.write(_line(report) + "\n")
                sys.stdout.flush()
    document = _document(reports, failed)
    if report_file is not None:
        report_file.write_text(jsonlib.dumps(document, indent=2) + "\n")
    if json:
        write_document(document)
    else:
        _sum_up(reports, failed)
    _end([report.state for report in reports], could_not=bool(failed), many=True)


def judge(file: Path, files: DrillFiles, *, json: bool) -> None:
    """Judge a history from its file, and show that."""
    with errors():
        from herdpy.drill.history import DrillHistory
        from herdpy.drill.report import DrillReport

        files.check()
        report = DrillReport.again(DrillHistory.load(file), str(file))
        write(report, files)
    _show(report, json=json)
    _end([report.state])


def _show(report: DrillReport, *, json: bool) -> None:
    from herdpy.drill.report import report_text

    sys.stdout.write(jsonlib.dumps(report.to_json(), indent=2) + "\n" if json else report_text(report))


# All drills.


def _line(report: DrillReport) -> str:
    """One drill in one line."""
    from herdpy.drill import words
    from herdpy.drill.timeline import WRITE

    if report.was_skipped:
        reasons = "; ".join(dict.fromkeys(reason for _what, reason in report.skipped))
        return f"{report.state.value.upper():<9}  {report.drill}: {reasons}"
    gap = report.timeline.gaps[WRITE]
    silence = "" if gap is None else f", {words.seconds(gap.seconds)} without a write"
    head = (
        f"{report.state.value.upper():<9}  {report.drill}: {report.timeline.operations:,} operations{silence}"
    )
    broken = ", ".join(f"{verdict.name} ({', '.join(verdict.kinds)})" for verdict in report.violations)
    return f"{head}{'; broken: ' if broken else ''}{broken}"


def _sum_up(reports: Sequence[DrillReport], failed: Sequence[tuple[str, str]]) -> None:
    counts: dict[str, int] = {}
    for report in reports:
        counts[report.state.value] = counts.get(report.state.value, 0) + 1
    if failed:
        counts["not carried out"] = len(failed)
    sys.stdout.write(", ".join(f"{count} {state}" for state, count in counts.items()) + "\n")
    for report in reports:
        if report.violations:
            sys.stdout.write(f"{report.drill}: {report.replay_command} (history: {report.history_file})\n")


def _document(reports: Sequence[DrillReport], failed: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "drills": [report.to_json() for report in reports],
        "not_carried_out": [{"drill": name, "error": error} for name, error in failed],
    }


def _end(states: Sequence[DrillState], *, could_not: bool = False, many: bool = False) -> None:
    """End with the exit code that the states are worth. Of `many`, one that is skipped does no harm."""
    from herdpy.drill.report import DrillState

    if DrillState.VIOLATED in states or DrillState.UNDECIDED in states:
        raise typer.Exit(FAILED)
    shown = [state for state in states if state is DrillState.VALID]
    if could_not or not shown or (DrillState.SKIPPED in states and not many):
        raise typer.Exit(SHOWS_NOTHING)


# What is needed.


def _drills() -> DrillRegistry[Drill]:
    from herdpy.drill.drills import DRILLS

    return DRILLS


def _extensions() -> Iterator[Drill]:
    """The drills of other packages; of one that cannot be imported there is a note."""
    from herdpy.drill.extensions import ExtensionError

    drills = _drills()
    for name in drills.extensions():
        try:
            yield drills[name]
        except ExtensionError as error:
            print_note(str(error))


def _drill(name: str) -> Drill:
    drills = _drills()
    if ":" in name or drills.extension(name) is not None:
        return drills[name]
    near = difflib.get_close_matches(name, drills, n=2, cutoff=0.8)
    hint = f"Did you mean {' or '.join(near)}?" if near else "herdpy drill list shows them."
    raise CliError(f"there is no drill {name}", hint=hint, code=USAGE)


def _with_workloads(drill: Drill, names: Sequence[str]) -> Drill:
    """The drill under these workloads. Raises ExtensionError."""
    from herdpy.drill.workloads import WORKLOADS

    kinds = [WORKLOADS[name] for name in names]
    return replace(drill, workloads=tuple(dict.fromkeys(kind.name for kind in kinds)))

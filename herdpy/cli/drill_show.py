"""What ``herdpy drill`` does over ``herdpy.drill``, and how it shows a report."""

from __future__ import annotations

import difflib
import json as jsonlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from herdpy.cli.drill_run import SHOWS_NOTHING, DrillFiles, DrillOptions, carry_out, control_of, errors, write
from herdpy.cli.errors import FAILED, USAGE, CliError, tell
from herdpy.cli.output import write_table
from herdpy.cli.signals import interruptible

if TYPE_CHECKING:
    from herdpy.drill.drills import Drill
    from herdpy.drill.report import DrillReport, DrillState


def run(name: str, wanted: DrillOptions, files: DrillFiles, *, json: bool) -> None:
    """Run one drill and show it."""
    with errors():
        drill = _drill(name)
        files.check()
        control = control_of(wanted)
        with interruptible():
            report = carry_out(drill, control, wanted, files)
    _show(report, json=json)
    _end([report.state])


def show_list(*, json: bool) -> None:
    """Which drills there are."""
    with errors():
        drills = _drills()
    if json:
        rows = [
            {
                "name": drill.name,
                "explanation": drill.explanation,
                "faults": list(drill.faults),
                "workloads": list(drill.workloads),
                "seconds": drill.seconds,
            }
            for drill in drills.values()
        ]
        sys.stdout.write(jsonlib.dumps(rows, indent=2) + "\n")
        return
    shown = [(drill.name, f"{drill.seconds:g} s", drill.explanation) for drill in drills.values()]
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
                tell(f"{drill.name}: could not be carried out: {error}")
                continue
            reports.append(report)
            if not json:
                sys.stdout.write(_line(report) + "\n")
                sys.stdout.flush()
    document = _document(reports, failed)
    if report_file is not None:
        report_file.write_text(jsonlib.dumps(document, indent=2) + "\n")
    if json:
        sys.stdout.write(jsonlib.dumps(document, indent=2) + "\n")
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
    told = (
        f"{report.state.value.upper():<9}  {report.drill}: {report.timeline.operations:,} operations{silence}"
    )
    broken = ", ".join(f"{verdict.name} ({', '.join(verdict.kinds)})" for verdict in report.violations)
    return f"{told}{'; broken: ' if broken else ''}{broken}"


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


def _drills() -> Mapping[str, Drill]:
    from herdpy.drill.drills import DRILLS

    return DRILLS


def _drill(name: str) -> Drill:
    drills = _drills()
    if name in drills:
        return drills[name]
    near = difflib.get_close_matches(name, drills, n=2, cutoff=0.8)
    hint = f"Did you mean {' or '.join(near)}?" if near else "herdpy drill list tells which there are."
    raise CliError(f"there is no drill {name}", hint=hint, code=USAGE)

"""A report as text: some thirty lines that say what happened, what was found, and how to see it again."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from herdpy.drill import words
from herdpy.drill.history import Operation, Outcome
from herdpy.drill.report import Report
from herdpy.drill.timeline import NOTE, PHASES, WRITE, FaultSpan, Reign, Timeline

_EVENTS = 16
_ANOMALIES = 3
_OPERATIONS = 14
_WIDTH = 110
_LABEL = 42


def report_text(report: Report) -> str:
    """The report, with a line end."""
    return "\n".join(line.rstrip() for line in _lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    line = report.timeline
    seed = "" if report.seed is None else f", seed {report.seed}"
    yield f"{report.drill}{seed}: {report.state.value.upper()}"
    if report.about:
        yield f"  {report.about}"
    yield from _wrapped(", ".join([words.seconds(line.seconds), *report.setting]), "  ")
    yield f"  {operations_words(line)}"
    yield ""
    yield from _events(report)
    yield ""
    yield from _gaps(line)
    yield ""
    yield from _latencies(line)
    yield ""
    yield from _verdicts(report)
    if report.violations:
        yield ""
        yield from _evidence(report)
    if report.history_file:
        yield ""
        yield f"history: {report.history_file}"
    if report.replay and report.violations:
        yield f"replay:  {report.replay_command}"


def operations_words(line: Timeline) -> str:
    """How many operations there were, and what became of them."""
    parts = [f"{line.counts[outcome]:,} {outcome.value}" for outcome in Outcome if line.counts[outcome]]
    return f"{words.counted(line.operations, 'operation')}{': ' if parts else ''}{', '.join(parts)}"


def unknown_words(line: Timeline) -> str:
    """What became of the unknown outcomes."""
    if not line.unknown:
        return "none"
    done, not_done, never = (line.resolved(one) for one in (Outcome.DONE, Outcome.NOT_DONE, None))
    return f"{len(line.unknown)}, of which found later: {done} done, {not_done} not done; never told: {never}"


def _events(report: Report) -> Iterator[str]:
    line = report.timeline
    told = [(reign.begin_s, 1, _reign(reign)) for reign in line.reigns]
    for fault in line.faults:
        told.append((fault.begin_s, 0, f"{fault.name} begins{_after(fault.text)}"))
        if fault.end_s is not None:
            told.append(
                (fault.end_s, 0, f"{fault.name} is over{_after(fault.ended)}{_without_writes(fault)}")
            )
    is_told = {f"{fault.name}: {fault.text}" for fault in line.faults}
    told += [
        (event.at_s, 2, event.text)
        for event in report.history.events
        if event.kind == NOTE and event.text not in is_told
    ]
    told.sort()
    if not told:
        yield "nothing happened to the cluster"
    left_out = len(told) - _EVENTS
    shown: list[tuple[float, int, str] | None] = list(told)
    if left_out > 1:
        shown[_EVENTS - 4 : -3] = [None]
    for one in shown:
        if one is None:
            yield f"{'…':>10}  {left_out + 1} more (--report has all)"
        else:
            yield from _wrapped(one[2], f"{words.moment(one[0]):>10}  ")
    for left, reason in report.skipped:
        yield from _wrapped(f"{left}: {reason}", "   skipped  ")


def _without_writes(fault: FaultSpan) -> str:
    gap = fault.write_gap
    return "" if gap is None else f" (longest without an acknowledged write: {words.seconds(gap.seconds)})"


def _after(text: str | None) -> str:
    return f": {text}" if text else ""


def _reign(reign: Reign) -> str:
    return "nobody leads" if reign.server is None else f"{reign.server} leads"


def _gaps(line: Timeline) -> Iterator[str]:
    for kind in line.kinds:
        gap = line.gaps[kind]
        label = (
            "longest without an acknowledged write"
            if kind == WRITE
            else f"longest without an answered {kind}"
        )
        if gap is None:
            yield f"{label:<{_LABEL}} none was tried"
        else:
            span = f"{words.moment(gap.begin_s)} to {words.moment(gap.end_s)}"
            yield f"{label:<{_LABEL}} {words.seconds(gap.seconds)}  ({span})"
    yield f"{'outcomes that stayed unknown at first':<{_LABEL}} {unknown_words(line)}"


def _latencies(line: Timeline) -> Iterator[str]:
    rows: list[Sequence[str]] = [("", "", "a second", "p50", "p99", "slowest")]
    for kind in line.kinds:
        for number, phase in enumerate(one for one in PHASES if one in line.latencies):
            found = line.latencies[phase][kind]
            times = [words.seconds(value) for value in (found.p50_s, found.p99_s, found.max_s)]
            rows.append(("" if number else f"{kind}s", phase, f"{found.per_second:,.0f}", *times))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells)


def _verdicts(report: Report) -> Iterator[str]:
    width = max((len(verdict.name) for verdict in report.verdicts), default=0)
    if not report.verdicts:
        yield "nothing was judged"
    for verdict in report.verdicts:
        yield f"{'ok      ' if verdict.valid else 'VIOLATED'}  {verdict.name:<{width}}  {verdict.summary}"
        for anomaly in verdict.anomalies[:_ANOMALIES]:
            yield from _wrapped(f"{anomaly.kind}: {anomaly.text}", " " * (12 + width))
        if len(verdict.anomalies) > _ANOMALIES:
            yield f"{' ' * (12 + width)}{len(verdict.anomalies) - _ANOMALIES} more (--report has all)"


def _evidence(report: Report) -> Iterator[str]:
    if not report.smallest:
        return
    yield f"the smallest history that shows it{': ' if report.about_smallest else ''}{report.about_smallest}"
    rows = [_row(number, one) for number, one in enumerate(report.smallest[:_OPERATIONS], 1)]
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    for row in rows:
        head = "  ".join(cell.rjust(width) for cell, width in zip(row[:3], widths[:3], strict=True))
        yield f"  {head}  {row[3]:<{widths[3]}}  {row[4]}"
    if len(report.smallest) > _OPERATIONS:
        yield f"  {len(report.smallest) - _OPERATIONS} more operations (--report has all)"


def _row(number: int, one: Operation) -> tuple[str, str, str, str, str]:
    span = f"{one.called_s:.3f} to {one.returned_s:.3f} s"
    return str(number), words.client(one), span, words.operation(one), words.outcome(one)


def _wrapped(text: str, head: str) -> Iterable[str]:
    """The text behind its head, on as many lines as it takes."""
    width = max(_WIDTH, len(head) + 40)
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head))

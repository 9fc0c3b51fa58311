"""What a drill has shown, as one document: the facts of its timeline, the verdicts, and how to see it again.

Layer: above timeline and judged, below the command line. `to_json` is the report that scripts read, its
schema is in docs/drills.md; `report_text` makes of it some thirty lines of text, and `picture` a picture.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from herdpy.drill import words
from herdpy.drill.drills import DrillResult
from herdpy.drill.history import ClientOperation, DrillHistory, Json, OperationOutcome
from herdpy.drill.judged import HistoryOrigin, judge_again, smallest_of
from herdpy.drill.judging import UNDECIDED, Verdict
from herdpy.drill.timeline import NOTE, PHASES, WRITE, FaultSpan, Gap, Latency, Reign, Timeline, timeline_of

FORMAT = 1


class DrillState(StrEnum):
    """How a drill ended, in one word.

    UNDECIDED: no promise was seen broken, but a checker came to the end of its means.
    SKIPPED: nothing could be shown here, because no fault could be made, or nothing was judged.
    """

    VALID = "valid"
    VIOLATED = "violated"
    UNDECIDED = "undecided"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class DrillReport:
    """Everything that is reported of one run of one drill.

    about: what the drill does, one line.
    seed: what decided what clients and faults do; None for a history whose seed is not known.
    skipped: faults that could not be made, and other things left out, each with the reason.
    was_skipped: no fault could be made, so that the drill shows nothing.
    setting: words about the cluster and the clients, for the head line.
    smallest: of a violation, the fewest operations that show it; see `about_smallest`.
    replay: the command that does the same again.
    history_file: where the history is kept, if it is.
    """

    drill: str
    about: str
    seed: int | None
    history: DrillHistory
    verdicts: Sequence[Verdict]
    timeline: Timeline
    setting: Sequence[str] = ()
    skipped: Sequence[tuple[str, str]] = ()
    was_skipped: bool = False
    smallest: Sequence[ClientOperation] = ()
    about_smallest: str = ""
    replay: Sequence[str] = ()
    history_file: str | None = None

    @classmethod
    def of(
        cls, result: DrillResult, *, replay: Sequence[str] = (), history_file: str | None = None
    ) -> DrillReport:
        """The report of a drill that was just run. `replay`: the command, if it had more than a seed."""
        drill = result.drill
        smallest, about = smallest_of(result.history, result.verdicts)
        return cls(
            drill=drill.name,
            about=drill.explanation,
            seed=result.seed,
            history=result.history,
            verdicts=result.verdicts,
            timeline=timeline_of(result.history),
            setting=result.setting,
            skipped=result.skipped,
            was_skipped=result.was_skipped,
            smallest=smallest,
            about_smallest=about,
            replay=replay or ("herdpy", "drill", drill.name, "--seed", str(result.seed)),
            history_file=history_file,
        )

    @classmethod
    def again(cls, history: DrillHistory, history_file: str) -> DrillReport:
        """The report of a history from a file, judged anew."""
        origin, verdicts = HistoryOrigin.read(history), judge_again(history)
        smallest, about = smallest_of(history, verdicts)
        return cls(
            drill=origin.drill,
            about=origin.about,
            seed=origin.seed,
            history=history,
            verdicts=verdicts,
            timeline=timeline_of(history),
            setting=origin.setting,
            smallest=smallest,
            about_smallest=about,
            replay=("herdpy", "drill", "judge", history_file),
            history_file=history_file,
        )

    @property
    def state(self) -> DrillState:
        """How it ended."""
        kinds = {kind for verdict in self.violations for kind in verdict.kinds or [verdict.name]}
        if kinds - {UNDECIDED}:
            return DrillState.VIOLATED
        if kinds:
            return DrillState.UNDECIDED
        return DrillState.SKIPPED if self.was_skipped or not self.verdicts else DrillState.VALID

    @property
    def violations(self) -> list[Verdict]:
        """The verdicts that are not valid."""
        return [verdict for verdict in self.verdicts if not verdict.valid]

    @property
    def replay_command(self) -> str:
        """The replay as one writes it in a shell."""
        return shlex.join(self.replay)

    def to_json(self) -> dict[str, Json]:
        """The report as docs/drills.md describes it."""
        line = self.timeline
        return {
            "format": FORMAT,
            "drill": self.drill,
            "about": self.about,
            "seed": self.seed,
            "state": self.state.value,
            "setting": list(self.setting),
            "seconds": line.seconds,
            "clients": line.clients,
            "operations": {outcome.value: line.counts[outcome] for outcome in OperationOutcome},
            "phases": [
                {
                    "name": name,
                    "begin_s": begin_s,
                    "end_s": end_s,
                    **{kind: _latency(one) for kind, one in line.latencies[name].items()},
                }
                for name, (begin_s, end_s) in line.phases.items()
            ],
            "leaders": [
                {"server": one.server, "begin_s": one.begin_s, "end_s": one.end_s} for one in line.reigns
            ],
            "faults": [
                {
                    "name": one.name,
                    "text": one.text,
                    "begin_s": one.begin_s,
                    "end_s": one.end_s,
                    "write_gap": _gap(one.write_gap),
                    "felt": one.felt.to_json(),
                }
                for one in line.faults
            ],
            "notes": [
                {"at_s": event.at_s, "text": event.text}
                for event in self.history.events
                if event.kind == NOTE
            ],
            "skipped": [{"fault": fault, "reason": reason} for fault, reason in self.skipped],
            "longest_gap": {kind: _gap(gap) for kind, gap in line.gaps.items()},
            "felt": line.felt.to_json(),
            "unknown": [one.to_json() for one in line.unknown],
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
            "smallest_history": [one.to_json() for one in self.smallest],
            "history_file": self.history_file,
            "replay": self.replay_command,
        }


def _gap(gap: Gap | None) -> Json:
    return None if gap is None else {"begin_s": gap.begin_s, "end_s": gap.end_s, "seconds": gap.seconds}


def _latency(one: Latency) -> Json:
    return {
        "answered": one.count,
        "per_second": one.per_second,
        "p50_s": one.p50_s,
        "p99_s": one.p99_s,
        "max_s": one.max_s,
    }


_EVENTS = 16
_ANOMALIES = 3
_OPERATIONS = 14
_WIDTH = 110
_LABEL = 42


def report_text(report: DrillReport) -> str:
    """The report, with a line end."""
    return "\n".join(line.rstrip() for line in _lines(report)) + "\n"


def _lines(report: DrillReport) -> Iterator[str]:
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
    parts = [
        f"{line.counts[outcome]:,} {outcome.value}" for outcome in OperationOutcome if line.counts[outcome]
    ]
    return f"{words.counted(line.operations, 'operation')}{': ' if parts else ''}{', '.join(parts)}"


def unknown_words(line: Timeline) -> str:
    """What became of the unknown outcomes."""
    if not line.unknown:
        return "none"
    done, not_done, never = (
        line.resolved(one) for one in (OperationOutcome.DONE, OperationOutcome.NOT_DONE, None)
    )
    return (
        f"{len(line.unknown)}, of which found later: {done} done, {not_done} not done; never"
        f" resolved: {never}"
    )


def felt_words(line: Timeline) -> str:
    """How long clients waited for their next acknowledged write around faults."""
    felt = line.felt
    p50, p99, longest = (words.seconds(value) for value in (felt.p50_s, felt.p99_s, felt.max_s))
    return f"p50 {p50}, p99 {p99}, worst {longest}"


def felt_bins_words(line: Timeline) -> str:
    """The histogram of these waits, without its empty bins."""
    bins = ", ".join(f"{count:,} {bin_words(end_s)}" for end_s, count in line.felt.bins if count)
    return f"of {words.counted(len(line.felt.waits_s), 'wait')}, one a client and fault: {bins}"


def bin_words(end_s: float | None) -> str:
    """A bin of that histogram: "up to 300 ms", "up to 1.5 s", "more"."""
    if end_s is None:
        return "more"
    return f"up to {end_s * 1000:g} ms" if end_s < 1 else f"up to {end_s:g} s"


def _events(report: DrillReport) -> Iterator[str]:
    line = report.timeline
    listed = [(reign.begin_s, 1, _reign(reign)) for reign in line.reigns]
    for fault in line.faults:
        listed.append((fault.begin_s, 0, f"{fault.name} begins{_after(fault.text)}"))
        if fault.end_s is not None:
            listed.append(
                (fault.end_s, 0, f"{fault.name} is over{_after(fault.ended)}{_without_writes(fault)}")
            )
    is_listed = {f"{fault.name}: {fault.text}" for fault in line.faults}
    listed += [
        (event.at_s, 2, event.text)
        for event in report.history.events
        if event.kind == NOTE and event.text not in is_listed
    ]
    listed.sort()
    if not listed:
        yield "nothing happened to the cluster"
    left_out = len(listed) - _EVENTS
    shown: list[tuple[float, int, str] | None] = list(listed)
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
    if line.felt.waits_s:
        yield f"{'longest wait of a client for a write':<{_LABEL}} {felt_words(line)}"
        yield from _wrapped(felt_bins_words(line), " " * (_LABEL + 1))
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


def _verdicts(report: DrillReport) -> Iterator[str]:
    width = max((len(verdict.name) for verdict in report.verdicts), default=0)
    if not report.verdicts:
        yield "nothing was judged"
    for verdict in report.verdicts:
        yield f"{'ok      ' if verdict.valid else 'VIOLATED'}  {verdict.name:<{width}}  {verdict.summary}"
        for anomaly in verdict.anomalies[:_ANOMALIES]:
            yield from _wrapped(f"{anomaly.kind}: {anomaly.text}", " " * (12 + width))
        if len(verdict.anomalies) > _ANOMALIES:
            yield f"{' ' * (12 + width)}{len(verdict.anomalies) - _ANOMALIES} more (--report has all)"


def _evidence(report: DrillReport) -> Iterator[str]:
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


def _row(number: int, one: ClientOperation) -> tuple[str, str, str, str, str]:
    span = f"{one.called_s:.3f} to {one.returned_s:.3f} s"
    return str(number), words.client(one), span, words.operation(one), words.outcome(one)


def _wrapped(text: str, head: str) -> Iterable[str]:
    """The text behind its head, on as many lines as it takes."""
    width = max(_WIDTH, len(head) + 40)
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head))

"""What came of many drills: a table to read, and the same as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from herdpy.drill.history import OperationOutcome
from herdpy.drill.report import DrillReport, DrillState

_HEAD = ("drill", "runs", "verdicts", "faults", "done", "unknown", "no write", "no read", "seeds")
_SEEDS = 4


@dataclass(frozen=True)
class Run:
    """One run of one drill. no_write_s, no_read_s: the longest time that clients tried and none was answered.

    replay: the command that runs it again.
    """

    drill: str
    seed: int | None
    state: DrillState
    seconds: float
    faults: int
    counts: dict[str, int]
    no_write_s: float | None
    no_read_s: float | None
    broken: list[str]
    replay: str

    @classmethod
    def of(cls, report: DrillReport) -> Run:
        """The run that a report is of."""
        timeline = report.timeline
        gaps = {kind: None if gap is None else gap.seconds for kind, gap in timeline.gaps.items()}
        return cls(
            report.drill,
            report.seed,
            report.state,
            timeline.seconds,
            len(timeline.faults),
            {str(outcome): count for outcome, count in timeline.counts.items()},
            gaps.get("write"),
            gaps.get("read"),
            [verdict.name for verdict in report.violations],
            " ".join(report.replay),
        )


class Summary:
    """Runs of drills, in the order in which they came."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def lines(self) -> list[str]:
        """A row of each drill, under a head; then each run that was not valid, with how to see it again."""
        rows = [_HEAD, *(self._row(name) for name in dict.fromkeys(run.drill for run in self.runs))]
        widths = [max(len(row[place]) for row in rows) for place in range(len(_HEAD))]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        bad = [run for run in self.runs if run.state in (DrillState.VIOLATED, DrillState.UNDECIDED)]
        return table + [f"{run.state}: {', '.join(run.broken)}: {run.replay}" for run in bad]

    def to_json(self) -> dict[str, Any]:
        """All of it: how many runs ended in which state, and each run."""
        states = Counter(str(run.state) for run in self.runs)
        return {"states": dict(states), "runs": [asdict(run) for run in self.runs]}

    def _row(self, name: str) -> tuple[str, ...]:
        runs = [run for run in self.runs if run.drill == name]
        states = Counter(run.state for run in runs)
        seeds = [str(run.seed) for run in runs]
        more = f" and {len(seeds) - _SEEDS} more" if len(seeds) > _SEEDS else ""
        return (
            name,
            str(len(runs)),
            ", ".join(f"{count} {state}" for state, count in states.items()),
            str(sum(run.faults for run in runs)),
            str(sum(run.counts[OperationOutcome.DONE] for run in runs)),
            str(sum(run.counts[OperationOutcome.UNKNOWN] for run in runs)),
            _longest(run.no_write_s for run in runs),
            _longest(run.no_read_s for run in runs),
            " ".join(seeds[:_SEEDS]) + more,
        )


def _longest(seconds: Any) -> str:
    longest = max((one for one in seconds if one is not None), default=None)
    return "-" if longest is None else f"{longest:.1f} s"

"""What a drill has shown, as one document: the facts of its timeline, the verdicts, and how to see it again.

Layer: above timeline and judged, below the command line. `to_json` is the report that scripts read, its
schema is in docs/drills.md; `report_text` and `picture` make of the same what people read.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from herdpy.drill.drill import DrillResult
from herdpy.drill.history import History, Json, Operation, Outcome
from herdpy.drill.judged import Origin, judge_again, smallest_of
from herdpy.drill.judging import UNDECIDED, Verdict
from herdpy.drill.timeline import NOTE, Gap, Latency, Timeline, timeline_of

FORMAT = 1


class State(StrEnum):
    """How a drill ended, in one word.

    UNDECIDED: no promise was seen broken, but a checker came to the end of its means.
    SKIPPED: nothing could be shown here, because no fault could be made, or nothing was judged.
    """

    VALID = "valid"
    VIOLATED = "violated"
    UNDECIDED = "undecided"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Report:
    """Everything that is told of one run of one drill.

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
    history: History
    verdicts: Sequence[Verdict]
    timeline: Timeline
    setting: Sequence[str] = ()
    skipped: Sequence[tuple[str, str]] = ()
    was_skipped: bool = False
    smallest: Sequence[Operation] = ()
    about_smallest: str = ""
    replay: Sequence[str] = ()
    history_file: str | None = None

    @classmethod
    def of(
        cls, result: DrillResult, *, replay: Sequence[str] = (), history_file: str | None = None
    ) -> Report:
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
    def again(cls, history: History, history_file: str) -> Report:
        """The report of a history from a file, judged anew."""
        origin, verdicts = Origin.read(history), judge_again(history)
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
    def state(self) -> State:
        """How it ended."""
        kinds = {kind for verdict in self.violations for kind in verdict.kinds or [verdict.name]}
        if kinds - {UNDECIDED}:
            return State.VIOLATED
        if kinds:
            return State.UNDECIDED
        return State.SKIPPED if self.was_skipped or not self.verdicts else State.VALID

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
            "operations": {outcome.value: line.counts[outcome] for outcome in Outcome},
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

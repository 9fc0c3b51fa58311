"""A recorded history is judged as the drill that recorded it was: now, or again from its file.

Layer: above workloads and checkers, beside the runner. Which workload an operation belongs to stands in its
details, as does what the report needs of the drill in the history's first event (`Origin`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from herdpy.drill.checkers.every_drill import check_errors, check_replicas
from herdpy.drill.history import ClientOperation, DrillHistory, Event, Json
from herdpy.drill.judging import UNDECIDED, Anomaly, HistoryChecker, Verdict, smallest
from herdpy.drill.restored import as_restored
from herdpy.drill.silence import check_silence
from herdpy.drill.workloads import WORKLOADS, Workload
from herdpy.drill.workloads.workload import PROMISES

_ORIGIN = "drill"


@dataclass(frozen=True)
class HistoryOrigin:
    """Which drill a history is of."""

    drill: str
    about: str
    seed: int | None
    setting: Sequence[str] = ()

    def write(self, history: DrillHistory) -> None:
        """Put it in the history, as its first event."""
        details: dict[str, Json] = {"drill": self.drill, "seed": self.seed, "setting": list(self.setting)}
        history.events.insert(0, Event(0.0, _ORIGIN, self.about, details))

    @classmethod
    def read(cls, history: DrillHistory) -> HistoryOrigin:
        """What `write` has put there; a history of unknown origin has no seed."""
        for event in history.events:
            if event.kind == _ORIGIN:
                seed, setting = event.details.get("seed"), event.details.get("setting")
                return cls(
                    str(event.details.get("drill")),
                    event.text,
                    seed if isinstance(seed, int) else None,
                    [str(one) for one in setting] if isinstance(setting, list) else [],
                )
        return cls("a history", "", None)


def judge_again(history: DrillHistory) -> list[Verdict]:
    """All verdicts that follow from the history alone, as the runner has given them."""
    history = as_restored(history)
    looks = history.of("checksum")
    verdicts = [check_replicas(looks)] if looks.operations else []
    silence = check_silence(history)
    verdicts += [] if silence is None else [silence]
    for label in _labels(history):
        verdicts += _Judge(label).verdicts(history)
    return verdicts


def smallest_of(
    history: DrillHistory, verdicts: Sequence[Verdict], *, budget_s: float = 20.0
) -> tuple[list[ClientOperation], str]:
    """The fewest operations that show the first violation, and its name in words; none of none.

    It is looked for as long as `budget_s`; then the best that was found by then is the answer.
    """
    history = as_restored(history)
    for verdict in verdicts:
        for anomaly in verdict.anomalies:
            if anomaly.kind != UNDECIDED and anomaly.operations:
                checker = _checker_of(history, verdict)
                about = f"{anomaly.kind} in {verdict.name}"
                if checker is None:
                    return anomaly.operations, about
                within = _within(checker, time.monotonic() + budget_s)
                label = str(anomaly.operations[0].details.get("workload"))
                return smallest(_own(history, label), within, anomaly).operations, about
    return [], ""


class _Judge:
    """The judge of one workload's operations, by the label that stands in their details."""

    def __init__(self, label: str) -> None:
        self._label = label
        name, _, promise = label.partition(" (")
        kept = [level for level, kept in PROMISES.items() if kept == promise.removesuffix(")")]
        # A file may name any text here: only what was registered is imported.
        kind = WORKLOADS.extension(name)
        self._workload: Workload | None = None
        if kind is not None:
            self._workload = kind("", kept[0]) if kept else kind()

    def verdicts(self, history: DrillHistory) -> list[Verdict]:
        """What the workload's own checkers say, and whether a client got an error that none should see."""
        own = _own(history, self._label)
        if self._workload is None:
            text = f"no checker can judge {len(own)} operations of the workload {self._label}"
            return [Verdict.of(self._label, [Anomaly(UNDECIDED, text)], "not judged")]
        found = [*self._workload.judge(own), check_errors(own)]
        for verdict in found:
            if verdict.name != self._label:
                verdict.name = f"{self._label}: {verdict.name}"
        return found

    def verdict(self, name: str, history: DrillHistory) -> Verdict:
        """The one of that name; valid when there is none."""
        return next((one for one in self.verdicts(history) if one.name == name), Verdict(name, True, ""))


def _labels(history: DrillHistory) -> list[str]:
    """The workloads that a history has operations of, in the order of their first."""
    found = dict.fromkeys(one.details.get("workload") for one in history.operations)
    return [label for label in found if isinstance(label, str)]


def _own(history: DrillHistory, label: str) -> DrillHistory:
    return history.where(lambda each: each.details.get("workload") == label)


def _checker_of(history: DrillHistory, verdict: Verdict) -> HistoryChecker | None:
    """Who gave a verdict, to ask about other histories; None when it was not given of a workload."""
    named = (one for one in _labels(history) if verdict.name == one or verdict.name.startswith(f"{one}: "))
    if (label := next(named, None)) is None:
        return None
    judge = _Judge(label)

    def check(history: DrillHistory) -> Verdict:
        return judge.verdict(verdict.name, history)

    return check


def _within(checker: HistoryChecker, deadline: float) -> HistoryChecker:
    """The same until the deadline; from then on nothing is found any more."""

    def check(history: DrillHistory) -> Verdict:
        return checker(history) if time.monotonic() < deadline else Verdict("", True, "the time is over")

    return check

"""What a checker answers: a Verdict, with every Anomaly it found.

A checker is a function (DrillHistory, **options) -> Verdict; it looks only at the operations it knows by
name, and changes nothing. It never calls a history valid that it could not decide: such a verdict is not
valid, and has an anomaly of kind "undecided".

`smallest` finds the smallest part of a history that still shows a violation, for a reader who has to
understand it: delta debugging (Zeller and Hildebrandt, 2002) with a bound on the number of tries. Halves
are left out, then quarters, and so on down to single operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from herdpy.drill.history import ClientOperation, DrillHistory, Json

MOST = 20
"""A verdict holds no more anomalies of a kind."""
UNDECIDED = "undecided"
"""The kind of anomaly that says that a checker reached the end of its means."""


@dataclass
class Anomaly:
    """One broken promise.

    kind: its name in the field: "G1c", "lost update", "not linearizable", "lost insert".
    text: what happened, for a reader who has the operations before him.
    operations: those that show it, in an order that the text explains.
    """

    kind: str
    text: str
    operations: list[ClientOperation] = field(default_factory=list)

    def to_json(self) -> Json:
        """For a report."""
        shown: list[Json] = [each.to_json() for each in self.operations]
        return {"kind": self.kind, "text": self.text, "operations": shown}


@dataclass
class Verdict:
    """What one checker says of one history. `name` is the checker's; `summary` is one line."""

    name: str
    valid: bool
    summary: str
    anomalies: list[Anomaly] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, anomalies: Iterable[Anomaly], summary: str) -> Verdict:
        """Valid exactly when there is no anomaly. `summary` tells what was looked at.

        Of each kind the first MOST are kept; the summary counts all.
        """
        found = list(anomalies)
        kept: list[Anomaly] = []
        kinds: Counter[str] = Counter()
        for anomaly in found:
            kinds[anomaly.kind] += 1
            if kinds[anomaly.kind] <= MOST:
                kept.append(anomaly)
        return cls(name, not found, f"{summary}: {counted(found)}" if found else summary, kept)

    @property
    def kinds(self) -> list[str]:
        """The kinds of its anomalies, each once, in order."""
        return list(dict.fromkeys(each.kind for each in self.anomalies))

    def to_json(self) -> Json:
        """For a report."""
        return {
            "name": self.name,
            "valid": self.valid,
            "summary": self.summary,
            "anomalies": [each.to_json() for each in self.anomalies],
        }


class HistoryChecker(Protocol):
    """Every function `check` of a checker or a workload, and those of `inserts`."""

    def __call__(self, history: DrillHistory) -> Verdict: ...


def counted(anomalies: Sequence[Anomaly]) -> str:
    """How often each kind is there: "2 G1c, 1 stale read"."""
    kinds = [each.kind for each in anomalies]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


TRIES = 400
"""How often a checker is asked, at most, unless another number is given."""

T = TypeVar("T")


def fewest(items: Sequence[T], still_shows: Callable[[list[T]], bool], tries: int = TRIES) -> list[T]:
    """A part of `items`, in their order, that `still_shows` accepts and that lost whatever could be left out.

    All of `items` must show it. When the tries are used up the best part so far is the answer.
    """
    best = list(items)
    size = max(1, len(best) // 2)
    while tries > 0:
        start, shrunk = 0, False
        while start < len(best) and tries > 0:
            rest = best[:start] + best[start + size :]
            tries -= 1
            if rest and still_shows(rest):
                best, shrunk = rest, True
            else:
                start += size
        if size == 1 and not shrunk:
            break
        size = max(1, size // 2)
    return best


def smallest(
    history: DrillHistory, check: HistoryChecker, anomaly: Anomaly, tries: int = TRIES
) -> DrillHistory:
    """The smallest part of the history in which `check` still finds this anomaly: same kind, same words.

    The operations that the anomaly names are always kept, and in nearly all cases they are all there is.
    Options of the checker are given with functools.partial. Events are kept.
    """
    pinned = {id(each) for each in anomaly.operations}

    def shows(operations: list[ClientOperation]) -> bool:
        found = check(DrillHistory(operations, history.events)).anomalies
        return any(each.kind == anomaly.kind and each.text == anomaly.text for each in found)

    def with_pinned(kept: set[int]) -> list[ClientOperation]:
        return [each for each in history if id(each) in pinned or id(each) in kept]

    alone = with_pinned(set())
    if shows(alone):
        return DrillHistory(alone, history.events)
    others = [each for each in history if id(each) not in pinned]
    kept = fewest(others, lambda part: shows(with_pinned({id(each) for each in part})), tries)
    return DrillHistory(with_pinned({id(each) for each in kept}), history.events)

"""What a checker answers: a Verdict, with every Anomaly it found.

A checker is a function (History, **options) -> Verdict; it looks only at the operations it knows by name, and
changes nothing. It never calls a history valid that it could not decide: such a verdict is not valid, and
has an anomaly of kind "undecided".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from herdpy.drill.history import History, Json, Operation

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
    operations: list[Operation] = field(default_factory=list)

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


class Checker(Protocol):
    """Every function of herdpy.drill.checkers with the name `check`."""

    def __call__(self, history: History) -> Verdict: ...


def counted(anomalies: Sequence[Anomaly]) -> str:
    """How often each kind is there: "2 G1c, 1 stale read"."""
    kinds = [each.kind for each in anomalies]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))

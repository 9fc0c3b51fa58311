"""What clients felt of faults: how long each of them waited for its next acknowledged write.

Layer: above history, below timeline. A wait begins when a client calls a write, goes on through writes that
are refused or stay unknown, and ends when a later one is acknowledged. Of each client and each fault the
longest wait counts that is partly within the fault, so that a client which was not held up counts, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from herdpy.drill.history import ClientOperation, Json, OperationOutcome

POISED = "poised"
"""In the details of operations whose client waits for a sleeping leader on purpose: it is not counted."""
NUMBER = "number"
"""In the details: a client's number, which stays when its process has another after an unknown outcome."""
BOUNDS_S = (0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 1.5, 3.0, 10.0, 30.0)
"""The upper ends of the histogram's bins, seconds; behind the last there is one without an end."""

Wait = tuple[float, float]
"""When it began and ended, seconds since the history's start."""


@dataclass(frozen=True, slots=True)
class FeltWaits:
    """The longest waits of clients around one fault, or around several; `waits_s` is sorted, in seconds."""

    waits_s: tuple[float, ...] = ()

    @classmethod
    def around(cls, spans: Iterable[Wait], clients: Sequence[Sequence[Wait]]) -> FeltWaits:
        """Those of some faults, each given by its begin and end. `clients`: see `waits_of`."""
        found = [
            max(end_s - begin_s for begin_s, end_s in within)
            for fault_s, over_s in spans
            for waits in clients
            if (within := [one for one in waits if one[0] < over_s and one[1] > fault_s])
        ]
        return cls(tuple(sorted(found)))

    @property
    def p50_s(self) -> float | None:
        """Half of the waits were not longer; None: there were none."""
        return percentile(self.waits_s, 0.5)

    @property
    def p99_s(self) -> float | None:
        """99 of 100 were not longer."""
        return percentile(self.waits_s, 0.99)

    @property
    def max_s(self) -> float | None:
        """The longest."""
        return self.waits_s[-1] if self.waits_s else None

    @property
    def bins(self) -> list[tuple[float | None, int]]:
        """The histogram: each bin's upper end (None: it has none), and how many waits are in it."""
        ends = (*BOUNDS_S, math.inf)
        begins = (-math.inf, *BOUNDS_S)
        return [
            (None if math.isinf(end_s) else end_s, sum(1 for one in self.waits_s if begin_s < one <= end_s))
            for begin_s, end_s in zip(begins, ends, strict=True)
        ]

    def to_json(self) -> Json:
        """As docs/drills.md describes it; null without a wait."""
        if not self.waits_s:
            return None
        return {
            "waits": len(self.waits_s),
            "p50_s": self.p50_s,
            "p99_s": self.p99_s,
            "max_s": self.max_s,
            "histogram": [{"up_to_s": end_s, "count": count} for end_s, count in self.bins],
        }


def waits_of(writes: Iterable[ClientOperation]) -> list[list[Wait]]:
    """The waits of each client for acknowledged writes."""
    clients: dict[object, list[ClientOperation]] = {}
    for one in writes:
        if not one.details.get(POISED):
            key = one.details.get("workload"), one.details.get(NUMBER, one.process)
            clients.setdefault(key, []).append(one)
    return [list(_waits(own)) for own in clients.values()]


def _waits(own: list[ClientOperation]) -> Iterator[Wait]:
    begin_s: float | None = None
    last_s = 0.0
    for one in sorted(own, key=lambda each: each.called_s):
        begin_s = one.called_s if begin_s is None else begin_s
        last_s = one.returned_s
        if one.outcome is OperationOutcome.DONE:
            yield begin_s, last_s
            begin_s = None
    if begin_s is not None:
        yield begin_s, last_s


def percentile(values: Sequence[float], part: float) -> float | None:
    """The nearest-rank percentile of sorted values; None of none."""
    return values[max(0, math.ceil(part * len(values)) - 1)] if values else None

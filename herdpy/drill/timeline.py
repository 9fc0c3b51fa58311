"""What happened in a drill, and when: facts that are read off a History, for the report and the picture.

Layer: above history, below report and picture. Nothing here judges: a gap is a number, whoever reads it says
whether that is long.

Operations are of three kinds: *writes* (whatever may change something), *reads* (linearizable ones that the
leader answers) and *follower reads* (those that go to a follower, of each read level). They belong to the
phase in which they were called:

    before   until the first fault begins
    during   from there until the last fault has ended
    after    from there on
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from herdpy.drill.felt import FeltWaits, percentile, waits_of
from herdpy.drill.history import AT_FOLLOWER, ClientOperation, DrillHistory, Event, Json, OperationOutcome

FAULT_BEGIN, FAULT_END, LEADER, NOTE = "fault-begin", "fault-end", "leader", "note"
PHASE, QUIET = "phase", "quiet"
MOST_SILENT = "most_silent_s"
"""In the details of a fault's beginning: the longest time without an acknowledged write that is allowed."""
WRITE, READ, FOLLOWER_READ = "write", "read", "follower read"
KINDS = (WRITE, READ, FOLLOWER_READ)
BEFORE, DURING, AFTER = "before", "during", "after"
PHASES = (BEFORE, DURING, AFTER)

_READS = frozenset({"read", "balances", "members", "rows", "waiting", "owners"})
_LOOKS = frozenset({"checksum"})
_IDLE_S = 0.5
"""Clients that call nothing for so long have paused; that is no gap of the database's."""


@dataclass(frozen=True, slots=True)
class Reign:
    """A server led: `end_s` is None when it still led at the end. Of `server` None: nobody led."""

    server: str | None
    begin_s: float
    end_s: float | None


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which clients tried and none was answered."""

    begin_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """How long."""
        return self.end_s - self.begin_s


@dataclass(frozen=True, slots=True)
class FaultSpan:
    """A fault was there. `name` is short ("kill-leader"), `text` says what was done to whom.

    end_s: None when it did not end within the drill.
    ended: what was done to end it; None when nothing was said.
    write_gap: the longest time without an acknowledged write that is at least partly within it; None: there
        were no writes.
    felt: the clients' longest waits for a write around it.
    most_silent_s: how long `write_gap` may be; None: as long as it is.
    """

    name: str
    text: str
    begin_s: float
    end_s: float | None
    ended: str | None = None
    write_gap: Gap | None = None
    felt: FeltWaits = field(default_factory=FeltWaits)
    most_silent_s: float | None = None


@dataclass(frozen=True, slots=True)
class Latency:
    """The answered operations of one kind in one phase; times are seconds, None when there were none."""

    count: int
    per_second: float
    p50_s: float | None
    p99_s: float | None
    max_s: float | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """See the module. All times are seconds since the history's start.

    kinds: those that there were (writes and reads always count as such).
    gaps: by kind, the longest one; None where nothing of that kind was tried.
    latencies: by phase and kind; a phase that the drill did not have is not there.
    phases: when each began and ended.
    unknown: the operations whose client did not learn what became of them.
    felt: the clients' longest waits for a write around each fault, of all faults.
    """

    seconds: float
    clients: int
    counts: dict[OperationOutcome, int]
    reigns: list[Reign]
    faults: list[FaultSpan]
    kinds: list[str]
    gaps: dict[str, Gap | None]
    phases: dict[str, tuple[float, float]]
    latencies: dict[str, dict[str, Latency]]
    unknown: list[ClientOperation]
    felt: FeltWaits

    @property
    def operations(self) -> int:
        """How many there were."""
        return sum(self.counts.values())

    def resolved(self, outcome: OperationOutcome | None) -> int:
        """How many unknown outcomes were found to be `outcome` later; None: how many nobody learned."""
        return sum(1 for one in self.unknown if one.resolved is outcome)


def kind_of(operation: ClientOperation) -> str | None:
    """WRITE, READ or FOLLOWER_READ; None for a look at the replicas, which is none of them."""
    if operation.name in _LOOKS:
        return None
    if operation.name == "txn" and isinstance(operation.arguments, list):
        steps = [step[0] for step in operation.arguments if isinstance(step, list) and step]
        is_read = bool(steps) and all(step == "read" for step in steps)
    else:
        is_read = operation.name in _READS
    if not is_read:
        return WRITE
    details = operation.details
    at_leader = details.get("read_level", "linearizable") == "linearizable" and not details.get(AT_FOLLOWER)
    return READ if at_leader else FOLLOWER_READ


def timeline_of(history: DrillHistory) -> Timeline:
    """The facts of a history. Events and operations may stand in it in any order."""
    events = sorted(history.events, key=lambda event: event.at_s)
    seconds = max(
        [event.at_s for event in events] + [operation.returned_s for operation in history.operations],
        default=0.0,
    )
    by_kind = operations_by_kind(history)
    gaps = list(gaps_of(by_kind[WRITE]))
    waits = waits_of(by_kind[WRITE])
    faults = [
        replace(
            one, write_gap=_longest_within(gaps, one), felt=FeltWaits.around([_span(one, seconds)], waits)
        )
        for one in faults_of(events)
    ]
    phases = _phases(faults, [one for found in by_kind.values() for one in found], seconds)
    return Timeline(
        seconds,
        _at_once(history.operations),
        {
            outcome: sum(1 for one in history.operations if one.outcome is outcome)
            for outcome in OperationOutcome
        },
        reigns_of(events),
        faults,
        list(by_kind),
        {kind: longest_gap(found) for kind, found in by_kind.items()},
        phases,
        {
            name: {kind: _latency(found, *span) for kind, found in by_kind.items()}
            for name, span in phases.items()
        },
        sorted(
            (one for one in history.operations if one.outcome is OperationOutcome.UNKNOWN),
            key=lambda one: one.called_s,
        ),
        FeltWaits.around([_span(one, seconds) for one in faults], waits),
    )


def _span(fault: FaultSpan, seconds: float) -> tuple[float, float]:
    return fault.begin_s, seconds if fault.end_s is None else fault.end_s


def operations_by_kind(history: DrillHistory) -> dict[str, list[ClientOperation]]:
    """The operations of each kind, also of those that are writes or reads of which there is none.

    What returns when the clients were stopped (an event of kind "phase" says so) is not counted: the
    last one to end, and the last look, would make gaps in which nobody else tried.
    """
    by_kind: dict[str, list[ClientOperation]] = {kind: [] for kind in KINDS}
    stopped = [one.at_s for one in history.events if one.kind == PHASE and one.details.get("phase") == QUIET]
    until_s = min(stopped, default=math.inf)
    for one in history.operations:
        if one.returned_s <= until_s and (kind := kind_of(one)) is not None:
            by_kind[kind].append(one)
    return {kind: found for kind, found in by_kind.items() if found or kind != FOLLOWER_READ}


def faults_of(events: Iterable[Event]) -> list[FaultSpan]:
    """Each fault with its end: that of its own name which follows it, or the next one without a name.

    Of faults within each other the inner one ends first.

    What was done is said by the event itself, or by the first note "NAME: ..." that follows it.
    """
    faults: list[FaultSpan] = []
    for event in events:
        if event.kind == FAULT_BEGIN:
            name = _fault_name(event)
            text = "" if event.text == f"{name} begins" else event.text
            limit = event.details.get(MOST_SILENT)
            limit_s = float(limit) if isinstance(limit, (int, float)) else None
            faults.append(FaultSpan(name, text, event.at_s, None, most_silent_s=limit_s))
        elif event.kind == FAULT_END:
            ended = event.details.get("fault")
            place = _lasting(faults, ended)
            if place is not None:
                is_plain = event.text == f"{faults[place].name} is over"
                faults[place] = replace(
                    faults[place], end_s=event.at_s, ended=None if is_plain else event.text
                )
        elif event.kind == NOTE:
            name, colon, text = event.text.partition(": ")
            place = _lasting(faults, name, untold=True)
            if colon and place is not None:
                faults[place] = replace(faults[place], text=text)
    return faults


def _lasting(faults: Sequence[FaultSpan], name: Json, *, untold: bool = False) -> int | None:
    """The place of the newest of that name (None: of any) that lasts still; `untold`: without a text."""
    for place, one in reversed([*enumerate(faults)]):
        if one.end_s is None and name in (None, one.name) and not (untold and one.text):
            return place
    return None


def _fault_name(event: Event) -> str:
    name = event.details.get("fault")
    return name if isinstance(name, str) else event.text.split(":")[0]


def reigns_of(events: Iterable[Event]) -> list[Reign]:
    """Who led when, from what was seen: a leader event names the server, or nobody."""
    reigns: list[Reign] = []
    for event in events:
        if event.kind != LEADER:
            continue
        server = event.details.get("server")
        leader = server if isinstance(server, str) else None
        if reigns and reigns[-1].server == leader:
            continue
        if reigns:
            reigns[-1] = Reign(reigns[-1].server, reigns[-1].begin_s, event.at_s)
        reigns.append(Reign(leader, event.at_s, None))
    return reigns


def longest_gap(operations: Sequence[ClientOperation]) -> Gap | None:
    """The longest time without an acknowledged operation while clients tried; None when they never did.

    They try from a call until its return, and for _IDLE_S after it: a drill that waits for quiet, or looks at
    the end at what is there, does not make a gap.
    """
    return max(gaps_of(operations), key=lambda gap: gap.seconds, default=None)


def gaps_of(operations: Sequence[ClientOperation]) -> Iterable[Gap]:
    """Every time between two acknowledged operations in which clients tried; see `longest_gap`."""
    for begin_s, end_s, acknowledged in _trying(operations):
        for before, after in pairwise([begin_s, *sorted(acknowledged), end_s]):
            yield Gap(before, after)


def _longest_within(gaps: Iterable[Gap], fault: FaultSpan) -> Gap | None:
    end_s = math.inf if fault.end_s is None else fault.end_s
    within = [gap for gap in gaps if gap.begin_s < end_s and gap.end_s > fault.begin_s]
    return max(within, key=lambda gap: gap.seconds, default=None)


def _trying(operations: Sequence[ClientOperation]) -> Iterable[tuple[float, float, list[float]]]:
    """The times in which clients tried: begin, end, and when they were answered."""
    span: tuple[float, float, list[float]] | None = None
    for one in sorted(operations, key=lambda one: one.called_s):
        acknowledged = [one.returned_s] if one.outcome is OperationOutcome.DONE else []
        if span is not None and one.called_s <= span[1] + _IDLE_S:
            span[2].extend(acknowledged)
            span = (span[0], max(span[1], one.returned_s), span[2])
            continue
        if span is not None:
            yield span
        span = (one.called_s, one.returned_s, acknowledged)
    if span is not None:
        yield span


def _phases(
    faults: Sequence[FaultSpan], operations: Sequence[ClientOperation], seconds: float
) -> dict[str, tuple[float, float]]:
    if not operations:
        return {}
    first_s = min(one.called_s for one in operations)
    last_s = max(one.returned_s for one in operations)
    begin_s = min((fault.begin_s for fault in faults), default=last_s)
    end_s = max((seconds if fault.end_s is None else fault.end_s for fault in faults), default=last_s)
    spans = {BEFORE: (first_s, begin_s), DURING: (begin_s, end_s), AFTER: (end_s, last_s)}
    return {name: span for name, span in spans.items() if span[1] > span[0]}


def _latency(operations: Iterable[ClientOperation], begin_s: float, end_s: float) -> Latency:
    found = sorted(
        one.returned_s - one.called_s
        for one in operations
        if one.outcome is OperationOutcome.DONE and begin_s <= one.called_s < end_s
    )
    return Latency(
        len(found),
        len(found) / (end_s - begin_s),
        percentile(found, 0.5),
        percentile(found, 0.99),
        found[-1] if found else None,
    )


def _at_once(operations: Iterable[ClientOperation]) -> int:
    """How many clients there were: a client changes its number, but has one operation at a time."""
    steps = sorted(
        [(one.called_s, 1) for one in operations] + [(one.returned_s, -1) for one in operations],
    )
    most = now = 0
    for _moment, step in steps:
        now += step
        most = max(most, now)
    return most

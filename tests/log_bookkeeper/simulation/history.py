"""What happened to a log in a simulated run, as its users saw it, and what must be true of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from herdpy.log import LSN, START, Append, LogEntry, LogError, TransactionAssembler


class BrokenPromiseError(AssertionError):
    """A promise of the log was broken; the message has the trace, the seed and what was wrong."""


@dataclass
class Written:
    """One transaction: who appended it, and what became of it.

    ``outcome``: None while it is under way; "done", "not done" or "unknown".
    """

    number: int
    leader: str
    outcome: str | None = None
    lsn: LSN | None = None


@dataclass
class Seen:
    """What one reader saw, from a place on: entries, and the numbers that took effect in each."""

    name: str
    after: LSN = START
    entries: list[tuple[LSN, tuple[int, ...]]] = field(default_factory=list)
    assembler: TransactionAssembler = field(init=False)

    def __post_init__(self) -> None:
        self.assembler = TransactionAssembler(self.after)

    def take(self, lsn: LSN, entry: LogEntry) -> None:
        """The next entry."""
        numbers = tuple(one.timestamp_us for _, one in self.assembler.feed(entry))
        self.entries.append((lsn, numbers))


class History:
    """Everything of one run."""

    def __init__(self, now: Callable[[], float], tell: Callable[[str], None]) -> None:
        self.violations: list[str] = []
        self.written: dict[int, Written] = {}
        self.seen: list[Seen] = []
        self.takeovers: list[tuple[int, LSN]] = []
        self._now = now
        self._tell = tell

    def broken(self, what: str) -> None:
        """A promise was broken."""
        self.violations.append(f"at {self._now():.6f}: {what}")
        self._tell(f"BROKEN: {what}")

    # What leaders do.

    def appended(self, leader: str) -> Written:
        """A leader is about to append a new transaction."""
        written = Written(len(self.written) + 1, leader)
        self.written[written.number] = written
        return written

    def told(self, leader: str, epoch: int, appends: Sequence[Append], error: LogError | None) -> None:
        """The hook of a leader was called."""
        for append in appends:
            written = self.written[append.transaction.timestamp_us]
            if written.outcome is not None:
                self.broken(f"{leader}: append {written.number} was answered twice")
            if append.done():
                self.broken(f"{leader}: append {written.number} was resolved before the hook was called")
            if error is not None:
                written.outcome = error.outcome
                continue
            written.outcome, written.lsn = "done", append.lsn
            for later, end in self.takeovers:
                if later > epoch and append.lsn is not None and append.lsn > end:
                    self.broken(
                        f"{leader} of epoch {epoch} acknowledged {append.lsn} behind {end}, "
                        f"where epoch {later} took over"
                    )

    def refused(self, written: Written, error: LogError) -> None:
        """An append was refused at once."""
        written.outcome = error.outcome

    def taken_over(self, epoch: int, end: LSN) -> None:
        """A takeover ended: that is the log's true end."""
        self.takeovers.append((epoch, end))
        self._tell(f"epoch {epoch} took over at {end}")

    def acknowledged(self) -> list[Written]:
        """The transactions that were reported as done."""
        return [one for one in self.written.values() if one.outcome == "done"]

    # The judgement.

    def check(self, truth: Seen) -> None:
        """Hold everything against the whole log as it was in the end."""
        places: dict[int, LSN] = {}
        for lsn, numbers in truth.entries:
            for number in numbers:
                if number in places:
                    self.broken(f"append {number} is in the log twice: at {places[number]} and {lsn}")
                places[number] = lsn
        for one in self.written.values():
            place = places.get(one.number)
            if one.outcome is None:
                self.broken(f"{one.leader}: append {one.number} was never answered")
            elif one.outcome == "done" and place is None:
                self.broken(f"{one.leader}: append {one.number} was acknowledged at {one.lsn} and is lost")
            elif one.outcome == "done" and place != one.lsn:
                self.broken(
                    f"{one.leader}: append {one.number} was acknowledged at {one.lsn}, it is at {place}"
                )
            elif one.outcome == "not done" and place is not None:
                self.broken(f"{one.leader}: append {one.number} was reported as not done, it is at {place}")
        self._check_order(places)
        index = {lsn: at for at, (lsn, _) in enumerate(truth.entries)}
        for seen in self.seen:
            self._check_seen(seen, truth, index)

    def _check_order(self, places: dict[int, LSN]) -> None:
        last: dict[str, tuple[LSN, int]] = {}
        for one in self.written.values():
            place = places.get(one.number)
            if place is None:
                continue
            before, number = last.get(one.leader, (START, 0))
            if place < before:
                self.broken(
                    f"{one.leader}: append {one.number} at {place} was made after {number} at {before}"
                )
            last[one.leader] = place, one.number

    def _check_seen(self, seen: Seen, truth: Seen, index: dict[LSN, int]) -> None:
        if not seen.entries:
            return
        start = 0 if seen.after == START else index.get(seen.after, -2) + 1
        expected = truth.entries[start : start + len(seen.entries)] if start >= 0 else []
        if seen.entries != expected:
            for mine, theirs in zip(seen.entries, expected, strict=False):
                if mine != theirs:
                    self.broken(f"{seen.name} read {mine}, the log has {theirs}")
                    return
            self.broken(f"{seen.name} read {len(seen.entries)} entries after {seen.after}; the log has fewer")

"""What was asked and what was answered, and whether that can be true of one register and one set of rows.

The truth is the log, as an undisturbed follower has read it: which writes took effect, in which order. Held
against it: each acknowledged write is there, once; what was reported as not done is not there; a read that is
linearizable saw every write that was acknowledged before it was asked, and nothing older than an earlier
read saw; a bounded one, all that was acknowledged so long before; one at a position, what is at that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from herdpy.log import LSN


class BrokenPromiseError(Exception):
    """Something was reported, or was there, that must not have been."""


@dataclass
class Write:
    """A transaction that inserts row ``number``, sets the register to it, and counts it."""

    number: int
    node: str
    asked_s: float
    ended_s: float = float("inf")
    outcome: str = "unknown"
    error: str = ""


@dataclass
class Read:
    """A read of the register: it had the number ``value``.

    Attributes:
        level: of reading. ``stale_s``: how old it may be, for "bounded".
        after: the write that it must see, for "at_lsn".
    """

    node: str
    level: str
    asked_s: float
    ended_s: float
    value: int
    stale_s: float = 0.0
    after: int = 0


@dataclass
class Sample:
    """What a follower's state was at a position: the register, its count of writes, and how many rows."""

    node: str
    applied: LSN
    value: int
    count: int
    rows: int


@dataclass
class Told:
    """What a server said when it was asked what became of a write."""

    number: int
    outcome: str
    node: str


@dataclass
class History:
    """Of one run."""

    now: Callable[[], float]
    tell: Callable[[str], None]
    writes: dict[int, Write] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    lac_s: float = 0.0
    """A bounded read may be older by this much."""

    def broken(self, what: str) -> None:
        self.tell(f"BROKEN: {what}")
        self.violations.append(what)

    def asked(self, node: str) -> Write:
        """A write begins."""
        write = self.writes[len(self.writes) + 1] = Write(len(self.writes) + 1, node, self.now())
        return write

    def ended(self, write: Write, outcome: str, error: str = "") -> None:
        write.outcome, write.error, write.ended_s = outcome, error, self.now()
        self.tell(f"{write.node}: write {write.number} is {outcome} {error}")

    def check(self, log: list[tuple[LSN, int]]) -> None:
        """Hold everything against the writes of the log, in its order."""
        places: dict[int, int] = {0: -1}
        for place, (lsn, number) in enumerate(log):
            if number in places:
                self.broken(f"write {number} is in the log twice, the second time at {lsn}")
            places[number] = place
        for write in self.writes.values():
            there = write.number in places
            if write.outcome == "done" and not there:
                self.broken(f"write {write.number} was acknowledged by {write.node}, and is lost")
            if write.outcome == "not done" and there:
                self.broken(f"write {write.number} was reported as not done ({write.error}), and is there")
        for told in self.told:
            if (told.outcome == "done") != (told.number in places):
                self.broken(f"{told.node} said that write {told.number} is {told.outcome}, which is wrong")
        self._check_reads(places)
        self._check_samples(log)

    def _check_reads(self, places: dict[int, int]) -> None:
        acknowledged = sorted(
            (one.ended_s, places[one.number])
            for one in self.writes.values()
            if one.outcome == "done" and one.number in places
        )
        exact: list[tuple[float, int]] = []
        for read in sorted(self.reads, key=lambda one: one.ended_s):
            place = places.get(read.value)
            if place is None:
                self.broken(f"{read.node} answered with write {read.value}, which is not in the log")
                continue
            if read.value and self.writes[read.value].asked_s > read.ended_s:
                self.broken(f"{read.node} answered with write {read.value} before it was asked for")
            newest = -1
            if read.level == "linearizable":
                before_s = read.asked_s
                newest = max((at for ended_s, at in exact if ended_s < before_s), default=-1)
                exact.append((read.ended_s, place))
            elif read.level == "bounded":
                before_s = read.asked_s - read.stale_s - self.lac_s
            else:
                before_s = float("-inf")
                newest = places.get(read.after, -1) if read.level == "at_lsn" else -1
            newest = max([newest, *(at for ended_s, at in acknowledged if ended_s < before_s)])
            if place < newest:
                self.broken(
                    f"{read.node}: a {read.level} read from {read.asked_s:.6f} to {read.ended_s:.6f} saw "
                    f"write {read.value}, number {place} of the log, and number {newest} was there before"
                )

    def _check_samples(self, log: list[tuple[LSN, int]]) -> None:
        for sample in self.samples:
            known = [number for lsn, number in log if lsn <= sample.applied]
            found = (sample.value, sample.count, sample.rows)
            if found != ((known[-1] if known else 0), len(known), len(known)):
                self.broken(
                    f"{sample.node} at {sample.applied} has register, count and rows {found}; the log has "
                    f"{known[-1:]} and {len(known)} there"
                )

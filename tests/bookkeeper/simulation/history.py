"""What happened to one ledger in a simulated run, as everybody saw it.

Programs tell it what they did and saw; what can be judged at once is (an answer that can not be right),
the rest is judged by `checker` when the run has healed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from herdpy.bookkeeper.digest import Entry
from herdpy.bookkeeper.errors import Outcome


class BrokenPromiseError(AssertionError):
    """A promise of the client was broken."""


@dataclass(slots=True)
class Append:
    """One append: its place in the writer's order, and the writer's answer."""

    number: int
    data: bytes
    submitted_s: float
    carried_lac: int
    entry_id: int | None = None
    outcome: Outcome | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """The end of the ledger as somebody who recovered or closed it saw it."""

    who: str
    at_s: float
    last_entry_id: int
    length_bytes: int


@dataclass
class LedgerHistory:
    """One ledger's history. `now` is the clock, `tell` writes a line of the trace."""

    ledger_id: int
    write_quorum: int
    ack_quorum: int
    is_deferred: bool
    now: Callable[[], float]
    tell: Callable[[str], None]
    appends: list[Append] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    reads: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    tails: dict[str, list[Entry]] = field(default_factory=dict)
    finished_tails: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    highest_lac: int = -1
    acknowledged_to: int = -1
    forced_to: int = -1
    told_to: int = -1  # what was reported to an ack quorum of bookies as confirmed
    recovery_began_s: float | None = None

    def break_promise(self, what: str) -> None:
        """Note what must not be."""
        line = f"ledger {self.ledger_id}: {what}"
        self.tell(f"VIOLATION {line}")
        self.violations.append(line)

    # -- the writer

    def submitted(self, data: bytes, carried_lac: int) -> Append:
        append = Append(len(self.appends), data, self.now(), carried_lac)
        self.appends.append(append)
        return append

    def acknowledged(self, append: Append, entry_id: int) -> None:
        self.tell(f"ledger {self.ledger_id}: entry {entry_id} acknowledged")
        append.entry_id = entry_id
        if entry_id != self.acknowledged_to + 1:
            self.break_promise(f"entry {entry_id} acknowledged after {self.acknowledged_to}")
        self.acknowledged_to = max(self.acknowledged_to, entry_id)
        self.told_to = max(self.told_to, append.carried_lac)
        fenced_s = min((end.at_s for end in self.ends if end.who != "writer"), default=None)
        if fenced_s is not None and append.submitted_s > fenced_s:
            self.break_promise(f"append {append.number} was acknowledged to a fenced writer")

    def failed(self, append: Append, error: Exception, outcome: Outcome) -> None:
        append.outcome = outcome
        append.error = repr(error)
        self.tell(f"ledger {self.ledger_id}: append {append.number} failed, {outcome.value}: {error!r}")

    def forced(self, pushed: int, lac: int) -> None:
        """A force ended well: what was pushed before it is safe, also with deferred sync."""
        self.tell(f"ledger {self.ledger_id}: forced to entry {lac}")
        if lac < pushed:
            self.break_promise(f"a force left LAC {lac} below entry {pushed}, appended before it")
        self.forced_to = max(self.forced_to, lac)

    def is_safe(self, append: Append) -> bool:
        """Whether the writer was assured that nothing can take the append away."""
        entry_id = append.entry_id
        return entry_id is not None and (not self.is_deferred or entry_id <= self.forced_to)

    # -- readers

    def saw_lac(self, who: str, lac: int) -> None:
        """A reader got the answer that everything up to `lac` is confirmed."""
        self.highest_lac = max(self.highest_lac, lac)
        if lac > self.acknowledged_to and self.recovery_began_s is None and not self.is_deferred:
            self.break_promise(f"{who} saw LAC {lac}, and {self.acknowledged_to} is confirmed")

    def asked_for_lac(self, who: str, told_before: int, lac: int) -> None:
        """A reader asked how far the ledger is confirmed, after `told_before` was."""
        self.saw_lac(who, lac)
        if lac < told_before:
            self.break_promise(f"{who} was answered LAC {lac}, after a quorum knew {told_before}")

    def saw_entry(self, who: str, entry: Entry) -> None:
        """Somebody read an entry: everybody must read the same."""
        known = self.reads.setdefault(entry.entry_id, (who, entry.data))
        if known[1] != entry.data:
            self.break_promise(f"{who} read another entry {entry.entry_id} than {known[0]}")

    def tailed(self, who: str, entry: Entry) -> None:
        """A tailing reader got its next entry."""
        seen = self.tails.setdefault(who, [])
        if entry.entry_id != len(seen):
            self.break_promise(f"{who} got entry {entry.entry_id} after {len(seen) - 1}")
        seen.append(entry)
        self.saw_lac(who, entry.entry_id)
        self.saw_entry(who, entry)

    def ended(self, who: str, last_entry_id: int, length_bytes: int) -> None:
        """Somebody recovered or closed the ledger."""
        self.tell(f"ledger {self.ledger_id}: {who} sees its end: entry {last_entry_id}, {length_bytes} bytes")
        self.ends.append(End(who, self.now(), last_entry_id, length_bytes))

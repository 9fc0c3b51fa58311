"""What was answered to clients of one ledger while servers failed; `judge` compares it with what is left.

Every entry's bytes follow from its ledger and its place, so an entry that is lost, doubled, moved or mixed up
shows itself, wherever it is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from herdpy.bookkeeper import Entry, Outcome


def content_of(ledger_id: int, entry_id: int) -> bytes:
    """The bytes of an entry: of its own size, too, so that lengths tell entries apart."""
    return b"ledger %d entry %d;" % (ledger_id, entry_id) * (1 + entry_id % 40)


def length_of(ledger_id: int, count: int) -> int:
    """Data bytes of the first `count` entries."""
    return sum(len(content_of(ledger_id, entry_id)) for entry_id in range(count))


@dataclass
class History:
    """One ledger as its writer and readers saw it. What is wrong at first sight is noted in `wrong`."""

    ledger_id: int
    ack_quorum: int = 2
    acknowledged_to: int = -1
    appended_to: int = -1
    refused: dict[int, Outcome] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)
    ends: dict[str, tuple[int, int]] = field(default_factory=dict)
    tails: dict[str, int] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    highest_lac: int = -1
    wrong: list[str] = field(default_factory=list)

    def appended(self) -> bytes:
        """The next append is made, of these bytes."""
        self.appended_to += 1
        return content_of(self.ledger_id, self.appended_to)

    def acknowledged(self, expected: int, entry_id: int) -> None:
        """An append was acknowledged: it was the one numbered `expected`, and became `entry_id`."""
        if not expected == entry_id == self.acknowledged_to + 1:
            self.wrong.append(
                f"append {expected} was acknowledged as entry {entry_id}, after {self.acknowledged_to}"
            )
        self.acknowledged_to = max(self.acknowledged_to, entry_id)

    def failed(self, expected: int, error: Exception, outcome: Outcome) -> None:
        """An append failed; entries behind one that failed must not be acknowledged."""
        self.refused[expected] = outcome
        self.errors.append(error)

    def ended(self, who: str, last_entry_id: int, length_bytes: int) -> None:
        """Somebody closed or recovered the ledger and saw this end."""
        self.ends[who] = (last_entry_id, length_bytes)

    def saw_lac(self, lac: int) -> None:
        """A reader got the answer that all entries up to `lac` are confirmed."""
        self.highest_lac = max(self.highest_lac, lac)

    def delivered(self, who: str, entry: Entry) -> None:
        """A tail that began at entry 0 gave an entry."""
        expected = self.tails.get(who, -1) + 1
        self.tails[who] = entry.entry_id
        if entry.entry_id != expected:
            self.wrong.append(f"{who} was given entry {entry.entry_id} instead of {expected}")
        if entry.data != content_of(self.ledger_id, entry.entry_id):
            self.wrong.append(f"{who} was given other bytes as entry {entry.entry_id}")
        self.saw_lac(entry.entry_id)

    def finished_tail(self, who: str) -> None:
        """A tail came to its end, as tails of closed ledgers do."""
        self.tails.setdefault(who, -1)
        self.finished.add(who)

"""What was reported to the clients of a simulation, and whether what is there now agrees with it."""

from __future__ import annotations

from dataclasses import dataclass, field


class ViolationError(AssertionError):
    """An invariant does not hold."""


RUNNING, MAYBE, DONE, NOT_DONE = "running", "maybe", "done", "not done"


@dataclass
class Told:
    """One transaction: what it wrote, and what its client knows about it.

    Attributes:
        parts: rows of table ``op`` that it leaves, 0 to parts - 1.
        status: RUNNING, MAYBE (the outcome is not known), DONE or NOT_DONE.
        seen: by what somebody was shown a change of it, if anybody was.
        creates, drops: a table that it makes or removes.
        counter: the counter that it adds one to, and logs in ``journal``.
    """

    parts: int
    status: str = RUNNING
    seen: str = ""
    creates: str | None = None
    drops: str | None = None
    counter: int | None = None


@dataclass
class History:
    """Every transaction by its number."""

    told: dict[int, Told] = field(default_factory=dict)

    def begin(self, parts: int, **what) -> int:
        number = len(self.told) + 1
        self.told[number] = Told(parts, **what)
        return number

    def done(self, number: int) -> None:
        self.told[number].status = DONE

    def failed(self, number: int, outcome: str) -> None:
        self.told[number].status = NOT_DONE if outcome == "not done" else MAYBE

    def saw(self, number: int, how: str = "rows") -> None:
        """A client was shown that this transaction took place."""
        told = self.told[number]
        if told.status == NOT_DONE:
            raise ViolationError(f"transaction {number} was seen by {how}, but it was reported as not done")
        told.seen = told.seen or how

    def saw_rows(self, rows) -> None:
        """Rows (id, part, parts) of ``op`` that one statement returned, whole transactions each."""
        found: dict[int, set[int]] = {}
        for number, part, parts in rows:
            if parts != self.told[number].parts:
                raise ViolationError(f"transaction {number} shows a row of {parts} parts")
            found.setdefault(number, set()).add(part)
        for number, parts in found.items():
            self._whole(number, parts)
            self.saw(number)

    def _whole(self, number: int, parts: set[int]) -> None:
        if parts != set(range(self.told[number].parts)):
            raise ViolationError(f"transaction {number} is there by half: {sorted(parts)}")

    def judge(self, rows, tables: set[str], journal: list[tuple[int, int]], *, settle: bool) -> None:
        """Compare with the whole of ``op``, the tables made at run time and the journal.

        Args:
            settle: after a crash: whatever was not known is known from now on.
        """
        found: dict[int, set[int]] = {}
        for number, part, _ in rows:
            found.setdefault(number, set()).add(part)
        for number, parts in found.items():
            self._whole(number, parts)
        logged = dict(journal)
        expected_tables = set()
        for number, told in self.told.items():
            present = number in found
            if told.status == DONE and not present:
                raise ViolationError(f"transaction {number} was acknowledged and is lost")
            if told.seen and not present:
                raise ViolationError(f"transaction {number} was shown to somebody by {told.seen} and is lost")
            if told.status == NOT_DONE and present:
                raise ViolationError(f"transaction {number} was reported as not done, and is there")
            if settle:
                told.status = DONE if present else NOT_DONE
            if logged.get(number) != (told.counter if present else None):
                raise ViolationError(f"transaction {number} and its row of the journal do not agree")
            if present and told.creates:
                expected_tables.add(told.creates)
        for number, told in self.told.items():
            if number in found and told.drops:
                expected_tables.discard(told.drops)
        if tables != expected_tables:
            raise ViolationError(f"tables {sorted(tables ^ expected_tables)} are there or gone, wrongly")

"""What a statement is given of its surroundings: the time, sequences, and what runs functions.

Below ``storage`` and plans.

Nothing that a plan does looks at a clock by itself: the session passes one in, so that running a plan again
on the same state comes to the same.
"""

from __future__ import annotations

from typing import Any, Protocol

from herdpy_sql.values.styles import PLAIN, Style


class Sequences(Protocol):
    """The sequences that a statement may use, named by texts as a regclass has them.

    And notifications, and functions of the catalog.

    SqlError as PostgreSQL has it: 42P01, 42809, 2200H, 22003, 55000.
    """

    def nextval(self, sequence: str) -> int:
        """The next value, which is never taken back."""

    def currval(self, sequence: str) -> int:
        """The value that the session was given last."""

    def lastval(self) -> int:
        """The value that the session was given last of any sequence."""

    def setval(self, sequence: str, value: int, called: bool) -> int:
        """Let it go on after ``value``, or with it where it is not ``called``."""

    def call_program(
        self, program: int, values: list[Any], expected: tuple[tuple[str, Any], ...] | None = None
    ) -> Any:
        """What a function of the catalog gives: a datum, a tuple of a row, a list of rows.

        ``expected``: names and types of the columns, of one that gives records.
        """

    def run_block(self, program: Any) -> None:
        """Run a DO block. SqlError: whatever goes wrong."""

    def pg_notify(self, channel: str | None, payload: str | None) -> str:
        """Send a notification with the commit; gives "". SqlError 22023, 54000, 0A000."""


class Programs(Protocol):
    """Runs the functions of the catalog for a statement."""

    def call(self, program: int, values: list[Any], expected: tuple[tuple[str, Any], ...] | None) -> Any:
        """See ``Sequences.call_program``."""

    def run_block(self, program: Any) -> None:
        """See ``Sequences.run_block``."""


class Clock:
    """The surroundings of a statement: the time, evaluated once by the leader and passed in, and sequences.

    Both times are TIMESTAMPTZ datums: microseconds since 1970-01-01 00:00 UTC; 0 where the time is not known.
    ``style`` is how the session reads and writes texts, ``zone`` its time zone by name. ``sequences`` is None
    where there are none to be used.
    """

    __slots__ = ("sequences", "statement_us", "style", "transaction_us", "zone")

    def __init__(
        self,
        transaction_us: int,
        statement_us: int,
        style: Style = PLAIN,
        sequences: Sequences | None = None,
    ) -> None:
        self.transaction_us = transaction_us
        self.statement_us = statement_us
        self.style = style
        self.zone = style.zone
        self.sequences = sequences

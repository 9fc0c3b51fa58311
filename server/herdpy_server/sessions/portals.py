"""Portals: a bound statement with the answer it gives bit by bit. What SQL calls a cursor is one too.

A portal's statement runs at its first use and runs to its end; its answer waits in memory, as rows or
as the columns DuckDB gave, and is handed out in parts. So moving backwards costs nothing, and what a
portal shows is what there was when it first ran. Portals die with their transaction, but for cursors
WITH HOLD.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.sessions.result import Result
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.prepared import PreparedStatement

NEVER_SCROLLS = "NO SCROLL"


def no_portal(name: str, what: str = "portal") -> SqlError:
    """The error for a portal that is not there; ``what`` is "cursor" where SQL asked for it."""
    return SqlError("34000", f'{what} "{name}" does not exist')


class Portal:
    """One portal.

    Attributes:
        name: "" for the unnamed one.
        statement: what it runs, with ``datums`` as parameters; None for a cursor, which ran already.
        columns: of its rows; None when it returns none.
        result: the whole answer once it ran, else None.
        failure: why it could not run: raised when its rows are asked for.
        position: the row it stands on, from 1; 0 before the first, one more than there are after the last.
        hold: it outlives its transaction, once that has committed; ``held``: it has.
        scroll: "SCROLL", "NO SCROLL" or "" for what it can.
        depth: how many savepoints the transaction had when it was made.
        by_sql: DECLARE made it; ``is_binary``: and said BINARY.
    """

    __slots__ = (
        "at_end",
        "by_sql",
        "columns",
        "datums",
        "depth",
        "failure",
        "held",
        "hold",
        "is_binary",
        "name",
        "position",
        "result",
        "scroll",
        "spent",
        "statement",
    )

    def __init__(self, name: str, statement: PreparedStatement | None, datums: tuple[Datum, ...]) -> None:
        self.name = name
        self.columns = None if statement is None else statement.columns
        self.statement = statement
        self.datums = datums
        self.result: Result | None = None
        self.failure: SqlError | None = None
        self.position = 0
        self.at_end = False
        self.spent = False
        self.hold = self.held = False
        self.scroll = ""
        self.depth = 0
        self.by_sql = self.is_binary = False

    def answered(self) -> Result:
        """The whole answer; raises ``failure``."""
        if self.failure is not None:
            raise self.failure
        assert self.result is not None
        return self.result

    def more(self, max_rows: int) -> Result:
        """The next ``max_rows`` rows (0: all that are left) of an Execute message.

        Complete when fewer than that were left; so a portal may be complete with no row at all.
        """
        whole = self.answered()
        total = whole.length
        start = min(self.position, total)
        left = total - start
        if max_rows <= 0 or left < max_rows:
            part = whole.part(start, left)
            self.position, self.at_end = total + 1, True
            return part
        part = whole.part(start, max_rows)
        part.is_complete = False
        self.position = start + max_rows
        return part

    def fetch(self, direction: str, count: int | None, *, move: bool) -> Result:
        """What FETCH or MOVE gives. ``count`` None is ALL; directions as the SQL command names them.

        Raises:
            SqlError: 55000, the cursor was declared NO SCROLL and would have to go back.
        """
        whole = self.answered()
        total = whole.length
        first, step, number, after = _reach(direction, count, self.position, total)
        back = after < self.position or step < 0 or (number and first <= self.position)
        if back and self.scroll == NEVER_SCROLLS:
            raise SqlError(
                "55000",
                "cursor can only scan forward",
                hint="Declare it with SCROLL option to enable backward scan.",
            )
        self.position = after
        name = "MOVE" if move else "FETCH"
        if move:
            return Result(f"{name} {number}", number)
        low = first if step > 0 else first - number + 1
        part = whole.part(max(low - 1, 0), number, reverse=step < 0)
        return part.tagged(f"{name} {number}")


def _reach(direction: str, count: int | None, position: int, total: int) -> tuple[int, int, int, int]:
    """(first row, +1 or -1, number of rows, position after) of a FETCH."""
    if direction in {"ABSOLUTE", "RELATIVE"}:
        assert count is not None
        origin = position if direction == "RELATIVE" else 0 if count >= 0 else total + 1
        row = max(0, min(origin + count, total + 1))
        return row, 1, 1 if 1 <= row <= total else 0, row
    if count is not None and count < 0:
        direction = "BACKWARD" if direction == "FORWARD" else "FORWARD"
        count = -count
    if count == 0:
        here = 1 <= position <= total
        return position, 1, 1 if here else 0, position
    if direction == "FORWARD":
        left = max(total - position, 0)
        if count is None or left < count:
            return position + 1, 1, left, total + 1
        return position + 1, 1, count, position + count
    left = max(position - 1, 0)
    if count is None or left < count:
        return position - 1, -1, left, 0
    return position - 1, -1, count, position - count

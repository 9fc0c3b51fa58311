"""Portals: a bound statement with the answer it gives bit by bit. What SQL calls a cursor is one too.

A portal's statement runs at its first use, and what the portal shows is what there was then. A small answer
waits in memory and is handed out in parts; of a large one the portal has a :class:`CursorBuffer`, which
reads on when rows are wanted that it has not seen. What was passed can be gone back to as far as the buffer
keeps it: all of it for cursors declared SCROLL or WITH HOLD, and what fits in memory for others. Portals die
with their transaction, but for cursors WITH HOLD.
"""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING

from herdpy_server.sessions.cursor_buffer import Backward, CursorBuffer, Forward, Keep
from herdpy_server.sessions.result import Delivery, Result
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.plans import PreparedStatement
    from herdpy_server.sessions.result import Deliverer

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
        result: the whole answer once it ran, else None; ``buffer``: a large answer instead.
        failure: why it could not run: raised when its rows are asked for.
        position: the current row, from 1; 0 before the first, one more than there are after the last.
        hold: it outlives its transaction, once that has committed; ``held``: it has.
        scroll: "SCROLL", "NO SCROLL" or "" for what it can.
        depth: how many savepoints the transaction had when it was made.
        scrolls: pg_cursors says that it can go back.
        source: the text that it came with. ``made_us``: when, on the wall clock.
        by_sql: DECLARE made it; ``is_binary``: and said BINARY.
        request_id: the name of its commit, if it came with one.
    """

    __slots__ = (
        "_reading",
        "at_end",
        "buffer",
        "by_sql",
        "columns",
        "datums",
        "depth",
        "failure",
        "held",
        "hold",
        "is_binary",
        "made_us",
        "name",
        "position",
        "request_id",
        "result",
        "scroll",
        "scrolls",
        "source",
        "spent",
        "statement",
    )

    def __init__(self, name: str, statement: PreparedStatement | None, datums: tuple[Datum, ...]) -> None:
        self.name = name
        self.columns = None if statement is None else statement.columns
        self.statement = statement
        self.datums = datums
        self.result: Result | None = None
        self.buffer: CursorBuffer | None = None
        self._reading: tuple[Forward, int | None] | None = None  # what is being delivered, and up to where
        self.failure: SqlError | None = None
        self.position = 0
        self.at_end = False
        self.spent = False
        self.hold = self.held = False
        self.scroll = ""
        self.depth = 0
        self.by_sql = self.is_binary = False
        self.request_id = b""
        self.scrolls = False
        self.source = "" if statement is None else statement.source
        self.made_us = time_ns() // 1000

    @property
    def has_run(self) -> bool:
        """Whether there is an answer, or a reason why there is none."""
        return self.result is not None or self.buffer is not None or self.failure is not None

    @property
    def is_large(self) -> bool:
        """Whether it has a buffer, which may hold memory and a file."""
        return self.buffer is not None and not self.buffer.is_closed

    def holds(self, result: Result, directory: str | None) -> None:
        """Keep an answer; ``directory`` is for what of it memory does not hold."""
        if result.stream is None:
            self.result = result
            return
        keep = Keep.NOTHING
        if self.by_sql and self.scroll != NEVER_SCROLLS:
            keep = Keep.ALL if self.hold or self.scroll else Keep.SOME
        elif self.hold:
            keep = Keep.ALL
        self.buffer = CursorBuffer(result.stream.take_over(), keep, directory)

    def close(self) -> None:
        """Let go of the answer."""
        if self.buffer is not None:
            self.buffer.close()

    def answered(self) -> Result:
        """The whole answer; raises ``failure``."""
        if self.failure is not None:
            raise self.failure
        assert self.result is not None
        return self.result

    def _delivered(self) -> CursorBuffer | None:
        """The buffer, once it is noted how far the delivery before has come."""
        if self.failure is not None:
            raise self.failure
        buffer = self.buffer
        if buffer is not None and buffer.is_closed:
            raise SqlError("55000", f'portal "{self.name}" cannot be run')
        if buffer is not None and self._reading is not None:
            rows, stop = self._reading
            self._reading = None
            self.at_end = stop is None or rows.at < stop
            self.position = buffer.count + 1 if self.at_end else rows.at
        return buffer

    def _deliver(self, session: Deliverer, result: Result, stop: int | None, limit: int | None) -> Result:
        """Have ``result`` give the rows from here to before number ``stop``."""
        assert self.buffer is not None
        rows = Forward(self.buffer, self.position, stop)
        self._reading = (rows, stop)
        result.stream = Delivery(session, result, rows, limit)
        return result

    def more(self, session: Deliverer, max_rows: int) -> Result:
        """The next ``max_rows`` rows (0: all that are left) of an Execute message.

        Complete when fewer than that were left; so a portal may be complete with no row at all.
        """
        if self._delivered() is not None:
            tag = _Tag("SELECT") if self.statement is None else self.statement.plan_now
            result = Result(tag, -1, self.columns)
            limit = max_rows if max_rows > 0 else None
            return self._deliver(session, result, None if limit is None else self.position + limit, limit)
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

    async def fetch(self, session: Deliverer, direction: str, count: int | None, *, move: bool) -> Result:
        """What FETCH or MOVE gives. ``count`` None is ALL; directions as the SQL command names them.

        Raises:
            SqlError: 55000, the cursor was declared NO SCROLL and would have to go back, or further back
                than it remembers; whatever its query raises.
        """
        buffer = self._delivered()
        if buffer is None:
            return self._fetch_here(direction, count, move=move)
        name = _Tag("MOVE" if move else "FETCH")
        if direction == "FORWARD" and not move and (count is None or count > 0):
            if self.position < buffer.first:
                raise _only_forward()
            stop = None if count is None else self.position + count
            return self._deliver(session, Result(name, -1, self.columns), stop, None)
        target = _furthest(direction, count, self.position)
        await buffer.reach(target)
        first, step, number, after = _reach(direction, count, self.position, buffer.count)
        low = first if step > 0 else first - number + 1
        self._check_back(after, step, number, first)
        if number and not move and low - 1 < buffer.first:
            raise _only_forward()
        self.position = after
        result = Result(name, number, None if move else self.columns)
        if not move:
            result.stream = Delivery(
                session, result, (Forward if step > 0 else Backward)(buffer, low - 1, low - 1 + number)
            )
        return result

    def _check_back(self, after: int, step: int, number: int, first: int) -> None:
        back = after < self.position or step < 0 or (number and first <= self.position)
        if back and self.scroll == NEVER_SCROLLS:
            raise _only_forward()

    def _fetch_here(self, direction: str, count: int | None, *, move: bool) -> Result:
        """As ``fetch``, of an answer that is all here."""
        whole = self.answered()
        total = whole.length
        first, step, number, after = _reach(direction, count, self.position, total)
        self._check_back(after, step, number, first)
        self.position = after
        name = "MOVE" if move else "FETCH"
        if move:
            return Result(f"{name} {number}", number)
        low = first if step > 0 else first - number + 1
        part = whole.part(max(low - 1, 0), number, reverse=step < 0)
        return part.tagged(f"{name} {number}")


class _Tag:
    """A command tag that counts."""

    def __init__(self, name: str) -> None:
        self._name = name

    def command_tag(self, count: int) -> str:
        """Such as "FETCH 10"."""
        return f"{self._name} {count}"


def _only_forward() -> SqlError:
    return SqlError(
        "55000",
        "cursor can only scan forward",
        hint="Declare it with SCROLL option to enable backward scan.",
    )


def _furthest(direction: str, count: int | None, position: int) -> int | None:
    """The last row, from 1, that must be known before it is clear what a FETCH gives; None: of all."""
    if direction in {"ABSOLUTE", "RELATIVE"}:
        assert count is not None
        if direction == "RELATIVE":
            return max(position + count, 0)
        return None if count < 0 else count
    if direction == "FORWARD":
        return None if count is None else max(position + count, 0)
    if count is not None and count < 0:
        return position - count
    return 0


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

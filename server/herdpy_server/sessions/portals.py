"""Portals: bound statements under a name, each with the answer it gives bit by bit. A cursor is one too.

Above ``result``, below ``block``. A portal's statement runs at its first use, and what the portal shows is
what there was then. A small answer waits in memory and is handed out in parts; of a large one the portal has
a :class:`CursorBuffer`, which reads on when rows are wanted that it has not seen. What was passed can be gone
back to as far as the buffer keeps it: all of it for cursors declared SCROLL or WITH HOLD, and what fits in
memory for others. Portals die with their transaction, but for cursors WITH HOLD. :class:`Cursors` has what
the portals of one session hold.
"""

from __future__ import annotations

import enum
import os
import tempfile
from collections import deque
from time import time_ns
from typing import IO, TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from herdpy.log.wait import Work
from herdpy_server.sessions.result import Delivery, Result
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.encoded_rows import RowForm
    from herdpy_server.sessions.limits import SessionLimits
    from herdpy_server.sessions.plans import PreparedStatement
    from herdpy_server.sessions.result import Deliverer, Pieces


MEMORY_BYTES = 8 << 20
"""What is kept in memory of rows that were passed."""
FILE_BYTES = 4 << 30
"""What one cursor may put on disk."""

ipc: Any = pa.ipc


class Keep(enum.Enum):
    """What of the rows that were passed is kept."""

    NOTHING = 0
    SOME = 1
    ALL = 2


class _BufferedRows:
    """Some rows: ``piece``, or where in the file they are."""

    __slots__ = ("at", "nbytes", "piece", "start", "stop")

    def __init__(self, piece: Result, start: int) -> None:
        self.piece: Result | None = piece
        self.start, self.stop = start, start + piece.length
        self.nbytes = piece.physical().nbytes + (0 if piece.encoded is None else piece.encoded.nbytes)
        self.at = -1


class _Nothing:
    """In place of pieces that failed."""

    def prefer(self, form: RowForm) -> None:
        pass

    async def next(self) -> Result | None:
        return None

    def close(self) -> None:
        pass


class CursorBuffer:
    """Rows by number, read from ``pieces`` when they are wanted.

    Attributes:
        count: how many were read so far.
        is_closed: no row is to be had any more.
        first: the number of the oldest that is still to be had.
    """

    def __init__(self, pieces: Pieces, keep: Keep, directory: str | None = None) -> None:
        """``directory`` is where a file may be made."""
        self._pieces: Pieces | None = pieces
        self._keep = keep
        self._directory = directory
        self._kept: deque[_BufferedRows] = deque()
        self._in_memory_bytes = 0
        self._unwritten = 0  # of those kept, the first that is in memory
        self._file: IO[bytes] | None = None
        self._schema: pa.Schema | None = None
        self._failure: SqlError | None = None  # why there are no rows after those that were read
        self.count = 0
        self.is_closed = False

    def prefer(self, form: RowForm) -> None:
        """See Pieces."""
        if self._pieces is not None:
            self._pieces.prefer(form)

    @property
    def is_complete(self) -> bool:
        """Whether all rows were read."""
        return self._pieces is None

    @property
    def first(self) -> int:
        return self._kept[0].start if self._kept else self.count

    async def reach(self, count: int | None) -> None:
        """Read until there are ``count`` rows (None: all), or no more; those before the last are passed."""
        while self._pieces is not None and (count is None or self.count < count):
            await self._read(self.count if count is None else count - 1)

    async def settle(self) -> None:
        """Read all that is left, so that nobody works for it any more; to a file what memory does not hold.

        Its error is raised when the rows that are missing are wanted. SqlError 57014: it was cancelled.
        """
        try:
            while self._pieces is not None:
                await self._add_next()
                await self._spare_memory()
        except SqlError as error:
            if error.sqlstate == "57014":
                self.close()
                raise
            self._failure = error
            pieces, self._pieces = self._pieces, _Nothing()
            if pieces is not None:
                pieces.close()

    async def take(self, start: int, stop: int | None) -> Result | None:
        """Rows from number ``start`` on, at least one and as many as come at once; None: there is none.

        ``stop`` is the number that they end before. Rows before ``start`` are passed.
        """
        while start >= self.count and self._pieces is not None and (stop is None or start < stop):
            await self._read(passed=start)
        self._forget(start)
        for kept in self._kept:
            if kept.start <= start < kept.stop and (stop is None or start < stop):
                end = kept.stop if stop is None else min(stop, kept.stop)
                return (await self._loaded(kept)).part(start - kept.start, end - start)
        return None

    async def take_back(self, stop: int, start: int) -> Result | None:
        """Rows that end before number ``stop``, from the last of them back to ``start`` at most."""
        for kept in reversed(self._kept):
            if kept.start < stop <= kept.stop and start < stop:
                low = max(start, kept.start)
                return (await self._loaded(kept)).part(low - kept.start, stop - low, reverse=True)
        return None

    def close(self) -> None:
        """No row is wanted any more."""
        self.is_closed = True
        pieces, self._pieces = self._pieces, None
        if pieces is not None:
            pieces.close()
        self._kept.clear()
        self._in_memory_bytes = self._unwritten = 0
        file, self._file = self._file, None
        if file is not None:
            file.close()

    async def _read(self, passed: int) -> None:
        """Read the next piece; rows before ``passed`` are passed. After an error no row is to be had."""
        try:
            if self._failure is not None:
                raise self._failure
            await self._add_next()
            if self._keep is Keep.ALL:
                await self._spare_memory()
            else:
                self._forget(passed)
        except BaseException:
            self.close()
            raise

    async def _add_next(self) -> None:
        assert self._pieces is not None
        piece = await self._pieces.next()
        if piece is None:
            self._pieces = None
            return
        kept = _BufferedRows(piece, self.count)
        self._kept.append(kept)
        self._in_memory_bytes += kept.nbytes
        self.count = kept.stop

    async def _spare_memory(self) -> None:
        """Move the oldest rows to the file, as far as they are too many."""
        while self._in_memory_bytes > MEMORY_BYTES and self._unwritten < len(self._kept) - 1:
            await self._write(self._kept[self._unwritten])
            self._unwritten += 1

    def _forget(self, passed: int) -> None:
        """Let go of rows that were passed, as far as that is to be."""
        if self._keep is Keep.ALL:
            return
        limit = MEMORY_BYTES if self._keep is Keep.SOME else -1
        kept = self._kept
        while kept and self._in_memory_bytes > limit and kept[0].stop <= passed:
            gone = kept.popleft()
            if gone.piece is not None:
                self._in_memory_bytes -= gone.nbytes
            else:
                self._unwritten -= 1

    async def _write(self, kept: _BufferedRows) -> None:
        """Move some rows from memory to the file."""
        piece = kept.piece
        assert piece is not None
        table = piece.physical()
        self._schema = table.schema
        if self._file is None:
            if self._directory is not None:
                os.makedirs(self._directory, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - ``close`` does
        file = self._file

        def write() -> tuple[int, int]:
            message = table.combine_chunks().to_batches()[0].serialize()
            at = file.seek(0, os.SEEK_END)
            if at + len(message) > FILE_BYTES:
                raise SqlError(
                    "53400",
                    f"a cursor can keep at most {FILE_BYTES >> 20} MB of rows",
                    hint="Declare it with NO SCROLL and without WITH HOLD.",
                )
            file.write(message)
            file.flush()
            return at, len(message)

        try:
            at, size = await Work(write)
        except OSError as error:
            raise SqlError("53100", f"rows of a cursor could not be written: {error.strerror}") from error
        self._in_memory_bytes -= kept.nbytes
        kept.at, kept.nbytes, kept.piece = at, size, None

    async def _loaded(self, kept: _BufferedRows) -> Result:
        """Some rows, from wherever they are."""
        if kept.piece is not None:
            return kept.piece
        assert self._file is not None
        file, schema = self._file, self._schema

        def read() -> pa.RecordBatch:
            data = os.pread(file.fileno(), kept.nbytes, kept.at)
            batch: pa.RecordBatch = ipc.read_record_batch(pa.py_buffer(data), schema)
            return batch

        batch = await Work(read)
        whole = self._kept[-1].piece
        assert whole is not None
        return Result(whole.plan, batch.num_rows, whole.columns, None, pa.Table.from_batches([batch]))


class Forward:
    """The rows of a buffer from ``start`` to before ``stop`` (None: all), as pieces."""

    def __init__(self, buffer: CursorBuffer, start: int, stop: int | None) -> None:
        self._buffer = buffer
        self._at, self._stop = start, stop

    async def next(self) -> Result | None:
        """See Pieces."""
        piece = await self._buffer.take(self._at, self._stop)
        if piece is not None:
            self._at += piece.length
        return piece

    def prefer(self, form: RowForm) -> None:
        """See Pieces."""
        self._buffer.prefer(form)

    @property
    def at(self) -> int:
        """The number of the next row."""
        return self._at

    def close(self) -> None:
        """See Pieces: the buffer goes with what could not be delivered of it."""
        self._buffer.close()


class Backward(Forward):
    """The rows before ``stop``, from the last to ``start``."""

    def __init__(self, buffer: CursorBuffer, start: int, stop: int) -> None:
        super().__init__(buffer, start, stop)

    async def next(self) -> Result | None:
        """See Pieces."""
        assert self._stop is not None
        piece = await self._buffer.take_back(self._stop, self._at)
        if piece is not None:
            self._stop -= piece.length
        return piece


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

    def spend(self, statement: PreparedStatement, datums: tuple[Datum, ...], depth: int) -> None:
        """Be the unnamed portal of a statement that has run already, all whose rows were given."""
        self.statement, self.datums, self.depth = statement, datums, depth
        self.columns, self.source = statement.columns, statement.source
        self.made_us = time_ns() // 1000
        self.spent = True

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


class PortalSession(Protocol):
    """The session that portals are of; see ``TransactionBlock``."""

    portals: dict[str, Portal]
    allowed: SessionLimits


class Cursors:
    """What the portals of one session hold."""

    def __init__(self, block: PortalSession, temp_directory: str | None) -> None:
        """``temp_directory``: where files are made for rows that memory does not hold."""
        self._block = block
        self._temp_directory = temp_directory

    def hold(self, portal: Portal, answer: Result) -> None:
        """Keep an answer, or what is to come of it, in a portal. SqlError 53400 when that are too many."""
        if answer.stream is not None:
            try:
                self._block.allowed.check_large(
                    sum(1 for one in self._block.portals.values() if one.is_large)
                )
            except SqlError:
                answer.stream.close()
                raise
        portal.holds(answer, self._temp_directory)

    async def settle(self) -> None:
        """Read the answers of portals to their ends: a session occupies the columnar engine once at a time.

        Or one that opens cursor after cursor would wait for what it keeps busy itself.
        """
        for portal in list(self._block.portals.values()):
            if portal.buffer is not None and portal.buffer.count:  # it has begun
                await portal.buffer.settle()

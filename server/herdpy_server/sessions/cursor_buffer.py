"""Rows of a stream that were read and may be wanted again: what a portal or a cursor reads.

Between ``portals`` and ``result``. Rows are known by their numbers, from 0. How much of what was passed is
kept is the portal's to say: nothing, what fits in memory, or everything; then the oldest rows go to a file,
so that no cursor holds more memory than :data:`MEMORY_BYTES`.
"""

from __future__ import annotations

import enum
import os
import tempfile
from collections import deque
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from herdpy_server.sessions.result import Result
from herdpy_server.tablespace.work import Work
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.sessions.result import Pieces


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
        self.nbytes = piece.physical().nbytes
        self.at = -1


class _Nothing:
    """In place of pieces that failed."""

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

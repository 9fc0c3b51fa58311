"""Rows on their way to the client: taken from the engine piece by piece, and only when they are wanted.

Between ``execution``, which begins an answer, and the doors, which send it. A :class:`RowStream` is the
answer's rows; a :class:`Delivery` is what one query, Execute or FETCH gives of them, and with its end the
statement is over: it is counted, committed, told to the observer. Nothing is read ahead here: the next
piece is asked for when the one before was sent, so a client that does not read stops the engine.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from herdpy_server.sessions.limits import HeldSize, ResultSize
from herdpy_server.sessions.result import Result, Tagged
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from herdpy_server.sessions.analyst import Answer, Export, Form
    from herdpy_server.sessions.observer import Observer
    from herdpy_server.sessions.waits import StatementWaits
    from herdpy_sql.plan import OutputColumn


class Asked(Protocol):
    """A question that is asked when the first rows are wanted."""

    async def answer(self) -> Answer:
        """Ask for batches. SqlError as the query raises them."""

    async def export(self, form: Form) -> Export:
        """Ask for bytes."""

    def asking(self) -> AbstractContextManager[None]:
        """Within it the statement can be cancelled while it waits for more."""

    @property
    def held_bytes(self) -> int:
        """How much of the answer may be in memory at the same time; 0: as much as there is."""


class Pieces(Protocol):
    """Where a delivery takes rows from."""

    async def next(self) -> Result | None:
        """The next rows, at least one; None once there are no more."""

    def close(self) -> None:
        """No more is wanted; again it does nothing."""


class RowStream:
    """The rows of one answer: in pieces that are Results of their own, or as bytes, but not both."""

    def __init__(
        self, tag: Tagged, columns: tuple[OutputColumn, ...], asked: Asked, most_bytes: int = 0
    ) -> None:
        """``most_bytes``: a larger answer is an error, when it has become so; 0: none is."""
        self._size = ResultSize(most_bytes)
        self._tag = tag
        self._columns = columns
        self._asked = asked
        self._answer: Answer | None = None
        self._export: Export | None = None
        self._is_closed = False

    @property
    def held_bytes(self) -> int:
        """See Asked."""
        return self._asked.held_bytes

    @property
    def rows(self) -> int:
        """How many rows the bytes so far are."""
        return 0 if self._export is None else self._export.rows

    async def next(self) -> Result | None:
        """See Pieces. After an error there are no more."""
        if self._is_closed:
            return None
        try:
            if self._answer is None:
                self._answer = await self._asked.answer()
            with self._asked.asking():
                batch = await self._answer.next()
            if batch is not None:
                self._size.take(batch.nbytes)
        except BaseException:
            self.close()
            raise
        if batch is None:
            self.close()
            return None
        return Result(self._tag, batch.num_rows, self._columns, None, pa.Table.from_batches([batch]))

    async def next_bytes(self, form: Form) -> bytes | None:
        """The next rows in a form, which is of no interest but at the first call."""
        if self._is_closed:
            return None
        try:
            if self._export is None:
                self._export = await self._asked.export(form)
            with self._asked.asking():
                data = await self._export.next()
            if data is not None:
                self._size.take(len(data))
        except BaseException:
            self.close()
            raise
        if data is None:
            self.close()
        return data

    def close(self) -> None:
        """See Pieces."""
        self._is_closed = True
        for made in (self._answer, self._export):
            if made is not None:
                made.close()


class Deliverer(Protocol):
    """The session whose statement a delivery is, as far as that concerns it; see ``TransactionBlock``."""

    text: str
    is_running: bool
    implicit: bool
    observer: Observer | None
    waits: StatementWaits

    async def commit(self) -> None:
        """End the open transaction."""

    def abort(self) -> None:
        """An error happened."""


class Delivery:
    """What one query, Execute or FETCH gives of its rows.

    Attributes:
        commits: it is the last statement of an implicit transaction, and ends it.
        rows: how many were taken so far.
    """

    def __init__(self, session: Deliverer, result: Result, pieces: Pieces, limit: int | None = None) -> None:
        """``result`` is told its ``rowcount`` at the end.

        Args:
            limit: ``pieces`` give no more rows than that; if they give as many, ``result`` is not complete.
        """
        self._session = session
        self._result = result
        self._pieces = pieces
        self._limit = limit
        self._text, self._began = session.text, perf_counter()
        self._is_over = False
        self.commits = False
        self.rows = 0

    @property
    def as_bytes(self) -> bool:
        """Whether the rows can be had as bytes; they can when nobody wants some of them later."""
        return isinstance(self._pieces, RowStream)

    def take_over(self) -> Pieces:
        """The rows themselves, for who delivers them otherwise; this delivery is done with."""
        self._is_over = True
        self._result.stream = None
        return self._pieces

    async def next(self) -> Result | None:
        """The next rows; None once the statement, or its part, is over.

        Raises:
            SqlError: why it failed, perhaps after many rows; 57014 when it was cancelled.
        """
        if self._is_over:
            return None
        try:
            self._goes_on()
            piece = await self._pieces.next()
            if piece is None:
                await self._end()
                return None
        except BaseException as error:
            self._over(error)
            raise
        self.rows += piece.length
        return piece

    async def next_bytes(self, form: Form) -> bytes | None:
        """As :meth:`next`, in the form of the client's protocol; where ``as_bytes`` says that it can be."""
        if self._is_over:
            return None
        pieces = self._pieces
        assert isinstance(pieces, RowStream)
        try:
            self._goes_on()
            data = await pieces.next_bytes(form)
            self.rows = pieces.rows
            if data is None:
                await self._end()
        except BaseException as error:
            self._over(error)
            raise
        return data

    async def whole(self) -> Result:
        """All that is left, held in memory. SqlError 53200 when a recursive query gives too much of it."""
        found = []
        held = self._pieces.held_bytes if isinstance(self._pieces, RowStream) else 0
        size = HeldSize(held)
        try:
            while (piece := await self.next()) is not None:
                found.append(piece)
                if held:
                    size.take(piece.physical().nbytes)
        except SqlError as error:
            if not self._is_over:
                self._over(error)
            raise
        told = self._result
        if len(found) == 1:
            whole = found[0].tagged(told.plan)
        elif found:
            table = pa.concat_tables([piece.physical() for piece in found])
            whole = Result(told.plan, table.num_rows, told.columns, None, table)
        else:
            whole = Result(told.plan, 0, told.columns, [])
        whole.is_complete = told.is_complete
        return whole

    def close(self) -> None:
        """Nobody takes the rest. Again, or after the end, it does nothing."""
        if not self._is_over:
            self._is_over = True
            self._session.is_running = False
            self._pieces.close()

    def _goes_on(self) -> None:
        self._session.is_running = True
        self._session.waits.check()

    async def _end(self) -> None:
        session, result = self._session, self._result
        result.rowcount = self.rows
        result.is_complete = self._limit is None or self.rows < self._limit
        if self.commits and session.implicit:
            await session.commit()
        self._over(None)

    def _over(self, error: BaseException | None) -> None:
        session = self._session
        self._is_over = True
        session.is_running = False
        if error is not None:
            self._pieces.close()
            session.abort()
        if session.observer is not None:
            rows = -1 if error is not None else self.rows
            session.observer(self._text, perf_counter() - self._began, rows, error)

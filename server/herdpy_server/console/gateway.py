"""Statements of the console's pages: sessions in this process, with the rights of the role that is logged in.

Above the front ends' contexts, below ``visit``. A session begins and ends with a request; it is registered
as every other, so pg_stat_activity shows it, it can be cancelled, and the audit log has what it does. Its
statements have little time and few rows: a page is no place for more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from herdpy_server.pgwire.admission import session_for
from herdpy_server.pgwire.backend import FatalError
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.config.sections import ConsoleSection
    from herdpy_server.console.authentication import Visitor
    from herdpy_server.console.logins import Login
    from herdpy_server.pgwire.context import PgContext
    from herdpy_server.sessions import Session
    from herdpy_server.sessions.block import SessionNotice
    from herdpy_server.sessions.plans import Prepared
    from herdpy_server.sessions.registry import SessionEntry
    from herdpy_server.sessions.result import Result
    from herdpy_sql.plan import OutputColumn

APPLICATION_NAME = "herdpy console"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The answer to one statement, as far as a page shows it.

    Attributes:
        tag: as PostgreSQL's command tag.
        columns: None when the statement gives no rows.
        rows: as Python objects. ``is_complete``: there are no more.
        notices: what the session had to say besides.
    """

    tag: str
    columns: tuple[OutputColumn, ...] | None
    rows: list[tuple[Any, ...]]
    is_complete: bool
    notices: Sequence[SessionNotice] = field(default_factory=tuple)

    @property
    def records(self) -> list[dict[str, Any]]:
        """The rows by the names of their columns."""
        names = [column.name for column in self.columns or ()]
        return [dict(zip(names, row, strict=True)) for row in self.rows]


class PageSession:
    """A session of one request.

    Attributes:
        session: the engine's; what it awaits is run by :meth:`drive`.
        entry: under which it is registered.
    """

    def __init__(self, context: PgContext, session: Session, entry: SessionEntry, max_rows: int) -> None:
        self.session = session
        self.entry = entry
        self._context = context
        self._max_rows = max_rows
        self._ended: SqlError | None = None

    async def run(self, sql: str, *params: object, max_rows: int | None = None) -> PageAnswer:
        """Run one statement, with ``$1`` parameters. SqlError as it raises."""
        statements = self.session.plans.statements(sql)
        if len(statements) != 1:
            raise SqlError("42601", "expected one statement")
        return await self.drive(self._run(statements[0], params, sql, max_rows or self._max_rows))

    async def records(self, sql: str, *params: object) -> list[dict[str, Any]]:
        """The rows of one statement by the names of their columns."""
        return (await self.run(sql, *params)).records

    async def drive(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the session. A task that is cancelled cancels the statement.

        SqlError 57P01 when the session was terminated, meanwhile or before.
        """
        try:
            if self._ended is not None:
                coroutine.close()
                raise self._ended
            return await self._drive(coroutine)
        except SqlError as error:
            if self._ended is not None and error is not self._ended:
                raise self._ended from error
            raise

    def terminate(self, error: SqlError) -> None:
        """Another session, or the server, ends this one."""
        self._ended = error
        self.session.waits.end(error)

    async def close(self) -> None:
        """Roll back what is open, and end it."""
        await self._drive(self.session.close())

    async def _drive(self, coroutine: Coroutine[Any, Any, T]) -> T:
        over = asyncio.Event()
        run = self._context.databases.run(coroutine, lambda _run: over.set())
        if run.start():
            return run.result()
        try:
            await over.wait()
        except asyncio.CancelledError:
            self.session.cancel()
            await over.wait()
            raise
        return run.result()

    async def _run(
        self, statement: Prepared, params: Sequence[object], source: str, max_rows: int
    ) -> PageAnswer:
        answer = await self.session.run(statement, params, source=source, ends=True)
        return await self.taken(answer, max_rows)

    async def taken(self, answer: Result, max_rows: int) -> PageAnswer:
        """The first rows of an answer, within the engine's turn; no more of it are made.

        SqlError 0A000 for COPY from or to the client.
        """
        session = self.session
        if answer.copy is not None:
            session.abort()
            raise SqlError("0A000", "COPY to or from the client is not possible here")
        rows: list[tuple[Any, ...]]
        is_complete = True
        if answer.stream is None:
            rows = answer.part(0, min(answer.length, max_rows)).python_rows() if answer.columns else []
            is_complete = answer.length <= max_rows
        else:
            rows, is_complete = await _first_rows(answer, max_rows)
            if session.implicit:
                await session.commit()
        notices, session.notices = list(session.notices), []
        return PageAnswer(answer.tag, answer.columns, rows, is_complete, notices)


async def _first_rows(answer: Result, max_rows: int) -> tuple[list[tuple[Any, ...]], bool]:
    stream = answer.stream
    assert stream is not None
    rows: list[tuple[Any, ...]] = []
    try:
        while (piece := await stream.next()) is not None:
            rows += piece.part(0, min(piece.length, max_rows + 1 - len(rows))).python_rows()
            if len(rows) > max_rows:
                answer.rowcount = max_rows
                return rows[:max_rows], False
    finally:
        stream.close()
    return rows, True


class ConsoleGateway:
    """Begins and ends the sessions of pages.

    Args:
        settings: how many, how long, how much.
    """

    def __init__(self, context: PgContext, settings: ConsoleSection) -> None:
        self._context = context
        self._settings = settings
        self._open = 0

    @asynccontextmanager
    async def session(
        self, login: Login, visitor: Visitor, *, database: str | None = None, timeout_s: float | None = None
    ) -> AsyncIterator[PageSession]:
        """A session of the role that is logged in.

        Args:
            database: None: the login's.
            timeout_s: of each statement; None: as configured.

        Raises:
            SqlError: as every client gets it; 53300, too many statements of pages run.
        """
        context, settings = self._context, self._settings
        if self._open >= settings.max_statements:
            raise SqlError("53300", "too many pages are being made: try again")
        place = login.database if database is None else database
        try:
            session = session_for(context, login.user, place)
        except FatalError as error:
            raise error.error from error
        self._open += 1
        entry = context.registry.add(
            session,
            user=login.user,
            database=place,
            end=lambda error: found.terminate(error),
            address=visitor.address,
        )
        found = PageSession(context, session, entry, settings.max_rows)
        try:
            limit_s = settings.statement_timeout_s if timeout_s is None else timeout_s
            session.settings.start_with("application_name", APPLICATION_NAME)
            session.settings.start_with("statement_timeout", f"{round(limit_s * 1000)}ms")
            yield found
        finally:
            self._open -= 1
            try:
                await found.close()
            finally:
                context.registry.remove(entry)

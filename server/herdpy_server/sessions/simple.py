"""A text of several statements, answered one by one: the simple query's side of a session.

Above ``statements``. The whole text is parsed before the first of its statements runs. Several statements
are one transaction, unless they say otherwise; a single one is a transaction of its own.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from herdpy_server.sessions.plans import ParameterCountError
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.sessions.plans import Prepared
    from herdpy_server.sessions.result import Result
    from herdpy_server.sessions.session import Session


class SimpleQuery:
    """The statements of one text, taken step by step. Left in the middle, it needs :meth:`Session.abort`."""

    __slots__ = ("_at", "_session", "_statements", "_text")

    def __init__(self, session: Session, statements: tuple[Prepared, ...], text: str) -> None:
        self._session = session
        self._text = text
        self._statements = statements
        self._at = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no statement in the text at all."""
        return not self._statements

    async def step(self) -> Result | None:
        """The answer of the next statement, or None when there was none left.

        With the last statement's answer its implicit transaction is committed. An error ends the query:
        an implicit transaction is undone, one that BEGIN began has failed.
        """
        session, at = self._session, self._at
        if at == len(self._statements):
            return None
        self._at = at + 1
        session.begins(self._statements[at].statement.text)
        session.source = self._text
        observer, began = session.observer, perf_counter()
        try:
            answer = await self._run(session, self._statements[at])
            if session.implicit and self._at == len(self._statements):
                if answer.copy is not None:
                    answer.copy.commits = True
                elif answer.stream is not None:
                    answer.stream.commits = True
                else:
                    await session.commit()
        except BaseException as error:
            if observer is not None:
                observer(self._statements[at].statement.text, perf_counter() - began, -1, error)
            session.abort()
            if isinstance(error, ParameterCountError):
                raise SqlError("42P02", "there is no parameter $1") from error
            raise
        finally:
            session.is_running = False
        if observer is not None and not answer.is_under_way:
            observer(self._statements[at].statement.text, perf_counter() - began, answer.rowcount, None)
        return answer

    async def _run(self, session: Session, statement: Prepared) -> Result:
        if session.transaction is None and session.autocommit:
            if len(self._statements) == 1:
                answer = await session._at_once(statement, ())
                if answer is not None:
                    return answer
            else:
                session.begin()
                session.implicit = True
        return await session._statement(statement, ())

    def __aiter__(self) -> SimpleQuery:
        return self

    async def __anext__(self) -> Result:
        answer = await self.step()
        if answer is None:
            raise StopAsyncIteration
        return answer

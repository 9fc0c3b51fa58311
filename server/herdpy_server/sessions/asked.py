"""A SELECT that the columnar engine answers, from its plan to the first rows. Beside ``statements``.

The question is put when the rows are first wanted, in the open transaction or one of its own, and nothing
of the answer is given away before all that it rests on is durable. From then on the answer stands on its
snapshot alone: the transaction may end before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from herdpy_sql.errors import SqlError
from herdpy_sql.plan import SourceChanged

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from herdpy_server.sessions.analyst import Analyst, Answer, Export, Form, Question
    from herdpy_server.sessions.rebind import Replan
    from herdpy_server.sessions.statements import Statements
    from herdpy_server.tablespace import Transaction
    from herdpy_sql.plan import Plan

Found = TypeVar("Found", bound="Answer | Export")


class AskedPlan:
    """A plan of the columnar engine that is to be asked for; see ``streams.Asked``."""

    def __init__(self, session: Statements, plan: Plan, values: Sequence[object], rebind: Replan) -> None:
        self._session = session
        self._plan, self._values = plan, values
        self._rebind = rebind
        self._question: Question | None = None

    async def answer(self) -> Answer:
        """See streams.Asked."""
        return await self._ask(lambda analyst, question: analyst.ask(question))

    async def export(self, form: Form) -> Export:
        """See streams.Asked."""
        return await self._ask(lambda analyst, question: analyst.export(question, form))

    def asking(self) -> AbstractContextManager[None]:
        """See streams.Asked."""
        assert self._question is not None
        return self._session._asking(self._question.interrupt)

    @property
    def held_bytes(self) -> int:
        """See streams.Asked."""
        return self._session.held_bytes(self._plan)

    async def _ask(self, ask: Callable[[Analyst, Question], Awaitable[Found]]) -> Found:
        session = self._session
        if session.portals and session.shares_analyst:
            await session.settle_portals()
        transaction, found = session.transaction, None
        own = transaction is None
        if transaction is None:
            transaction = session.tablespace.begin(instant=True)
        try:
            await session._admitted(self._plan)
            transaction.begin_statement()
            found = await self._asked(transaction, ask)
            await session._durable(None, transaction.workspace)
            await session._vouched(self._plan)
        except BaseException as error:
            if found is not None:
                found.close()
            if own:
                session.tablespace.rollback(transaction)
            await session._confirm(error, transaction.workspace)
            raise
        if own:
            session.tablespace.commit(transaction)  # it wrote nothing: there is nothing to wait for
        return found

    async def _asked(
        self, transaction: Transaction, ask: Callable[[Analyst, Question], Awaitable[Found]]
    ) -> Found:
        session = self._session
        clock = transaction.clock(session.settings.zone)
        while True:
            self._question = question = session._question(transaction, self._plan, self._values, clock)  # type: ignore[arg-type]
            try:
                with session._asking(question.interrupt):
                    return await ask(session._analyst_of(question), question)
            except SourceChanged:
                columns = self._plan.columns
                self._plan, self._values = self._rebind()
                if self._plan.source is None or self._plan.columns != columns:
                    raise SqlError("40001", "definitions were changed while the query began") from None

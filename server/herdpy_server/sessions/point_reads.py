"""One row read by its key, as one function from datums to the answer's bytes: a prepared statement resolved.

Above ``block``, beside ``execution``, whose way of such a statement is the meaning of this one. A front end
makes a :class:`PointRead` for a statement that it has run before, and gives it what makes the answer of a
row's image. Whatever is unusual (a transaction, a row that is not durable yet, an older definition, a right
that was not looked at yet, an error) is found before anything has happened: then the statement is run as any
other one. So this has no errors, no waits and no rules of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter, time_ns
from typing import TYPE_CHECKING, Any

from herdpy_server.store.layers import Missing
from herdpy_sql.clock import Clock
from herdpy_sql.execute.query import PointSelect

if TYPE_CHECKING:
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.plans import ReadyPlan

_NO_CLOCK = Clock(0, 0)
"""For keys that are made of parameters alone."""
_NO_ROW: tuple[()] = ()


class PointRead:
    """A statement that reads one row by its key, for one session and one form of its answers."""

    __slots__ = (
        "_answer",
        "_db",
        "_engine",
        "_key",
        "_nothing",
        "_path",
        "_plan",
        "_ready",
        "_seen",
        "_session",
        "_store",
        "_tablespace",
    )

    def __init__(
        self,
        session: TransactionBlock,
        ready: ReadyPlan,
        answer: Callable[[bytes], bytes],
        nothing: bytes,
    ) -> None:
        """Resolve a plan that ``is_resolved`` and is the session's for its catalog of this moment.

        Args:
            answer: makes the answer of a row's image. nothing: the answer where there is no row.
        """
        plan = ready.plan
        assert isinstance(plan, PointSelect)
        self._session = session
        self._tablespace = session.tablespace
        self._store = session.tablespace.store
        self._ready = ready
        self._plan = plan
        self._db: int = plan.get.table.id
        self._key: Callable[[Any, Any, Clock], bytes | None] = plan.get.key
        self._answer = answer
        self._nothing = nothing
        self._seen = self._store.visible_catalog[0]
        self._path = session.settings.path
        self._engine = session.settings.engine

    def is_of(self, ready: ReadyPlan | None) -> bool:
        """Whether it is the statement's whose plan is ``ready``, under the catalog of this moment."""
        settings = self._session.settings
        return (
            ready is self._ready
            and self._store.visible_catalog[0] is self._seen
            and settings.path == self._path
            and settings.engine == self._engine
        )

    def run(self, ready: ReadyPlan | None, values: Sequence[Any], text: str, name: str) -> bytes | None:
        """Read the row and make its answer.

        Args:
            ready, values: the statement's plan as it has it now, and its datums.
            text: what the client has sent. name: what the statement is counted by.

        Returns:
            The answer; the statement has begun and ended. None: nothing has happened, and it is to be run as
            any other statement.
        """
        session = self._session
        if (
            session.transaction is not None
            or not session.autocommit
            or session.portals
            or session.notices
            or session.exposed
            or session.waits.is_closed
            or not self.is_of(ready)
        ):
            return None
        role = session.checked_role
        if role is not None and role not in self._ready.permitted:
            return None
        guarded = self._tablespace.guard is not None
        if guarded and not session.checks.may_begin(self._plan):
            return None
        observer = session.observer
        began = 0.0 if observer is None else perf_counter()
        answer = self._read(values)
        if answer is None or (guarded and not session.checks.holds(self._plan)):
            return None
        session.text = session.source = text
        session.text_began_us = time_ns() // 1000
        if observer is not None:
            observer(name, perf_counter() - began, 0 if answer is self._nothing else 1, None)
        return answer

    def _read(self, values: Sequence[Any]) -> bytes | None:
        """The answer; None where it must wait for what it rests on, or there is an error."""
        try:
            key = self._key(_NO_ROW, values, _NO_CLOCK)
            image = None if key is None else self._store.durable_value(self._db, key)
            if image is None:
                return self._nothing
            return None if isinstance(image, Missing) else self._answer(image)
        except Exception:  # noqa: BLE001 - the way of every statement finds it again, and says so
            return None

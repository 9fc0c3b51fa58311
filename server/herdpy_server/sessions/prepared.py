"""A session's prepared statements: a text whose parameters have types, ready to be bound.

Above ``plans``, whose shared cache has the plans; below ``binding``. A prepared statement keeps the
types that its parameters had when it was parsed. When the catalog has changed since, it is planned
again with those; that may not change what it returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_server.tablespace import now_us
from herdpy_sql.errors import SqlError
from herdpy_sql.types import TEXT

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.plans import PlanCache, Prepared, ReadyPlan
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.parse import Statement
    from herdpy_sql.plan import Engine, OutputColumn, Plan
    from herdpy_sql.types import SqlType


_CUSTOM_PLANS = 5


@dataclass(frozen=True, slots=True)
class StatementDescription:
    """What a client may ask of a statement before it is run.

    Attributes:
        param_types: of $1, $2 ...
        columns: of its result; None when it returns no rows.
        tag: the command's name, as its command tag begins.
    """

    param_types: tuple[SqlType, ...]
    columns: tuple[OutputColumn, ...] | None
    tag: str


def no_statement(name: str) -> SqlError:
    """The error for a prepared statement that is not there."""
    if not name:
        return SqlError("26000", "unnamed prepared statement does not exist")
    return SqlError("26000", f'prepared statement "{name}" does not exist')


class PreparedStatement:
    """One prepared statement of one session. A text without a statement has ``statement`` None.

    Attributes:
        text: what was prepared.
        param_types: of its parameters, decided when it was parsed; the last is that of its commit's name, if
            it is ``named``.
        columns: of its result as of then.
        source: the text that it came with: of PREPARE, all that came in one piece with it.
        made_us: when, on the wall clock. ``binds``: how often it was bound or executed.
        by_sql: PREPARE made it, and not a message of the protocol.
        named: it is bound with the name of its commit, see ``request_ids``.
        ready: its newest plan; None of a text without a statement. ``makes_temporary``: see ``Prepared``.
    """

    __slots__ = (
        "_cache",
        "_types",
        "binds",
        "by_sql",
        "columns",
        "made_us",
        "makes_temporary",
        "named",
        "param_types",
        "ready",
        "source",
        "statement",
        "text",
    )

    def __init__(
        self,
        cache: PlanCache,
        text: str,
        prepared: Prepared | None,
        catalog: Catalog,
        engine: Engine,
        *,
        by_sql: bool = False,
        source: str | None = None,
    ) -> None:
        """Plan ``prepared``; SqlError as planning raises them."""
        self.source = text if source is None else source
        self.made_us = now_us()
        self.binds = 0
        self._cache = cache
        self.text = text
        self.by_sql = by_sql
        self.statement: Statement | None = None
        self.makes_temporary = False
        self.ready: ReadyPlan | None = None
        self.named = False
        self._types: tuple[SqlType, ...] = ()  # of the parameters of the text
        self.columns: tuple[OutputColumn, ...] | None = None
        if prepared is not None:
            self.statement = prepared.statement
            self.makes_temporary = prepared.makes_temporary
            self.ready = prepared.planned(catalog, engine)
            plan = self.ready.plan
            self._types = plan.param_types
            self.columns = plan.columns
        self.param_types = self._types

    def take_name(self, number: int) -> None:
        """Expect the name of its commit as parameter ``number``. SqlError 08P01: that is not the last one."""
        if self.statement is None or number != len(self._types) + 1:
            raise SqlError(
                "08P01",
                f"the name of a commit is the last parameter: {number - 1} come before it, "
                f"but the statement requires {len(self._types)}",
            )
        self.named = True
        self.param_types = (*self._types, TEXT)

    @property
    def custom_plans(self) -> int:
        """How often PostgreSQL would have planned it for its parameters: five times at most."""
        return min(self.binds, _CUSTOM_PLANS) if self.param_types else 0

    @property
    def generic_plans(self) -> int:
        """How often PostgreSQL would have run it by the plan for all parameters."""
        return self.binds - self.custom_plans

    @property
    def keyword(self) -> str:
        """The statement's first word in capitals; "" for no statement."""
        return "" if self.statement is None else self.statement.keyword

    @property
    def plan_now(self) -> Plan:
        """The plan as of the last time that it was bound."""
        assert self.ready is not None
        return self.ready.plan

    def bound(
        self, catalog: Catalog, engine: Engine, params: Sequence[Datum]
    ) -> tuple[ReadyPlan, Sequence[Datum]]:
        """The plan for this catalog; ``params`` are its datums already.

        Raises:
            SqlError: 0A000, what it returns has changed; and all that planning raises.
        """
        ready = self.ready
        if ready is None or ready.catalog is not catalog or ready.engine != engine:
            ready = self._plan_again(catalog, engine)
        return ready, params

    def columnar(self, catalog: Catalog, param_types: tuple[SqlType, ...]) -> Plan:
        """See Prepared."""
        shared = self._cache.typed(self.text, self._types)
        assert shared is not None
        return shared.columnar(catalog, param_types)

    def _plan_again(self, catalog: Catalog, engine: Engine) -> ReadyPlan:
        shared = self._cache.typed(self.text, self._types)
        assert shared is not None
        ready = shared.planned(catalog, engine)
        columns = ready.plan.columns
        if _shape(columns) != _shape(self.columns):
            raise SqlError(
                "0A000", "cached plan must not change result type", routine="RevalidateCachedQuery"
            )
        self.columns = columns  # they may be another table's now
        self.ready = ready
        return ready


def _shape(columns: tuple[OutputColumn, ...] | None) -> list[tuple[str, SqlType]] | None:
    """What of columns a client counts on."""
    return None if columns is None else [(column.name, column.type) for column in columns]

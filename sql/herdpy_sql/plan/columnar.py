"""Queries that the columnar engine answers, as plans."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from herdpy_sql.bind import bind_query
from herdpy_sql.bind.changes import ChangeBinder
from herdpy_sql.execute.base import OutputColumn, Plan, PlanOutcome
from herdpy_sql.expr.nodes import NotColumnar
from herdpy_sql.plan.own import LEAVES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from sqlglot import expressions as exp

    from herdpy_sql.bind.nodes import Output
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Row
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.plan.settings import PlanSettings
    from herdpy_sql.storage import View
    from herdpy_sql.types import SqlType


class ColumnarSelect(Plan):
    """A SELECT whose rows are those of ``source``, its ColumnarQuery; ``reason`` is why it is not own.

    ``bound`` has the typed trees of its clauses where ``settings.verbose`` asked for them.
    """

    tag = "SELECT"
    read_only = True
    engine = "columnar"

    def __init__(self, query: Any, reason: str, bound: tuple[tuple[str, Expr], ...] = ()) -> None:
        self.bound = bound
        self.source = query
        self.columns: tuple[OutputColumn, ...] = query.columns
        self.param_types = query.param_types
        self.reason = reason

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        if source is None:
            raise ValueError("a columnar plan is given the answer of its source")
        return PlanOutcome(None, source.num_rows, source)

    def within(self, param_types: Sequence[SqlType]) -> Plan:
        return ColumnarSelect(replace(self.source, param_types=tuple(param_types)), self.reason, self.bound)

    def typed_tree(self) -> list[str]:
        """The trees of its clauses, or its outputs with their types; what each scan reads; DuckDB's query."""
        lines = super().typed_tree()
        for scan in self.source.scans:
            columns = [scan.table.columns[position] for position in scan.positions]
            listed = ", ".join(f"{column.name} {column.type}" for column in columns)
            lines.append(f"Scan of {scan.table.name}: {listed}")
        return [*lines, f"DuckDB: {self.source.sql}"]

    def explain(self) -> list[str]:
        lines = [f"Columnar Query ({self.reason})"]
        lines += [f"  -> Arrow Scan on {scan.table.name}" for scan in self.source.scans]
        return lines


def columnar_select(
    tree: exp.Expression,
    catalog: Catalog,
    settings: PlanSettings,
    reason: str,
    targets: Sequence[SqlType | None] | None = None,
) -> Plan:
    """The columnar plan of a query, over the system catalog too; ``targets`` type its bare literals and
    parameters. SqlError."""
    of_system = settings.system_query(tree, catalog, settings.param_types, targets)
    return of_system or bound_select(PlannedQuery(tree, catalog, settings, targets), reason)


class PlannedQuery:
    """A query that is bound, whichever engine is to run it.

    Attributes:
        tree: what it was bound from.
        query: the typed tree.
        params: of the statement, whose types are known now.
        notes: the trees of its clauses, where ``settings.verbose`` asks for them.
    """

    def __init__(
        self,
        tree: exp.Expression,
        catalog: Catalog,
        settings: PlanSettings,
        targets: Sequence[SqlType | None] | None = None,
    ) -> None:
        self.tree = tree
        self.params = settings.params()
        self.notes: list[tuple[str, Expr]] | None = [] if settings.verbose else None
        self.query, self.binder = bind_query(
            tree, catalog, self.params, targets=targets, given=settings.given, notes=self.notes
        )


def bound_select(bound: PlannedQuery, reason: str) -> ColumnarSelect:
    """The columnar plan of a bound query. SqlError."""
    from herdpy_sql.columnar.translate import emitted

    _refuse_empty(bound.query.outputs)
    query = emitted(bound.query, bound.binder)
    return ColumnarSelect(query, reason, tuple(bound.notes or ()))


def _refuse_empty(outputs: Sequence[Output]) -> None:
    """NotColumnar for a SELECT without a list: Arrow counts no rows of no columns."""
    if not outputs:
        raise NotColumnar("SELECT with an empty list is supported in own plans alone, not in this query")


class PlannedChange:
    """A statement that changes rows, whose expressions are bound once, whichever engine is to compute them.

    Attributes:
        tree: the statement; one about the system catalog names what is handed over.
        bound: what binds it.
        params: of the statement.
        notes: the trees of its clauses, where ``settings.verbose`` asks for them.
        is_of_system: it is about the system catalog, so own plans do not run it.
    """

    def __init__(
        self,
        tree: exp.Expression,
        catalog: Catalog,
        settings: PlanSettings,
        parts: Iterable[exp.Expression | None],
    ) -> None:
        """``parts`` are what may name something of the system's: all but the target. SqlError."""
        given = [one for one in parts if one is not None and not isinstance(one, LEAVES)]
        self._system = settings.system_parts(tree, catalog, given) if given else None
        self.is_of_system = self._system is not None
        self.tree = tree if self._system is None else self._system.tree
        self.params = settings.params()
        self.notes: list[tuple[str, Expr]] | None = [] if settings.verbose else None
        self.bound = ChangeBinder(
            self.tree,
            catalog,
            self.params,
            given=settings.given if self._system is None else self._system.given,
            notes=self.notes,
        )

    def trees(self, returned: Sequence[tuple[str, Expr]]) -> tuple[tuple[str, Expr], ...]:
        """The trees of its clauses and of what RETURNING gives, where they are asked for."""
        if self.notes is None:
            return ()
        return (*self.notes, *((f"Output: {name}", expr) for name, expr in returned))

    def query(self, outputs: list[Output], reason: str) -> Plan:
        """The plan of the query that gives ``outputs``, by the columnar engine; its untyped columns are TEXT.

        SqlError.
        """
        from herdpy_sql.columnar.translate import emitted

        query = self.bound.query(outputs)
        _refuse_empty(outputs)
        query.settle((), self.params)
        found = emitted(query, self.bound.binder, context=self.is_of_system)
        return ColumnarSelect(found, reason) if self._system is None else self._system.plan(found)

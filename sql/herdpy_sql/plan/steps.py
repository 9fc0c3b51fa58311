"""The steps of an own SELECT: the order of its joins, the access to each table, and what is decoded.

A bound ``OwnQuery`` comes in, its expressions over one wide row of all columns; ``StepPlanner`` chooses, for
each table in turn, the access that is best by what has been read so far, renumbers the expressions to the
narrow rows that the steps really decode, and gives the plan that ``execute`` runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from herdpy_sql.execute.base import OutputColumn
from herdpy_sql.execute.locking import LockingSelect
from herdpy_sql.execute.query import JoinedRows, JoinStep, PointSelect, SelectPlan, SortKey
from herdpy_sql.execute.relations import column_picker
from herdpy_sql.execute.sources import IndexScan, KeyGet
from herdpy_sql.expr import Params, columns_used, compile_expr, remap_columns, takes_values
from herdpy_sql.expr.compile import order_of
from herdpy_sql.expr.nodes import And, ColumnRef
from herdpy_sql.expr.scope import TableRelation
from herdpy_sql.plan.access import (
    COLUMNAR_ROWS,
    OWN_ROWS,
    SETTLED_ROWS,
    AccessPath,
    PathReach,
    WantedOrder,
    choose,
    spread_out,
)
from herdpy_sql.plan.clauses import project
from herdpy_sql.plan.indexes import has_expressions, substituted
from herdpy_sql.plan.own import Refusal
from herdpy_sql.plan.relations import access_to
from herdpy_sql.plan.statistics import statistics_of
from herdpy_sql.plan.text import expr_text
from herdpy_sql.types import BOOLEAN, Base, need_ordering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.bind.nodes import Output
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Compiled, Plan
    from herdpy_sql.execute.locking import RowLock
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.plan.relations import MemoryRelation
    from herdpy_sql.plan.settings import PlanSettings


@dataclass
class OwnQuery:
    """A SELECT while it is bound."""

    items: list[TableRelation] = field(default_factory=list)  # the tables of FROM, in order
    joins: dict[str, list[Expr]] = field(default_factory=dict)  # ON conditions of left joins, by alias
    where: list[Expr] = field(default_factory=list)  # and ON conditions of inner joins
    outputs: list[Output] = field(default_factory=list)
    order: list[tuple[Expr, bool, bool]] = field(default_factory=list)
    limit: Expr | None = None
    offset: Expr | None = None
    locking: dict[str, RowLock] = field(default_factory=dict)
    relations: dict[str, MemoryRelation] = field(default_factory=dict)  # those in memory, by alias


class StepPlanner:
    """Chooses the order of joins and the access to each table, then builds the steps."""

    def __init__(self, query: OwnQuery, params: Params, settings: PlanSettings, catalog: Catalog) -> None:
        self.query = query
        self.catalog = catalog
        self.params = params
        self.settings = settings
        if has_expressions(query.items):
            self._use_expressions()
        self.needed = self._needed()
        self.takes = any(takes_values(expr) for expr in self._exprs())  # it changes sequences
        self.places: dict[int, int] = {}  # wide column number -> place in the narrow row
        self.seen: set[int] = set()  # wide numbers of columns that have values so far
        self.reach = PathReach.ONE
        self.bounded = True
        self.rows: float | None = 1.0  # likely to be read, all loops together
        self.settled = True  # that can be relied on
        self.aliases: list[str] = []  # of the steps, in order

    def _use_expressions(self) -> None:
        """Let conditions and order be about the columns of indexes on expressions."""
        query = self.query
        items = query.items
        query.where = substituted(query.where, items)
        query.joins = {alias: substituted(conditions, items) for alias, conditions in query.joins.items()}
        order = substituted([expr for expr, _, _ in query.order], items)
        query.order = [(expr, *how) for expr, (_, *how) in zip(order, query.order, strict=True)]  # type: ignore[misc]

    def _exprs(self) -> list[Expr]:
        query = self.query
        exprs = [one.expr for one in query.outputs] + [expr for expr, _, _ in query.order] + query.where
        for conditions in query.joins.values():
            exprs += conditions
        return exprs

    def _needed(self) -> set[int]:
        return {column.index for expr in self._exprs() for column in columns_used(expr)}

    def plan(self) -> Plan | Refusal:
        """The plan of the query; a refusal when the columnar engine should have it."""
        query = self.query
        steps, ordered, rest = self._steps()
        sort: tuple[SortKey, ...] = ()
        if query.order and not ordered:
            sort = tuple(self._sort_key(*one) for one in query.order)
        filtered = any(step.condition for step in steps[:1])
        if better := self._better_elsewhere(sorted_after=bool(sort), filtered=filtered):
            return Refusal(better, is_choice=True)
        param_types = self.params.types
        columns = tuple([OutputColumn(one.name, one.type, one.origin) for one in query.outputs])
        exprs = [self.narrow(one.expr) for one in query.outputs]
        plain = [expr.index for expr in exprs if isinstance(expr, ColumnRef)]
        if len(steps) == 1 and len(plain) == len(exprs) and not rest:
            fast = self._point(steps[0], columns, exprs, sort)
            if fast is not None:
                fast.bound = self._bound()
                return fast
        condition = self.compile_all(rest) if not steps else None
        parts = (
            JoinedRows(tuple(steps), condition, bool(query.locking)),
            columns,
            tuple(param_types),
            None if plain == list(range(len(self.places))) and len(plain) == len(exprs) else project(exprs),
            sort,
            compile_expr(query.limit) if query.limit is not None else None,
            compile_expr(query.offset) if query.offset is not None else None,
        )
        found: SelectPlan
        if query.locking:
            found = LockingSelect(*parts, tuple(query.locking.get(alias) for alias in self.aliases))
        else:
            found = SelectPlan(*parts)
            found.read_only &= not self.takes
        found.bound = self._bound()
        return found

    def _bound(self) -> tuple[tuple[str, Expr], ...]:
        """The typed trees of the query, for EXPLAIN (VERBOSE)."""
        query = self.query
        found = [(f"Output: {one.name}", one.expr) for one in query.outputs]
        found += [("Condition:", expr) for expr in query.where]
        for alias, conditions in query.joins.items():
            found += [(f"Condition of the left join of {alias}:", expr) for expr in conditions]
        found += [("Order by:", expr) for expr, _, _ in query.order]
        return tuple(found)

    def _point(
        self,
        step: JoinStep,
        columns: tuple[OutputColumn, ...],
        exprs: Sequence[Expr],
        sort: tuple[SortKey, ...],
    ) -> Plan | None:
        query = self.query
        if (
            not isinstance(step.source, KeyGet)
            or step.source.table.partition_key is not None
            or step.condition is not None
            or sort
            or query.limit is not None
            or query.offset is not None
            or query.locking
        ):
            return None
        base = query.items[0].base
        wide = {place: number - base for number, place in self.places.items()}
        positions = [wide[expr.index] for expr in exprs if isinstance(expr, ColumnRef)]
        decode = step.source.table.row_codec.decoder(positions)
        return PointSelect(step.source, columns, tuple(self.params.types), decode)

    def _better_elsewhere(self, *, sorted_after: bool, filtered: bool) -> str:
        """Why the columnar engine should have it; empty where it should not."""
        if self.settings.engine == "own" or not self.query.items or self.query.locking or self.takes:
            return ""
        if not self.bounded:
            return "a join without a key"
        limited = self.query.limit is not None and not sorted_after
        if self.rows is not None and self.rows > COLUMNAR_ROWS and not limited:
            return f"about {self.rows:.0f} rows"
        few = self.settled and self.rows is not None and self.rows <= OWN_ROWS
        if self.reach <= PathReach.RANGE or (self.reach == PathReach.HALF and few):
            return ""
        return "a scan of unknown size" if not limited or (self.reach == PathReach.ALL and filtered) else ""

    # --- tables in order -------------------------------------------------------------------------

    def _steps(self) -> tuple[list[JoinStep], bool, list[Expr]]:
        """The steps, whether their rows come in the wanted order, and conditions left (without tables)."""
        query = self.query
        inner = [item for item in query.items if item.name not in query.joins]
        outer = [item for item in query.items if item.name in query.joins]
        pool = list(query.where)
        steps: list[JoinStep] = []
        ordered = False
        remaining = list(inner)
        while remaining:
            first = not steps
            choices = [(self._access(item, self._ready(pool, item), first=first), item) for item in remaining]
            if self.settings.engine == "own" and self.settings.scan_only:
                access, item = choices[0]
            else:
                known = all(access.rows is not None for access, _ in choices)
                access, item = min(choices, key=lambda one: one[0].rank[0 if known else 1 :])
            self._read(access)
            conditions = self._ready(pool, item)
            pool = _without(pool, conditions)
            if first:
                ordered = access.ordered and (not query.order or bool(self._wanted(item)))
                # What is in memory is no more than a statement before has read, or a client has sent.
                self.reach = PathReach.SOME if item.name in query.relations else access.reach
            elif access.reach > PathReach.SOME:
                self.bounded = False
            steps.append(self._step(item, access, conditions))
            self.aliases.append(item.name)
            remaining.remove(item)
        for item in outer:
            on = query.joins[item.name]
            access = self._access(item, on, first=False)
            self._read(access)
            if access.reach > PathReach.SOME:
                self.bounded = False
            after = self._ready(pool, item)
            pool = _without(pool, after)
            steps.append(self._step(item, access, on, left=True, after=after))
            self.aliases.append(item.name)
        return steps, ordered or not query.order, pool

    def _read(self, access: AccessPath) -> None:
        """Count what a table's access is likely to read for each row so far."""
        if self.rows is not None:
            self.rows = None if access.rows is None else max(self.rows, 1.0) * access.rows

    def _ready(self, pool: Sequence[Expr], item: TableRelation) -> list[Expr]:
        """The conditions that can be judged once ``item`` is joined."""
        return [one for one in pool if all(self._known_with(c.index, item) for c in columns_used(one))]

    def _known_with(self, column: int, item: TableRelation) -> bool:
        return column in self.seen or item.base <= column < item.end

    def _wanted(self, item: TableRelation) -> list[WantedOrder]:
        """The wanted order as columns of ``item``; empty when it is not only those."""
        found = []
        for expr, descending, nulls_first in self.query.order:
            if not isinstance(expr, ColumnRef) or not item.base <= expr.index < item.end:
                return []
            found.append(WantedOrder(expr.index - item.base, descending, nulls_first))
        return found

    def _access(self, item: TableRelation, conditions: Sequence[Expr], *, first: bool) -> AccessPath:
        relation = self.query.relations.get(item.name)
        if relation is not None:
            return access_to(relation, conditions, self.seen.__contains__, self.narrow)
        wanted = self._wanted(item) if first else []
        statistics = statistics_of(self.catalog, item.table)
        self.settled = self.settled and statistics is not None and statistics.rows >= SETTLED_ROWS
        known = self.seen.__contains__
        found = choose(
            item,
            conditions,
            known,
            self.narrow,
            wanted,
            limited=self.query.limit is not None,
            forced_scan=self.settings.scan_only,
            statistics=statistics,
        )
        return spread_out(
            found, item, conditions, known, self.narrow, self.catalog, in_order=found.ordered and bool(wanted)
        )

    def _step(
        self,
        item: TableRelation,
        access: AccessPath,
        conditions: Sequence[Expr],
        *,
        left: bool = False,
        after: Sequence[Expr] = (),
    ) -> JoinStep:
        rest = [one for number, one in enumerate(conditions) if number not in access.used]
        needed = self.needed
        if len(self.query.items) == 1:  # what the access has served is not looked at again
            exprs = [one.expr for one in self.query.outputs] + [expr for expr, _, _ in self.query.order]
            needed = {column.index for expr in (*exprs, *rest) for column in columns_used(expr)}
        used = sorted(column for column in needed if item.base <= column < item.end)
        for column in used:
            self.places[column] = len(self.places)
        self.seen.update(range(item.base, item.end))
        positions = [column - item.base for column in used]
        in_memory = item.name in self.query.relations
        source = access.source
        if isinstance(source, IndexScan) and not used and not self.query.locking:
            source = replace(source, keys_only=True)
        return JoinStep(
            source=source,
            decode=column_picker(positions)
            if in_memory or not positions
            else item.table.row_codec.decoder(positions),
            condition=self.compile_all(rest),
            condition_text=" AND ".join(map(expr_text, rest)),
            left=left,
            after=self.compile_all(after),
            after_text=" AND ".join(map(expr_text, after)),
            width=len(used),
        )

    # --- expressions over the narrow row ---------------------------------------------------------

    def narrow(self, expr: Expr) -> Expr:
        """``expr`` over the row that the steps so far give."""
        return remap_columns(expr, lambda column: self.places[column.index])

    def compile_all(self, exprs: Sequence[Expr]) -> Compiled | None:
        """The conjunction of conditions, ready to run."""
        if not exprs:
            return None
        narrow = [self.narrow(one) for one in exprs]
        return compile_expr(narrow[0] if len(narrow) == 1 else And(BOOLEAN, tuple(narrow)))

    def _sort_key(self, expr: Expr, descending: bool, nulls_first: bool) -> SortKey:
        text = expr_text(expr) + (" DESC" if descending else "")
        if nulls_first != descending:
            text += " NULLS FIRST" if nulls_first else " NULLS LAST"
        need_ordering(expr.type)
        floating = expr.type.base in {Base.REAL, Base.DOUBLE}
        value = compile_expr(self.narrow(expr))
        return SortKey(value, descending, nulls_first, text, floating, order_of(expr.type))


def _without(pool: Sequence[Expr], used: Sequence[Expr]) -> list[Expr]:
    """The conditions that are not among ``used``, by identity: equal ones may stand twice."""
    gone = {id(one) for one in used}
    return [one for one in pool if id(one) not in gone]

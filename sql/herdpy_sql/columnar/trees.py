"""Binding to typed trees: ``expr``'s binder, in a query of the columnar engine.

The handlers of own plans bind the classes of syntax in ``_BOUND``, and ``emit`` makes DuckDB's text of the
tree. All other syntax goes back to the columnar binder, and what that gives stands in the tree as an
``Emitted`` node.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.collations import collation_name
from herdpy_sql.columnar import aggregates as _aggregates  # noqa: F401 - registers itself
from herdpy_sql.columnar import engine
from herdpy_sql.columnar.binder import MAX_PARAMETER, Binder, handles
from herdpy_sql.columnar.emit import Emitted, emit, entered
from herdpy_sql.columnar.routines import full_type
from herdpy_sql.columnar.scope import Col, Rel, Scope, from_column, table_column
from herdpy_sql.columnar.subqueries import BoundInnerQuery, inner_query
from herdpy_sql.duck import Typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import calls, conditions
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.aggregates import AGGREGATE_CALLS
from herdpy_sql.expr.binder import LEAVES_AND_OPERATORS, ExprBinder
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.subqueries import SUBQUERIES
from herdpy_sql.expr.syntax import NAMES, bare
from herdpy_sql.types import BOOLEAN

if TYPE_CHECKING:
    from herdpy_sql.expr.binder import Handler


class _Place:
    """Where a tree stands: the names that mean something there."""

    volatile = True

    def __init__(self, binder: Binder, scope: Scope) -> None:
        self.binder = binder
        self.scope = scope

    def resolve(self, table: str | None, name: str) -> n.Expr:
        """The column, of this SELECT or of one around it. SqlError 42703, 42702, 42P01; 0A000 for a row."""
        scope = self.scope
        try:
            found, column = scope.find(table, name)
        except SqlError as error:
            if error.sqlstate == "42703" and table is None and scope.relation(name) is not None:
                raise SqlError("0A000", f'whole-row reference "{name}" is not supported') from None
            raise
        return self._column(column, found)

    def _column(self, column: Col, of: Scope) -> n.Expr:
        x = from_column(column, of.number)
        inner: Scope | None = self.scope
        while inner is not None and inner.number != of.number:
            inner.outer_vars |= x.vars
            inner = inner.parent
        return Emitted(full_type(x), x, None, column)

    def query(self, node: exp.Expression) -> BoundInnerQuery:
        """A query inside an expression."""
        return inner_query(self.binder.query(node, self.scope), node)

    def row(self, name: str) -> n.RelationRow | None:
        """The relation of that name, whose row is a value; None where a column has the name."""
        found = self.scope.relation(name)
        if found is None or self.scope.has_column(name):
            return None
        rel = found[1]
        fields = tuple([(column.name, self.resolve(rel.name, column.name)) for column in rel.columns])
        return n.RelationRow(fields, self._missing(rel, found[0]))

    def _missing(self, rel: Rel, scope: Scope) -> n.Expr | None:
        """What tells that an outer join found no row of a relation; None where there is always one."""
        if not rel.nullable:
            return None
        if rel.table is None or not rel.table.key:
            raise SqlError("0A000", f'whole-row reference "{rel.name}" of an outer join is not supported')
        key = table_column(rel, rel.table, rel.table.key_positions[0])
        return n.IsNull(BOOLEAN, self._column(key, scope), False)

    def refuse_aggregate(self) -> None:
        """SqlError 42803 in WHERE and the like."""
        clause = self.scope.clause
        if clause in ("WHERE", "JOIN/ON", "GROUP BY", "LIMIT"):
            where = "JOIN conditions" if clause == "JOIN/ON" else clause
            raise SqlError("42803", f"aggregate functions are not allowed in {where}")

    def bound(self, tree: ExprBinder, node: exp.Expression) -> n.Expr:
        """What the columnar binder makes of other syntax."""
        return entered(self.binder.bind(node, self.scope), node)


def tree_binder(binder: Binder, scope: Scope) -> ExprBinder:
    """The binder of trees that stand in ``scope``."""
    place = _Place(binder, scope)
    return ExprBinder(place, binder.params, _BOUND, place.bound, binder.depth)


def bound(binder: Binder, node: exp.Expression, scope: Scope) -> tuple[n.Expr, Typed]:
    """The tree of an expression, and DuckDB's text of it."""
    node = bare(node)
    if type(node) not in _BOUND:
        x = binder.bind(node, scope)
        return entered(x, node), x
    tree = tree_binder(binder, scope).bind(node)
    return tree, emit(binder, tree, scope)


def condition(binder: Binder, node: exp.Expression, scope: Scope, clause: str) -> Typed:
    """A condition of a query; SqlError 42804 naming the clause where it is not BOOLEAN."""
    tree = tree_binder(binder, scope).condition(node, clause)
    binder.note(f"{_LABELS[clause]}:", tree)
    return emit(binder, tree, scope)


_LABELS = {"WHERE": "Condition", "HAVING": "Condition of groups", "JOIN/ON": "Condition of join"}


def _anonymous(tree: ExprBinder, node: Any) -> n.Expr:
    """A call. SqlError 42883."""
    name = str(node.this).lower()
    found = None if name in calls.SEQUENCE_FUNCTIONS else calls.anonymous(tree, node)
    if found is None:
        raise no_function(name, [tree.bind(arg).type for arg in node.expressions])
    return found


def _collate(tree: ExprBinder, node: exp.Collate) -> n.Expr:
    """COLLATE, also of a language's collation, which DuckDB has."""
    name = engine.collation(collation_name(node.expression))
    arg = tree.collated(node)
    return arg if name is None else n.Call(arg.type, _collation(name), (arg,))


@functools.lru_cache(maxsize=256)
def _collation(name: str) -> n.Function:
    return n.Function(
        "collate", lambda text: text, duck=f"({{0}} COLLATE {name})", foreign=f"collation {name}"
    )


def _parameter(tree: ExprBinder, node: Any) -> n.Expr:
    found = tree.parameter(node)
    if isinstance(found, n.Param) and found.number > MAX_PARAMETER:
        raise SqlError("42P02", f"there is no parameter ${found.number}")
    return found


def _apart(tree: ExprBinder, node: Any, handler: Any) -> n.Expr:
    place = tree.scope
    assert isinstance(place, _Place)
    return entered(handler(place.binder, node, place.scope), node)


_OTHERS = {exp.Window}
_CALLED = (*NAMES, exp.SHA2Digest, exp.SHA2, exp.MakeInterval)
_BOUND: dict[type, Handler] = {
    **dict.fromkeys(_CALLED, calls.bind_call),
    **{kind: handler for kind, handler in LEAVES_AND_OPERATORS.items() if kind not in _OTHERS},
    **conditions.CONDITIONS,
    **calls.CALLS,
    **SUBQUERIES,
    **AGGREGATE_CALLS,
    exp.Anonymous: _anonymous,
    exp.Collate: _collate,
    exp.Parameter: _parameter,
}


@handles(exp.Paren, *_BOUND)
def _tree(binder: Binder, node: Any, scope: Scope) -> Typed:
    return emit(binder, tree_binder(binder, scope).bind(node), scope)

"""Typed trees in a query of the columnar engine: what ``expr`` binds in its scopes, and DuckDB's text of it.

``_Place`` is what the names mean there; ``emit`` and those above it make the text.
"""

from __future__ import annotations

from sqlglot import exp

from herdpy_sql.columnar import aggregates as _aggregates  # noqa: F401 - registers itself
from herdpy_sql.columnar import windows as _windows  # noqa: F401 - registers itself
from herdpy_sql.columnar.binder import Binder
from herdpy_sql.columnar.emit import Emitted, emit
from herdpy_sql.columnar.routines import full_type
from herdpy_sql.columnar.scope import Col, Rel, Scope, from_column, table_column
from herdpy_sql.columnar.subqueries import BoundInnerQuery, inner_query
from herdpy_sql.duck import Typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.binder import ExprBinder
from herdpy_sql.expr.binding import tree_binder as expr_binder
from herdpy_sql.types import BOOLEAN


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
        return Emitted(full_type(x), x, column)

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

    def refuse_window(self) -> None:
        """SqlError 42P20 in WHERE and the like."""
        clause = self.scope.clause
        if clause in ("WHERE", "JOIN/ON", "GROUP BY", "HAVING", "LIMIT"):
            where = "JOIN conditions" if clause == "JOIN/ON" else clause
            raise SqlError("42P20", f"window functions are not allowed in {where}")

    def window(self, name: str) -> exp.Expression:
        """The window of the SELECT's WINDOW clause. SqlError 42704."""
        found = self.scope.windows.get(name)
        if found is None:
            raise SqlError("42704", f'window "{name}" does not exist')
        return found


def tree_binder(binder: Binder, scope: Scope) -> ExprBinder:
    """The binder of trees that stand in ``scope``."""
    return expr_binder(_Place(binder, scope), binder.params, binder.depth)


def bound(binder: Binder, node: exp.Expression, scope: Scope) -> tuple[n.Expr, Typed]:
    """The tree of an expression, and DuckDB's text of it."""
    tree = tree_binder(binder, scope).bind(node)
    return tree, emit(binder, tree, scope)


def condition(binder: Binder, node: exp.Expression, scope: Scope, clause: str) -> Typed:
    """A condition of a query; SqlError 42804 naming the clause where it is not BOOLEAN."""
    tree = tree_binder(binder, scope).condition(node, clause)
    binder.note(f"{_LABELS[clause]}:", tree)
    return emit(binder, tree, scope)


_LABELS = {"WHERE": "Condition", "HAVING": "Condition of groups", "JOIN/ON": "Condition of join"}


def text_of(binder: Binder, node: exp.Expression, scope: Scope) -> Typed:
    """DuckDB's text of an expression."""
    return emit(binder, tree_binder(binder, scope).bind(node), scope)

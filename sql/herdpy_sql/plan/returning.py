"""RETURNING: its columns, and the function that makes them of a row that a statement wrote.

``bind_returning`` binds it over the target. Of UPDATE ... FROM and DELETE ... USING it is bound over all
tables, and the query that finds the rows also gives what it takes of the others (:class:`Brought`). RETURNING
that only the columnar engine can compute is refused (:class:`~herdpy_sql.plan.own.Refusal`), and ``writable``
makes a query of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace
from sqlglot import expressions as exp

from herdpy_sql.bind.nodes import Output
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn
from herdpy_sql.expr import rebuild
from herdpy_sql.expr.nodes import ColumnRef, walk
from herdpy_sql.expr.scope import Scope
from herdpy_sql.plan.clauses import bind_outputs, output_columns, project
from herdpy_sql.plan.own import Refusal
from herdpy_sql.plan.scope import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.insert import Project
    from herdpy_sql.expr import Params
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.expr.scope import TableRelation


def target_name(tree: exp.Expression, table: Table) -> str:
    """What a statement calls the table that it writes to."""
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    alias = target.args.get("alias")
    return name_of(alias.this) if alias is not None else table.name


@dataclass(frozen=True, slots=True)
class Returning:
    """RETURNING: its columns, and the function that makes them of a row; None where it is not there.

    Attributes:
        outputs: the columns' names and typed trees.
    """

    columns: tuple[OutputColumn, ...] | None = None
    project: Project | None = None
    outputs: Sequence[tuple[str, Expr]] = ()


def bind_returning(
    tree: exp.Expression, table: Table, params: Params, alias: str | None = None
) -> Returning | Refusal:
    """RETURNING over a physical row of the table, or why own plans do not compute it."""
    node = tree.args.get("returning")
    if node is None:
        return Returning()
    scope = Scope()
    scope.add_table(alias or target_name(tree, table), table)
    return returning_over(node.expressions, scope, params)


def returning_over(nodes: Sequence[exp.Expression], scope: Scope, params: Params) -> Returning | Refusal:
    """RETURNING over a row of what ``scope`` has: a physical row of the target, and the columns of other
    relations behind it. Or why own plans do not compute it."""
    scope.clause = "RETURNING"
    outputs = bind_outputs(nodes, scope, params)
    if isinstance(outputs, Refusal):
        return outputs
    return Returning(output_columns(outputs, scope), project([expr for _, expr in outputs]), outputs)


class Brought:
    """RETURNING over the target and other tables, which the query of the rows gives columns of.

    Attributes:
        outputs: what the query has to give besides, behind the columns that it gives already.
    """

    def __init__(
        self, nodes: Sequence[exp.Expression], target: TableRelation, scope: Scope, params: Params, first: int
    ) -> None:
        """``first`` is the place in the row, behind the table's columns, of the first of ``outputs``.

        Raises SqlError, 0A000 for what own plans do not compute.
        """
        scope.clause = "RETURNING"
        bound = bind_outputs(nodes, scope, params)
        if isinstance(bound, Refusal):
            raise SqlError("0A000", f"RETURNING: {bound.reason} is not supported")
        self._returned = bound
        self._target, self._scope, self._first = target, scope, first
        self._places: dict[ColumnRef, int] = {}
        for _, expr in bound:
            for one in walk(expr):
                if isinstance(one, ColumnRef) and not self._is_target(one):
                    self._places.setdefault(one, len(self._places))
        self.outputs = [Output(one.name, one) for one in self._places]

    def returning(self, columns: Sequence[OutputColumn]) -> Returning:
        """RETURNING over the target's row and what the query gave of ``outputs``, which are ``columns``."""

        def placed(expr: Expr) -> Expr | None:
            if not isinstance(expr, ColumnRef):
                return None
            if self._is_target(expr):
                return replace(expr, index=expr.index - self._target.base)
            place = self._places[expr]
            return ColumnRef(columns[place].type, self._first + place, expr.name)

        exprs = [rebuild(expr, placed) for _, expr in self._returned]
        origins = [self._scope.origin(expr) for _, expr in self._returned]
        return Returning(
            tuple(
                [
                    OutputColumn(name, expr.type, origin)
                    for (name, _), expr, origin in zip(self._returned, exprs, origins, strict=True)
                ]
            ),
            project(exprs),
            self._returned,
        )

    def _is_target(self, column: ColumnRef) -> bool:
        return self._target.base <= column.index < self._target.end

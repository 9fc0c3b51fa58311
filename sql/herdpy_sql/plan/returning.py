"""RETURNING: its columns, and the function that makes them of a row that a statement wrote.

``bind_returning`` binds it over the target. Of UPDATE ... FROM and DELETE ... USING the query that finds the
rows also gives what RETURNING takes of the other tables (:class:`Brought`), and ``bind_brought`` binds
RETURNING over the target and a relation of those columns. RETURNING that only the columnar engine can compute
is refused (:class:`~herdpy_sql.plan.own.Refusal`), and ``writable`` makes a query of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn
from herdpy_sql.expr import Params
from herdpy_sql.expr.output_names import output_name
from herdpy_sql.expr.scope import Scope
from herdpy_sql.plan.clauses import bind_outputs, output_columns, project
from herdpy_sql.plan.own import Refusal
from herdpy_sql.plan.scope import name_of, quoted

if TYPE_CHECKING:
    from herdpy_sql.execute.insert import Project

BROUGHT = "__brought"
ColumnsOf = Callable[[list[exp.Expression]], Sequence[OutputColumn]]


def target_name(tree: exp.Expression, table: Table) -> str:
    """What a statement calls the table that it writes to."""
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    alias = target.args.get("alias")
    return name_of(alias.this) if alias is not None else table.name


@dataclass(frozen=True, slots=True)
class Returning:
    """RETURNING: its columns, and the function that makes them of a row; None where it is not there."""

    columns: tuple[OutputColumn, ...] | None = None
    project: Project | None = None


def bind_returning(
    tree: exp.Expression, table: Table, params: Params, alias: str | None = None
) -> Returning | Refusal:
    """RETURNING over a physical row of the table, or why own plans do not compute it."""
    node = tree.args.get("returning")
    if node is None:
        return Returning()
    scope = Scope(clause="RETURNING")
    scope.add_table(alias or target_name(tree, table), table)
    outputs = bind_outputs(node.expressions, scope, params)
    if isinstance(outputs, Refusal):
        return outputs
    return Returning(output_columns(outputs, scope), project([expr for _, expr in outputs]))


@dataclass
class Brought:
    """RETURNING, taken apart.

    Attributes:
        columns_of: the columns of a query for some expressions over the statement's tables.
        count: columns that the query of rows has behind the target's, so far.
        extras: what it shall give besides those.
        expressions: RETURNING over the target and BROUGHT.
    """

    table: Table
    alias: str
    columns_of: ColumnsOf
    count: int
    extras: list[exp.Expression] = field(default_factory=list)
    expressions: list[exp.Expression] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)

    def add(self, node: exp.Expression) -> None:
        """One more expression of RETURNING; SqlError as binding its columns raises."""
        if isinstance(node, exp.Star):
            self.expressions.append(exp.Column(this=exp.Star(), table=quoted(self.alias)))
            self._star(node, len(self.table.visible))
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            if name_of(node.args["table"]) == self.alias:
                self.expressions.append(node)
            else:
                self._star(node, 0)
        else:
            name = node.alias if isinstance(node, exp.Alias) else output_name(node)
            inner = node.this if isinstance(node, exp.Alias) else node
            found = inner.copy().transform(self._rewritten)
            self.expressions.append(exp.Alias(this=found, alias=quoted(name)))

    def _star(self, node: exp.Expression, skipped: int) -> None:
        columns = self.columns_of([node])
        self.extras.append(node)
        for i, column in enumerate(columns[skipped:], self.count + skipped):
            self.expressions.append(exp.Alias(this=_brought(i), alias=quoted(column.name)))
        self.count += len(columns)

    def _rewritten(self, node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        qualifier = node.args.get("table")
        if qualifier is not None and name_of(qualifier) == self.alias:
            return node
        if qualifier is None:
            self.columns_of([node])  # raises where it might be one or the other
            if name_of(node.this) in self.table.positions:
                return node
        text = node.sql("postgres")
        if text not in self._places:
            self._places[text] = self.count
            self.extras.append(node)
            self.count += 1
        return _brought(self._places[text])


def bind_brought(brought: Brought, computed: Sequence[OutputColumn], params: Params) -> Returning:
    """As ``bind_returning``, over the target's row followed by what was ``computed`` besides."""
    scope = Scope(clause="RETURNING")
    scope.add_table(brought.alias, brought.table)
    scope.add_listed(BROUGHT, [(f"c{i}", one.type, one.origin) for i, one in enumerate(computed)])
    outputs = bind_outputs(brought.expressions, scope, params)
    if isinstance(outputs, Refusal):
        raise SqlError("0A000", f"RETURNING: {outputs.reason} is not supported")
    return Returning(output_columns(outputs, scope), project([expr for _, expr in outputs]))


def _brought(place: int) -> exp.Column:
    return exp.column(quoted(f"c{place}"), table=quoted(BROUGHT))

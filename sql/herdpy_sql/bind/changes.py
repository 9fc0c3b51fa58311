"""UPDATE, DELETE and INSERT ... VALUES bound to typed trees: the rows that they are about, and their values.

All expressions of a statement are bound in the one scope of a ``ChangeBinder``. Its ``select`` is the query
for what the statement needs: the target and the other tables, WHERE, and outputs that the planner names. The
target comes first, so that without WITH its columns have the numbers of the table's. Beside ``queries``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.bind import nodes as q
from herdpy_sql.bind.bounds import note_bounds
from herdpy_sql.bind.queries import binder_of
from herdpy_sql.bind.relations import bind_target
from herdpy_sql.bind.with_queries import bind_with

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from herdpy_sql.bind.binder import Handed, Notes
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.expr.coerce import Params
    from herdpy_sql.expr.nodes import Expr


class ChangeBinder:
    """What binds one statement that changes rows.

    Attributes:
        binder: the state of the binding.
        scope: what names mean in the statement: the target, and the other tables.
        select: the query; nothing but its WITH queries until ``rows`` has bound FROM and WHERE.
    """

    def __init__(
        self,
        tree: exp.Expression,
        catalog: Catalog,
        params: Params,
        *,
        given: Mapping[str, Handed] | None = None,
        notes: Notes | None = None,
    ) -> None:
        self.binder = binder_of(catalog, params, given, notes)
        self.binder.level = 1
        self.scope = self.binder.scope(None)
        self.select = q.Select([])
        self._where: exp.Expression | None = None
        with_ = tree.args.get("with_")
        if with_ is not None:
            self.select.with_queries = bind_with(self.binder, with_, self.scope)
            self.select.recursive = bool(with_.args.get("recursive"))

    def rows(self, tree: exp.Expression, table: Table, alias: str) -> q.TableScan:
        """Bind the tables of UPDATE or DELETE and WHERE; the rows of the target come out."""
        others = tree.args.get("using") or ()
        source = tree.args.get("from_")
        if source is not None:
            others = [source.this]
        self.select.source = bind_target(self.binder, table, alias, others, self.scope)
        where = tree.args.get("where")
        if where is not None:
            self._where = where.this
            self.select.where = self.binder.condition(where.this, self.scope, "WHERE")
        target = self.select.source[0]
        assert isinstance(target, q.TableScan)
        return target

    def value(self, node: exp.Expression, clause: str) -> Expr:
        """The typed tree of a value; a literal may have no type yet."""
        self.scope.clause = clause
        return self.binder.tree(node, self.scope)

    def query(self, outputs: list[q.Output]) -> q.Select:
        """The query that gives these outputs, for an engine that takes queries."""
        self.select.outputs = outputs
        if self._where is not None:
            note_bounds(self.binder.scans, self._where, self.scope)
        return self.select


def columns_of(scan: q.TableScan) -> Iterator[q.Output]:
    """All live physical columns of a table, hidden ones too, as outputs."""
    for position, column in enumerate(scan.table.columns):
        if not column.dropped:
            yield q.Output(column.name, scan.relation.column(position), scan.table.origin(position))


def computed_output(value: Expr, type_: Any, params: Params) -> q.Output:
    """A value as an output; a literal or parameter without a type takes ``type_``."""
    return q.typed_output(q.Output("", value), type_, params)

"""The state of one binding: what queries are bound with.

``queries`` binds SELECTs, ``relations`` FROM; both reach the queries within by ``Binder.query``, which is
given what binds them, so that nothing below imports it. ``expr`` binds expressions, in the scope where they
stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sqlglot import expressions as exp

from herdpy_sql.bind.nodes import BoundInnerQuery, Query, TableScan
from herdpy_sql.expr.binder import ExprBinder
from herdpy_sql.expr.binding import tree_binder
from herdpy_sql.expr.nodes import Const, Expr, InnerQuery
from herdpy_sql.expr.scope import Numbering, Relation, Scope
from herdpy_sql.types import TEXT, UNKNOWN

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.expr.coerce import Params

Notes = list[tuple[str, Expr]]
"""Trees of clauses, each with what it is for."""


class Handed(Protocol):
    """A relation that is handed over with the question; its columns have other names for the user."""

    @property
    def table(self) -> Table:
        """What describes its rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns' names for the user."""


@dataclass(slots=True)
class Binder:
    """State of one binding.

    Attributes:
        bind_query: binds the queries inside others, for the modules below ``queries``.
        given: relations by name that are handed over with the question.
        scans: of the relations that are tables.
        notes: the typed trees of clauses, each with what it is for, where they are asked for.
        level: how many queries are around what is bound.
        is_recursive: a WITH RECURSIVE has been bound.
    """

    catalog: Catalog
    params: Params
    bind_query: Callable[[Binder, Any, Scope | None, bool], Query]
    given: Mapping[str, Handed] = field(default_factory=dict)
    notes: Notes | None = None
    numbering: Numbering = field(default_factory=Numbering)
    scans: dict[Relation, TableScan] = field(default_factory=dict)
    level: int = 0
    is_recursive: bool = False

    def scope(self, parent: Scope | None) -> Scope:
        """A new scope inside ``parent``."""
        return Scope(parent, numbering=self.numbering, queries=self.inner_query, clause="FROM")

    def query(self, node: Any, parent: Scope | None, *, settle: bool = True) -> Query:
        """A query inside ``parent``; ``settle``: its untyped columns become TEXT."""
        self.level += 1
        found = self.bind_query(self, node, parent, settle)
        self.level -= 1
        return found

    def inner_query(self, node: exp.Expression, scope: Scope) -> InnerQuery:
        """A query inside an expression that stands in ``scope``."""
        found = self.query(node, scope)
        return BoundInnerQuery(tuple(found.types), found, node)

    def trees(self, scope: Scope) -> ExprBinder:
        """What binds expressions that stand in ``scope``."""
        return tree_binder(scope, self.params)

    def tree(self, node: exp.Expression, scope: Scope) -> Expr:
        """The typed tree of an expression; a literal may have no type yet."""
        return tree_binder(scope, self.params).bind(node)

    def typed(self, node: exp.Expression, scope: Scope) -> Expr:
        """The same, a literal without a type being TEXT."""
        return tree_binder(scope, self.params).typed(node)

    def all(self, nodes: Sequence[exp.Expression], scope: Scope) -> list[Expr]:
        """The trees of several expressions."""
        return [self.tree(node, scope) for node in nodes]

    def condition(self, node: exp.Expression, scope: Scope, clause: str) -> Expr:
        """A condition; SqlError 42804 naming the clause where it is not BOOLEAN."""
        scope.clause = clause
        found = tree_binder(scope, self.params).condition(node, clause)
        self.note(f"{_LABELS[clause]}:", found)
        return found

    def note(self, label: str, tree: Expr) -> None:
        """Keep a tree, where trees are asked for. An untyped literal is TEXT."""
        if self.notes is not None:
            settled = Const(TEXT, tree.value) if isinstance(tree, Const) and tree.type == UNKNOWN else tree
            self.notes.append(("  " * (self.level - 1) + label, settled))


_LABELS = {"WHERE": "Condition", "HAVING": "Condition of groups", "JOIN/ON": "Condition of join"}

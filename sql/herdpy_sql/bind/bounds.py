"""What conditions say of the keys of the tables in FROM: ``column <op> constant or parameter``.

Every conjunct of WHERE or of an inner join's ON may be used alone, because a row that fails it cannot be part
of the answer. ``columnar.bounds`` makes ranges of them. Bounds are a superset: the query still checks its
conditions, so leaving one out costs time only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr.conditions import COMPARISONS
from herdpy_sql.expr.nodes import ColumnRef
from herdpy_sql.expr.syntax import identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from herdpy_sql.bind.nodes import TableScan
    from herdpy_sql.expr.scope import Relation, Scope

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def note_bounds(scans: Mapping[Relation, TableScan], node: Any, scope: Scope) -> None:
    """Remember the conjuncts of a condition that bound a scan's key."""
    stack = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, exp.Paren):
            stack.append(one.this)
        elif isinstance(one, exp.And):
            stack += [one.this, one.expression]
        elif type(one) in COMPARISONS and not isinstance(one, exp.NEQ):
            symbol = COMPARISONS[type(one)]
            _note(scans, one.this, symbol, one.expression, scope)
            _note(scans, one.expression, _FLIPPED.get(symbol, symbol), one.this, scope)
        elif isinstance(one, exp.Between) and not one.args.get("symmetric"):
            _note(scans, one.this, ">=", one.args["low"], scope)
            _note(scans, one.this, "<=", one.args["high"], scope)


def _note(scans: Mapping[Relation, TableScan], column: Any, symbol: str, value: Any, scope: Scope) -> None:
    if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
        return
    while isinstance(value, exp.Paren):
        value = value.this
    if not isinstance(value, exp.Literal | exp.Parameter | exp.Cast | exp.Neg):
        return
    table = column.args.get("table")
    try:
        found, expr = scope.find(identifier(table) if table is not None else None, identifier(column.this))
    except SqlError:
        return
    if found is not scope or not isinstance(expr, ColumnRef):
        return
    scan = scans.get(scope.numbering.relation_of(expr.index))
    if scan is not None and expr.index - scan.relation.base in scan.table.key_positions:
        scan.bounded.append((expr.index - scan.relation.base, symbol, value))

"""Conditions that bound a scan: what WHERE and ON say of a table's key columns.

Conjuncts are noted on the scans of the scope as they are written; ``bounds`` makes key ranges of them when
the whole query is bound.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from herdpy_sql.columnar.binder import Binder
from herdpy_sql.columnar.operators import COMPARISONS
from herdpy_sql.columnar.scope import Scope
from herdpy_sql.columnar.typenames import name_of
from herdpy_sql.errors import SqlError


def note_bounds(binder: Binder, node: Any, scope: Scope) -> None:
    """Remember conjuncts that bound a scan's key: ``column <op> constant or parameter``."""
    stack = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, exp.Paren):
            stack.append(one.this)
        elif isinstance(one, exp.And):
            stack += [one.this, one.expression]
        elif type(one) in COMPARISONS and not isinstance(one, exp.NEQ):
            _note(binder, one.this, COMPARISONS[type(one)], one.expression, scope)
            flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
            symbol = COMPARISONS[type(one)]
            _note(binder, one.expression, flipped.get(symbol, symbol), one.this, scope)
        elif isinstance(one, exp.Between) and not one.args.get("symmetric"):
            _note(binder, one.this, ">=", one.args["low"], scope)
            _note(binder, one.this, "<=", one.args["high"], scope)


def _note(binder: Binder, column: Any, symbol: str, value: Any, scope: Scope) -> None:
    if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
        return
    while isinstance(value, exp.Paren):
        value = value.this
    if not isinstance(value, (exp.Literal, exp.Parameter, exp.Cast, exp.Neg)):
        return
    table = column.args.get("table")
    try:
        found, col = scope.find(name_of(table) if table is not None else None, name_of(column.this))
    except SqlError:
        return
    if found is not scope or col.rel is None or col.rel.scan is None or col.rel.table is None:
        return
    if col.position not in col.rel.table.key_positions:
        return
    col.rel.scan.bounded.append((col.position, symbol, value))

"""Scalar nodes that the columnar engine binds by itself: columns and collations.

Each handler takes a node of the syntax tree and the scope it stands in, and gives typed DuckDB text. All else
but aggregates, subqueries and calls that give rows is bound in ``trees``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from herdpy_sql.collations import collation_name
from herdpy_sql.columnar import callbacks, casts, engine
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.routines import full_type
from herdpy_sql.columnar.scope import Scope, from_column
from herdpy_sql.duck import (
    TEXTUAL,
    Typed,
)
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.syntax import identifier
from herdpy_sql.types import TEXT, UNKNOWN


@handles(exp.Column)
def _column(binder: Binder, node: Any, scope: Scope) -> Typed:
    if isinstance(node.this, exp.Star):
        raise SqlError("42601", "* is not allowed here")
    name = identifier(node.this)
    table = node.args.get("table")
    if node.args.get("db"):
        schema = identifier(node.args["db"])
        if schema != "public":
            raise SqlError("42P01", f'missing FROM-clause entry for table "{identifier(table)}"')
    try:
        found, col = scope.find(identifier(table) if table is not None else None, name)
    except SqlError as error:
        if error.sqlstate == "42703" and table is None and scope.relation(name) is not None:
            raise SqlError("0A000", f'whole-row reference "{name}" is not supported') from None
        raise
    result = from_column(col, found.number)
    inner: Scope | None = scope
    while inner is not None and inner.number != found.number:
        inner.outer_vars |= result.vars
        inner = inner.parent
    return result


@handles(exp.UnicodeString)
def _unicode_string(binder: Binder, node: Any, scope: Scope) -> Typed:
    return Typed("", UNKNOWN, literal=callbacks.unicode_string(str(node.this)))


@handles(exp.Paren)
def _paren(binder: Binder, node: Any, scope: Scope) -> Typed:
    return binder.bind(node.this, scope)


@handles(exp.Collate)
def _collate(binder: Binder, node: Any, scope: Scope) -> Typed:
    x = binder.bind(node.this, scope)
    if not x.unknown and (x.array or x.base not in TEXTUAL):
        raise SqlError("42804", f"collations are not supported by type {full_type(x).name}")
    x = casts.coerce(binder, x, TEXT)
    name = engine.collation(collation_name(node.expression))
    return x if name is None else replace(x, sql=f"({x.sql} COLLATE {name})")


@handles(exp.If)
def _if(binder: Binder, node: Any, scope: Scope) -> Typed:
    raise SqlError("42883", "function if does not exist")

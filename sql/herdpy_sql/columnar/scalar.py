"""Scalar nodes that the columnar engine binds by itself: columns, casts, collations, arrays.

Each handler takes a node of the syntax tree and the scope it stands in, and gives typed DuckDB text.
``trees`` has literals, conditions and CASE; operators, functions and aggregates have files of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from herdpy_sql.collations import collation_name
from herdpy_sql.columnar import arrays, callbacks, casts, engine, library
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.casts import unify
from herdpy_sql.columnar.routines import full_type
from herdpy_sql.columnar.scope import Scope, from_column
from herdpy_sql.duck import (
    TEXTUAL,
    Typed,
    numeric_text,
    retyped,
    typed,
)
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.syntax import identifier
from herdpy_sql.expr.typenames import of_moment, sql_type
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


@handles(exp.ByteString)
def _escape_string(binder: Binder, node: Any, scope: Scope) -> Typed:
    return Typed("", UNKNOWN, literal=str(node.this))


@handles(exp.Paren)
def _paren(binder: Binder, node: Any, scope: Scope) -> Typed:
    return binder.bind(node.this, scope)


@handles(exp.Cast)
def _cast(binder: Binder, node: Any, scope: Scope) -> Typed:
    element = arrays.element_of(node.args["to"])
    if element is not None:
        return arrays.cast_array(binder, node.this, element, scope, sql_type(node.args["to"]).dimensions)
    plain, digits = of_moment(node.args["to"])
    target = sql_type(plain, any_scale=True)
    x = binder.bind(node.this, scope)
    result = casts.cast(binder, x, target)
    if digits is not None:
        result = library.rounded(binder, result, digits)
    return replace(result, name=x.name)


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


@handles(exp.Array)
def _array(binder: Binder, node: Any, scope: Scope) -> Typed:
    if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Query):
        return _array_of_query(binder, node.expressions[0], scope)
    parts = unify(binder, binder.bind_all(node.expressions, scope), "ARRAY")
    if not parts:
        raise SqlError("42P18", "cannot determine type of empty array")
    first = parts[0]
    if first.array:
        return library.stacked(binder, parts)
    if any(p.scale_sql is not None for p in parts):  # each element has a display scale of its own
        parts = [retyped(p, numeric_text(p), first.type) for p in parts]
        first = parts[0]
    result = typed(f"[{', '.join(p.sql for p in parts)}]", first.type, *parts, dec=first.dec)
    return replace(result, array=1)


def _array_of_query(binder: Binder, query: Any, scope: Scope) -> Typed:
    """ARRAY(SELECT ...): its rows in their order."""
    bound = binder.query(query, scope)
    if len(bound.columns) != 1:
        raise SqlError("42601", "subquery must return only one column")
    column = bound.columns[0]
    alias = binder.alias()
    listed = f"(SELECT coalesce(list({alias}.c0), []) FROM ({bound.sql}) AS {alias}({bound.names()}))"
    if column.array:
        rows = replace(column, sql=listed, array=column.array + 1)
        return library.gathered(binder, rows)
    return Typed(listed, column.type, column.dec, array=1, vars=bound.vars)

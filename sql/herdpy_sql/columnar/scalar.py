"""Scalar nodes of the columnar engine: columns, literals, parameters, casts, CASE, arrays.

Each handler takes a node of the syntax tree and the scope it stands in, and gives typed DuckDB text.
Operators, functions and aggregates are beside, each in files of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from herdpy_sql.collations import collation_name
from herdpy_sql.columnar import arrays, callbacks, casts, engine, library, literals
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.casts import unify
from herdpy_sql.columnar.comparisons import comparable, condition
from herdpy_sql.columnar.routines import full_type
from herdpy_sql.columnar.scope import Scope, from_column
from herdpy_sql.duck import (
    TEXTUAL,
    Typed,
    let,
    numeric_text,
    once,
    retyped,
    steady,
    typed,
)
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.syntax import identifier
from herdpy_sql.expr.typenames import of_moment, sql_type
from herdpy_sql.types import BOOLEAN, TEXT, UNKNOWN, Base


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


@handles(exp.Literal)
def _literal(binder: Binder, node: Any, scope: Scope) -> Typed:
    if node.is_string:
        return Typed("", UNKNOWN, literal=str(node.this))
    return literals.number_literal(str(node.this))


@handles(exp.Boolean)
def _boolean(binder: Binder, node: Any, scope: Scope) -> Typed:
    return Typed("true" if node.this else "false", BOOLEAN)


@handles(exp.Null)
def _null(binder: Binder, node: Any, scope: Scope) -> Typed:
    return Typed("NULL", UNKNOWN, null=True)


@handles(exp.UnicodeString)
def _unicode_string(binder: Binder, node: Any, scope: Scope) -> Typed:
    return Typed("", UNKNOWN, literal=callbacks.unicode_string(str(node.this)))


@handles(exp.ByteString)
def _escape_string(binder: Binder, node: Any, scope: Scope) -> Typed:
    return Typed("", UNKNOWN, literal=str(node.this))


@handles(exp.Parameter)
def _parameter(binder: Binder, node: Any, scope: Scope) -> Typed:
    try:
        number = int(node.this.this if isinstance(node.this, exp.Expression) else node.this)
    except (TypeError, ValueError, AttributeError):
        raise SqlError("42601", f'syntax error at or near "{node.sql("postgres")}"') from None
    if not 1 <= number <= 9000:
        raise SqlError("42P02", f"there is no parameter ${number}")
    known = binder.params.setdefault(number, UNKNOWN)
    if known.base is not Base.UNKNOWN:
        found = casts.param(binder, number, known)
        return replace(found, param=number) if found.array else found
    return Typed(f"${number}", UNKNOWN, param=number)


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


@handles(exp.Case)
def _case(binder: Binder, node: Any, scope: Scope) -> Typed:
    if node.this is None:
        return _branches(binder, node, scope, None)
    return once(binder.bind(node.this, scope), lambda subject: _branches(binder, node, scope, subject))


def _branches(binder: Binder, node: Any, scope: Scope, subject: Typed | None) -> Typed:
    conditions, values = [], []
    for branch in node.args["ifs"]:
        test = binder.bind(branch.this, scope)
        if subject is None:
            conditions.append(condition(binder, test, "CASE/WHEN"))
        else:
            left, right = comparable(binder, "=", subject, test)
            conditions.append(typed(f"{left} = {right}", BOOLEAN, subject, test))
        values.append(binder.bind(branch.args["true"], scope))
    default = node.args.get("default")
    last = binder.bind(default, scope) if default is not None else Typed("NULL", UNKNOWN, null=True)
    parts = unify(binder, [last, *values], "CASE")  # PostgreSQL asks ELSE for its type first
    last, *results = steady(parts, *conditions)

    def form(pick: Any) -> str:
        whens = "".join(f" WHEN {c.sql} THEN {pick(v)}" for c, v in zip(conditions, results, strict=True))
        return f"CASE{whens} ELSE {pick(last)} END"

    result = typed(form(lambda v: v.sql), last.type, *conditions, *results, last, dec=last.dec)
    if last.scale_sql is not None:
        result = replace(result, scale_sql=form(lambda v: v.scale_sql))
    return replace(result, name=last.name, array=last.array)


@handles(exp.Coalesce)
def _coalesce(binder: Binder, node: Any, scope: Scope) -> Typed:
    parts = steady(unify(binder, binder.bind_all([node.this, *node.expressions], scope), "COALESCE"))
    first = parts[0]
    result = typed(f"coalesce({', '.join(p.sql for p in parts)})", first.type, *parts, dec=first.dec)
    if first.scale_sql is not None:
        whens = "".join(f" WHEN {p.sql} IS NOT NULL THEN {p.scale_sql}" for p in parts)
        result = replace(result, scale_sql=f"CASE{whens} END")
    return replace(result, array=first.array)


@handles(exp.Nullif)
def _nullif(binder: Binder, node: Any, scope: Scope) -> Typed:
    a, b = binder.bind(node.this, scope), binder.bind(node.expression, scope)
    if a.unknown:
        left, right = comparable(binder, "=", a, b)
        a = casts.settle(binder, a, b.type if not b.unknown else TEXT)
        sql = f"CASE WHEN {left} = {right} THEN NULL ELSE {a.sql} END"
    else:  # it may be long, and is there twice
        left, right = comparable(
            binder, "=", replace(a, sql="v.a"), b if b.unknown else replace(b, sql="v.b")
        )
        values = {"a": a.sql} | ({} if b.unknown else {"b": b.sql})
        sql = let(values, f"CASE WHEN {left} = {right} THEN NULL ELSE v.a END")
    result = typed(sql, a.type, a, b, dec=a.dec)
    return replace(result, scale_sql=a.scale_sql, array=a.array)


@handles(exp.Greatest, exp.Least)
def _greatest(binder: Binder, node: Any, scope: Scope) -> Typed:
    word = "greatest" if isinstance(node, exp.Greatest) else "least"
    parts = steady(unify(binder, binder.bind_all([node.this, *node.expressions], scope), word.upper()))
    first = parts[0]
    if first.is_text_numeric:
        listed = ", ".join(p.sql for p in parts)
        keyed = f"pg_num{word}([{listed}])"
        return typed(keyed, first.type, *parts)
    result = typed(f"{word}({', '.join(p.sql for p in parts)})", first.type, *parts, dec=first.dec)
    if first.scale_sql is not None:
        values = {f"p{i}": p.sql for i, p in enumerate(parts)} | {"r": result.sql}
        values |= {f"s{i}": str(p.scale_sql) for i, p in enumerate(parts)}
        whens = "".join(f" WHEN v.p{i} = v.r THEN v.s{i}" for i in range(len(parts)))
        result = replace(result, scale_sql=let(values, f"CASE{whens} END"))
    return replace(result, array=first.array)


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

"""Queries of the columnar engine: what a SELECT can stand in for, as DuckDB text.

``bind_query`` takes any query: a SELECT goes to ``selects``; VALUES, TABLE, parentheses and set operations
are bound here. Each gives a ``Bound``: text and typed columns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from herdpy_sql.columnar import casts
from herdpy_sql.columnar.binder import Binder, unsupported
from herdpy_sql.columnar.common import unify
from herdpy_sql.columnar.limits import bind_limit
from herdpy_sql.columnar.ordering import column_key, direction_of, output_place
from herdpy_sql.columnar.scope import Scope
from herdpy_sql.columnar.selects import Bound, select_parts
from herdpy_sql.columnar.typed import NO_VARS, Typed, numeric_text, retyped
from herdpy_sql.columnar.typenames import name_of
from herdpy_sql.columnar.with_queries import bind_with
from herdpy_sql.errors import SqlError
from herdpy_sql.types import TEXT


def bind_query(
    binder: Binder, node: Any, parent: Scope | None, *, mixed: bool = False, settle: bool = True
) -> Bound:
    """Bind a query inside ``parent``.

    ``mixed``: keep display scales in columns of their own rather than turning such values to text.
    ``settle``: untyped columns become TEXT.
    """
    while isinstance(node, exp.Paren):
        node = node.this
    scope = binder.scope(parent)
    prefix = bind_with(binder, node.args.get("with_"), scope)
    if isinstance(node, exp.Subquery):
        if not any(node.args.get(k) for k in ("with_", "order", "limit", "offset", "joins")):
            return bind_query(binder, node.this, parent, mixed=mixed, settle=settle)
        bound = _wrapped(binder, node, scope, mixed)
    elif isinstance(node, exp.Select):
        bound = _select(binder, node, scope, mixed, settle)
    elif isinstance(node, exp.SetOperation):
        bound = _set_operation(binder, node, scope, mixed)
    elif isinstance(node, exp.Values):
        bound = _values(binder, node, scope, mixed)
    elif isinstance(node, exp.Table):
        star = exp.Select(expressions=[exp.Star()], from_=exp.From(this=node))
        bound = _select(binder, star, scope, mixed, settle)
    else:
        raise unsupported(node)
    return Bound(prefix + bound.sql, bound.columns, frozenset(scope.outer_vars))


def _settled(binder: Binder, outs: list[Typed]) -> list[Typed]:
    return [replace(casts.settle(binder, o, TEXT), name=o.name) if o.unknown else o for o in outs]


def _select(binder: Binder, node: exp.Select, scope: Scope, mixed: bool, settle: bool) -> Bound:
    parts = select_parts(binder, node, scope)
    outs = _settled(binder, parts.outs) if settle else parts.outs
    return parts.render(outs, mixed)


# ---------------------------------------------------------------------------- other queries


def _values(binder: Binder, node: Any, scope: Scope, mixed: bool, types: list[Typed] | None = None) -> Bound:
    rows = [
        binder.bind_all(row.expressions if isinstance(row, exp.Tuple) else [row], scope)
        for row in node.expressions
    ]
    if len({len(row) for row in rows}) != 1:
        raise SqlError("42601", "VALUES lists must all be the same length")
    columns = [_one_form(unify(binder, list(column), "VALUES")) for column in zip(*rows, strict=True)]
    shown = []
    for i, column in enumerate(columns):
        shown.append(replace(column[0], name=f"column{i + 1}"))
    listed = ", ".join("(" + ", ".join(c[r].sql for c in columns) + ")" for r in range(len(rows)))
    alias = binder.alias()
    names_ = ", ".join(f"c{i}" for i in range(len(columns)))
    sql = f"SELECT * FROM (VALUES {listed}) AS {alias}({names_})"
    return _ordered(binder, node, scope, Bound(sql, shown))


def _ordered(binder: Binder, node: Any, scope: Scope, bound: Bound) -> Bound:
    """ORDER BY, LIMIT and OFFSET over a query whose columns alone can be named."""
    order = node.args.get("order")
    limit = bind_limit(binder, node, scope)
    if order is None and not limit.text and not limit.ties:
        return bound
    alias = binder.alias()
    keys = []
    for ordered in order.expressions if order is not None else ():
        place = output_place(ordered.this, bound.columns, "ORDER BY")
        if place is None:
            if isinstance(ordered.this, exp.Column):
                raise SqlError("42703", f'column "{name_of(ordered.this.this)}" does not exist')
            raise SqlError(
                "0A000",
                "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                detail="Only result column names can be used, not expressions or functions.",
            )
        keys.append(column_key(alias, place, bound.columns[place]) + direction_of(ordered))
    text = f" ORDER BY {', '.join(keys)}" if keys else ""
    sql = f"SELECT * FROM ({bound.sql}) AS {alias}({bound.names()}){limit.tied(keys)}{text}{limit.text}"
    return Bound(sql, bound.columns)


def _wrapped(binder: Binder, node: Any, scope: Scope, mixed: bool) -> Bound:
    """A parenthesised query with clauses of its own."""
    if node.args.get("joins"):
        star = exp.Select(expressions=[exp.Star()], from_=exp.From(this=node))
        return _select(binder, star, scope, mixed, True)
    inner = bind_query(binder, node.this, scope, mixed=mixed)
    return _ordered(binder, node, scope, inner)


_WORDS: dict[type[exp.Expression], str] = {
    exp.Union: "UNION",
    exp.Except: "EXCEPT",
    exp.Intersect: "INTERSECT",
}


def _branches(node: Any) -> list[Any]:
    """The queries of a chain of the same operation (UNION ALL of many, deep to the left)."""
    cls, distinct = type(node), bool(node.args.get("distinct"))
    out = []
    current = node
    while True:
        out.append(current.expression)
        left = current.this
        plain = not any(left.args.get(k) for k in ("order", "limit", "offset", "with_"))
        if (
            type(left) is cls
            and bool(left.args.get("distinct")) is distinct
            and plain
            and cls is not exp.Except
        ):
            current = left
            continue
        out.append(left)
        return out[::-1]


def _set_operation(binder: Binder, node: Any, scope: Scope, mixed: bool) -> Bound:
    word = _WORDS[type(node)]
    distinct = bool(node.args.get("distinct"))
    bounds = [bind_query(binder, branch, scope, settle=False) for branch in _branches(node)]
    width = len(bounds[0].columns)
    if any(len(b.columns) != width for b in bounds):
        raise SqlError("42601", f"each {word} query must have the same number of columns")
    loose = word != "UNION"
    columns: list[list[Typed]] = []
    for i in range(width):
        inside = []
        for b in bounds:
            c = b.columns[i]
            inside.append(c if c.unknown else replace(c, sql=f"q.c{i}", scale_sql=None))
        columns.append(_unify_column(binder, inside, word, loose=loose))
    first = [
        replace(columns[i][0], name=bounds[0].columns[i].name, vars=NO_VARS, origin=None)
        for i in range(width)
    ]
    pieces = []
    for at, b in enumerate(bounds):
        items = ", ".join(f"{columns[i][at].sql} AS c{i}" for i in range(width))
        pieces.append(f"(SELECT {items} FROM ({b.sql}) AS q({b.names()}))")
    keyed = any(c.is_text_numeric for c in first)
    if distinct and keyed and word == "UNION":
        alias = binder.alias()
        keys = ", ".join(column_key(alias, i, c) for i, c in enumerate(first))
        named = ", ".join(f"c{i}" for i in range(width))
        sql = f"SELECT DISTINCT ON ({keys}) * FROM ({' UNION ALL '.join(pieces)}) AS {alias}({named})"
    else:
        sql = f" {word}{'' if distinct else ' ALL'} ".join(pieces)
    return _ordered(binder, node, scope, Bound(sql, first))


def _one_form(parts: list[Typed]) -> list[Typed]:
    """Values of mixed display scales as text, for a column that all share."""
    if parts[0].scale_sql is None:
        return parts
    return [retyped(p, numeric_text(p), p.type) for p in parts]


def _unify_column(binder: Binder, parts: list[Typed], word: str, *, loose: bool) -> list[Typed]:
    unified = _one_form(unify(binder, parts, word, loose=loose))
    if loose and unified[0].is_text_numeric:
        unified = [replace(u, sql=f"pg_numnorm({u.sql})") for u in unified]
    return unified


__all__ = ["Bound", "bind_query"]

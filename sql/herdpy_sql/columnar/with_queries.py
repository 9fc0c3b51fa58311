"""WITH in the columnar engine: common table expressions, recursive ones too.

Each query is bound once and defined under a name of our own; a reference to it in FROM makes a relation of
its columns. What comes out is the WITH clause, the queries' names being left in the scope.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from herdpy_sql.columnar import casts, library, queries
from herdpy_sql.columnar.binder import Binder
from herdpy_sql.columnar.recursion import in_order, references
from herdpy_sql.columnar.scope import Col, Rel, Scope
from herdpy_sql.columnar.typed import Typed, numeric_text, retyped
from herdpy_sql.columnar.typenames import name_of
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base


def bind_with(binder: Binder, with_: Any, scope: Scope) -> str:
    """Bind WITH queries into ``scope``; the DuckDB clause that defines them."""
    if with_ is None:
        return ""
    if with_.args.get("search"):
        raise SqlError("0A000", "SEARCH and CYCLE of recursive queries are not supported")
    recursive = bool(with_.args.get("recursive"))
    parts = []
    seen = set()
    for cte in with_.expressions:
        name = name_of(cte.args["alias"].this)
        if name in seen:
            raise SqlError("42712", f'WITH query name "{name}" specified more than once')
        seen.add(name)
    for cte in in_order(with_):
        name = name_of(cte.args["alias"].this)
        listed = [name_of(c) for c in cte.args["alias"].args.get("columns") or ()]
        query = _unwrapped(cte.this)
        if not isinstance(query, (exp.Query, exp.Values, exp.Table)):
            raise SqlError(
                "0A000", "WITH clause containing a data-modifying statement must be at the top level"
            )
        binder.relations += 1
        alias = f"w{binder.relations}"
        if recursive and any(one == name for one, _ in references(query)):
            parts.append(_recursive(binder, query, scope, name, alias, listed))
            continue
        bound = queries.bind_query(binder, query, scope, mixed=True)
        scope.ctes[name] = _factory(alias, name, bound.columns, listed)
        parts.append(f"{alias}({bound.names()}) AS ({bound.sql})")
    return f"WITH {'RECURSIVE ' if recursive else ''}{', '.join(parts)} "


def _unwrapped(query: Any) -> Any:
    """VALUES as sqlglot wraps it in WITH: ``SELECT * FROM (VALUES ...) AS _values``."""
    source = query.args.get("from_") if isinstance(query, exp.Select) else None
    if source is not None and isinstance(source.this, exp.Values) and len(query.expressions) == 1:
        alias = source.this.args.get("alias")
        if alias is not None and alias.name == "_values" and isinstance(query.expressions[0], exp.Star):
            return source.this
    return query


def _factory(alias: str, name: str, columns: list[Typed], listed: list[str], *, within: bool = False) -> Any:
    """What makes the relation of a reference to a WITH query; ``within``: to itself, in its own recursion."""
    if len(listed) > len(columns):
        raise SqlError(
            "42P10",
            f'WITH query "{name}" has {len(columns)} columns available but {len(listed)} columns specified',
        )

    def make(reference: str) -> Rel:
        rel = derived(name, reference, columns, listed, source=alias)
        rel.is_recursion = within
        return rel

    make.alias = alias  # type: ignore[attr-defined]
    return make


def derived(name: str, alias: str, columns: list[Typed], listed: list[str], source: str = "") -> Rel:
    """The relation of a bound query's columns under ``alias``."""
    rel = Rel(name, alias, [])
    for i, column in enumerate(columns):
        own = listed[i] if i < len(listed) else column.name or "?column?"
        scale = f"{alias}.s{i}" if column.scale_sql is not None else None
        rel.columns.append(
            Col(
                own,
                f"{alias}.c{i}",
                column.type,
                column.dec,
                scale,
                array=column.array,
                position=i,
                rel=rel,
                origin=column.origin,
            )
        )
    return rel


def _recursive(binder: Binder, query: Any, scope: Scope, name: str, alias: str, listed: list[str]) -> str:
    """The definition of a query that reads itself, of the form that :func:`in_order` lets through."""
    while isinstance(query, (exp.Subquery, exp.Paren)):
        query = query.this
    inner = binder.scope(scope)
    prefix = bind_with(binder, query.args.get("with_"), inner)
    first = queries.bind_query(binder, _unwrapped(query.this), inner)
    columns, items = [], []
    for i, column in enumerate(first.columns):
        plain = replace(column, sql=f"q.c{i}", vars=frozenset(), origin=None)
        if plain.is_text_numeric or (plain.base is Base.NUMERIC and not plain.array):
            plain = retyped(plain, numeric_text(plain), plain.type)  # digits may grow from round to round
        columns.append(plain)
        items.append(f"{plain.sql} AS c{i}")
    scope.ctes[name] = _factory(alias, name, columns, listed, within=True)
    second = queries.bind_query(binder, _unwrapped(query.expression), inner, settle=False)
    scope.ctes[name] = _factory(alias, name, columns, listed)
    if len(second.columns) != len(columns):
        raise SqlError("42601", "each UNION query must have the same number of columns")
    others = [_as_before(binder, name, i, x, columns[i]) for i, x in enumerate(second.columns)]
    word = "UNION" if query.args.get("distinct") else "UNION ALL"
    left = f"SELECT {', '.join(items)} FROM ({first.sql}) AS q({first.names()})"
    right = f"SELECT {', '.join(others)} FROM ({second.sql}) AS q({second.names()})"
    names = ", ".join(f"c{i}" for i in range(len(columns)))
    return f"{alias}({names}) AS ({prefix}({left}) {word} ({right}))"


def _as_before(binder: Binder, name: str, place: int, column: Typed, wanted: Typed) -> str:
    """A column of the recursive term in the type that the other term gave it."""
    x = column if column.unknown else replace(column, sql=f"q.c{place}")
    whole, given = library.full_type(wanted), library.full_type(x)
    differs = x.base is not wanted.base or x.array != wanted.array
    if not x.unknown and differs and not casts.implicit(x, whole):
        raise SqlError(
            "42804",
            f'recursive query "{name}" column {place + 1} has type {whole.name} in non-recursive term '
            f"but type {given.name} overall",
        )
    x = casts.coerce(binder, x, whole)
    if x.base is Base.NUMERIC and not x.array and x.dec is not None:
        x = retyped(x, numeric_text(x), x.type)
    return f"{x.sql} AS c{place}"

"""ORDER BY, LIMIT and OFFSET of the columnar engine: what any query may end with.

Nodes of the syntax tree come in; places in the select list and DuckDB text go out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from herdpy_sql.columnar import casts
from herdpy_sql.columnar.binder import Binder
from herdpy_sql.columnar.operators import order_key
from herdpy_sql.columnar.scope import Scope
from herdpy_sql.columnar.typed import Typed
from herdpy_sql.columnar.typenames import name_of
from herdpy_sql.errors import SqlError
from herdpy_sql.types import BIGINT, Base


def column_key(alias: str, i: int, column: Typed) -> str:
    """What sorts and groups as column ``i`` of the query called ``alias``."""
    return order_key(replace(column, sql=f"{alias}.c{i}"))


def direction_of(ordered: Any) -> str:
    """An ORDER BY item's direction, NULLs written out: they are last unless DESC or told."""
    desc = bool(ordered.args.get("desc"))
    first = ordered.args.get("nulls_first")
    first = desc if first is None else bool(first)
    return f"{' DESC' if desc else ''} NULLS {'FIRST' if first else 'LAST'}"


def output_place(node: Any, outs: Sequence[Typed], clause: str) -> int | None:
    """The output column that an ordinal or a bare name in ORDER BY or GROUP BY means."""
    if isinstance(node, exp.Literal):
        if node.is_string or not str(node.this).isdigit():
            raise SqlError("42601", f"non-integer constant in {clause}")
        place = int(node.this)
        if not 1 <= place <= len(outs):
            raise SqlError("42P10", f"{clause} position {place} is not in select list")
        return place - 1
    if isinstance(node, exp.Column) and not node.args.get("table") and not isinstance(node.this, exp.Star):
        name = name_of(node.this)
        matches = [i for i, out in enumerate(outs) if out.name == name]
        if len({outs[i].sql for i in matches}) > 1:
            raise SqlError("42702", f'{clause} "{name}" is ambiguous')
        if matches:
            return matches[0]
    return None


def limit_text(binder: Binder, node: Any, scope: Scope) -> str:
    """LIMIT and OFFSET with their counts; SqlError 2201W or 2201X for negative constants."""
    out = ""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    if limit is not None:
        if isinstance(limit, exp.Fetch):
            options = limit.args.get("limit_options")
            if options is not None and (options.args.get("with_ties") or options.args.get("percent")):
                raise SqlError("0A000", "FETCH FIRST ... WITH TIES is not supported")
            count = limit.args.get("count") or exp.Literal.number(1)
        else:
            count = limit.expression
        out += _rows(binder, count, scope, "LIMIT")
    if offset is not None:
        out += _rows(binder, offset.expression, scope, "OFFSET")
    return out


def _rows(binder: Binder, node: Any, scope: Scope, word: str) -> str:
    if isinstance(node, (exp.Column, exp.Var)) and node.name.lower() == "all":
        return ""
    inner = Scope(scope.number, None)
    x = binder.bind(node, inner)
    if x.null:
        return ""
    if x.literal is not None and not x.unknown:
        if x.literal.startswith("-"):
            state = "2201W" if word == "LIMIT" else "2201X"
            raise SqlError(state, f"{word} must not be negative")
        return f" {word} {x.literal}"
    if x.base in (Base.NUMERIC, Base.REAL, Base.DOUBLE):
        x = casts.cast(binder, x, BIGINT)
    x = casts.coerce(binder, x, BIGINT)
    return f" {word} (SELECT pg_{word.lower()}_rows({x.sql}))"

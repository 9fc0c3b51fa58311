"""Window functions of the columnar engine: row_number, lag, and aggregates with OVER.

The syntax tree of OVER comes in with the function before it; what PostgreSQL refuses is refused here, and
the text that goes out has its keys written so that DuckDB partitions and sorts as PostgreSQL does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import emit
from herdpy_sql.columnar.aggregates import Frame, over_window
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.comparisons import direction_of, group_key, sort_key
from herdpy_sql.columnar.emit import unify
from herdpy_sql.columnar.routines import types_of
from herdpy_sql.columnar.trees import tree_binder
from herdpy_sql.duck import Typed, duck_type, numeric_text, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.aggregates import AGGREGATES, bind_aggregate
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.syntax import WINDOW_CLASSES, identifier
from herdpy_sql.types import BIGINT, DOUBLE, INTEGER, TEXT, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.columnar.scope import Scope

_RANKS: dict[type[exp.Expression], SqlType] = {
    exp.RowNumber: BIGINT,
    exp.Rank: BIGINT,
    exp.DenseRank: BIGINT,
    exp.PercentRank: DOUBLE,
    exp.CumeDist: DOUBLE,
    exp.Ntile: INTEGER,
}


@handles(*WINDOW_CLASSES)
def _bare_window(binder: Binder, node: Any, scope: Scope) -> Typed:
    raise SqlError("42809", f"window function {WINDOW_CLASSES[type(node)]} requires an OVER clause")


@handles(exp.Window)
def _window(binder: Binder, node: Any, scope: Scope) -> Typed:
    if scope.clause in ("WHERE", "JOIN/ON", "GROUP BY", "HAVING", "LIMIT"):
        where = "JOIN conditions" if scope.clause == "JOIN/ON" else scope.clause
        raise SqlError("42P20", f"window functions are not allowed in {where}")
    over, parts = _over(binder, node, scope)
    frame = Frame(over=f" OVER ({over})")
    inner = node.this
    if isinstance(inner, (exp.IgnoreNulls, exp.RespectNulls)):
        raise SqlError("0A000", "IGNORE NULLS is not supported")
    if type(inner) in _RANKS:
        result = _rank(binder, inner, scope, frame)
    elif type(inner) in WINDOW_CLASSES:
        result = _pick(binder, inner, scope, frame)
    else:
        result = _aggregate(binder, inner, scope, frame)
    used = typed("", TEXT, result, *parts)
    return replace(result, vars=used.vars, agg=used.agg, window=True)


def _aggregate(binder: Binder, inner: Any, scope: Scope, frame: Frame) -> Typed:
    if isinstance(inner, exp.Anonymous) and str(inner.this).lower() not in AGGREGATES:
        arguments = binder.bind_all(inner.expressions, scope)
        raise no_function(str(inner.this).lower(), types_of(*arguments))
    found = bind_aggregate(tree_binder(binder, scope), inner)
    if found.distinct:
        raise SqlError("0A000", "DISTINCT is not implemented for window functions")
    return over_window(emit.Emitter(binder, scope), found, frame.over)


def _rank(binder: Binder, inner: Any, scope: Scope, frame: Frame) -> Typed:
    name, type_ = WINDOW_CLASSES[type(inner)], _RANKS[type(inner)]
    arguments = binder.bind_all([inner.this] if inner.this is not None else [], scope)
    listed = ", ".join(emit.coerce(binder, a, INTEGER).sql for a in arguments)
    sql = f"CAST({name}({listed}){frame.over} AS {duck_type(type_)})"
    return typed(sql, type_, *arguments)


def _pick(binder: Binder, inner: Any, scope: Scope, frame: Frame) -> Typed:
    name = WINDOW_CLASSES[type(inner)]
    x = emit.settle_text(binder, binder.bind(inner.this, scope))
    offset = inner.args.get("offset")
    default = inner.args.get("default")
    arguments, used = [x.sql], [x]
    if x.scale_sql is not None:
        x = replace(x, sql=numeric_text(x), dec=None, scale_sql=None)
        arguments = [x.sql]
    if offset is not None:
        place = emit.coerce(binder, binder.bind(offset, scope), INTEGER)
        arguments.append(place.sql)
        used.append(place)
    if default is not None:
        other = binder.bind(default, scope)
        x, other = unify(binder, [x, other], name)
        if x.scale_sql is not None:
            x, other = (replace(p, sql=numeric_text(p), dec=None, scale_sql=None) for p in (x, other))
        arguments[0] = x.sql
        arguments.append(other.sql)
        used.append(other)
    sql = f"{name}({', '.join(arguments)}){frame.over}"
    return typed(sql, x.type, *used, dec=x.dec)


def _over(binder: Binder, node: Any, scope: Scope) -> tuple[str, list[Typed]]:
    """What stands between the parentheses of OVER."""
    base: Any = None
    name = node.args.get("alias")
    if name is not None:
        base = scope.windows.get(identifier(name))
        if base is None:
            raise SqlError("42704", f'window "{identifier(name)}" does not exist')
    parts: list[Typed] = []
    partition = list(node.args.get("partition_by") or ()) or list(
        (base and base.args.get("partition_by")) or ()
    )
    order = node.args.get("order") or (base and base.args.get("order"))
    spec = node.args.get("spec") or (base and base.args.get("spec"))
    pieces = []
    if partition:
        keys = [emit.settle_text(binder, x) for x in binder.bind_all(partition, scope)]
        parts += keys
        pieces.append("PARTITION BY " + ", ".join(group_key(k) for k in keys))
    if order is not None:
        texts = []
        for ordered in order.expressions:
            x = emit.settle_text(binder, binder.bind(ordered.this, scope))
            parts.append(x)
            texts.append(sort_key(x) + direction_of(ordered))
        pieces.append("ORDER BY " + ", ".join(texts))
    if spec is not None:
        kind = str(spec.args.get("kind") or "ROWS").upper()
        start = _bound(binder, spec, "start", scope)
        end = _bound(binder, spec, "end", scope) if spec.args.get("end") else "CURRENT ROW"
        text = f"{kind} BETWEEN {start} AND {end}"
        exclude = spec.args.get("exclude")
        if exclude is not None:
            text += f" EXCLUDE {exclude.name if isinstance(exclude, exp.Expression) else exclude}"
        pieces.append(text)
    return " ".join(pieces), parts


def _bound(binder: Binder, spec: Any, key: str, scope: Scope) -> str:
    value, side = spec.args.get(key), str(spec.args.get(f"{key}_side") or "").upper()
    if isinstance(value, str):
        return value.upper() if value.upper() == "CURRENT ROW" else f"{value.upper()} {side}"
    x = binder.bind(value, scope)
    if x.unknown and x.literal is not None:
        x = emit.coerce(binder, x, SqlType(Base.INTERVAL))
    if x.unknown:
        x = emit.coerce(binder, x, BIGINT)
    return f"{x.sql} {side}"

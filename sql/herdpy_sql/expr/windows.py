"""Binding of window functions: row_number, lag and their kind, and aggregates with OVER.

A call becomes a :class:`~herdpy_sql.expr.nodes.Window`, with the clause of OVER; a named window's is written
out. Above ``aggregates``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.aggregates import AGGREGATES, bind_aggregate, order_items
from herdpy_sql.expr.coerce import coerce, unify
from herdpy_sql.expr.resolve import no_function
from herdpy_sql.expr.syntax import WINDOW_CLASSES, identifier
from herdpy_sql.types import BIGINT, DOUBLE, INTEGER, INTERVAL, Base, SqlType, need_equality

if TYPE_CHECKING:
    from herdpy_sql.expr.binder import ExprBinder, Handler

RANKS: dict[str, SqlType] = {
    "row_number": BIGINT,
    "rank": BIGINT,
    "dense_rank": BIGINT,
    "percent_rank": DOUBLE,
    "cume_dist": DOUBLE,
    "ntile": INTEGER,
}
"""Functions of a row's place in its partition, and the types of what they give."""


def window(binder: ExprBinder, node: exp.Window) -> n.Expr:
    """A function over a window. SqlError 42P20 where none may stand, 42883, 0A000."""
    binder.scope.refuse_window()
    over = _over(binder, node)
    inner = node.this
    if isinstance(inner, exp.IgnoreNulls | exp.RespectNulls):
        raise SqlError("0A000", "IGNORE NULLS is not supported")
    if isinstance(inner, exp.Filter) and type(inner.this) in WINDOW_CLASSES:
        raise SqlError("0A000", "FILTER is not implemented for non-aggregate window functions")
    name = WINDOW_CLASSES.get(type(inner), "")
    if name in RANKS:
        given = [] if inner.this is None else [binder.bind(inner.this)]
        args = tuple([coerce(arg, INTEGER, "implicit", binder.params) for arg in given])
        return n.Window(RANKS[name], name, args, over)
    if name:
        args = _picked(binder, name, inner)
        return n.Window(args[0].type, name, args, over)
    if isinstance(inner, exp.Anonymous) and str(inner.this).lower() not in AGGREGATES:
        types = [binder.bind(one).type for one in inner.expressions]
        raise no_function(str(inner.this).lower(), types)
    found = bind_aggregate(binder, inner)
    if found.distinct:
        raise SqlError("0A000", "DISTINCT is not implemented for window functions")
    return n.Window(found.type, found.name, (found,), over)


def _picked(binder: ExprBinder, name: str, node: Any) -> tuple[n.Expr, ...]:
    """The value of another row, which row, and what stands for one that is not there."""
    value = binder.typed(node.this)
    offset, default = node.args.get("offset"), node.args.get("default")
    args = [value]
    if offset is not None:
        args.append(coerce(binder.bind(offset), INTEGER, "implicit", binder.params))
    if default is not None:
        _, (args[0], other) = unify([value, binder.bind(default)], binder.params, name)
        args.append(other)
    return tuple(args)


def _over(binder: ExprBinder, node: exp.Window) -> n.Over:
    """What stands between the parentheses of OVER. SqlError 42704 for a window that is not there."""
    base: Any = None
    if node.args.get("alias") is not None:
        base = binder.scope.window(identifier(node.args["alias"]))

    def clause(name: str) -> Any:
        return node.args.get(name) or (base.args.get(name) if base is not None else None)

    partition = tuple([binder.typed(one) for one in clause("partition_by") or ()])
    for key in partition:
        need_equality(key.type)
    order, spec = clause("order"), clause("spec")
    items = () if order is None else order_items(binder, order)
    return n.Over(partition, items, None if spec is None else _frame(binder, spec))


def _frame(binder: ExprBinder, spec: exp.Expression) -> n.WindowFrame:
    kind, exclude = str(spec.args.get("kind") or "ROWS").upper(), spec.args.get("exclude")
    start = _end(binder, spec, "start")
    end = _end(binder, spec, "end") if spec.args.get("end") else n.FrameEnd("CURRENT ROW")
    left_out = exclude.name if isinstance(exclude, exp.Expr) else str(exclude or "")
    return n.WindowFrame(kind, start, end, left_out)


def _end(binder: ExprBinder, spec: exp.Expression, key: str) -> n.FrameEnd:
    value, side = spec.args.get(key), str(spec.args.get(f"{key}_side") or "").upper()
    if isinstance(value, str):
        return n.FrameEnd("CURRENT ROW" if value.upper() == "CURRENT ROW" else f"{value.upper()} {side}")
    if value is None or side not in {"PRECEDING", "FOLLOWING"}:
        raise SqlError("42601", "syntax error in a window frame: PRECEDING or FOLLOWING was expected")
    distance = binder.bind(value)
    if distance.type.base is Base.UNKNOWN:
        text = isinstance(distance, n.Const) and distance.value is not None
        distance = coerce(distance, INTERVAL if text else BIGINT, "implicit", binder.params)
    return n.FrameEnd(side, distance)


def _bare(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    raise SqlError("42809", f"window function {WINDOW_CLASSES[type(node)]} requires an OVER clause")


WINDOWS: dict[type, Handler] = {**dict.fromkeys(WINDOW_CLASSES, _bare), exp.Window: window}

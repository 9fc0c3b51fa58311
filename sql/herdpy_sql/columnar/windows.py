"""DuckDB's text of window functions: row_number, lag, and aggregates with OVER.

Keys are written so that DuckDB partitions and sorts as PostgreSQL does. Above ``emit``, whose fold this
extends, and ``aggregates``.
"""

from __future__ import annotations

from dataclasses import replace

from herdpy_sql.columnar.aggregates import over_window
from herdpy_sql.columnar.comparisons import direction, group_key, sort_key
from herdpy_sql.columnar.emit import EMITTERS, Emitter, aligned
from herdpy_sql.duck import Typed, as_text, duck_type, typed
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.windows import RANKS
from herdpy_sql.types import TEXT


def _window(emitter: Emitter, expr: n.Window) -> Typed:
    over, parts = _over(emitter, expr.over)
    first = expr.args[0] if expr.args else None
    if isinstance(first, n.Aggregate):
        result = over_window(emitter, first, over)
    elif expr.name in RANKS:
        args = [emitter.emit(arg) for arg in expr.args]
        listed = ", ".join(arg.sql for arg in args)
        result = typed(f"CAST({expr.name}({listed}){over} AS {duck_type(expr.type)})", expr.type, *args)
    else:
        result = _picked(emitter, expr, over)
    used = typed("", TEXT, result, *parts)
    return replace(result, agg=used.agg, window=True)


def _picked(emitter: Emitter, expr: n.Window, over: str) -> Typed:
    """The value of another row; the value and its default are of one form."""
    x, *rest = [emitter.emit(arg) for arg in expr.args]
    if len(rest) == 2:
        x, rest[1] = aligned(emitter, [expr.args[0], expr.args[2]], expr.name)
    if x.scale_sql is not None:
        x, rest[1:] = as_text(x), [as_text(one) for one in rest[1:]]
    text = ", ".join(one.sql for one in (x, *rest))
    found = typed(f"{expr.name}({text}){over}", x.type, x, *rest, dec=x.dec)
    return replace(found, array=x.array)


def _over(emitter: Emitter, over: n.Over) -> tuple[str, list[Typed]]:
    """The clause, and the keys in it."""
    partition = [emitter.emit(key) for key in over.partition]
    keys = [emitter.emit(one.key) for one in over.order]
    pieces = []
    if partition:
        pieces.append("PARTITION BY " + ", ".join(map(group_key, partition)))
    if keys:
        pairs = zip(keys, over.order, strict=True)
        texts = [sort_key(x) + direction(one.descending, one.nulls_first) for x, one in pairs]
        pieces.append("ORDER BY " + ", ".join(texts))
    if over.frame is not None:
        pieces.append(_frame(emitter, over.frame))
    return f" OVER ({' '.join(pieces)})", [*partition, *keys]


def _frame(emitter: Emitter, frame: n.WindowFrame) -> str:
    text = f"{frame.kind} BETWEEN {_end(emitter, frame.start)} AND {_end(emitter, frame.end)}"
    return f"{text} EXCLUDE {frame.exclude}" if frame.exclude else text


def _end(emitter: Emitter, end: n.FrameEnd) -> str:
    return end.side if end.distance is None else f"{emitter.emit(end.distance).sql} {end.side}"


EMITTERS[n.Window] = _window

"""Names of output columns without an alias, as PostgreSQL's parser finds them (its FigureColname).

Both engines ask here. A column is named by the column, function or type that it is made by. What sqlglot
makes one class of is distinguished by the length of the word that was written, which it remembers.
"""

from __future__ import annotations

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr.syntax import (
    AGGREGATE_CLASSES,
    FUNCTION_CLASSES,
    ORDERED_SET_CLASSES,
    WINDOW_CLASSES,
    identifier,
    is_row,
    joined_literal,
    named_call,
)
from herdpy_sql.expr.typenames import catalog_name, sql_type

UNNAMED = "?column?"

_FUNCTIONS: dict[type[object], tuple[str, ...]] = {
    exp.AtTimeZone: ("timezone",),
    exp.Ceil: ("ceil", "ceiling"),
    exp.CurrentTimestamp: ("current_timestamp", "now"),
    exp.Exists: ("exists",),
    exp.Explode: ("unnest",),
    exp.ExplodingGenerateSeries: ("generate_series",),
    exp.Extract: ("extract",),
    exp.IntDiv: ("div",),
    exp.Length: ("length", "char_length", "character_length"),
    exp.Mod: ("mod",),
    exp.Overlaps: ("overlaps",),
    exp.Pow: ("power", "pow"),
    exp.Rand: ("random",),
    exp.Substring: ("substring", "substr"),
    exp.Uuid: ("gen_random_uuid",),
}
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}
_SYMBOLS = (exp.Mod, exp.Pow, exp.Sqrt, exp.Cbrt)
"""Classes of functions that operators become, too: ``%``, ``^``, ``|/`` and ``||/``."""
_CLASSES = {**AGGREGATE_CLASSES, **ORDERED_SET_CLASSES, **WINDOW_CLASSES}


def output_name(node: exp.Expression, bound: str | None = None) -> str:
    """The name of a column; ``bound`` is that of a subquery's first column, as its binder has it."""
    return figured(node, bound)[0]


def figured(node: exp.Expression, bound: str | None = None) -> tuple[str, int]:
    """The name and how sure it is: 2 for columns and functions, 1 for casts and CASE, else 0."""
    if isinstance(node, exp.Paren | exp.Collate | exp.Bracket):
        return figured(node.this, bound)
    if isinstance(node, exp.Column):
        return identifier(node.args["table"] if isinstance(node.this, exp.Star) else node.this), 2
    if is_row(node):
        return "row", 2
    if isinstance(node, exp.Cast):
        name, strength = figured(node.this, bound)
        return (name, strength) if strength > 1 else (_type_name(node.args["to"]), 1)
    if isinstance(node, exp.Interval):
        return "interval", 1
    if isinstance(node, exp.Array):
        return "array", 2
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        return identifier(node.expression), 2
    if isinstance(node, exp.Case):
        return _of_case(node, bound)
    if isinstance(node, exp.Subquery | exp.Select | exp.SetOperation):
        return bound or UNNAMED, 2
    if isinstance(node, _SYMBOLS) and "start" not in node.meta:
        return UNNAMED, 0
    if isinstance(node, exp.Window | exp.Filter | exp.WithinGroup):
        return figured(node.this, bound)
    if type(node) in _CLASSES:
        return _CLASSES[type(node)], 2
    return _of_call(node)


def _of_case(node: exp.Case, bound: str | None) -> tuple[str, int]:
    """Of ELSE, if that has a name."""
    default = node.args.get("default")
    name, strength = figured(default, bound) if default is not None else (UNNAMED, 0)
    return (name, strength) if strength > 1 else ("case", 1)


def _of_call(node: exp.Expression) -> tuple[str, int]:
    if isinstance(node, exp.Anonymous):
        return identifier(node.this) if isinstance(node.this, exp.Identifier) else str(node.this).lower(), 2
    if isinstance(node, exp.Concat) and joined_literal(node) is not None:
        return UNNAMED, 0
    if isinstance(node, exp.Trim):
        return _TRIMS.get(str(node.args.get("position") or "").upper(), "btrim"), 2
    if isinstance(node, exp.Pad):
        return "lpad" if node.args.get("is_left") else "rpad", 2
    called = "start" in node.meta
    if isinstance(node, exp.StrPosition):
        return "strpos" if called else "position", 2
    names = _FUNCTIONS.get(type(node))
    if names is not None:
        length = node.meta["end"] - node.meta["start"] + 1 if called else 0
        return next((name for name in names if len(name) == length), names[0]), 2
    if type(node) in FUNCTION_CLASSES:
        return FUNCTION_CLASSES[type(node)][0], 2
    if not isinstance(node, exp.Func) or isinstance(node, exp.Connector):
        return UNNAMED, 0
    known = named_call(node)
    if known is not None:
        return (known[0], 2) if known[0].isidentifier() else (UNNAMED, 0)
    return (UNNAMED, 0) if isinstance(node, exp.Binary) else (node.sql_name().lower(), 2)


def _type_name(kind: exp.Expression) -> str:
    try:
        return catalog_name(sql_type(kind, any_scale=True))
    except SqlError:  # raised where the cast is bound
        return UNNAMED

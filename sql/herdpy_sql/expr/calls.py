"""Function calls: sqlglot's classes and names, brought to names of :data:`functions.FUNCTIONS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.coerce import coerce, settle
from herdpy_sql.expr.extracts import extractor
from herdpy_sql.expr.fold import folded
from herdpy_sql.expr.functions import FUNCTIONS
from herdpy_sql.expr.library_calls import bind_library, library_call
from herdpy_sql.expr.nodes import NotOwn
from herdpy_sql.expr.operate import call
from herdpy_sql.expr.resolve import can_coerce, choose
from herdpy_sql.expr.sequence_calls import SEQUENCE_FUNCTIONS, bind_sequence_call
from herdpy_sql.library import ROUTINES
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import to_text

if TYPE_CHECKING:
    from herdpy_sql.expr.bind import Binder

# Where the arguments of sqlglot's classes are, in the order of PostgreSQL's function.
_ARGS: dict[type, tuple[str, tuple[str, ...]]] = {
    exp.Abs: ("abs", ("this",)),
    exp.Sign: ("sign", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.Floor: ("floor", ("this",)),
    exp.Round: ("round", ("this", "decimals")),
    exp.Trunc: ("trunc", ("this", "decimals")),
    exp.IntDiv: ("div", ("this", "expression")),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.Lower: ("lower", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.StrPosition: ("strpos", ("this", "substr")),
    exp.StartsWith: ("starts_with", ("this", "expression")),
    exp.Repeat: ("repeat", ("this", "times")),
    exp.Reverse: ("reverse", ("this",)),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.Ascii: ("ascii", ("this",)),
    exp.MD5: ("md5", ("this",)),
    exp.AtTimeZone: ("timezone", ("zone", "this")),
}
_CLOCKS = {
    "now": "transaction",
    "transaction_timestamp": "transaction",
    "current_timestamp": "transaction",
    "statement_timestamp": "statement",
}
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "btrim", "": "btrim"}


def function_name(node: exp.Expression) -> str:
    """A name for messages."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.key.lower() if isinstance(node, exp.Func) else type(node).__name__.lower()


def bind_call(binder: Binder, node: exp.Expression) -> n.Expr:
    """Bind a function call. NotOwn for functions that are not evaluated here."""
    kind = type(node)
    if kind in _ARGS:
        name, places = _ARGS[kind]
        args = [node.args[place] for place in places if node.args.get(place) is not None]
        extra = {key for key, value in node.args.items() if value and key not in places}
        if extra - {"is_left", "binary", "big_int", "ignore_nulls"}:
            raise NotOwn(name)
        return by_name(binder, name, args)
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(binder, node)
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
        return _anonymous(binder, node.this.lower(), node.expressions)
    found = bind_library(binder, node)
    if found is None:
        raise NotOwn(function_name(node))
    return found


def by_name(binder: Binder, name: str, args: Sequence[exp.Expression]) -> n.Expr:
    """Choose among the candidates of ``name``. SqlError 42883 when none fits."""
    bound = [binder.bind(arg) for arg in args]
    chosen = choose(FUNCTIONS[name], [arg.type.base for arg in bound], f"function {name}")
    if chosen is None or chosen.function is n.NOT_OWN:
        found = library_call(name, bound, binder.params)
        if found is not None:
            return found
    if chosen is None:
        types = ", ".join(arg.type.name for arg in bound)
        raise SqlError(
            "42883",
            f"function {name}({types}) does not exist",
            hint="No function matches the given name and argument types. "
            "You might need to add explicit type casts.",
        )
    return call(chosen, bound, binder.params)


def _anonymous(binder: Binder, name: str, args: list[exp.Expression]) -> n.Expr:
    if name in _CLOCKS and not args:
        return n.Now(t.TIMESTAMPTZ, _CLOCKS[name])
    if name == "clock_timestamp" and not args:
        return _volatile(binder, t.TIMESTAMPTZ, name)
    if name in FUNCTIONS:
        return by_name(binder, name, args)
    if name in SEQUENCE_FUNCTIONS:
        return bind_sequence_call(binder, name, args)
    if name in ROUTINES:
        found = bind_library(binder, exp.Anonymous(this=name, expressions=args))
        if found is not None:
            return found
    raise NotOwn(name)


def _now(binder: Binder, node: exp.Expression) -> n.Expr:
    if node.this is not None:
        raise NotOwn("CURRENT_TIMESTAMP(n)")
    return n.Now(t.TIMESTAMPTZ, "transaction")


def _now_as(target: SqlType) -> Callable[[Binder, Any], n.Expr]:
    def bind_now(binder: Binder, node: exp.Expression) -> n.Expr:
        return coerce(_now(binder, node), target, "explicit", binder.params)

    return bind_now


def _extract(binder: Binder, node: exp.Extract) -> n.Expr:
    source = binder.bind(node.expression)
    if source.type.base is Base.UNKNOWN:
        raise NotOwn("extract from a literal")
    if source.type.base is Base.INTERVAL:
        unit = n.Const(t.TEXT, node.name.lower())
        found = library_call("extract", [unit, source], binder.params)
        assert found is not None
        return found
    return folded(n.Call(t.NUMERIC, extractor(node.name, source.type.base), (source,)))


def _date_trunc(binder: Binder, node: exp.Expression) -> n.Expr:
    unit = node.args.get("unit")
    if not isinstance(unit, exp.Var) or node.args.get("zone") is not None:
        raise NotOwn("date_trunc")
    return by_name(binder, "date_trunc", [exp.Literal.string(unit.name), node.this])


def _trim(binder: Binder, node: exp.Trim) -> n.Expr:
    args = [node.this] if node.expression is None else [node.this, node.expression]
    name = _TRIMS.get(str(node.args.get("position") or "").upper())
    if name is None:  # trim(a, b, c), of which the parser makes the place
        raise SqlError("42883", "function trim with three arguments does not exist")
    return by_name(binder, name, args)


def _pad(binder: Binder, node: exp.Expression) -> n.Expr:
    fill = node.args.get("fill_pattern")
    args = [node.this, node.expression, *([] if fill is None else [fill])]
    return by_name(binder, "lpad" if node.args.get("is_left") else "rpad", args)


def _chr(binder: Binder, node: exp.Expression) -> n.Expr:
    return by_name(binder, "chr", node.expressions)


def _concat(binder: Binder, node: exp.Expression) -> n.Expr:
    args = tuple(_output_text(binder, arg) for arg in node.expressions)
    return folded(n.Call(t.TEXT, n.Function("concat", _join_all, strict=False), args))


def _concat_ws(binder: Binder, node: exp.Expression) -> n.Expr:
    separator = binder.bind(node.expressions[0])
    if not can_coerce(separator.type.base, Base.TEXT):
        raise SqlError("42883", f"function concat_ws({separator.type.base.value}, ...) does not exist")
    separator = coerce(separator, t.TEXT, "implicit", binder.params)
    args = (separator, *(_output_text(binder, arg) for arg in node.expressions[1:]))
    return folded(n.Call(t.TEXT, n.Function("concat_ws", _join_with, strict=False), args))


def _output_text(binder: Binder, node: exp.Expression) -> n.Expr:
    """An argument of concat(): its output form, which for BOOLEAN and CHAR is not its cast to TEXT."""
    bound = settle(binder.bind(node), binder.params)
    if bound.type.base in {Base.BOOLEAN, Base.CHAR}:
        return folded(n.Call(t.TEXT, n.Function("out", to_text(bound.type)), (bound,)))
    return coerce(bound, t.TEXT, "explicit", binder.params)


def _join_all(*texts: str | None) -> str:
    return "".join(text for text in texts if text is not None)


def _join_with(separator: str | None, *texts: str | None) -> str | None:
    return None if separator is None else separator.join(text for text in texts if text is not None)


def _random(binder: Binder, node: exp.Expression) -> n.Expr:
    if any(node.args.values()):
        raise NotOwn(function_name(node))
    if isinstance(node, exp.Uuid):
        return _volatile(binder, t.UUID, "gen_random_uuid")
    return _volatile(binder, t.DOUBLE, "random")


def _volatile(binder: Binder, type_: SqlType, name: str) -> n.Expr:
    if not getattr(binder.scope, "volatile", False):
        raise NotOwn(name)
    return n.Random(type_, name)


_SPECIAL: dict[type, Callable[[Binder, Any], n.Expr]] = {
    exp.CurrentTimestamp: _now,
    exp.CurrentDate: _now_as(t.DATE),
    exp.Localtimestamp: _now_as(t.TIMESTAMP),
    exp.Localtime: _now_as(t.TIME),
    exp.Extract: _extract,
    exp.TimestampTrunc: _date_trunc,
    exp.Trim: _trim,
    exp.Pad: _pad,
    exp.Chr: _chr,
    exp.Concat: _concat,
    exp.ConcatWs: _concat_ws,
    exp.Uuid: _random,
    exp.Rand: _random,
}

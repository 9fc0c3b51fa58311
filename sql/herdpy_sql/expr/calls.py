"""Binding of calls: of the library's functions, of sequences; and of arrays.

Each handler takes the binder and a node of the syntax tree. sqlglot has classes of its own for many
functions; they are brought to PostgreSQL's names and the order of its arguments. nextval and its relatives
are carried out by the statement's ``Clock.sequences``: which sequence is meant is looked up when they run,
by a text as a regclass is written.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql import types as t
from herdpy_sql.absent import absent_function
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr import subqueries
from herdpy_sql.expr.aggregates import AGGREGATES, aggregate
from herdpy_sql.expr.binder import LIST
from herdpy_sql.expr.casts import castable
from herdpy_sql.expr.coerce import coerce, unify
from herdpy_sql.expr.compile import folded
from herdpy_sql.expr.operate import LibraryFunction, binary, library_call
from herdpy_sql.expr.operators import BINARY
from herdpy_sql.expr.resolve import can_coerce, no_function, no_operator
from herdpy_sql.expr.rows import MAKERS, made, qualified, refused, row_text
from herdpy_sql.expr.syntax import (
    FUNCTION_CLASSES,
    NAMES,
    bare,
    filled,
    function_name,
    is_regclass,
    is_row,
    joined_literal,
    named_call,
    slice_ends,
    subscripts,
)
from herdpy_sql.expr.typenames import CATALOG_TYPES, sql_type
from herdpy_sql.library import ROUTINES
from herdpy_sql.library.arrays import array_of_arrays
from herdpy_sql.library.catalog_functions import ACTIONS, TRANSACTION_NUMBERS
from herdpy_sql.node_names import refusal
from herdpy_sql.types import INTEGER, UNKNOWN, Base, SqlType, array_of
from herdpy_sql.values.precision import MAX_DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from herdpy_sql.expr.binder import ExprBinder, Handler


def bind_library(binder: ExprBinder, node: exp.Expression) -> n.Expr | None:
    """A call or an operator that the library has; None of what is neither. SqlError 42883."""
    named = named_call(node)
    if named is None:
        return None
    name, nodes = named
    args = [binder.bind(arg) for arg in nodes]
    found = library_call(name, args, binder.params, filled(name, nodes))
    if found is None:
        types = [arg.type for arg in args]
        if not name.isidentifier():
            raise no_operator(name, types[:2])
        if name in TRANSACTION_NUMBERS and not types:  # a query has the number of its answer
            raise SqlError("0A000", f"{name} is not supported in this place of a statement")
        raise no_function(name, types[name in ACTIONS :])  # after the number put before
    return _allowed(binder, found)


def _cast(binder: ExprBinder, node: exp.Cast) -> n.Expr:
    """A cast, also of a row to a text."""
    inner = bare(node.this)
    if is_row(inner) or isinstance(inner, exp.Column):
        target = sql_type(node.args["to"], any_scale=True)
        row = row_text(binder, inner) if target.base in _TEXTS else None
        if row is not None:
            return coerce(row, target, "explicit", binder.params)
    return binder.cast(node)


_TEXTS = frozenset({Base.TEXT, Base.VARCHAR, Base.CHAR, Base.NAME})


def _allowed(binder: ExprBinder, call: n.Expr) -> n.Expr:
    """It; SqlError 0A000 where it gives rows and none may stand."""
    if isinstance(call, n.Call) and isinstance(call.function, LibraryFunction) and call.function.is_setof:
        binder.scope.refuse_rows()
    return call


def array(binder: ExprBinder, node: exp.Array) -> n.Expr:
    """ARRAY[...] of values, or ARRAY(query). SqlError 42601 for ARRAY(...) of what is no query."""
    one = node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(one, exp.Query | exp.Values) and not node.args.get("value_constructor"):
        return subqueries.array(binder, one)
    if isinstance(one, exp.Order | exp.Limit | exp.Offset):
        raise SqlError("0A000", "ORDER BY, LIMIT and OFFSET of VALUES in ARRAY(...) are not supported")
    if "start" in node.meta:
        raise SqlError("42601", 'syntax error at or near "ARRAY"')
    if not node.expressions:
        raise SqlError("42P18", "cannot determine type of empty array")
    items = [binder.bind(item) for item in node.expressions]
    found, parts = unify(items, binder.params, "ARRAY")
    return folded(n.Call(array_of(found), STACK if found.base is Base.ARRAY else LIST, parts))


STACK = n.Function("array", lambda *values: array_of_arrays(values), strict=False)


def bracket(binder: ExprBinder, node: exp.Bracket) -> n.Expr:
    """Subscripts and slices of arrays, and subscripts of JSONB."""
    base, steps = subscripts(node)
    value = binder.bind(base)
    if value.type.base is Base.ARRAY:
        return _within(binder, value, steps)
    for step in steps:
        found = None
        if not isinstance(step, tuple):
            found = library_call("subscript", [value, binder.bind(step)], binder.params)
        if found is None:
            raise SqlError(
                "42804", f"cannot subscript type {value.type.name} because it does not support subscripting"
            )
        value = found
    return value


def _within(binder: ExprBinder, array: n.Expr, steps: Sequence[Any]) -> n.Expr:
    """One subscript for each dimension; where one is a slice all are, from 1 to where they were alone."""
    if any(isinstance(step, tuple) for step in steps):
        args = [_bound(binder, one, open_end) for step in steps for one, open_end in slice_ends(step)]
        found = library_call("slice", [array, *args], binder.params)
    else:
        found = library_call("subscript", [array, *[_index(binder, one) for one in steps]], binder.params)
    if found is None:
        raise SqlError("42804", "array subscript must have type integer")
    return found


def _bound(binder: ExprBinder, node: Any, open_end: int) -> n.Expr:
    return n.Const(INTEGER, open_end) if node is None else _index(binder, node)


def _index(binder: ExprBinder, node: Any) -> n.Expr:
    """A subscript, whatever can be assigned to INTEGER."""
    index = binder.bind(node)
    if index.type.base is not Base.UNKNOWN and not castable(index.type, INTEGER, "assignment"):
        raise SqlError("42804", "array subscript must have type integer")
    return coerce(index, INTEGER, "assignment", binder.params)


SEQUENCE_FUNCTIONS: dict[str, tuple[tuple[SqlType, ...], ...]] = {
    "nextval": ((t.TEXT,),),
    "currval": ((t.TEXT,),),
    "lastval": ((),),
    "setval": ((t.TEXT, t.BIGINT), (t.TEXT, t.BIGINT, t.BOOLEAN)),
    "pg_notify": ((t.TEXT, t.TEXT),),
}
"""The lists of arguments that each can have, the sequence's name as a text; pg_notify, which is evaluated in
the same way, sends a notification."""


def sequence_result(name: str) -> SqlType:
    """The type that one of SEQUENCE_FUNCTIONS gives; of pg_notify a text, which is empty."""
    return t.TEXT if name == "pg_notify" else t.BIGINT


def bind_sequence_call(binder: ExprBinder, name: str, args: Sequence[exp.Expression]) -> n.Expr:
    """Bind a call of one of SEQUENCE_FUNCTIONS; SqlError 42883 when no list of arguments fits."""
    bound = [binder.bind(_plain(arg)) for arg in args]
    for wanted in SEQUENCE_FUNCTIONS[name]:
        if len(wanted) == len(bound) and all(
            can_coerce(one.type.base, target.base) for one, target in zip(bound, wanted, strict=True)
        ):
            given = (
                coerce(one, target, "implicit", binder.params)
                for one, target in zip(bound, wanted, strict=True)
            )
            return n.SequenceCall(sequence_result(name), name, tuple(given))
    raise no_function(name, [arg.type for arg in bound])


def _plain(node: exp.Expression) -> exp.Expression:
    """What is cast to regclass, which is the name of a sequence: an object id as a text."""
    if is_regclass(node):
        inner: exp.Expression = node.this
        return exp.Literal.string(inner.name) if isinstance(inner, exp.Literal) else inner
    return node


_CLOCKS = {
    "now": "transaction",
    "transaction_timestamp": "transaction",
    "current_timestamp": "transaction",
    "statement_timestamp": "statement",
}
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "btrim", "": "btrim"}


def bind_call(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """A function or operator that syntax has a class of, and the library a name."""
    found = bind_library(binder, node)
    if found is None:
        raise refusal(node)
    return found


def known(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """A function that sqlglot has a class of."""
    name, places = FUNCTION_CLASSES[type(node)]
    args: list[exp.Expression] = []
    for place in places:
        value = node.args.get(place)
        args += value if isinstance(value, list) else [] if value is None else [value]
    return by_name(binder, name, args)


def by_name(binder: ExprBinder, name: str, args: Sequence[exp.Expression]) -> n.Expr:
    """Choose among the candidates of ``name``. SqlError 42883 when none fits."""
    bound = [binder.bind(arg) for arg in args]
    found = library_call(name, bound, binder.params)
    if found is None:
        raise no_function(name, [arg.type for arg in bound])
    return _allowed(binder, found)


PROGRAM = "herdpy_program"
"""Where a call's node has what its name means of the catalog's functions (see ``plan.program_calls``)."""


def anonymous(binder: ExprBinder, node: exp.Anonymous) -> n.Expr:
    """A call by a name that sqlglot does not know; the system's functions come first. SqlError 42883."""
    callee = node.args.get(PROGRAM)
    if callee is None:
        return _of_system(binder, node)
    if str(node.this).lower() in ROUTINES:
        try:
            return _of_system(binder, node)
        except SqlError as error:
            if error.sqlstate != "42883":
                raise
    found: n.Expr = callee.bind(binder, node)
    return found


def _of_system(binder: ExprBinder, node: exp.Anonymous) -> n.Expr:
    name = str(node.this).lower()
    absent = absent_function(name)
    if absent is not None:
        raise absent
    if name in AGGREGATES:
        return aggregate(binder, node)
    if name in MAKERS:
        return made(binder, node)
    if name == "row":
        return refused(binder, node)
    if name in _CLOCKS and not node.expressions:
        return n.Now(t.TIMESTAMPTZ, _CLOCKS[name])
    if name == "clock_timestamp" and not node.expressions:
        return _volatile(binder, t.TIMESTAMPTZ, name)
    if name in SEQUENCE_FUNCTIONS:
        return bind_sequence_call(binder, name, node.expressions)
    found = _cast_by_name(binder, name, node.expressions)
    if found is None and name in ROUTINES:
        found = bind_library(binder, node)
    if found is None:
        raise no_function(name, [binder.bind(arg).type for arg in node.expressions])
    return found


_TYPE_SYNTAX = frozenset({"bit", "char", "interval", "numeric", "time", "timestamp", "varchar"})
"""Names of types behind which parentheses are those of a modifier."""


def _cast_by_name(binder: ExprBinder, name: str, args: Sequence[exp.Expression]) -> n.Expr | None:
    """``date(x)``, which is ``x::date``, and so of each type; None where there is no such cast."""
    target = None if name in _TYPE_SYNTAX else CATALOG_TYPES.get(name)
    if target is None or len(args) != 1:
        return None
    bound = binder.bind(args[0])
    if not castable(bound.type, target, "explicit"):
        return None
    return coerce(bound, target, "explicit", binder.params)


def _now(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    return _with_digits(binder, n.Now(t.TIMESTAMPTZ, "transaction"), node.this)


def _with_digits(binder: ExprBinder, moment: n.Expr, digits: exp.Expression | None) -> n.Expr:
    """``current_timestamp(digits)``."""
    if digits is None:
        return moment
    if not isinstance(digits, exp.Literal) or not str(digits.this).isdigit():
        raise SqlError("42601", "syntax error: digits of seconds must be a constant")
    target = dataclasses.replace(moment.type, precision=min(int(digits.this), MAX_DIGITS))
    return coerce(moment, target, "explicit", binder.params)


def _now_as(target: SqlType) -> Callable[[ExprBinder, Any], n.Expr]:
    def bind_now(binder: ExprBinder, node: exp.Expression) -> n.Expr:
        now = n.Now(t.TIMESTAMPTZ, "transaction")
        return _with_digits(binder, coerce(now, target, "explicit", binder.params), node.this)

    return bind_now


def _extract(binder: ExprBinder, node: exp.Extract) -> n.Expr:
    return by_name(binder, "extract", [exp.Literal.string(node.name.lower()), node.expression])


def _at_time_zone(binder: ExprBinder, node: exp.AtTimeZone) -> n.Expr:
    return by_name(binder, "timezone", [node.args["zone"], node.this])


def _trim(binder: ExprBinder, node: exp.Trim) -> n.Expr:
    args = [node.this] if node.expression is None else [node.this, node.expression]
    name = _TRIMS.get(str(node.args.get("position") or "").upper())
    if name is None:  # trim(a, b, c), of which the parser makes the place
        raise SqlError("42883", "function trim with three arguments does not exist")
    return by_name(binder, name, args)


def _pad(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    fill = node.args.get("fill_pattern")
    args = [node.this, node.expression, *([] if fill is None else [fill])]
    return by_name(binder, "lpad" if node.args.get("is_left") else "rpad", args)


def _chr(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    return by_name(binder, "chr", node.expressions)


def _concat(binder: ExprBinder, node: exp.Concat) -> n.Expr:
    literal = joined_literal(node)
    return by_name(binder, "concat", node.expressions) if literal is None else n.Const(UNKNOWN, literal)


_OPERATORS: dict[str, type[exp.Expression]] = {
    "=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE, "||": exp.DPipe,
    "+": exp.Add, "-": exp.Sub, "*": exp.Mul, "/": exp.Div, "%": exp.Mod,
}  # fmt: skip


def _operator(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """``a OPERATOR(pg_catalog.=) b``."""
    symbol = str(node.args["operator"]).removeprefix("pg_catalog.").strip()
    kind = _OPERATORS.get(symbol)
    if kind is not None:
        return binder.bind(kind(this=node.this, expression=node.expression))
    if symbol not in BINARY and symbol not in ROUTINES:
        raise SqlError("42883", f"operator does not exist: {symbol}")
    left, right = binder.bind(node.this), binder.bind(node.expression)
    if symbol in BINARY:
        return binary(symbol, left, right, binder.params)
    found = library_call(symbol, (left, right), binder.params)
    if found is None:
        raise no_operator(symbol, (left.type, right.type))
    return found


def _overlaps(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """``(start, end) OVERLAPS (start, end)``; an end may be an interval from its start."""
    ends: list[n.Expr] = []
    for side, word in ((bare(node.this), "left"), (bare(node.expression), "right")):
        if not is_row(side) or len(side.expressions) != 2:
            raise SqlError("42601", f"wrong number of parameters on {word} side of OVERLAPS expression")
        start, end = [binder.bind(one) for one in side.expressions]
        if end.type.base is Base.INTERVAL:
            end = binary("+", start, end, binder.params)
        ends += [start, end]
    found = library_call("overlaps", ends, binder.params)
    if found is None:
        raise no_function("overlaps", [end.type for end in ends])
    return found


def _no_function(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    """What other dialects have a function for."""
    raise SqlError("42883", f"function {function_name(node)} does not exist")


def _random(binder: ExprBinder, node: exp.Expression) -> n.Expr:
    if any(node.args.values()):
        raise SqlError("0A000", f"arguments of {function_name(node)} are not supported")
    if isinstance(node, exp.Uuid):
        return _volatile(binder, t.UUID, "gen_random_uuid")
    return _volatile(binder, t.DOUBLE, "random")


def _volatile(binder: ExprBinder, type_: SqlType, name: str) -> n.Expr:
    return n.Random(type_, name, not binder.scope.volatile)


CALLS: dict[type, Handler] = {
    **dict.fromkeys((*NAMES, exp.SHA2Digest, exp.SHA2, exp.MakeInterval), bind_call),
    exp.Anonymous: anonymous,
    **dict.fromkeys(FUNCTION_CLASSES, known),
    exp.Array: array,
    exp.Cast: _cast,
    exp.Tuple: refused,
    exp.AtTimeZone: _at_time_zone,
    exp.Bracket: bracket,
    exp.CurrentTimestamp: _now,
    exp.CurrentDate: _now_as(t.DATE),
    exp.Localtimestamp: _now_as(t.TIMESTAMP),
    exp.Localtime: _now_as(t.TIME),
    exp.Extract: _extract,
    exp.Trim: _trim,
    exp.Pad: _pad,
    exp.Chr: _chr,
    exp.Concat: _concat,
    exp.Operator: _operator,
    exp.If: _no_function,
    exp.Overlaps: _overlaps,
    exp.Dot: qualified,
    exp.Uuid: _random,
    exp.Rand: _random,
}

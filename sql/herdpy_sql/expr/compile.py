"""Expressions become closures of (row, parameters, clock); what has only constants inside becomes one.

Evaluation follows PostgreSQL: CASE and COALESCE evaluate no further than they must, and every argument of a
strict function is evaluated even when one is NULL already, so that its errors are seen. Conditions have
SQL's three-valued logic. LIKE's patterns are regular expressions, made once for each pattern and escape.

``COMPILERS`` has the compiler of each class of nodes. An expression whose folding fails is left as it is, to
fail (or not, in a CASE that never gets there) when it runs.
"""

from __future__ import annotations

import functools
import operator
import random
import re
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from herdpy.codec.keys import KeyCodec
from herdpy.codec.kinds import KeyField, Kind
from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.types import BOOLEAN, Base, SqlType
from herdpy_sql.values.letter_case import lower

Row = Sequence[Any]
Compiled = Callable[[Row, Sequence[Any], Clock], Any]
COMPILERS: dict[type[n.Expr], Callable[[Any], Compiled]] = {}


def compile_expr(expr: n.Expr) -> Compiled:
    """The function that evaluates ``expr``; it raises SqlError when the values do not allow it."""
    return COMPILERS[type(expr)](expr)


@functools.lru_cache(maxsize=1024)
def matcher(pattern: str, escape: str, *, insensitive: bool) -> Callable[[str], bool]:
    """Whether a text matches ``pattern``; ``escape`` is one character or empty for none.

    Case is that of ``values.letter_case``. SqlError 22025 for an escape of
    more than one character; 22025 for a pattern that ends with it.
    """
    if len(escape) > 1:
        raise SqlError("22025", "invalid escape string", hint="Escape string must be empty or one character.")
    if insensitive:
        fold = matcher(lower(pattern), lower(escape), insensitive=False)
        return lambda text: fold(lower(text))
    pieces = _pieces(pattern, escape)
    if "_" not in (kind for kind, _ in pieces):
        plain = _plain(pieces)
        if plain is not None:
            return plain
    return _general(pieces)


def _pieces(pattern: str, escape: str) -> list[tuple[str, str]]:
    """The pattern as ("%", ""), ("_", "") and ("text", characters)."""
    pieces: list[tuple[str, str]] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == escape:
            at += 1
            if at == len(pattern):
                raise SqlError("22025", "LIKE pattern must not end with escape character")
            letter, kind = pattern[at], "text"
        else:
            kind = letter if letter in "%_" else "text"
        at += 1
        if kind == "text" and pieces and pieces[-1][0] == "text":
            pieces[-1] = ("text", pieces[-1][1] + letter)
        elif kind != "%" or not pieces or pieces[-1][0] != "%":
            pieces.append((kind, letter if kind == "text" else ""))
    return pieces


def _plain(pieces: list[tuple[str, str]]) -> Callable[[str], bool] | None:
    kinds = [kind for kind, _ in pieces]
    texts = [text for kind, text in pieces if kind == "text"]
    if not kinds:
        return lambda text: not text
    if kinds == ["%"]:
        return lambda text: True
    if len(texts) != 1:
        return None
    wanted = texts[0]
    if kinds == ["text"]:
        return lambda text: text == wanted
    if kinds == ["text", "%"]:
        return lambda text: text.startswith(wanted)
    if kinds == ["%", "text"]:
        return lambda text: text.endswith(wanted)
    return lambda text: wanted in text


def _general(pieces: list[tuple[str, str]]) -> Callable[[str], bool]:
    """Greedy matching between the ``%``: linear in text times pattern, where backtracking is not.

    The atomic group keeps each stretch at its first place, which for LIKE never loses a match except
    in the last stretch, and that one is anchored at the end.
    """
    stretches: list[str] = [""]
    for kind, text in pieces:
        if kind == "%":
            stretches.append("")
        else:
            stretches[-1] += "." if kind == "_" else re.escape(text)
    first, *rest = stretches
    source = first
    if rest:
        source += "".join(f"(?>.*?{middle})" for middle in rest[:-1] if middle) + ".*" + rest[-1]
    compiled = re.compile(source, re.DOTALL)
    return lambda text: compiled.fullmatch(text) is not None


_FLOATS = frozenset({Base.REAL, Base.DOUBLE})
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# PostgreSQL's order of floats: NaN equals itself and is greater than everything else.
_FLOAT_ORDER: dict[str, Callable[[float, float], bool]] = {
    "=": lambda a, b: a == b or (a != a and b != b),  # noqa: PLR0124
    "<>": lambda a, b: a != b and (a == a or b == b),  # noqa: PLR0124
    "<": lambda a, b: a < b or (b != b and a == a),  # noqa: PLR0124
    "<=": lambda a, b: a <= b or b != b,  # noqa: PLR0124
    ">": lambda a, b: a > b or (a != a and b == b),  # noqa: PLR0124
    ">=": lambda a, b: a >= b or a != a,  # noqa: PLR0124
}


_KEYED = frozenset({Base.INTERVAL, Base.ARRAY, Base.JSONB, Base.VECTOR})
_NOT_PLAIN = _FLOATS | _KEYED


def is_plain(base: Base) -> bool:
    """Whether values of a type are equal exactly where their datums are, and hash so."""
    return base not in _NOT_PLAIN


@functools.lru_cache(maxsize=256)
def order_of(sql_type: SqlType) -> Callable[[Any], Any] | None:
    """What a datum compares by, where it is not the datum itself: an interval's span, the bytes of a key."""
    if sql_type.base is Base.INTERVAL:
        return lambda value: value.span
    if sql_type.base not in _KEYED:
        return None
    field = sql_type.plain.field
    shaped = 2 if field.kind is Kind.ARRAY else 0  # a datum may have other dimensions than its type
    encode = KeyCodec([KeyField(field.kind, shaped, element=field.element)]).encode
    return lambda value: encode((value,))


def comparer(op: str, left: n.Expr, right: n.Expr) -> Callable[[Any, Any], bool]:
    """The comparison of two datums, neither of them NULL."""
    key = order_of(left.type)
    if key is not None:
        compare = _ORDER[op]
        return lambda a, b: compare(key(a), key(b))
    floats = left.type.base in _FLOATS or right.type.base in _FLOATS
    return (_FLOAT_ORDER if floats else _ORDER)[op]


def _comparison(expr: n.Comparison) -> Compiled:
    left, right = compile_expr(expr.left), compile_expr(expr.right)
    compare = comparer(expr.op, expr.left, expr.right)
    if (
        isinstance(expr.left, n.ColumnRef)
        and isinstance(expr.right, n.Const)
        and expr.right.value is not None
    ):
        index, constant = expr.left.index, expr.right.value

        def with_constant(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
            value = row[index]
            return None if value is None else compare(value, constant)

        return with_constant

    def run(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        a = left(row, params, clock)
        b = right(row, params, clock)
        return None if a is None or b is None else compare(a, b)

    return run


def _distinct(expr: n.Distinct) -> Compiled:
    left, right = compile_expr(expr.left), compile_expr(expr.right)
    equal = comparer("=", expr.left, expr.right)
    negated = expr.negated

    def run(row: Row, params: Sequence[Any], clock: Clock) -> bool:
        a = left(row, params, clock)
        b = right(row, params, clock)
        same = a is b if a is None or b is None else equal(a, b)
        return same is negated

    return run


def _and(expr: n.And) -> Compiled:
    args = [compile_expr(arg) for arg in expr.args]
    if len(args) == 2:
        left, right = args

        def both(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
            a = left(row, params, clock)
            if a is False:
                return False
            b = right(row, params, clock)
            return b if a or b is False else None

        return both

    def every(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        result: bool | None = True
        for arg in args:
            value = arg(row, params, clock)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return every


def _or(expr: n.Or) -> Compiled:
    args = [compile_expr(arg) for arg in expr.args]

    def run(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        result: bool | None = False
        for arg in args:
            value = arg(row, params, clock)
            if value:
                return True
            if value is None:
                result = None
        return result

    return run


def _not(expr: n.Not) -> Compiled:
    arg = compile_expr(expr.arg)

    def run(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        value = arg(row, params, clock)
        return None if value is None else not value

    return run


def _is_null(expr: n.IsNull) -> Compiled:
    arg = compile_expr(expr.arg)
    if expr.negated:
        return lambda row, params, clock: arg(row, params, clock) is not None
    return lambda row, params, clock: arg(row, params, clock) is None


def _is_truth(expr: n.IsTruth) -> Compiled:
    arg, truth, negated = compile_expr(expr.arg), expr.truth, expr.negated
    return lambda row, params, clock: (arg(row, params, clock) is truth) is not negated


_FEW = 8


def _in_array(expr: n.In, elements: n.Elements) -> Compiled:
    """IN over a parameter that is an array; of an empty one nothing is a member, not even NULL."""
    arg, negated, index = compile_expr(expr.arg), expr.negated, elements.number - 1
    equal = comparer("=", expr.arg, elements)
    plain = not {expr.arg.type.base, elements.type.base} & _NOT_PLAIN
    known: tuple[Any, frozenset[Any]] = ((), frozenset())  # the newest array, and what is in it

    def member(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        value = arg(row, params, clock)
        array = params[index]
        if array is None:
            return None
        if not array:
            return negated
        if value is None:
            return None
        if plain and len(array) > _FEW:
            nonlocal known
            if known[0] is not array:
                known = (array, frozenset(array))
            array = known[1]
        if value in array if plain else any(one is not None and equal(value, one) for one in array):
            return not negated
        return None if None in array else negated

    return member


def _in(expr: n.In) -> Compiled:
    if not expr.items:  # of nothing not even NULL is a member
        nothing = expr.negated
        return lambda row, params, clock: nothing
    if isinstance(expr.items[0], n.Elements):
        return _in_array(expr, expr.items[0])
    arg = compile_expr(expr.arg)
    negated = expr.negated
    if expr.arg.type.base not in _NOT_PLAIN and all(isinstance(item, n.Const) for item in expr.items):
        known = {item.value for item in expr.items if isinstance(item, n.Const)}
        has_null = None in known

        def member(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
            value = arg(row, params, clock)
            if value is None:
                return None
            if value in known:
                return not negated
            return None if has_null else negated

        return member
    items = [compile_expr(item) for item in expr.items]
    equal = comparer("=", expr.arg, expr.arg)

    def search(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        value = arg(row, params, clock)
        others = [item(row, params, clock) for item in items]
        if value is None:
            return None
        unsure = False
        for other in others:
            if other is None:
                unsure = True
            elif equal(value, other):
                return not negated
        return None if unsure else negated

    return search


def _between(expr: n.Between) -> Compiled:
    arg, low, high = compile_expr(expr.arg), compile_expr(expr.low), compile_expr(expr.high)
    above = comparer(">=", expr.arg, expr.low)
    below = comparer("<=", expr.arg, expr.high)

    def run(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        value = arg(row, params, clock)
        least = low(row, params, clock)
        first = None if value is None or least is None else above(value, least)
        if first is False:
            return False
        most = high(row, params, clock)
        if value is None or most is None:
            return None
        return False if not below(value, most) else first

    return run


def _quantified(expr: n.Quantified) -> Compiled:
    """ANY and ALL; of an empty array even NULL has an answer."""
    arg, array, test = compile_expr(expr.arg), compile_expr(expr.array), compile_expr(expr.test)
    every = expr.every

    def run(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        value = arg(row, params, clock)
        given = array(row, params, clock)
        if given is None:
            return None
        result: bool | None = every
        for element in given:  # of several dimensions, too
            found: bool | None = test((*row, element, value), params, clock)
            if found is None:
                result = None
            elif found is not every:
                return found
        return result

    return run


def _element(expr: n.Element) -> Compiled:
    return lambda row, params, clock: row[-2]


def _like(expr: n.Like) -> Compiled:
    arg, pattern, escape = compile_expr(expr.arg), compile_expr(expr.pattern), compile_expr(expr.escape)
    insensitive, negated = expr.insensitive, expr.negated

    def run(row: Row, params: Sequence[Any], clock: Clock) -> bool | None:
        text = arg(row, params, clock)
        wanted = pattern(row, params, clock)
        mark = escape(row, params, clock)
        if text is None or wanted is None or mark is None:
            return None
        return matcher(wanted, mark, insensitive=insensitive)(text) is not negated

    return run


COMPILERS.update(
    {
        n.Comparison: _comparison,
        n.Distinct: _distinct,
        n.And: _and,
        n.Or: _or,
        n.Not: _not,
        n.IsNull: _is_null,
        n.IsTruth: _is_truth,
        n.In: _in,
        n.Between: _between,
        n.Like: _like,
        n.Quantified: _quantified,
        n.Element: _element,
    }
)


def _column(expr: n.ColumnRef) -> Compiled:
    index = expr.index
    return lambda row, params, clock: row[index]


def _case_operand(expr: n.CaseOperand) -> Compiled:
    return lambda row, params, clock: row[-1]


def _const(expr: n.Const) -> Compiled:
    value = expr.value
    return lambda row, params, clock: value


def _param(expr: n.Param) -> Compiled:
    index = expr.number - 1
    return lambda row, params, clock: params[index]


def _now(expr: n.Now) -> Compiled:
    if expr.what == "statement":
        return lambda row, params, clock: clock.statement_us
    return lambda row, params, clock: clock.transaction_us


_RANDOM: dict[str, Compiled] = {
    "gen_random_uuid": lambda row, params, clock: uuid.uuid4().bytes,
    "random": lambda row, params, clock: random.random(),
    "clock_timestamp": lambda row, params, clock: time.time_ns() // 1000,
}


def _random(expr: n.Random) -> Compiled:
    # The leader evaluates it for each row, where a DEFAULT is filled in, and logs the value.
    return _RANDOM[expr.name]


def _sequence_call(expr: n.SequenceCall) -> Compiled:
    name, args = expr.name, [compile_expr(arg) for arg in expr.args]
    if len(args) == 1 and isinstance(expr.args[0], n.Const) and name == "nextval":
        sequence: Any = expr.args[0].value
        return lambda row, params, clock: clock.sequences.nextval(sequence)  # type: ignore[union-attr]

    def run(row: Row, params: Sequence[Any], clock: Clock) -> Any:
        values = [arg(row, params, clock) for arg in args]
        if None in values and name != "pg_notify":
            return None
        if name == "setval" and len(values) == 2:
            values.append(True)
        return getattr(clock.sequences, name)(*values)

    return run


def _program_call(expr: n.ProgramCall) -> Compiled:
    number, strict, args = expr.program, expr.strict, [compile_expr(arg) for arg in expr.args]

    def run(row: Row, params: Sequence[Any], clock: Clock) -> Any:
        values = [arg(row, params, clock) for arg in args]
        if strict and None in values:
            return None
        if clock.sequences is None:
            raise SqlError("0A000", "functions of the database are not called here")
        return clock.sequences.call_program(number, values)

    return run


def _call(expr: n.Call) -> Compiled:
    function = expr.function
    if len(expr.args) == 2 and function.strict and not function.needs_clock:
        left, right = expr.args
        if type(left) is n.ColumnRef and type(right) is n.Param:
            return _of_column_and_parameter(function.implementation, left.index, right.number - 1)
    return _apply(expr.function, [compile_expr(arg) for arg in expr.args])


def _apply(function: n.Function, args: list[Compiled]) -> Compiled:
    run = function.implementation
    if not function.strict or len(args) > 2 - function.needs_clock or not args:
        return _apply_any(function, args)
    if len(args) == 1:
        (only,) = args
        if function.needs_clock:

            def unary_now(row: Row, params: Sequence[Any], clock: Clock) -> Any:
                value = only(row, params, clock)
                return None if value is None else run(clock, value)

            return unary_now

        def unary(row: Row, params: Sequence[Any], clock: Clock) -> Any:
            value = only(row, params, clock)
            return None if value is None else run(value)

        return unary
    left, right = args

    def binary(row: Row, params: Sequence[Any], clock: Clock) -> Any:
        a = left(row, params, clock)
        b = right(row, params, clock)
        return None if a is None or b is None else run(a, b)

    return binary


def _of_column_and_parameter(run: Callable[[Any, Any], Any], index: int, number: int) -> Compiled:
    """As ``_apply``, of what most statements that change a row by its key compute."""

    def apply(row: Row, params: Sequence[Any], clock: Clock) -> Any:
        a, b = row[index], params[number]
        return None if a is None or b is None else run(a, b)

    return apply


def _apply_any(function: n.Function, args: list[Compiled]) -> Compiled:
    run, strict, needs_clock = function.implementation, function.strict, function.needs_clock

    def apply(row: Row, params: Sequence[Any], clock: Clock) -> Any:
        values = [arg(row, params, clock) for arg in args]
        if strict and None in values:
            return None
        return run(clock, *values) if needs_clock else run(*values)

    return apply


def _chain(expr: n.Chain) -> Compiled:
    first = compile_expr(expr.first)
    steps = [
        (f.implementation, f.needs_clock, None if r is None else compile_expr(r)) for f, r, _ in expr.steps
    ]

    def run(row: Row, params: Sequence[Any], clock: Clock) -> Any:
        value = first(row, params, clock)
        for function, needs_clock, right in steps:
            args = (value,) if right is None else (value, right(row, params, clock))
            if args[0] is None or args[-1] is None:
                value = None
            else:
                value = function(clock, *args) if needs_clock else function(*args)
        return value

    return run


def _cast(expr: n.Cast) -> Compiled:
    arg = compile_expr(expr.arg)
    return arg if expr.function is None else _apply(expr.function, [arg])


def _case(expr: n.Case) -> Compiled:
    whens = [(compile_expr(when), compile_expr(then)) for when, then in expr.whens]
    default = compile_expr(expr.default)

    def search(row: Row, params: Sequence[Any], clock: Clock) -> Any:
        for when, then in whens:
            if when(row, params, clock):
                return then(row, params, clock)
        return default(row, params, clock)

    if expr.operand is None:
        return search
    operand = compile_expr(expr.operand)

    def simple(row: Row, params: Sequence[Any], clock: Clock) -> Any:
        extended = (*row, operand(row, params, clock))
        for when, then in whens:
            if when(extended, params, clock):
                return then(row, params, clock)
        return default(row, params, clock)

    return simple


def _coalesce(expr: n.Coalesce) -> Compiled:
    args = [compile_expr(arg) for arg in expr.args]

    def run(row: Row, params: Sequence[Any], clock: Clock) -> Any:
        for arg in args:
            value = arg(row, params, clock)
            if value is not None:
                return value
        return None

    return run


def _extreme(expr: n.Extreme) -> Compiled:
    args = [compile_expr(arg) for arg in expr.args]
    better = comparer(">" if expr.greatest else "<", expr, expr)

    def run(row: Row, params: Sequence[Any], clock: Clock) -> Any:
        best = None
        for arg in args:
            value = arg(row, params, clock)
            if value is not None and (best is None or better(value, best)):
                best = value
        return best

    return run


def _nullif(expr: n.NullIf) -> Compiled:
    left, equal = compile_expr(expr.left), compile_expr(expr.comparison)

    def run(row: Row, params: Sequence[Any], clock: Clock) -> Any:
        value = left(row, params, clock)
        return None if equal((*row, value), params, clock) else value

    return run


COMPILERS.update(
    {
        n.ColumnRef: _column,
        n.CaseOperand: _case_operand,
        n.Const: _const,
        n.Param: _param,
        n.Elements: _param,
        n.SubqueryValues: _param,
        n.Now: _now,
        n.Random: _random,
        n.SequenceCall: _sequence_call,
        n.ProgramCall: _program_call,
        n.Call: _call,
        n.Chain: _chain,
        n.Cast: _cast,
        n.Case: _case,
        n.Coalesce: _coalesce,
        n.Extreme: _extreme,
        n.NullIf: _nullif,
    }
)

__all__ = ["Compiled", "compile_expr"]


_NO_CLOCK = Clock(0, 0)


def folded(expr: n.Expr) -> n.Expr:
    """``expr``, or its value when its parts are constants and it does not look at the clock."""
    if isinstance(expr, n.And | n.Or):
        return _folded_logic(expr)
    if isinstance(expr, n.SequenceCall | n.ProgramCall):
        return expr
    parts = n.children(expr)
    constants = [part for part in parts if type(part) is n.Const]
    if not constants:
        return expr
    if _strict(expr) and any(part.value is None for part in constants) and not n.has_columns(expr):
        return n.Const(expr.type, None)
    if len(constants) < len(parts):
        return expr
    function = expr.function if isinstance(expr, n.Call | n.Cast) else None
    if function is not None and (function.needs_clock or function.foreign):
        return expr
    try:
        value = compile_expr(expr)((), (), _NO_CLOCK)
    except SqlError:
        return expr
    long = isinstance(value, str | bytes | tuple) and len(value) > _MOST_FOLDED
    return expr if long else n.Const(expr.type, value)


_MOST_FOLDED = 10_000
"""Characters of a text, or elements of an array, that are computed before the statement runs."""


def _strict(expr: n.Expr) -> bool:
    """Whether it is NULL, without looking at the rest, when one of its parts is."""
    if isinstance(expr, n.Call):
        return expr.function.strict
    return isinstance(expr, n.Comparison | n.Like)


def _folded_logic(expr: n.And | n.Or) -> n.Expr:
    """Without the arguments that change nothing; only a constant when one of them decides."""
    decides, neutral = (n.FALSE, n.TRUE) if isinstance(expr, n.And) else (n.TRUE, n.FALSE)
    kept: list[n.Expr] = []
    for arg in expr.args:
        if arg == decides:
            if n.has_columns(expr):
                return expr
            return decides
        if arg != neutral and not (isinstance(arg, n.Const) and arg in kept):
            kept.append(arg)
    if not kept:
        return neutral
    return kept[0] if len(kept) == 1 else type(expr)(BOOLEAN, tuple(kept))

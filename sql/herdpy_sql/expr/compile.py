"""Expressions into closures of (row, parameters, clock).

Evaluation follows PostgreSQL: CASE and COALESCE evaluate no further than they must, and every argument of a
strict function is evaluated even when one is NULL already, so that its errors are seen. Conditions are in
``compile_conditions``.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Sequence
from typing import Any

from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.compile_conditions import comparer
from herdpy_sql.expr.compiled import COMPILERS, Compiled, Row, compile_expr
from herdpy_sql.storage import Clock


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
        if None in values:
            return None
        if name == "setval" and len(values) == 2:
            values.append(True)
        return getattr(clock.sequences, name)(*values)

    return run


def _call(expr: n.Call) -> Compiled:
    return _apply(expr.function, [compile_expr(arg) for arg in expr.args])


def _apply(function: n.Function, args: list[Compiled]) -> Compiled:
    run = function.implementation
    if function.needs_clock or not function.strict or len(args) > 2 or not args:
        return _apply_any(function, args)
    if len(args) == 1:
        (only,) = args

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
    steps = [(f.implementation, f.needs_clock, None if r is None else compile_expr(r)) for f, r in expr.steps]

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
        n.Now: _now,
        n.Random: _random,
        n.SequenceCall: _sequence_call,
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

"""Constant folding: what has only constants inside becomes one.

An expression whose folding fails is left as it is, to fail (or not, in a CASE that never gets there)
when it runs.
"""

from __future__ import annotations

from herdpy_sql.errors import SqlError
from herdpy_sql.expr.compile import compile_expr
from herdpy_sql.expr.nodes import (
    FALSE,
    TRUE,
    And,
    Call,
    Cast,
    Comparison,
    Const,
    Expr,
    Like,
    Now,
    Or,
    Random,
    SequenceCall,
)
from herdpy_sql.expr.walk import children
from herdpy_sql.storage import Clock
from herdpy_sql.types import BOOLEAN

_NO_CLOCK = Clock(0, 0)


def folded(expr: Expr) -> Expr:
    """``expr``, or its value when its parts are constants and it does not look at the clock."""
    if isinstance(expr, Const | Now | Random | SequenceCall):
        return expr
    if isinstance(expr, And | Or):
        return _folded_logic(expr)
    if _strict(expr) and any(isinstance(part, Const) and part.value is None for part in children(expr)):
        return Const(expr.type, None)
    if isinstance(expr, Call | Cast) and expr.function is not None and expr.function.needs_clock:
        return expr
    parts = children(expr)
    if not parts or not all(isinstance(part, Const) for part in parts):
        return expr
    try:
        return Const(expr.type, compile_expr(expr)((), (), _NO_CLOCK))
    except SqlError:
        return expr


def _strict(expr: Expr) -> bool:
    """Whether it is NULL, without looking at the rest, when one of its parts is."""
    if isinstance(expr, Call):
        return expr.function.strict
    return isinstance(expr, Comparison | Like)


def _folded_logic(expr: And | Or) -> Expr:
    """Without the arguments that change nothing; only a constant when one of them decides."""
    decides, neutral = (FALSE, TRUE) if isinstance(expr, And) else (TRUE, FALSE)
    kept: list[Expr] = []
    for arg in expr.args:
        if arg == decides:
            return decides
        if arg != neutral and not (isinstance(arg, Const) and arg in kept):
            kept.append(arg)
    if not kept:
        return neutral
    return kept[0] if len(kept) == 1 else type(expr)(BOOLEAN, tuple(kept))

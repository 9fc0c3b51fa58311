"""Functions of own plans alone: candidates by name, as :mod:`operators` has them for operators.

What both engines have is in ``library``: numbers and times are here, where the columnar engine has
other meanings of its own for them. Random functions have no candidates here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import extracts, integers, numeric
from herdpy_sql.expr.nodes import NOT_OWN, Function
from herdpy_sql.expr.operators import FLOATS, INTS, float_power
from herdpy_sql.expr.resolve import Signature
from herdpy_sql.types import Base, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable

B = Base


def _one(name: str, args: tuple[Base, ...], result: SqlType, implementation: Callable[..., Any]) -> Signature:
    return Signature(args, result, Function(name, implementation))


def _substring(text: Any, start: int, length: int | None = None) -> Any:
    if length is None:
        return text[max(start - 1, 0) :]
    if length < 0:
        raise SqlError("22011", "negative substring length not allowed")
    end = start - 1 + length
    return text[max(start - 1, 0) : max(end, 0)]


def _float_round(value: float) -> float:
    return math.copysign(round(value), value) if math.isfinite(value) else value


def _whole(operation: Callable[[float], float]) -> Callable[[float], float]:
    """``math.floor`` and its like over every float: large ones, infinities and NaN are whole already."""

    def run(value: float) -> float:
        return math.copysign(float(operation(value)), value) if abs(value) < 2**53 else value

    return run


def _sqrt(value: float) -> float:
    if value < 0:
        raise SqlError("2201F", "cannot take square root of a negative number")
    return math.sqrt(value)


def _sign(value: float) -> float:
    return 1.0 if value > 0 else -1.0 if value < 0 else 0.0  # 0 of NaN too


def _rounding(
    name: str, of_float: Callable[[float], float], of_numeric: Callable[..., Any], *, digits: bool
) -> list[Signature]:
    signatures = [_one(name, (B.DOUBLE,), t.DOUBLE, of_float)]
    if digits:
        signatures.append(_one(name, (B.NUMERIC,), t.NUMERIC, lambda value: of_numeric(value, 0)))
        signatures.append(_one(name, (B.NUMERIC, B.INTEGER), t.NUMERIC, of_numeric))
    else:
        signatures.append(_one(name, (B.NUMERIC,), t.NUMERIC, of_numeric))
    return signatures


FUNCTIONS: dict[str, list[Signature]] = {
    "abs": [
        *(_one("abs", (base,), SqlType(base), integers.absolute(base)) for base in INTS),
        *(_one("abs", (base,), SqlType(base), abs) for base in FLOATS),
        _one("abs", (B.NUMERIC,), t.NUMERIC, numeric.absolute),
    ],
    "sign": [
        _one("sign", (B.DOUBLE,), t.DOUBLE, _sign),
        _one("sign", (B.NUMERIC,), t.NUMERIC, numeric.sign),
    ],
    "ceil": _rounding("ceil", _whole(math.ceil), numeric.ceiling, digits=False),
    "floor": _rounding("floor", _whole(math.floor), numeric.floor, digits=False),
    "round": _rounding("round", _float_round, numeric.round_to, digits=True),
    "trunc": _rounding("trunc", _whole(math.trunc), numeric.truncate_to, digits=True),
    "mod": [
        *(_one("mod", (base, base), SqlType(base), integers.remainder) for base in INTS),
        _one("mod", (B.NUMERIC, B.NUMERIC), t.NUMERIC, numeric.remainder),
    ],
    "div": [_one("div", (B.NUMERIC, B.NUMERIC), t.NUMERIC, numeric.whole_quotient)],
    "power": [
        _one("power", (B.DOUBLE, B.DOUBLE), t.DOUBLE, float_power),
        Signature((B.NUMERIC, B.NUMERIC), t.NUMERIC, NOT_OWN),
    ],
    "sqrt": [_one("sqrt", (B.DOUBLE,), t.DOUBLE, _sqrt), Signature((B.NUMERIC,), t.NUMERIC, NOT_OWN)],
    "octet_length": [
        _one("octet_length", (B.TEXT,), t.INTEGER, lambda text: len(text.encode())),
        _one("octet_length", (B.BYTEA,), t.INTEGER, len),
        Signature((B.CHAR,), t.INTEGER, NOT_OWN),
    ],
    "substring": [
        _one("substring", (base, *counts), SqlType(base), _substring)
        for base in (B.TEXT, B.BYTEA)
        for counts in ((B.INTEGER,), (B.INTEGER, B.INTEGER))
    ]
    + [Signature((B.TEXT, B.TEXT), t.TEXT, NOT_OWN), Signature((B.TEXT, B.TEXT, B.TEXT), t.TEXT, NOT_OWN)],
    **extracts.TRUNCATION,
}
FUNCTIONS["ceiling"] = FUNCTIONS["ceil"]
FUNCTIONS["pow"] = FUNCTIONS["power"]
FUNCTIONS["substr"] = FUNCTIONS["substring"][:4]

"""Codec layer, inside: turns generated source into a function.

A codec is specialised for its fields once, when a table is opened, and then runs for every row, so
``rows`` and ``keys`` write the straight-line function that a person would write for those fields.
The source is made of field positions, kinds and constants only; nothing of a user's is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation, Overflow, Underflow
from typing import Any

#: Exact arithmetic on any NUMERIC of PostgreSQL (131,072 digits before the point, 16,383 after).
EXACT = Context(
    prec=200_000,
    Emax=MAX_EMAX,
    Emin=MIN_EMIN,
    traps=[Inexact, InvalidOperation, Overflow, Underflow],
)


def compile_function(
    name: str, parameter: str, body: Sequence[str], namespace: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return the function ``name(parameter)`` with these body lines, its globals being ``namespace``."""
    source = "\n".join([f"def {name}({parameter}):", *(f"    {line}" for line in body)])
    scope: dict[str, Any] = dict(namespace)
    exec(compile(source, f"<{name}>", "exec"), scope)
    function: Callable[..., Any] = scope[name]
    return function


def unscaled(value: Decimal, scale: int) -> int:
    """Return ``value * 10**scale``; ValueError if that is not an integer or value is not finite."""
    if not value.is_finite():
        raise ValueError(f"{value} is not a finite number")
    product = EXACT.scaleb(value, scale)
    whole = int(product)
    if whole != product:
        raise ValueError(f"{value} has more than {scale} digits after the point")
    return whole


def quantum(scale: int) -> Decimal:
    """Return the unit in the last place of a decimal of that scale: 0.01 for 2."""
    return Decimal(1).scaleb(-scale)


def plain(value: Decimal) -> Decimal:
    """Return an equal decimal whose exponent is not positive: 1200 for 1.2E+3."""
    exponent = value.as_tuple().exponent
    return EXACT.quantize(value, Decimal(1)) if isinstance(exponent, int) and exponent > 0 else value

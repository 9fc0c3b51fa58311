"""NUMERIC datums at the edges: reading, printing, and fitting into NUMERIC(p, s).

A NUMERIC datum is a finite Decimal whose exponent is minus its display scale (so never above zero)
and which is never a negative zero; :func:`normal` makes one of any finite Decimal. All arithmetic on
them uses ``EXACT``, whose precision no value reaches.
"""

from __future__ import annotations

import re
from decimal import (
    MAX_EMAX,
    MAX_PREC,
    MIN_EMIN,
    ROUND_HALF_UP,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
)

from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType

EXACT = Context(
    prec=MAX_PREC,
    rounding=ROUND_HALF_UP,
    Emin=MIN_EMIN,
    Emax=MAX_EMAX,
    traps=[InvalidOperation, DivisionByZero],
)
MAX_WHOLE_DIGITS = 131_072
MAX_SCALE = 16_383
ZERO = Decimal(0)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_SPECIAL = frozenset({"nan", "infinity", "+infinity", "-infinity", "inf", "+inf", "-inf"})
_QUANTA = [Decimal(1).scaleb(-scale) for scale in range(64)]


def quantum(scale: int) -> Decimal:
    """The Decimal ``10 ** -scale``, as an exponent to quantize to."""
    return _QUANTA[scale] if 0 <= scale < 64 else Decimal((0, (1,), -scale))


def normal(value: Decimal) -> Decimal:
    """``value`` as a datum. SqlError 22003 beyond PostgreSQL's 131072 whole digits and 16383 others."""
    if not value.is_finite():
        raise SqlError("0A000", "NaN and infinity are not supported in type numeric")
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    if value.adjusted() >= MAX_WHOLE_DIGITS or exponent < -MAX_SCALE:
        if not value:
            return ZERO if exponent > 0 else quantum(min(-exponent, MAX_SCALE)) * 0
        raise SqlError("22003", "value overflows numeric format")
    if exponent > 0:
        value = EXACT.quantize(value, _QUANTA[0])
    return value if value else value.copy_abs()


def rescale(value: Decimal, scale: int) -> Decimal:
    """``value`` with exactly ``scale`` digits after the point (0 or more), rounded half away from zero."""
    result = EXACT.quantize(value, quantum(scale))
    return result if result else result.copy_abs()


def fit(value: Decimal, sql_type: SqlType) -> Decimal:
    """A datum as a value of ``sql_type``, rounded to its scale. SqlError 22003 when it is too large."""
    precision = sql_type.precision
    if precision is None:
        return value
    scale = sql_type.scale or 0
    result = rescale(value, scale)
    if result.adjusted() >= precision - scale and result:
        bound = f"10^{precision - scale}" if precision > scale else "1" if precision == scale else ""
        raise SqlError(
            "22003",
            "numeric field overflow",
            detail=f"A field with precision {precision}, scale {scale} must round to an absolute value "
            f"less than {bound or f'10^{precision - scale}'}.",
        )
    return result


def parse_numeric(text: str) -> Decimal:
    """Read a NUMERIC. SqlError 22P02 for bad syntax, 22003 when it is out of range."""
    stripped = text.strip(" \t\n\r\f\v")
    if _NUMBER.fullmatch(stripped):
        return normal(Decimal(stripped))
    if stripped.lower() in _SPECIAL:
        raise SqlError("0A000", "NaN and infinity are not supported in type numeric")
    raise SqlError("22P02", f'invalid input syntax for type numeric: "{text}"')


def numeric_text(value: Decimal) -> str:
    """PostgreSQL's text of a NUMERIC: plain notation, every digit of the display scale."""
    return f"{value:f}"


def from_float(value: float, digits: int) -> Decimal:
    """PostgreSQL's float to numeric cast: ``digits`` significant ones (15 of a double, 6 of a real)."""
    return normal(Decimal(f"{value:.{digits}g}"))

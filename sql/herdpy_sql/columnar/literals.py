"""Untyped literals: the text of a literal as a DuckDB constant of the type its place decides.

Bad text is PostgreSQL's error at once (22P02, 22007, 22008, 22003), as there, where such literals
are read while the statement is parsed.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from herdpy_sql.duck import Typed, column_dec, duck_type, over_elements
from herdpy_sql.types import NUMERIC, UNKNOWN, Base, SqlType
from herdpy_sql.values import to_text
from herdpy_sql.values.form import quote
from herdpy_sql.values.forms import FORMS


def decimal_literal(value: Decimal) -> Typed:
    """A NUMERIC constant, native when its digits fit."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if exponent > 0:
        value = Decimal((sign, digits + (0,) * exponent, 0))
        digits, exponent = value.as_tuple().digits, 0
    scale = -exponent
    precision = max(len(digits), scale + 1)
    text = format(value, "f")
    if precision <= 38:
        return Typed(f"CAST('{text}' AS DECIMAL({precision},{scale}))", NUMERIC, dec=(precision, scale))
    return Typed(f"'{text}'", NUMERIC)


_LEAST = -(2**31)
_LONG = (Base.INTEGER, Base.BIGINT)


def constant(type_: SqlType, value: Any) -> Typed:
    """A datum, or NULL, as a constant; with type UNKNOWN, the text whose place will type it.

    An array with elements is ``casts.array_constant``.
    """
    base = type_.base
    if base is Base.UNKNOWN:
        return Typed("", UNKNOWN, literal=value) if value is not None else Typed("NULL", UNKNOWN, null=True)
    if value is None:
        return null(type_)
    if base is Base.INTEGER and value != _LEAST:
        text = str(value)
        return Typed(text if value >= 0 else f"({text})", type_, literal=text)
    if base in _LONG:  # DuckDB reads the digits without the sign
        return Typed(f"CAST('{value}' AS {duck_type(type_)})", type_, literal=str(value))
    if base is Base.NUMERIC:
        return _numeric(type_, value)
    duck = FORMS[base].duck
    if duck.constant is not None:
        return Typed(duck.constant(value), type_)
    return Typed(f"{duck.reader}({quote(to_text(type_)(value))})", type_)


def _numeric(type_: SqlType, value: Decimal) -> Typed:
    """In the DECIMAL of the type, if that has a precision."""
    dec = column_dec(type_)
    if dec is None or not 0 <= dec[1] <= dec[0]:
        return replace(decimal_literal(value), type=type_)
    return Typed(f"CAST('{value:f}' AS DECIMAL({dec[0]},{dec[1]}))", type_, dec)


def null(type_: SqlType) -> Typed:
    """NULL of a type."""
    if type_.base is Base.ARRAY:
        return Typed(f"CAST(NULL AS {duck_type(type_)})", type_.element_type, array=type_.dimensions)
    dec = column_dec(type_)
    return Typed(f"CAST(NULL AS {duck_type(type_, dec)})", type_, dec)


def parameter(number: int, type_: SqlType) -> Typed:
    """Parameter ``number``, which the client gives as ``type_``: an array is a list in DuckDB."""
    mark = f"${number}"
    if type_.element is not None:
        return _array_parameter(mark, type_, type_.element)
    shown = type_ if type_.base is not Base.NUMERIC else SqlType(Base.NUMERIC)
    duck = FORMS[type_.base].duck
    sql = duck.parameter.format(mark) if duck.parameter else f"CAST({mark} AS {duck.name})"
    return Typed(sql, shown, dec=column_dec(shown))


def _array_parameter(mark: str, type_: SqlType, element: Base) -> Typed:
    """Its elements as :func:`parameter` has them."""
    duck = FORMS[element].duck
    held = "VARCHAR" if element is Base.NUMERIC else duck.held or duck.name
    sql = f"CAST({mark} AS {held}{'[]' * type_.dimensions})"
    if duck.element:
        sql = over_elements(sql, type_.dimensions, duck.element)
    plain = type_.element_type
    return Typed(sql, plain, dec=column_dec(plain), array=type_.dimensions)

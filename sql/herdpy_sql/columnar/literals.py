"""Untyped literals: the text of a literal as a DuckDB constant of the type its place decides.

Bad text is PostgreSQL's error at once (22P02, 22007, 22008, 22003), as there, where such literals
are read while the statement is parsed.
"""

from __future__ import annotations

from decimal import Decimal

from herdpy_sql.duck import Typed, column_dec, duck_type, over_elements, retyped
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.binder import number
from herdpy_sql.types import NUMERIC, Base, SqlType
from herdpy_sql.values import from_text
from herdpy_sql.values.form import quote
from herdpy_sql.values.forms import FORMS
from herdpy_sql.values.moments import parse_zoned
from herdpy_sql.values.numeric import parse_numeric


def bad(type_: SqlType, text: str) -> SqlError:
    """22P02, in PostgreSQL's words."""
    return SqlError("22P02", f'invalid input syntax for type {type_.base.value}: "{text}"')


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


def number_literal(text: str) -> Typed:
    """A number as it is written, with its sign: -2147483648 is an INTEGER."""
    found = number(text)
    if found.type.base is Base.NUMERIC:
        assert isinstance(found.value, Decimal)
        return decimal_literal(found.value)
    value, type_ = str(found.value), found.type
    if type_.base is Base.BIGINT or value == _LEAST:  # DuckDB reads the digits without the sign
        return Typed(f"CAST('{value}' AS {duck_type(type_)})", type_, literal=value)
    return Typed(f"({value})" if value[0] == "-" else value, type_, literal=value)


_LEAST = str(-(2**31))


def parse(x: Typed, text: str, target: SqlType) -> Typed:
    """The literal ``text`` as a constant of ``target`` (whose length or precision is not applied)."""
    base = target.base
    if base is Base.NUMERIC:
        constant = decimal_literal(parse_numeric(text))
        return retyped(x, constant.sql, target if constant.dec is None else NUMERIC, constant.dec)
    duck = FORMS[base].duck
    if base is Base.TIMESTAMPTZ and not parse_zoned(text)[1]:  # in the session's zone, as it runs
        return retyped(x, f"{duck.reader}({quote(text)})", target)
    if duck.constant is not None:
        read = from_text(target if base is Base.VECTOR else target.plain)
        return retyped(x, duck.constant(read(text)), target)
    if duck.check is not None:
        duck.check(text)
    return retyped(x, f"{duck.reader}({quote(text)})", target)


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

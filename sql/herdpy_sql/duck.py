"""A bound expression: DuckDB text with PostgreSQL's type.

This is what the handlers of the columnar engine pass to each other, and what the library's functions take and
give that are written in DuckDB's SQL. NUMERIC has two representations in DuckDB:
``dec=(p, s)``, a native DECIMAL(p, s), wherever its digits are known to fit, and text (``dec`` None)
that exact Python functions compute on. A native value whose rows may differ in display scale (the
branches of a CASE) carries the scale of each row in ``scale_sql``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from herdpy.codec.kinds import Kind
from herdpy_sql.errors import SqlError
from herdpy_sql.types import NUMERIC, OPAQUE, TEXT, Base, SqlType
from herdpy_sql.values.forms import FORMS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_DIGITS = 38

INTEGERS = {Base.SMALLINT: 1, Base.INTEGER: 2, Base.BIGINT: 3}
NUMBERS = {**INTEGERS, Base.NUMERIC: 4, Base.REAL: 5, Base.DOUBLE: 6}
STRINGS = (Base.TEXT, Base.VARCHAR, Base.CHAR)
TEXTUAL = (*STRINGS, Base.NAME, Base.CHAR_BYTE)
"""What becomes TEXT wherever TEXT is expected."""
TIMES = {Base.DATE: 1, Base.TIMESTAMP: 2, Base.TIMESTAMPTZ: 3}
BY_LIBRARY = frozenset({Base.VECTOR, Base.ENUM, *OPAQUE})
"""Types whose text DuckDB does not make."""
_INTEGER_DIGITS = {Base.SMALLINT: 5, Base.INTEGER: 10, Base.BIGINT: 19}


@dataclass(frozen=True, slots=True)
class Typed:
    """DuckDB text, its PostgreSQL type, and what the binder must know about it.

    Attributes:
        dec: precision and scale of the DECIMAL it is in DuckDB, for NUMERIC; None: it is text.
        scale_sql: the display scale row by row where it may be less than ``dec``'s.
        literal: the text of an untyped literal (with type UNKNOWN), or an integer literal's digits.
        null: it is the bare NULL.
        param: number of a parameter whose type is not known yet.
        array: how many dimensions it has: it is a list (of lists) of ``type``; 0 of all else.
        weight: how many operands its text has once macros are expanded, where an operand may be there often.
        volatile: it is another value each time that it is computed, as random() is: see :func:`once`.
        agg, window: whether it has aggregates or windows.
    """

    sql: str
    type: SqlType
    dec: tuple[int, int] | None = None
    scale_sql: str | None = None
    literal: str | None = None
    null: bool = False
    param: int | None = None
    array: int = 0
    agg: bool = False
    window: bool = False
    setof: bool = False
    volatile: bool = False
    weight: int = 1

    @property
    def base(self) -> Base:
        """The type without modifiers."""
        return self.type.base

    @property
    def unknown(self) -> bool:
        """Whether its place decides its type."""
        return self.type.base is Base.UNKNOWN and not self.array

    @property
    def is_text_numeric(self) -> bool:
        """Whether it is a NUMERIC in the text representation."""
        return self.type.base is Base.NUMERIC and self.dec is None and not self.array


class Digits(Protocol):
    """How many digits a NUMERIC that is computed natively may have."""

    def digits(self, precision: int, scale: int) -> int:
        """The precision to compute with where a result may have ``precision`` digits."""

    def product_digits(self, one: int, other: int, scale: int) -> int:
        """:meth:`digits` of a product of factors of so many digits each."""


def typed(sql: str, type_: SqlType, *parts: Typed, dec: tuple[int, int] | None = None) -> Typed:
    """An expression made of ``parts``."""
    if len(parts) == 1:
        one = parts[0]
        return Typed(
            sql,
            type_,
            dec=dec,
            agg=one.agg,
            window=one.window,
            setof=one.setof,
            volatile=one.volatile,
            weight=one.weight,
        )
    agg = window = setof = volatile = False
    weight = 0
    for part in parts:
        weight += part.weight
        agg = agg or part.agg
        window = window or part.window
        setof = setof or part.setof
        volatile = volatile or part.volatile
    return Typed(
        sql,
        type_,
        dec=dec,
        agg=agg,
        window=window,
        setof=setof,
        volatile=volatile,
        weight=weight or 1,
    )


def retyped(part: Typed, sql: str, type_: SqlType, dec: tuple[int, int] | None = None) -> Typed:
    """``part`` in another form: same columns, same aggregates."""
    return Typed(
        sql,
        type_,
        dec,
        agg=part.agg,
        window=part.window,
        setof=part.setof,
        volatile=part.volatile,
        weight=part.weight,
    )


def elements(x: Typed) -> str:
    """All elements of an array, as one list."""
    return "flatten(" * (x.array - 1) + x.sql + ")" * (x.array - 1)


def over_elements(sql: str, dimensions: int, one: str) -> str:
    """An array with each element made anew: ``one`` says how, of ``e``."""
    names = ["e", *(f"e{depth}" for depth in range(2, dimensions + 1))]
    for name, source in zip(names, [*names[1:], sql], strict=True):
        one = f"list_transform({source}, lambda {name}: {one})"
    return one


def let(values: Mapping[str, str], body: str) -> str:
    """``body``, which may name each value as often as it likes (``v.name``): the text has it once.

    In HAVING DuckDB takes ``v.name`` for a column, and not ``v['name']``.
    """
    listed = ", ".join(f"'{name}': {sql}" for name, sql in values.items())
    pieces = _QUOTED.split(body)
    pieces[::2] = [_FIELD.sub(r"v['\1']", piece) for piece in pieces[::2]]
    return f"list_transform([{{{listed}}}], lambda v: {''.join(pieces)})[1]"


_QUOTED = re.compile(r"""('(?:[^']|'')*'|"[^"]*")""")
_FIELD = re.compile(r"(?<![\w.])v\.(\w+)")


def once(x: Typed, use: Callable[[Typed], Typed]) -> Typed:
    """What ``use`` makes of an operand that it names more than once, or DuckDB does: IN (...) asks again for
    each value. A volatile one is computed before.

    Raises:
        SqlError: 0A000, an aggregate or a subquery would have to be in DuckDB's lambda.
    """
    if not x.volatile:
        return use(x)
    made = use(replace(x, sql="v.operand", scale_sql=None, volatile=False))
    if made.agg or made.window or _QUERY.search(made.sql):
        raise SqlError(
            "0A000",
            "an operand that is another value each time is not supported beside aggregates and subqueries",
            hint="Compute it in a subquery in FROM.",
        )
    if made.scale_sql is not None:
        made = as_text(made)
    return replace(made, sql=let({"operand": x.sql}, made.sql), volatile=True)


def as_text(x: Typed) -> Typed:
    """A NUMERIC in the text representation."""
    return replace(x, sql=numeric_text(x), dec=None, scale_sql=None)


def steady(parts: list[Typed], *others: Typed) -> list[Typed]:
    """Operands that one is chosen of, as text where the display scale would be drawn apart from the value."""
    if parts[0].scale_sql is None or not any(one.volatile for one in (*parts, *others)):
        return parts
    return [as_text(one) for one in parts]


_QUERY = re.compile(r"\(SELECT\b")


def column_dec(type_: SqlType) -> tuple[int, int] | None:
    """The DECIMAL in which values of a declared NUMERIC come, or None for text."""
    if type_.base is not Base.NUMERIC or type_.precision is None or type_.precision > MAX_DIGITS:
        return None
    return type_.precision, type_.scale or 0


def stored_dec(type_: SqlType) -> tuple[int, int] | None:
    """The DECIMAL of the elements of a stored array: Arrow's lists do not keep the precision."""
    if column_dec(type_) is None:
        return None
    return (18 if type_.kind == Kind.DECIMAL64 else MAX_DIGITS), type_.scale or 0


def duck_type(type_: SqlType, dec: tuple[int, int] | None = None) -> str:
    """DuckDB's name of the representation."""
    if type_.element is not None:
        return duck_type(type_.element_type) + "[]" * type_.dimensions
    if type_.base is Base.NUMERIC:
        return "VARCHAR" if dec is None else f"DECIMAL({dec[0]},{dec[1]})"
    return FORMS[type_.base].duck.name


def numeric_of_integer(x: Typed) -> Typed:
    """An integer as NUMERIC: exact, without fraction digits."""
    if x.literal is not None:
        digits = max(len(x.literal.lstrip("-")), 1)
        return retyped(x, f"CAST({x.sql} AS DECIMAL({digits},0))", NUMERIC, (digits, 0))
    digits = _INTEGER_DIGITS[x.base]
    return retyped(x, f"CAST({x.sql} AS DECIMAL({digits},0))", NUMERIC, (digits, 0))


def numeric_text(x: Typed) -> str:
    """A NUMERIC as its text with PostgreSQL's display scale."""
    if x.dec is None:
        return x.sql
    text = f"CAST({x.sql} AS VARCHAR)"
    if x.dec[0] == x.dec[1]:  # DuckDB leaves out the zero before the point
        text = f"pg_leading({text})"
    if x.scale_sql is None:
        return text
    return f"pg_dectext({text}, {x.dec[1]} - ({x.scale_sql}))"


def cast_text(x: Typed) -> str:
    """The text of a value that is no array and of no type of BY_LIBRARY, as a cast to TEXT gives it."""
    if x.base in _AS_TEXT:
        return x.sql
    return numeric_text(x) if x.base is Base.NUMERIC else FORMS[x.base].duck.text.format(x.sql)


_AS_TEXT = frozenset({*STRINGS, Base.JSON, Base.JSONB})
_DECIMAL_CONSTANT = re.compile(r"CAST\(((?:-?[0-9]+|'-?[0-9.]+')) AS DECIMAL\([0-9]+,[0-9]+\)\)")


def decimal_text(x: Typed, dec: tuple[int, int]) -> str:
    """A native NUMERIC as a DECIMAL of at least its digits, before the point and after it."""
    if x.dec == dec:
        return x.sql
    constant = _DECIMAL_CONSTANT.fullmatch(x.sql)
    return f"CAST({constant[1] if constant else x.sql} AS DECIMAL({dec[0]},{dec[1]}))"


def padded(x: Typed) -> Typed:
    """CHAR(n) as TEXT with its blanks, as LIKE and concat() see it."""
    if x.type.length is None:
        return retyped(x, x.sql, TEXT)
    return retyped(x, f"rpad({x.sql}, {x.type.length}, ' ')", TEXT)


_TEXT_CONSTANT = re.compile(r"'((?:[^']|'')*)'")


def constant_text(x: Typed) -> str | None:
    """The text that ``x`` is, if it is a quoted one; None of what is known only when the query runs."""
    found = _TEXT_CONSTANT.fullmatch(x.sql)
    return None if found is None else found[1].replace("''", "'")


_BEYOND_DUCK = re.compile(r"\\[1-9mMyYZ]|\(\?[=!<]")


def is_beyond_duck(pattern: str) -> bool:
    """Whether a regular expression has what DuckDB's have not: back references, word borders, lookaround."""
    return _BEYOND_DUCK.search(pattern) is not None

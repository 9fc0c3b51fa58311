"""Casts and coercions: PostgreSQL's rules written in DuckDB's SQL.

``coerce`` is what a place asks of an expression (an operand, a branch, a parameter); ``cast`` is
what the user wrote. Runtime checks are macros and functions of ``macros`` and ``exact``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.columnar import library, literals
from herdpy_sql.columnar.typed import (
    INTEGERS,
    NUMBERS,
    STRINGS,
    TIMES,
    Typed,
    column_dec,
    duck_type,
    numeric_of_integer,
    numeric_text,
    retyped,
)
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.casts import castable
from herdpy_sql.types import DOUBLE, INTEGER, NUMERIC, TEXT, TIMESTAMP, Base, SqlType
from herdpy_sql.values.forms import FORMS

if TYPE_CHECKING:
    from herdpy_sql.columnar.binder import Binder

LIBRARY_TYPES = frozenset({Base.ARRAY, Base.JSONB, Base.VECTOR, Base.ENUM})
"""Types whose casts are the library's alone."""


def no_cast(x: Typed, target: SqlType) -> SqlError:
    """The error for a cast that does not exist."""
    return SqlError("42846", f"cannot cast type {x.type.base.value} to {target.base.value}")


def settle(binder: Binder, x: Typed, target: SqlType) -> Typed:
    """Give an untyped literal, NULL or parameter its type."""
    if x.param is not None:
        return binder.param(x.param, target)
    if target.base is Base.ARRAY:
        return library.settled(binder, x, target)
    if x.null:
        return retyped(
            x, f"CAST(NULL AS {duck_type(target, column_dec(target))})", target, column_dec(target)
        )
    assert x.literal is not None
    return literals.parse(x, x.literal, target, binder)


def settle_text(binder: Binder, x: Typed) -> Typed:
    """TEXT where nothing else decides."""
    return settle(binder, x, TEXT) if x.unknown else x


def implicit(x: Typed, target: SqlType) -> bool:
    """Whether PostgreSQL would cast without being asked."""
    a, b = x.base, target.base
    if x.array:
        return castable(library.full_type(x), target, "implicit")
    if a is b or x.unknown:
        return True
    if a in NUMBERS and b in NUMBERS:
        return NUMBERS[a] <= NUMBERS[b]
    if a in STRINGS and b in STRINGS:
        return True
    return a in TIMES and b in TIMES and TIMES[a] <= TIMES[b]


def coerce(binder: Binder, x: Typed, target: SqlType) -> Typed:
    """``x`` as ``target`` where that needs no explicit cast; SqlError 42804 otherwise."""
    if x.unknown:
        return settle(binder, x, target)
    if x.array or target.base in LIBRARY_TYPES or x.base in LIBRARY_TYPES:
        source = library.full_type(x)
        if source.plain == target.plain:
            return x
        if not castable(source, target, "implicit"):
            raise SqlError("42804", f"type {source.name} cannot be used where {target.name} is expected")
        return library.settled(binder, x, target)
    if x.base is target.base and (target.base is not Base.NUMERIC or target.precision is None):
        return x
    if not implicit(x, target):
        raise SqlError(
            "42804", f"type {x.type.base.value} cannot be used where {target.base.value} is expected"
        )
    return cast(binder, x, target)


def as_numeric(binder: Binder, x: Typed) -> Typed:
    """An integer or NUMERIC (or untyped) operand as NUMERIC."""
    if x.unknown:
        return settle(binder, x, NUMERIC)
    return numeric_of_integer(x) if x.base in INTEGERS else x


def as_double(binder: Binder, x: Typed) -> Typed:
    """A number as DOUBLE PRECISION."""
    if x.unknown:
        return settle(binder, x, DOUBLE)
    if x.base is Base.DOUBLE:
        return x
    if x.is_text_numeric:
        return retyped(x, f"pg_textdouble({x.sql})", DOUBLE)
    return retyped(x, f"CAST({x.sql} AS DOUBLE)", DOUBLE)


def as_text(binder: Binder, x: Typed) -> Typed:
    """The value's text, as an implicit or explicit cast to TEXT gives it."""
    if x.unknown:
        return settle(binder, x, TEXT)
    if x.array or x.base in (Base.VECTOR, Base.ENUM):
        return library.cast(binder, x, TEXT)
    if x.base is Base.JSONB:
        return retyped(x, x.sql, TEXT)
    base, sql = x.base, x.sql
    if base in (Base.TEXT, Base.VARCHAR, Base.CHAR, Base.JSON):
        return x if base is Base.TEXT else retyped(x, sql, TEXT)
    text = numeric_text(x) if base is Base.NUMERIC else FORMS[base].duck.text.format(sql)
    return retyped(x, text, TEXT)


def padded(x: Typed) -> Typed:
    """CHAR(n) as TEXT with its blanks, as LIKE and concat() see it."""
    if x.type.length is None:
        return retyped(x, x.sql, TEXT)
    return retyped(x, f"rpad({x.sql}, {x.type.length}, ' ')", TEXT)


def limit_length(x: Typed, target: SqlType) -> Typed:
    """An explicit cast to VARCHAR(n) or CHAR(n) cuts; CHAR(n) is padded with blanks."""
    if target.base is Base.CHAR:
        # CHAR(n) is held without its trailing blanks.
        cut = x.sql if target.length is None else f"left({x.sql}, {target.length})"
        return retyped(x, f"rtrim({cut}, ' ')", target)
    if target.length is None:
        return retyped(x, x.sql, target)
    return retyped(x, f"left({x.sql}, {target.length})", target)


def cast(binder: Binder, x: Typed, target: SqlType) -> Typed:
    """``CAST(x AS target)``; SqlError 42846 when PostgreSQL has no such cast."""
    if x.unknown:
        x = settle(binder, x, target)
        if target.base is Base.NUMERIC and target.precision is not None:
            return _to_numeric(x, target)
        if target.base in (Base.VARCHAR, Base.CHAR):
            return limit_length(x, target)
        return x
    source, wanted, sql = x.base, target.base, x.sql
    if wanted in STRINGS:
        return limit_length(as_text(binder, x), target)
    if x.array or wanted in LIBRARY_TYPES or source in LIBRARY_TYPES or Base.INTERVAL in (source, wanted):
        if not x.array and source is wanted and target.plain == x.type.plain and wanted is not Base.VECTOR:
            return x
        return library.cast(binder, x, target)
    if source in STRINGS:
        return _from_text(as_text(binder, x), target)
    if wanted is Base.NUMERIC and source in NUMBERS:
        return _to_numeric(x, target)
    if source is wanted:
        return x
    if source in NUMBERS and wanted in NUMBERS:
        return _number(x, target)
    name = duck_type(target)
    plain = retyped(x, f"CAST({sql} AS {name})", target)
    if source is Base.BOOLEAN and wanted is Base.INTEGER:
        return plain
    if source is Base.INTEGER and wanted is Base.BOOLEAN:
        return retyped(x, f"({sql} <> 0)", target)
    if source in TIMES and wanted in TIMES:
        return plain
    if source in (Base.TIMESTAMP, Base.TIMESTAMPTZ) and wanted is Base.TIME:
        inner = sql if source is Base.TIMESTAMP else f"CAST({sql} AS TIMESTAMP)"
        return retyped(x, f"pg_timeofday({inner})", target)

    raise no_cast(x, target)


def _number(x: Typed, target: SqlType) -> Typed:
    """Between numbers, to anything but NUMERIC; out of range is 22003."""
    sql, name = x.sql, duck_type(target)
    if x.base is Base.NUMERIC and x.dec is None:
        if target.base in (Base.REAL, Base.DOUBLE):
            double = f"pg_textdouble({sql})"
            return retyped(x, double if target.base is Base.DOUBLE else f"pg_tofloat({double})", target)
        return retyped(x, f"CAST(pg_textinteger({sql}) AS {name})", target)
    if target.base in INTEGERS and x.base in (Base.REAL, Base.DOUBLE):
        return retyped(x, f"pg_to{name.lower()}({sql})", target)
    if target.base is Base.REAL and x.base is Base.DOUBLE:
        return retyped(x, f"pg_tofloat({sql})", target)
    return retyped(x, f"CAST({sql} AS {name})", target)


def _to_numeric(x: Typed, target: SqlType) -> Typed:
    if x.base in INTEGERS:
        x = numeric_of_integer(x)
    elif x.base in (Base.REAL, Base.DOUBLE):
        x = retyped(x, f"pg_{'float' if x.base is Base.REAL else 'double'}numeric({x.sql})", NUMERIC)
    dec = column_dec(target)
    if target.precision is None:
        return retyped(x, x.sql, NUMERIC, x.dec) if x.scale_sql is None else x
    scale = target.scale or 0
    if dec is None or x.dec is None or scale > dec[0] or scale < 0:
        text = f"pg_limit({numeric_text(x)}, {target.precision}, {scale})"
        if dec is None or scale > dec[0] or scale < 0:
            return retyped(x, text, target)
        return retyped(x, f"CAST({text} AS DECIMAL({dec[0]},{scale}))", target, dec)
    if x.dec[0] - x.dec[1] < dec[0] - dec[1] or (
        x.dec[0] - x.dec[1] == dec[0] - dec[1] and x.dec[1] <= dec[1]
    ):
        return retyped(x, f"CAST({x.sql} AS DECIMAL({dec[0]},{dec[1]}))", target, dec)
    # Overflow of a DECIMAL cast is a conversion error in DuckDB; it is mapped to 22003.
    return retyped(x, f"CAST({x.sql} AS DECIMAL({dec[0]},{dec[1]}))", target, dec)


def _from_text(x: Typed, target: SqlType) -> Typed:
    if target.base is Base.NUMERIC:
        return _to_numeric(retyped(x, f"pg_numeric({x.sql})", NUMERIC), target)
    return retyped(x, f"{FORMS[target.base].duck.reader}({x.sql})", target)


__all__ = ["INTEGER", "TIMESTAMP", "as_numeric", "as_text", "cast", "coerce"]

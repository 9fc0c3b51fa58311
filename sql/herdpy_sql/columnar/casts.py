"""Casts in DuckDB's SQL, of texts whose types are known: ``cast`` that is written, ``converted`` that is not.

Which casts there are, and what an untyped literal or parameter becomes, is decided on typed trees
(``expr.coerce``). What no native cast can do is a call of the library's function. Checks that are made when a
query runs are DuckDB's macros and callbacks (``macros``, ``callbacks``).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from herdpy.codec.kinds import nested, sizes_of
from herdpy_sql.columnar import literals
from herdpy_sql.columnar.emission import CONTEXT, TRANSACTION_US
from herdpy_sql.columnar.literals import parameter
from herdpy_sql.columnar.routines import argument_text, duck_name, full_type, of_type, used
from herdpy_sql.duck import (
    BY_LIBRARY,
    INTEGERS,
    MAX_DIGITS,
    NUMBERS,
    STRINGS,
    TEXTUAL,
    Typed,
    cast_text,
    column_dec,
    constant_text,
    decimal_text,
    duck_type,
    numeric_of_integer,
    numeric_text,
    retyped,
    typed,
)
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.casts import VECTOR_ELEMENTS, castable
from herdpy_sql.library import Resolved, reshaped, resolve
from herdpy_sql.types import (
    BIGINT,
    BITS,
    DOUBLE,
    NUMERIC,
    OID,
    TEXT,
    Base,
    SqlType,
    array_of,
    with_dimensions,
)
from herdpy_sql.values.form import quote
from herdpy_sql.values.forms import FORMS
from herdpy_sql.values.oids import MAX_OID
from herdpy_sql.values.reg_types import REG_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.columnar.emission import Emission

LIBRARY_TYPES = frozenset(
    {Base.ARRAY, *(base for base, forms in FORMS.items() if not forms.duck.reader)}
    - {*STRINGS, Base.UNKNOWN, Base.INTERVAL}
)
"""Types that DuckDB has no macros for: their casts are the library's alone."""


def _check(source: SqlType, target: SqlType) -> None:
    """SqlError 42846 for a cast that does not exist."""
    if not castable(source, target, "explicit"):
        raise SqlError("42846", f"cannot cast type {source.name} to {target.name}")


def library_cast(emission: Emission, x: Typed, target: SqlType) -> Typed:
    """``CAST(x AS target)`` as the library has it: what no native cast can do."""
    source = full_type(x)
    _check(source, target)
    native = _between_ids(x, target)
    if native is not None:
        return native
    if target.base in REG_TYPES:
        return _named_id(emission, x, target)
    if source.base is target.base is Base.ARRAY:
        target = with_dimensions(target, source.dimensions)
    return invoke(emission, Resolved("cast", 0, (source,), target), [x])


def _named_id(emission: Emission, x: Typed, target: SqlType) -> Typed:
    """A text or an id as REGCLASS or a relative of it, by the catalog."""
    if x.base is target.base:
        return x
    if not castable(full_type(x), target, "explicit"):
        raise SqlError("42846", f"cannot cast type {full_type(x).name} to {target.name}")
    given = as_text(emission, x) if x.base in TEXTUAL else converted(emission, x, OID)
    found = resolve(f"{target.base.value} cast", (full_type(given),))
    assert found is not None
    return invoke(emission, found, [given])


CATALOG_TYPES = frozenset({Base.OID, Base.XID, Base.NAME, Base.CHAR_BYTE, *REG_TYPES})


def plain_id(x: Typed) -> Typed:
    """A value of CATALOG_TYPES as the number or the text that compares as it does; others as they are."""
    if x.array or x.base not in CATALOG_TYPES:
        return x
    if x.base in (Base.NAME, Base.CHAR_BYTE):
        return retyped(x, x.sql, TEXT)
    sql = f"CAST(left({x.sql}, 10) AS BIGINT)" if x.base in REG_TYPES else x.sql
    return retyped(x, sql, BIGINT)


def _between_ids(x: Typed, target: SqlType) -> Typed | None:
    """Casts from and to ids that DuckDB has natively; None for others."""
    if x.array:
        return None
    if target.base is Base.OID and x.base in (Base.SMALLINT, Base.INTEGER):
        return retyped(x, f"(CAST({x.sql} AS BIGINT) & {MAX_OID})", target)
    if (target.base is Base.OID and x.base in REG_TYPES) or (
        target.base is Base.BIGINT and x.base in (Base.OID, *REG_TYPES)
    ):
        return retyped(x, plain_id(x).sql, target)
    return None


def invoke(
    emission: Emission, found: Resolved, arguments: list[Typed], dimensions: int | None = None
) -> Typed:
    """A call of a function that is resolved, over arguments of its types."""
    found = reshaped(found, [full_type(x) for x in arguments], dimensions)
    duck = found.routine.duck
    if isinstance(duck, str):
        if duck:
            return typed(duck.format(*[x.sql for x in arguments]), found.result, *arguments)
    elif (made := duck(*arguments)) is not None:
        return made
    context = [f"CAST(${CONTEXT} AS BIGINT)"] if found.routine.context else []
    text = f"{used(emission, found)}({', '.join([*context, *map(argument_text, arguments)])})"
    return of_type(typed(text, TEXT, *arguments), text, found.result)


def listed(emission: Emission, x: Typed) -> Typed:
    """INT2VECTOR and OIDVECTOR as the arrays that they are wherever one is expected; others as they are."""
    element = VECTOR_ELEMENTS.get(x.base)
    return x if element is None or x.array else converted(emission, x, array_of(element))


def widened(emission: Emission, x: Typed, dimensions: int) -> Typed:
    """An array with those dimensions if it is a parameter: clients say only what its elements are."""
    if x.param is None or not 0 < x.array < dimensions:
        return x
    return parameter(x.param, array_of(x.type.plain, dimensions))


def converted(emission: Emission, x: Typed, target: SqlType) -> Typed:
    """``x``, which has a type, as ``target``, which it may become."""
    source = full_type(x)
    if source.plain == target.plain and (target.base is not Base.NUMERIC or target.precision is None):
        return x if x.array else replace(x, type=target, literal=None)
    if x.array and target.base is Base.ARRAY and x.type.plain == target.element_type.plain:
        return x
    if x.array or target.base in LIBRARY_TYPES or source.base in LIBRARY_TYPES:
        return library_cast(emission, x, target)
    return cast(emission, x, target)


def array_constant(type_: SqlType, value: Any) -> Typed:
    """An array that is known, as DuckDB's list; NUMERIC elements are text."""
    element = type_.element_type

    def listed(value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(listed, value))}]"
        if value is not None and element.base is Base.NUMERIC:
            return quote(f"{value:f}")
        return literals.constant(element, value).sql

    dimensions = len(sizes_of(value)) or type_.dimensions
    name = duck_name(with_dimensions(type_, dimensions))
    return Typed(f"CAST({listed(nested(value))} AS {name})", element, array=dimensions)


def as_numeric(emission: Emission, x: Typed) -> Typed:
    """An integer or NUMERIC operand as NUMERIC."""
    return numeric_of_integer(x) if x.base in INTEGERS else x


def as_double(emission: Emission, x: Typed) -> Typed:
    """A number as DOUBLE PRECISION."""
    if x.base is Base.DOUBLE:
        return x
    if x.is_text_numeric:
        return retyped(x, f"pg_textdouble({x.sql})", DOUBLE)
    return retyped(x, f"CAST({x.sql} AS DOUBLE)", DOUBLE)


def as_text(emission: Emission, x: Typed) -> Typed:
    """The value's text, as an implicit or explicit cast to TEXT gives it."""
    if x.array or x.base in BY_LIBRARY:
        return library_cast(emission, x, TEXT)
    return x if x.base is Base.TEXT else retyped(x, cast_text(x), TEXT)


def limit_length(x: Typed, target: SqlType) -> Typed:
    """An explicit cast to VARCHAR(n) or CHAR(n) cuts; CHAR(n) is padded with blanks."""
    if target.base is Base.CHAR:
        # CHAR(n) is held without its trailing blanks.
        cut = x.sql if target.length is None else f"left({x.sql}, {target.length})"
        return retyped(x, f"rtrim({cut}, ' ')", target)
    if target.length is None:
        return retyped(x, x.sql, target)
    return retyped(x, f"left({x.sql}, {target.length})", target)


_WITH_LENGTHS = frozenset({Base.VECTOR, *BITS})
"""Types of LIBRARY_TYPES whose values a cast to another length changes or refuses."""


def cast(emission: Emission, x: Typed, target: SqlType) -> Typed:
    """``CAST(x AS target)``; SqlError 42846 when PostgreSQL has no such cast."""
    _check(full_type(x), target)
    source, wanted, sql = x.base, target.base, x.sql
    if not x.array and target.is_rounded_time and target.base in MOMENTS and source in STRINGS:
        x = _from_text(as_text(emission, x), target.plain)
    if target.is_rounded_time and (x.array or full_type(x) != target):
        return library_cast(emission, x, target)
    if wanted in STRINGS:
        return limit_length(as_text(emission, x), target)
    if x.array or wanted in LIBRARY_TYPES or source in LIBRARY_TYPES or Base.INTERVAL in (source, wanted):
        if not x.array and source is wanted and target.plain == x.type.plain and wanted not in _WITH_LENGTHS:
            return x
        return library_cast(emission, x, target)
    if source in STRINGS:
        return _from_text(as_text(emission, x), target)
    if wanted is Base.NUMERIC and source in NUMBERS:
        return _to_numeric(x, target)
    if source is wanted:
        return x
    if source in NUMBERS and wanted in NUMBERS:
        return _number(x, target)
    if source is Base.INTEGER and wanted is Base.BOOLEAN:
        return retyped(x, f"({sql} <> 0)", target)
    if wanted is Base.TIME:
        inner = sql if source is Base.TIMESTAMP else f"CAST({sql} AS TIMESTAMP)"
        return retyped(x, f"pg_timeofday({inner})", target)
    return retyped(x, f"CAST({sql} AS {duck_type(target)})", target)


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
    reader = FORMS[target.base].duck.reader
    text = constant_text(x) if target.base in MOMENTS else None
    if text is not None and _CLOCK_WORD.search(text):
        return retyped(x, f"{reader}_at({x.sql}, CAST(${TRANSACTION_US} AS BIGINT))", target)
    return retyped(x, f"{reader}({x.sql})", target)


MOMENTS = frozenset({Base.DATE, Base.TIME, Base.TIMESTAMP, Base.TIMESTAMPTZ})
_CLOCK_WORD = re.compile(r"now|today|tomorrow|yesterday", re.IGNORECASE)


def align(
    emission: Emission, parts: Sequence[Typed], type_: SqlType = NUMERIC, *, loose: bool = False
) -> list[Typed]:
    """NUMERIC ``parts`` in one representation: a DECIMAL that holds them all, or text."""
    decs = [p.dec for p in parts if not p.null]
    scale = max((d[1] for d in decs if d is not None), default=0)
    digits = max((d[0] - d[1] for d in decs if d is not None), default=1)
    precision = emission.digits(digits + scale, scale) if loose else digits + scale
    if any(d is None for d in decs) or precision > MAX_DIGITS:
        return [
            retyped(p, "CAST(NULL AS VARCHAR)", type_) if p.null else retyped(p, numeric_text(p), type_)
            for p in parts
        ]
    dec = (precision, scale)
    mixed = not loose and len({d[1] for d in decs if d is not None} | {-1 for p in parts if p.scale_sql}) > 1
    out = []
    for part in parts:
        sql = f"CAST(NULL AS DECIMAL({dec[0]},{dec[1]}))" if part.null else decimal_text(part, dec)
        one = retyped(part, sql, type_, dec)
        if mixed:
            own = part.scale_sql or str(scale if part.dec is None else part.dec[1])
            one = replace(one, scale_sql=own)
        out.append(one)
    return out

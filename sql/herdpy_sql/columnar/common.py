"""One type for several expressions, as PostgreSQL finds it: CASE, VALUES, UNION, COALESCE, comparisons.

Typed expressions come in; they go out cast to the type that they share, NUMERICs in one form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from herdpy_sql.columnar.casts import as_numeric, coerce, implicit
from herdpy_sql.columnar.library import full_type
from herdpy_sql.columnar.typed import MAX_DIGITS, STRINGS, Typed, decimal_text, numeric_text, retyped
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.casts import castable
from herdpy_sql.types import NUMERIC, TEXT, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.columnar.binder import Binder


def common_type(parts: Sequence[Typed], what: str) -> SqlType:
    """The type in which the branches of CASE, COALESCE, UNION, VALUES, IN ... meet.

    PostgreSQL's select_common_type: untyped ones follow the others, all untyped is TEXT; within a
    category the type that the others cast to implicitly wins. SqlError 42804 across categories.
    """
    best: SqlType | None = None
    if any(part.array for part in parts):
        return _common_array(parts, what)
    for part in parts:
        if part.unknown:
            continue
        if best is None:
            best = part.type
        elif part.base is best.base:
            if part.type != best:
                best = best.plain
        elif implicit(part, best):
            best = SqlType(best.base) if part.base in STRINGS or best.base is Base.NUMERIC else best
        elif implicit(Typed("", best), part.type):
            best = SqlType(part.base)
        else:
            raise SqlError("42804", f"{what} types {best.name} and {part.type.name} cannot be matched")
    if best is None:
        return TEXT
    if best.base is Base.CHAR and any(p.type != best for p in parts if not p.unknown):
        return SqlType(Base.CHAR)
    return best


def _common_array(parts: Sequence[Typed], what: str) -> SqlType:
    best: SqlType | None = None
    for part in parts:
        type_ = full_type(part)
        if type_.base is Base.UNKNOWN or type_.plain == best:
            continue
        arrays = best is not None and best.base is type_.base is Base.ARRAY
        if best is not None and arrays and best.dimensions != type_.dimensions:
            raise SqlError("0A000", f"{what} of arrays of different dimensions is not supported")
        if best is None or castable(best, type_, "implicit"):
            best = type_.plain
        elif not castable(type_, best, "implicit"):
            raise SqlError("42804", f"{what} types {best.name} and {type_.name} cannot be matched")
    assert best is not None
    return best


def unify(binder: Binder, parts: Sequence[Typed], what: str, *, loose: bool = False) -> list[Typed]:
    """``parts`` in one type and one DuckDB representation.

    NUMERIC branches of different scales meet in a DECIMAL that keeps each row's display scale in
    ``scale_sql``; ``loose`` drops that (where rows are compared anyway).
    """
    type_ = common_type(parts, what)
    if type_.base is not Base.NUMERIC:
        return [coerce(binder, part, type_) for part in parts]
    numerics = []
    for part in parts:
        if part.null:
            numerics.append(part)
        else:
            numerics.append(as_numeric(binder, part))
    return align(binder, numerics, type_, loose=loose)


def align(
    binder: Binder, parts: Sequence[Typed], type_: SqlType = NUMERIC, *, loose: bool = False
) -> list[Typed]:
    """NUMERIC ``parts`` in one representation: a DECIMAL that holds them all, or text."""
    decs = [p.dec for p in parts if not p.null]
    scale = max((d[1] for d in decs if d is not None), default=0)
    digits = max((d[0] - d[1] for d in decs if d is not None), default=1)
    precision = binder.digits(digits + scale, scale) if loose else digits + scale
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
            from dataclasses import replace

            own = part.scale_sql or str(scale if part.dec is None else part.dec[1])
            one = replace(one, scale_sql=own)
        out.append(one)
    return out

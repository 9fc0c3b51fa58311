"""Whether there is a cast between two types in a context, of what arrays hold and between ENUMs too."""

from __future__ import annotations

from herdpy_sql.expr.casts import can_cast
from herdpy_sql.types import Base, SqlType


def castable(source: SqlType, target: SqlType, context: str) -> bool:
    """:func:`can_cast`, of arrays' elements and ENUMs too."""
    if source.base is Base.ARRAY and target.base is Base.ARRAY:
        return castable(source.element_type, target.element_type, context)
    if source.base is Base.ENUM and target.base is Base.ENUM:
        return source.enum is not None and target.enum is not None and source.enum.id == target.enum.id
    if Base.VECTOR in {source.base, target.base} and Base.ARRAY in {source.base, target.base}:
        element = source.element or target.element
        if element not in {Base.SMALLINT, Base.INTEGER, Base.REAL, Base.DOUBLE, Base.NUMERIC}:
            return False
        return can_cast(source.base, target.base, context) and (
            element is Base.REAL or source.base is Base.ARRAY
        )
    return can_cast(source.base, target.base, context)

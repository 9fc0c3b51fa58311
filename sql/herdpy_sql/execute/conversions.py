"""A value of one column as a column of another type has it, where the two are compared: across a foreign key.

Equality is that of PostgreSQL's operators between the two types; a value that no value of the other type is
equal to is a MISFIT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from herdpy.codec.kinds import (
    DATE_INFINITY,
    DATE_NEGATIVE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY,
    KeyField,
)
from herdpy_sql.execute.bounds import fitting
from herdpy_sql.types import Base

if TYPE_CHECKING:
    from herdpy_sql.types import SqlType

MISFIT: Final = object()
Conversion = Callable[[Any], Any]
"""From a datum of one type to the equal datum of the other, or MISFIT."""

_INTEGERS = (Base.SMALLINT, Base.INTEGER, Base.BIGINT)
_FLOATS = (Base.REAL, Base.DOUBLE)
_TEXTS = (Base.TEXT, Base.VARCHAR, Base.CHAR)
_DAY_US = 86_400_000_000


def comparable(child: SqlType, parent: SqlType) -> bool:
    """Whether a column of type ``child`` can refer to one of type ``parent``."""
    here, there = child.base, parent.base
    if here is there:
        same = (child.enum.id if child.enum else 0) == (parent.enum.id if parent.enum else 0)
        held = child.element is parent.element and child.dimensions == parent.dimensions
        return same and held and here is not Base.JSON
    for family in (_INTEGERS, _FLOATS, _TEXTS, (Base.DATE, Base.TIMESTAMP)):
        if here in family and there in family:
            return True
    if there is Base.NUMERIC:
        return here in _INTEGERS
    return there in _FLOATS and (here in _INTEGERS or here is Base.NUMERIC)


def conversion(given: SqlType, wanted: SqlType) -> Conversion | None:
    """What makes a datum of type ``wanted`` of one of type ``given``; None: it is the same datum."""
    if wanted.base is Base.CHAR and given.base is not Base.CHAR:
        return lambda value: value.rstrip(" ")
    if given == wanted or (given.base in _TEXTS and wanted.base in _TEXTS):
        return None
    if wanted.base in _FLOATS:
        return None if given.base in _FLOATS else _to_float
    if given.base in _FLOATS:
        given_exactly = _from_float
    elif {given.base, wanted.base} == {Base.DATE, Base.TIMESTAMP}:
        return _to_timestamp if wanted.base is Base.TIMESTAMP else _to_date
    else:
        given_exactly = None
    fit = fitting(KeyField(wanted.kind, wanted.scale or 0), given.kind)
    if not callable(fit):
        return given_exactly

    def fitted(value: Any) -> Any:
        found, place = fit(value)
        return found if place == 0 else MISFIT

    return fitted


def _to_float(value: Any) -> Any:
    """As PostgreSQL casts it, which may round."""
    return float(value)


def _from_float(value: Any) -> Any:
    return int(value) if value.is_integer() else MISFIT


def _to_timestamp(days: int) -> int:
    if days in {DATE_INFINITY, DATE_NEGATIVE_INFINITY}:
        return TIMESTAMP_INFINITY if days > 0 else TIMESTAMP_NEGATIVE_INFINITY
    return days * _DAY_US


def _to_date(us: int) -> Any:
    if us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return DATE_INFINITY if us > 0 else DATE_NEGATIVE_INFINITY
    return MISFIT if us % _DAY_US else us // _DAY_US

"""The SQL type of a Python object: what an untyped parameter of the driver is taken for.

``inputs`` then makes the object a datum of that type, or of the one that the statement wants instead.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable
from decimal import Decimal

from herdpy.codec.kinds import Interval, plain
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType
from herdpy_sql.values.texts import INTEGER_RANGES


def type_of(value: object) -> SqlType:
    """The SQL type that PostgreSQL's drivers give to a Python object: UNKNOWN for None and str.

    SqlError 42804 for an object that stands for no SQL type.
    """
    kind = type(value)
    if kind is int:
        assert isinstance(value, int)
        for sql_type in (t.SMALLINT, t.INTEGER, t.BIGINT):
            low, high = INTEGER_RANGES[sql_type.base]
            if low <= value <= high:
                return sql_type
        return t.NUMERIC
    found = _TYPES.get(kind)
    if found is not None:
        return found
    if isinstance(value, dt.datetime):
        return t.TIMESTAMP if value.tzinfo is None else t.TIMESTAMPTZ
    for python_type, sql_type in _TYPES.items():
        if isinstance(value, python_type):
            return sql_type
    if isinstance(value, int):
        return type_of(plain(value))
    raise SqlError("42804", f"cannot adapt a Python object of type {kind.__name__}")


def type_of_all(values: Iterable[object]) -> SqlType:
    """The type of one parameter's values: the first's, of integers the widest; UNKNOWN if all are None."""
    found: SqlType | None = None
    for value in values:
        if value is not None:
            one = type_of(value)
            if found is None or _WIDTHS.get(one, 0) > _WIDTHS.get(found, len(_WIDTHS)):
                found = one
    return found or t.UNKNOWN


_WIDTHS = {t.SMALLINT: 1, t.INTEGER: 2, t.BIGINT: 3, t.NUMERIC: 4}
"""Types of integers by how many they hold."""

_TYPES: dict[type, SqlType] = {
    type(None): t.UNKNOWN,
    bool: t.BOOLEAN,
    float: t.DOUBLE,
    Decimal: t.NUMERIC,
    str: t.UNKNOWN,
    bytes: t.BYTEA,
    bytearray: t.BYTEA,
    memoryview: t.BYTEA,
    dt.date: t.DATE,
    dt.time: t.TIME,
    uuid.UUID: t.UUID,
    Interval: t.INTERVAL,
    dt.timedelta: t.INTERVAL,
    dict: t.JSON,
    list: t.JSON,
}

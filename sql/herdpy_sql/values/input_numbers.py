"""From Python objects to datums of numbers. Below ``inputs``, which names the errors."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from herdpy.codec.kinds import plain
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType
from herdpy_sql.values import floats, numeric
from herdpy_sql.values.refusals import lossy, mismatch
from herdpy_sql.values.texts import from_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdpy.codec.kinds import Datum


def integer_converter(sql_type: SqlType, low: int, high: int) -> Callable[[object], Datum]:
    """To SMALLINT, INTEGER or BIGINT: whole numbers from ``low`` to ``high``."""
    parse = from_text(sql_type)
    name = sql_type.base.value

    def convert(value: object) -> Any:
        if type(value) is int:
            if low <= value <= high:
                return value
            raise SqlError("22003", f"{name} out of range")
        if value is None:
            return None
        value = plain(value)
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, bool):
            raise mismatch(value, name)
        if isinstance(value, float | Decimal):
            if isinstance(value, Decimal):
                if not value.is_finite() or value != value.to_integral_value():
                    raise lossy(value, name)
                if value.adjusted() > 20:  # the digits of 1e200000 take long to write out
                    raise SqlError("22003", f"{name} out of range")
            elif not math.isfinite(value) or value != int(value):
                raise lossy(value, name)
            return convert(int(value))
        index = getattr(value, "__index__", None)  # enumerations and numpy integers
        if index is None:
            raise mismatch(value, name)
        return convert(index())

    return convert


def numeric_converter(sql_type: SqlType) -> Callable[[object], Datum]:
    """To NUMERIC of that precision and scale."""
    parse = from_text(sql_type)
    precision, scale = sql_type.precision, sql_type.scale or 0
    fitting = None if precision is None else numeric.quantum(scale)  # what is of this scale already
    limit = Decimal(1).scaleb((precision or 0) - scale)

    def convert(value: object) -> Any:
        if value is None:
            return None
        if type(value) is Decimal:
            if fitting is not None and value.same_quantum(fitting) and -limit < value < limit:
                return value if value else value.copy_abs()
            return numeric.fit(numeric.normal(value), sql_type)
        value = plain(value)
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, bool):
            raise mismatch(value, "numeric")
        if isinstance(value, float):
            if not math.isfinite(value):
                raise SqlError("0A000", "NaN and infinity are not supported in type numeric")
            return numeric.fit(numeric.from_float(value, 15), sql_type)
        if isinstance(value, Decimal):
            return convert(value)
        index = getattr(value, "__index__", None)
        if index is None:
            raise mismatch(value, "numeric")
        return numeric.fit(numeric.normal(Decimal(index())), sql_type)

    return convert


def double(value: object) -> Any:
    """To DOUBLE PRECISION."""
    if type(value) is float or value is None:
        return value
    value = plain(value)
    if isinstance(value, str):
        return from_text(t.DOUBLE)(value)
    if isinstance(value, bool):
        raise mismatch(value, "double precision")
    convert = getattr(value, "__float__", None) or getattr(value, "__index__", None)
    if convert is None:
        raise mismatch(value, "double precision")
    try:
        result = float(convert())
    except OverflowError:
        result = math.inf
    except ValueError:  # a signaling NaN
        raise mismatch(value, "double precision") from None
    if math.isinf(result) and not isinstance(value, float) and getattr(value, "is_infinite", int)() == 0:
        raise SqlError("22003", "value is out of range for type double precision")
    return result


def real(value: object) -> Any:
    """To REAL: the nearest number of 32 bits."""
    if isinstance(value, str):
        return from_text(t.REAL)(plain(value))
    whole = double(value)
    return None if whole is None else floats.round32(whole)

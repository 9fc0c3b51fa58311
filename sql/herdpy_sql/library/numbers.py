"""Functions of numbers that either engine lacks: width_bucket, trim_scale, gcd, factorial and their like."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from herdpy_sql.errors import SqlError
from herdpy_sql.library.routine import Poly, add, routine
from herdpy_sql.types import BIGINT, DOUBLE, INTEGER, NUMERIC
from herdpy_sql.values.numeric import EXACT


@routine("width_bucket", (NUMERIC, NUMERIC, NUMERIC, INTEGER), INTEGER)
def _bucket(value: Any, low: Any, high: Any, count: int) -> int:
    if count <= 0:
        raise SqlError("2201G", "count must be greater than zero")
    if low == high:
        raise SqlError("2201G", "lower bound cannot equal upper bound")
    if low < high:
        if value < low:
            return 0
        return count + 1 if value >= high else int((value - low) * count / (high - low)) + 1
    if value > low:
        return 0
    return count + 1 if value <= high else int((low - value) * count / (low - high)) + 1


add("width_bucket", (DOUBLE, DOUBLE, DOUBLE, INTEGER), INTEGER, _bucket)


@routine("width_bucket", (Poly.ELEMENT, Poly.ARRAY), INTEGER)
def _bucket_of(value: Any, bounds: Any) -> int:
    return sum(one <= value for one in bounds)


@routine("trim_scale", (NUMERIC,), NUMERIC)
def _trim(value: Decimal) -> Decimal:
    digits = -int(value.as_tuple().exponent)
    while digits and value == EXACT.quantize(value, Decimal(1).scaleb(-(digits - 1))):
        digits -= 1
    return EXACT.quantize(value, Decimal(1).scaleb(-digits))


add("scale", (NUMERIC,), INTEGER, lambda value: -int(value.as_tuple().exponent))
add("min_scale", (NUMERIC,), INTEGER, lambda value: -int(_trim(value).as_tuple().exponent))


@routine("factorial", (BIGINT,), NUMERIC)
def _factorial(value: int) -> Decimal:
    if value < 0:
        raise SqlError("22003", "factorial of a negative number is undefined")
    if value > 32_177:
        raise SqlError("22003", "value overflows numeric format")
    return EXACT.create_decimal(math.factorial(value))


def _within(limit: int, name: str) -> Any:
    def check(value: int) -> int:
        if value >= limit:
            raise SqlError("22003", f"{name} out of range")
        return value

    return check


for _type, _limit in ((INTEGER, 2**31), (BIGINT, 2**63)):
    _check = _within(_limit, _type.name)
    add("gcd", (_type, _type), _type, lambda a, b, check=_check: check(math.gcd(a, b)))
    add("lcm", (_type, _type), _type, lambda a, b, check=_check: check(math.lcm(a, b)))

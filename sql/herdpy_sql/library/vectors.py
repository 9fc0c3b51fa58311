"""Distances between vectors, as pgvector names them."""

from __future__ import annotations

import math
from typing import Any

from herdpy_sql.errors import SqlError
from herdpy_sql.library.routine import add
from herdpy_sql.types import DOUBLE, INTEGER, VECTOR
from herdpy_sql.values.vectors import checked_number


def _pairs(one: Any, other: Any) -> Any:
    if len(one) != len(other):
        raise SqlError("22000", f"different vector dimensions {len(one)} and {len(other)}")
    return zip(one, other, strict=True)


def _l2(one: Any, other: Any) -> float:
    return math.sqrt(sum((a - b) * (a - b) for a, b in _pairs(one, other)))


def _l1(one: Any, other: Any) -> float:
    return float(sum(abs(a - b) for a, b in _pairs(one, other)))


def _inner(one: Any, other: Any) -> float:
    return float(sum(a * b for a, b in _pairs(one, other)))


def _norm(one: Any) -> float:
    return math.sqrt(sum(a * a for a in one))


def _cosine(one: Any, other: Any) -> float:
    product = _inner(one, other)
    size = math.sqrt(_inner(one, one) * _inner(other, other))
    return 1.0 - max(-1.0, min(1.0, product / size)) if size else math.nan


def _by_element(symbol: str) -> Any:
    def apply(one: Any, other: Any) -> Any:
        return tuple(
            [
                checked_number(a + b if symbol == "+" else a - b if symbol == "-" else a * b)
                for a, b in _pairs(one, other)
            ]
        )

    return apply


for _name, _function in (
    ("l2_distance", _l2),
    ("l1_distance", _l1),
    ("cosine_distance", _cosine),
    ("inner_product", _inner),
    ("<->", _l2),
    ("<+>", _l1),
    ("<=>", _cosine),
    ("negative_inner_product", lambda one, other: -_inner(one, other)),
    ("<#>", lambda one, other: -_inner(one, other)),
):
    add(_name, (VECTOR, VECTOR), DOUBLE, _function)
add("vector_dims", (VECTOR,), INTEGER, len)
add("vector_norm", (VECTOR,), DOUBLE, _norm)
add("l2_norm", (VECTOR,), DOUBLE, _norm)
for _symbol in "+-*":
    add(_symbol, (VECTOR, VECTOR), VECTOR, _by_element(_symbol))

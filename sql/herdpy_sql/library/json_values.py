"""Values of JSON and JSONB, and data as such values. Below ``json_access`` and its like, which add functions.

A JSONB datum is its one text, a JSON datum any text.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from herdpy.codec.grids import Grid, nested, parts_of
from herdpy.codec.jsonb import JsonError, jsonb_text, read_json
from herdpy_sql.storage import Clock
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import to_text
from herdpy_sql.values.json_texts import json_error

_NUMBERS = frozenset({Base.SMALLINT, Base.INTEGER, Base.BIGINT, Base.NUMERIC, Base.REAL, Base.DOUBLE})


def written(value: Any) -> str:
    """A value as a JSONB datum. SqlError where it cannot be one."""
    try:
        return jsonb_text(value)
    except JsonError as error:
        raise json_error(error) from None


def as_text(value: Any) -> str | None:
    """What ->> gives of a value."""
    return None if value is None else value if isinstance(value, str) else written(value)


def value_of(type_: SqlType, datum: Any, clock: Clock | None = None) -> Any:
    """A datum as a value of JSON (to_jsonb): numbers and booleans as such, all else as text."""
    if datum is None or type_.base is Base.BOOLEAN:
        return datum
    if type_.base is Base.ARRAY:
        element = type_.element_type
        return nested(datum, lambda one: value_of(element, one, clock))
    if type_.base in {Base.JSON, Base.JSONB}:
        return read_json(datum)
    text = to_text(type_)(datum)
    if type_.base in _NUMBERS:
        return Decimal(text) if text.lower() not in {"nan", "infinity", "-infinity"} else text
    if type_.base in {Base.TIMESTAMP, Base.TIMESTAMPTZ}:
        if type_.base is Base.TIMESTAMPTZ:
            from herdpy_sql.expr.zones import local_text

            text = local_text(datum, clock.zone if clock else "UTC")
            text = text + ":00" if text[-3:-2] in "+-" else text
        return text.replace(" ", "T", 1)
    return text


def json_of(type_: SqlType, datum: Any, clock: Clock) -> str:
    """The JSON (not JSONB) text of a datum: no blanks."""
    if type_.base in {Base.JSON, Base.JSONB} and datum is not None:
        return str(datum)
    if type_.base is Base.ARRAY and datum is not None:
        inner = type_ if isinstance(datum, Grid) else type_.element_type
        return f"[{','.join(json_of(inner, one, clock) for one in parts_of(datum))}]"
    if type_.base in _NUMBERS and datum is not None:
        text = to_text(type_)(datum)
        return text if text[-1].isdigit() else f'"{text}"'
    return written(value_of(type_, datum, clock))

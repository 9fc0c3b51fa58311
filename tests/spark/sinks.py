"""Values of a row in a form in which all readers' are alike, and sorted."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any


def plain(row: Any) -> str:
    """A row as text: the same whether a driver, Spark or Arrow read it. Naive times of Spark are UTC's."""
    return repr(tuple(map(_plain, row)))


def _plain(value: Any) -> Any:
    match value:
        case dt.datetime():
            aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
            return aware.astimezone(dt.UTC).isoformat()
        case Decimal():
            return str(value.normalize())
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case list() | tuple():
            return [_plain(one) for one in value]
        case int() | float() | str() | None:
            return value
        case _:
            return str(value)

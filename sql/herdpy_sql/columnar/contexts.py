"""What a query's functions look things up in while it runs: the statement's context, found by a number.

DuckDB's functions are the same for all queries, so that a query over the catalog brings the number of its
context as a parameter. Below ``routines`` and ``query``.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

_numbers = itertools.count(1)
_running: dict[int, Any] = {}


@contextlib.contextmanager
def running(context: object) -> Iterator[int]:
    """The number that functions find the context by as long as the block lasts."""
    number = next(_numbers)
    _running[number] = context
    try:
        yield number
    finally:
        del _running[number]


def context_of(number: int | None) -> Any:
    """The context of that number; None where no query runs and DuckDB only asks for a type."""
    return _running.get(number or 0)

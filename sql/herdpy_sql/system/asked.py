"""What a query over the catalog asks of Python while DuckDB runs it.

DuckDB's functions are the same for all queries, so a query brings a number, by which the catalog and the
state that it is about are found. An error is kept here and raised in place of DuckDB's.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from herdpy_sql.errors import SqlError
from herdpy_sql.system import names, rights_asked

if TYPE_CHECKING:
    from herdpy_sql.system.contents import Context

_numbers = itertools.count(1)
T = TypeVar("T")
_running: dict[int, RunningQuery] = {}


class RunningQuery:
    """A query that is run.

    Attributes:
        number: by which its functions find it.
        error: what one of them raised, if it did.
    """

    def __init__(self, context: Context) -> None:
        self.number = next(_numbers)
        self.error: SqlError | None = None
        self.context = context
        self.rights = rights_asked.RightsAsked(context)


@contextlib.contextmanager
def running(context: Context) -> Iterator[RunningQuery]:
    """Answer a query's functions for as long as the block lasts."""
    one = RunningQuery(context)
    _running[one.number] = one
    try:
        yield one
    finally:
        del _running[one.number]


def _guarded(number: int | None, answer: Callable[[RunningQuery], T]) -> T | None:
    """The answer; None when there is no query that is run: DuckDB only wants to know the type."""
    one = _running.get(number or 0)
    if one is None:
        return None
    try:
        return answer(one)
    except SqlError as error:
        one.error = one.error or error
        raise


def resolve(kind: str | None, text: str | None, mode: str | None, number: int | None) -> int | None:
    """The id of what ``text`` names; ``mode`` is "cast", or "to" for NULL where there is none."""
    if kind is None or text is None:
        return None
    strict = mode == "cast"
    return _guarded(number, lambda one: names.resolved(one.context, kind, text, strict=strict))


def procedure(kind: str | None, text: str | None, mode: str | None, number: int | None) -> str | None:
    """A function as regproc or regprocedure ("procedure") shows it."""
    if text is None:
        return None
    strict, arguments = mode == "cast", kind == "procedure"
    return _guarded(
        number, lambda one: names.procedure(one.context, text, strict=strict, arguments=arguments)
    )


def has_right(name: str | None, given: Sequence[str | None] | None, number: int | None) -> bool | None:
    """What a function of the has_..._privilege kind says of its arguments, each with "n" or "o" before it."""
    if name is None or given is None or None in given:
        return None
    known = [one for one in given if one is not None]
    return _guarded(number, lambda one: one.rights.answer(name, known))

"""What a function of the library is, and where all of them are registered."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from herdpy_sql.types import SqlType


class Poly(enum.Enum):
    """PostgreSQL's polymorphic types: what the arguments of a call make of them."""

    ARRAY = "anyarray"
    ELEMENT = "anyelement"
    ANY = '"any"'


Argument = SqlType | Poly


@dataclass(frozen=True, eq=False, slots=True)
class Routine:
    """One candidate of a name.

    Attributes:
        args: the types of its arguments.
        result: the type of its result, of one of its rows where it gives several.
        call: over datums, none of them None if ``strict``; NULL when any argument is, without a call, then.
        rest: the type of any number of further arguments.
        typed: ``call`` takes the :class:`Resolved` call, which has the types, before them.
        clocked: ``call`` takes the statement's Clock before them (and after ``typed``'s).
        setof: it gives a list, each element of which is a row.
        columns: the names and types of a row's columns where it has several; a row is a tuple of them.
        duck: DuckDB's text of the same, with a place such as ``{0}`` for each argument; where there is none,
            the columnar engine calls ``call``. Arguments and result are of plain types then.
    """

    name: str
    args: tuple[Argument, ...]
    result: Argument
    call: Callable[..., Any]
    strict: bool = True
    rest: Argument | None = None
    typed: bool = False
    clocked: bool = False
    setof: bool = False
    columns: tuple[tuple[str, SqlType], ...] = ()
    duck: str = ""


ROUTINES: dict[str, list[Routine]] = {}


def routine(
    name: str, args: tuple[Argument, ...], result: Argument, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a candidate of ``name``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        add(name, args, result, function, **options)
        return function

    return register


def add(
    name: str, args: tuple[Argument, ...], result: Argument, call: Callable[..., Any], **options: Any
) -> None:
    """Register ``call`` as a candidate of ``name``."""
    ROUTINES.setdefault(name, []).append(Routine(name, args, result, call, **options))


@dataclass(frozen=True, slots=True)
class Resolved:
    """A call as it will be made: which candidate of the name, and the types of arguments and result."""

    name: str
    place: int
    args: tuple[SqlType, ...]
    result: SqlType

    @property
    def routine(self) -> Routine:
        """The candidate."""
        return ROUTINES[self.name][self.place]


@functools.lru_cache(maxsize=4096)
def routine_of(found: Resolved) -> Callable[..., Any]:
    """What is called with the datums (after a Clock where it wants one): one object for the same call."""
    chosen = found.routine
    if not chosen.typed:
        return chosen.call
    call = chosen.call
    if chosen.clocked:
        return lambda clock, *values: call(found, clock, *values)
    return lambda *values: call(found, *values)

"""What a function of the library is, where all are registered, and which of them a call means."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from herdpy_sql.duck import Typed
from herdpy_sql.expr.casts import castable
from herdpy_sql.expr.resolve import choose
from herdpy_sql.types import TEXT, Base, SqlType, array_of, with_dimensions


class Poly(enum.Enum):
    """PostgreSQL's polymorphic types: what the arguments of a call make of them."""

    ARRAY = "anyarray"
    ELEMENT = "anyelement"
    ANY = '"any"'


Argument = SqlType | Poly
DuckText = Callable[..., Typed | None]
"""What makes DuckDB's text of a call of its typed arguments, or None where they are not such that it can."""


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
        context: ``call`` takes what the statement looks things up in first (``catalog_functions``); only the
            columnar engine has it.
        setof: it gives a list, each element of which is a row.
        columns: the names and types of a row's columns where it has several; a row is a tuple of them.
        output: the name of its one column in FROM, whatever the alias; empty: the alias, or the function's.
        duck: the same in DuckDB: a text with a place such as ``{0}`` for each argument, or what makes it of
            the typed arguments (None where it cannot). Where there is none, DuckDB calls ``call``.
        refused: why a call is refused (0A000), of a function that PostgreSQL has.
    """

    name: str
    args: tuple[Argument, ...]
    result: Argument
    call: Callable[..., Any]
    strict: bool = True
    rest: Argument | None = None
    typed: bool = False
    clocked: bool = False
    context: bool = False
    setof: bool = False
    columns: tuple[tuple[str, SqlType], ...] = ()
    output: str = ""
    duck: str | DuckText = ""
    refused: str = ""


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


@functools.lru_cache(maxsize=4096)
def resolve(name: str, types: tuple[SqlType, ...]) -> Resolved | None:
    """The candidate for arguments of these types (UNKNOWN: literals and parameters that have none yet).

    None when there is none. SqlError 42725 when several fit as well.
    """
    best: list[tuple[tuple[int, int], Resolved]] = []
    for place, candidate in enumerate(ROUTINES.get(name, ())):
        wanted = list(candidate.args)
        if candidate.rest is not None and len(types) > len(wanted):
            wanted += [candidate.rest] * (len(types) - len(wanted))
        if len(wanted) != len(types):
            continue
        fitted = _fit(wanted, types, candidate.result)
        if fitted is not None:
            cost, args, result = fitted
            best.append((cost, Resolved(name, place, args, result)))
    if not best:
        return None
    least = min(cost for cost, _ in best)
    found = [one for cost, one in best if cost == least]
    if len(found) > 1 and all(isinstance(arg, SqlType) for one in found for arg in one.routine.args):
        return _chosen(name, found, types)
    if len(found) > 1 and not all(one.base is Base.UNKNOWN for one in types):
        first = [one for one in found if _prefers(one, types)]
        found = first or found
    return found[0]


@dataclass(frozen=True, slots=True)
class _Candidate:
    args: tuple[Base, ...]
    call: Resolved


def _chosen(name: str, found: Sequence[Resolved], types: Sequence[SqlType]) -> Resolved | None:
    """Of candidates that cost the same, by PostgreSQL's rules for what is not polymorphic."""
    candidates = [_Candidate(tuple(arg.base for arg in one.args), one) for one in found]
    chosen = choose(candidates, [one.base for one in types], f"function {name}")
    return None if chosen is None else chosen.call


def _prefers(one: Resolved, types: Sequence[SqlType]) -> bool:
    """Whether untyped arguments have the type of a typed one: PostgreSQL's first guess."""
    known = {given.base for given in types if given.base is not Base.UNKNOWN}
    return all(
        arg.base in known for arg, given in zip(one.args, types, strict=True) if given.base is Base.UNKNOWN
    )


def _fit(
    wanted: Sequence[Argument], types: Sequence[SqlType], result: Argument
) -> tuple[tuple[int, int], tuple[SqlType, ...], SqlType] | None:
    """How well, and the types that the arguments and the result then have; None: not at all."""
    casts = untyped = 0
    element: SqlType | None = None
    dimensions = max((one.dimensions for one in types), default=1)
    for arg, given in zip(wanted, types, strict=True):
        if given.base is Base.UNKNOWN:
            untyped += arg is not Poly.ANY and arg is not TEXT
            continue
        if isinstance(arg, SqlType):
            if arg.base is given.base and (arg.element is given.element):
                continue
            if not castable(given, arg, "implicit"):
                return None
            casts += 1 if given.base is not Base.ARRAY else 2
        elif arg is Poly.ARRAY:
            if given.base is not Base.ARRAY:
                return None
            element = _wider(element, given.element_type.plain)
            if element is None:
                return None
        elif arg is Poly.ELEMENT:
            if given.base is Base.ARRAY:
                return None
            element = _wider(element, given.plain)
            if element is None:
                return None
    polymorphic = Poly.ARRAY in wanted or Poly.ELEMENT in wanted
    if polymorphic and element is None:
        element = TEXT
    args = tuple(
        _concrete(arg, given, element, given.dimensions) for arg, given in zip(wanted, types, strict=True)
    )
    casts += sum(
        1
        for arg, given in zip(args, types, strict=True)
        if polymorphic and given.base is not Base.UNKNOWN and arg.plain != given.plain
    )
    return (casts + polymorphic, untyped), args, _concrete(result, TEXT, element, dimensions)


def reshaped(found: Resolved, types: Sequence[SqlType], result: int | None = None) -> Resolved:
    """The call with the dimensions that its arguments turn out to have; ``result``: of what it gives."""
    args = tuple(
        with_dimensions(arg, given.dimensions) if arg.base is given.base is Base.ARRAY else arg
        for arg, given in zip(found.args, types, strict=True)
    )
    made = found.result
    if made.base is Base.ARRAY:
        if result is None and found.name == "cast":
            result = args[0].dimensions if args[0].base is Base.ARRAY else made.dimensions
        elif result is None and found.routine.result is Poly.ARRAY:
            result = max(found.result.dimensions, *(arg.dimensions for arg in args))
        made = with_dimensions(made, result or made.dimensions)
    return found if args == found.args and made == found.result else replace(found, args=args, result=made)


def _wider(one: SqlType | None, other: SqlType) -> SqlType | None:
    if one is None or one == other:
        return other
    if castable(other, one, "implicit"):
        return one
    return other if castable(one, other, "implicit") else None


def _concrete(arg: Argument, given: SqlType, element: SqlType | None, dimensions: int = 1) -> SqlType:
    if arg is Poly.ANY:
        return TEXT if given.base is Base.UNKNOWN else given
    if arg is Poly.ARRAY:
        assert element is not None
        return array_of(element, dimensions)
    if arg is Poly.ELEMENT:
        assert element is not None
        return element
    assert isinstance(arg, SqlType)
    return given if arg.base is given.base is Base.CHAR else arg  # its length says how many blanks it has

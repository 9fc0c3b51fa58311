"""Which operator or function is meant: PostgreSQL's rules (its manual, chapter "Type Conversion").

Candidates are :class:`Signature` values; :func:`choose` picks one for the types of the arguments,
where UNKNOWN stands for literals and parameters that have no type yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from herdpy_sql.absent import absent_function, absent_operator
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.casts import can_cast
from herdpy_sql.types import FACTS, Base, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from herdpy_sql.expr.nodes import Function

B = Base
PREFERRED = frozenset({base for base, facts in FACTS.items() if facts.preferred})


@dataclass(frozen=True, slots=True)
class Signature:
    """One candidate: its argument types, the type of its result, and what carries it out."""

    args: tuple[Base, ...]
    result: SqlType
    function: Function


def category(base: Base) -> str:
    """PostgreSQL's type category."""
    return FACTS[base].category


class Overload(Protocol):
    """What is chosen among: it has types of arguments."""

    @property
    def args(self) -> tuple[Base, ...]:
        """One for each argument."""


C = TypeVar("C", bound=Overload)


def choose(candidates: Sequence[C], types: Sequence[Base], name: str) -> C | None:
    """The candidate for arguments of these types, or None. SqlError 42725 when none is the best."""
    wanted = tuple(types)
    possible = [c for c in candidates if len(c.args) == len(wanted)]
    for candidate in possible:
        if candidate.args == wanted:
            return candidate
    if len(wanted) == 2 and (wanted[0] is B.UNKNOWN) != (wanted[1] is B.UNKNOWN):
        known = wanted[1] if wanted[0] is B.UNKNOWN else wanted[0]
        for candidate in possible:
            if candidate.args == (known, known):
                return candidate
    possible = [c for c in possible if all(map(can_coerce, wanted, c.args))]
    if len(possible) <= 1:
        return possible[0] if possible else None
    possible = _most(
        possible, lambda c: sum(a is w for a, w in zip(c.args, wanted, strict=True) if w is not B.UNKNOWN)
    )
    if len(possible) > 1:
        possible = _most(possible, lambda c: _exact_or_preferred(c, wanted))
    if len(possible) > 1 and B.UNKNOWN in wanted:
        possible = _guess_unknown(possible, wanted)
    if len(possible) == 1:
        return possible[0]
    shown = ", ".join(one.value for one in wanted)
    raise SqlError(
        "42725", f"{name} of {shown} is not unique", hint="You might need to add explicit type casts."
    )


def can_coerce(source: Base, target: Base) -> bool:
    """Whether an argument of type ``source`` may stand where ``target`` is wanted, implicitly."""
    return source is target or source is B.UNKNOWN or can_cast(source, target, "implicit")


def _most(candidates: list[C], score: Callable[[C], int]) -> list[C]:
    scores = [score(candidate) for candidate in candidates]
    best = max(scores)
    return [candidate for candidate, points in zip(candidates, scores, strict=True) if points == best]


def _exact_or_preferred(candidate: Overload, types: Sequence[Base]) -> int:
    return sum(
        arg is given or (arg in PREFERRED and category(arg) == category(given))
        for arg, given in zip(candidate.args, types, strict=True)
        if given is not B.UNKNOWN
    )


def _guess_unknown(candidates: list[C], types: Sequence[Base]) -> list[C]:
    """Rules 4.e and 4.f for operators: guess the categories of unknown arguments, then their types."""
    remaining = candidates
    resolved = True
    for place, given in enumerate(types):
        if given is not B.UNKNOWN:
            continue
        categories = {category(c.args[place]) for c in candidates}
        if "S" in categories:
            chosen = "S"
        elif len(categories) == 1:
            chosen = categories.pop()
        else:
            resolved = False
            break
        kept = [c for c in remaining if category(c.args[place]) == chosen]
        if any(c.args[place] in PREFERRED for c in candidates if category(c.args[place]) == chosen):
            kept = [c for c in kept if c.args[place] in PREFERRED]
        remaining = kept or remaining
    if resolved and len(remaining) == 1:
        return remaining
    if not resolved:
        remaining = candidates
    known = {given for given in types if given is not B.UNKNOWN}
    if len(known) == 1:
        same = known.pop()
        kept = [c for c in candidates if all(can_coerce(same, arg) for arg in c.args)]
        if len(kept) == 1:
            return kept
    return remaining


_HINT = "No {} matches the given name and argument types. You might need to add explicit type casts."


def no_operator(symbol: str, types: Sequence[SqlType]) -> SqlError:
    """SqlError 42883 as PostgreSQL words it; 0A000 of an operator that only PostgreSQL has."""
    refused = absent_operator(symbol)
    if refused is not None:
        return refused
    left = f"{types[0].name} " if len(types) > 1 else ""
    message = f"operator does not exist: {left}{symbol} {types[-1].name}"
    return SqlError("42883", message, hint=_HINT.format("operator"))


def no_function(name: str, types: Sequence[SqlType]) -> SqlError:
    """SqlError 42883 as PostgreSQL words it; 0A000 of a function that only PostgreSQL has."""
    refused = absent_function(name)
    if refused is not None:
        return refused
    listed = ", ".join(one.name for one in types)
    return SqlError("42883", f"function {name}({listed}) does not exist", hint=_HINT.format("function"))

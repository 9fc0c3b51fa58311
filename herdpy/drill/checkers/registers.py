"""A history of registers, taken apart by key into steps that a search can put in order.

Layer: between the history and the two checkers of linearizability (`linearizable` and `porcupine`). Values
become small numbers, operations that certainly had no effect are left out, and so are unknown writes whose
value nobody ever saw, unless a refused compare-and-set might need one.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import IntEnum

from herdpy.drill.history import History, HistoryError, Json, Operation, Outcome

INITIAL = 0
"""The number of the value that a register has at first."""

UNSEEN = -1
"""The number of every value that no operation saw or compared with."""


class Kind(IntEnum):
    """What a step does to a register."""

    READ = 0
    WRITE = 1
    SWAP = 2
    DIFFERS = 3
    """A refused compare-and-set: it saw that the register was not `expected`."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operation on one register. `expected` and `value` are numbers of values.

    expected: what it read, or compared with. value: what it wrote.
    may_never_be: nobody knows whether it took effect; `ended_s` is infinite.
    called_s: for a read that may be stale, the oldest moment that it may show.
    """

    kind: Kind
    expected: int
    value: int
    may_never_be: bool
    called_s: float
    ended_s: float
    operation: Operation

    @property
    def writes(self) -> bool:
        """It changes the register."""
        return self.kind in (Kind.WRITE, Kind.SWAP)

    @property
    def looks(self) -> bool:
        """It tells something of the register's value before it."""
        return self.kind is not Kind.WRITE


NAMES = ("read", "write", "cas")
"""The operations that are of registers."""


def steps_by_key(
    history: History, initial: Json = None, *, all_values: bool = False
) -> dict[str, list[Step]]:
    """The steps of each register, in the order of their calls. `initial` is every register's first value.

    all_values: none is UNSEEN, so that every value can be told.

    Raises: HistoryError: an operation has not the arguments or the result that its name asks for.
    """
    found: dict[str, list[Operation]] = {}
    for operation in history:
        if operation.name in NAMES:
            found.setdefault(_key_of(operation), []).append(operation)
    return {key: _steps(operations, initial, all_values) for key, operations in found.items()}


def moments(steps: list[Step]) -> list[tuple[float, bool, int]]:
    """Calls (False) and returns (True) in order, with the step's index.

    What is called in the moment of a return counts as concurrent with it. A step that may never be
    has no return.
    """
    calls = [(step.called_s, False, index) for index, step in enumerate(steps)]
    returns = [(step.ended_s, True, index) for index, step in enumerate(steps) if not step.may_never_be]
    return sorted(calls + returns)


def _key_of(operation: Operation) -> str:
    arguments = operation.arguments
    wanted = {"read": 1, "write": 2, "cas": 3}[operation.name]
    if not isinstance(arguments, list) or len(arguments) != wanted:
        raise HistoryError(f"{operation.name} has {wanted} arguments, not {arguments!r}")
    is_answered = operation.name == "cas" and operation.outcome is Outcome.DONE
    if is_answered and not isinstance(operation.result, bool):
        raise HistoryError(f"cas answers true or false, not {operation.result!r}")
    return str(arguments[0])


def _steps(operations: list[Operation], initial: Json, all_values: bool) -> list[Step]:
    parsed = [each for each in map(_parse, operations) if each is not None]
    seen = {_text(initial): INITIAL}
    for kind, expected, value, _ in parsed:
        if kind is not Kind.WRITE:
            seen.setdefault(_text(expected), len(seen))
        if all_values:
            seen.setdefault(_text(value), len(seen))
    is_compared = any(kind is Kind.DIFFERS for kind, *_ in parsed)
    steps = []
    for kind, expected, value, operation in parsed:
        number = seen.get(_text(value), UNSEEN)
        # Of a compare-and-set that was resolved as done nobody knows whether it was refused.
        may_never_be = operation.final is Outcome.UNKNOWN or (
            kind is Kind.SWAP and operation.outcome is Outcome.UNKNOWN
        )
        if may_never_be and number == UNSEEN and not is_compared:
            continue
        steps.append(
            Step(
                kind,
                seen[_text(expected)] if kind is not Kind.WRITE else UNSEEN,
                number,
                may_never_be,
                operation.sees_from_s if kind is Kind.READ else operation.called_s,
                math.inf if may_never_be else operation.ended_s,
                operation,
            )
        )
    return sorted(steps, key=lambda step: step.called_s)


def _parse(operation: Operation) -> tuple[Kind, Json, Json, Operation] | None:
    """Kind, expected and value of an operation; None when it says nothing about the register."""
    if operation.final is Outcome.NOT_DONE:
        return None
    arguments = operation.arguments
    assert isinstance(arguments, list)
    if operation.name == "write":
        return Kind.WRITE, None, arguments[1], operation
    if operation.name == "cas":
        if operation.outcome is Outcome.DONE and operation.result is False:
            return Kind.DIFFERS, arguments[1], None, operation
        return Kind.SWAP, arguments[1], arguments[2], operation
    if operation.outcome is not Outcome.DONE:
        return None
    return Kind.READ, operation.result, None, operation


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True)

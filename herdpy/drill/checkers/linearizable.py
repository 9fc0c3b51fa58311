"""Are the registers of a history linearizable? An own checker, of the family of Wing & Gong, and Lowe.

Is there an order of a register's operations, each placed between its call and its return, in which every
read sees the last write? The search goes through calls and returns in the order of time with a set of
*configurations*: all that the register may be by now. Only when an operation returns must it have its
place, and only then, and only as far as needed, are writes under way given theirs ("just in time", Lowe
2017). Three remarks keep the set small:

- A read, or a refused compare-and-set, changes nothing. It takes its place as soon as the register agrees
  with it.
- A write that nobody sees may stand directly before any other plain write that took its place while it was
  under way. It is noted as *covered*: when it returns, that will do, and until then it may be placed later.
- A write whose outcome stayed unknown is placed only when somebody has seen it. So many of them cost little.

The set has a bound; a register that needs more is undecided, which is not valid.

`steps_by_key` takes a history apart by key into the steps that a search, here or in `porcupine`, puts in
order. Values become small numbers, operations that certainly had no effect are left out, and so are unknown
writes whose value nobody ever saw, unless a refused compare-and-set might need one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from herdpy.drill.history import ClientOperation, DrillHistory, HistoryError, Json, OperationOutcome
from herdpy.drill.judging import UNDECIDED, Anomaly, Verdict, fewest

INITIAL = 0
"""The number of the value that a register has at first."""

UNSEEN = -1
"""The number of every value that no operation saw or compared with."""


class StepKind(IntEnum):
    """What a step does to a register."""

    READ = 0
    WRITE = 1
    SWAP = 2
    DIFFERS = 3
    """A refused compare-and-set: it saw that the register was not `expected`."""


@dataclass(frozen=True, slots=True)
class RegisterStep:
    """One operation on one register. `expected` and `value` are numbers of values.

    expected: what it read, or compared with. value: what it wrote.
    may_never_be: nobody knows whether it took effect; `ended_s` is infinite.
    called_s: for a read that may be stale, the oldest moment that it may show.
    """

    kind: StepKind
    expected: int
    value: int
    may_never_be: bool
    called_s: float
    ended_s: float
    operation: ClientOperation

    @property
    def writes(self) -> bool:
        """It changes the register."""
        return self.kind in (StepKind.WRITE, StepKind.SWAP)

    @property
    def looks(self) -> bool:
        """It tells something of the register's value before it."""
        return self.kind is not StepKind.WRITE


NAMES = ("read", "write", "cas")
"""The operations that are of registers."""


def steps_by_key(
    history: DrillHistory, initial: Json = None, *, all_values: bool = False
) -> dict[str, list[RegisterStep]]:
    """The steps of each register, in the order of their calls. `initial` is every register's first value.

    all_values: none is UNSEEN, so that every value can be distinguished.

    Raises: HistoryError: an operation has not the arguments or the result that its name asks for.
    """
    found: dict[str, list[ClientOperation]] = {}
    for operation in history:
        if operation.name in NAMES:
            found.setdefault(_key_of(operation), []).append(operation)
    return {key: _steps(operations, initial, all_values) for key, operations in found.items()}


def moments(steps: list[RegisterStep]) -> list[tuple[float, bool, int]]:
    """Calls (False) and returns (True) in order, with the step's index.

    What is called in the moment of a return counts as concurrent with it. A step that may never be
    has no return.
    """
    calls = [(step.called_s, False, index) for index, step in enumerate(steps)]
    returns = [(step.ended_s, True, index) for index, step in enumerate(steps) if not step.may_never_be]
    return sorted(calls + returns)


def _key_of(operation: ClientOperation) -> str:
    arguments = operation.arguments
    wanted = {"read": 1, "write": 2, "cas": 3}[operation.name]
    if not isinstance(arguments, list) or len(arguments) != wanted:
        raise HistoryError(f"{operation.name} has {wanted} arguments, not {arguments!r}")
    is_answered = operation.name == "cas" and operation.outcome is OperationOutcome.DONE
    if is_answered and not isinstance(operation.result, bool):
        raise HistoryError(f"cas answers true or false, not {operation.result!r}")
    return str(arguments[0])


def _steps(operations: list[ClientOperation], initial: Json, all_values: bool) -> list[RegisterStep]:
    parsed = [each for each in map(_parse, operations) if each is not None]
    seen = {_text(initial): INITIAL}
    for kind, expected, value, _ in parsed:
        if kind is not StepKind.WRITE:
            seen.setdefault(_text(expected), len(seen))
        if all_values:
            seen.setdefault(_text(value), len(seen))
    is_compared = any(kind is StepKind.DIFFERS for kind, *_ in parsed)
    steps = []
    for kind, expected, value, operation in parsed:
        number = seen.get(_text(value), UNSEEN)
        # Of a compare-and-set that was resolved as done nobody knows whether it was refused.
        may_never_be = operation.final is OperationOutcome.UNKNOWN or (
            kind is StepKind.SWAP and operation.outcome is OperationOutcome.UNKNOWN
        )
        if may_never_be and number == UNSEEN and not is_compared:
            continue
        steps.append(
            RegisterStep(
                kind,
                seen[_text(expected)] if kind is not StepKind.WRITE else UNSEEN,
                number,
                may_never_be,
                operation.sees_from_s if kind is StepKind.READ else operation.called_s,
                math.inf if may_never_be else operation.ended_s,
                operation,
            )
        )
    return sorted(steps, key=lambda step: step.called_s)


def _parse(operation: ClientOperation) -> tuple[StepKind, Json, Json, ClientOperation] | None:
    """Kind, expected and value of an operation; None when it says nothing about the register."""
    if operation.final is OperationOutcome.NOT_DONE:
        return None
    arguments = operation.arguments
    assert isinstance(arguments, list)
    if operation.name == "write":
        return StepKind.WRITE, None, arguments[1], operation
    if operation.name == "cas":
        if operation.outcome is OperationOutcome.DONE and operation.result is False:
            return StepKind.DIFFERS, arguments[1], None, operation
        return StepKind.SWAP, arguments[1], arguments[2], operation
    if operation.outcome is not OperationOutcome.DONE:
        return None
    return StepKind.READ, operation.result, None, operation


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


NAME = "registers"
NOT_LINEARIZABLE = "not linearizable"
CONFIGURATIONS = 50_000
"""How many configurations one register may have at a time."""
_FEW = 16
"""More than so many are worth comparing with each other."""

Configuration = tuple[int, int, int, int]
"""The register's value, and sets of places as bits: writes not yet placed, those of them that are covered,
and what has not yet seen its value."""


@dataclass(frozen=True)
class Failure:
    """Where the search ended: no order explains this step. `values` are what the register could have been."""

    step: RegisterStep
    values: frozenset[int]
    is_undecided: bool = False


def check(history: DrillHistory, *, initial: Json = None, configurations: int = CONFIGURATIONS) -> Verdict:
    """Judge every register (read, write, cas) on its own; `initial` is the first value of each.

    Raises: HistoryError: an operation of a register is not as herdpy.drill.history describes it.
    """
    by_key = steps_by_key(history, initial)
    anomalies = []
    for key, steps in sorted(by_key.items()):
        failure = first_failure(steps, configurations)
        if failure is not None:
            anomalies.append(explain(key, steps, failure, initial, configurations))
    operations = sum(map(len, by_key.values()))
    return Verdict.of(NAME, anomalies, f"{operations} operations on {len(by_key)} registers")


def explain(
    key: str, steps: list[RegisterStep], failure: Failure, initial: Json, configurations: int = CONFIGURATIONS
) -> Anomaly:
    """The anomaly of one register, with the fewest operations that show it."""
    if failure.is_undecided:
        text = (
            f"register {key}: more than {configurations} states are possible at {failure.step.ended_s:.6f} s"
        )
        return Anomaly(UNDECIDED, text, [failure.step.operation])
    operations = [step.operation for step in _fewest(steps, failure, configurations)]
    (few,) = steps_by_key(DrillHistory(operations), initial, all_values=True).values()
    again = first_failure(few, configurations)
    assert again is not None
    last = again.step.operation
    answer = "" if last.name == "write" else f" -> {json.dumps(last.result)}"
    could = sorted({_shown(few, value) for value in again.values})
    text = (
        f"register {key}: no order of these {len(few)} operations explains {last.name} "
        f"{json.dumps(last.arguments)}{answer} of process {last.process}, which ended at "
        f"{again.step.ended_s:.6f} s; it could then be {', '.join(could)}"
    )
    seen = again.step.expected
    if again.step.looks and seen != INITIAL and all(step.value != seen for step in few if step.writes):
        text += ", and no operation had written that"
    return Anomaly(NOT_LINEARIZABLE, text, operations)


def first_failure(steps: list[RegisterStep], configurations: int = CONFIGURATIONS) -> Failure | None:
    """The first return that no order of the steps explains; None when the register is linearizable."""
    search = _Search(steps)
    for _, is_return, index in moments(steps):
        step = steps[index]
        if not is_return:
            search.call(step, index)
            continue
        before = frozenset(state for state, *_ in search.possible)
        search.end(step, index)
        if not search.possible:
            return Failure(step, before)
        if len(search.possible) > configurations:
            return Failure(step, before, is_undecided=True)
    return None


class _Search:
    """The set of configurations, and who is under way. A place is a bit, used again after the return."""

    def __init__(self, steps: list[RegisterStep]) -> None:
        self.possible: set[Configuration] = {(INITIAL, 0, 0, 0)}
        self._bits: dict[int, int] = {}
        self._steps: dict[int, RegisterStep] = {}
        self._used = 0
        self._can_be_covered = 0
        self._unknown = 0
        self._readers: dict[int, int] = {}
        self._differing = 0
        self._differing_from: dict[int, int] = {}
        self._swaps_of: dict[int, int] = {}
        written = [step.value for step in steps if step.writes and step.value != UNSEEN]
        self._is_unique = len(set(written)) == len(written) and INITIAL not in written
        self._is_compared = any(step.kind is StepKind.DIFFERS for step in steps)

    def call(self, step: RegisterStep, index: int) -> None:
        """A step is under way from now on."""
        bit = ~self._used & (self._used + 1)
        self._used |= bit
        self._bits[index] = bit
        self._steps[bit] = step
        if step.writes:
            if step.kind is StepKind.SWAP:
                self._swaps_of[step.expected] = self._swaps_of.get(step.expected, 0) | bit
            elif not step.may_never_be:
                self._can_be_covered |= bit
            if step.may_never_be:
                self._unknown |= bit
            self.possible = {
                (state, free | bit, covered, unmet) for state, free, covered, unmet in self.possible
            }
            return
        if step.kind is StepKind.READ:
            self._readers[step.expected] = self._readers.get(step.expected, 0) | bit
        else:
            self._differing |= bit
            self._differing_from[step.expected] = self._differing_from.get(step.expected, 0) | bit
        self.possible = {
            (state, free, covered, self._still_unmet(state, unmet | bit))
            for state, free, covered, unmet in self.possible
        }

    def end(self, step: RegisterStep, index: int) -> None:
        """A step has returned: configurations stay in which it has its place, and its bit is free again."""
        bit = self._bits.pop(index)
        result: set[Configuration] = set()
        for configuration in self.possible:
            _, free, covered, unmet = configuration
            if not (free | unmet) & bit:
                result.add(configuration)
                continue
            is_covered = bool(covered & bit)
            if is_covered:
                result.add((configuration[0], free & ~bit, covered & ~bit, unmet))
            # A value that nobody sees is best covered, unless somebody may need the register to differ.
            if not is_covered or step.value != UNSEEN or self._is_compared:
                result.update(self._placing(configuration, bit))
        self.possible = result if len(result) <= _FEW else self._best(result)
        self._forget(step, bit)

    def _best(self, configurations: set[Configuration]) -> set[Configuration]:
        """Those that no other one betters: one that has the same value and the same writes to place, and more
        covered, more unknown writes in hand, or less that is unmet, can do whatever the other can.
        """
        groups: dict[tuple[int, int], list[Configuration]] = {}
        for configuration in configurations:
            state, free, _, _ = configuration
            groups.setdefault((state, free & ~self._unknown), []).append(configuration)
        best: set[Configuration] = set()
        for group in groups.values():
            group.sort(key=lambda one: (-one[1].bit_count() - one[2].bit_count(), one[3].bit_count()))
            kept: list[Configuration] = []
            for one in group:
                _, free, covered, unmet = one
                if not any(not (free & ~f or covered & ~c or u & ~unmet) for _, f, c, u in kept):
                    kept.append(one)
            best.update(kept)
        return best

    def _forget(self, step: RegisterStep, bit: int) -> None:
        del self._steps[bit]
        self._used &= ~bit
        self._can_be_covered &= ~bit
        self._differing &= ~bit
        for sets in (self._readers, self._differing_from, self._swaps_of):
            if sets.get(step.expected, 0) & bit:
                sets[step.expected] &= ~bit
                if not sets[step.expected]:
                    del sets[step.expected]

    def _still_unmet(self, state: int, unmet: int) -> int:
        met = self._readers.get(state, 0) | (self._differing & ~self._differing_from.get(state, 0))
        return unmet & ~met

    def _placing(self, start: Configuration, target: int) -> Iterator[Configuration]:
        """Every configuration that is reached by placing writes until `target` has its place."""
        stack, known = [start], {start}
        while stack:
            configuration = stack.pop()
            for bit in self._next_writes(configuration, target):
                _, free, covered, unmet = configuration
                step, rest = self._steps[bit], free & ~bit
                covers = rest & self._can_be_covered if step.kind is StepKind.WRITE else 0
                after = (step.value, rest, (covered & ~bit) | covers, self._still_unmet(step.value, unmet))
                if after in known:
                    continue
                known.add(after)
                if (after[1] | after[3]) & target:
                    stack.append(after)
                else:
                    yield after

    def _next_writes(self, configuration: Configuration, target: int) -> Iterator[int]:
        """The writes worth placing next: those that somebody under way waits for, and the target itself."""
        state, free, _, unmet = configuration
        must_differ = unmet & self._differing_from.get(state, 0)
        any_will_do = bool(must_differ & target) or (bool(must_differ) and not self._is_unique)
        tried: set[tuple[int, int]] = set()
        left = free
        while left:
            bit = left & -left
            left &= ~bit
            step = self._steps[bit]
            if step.kind is StepKind.SWAP:
                is_wanted = step.expected == state
            elif bit == target or any_will_do:
                is_wanted = True
            else:
                waiting = self._readers.get(step.value, 0) & unmet or self._swaps_of.get(step.value, 0) & free
                is_wanted = step.value != UNSEEN and bool(waiting)
            if is_wanted and step.may_never_be:
                # Unknown writes that do the same are alike: the first will do.
                is_wanted = (step.expected, step.value) not in tried
                tried.add((step.expected, step.value))
            if is_wanted:
                yield bit


def _fewest(steps: list[RegisterStep], failure: Failure, configurations: int) -> list[RegisterStep]:
    """The fewest steps that are not linearizable on their own, and whose failure is one of the whole.

    It follows for the whole as long as whoever saw a value is left out with all who wrote it; a refused
    compare-and-set may have seen any write, so with one of them all writes stay.
    """
    steps = [step for step in steps if step.called_s <= failure.step.ended_s]
    writers: dict[int, set[int]] = {}
    for index, step in enumerate(steps):
        if step.writes:
            writers.setdefault(step.value, set()).add(index)
    every_writer = {index for indexes in writers.values() for index in indexes}

    def closed(kept: list[int]) -> list[RegisterStep]:
        left = set(kept)
        while True:
            gone = {
                index
                for index in left
                if steps[index].looks
                and not (
                    every_writer
                    if steps[index].kind is StepKind.DIFFERS
                    else writers.get(steps[index].expected, set())
                )
                <= left
            }
            if not gone:
                return [steps[index] for index in sorted(left)]
            left -= gone

    def fails(kept: list[int]) -> bool:
        found = first_failure(closed(kept), configurations)
        return found is not None and not found.is_undecided

    count = len(steps)
    window = min(8, count)
    while window < count and not fails(list(range(count - window, count))):
        window = min(2 * window, count)
    return closed(fewest(range(count - window, count), fails))


def _shown(steps: list[RegisterStep], number: int) -> str:
    """A value as the operations name it."""
    for step in steps:
        arguments = step.operation.arguments
        assert isinstance(arguments, list)
        if step.looks and step.expected == number:
            return json.dumps(step.operation.result if step.kind is StepKind.READ else arguments[1])
        if step.writes and step.value == number:
            return json.dumps(arguments[-1])
    return "its first value"

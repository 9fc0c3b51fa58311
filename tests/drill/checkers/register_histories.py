"""Random histories of registers: of registers that really are linearizable, and spoilt ones."""

from __future__ import annotations

import random
from dataclasses import replace

from herdpy.drill.history import ClientOperation, DrillHistory, Json, OperationOutcome


def linearizable_history(
    seed: int,
    operations: int = 200,
    *,
    clients: int = 5,
    keys: int = 1,
    unknown: float = 0.05,
    refused: float = 0.05,
    swaps: float = 0.2,
    values: int | None = None,
) -> DrillHistory:
    """Clients of registers in virtual time: each operation takes effect at a moment between call and return.

    unknown, refused: the share of writes whose outcome the client does not learn, and that have no effect.
    values: writes take their values from so many; None: no value is written twice.
    """
    dice = random.Random(seed)
    registers: dict[str, Json] = {}
    planned: list[tuple[float, float, float, int, str, str, float]] = []
    process = clients
    for client in range(clients):
        now, number = dice.random(), client
        for _ in range(operations // clients):
            called = now + dice.random()
            length = dice.expovariate(1.0)
            name = "cas" if dice.random() < swaps else dice.choice(["read", "write"])
            fate = dice.random()
            effect = called + length * dice.random()
            if name != "read" and fate < unknown:
                effect = called + dice.expovariate(0.2)
            planned.append((effect, called, called + length, number, name, f"k{dice.randrange(keys)}", fate))
            now = called + length
            if name != "read" and fate < unknown:
                number = process
                process += 1
    made = []
    for count, (_, called, returned, number, name, key, fate) in enumerate(sorted(planned), 1):
        value = count if values is None else dice.randrange(values)
        is_unknown, is_refused = fate < unknown, unknown <= fate < unknown + refused
        has_effect = not (is_refused or (is_unknown and dice.random() < 0.5))
        result: Json = None
        if name == "read":
            arguments: list[Json] = [key]
            result, is_unknown, is_refused = registers.get(key), False, False
        elif name == "write":
            arguments = [key, value]
            if has_effect:
                registers[key] = value
        else:
            old = registers.get(key) if dice.random() < 0.7 else dice.randrange(1, count + 1)
            arguments = [key, old, value]
            result = registers.get(key) == old
            if has_effect and result:
                registers[key] = value
        outcome = (
            OperationOutcome.UNKNOWN
            if is_unknown
            else OperationOutcome.NOT_DONE
            if is_refused
            else OperationOutcome.DONE
        )
        made.append(
            ClientOperation(
                number,
                name,
                arguments,
                result if outcome is OperationOutcome.DONE else None,
                outcome,
                called,
                returned,
                resolved=OperationOutcome.DONE if is_unknown and has_effect and dice.random() < 0.2 else None,
                resolved_s=1e6,
            )
        )
    return DrillHistory(sorted(made, key=lambda each: each.returned_s))


def spoilt(history: DrillHistory, seed: int) -> DrillHistory:
    """The history with one to three answers changed; it may still be linearizable."""
    dice = random.Random(seed)
    made = list(history)
    for _ in range(dice.randrange(1, 4)):
        index = dice.randrange(len(made))
        one = made[index]
        if one.name == "read":
            others = [each.arguments for each in made if each.name == "write"]
            made[index] = replace(one, result=dice.choice(others)[1] if others else 1)
        elif one.name == "cas" and one.outcome is OperationOutcome.DONE:
            made[index] = replace(one, result=not one.result)
        elif one.outcome is OperationOutcome.DONE:
            made[index] = replace(one, outcome=OperationOutcome.NOT_DONE)
    return DrillHistory(made)

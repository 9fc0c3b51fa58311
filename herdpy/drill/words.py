"""Operations, times and counts as people read them: for the report and the picture."""

from __future__ import annotations

import json
from collections.abc import Sequence

from herdpy.drill.history import ClientOperation, Json, OperationOutcome

_LONGEST = 60


def seconds(value: float | None) -> str:
    """A duration with the digits that matter: "0.8 ms", "12 ms", "3.4 s", "2 min 5 s"."""
    if value is None:
        return "-"
    if value < 0.00995:
        return f"{value * 1e3:.1f} ms"
    if value < 0.9995:
        return f"{value * 1e3:.0f} ms"
    if value < 119.95:
        return f"{value:.1f} s"
    return f"{value // 60:.0f} min {value % 60:.0f} s"


def moment(value: float) -> str:
    """A time since the start, such as "12.31 s"."""
    return f"{value:.2f} s"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun: "1 client", "12 clients"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def operation(one: ClientOperation) -> str:
    """What was asked and what was answered: "read x → 7", "append k1 5; read k1 → [1, 5]"."""
    if one.name == "txn" and isinstance(one.arguments, list):
        return _transaction(one)
    arguments = one.arguments if isinstance(one.arguments, list) else [one.arguments]
    asked = " ".join([one.name, *(_value(value) for value in arguments)])
    if one.outcome is not OperationOutcome.DONE or (one.result is None and one.name not in ("read", "take")):
        return asked
    return f"{asked} → {_value(one.result)}"


def outcome(one: ClientOperation) -> str:
    """The outcome, and what was found out later: "done", "unknown, later resolved: done"."""
    if one.outcome is not OperationOutcome.UNKNOWN:
        return one.outcome.value
    if one.resolved is None:
        return "unknown, never resolved"
    return f"unknown, later resolved: {one.resolved.value}"


def client(one: ClientOperation) -> str:
    """Whose operation it is."""
    return f"client {one.process}"


def _transaction(one: ClientOperation) -> str:
    steps = one.result if isinstance(one.result, list) else one.arguments
    assert isinstance(steps, list)
    is_done = one.outcome is OperationOutcome.DONE
    return "; ".join(_step(step, is_done) for step in steps if isinstance(step, list))


def _step(step: Sequence[Json], is_done: bool) -> str:
    name, *arguments = step
    words = [str(name), *(_value(value) for value in arguments)]
    if name == "read" and len(words) == 3:
        return f"read {words[1]} → {words[2]}" if is_done else f"read {words[1]}"
    return " ".join(words)


def _value(value: Json) -> str:
    """A value, with its middle left out when it is long."""
    if isinstance(value, str) and value and not any(sign.isspace() for sign in value):
        text = value
    elif value is None:
        text = "nothing"
    else:
        text = json.dumps(value, ensure_ascii=False)
    if len(text) > _LONGEST:
        half = _LONGEST // 2 - 2
        text = f"{text[:half]} … {text[-half:]}"
    return text

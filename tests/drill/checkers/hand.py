"""Histories by hand: operations of any name, one after another unless their times are given."""

from __future__ import annotations

from typing import Any

from herdpy.drill.history import ClientOperation, DrillHistory, Json, OperationOutcome

DONE, NOT_DONE, UNKNOWN = OperationOutcome.DONE, OperationOutcome.NOT_DONE, OperationOutcome.UNKNOWN


def op(
    name: str,
    arguments: list[Any],
    result: Json = None,
    outcome: OperationOutcome = DONE,
    *,
    process: int = 0,
    at: tuple[float, float] | None = None,
    resolved: OperationOutcome | None = None,
    sees_from_s: float | None = None,
) -> ClientOperation:
    """One operation; without `at` it is placed by `one_by_one`."""
    called_s, returned_s = (-1.0, -1.0) if at is None else at
    details: dict[str, Json] = {} if sees_from_s is None else {"sees_from_s": sees_from_s}
    resolved_s = None if resolved is None else returned_s
    return ClientOperation(
        process,
        name,
        arguments,
        result,
        outcome,
        called_s,
        returned_s,
        resolved=resolved,
        resolved_s=resolved_s,
        details=details,
    )


def one_by_one(*operations: ClientOperation) -> DrillHistory:
    """Each is called when the one before had returned: the n-th from n to n + 0.5 s, if it has no times."""
    placed = []
    for number, each in enumerate(operations):
        fields = each.to_json()
        if each.called_s < 0:
            fields |= {"called_s": float(number), "returned_s": number + 0.5}
            if each.resolved is not None:
                fields["resolved_s"] = number + 0.6
        placed.append(ClientOperation(**fields))  # type: ignore[arg-type]
    return DrillHistory(placed)

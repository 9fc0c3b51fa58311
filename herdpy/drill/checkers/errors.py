"""No client gets an error that a fault does not explain: an internal error, a table that is not there.

Faults explain lost connections, failovers, locks and full disks (docs/errors.md has the SQLSTATEs).
"""

from __future__ import annotations

from herdpy.drill.history import ClientOperation, DrillHistory
from herdpy.drill.judging import Anomaly, Verdict

NAME = "errors"
UNEXPECTED = "unexpected error"
_CLASSES = ("08", "40", "53", "57", "58")
_STATES = frozenset({"lost", "25006", "55P03", "HP002", "HP003"})
_SHOWN = 5


def check(history: DrillHistory) -> Verdict:
    """Judge the errors of all operations; each begins with a SQLSTATE, or with "lost": the connection was."""
    found: dict[str, list[ClientOperation]] = {}
    count = 0
    for operation in history:
        if operation.error is None:
            continue
        count += 1
        state = operation.error.partition(":")[0]
        if not (state in _STATES or state.startswith(_CLASSES) or _may_be_behind(operation, state)):
            found.setdefault(operation.error, []).append(operation)
    anomalies = [
        Anomaly(UNEXPECTED, f"{len(operations)} times: {error}", operations[:_SHOWN])
        for error, operations in found.items()
    ]
    return Verdict.of(NAME, anomalies, f"{count} errors in {len(history)} operations")


def _may_be_behind(operation: ClientOperation, state: str) -> bool:
    """A replica may not have read yet that the table was made, where the level does not forbid that."""
    return state == "42P01" and operation.details.get("read_level") == "any"

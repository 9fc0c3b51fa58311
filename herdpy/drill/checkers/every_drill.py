"""What every drill promises, whatever its workload: no unexplained errors, and equal replicas at the end.

No client gets an error that a fault does not explain, such as an internal error or a table that is not there.
Faults explain lost connections, failovers, locks and full disks (docs/errors.md has the SQLSTATEs). Each
check of a tablespace gives one checksum on all replicas.
"""

from __future__ import annotations

from herdpy.drill.history import ClientOperation, DrillHistory, HistoryError, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict

ERRORS, REPLICAS = "errors", "replicas"
UNEXPECTED = "unexpected error"
_CLASSES = ("08", "40", "53", "57", "58")
_STATES = frozenset({"lost", "25006", "55P03", "HP002", "HP003"})
_SHOWN = 5


def check_errors(history: DrillHistory) -> Verdict:
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
    return Verdict.of(ERRORS, anomalies, f"{count} errors in {len(history)} operations")


def _may_be_behind(operation: ClientOperation, state: str) -> bool:
    """A replica may not have read yet that the table was made, where the level does not forbid that."""
    return state == "42P01" and operation.details.get("read_level") == "any"


def check_replicas(history: DrillHistory) -> Verdict:
    """Judge "checksum". Kind: replicas differ.

    Raises: HistoryError: an answer is not {replica: checksum}.
    """
    checks = [each for each in history.of("checksum") if each.outcome is OperationOutcome.DONE]
    anomalies = []
    replicas: set[str] = set()
    for each in checks:
        if not isinstance(each.result, dict):
            raise HistoryError(f"checksums are {{replica: checksum}}, not {each.result!r}")
        replicas |= each.result.keys()
        groups: dict[str, list[str]] = {}
        for replica, checksum in each.result.items():
            groups.setdefault(str(checksum), []).append(replica)
        if len(groups) > 1:
            parts = "; ".join(f"{', '.join(who)}: {checksum}" for checksum, who in groups.items())
            anomalies.append(Anomaly("replicas differ", parts, [each]))
    return Verdict.of(REPLICAS, anomalies, f"{len(checks)} checks of {len(replicas)} replicas")

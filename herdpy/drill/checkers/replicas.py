"""Replicas are equal at the end: each check of a tablespace gave one checksum on all of them."""

from __future__ import annotations

from herdpy.drill.history import DrillHistory, HistoryError, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict

NAME = "replicas"


def check(history: DrillHistory) -> Verdict:
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
    return Verdict.of(NAME, anomalies, f"{len(checks)} checks of {len(replicas)} replicas")

"""Failover drills: a workload, a fault, the history of the answers that clients got, and a judgement of it.

    from herdpy.drill import DRILLS, run
    result = run(DRILLS["kill-leader"])          # on a cluster that is made for it
    assert result.valid, result.verdicts

`herdpy drill` is the same on the command line; docs/drills.md is its page.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from herdpy.drill.history import (
    ClientOperation,
    DrillHistory,
    Event,
    HistoryError,
    Json,
    OperationOutcome,
    RecordedCall,
    Recorder,
)
from herdpy.drill.judging import Anomaly, Verdict

if TYPE_CHECKING:
    from herdpy.drill.drills import DRILLS, Drill, DrillResult
    from herdpy.drill.runner import ClientLoad, DrillError, DrillProgress, run

_WITH_SERVERS = {
    **dict.fromkeys(("Drill", "DrillResult"), "herdpy.drill.drills"),
    "DRILLS": "herdpy.drill.drills",
    **dict.fromkeys(("DrillError", "ClientLoad", "DrillProgress", "run"), "herdpy.drill.runner"),
}
"""What needs psycopg and the testing kit is imported when it is asked for; a history can be read without."""


def __getattr__(name: str) -> Any:
    module = _WITH_SERVERS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)


__all__ = [
    "DRILLS",
    "Anomaly",
    "ClientLoad",
    "ClientOperation",
    "Drill",
    "DrillError",
    "DrillHistory",
    "DrillProgress",
    "DrillResult",
    "Event",
    "HistoryError",
    "Json",
    "OperationOutcome",
    "RecordedCall",
    "Recorder",
    "Verdict",
    "run",
]

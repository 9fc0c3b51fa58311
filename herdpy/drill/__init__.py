"""Failover drills: a workload, a fault, the history of what clients were told, and a judgement of it.

    from herdpy.drill import DRILLS, run
    result = run(DRILLS["kill-leader"])          # on a cluster that is made for it
    assert result.valid, result.verdicts

`herdpy drill` is the same on the command line; docs/drills.md is its page.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from herdpy.drill.history import Event, History, HistoryError, Json, Operation, Outcome
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.drill.recorder import Call, Recorder

if TYPE_CHECKING:
    from herdpy.drill.drill import Drill, DrillResult
    from herdpy.drill.drills import DRILLS
    from herdpy.drill.runner import DrillError, Load, Progress, run

_WITH_SERVERS = {
    **dict.fromkeys(("Drill", "DrillResult"), "herdpy.drill.drill"),
    "DRILLS": "herdpy.drill.drills",
    **dict.fromkeys(("DrillError", "Load", "Progress", "run"), "herdpy.drill.runner"),
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
    "Call",
    "Drill",
    "DrillError",
    "DrillResult",
    "Event",
    "History",
    "HistoryError",
    "Json",
    "Load",
    "Operation",
    "Outcome",
    "Progress",
    "Recorder",
    "Verdict",
    "run",
]

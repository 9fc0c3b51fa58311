"""What the system tables say of a database that is alone: its log, and that there is nobody else.

Below ``system_state``. In a cluster the node says it; see ``tablespace.cluster``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from herdpy_server.tablespace.cluster import Facts, ledger_rows, limit_rows

if TYPE_CHECKING:
    from herdpy_server.tablespace import Tablespace

STATE = "alone"


def alone(tablespace: Tablespace, name: str) -> Facts:
    """Rows of tablespaces, ledgers, limits and log_status; there are no nodes and no replicas."""
    log, store = tablespace.log, tablespace.store
    ledgers, now_us = log.ledgers(), time.time_ns() // 1000
    failure = getattr(log, "failure", None)
    return {
        "tablespaces": [
            {
                "name": name,
                "state": STATE,
                "ledgers": len(ledgers),
                "log_bytes": sum(one.length for one in ledgers if one.closed),
                "as_of": now_us,
            }
        ],
        "ledgers": [{**row, "as_of": now_us} for row in ledger_rows(name, ledgers)],
        "limits": limit_rows(name, None, store.limits()),
        "log_status": [
            {
                "tablespace": name,
                "state": STATE,
                "applied": str(store.applied),
                "durable": str(store.durable),
                "log_end": str(log.end),
                "lag_entries": 0,
                "pending": tablespace.pending,
                "problem": None if failure is None else str(failure),
            }
        ],
    }

"""Positions in requests: what a caller has seen elsewhere, and wants to find here."""

from __future__ import annotations

from typing import Any

from herdpy.log.lsn import LSN
from herdpy_server.serving.tablespaces import Served


async def reached(served: Served, request: Any) -> None:
    """Wait for a request's ``reached``, where it has one. SqlError 57P03 when that takes too long."""
    if request.HasField("reached"):
        await served.reached(LSN(request.reached.ledger_id, request.reached.entry_id))

"""What publishes a tablespace's loads: its sessions, and where writers stage. Below ``tablespaces``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from herdpy_server.loading.ledgers import LedgerPlace
from herdpy_server.sessions import Session


@dataclass(frozen=True, slots=True)
class LoadsHere:
    """One tablespace, or the replica of it that is here, as loads see it at this moment.

    Attributes:
        session: a new session. SqlError 57P03: there is nothing to be read or written.
        call: runs a session's coroutine, as ``Driver.call``.
        ledgers: where writers stage; None: on this server's disk.
        leader: the gRPC door, "host:port", of the node that leads, as last heard; None: it is not known.
    """

    session: Callable[[], Session]
    call: Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]
    ledgers: LedgerPlace | None = None
    leader: str | None = None

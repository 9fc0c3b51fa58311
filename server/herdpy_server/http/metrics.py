"""What a server's metrics are made of. Nothing is computed before a request: counting adds to plain ints.

Below ``families``, which makes metrics of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdpy_server.http.status import ServerStatus
    from herdpy_server.process.logs import Logs
    from herdpy_server.process.loop_delay import LoopDelay
    from herdpy_server.process.statements import StatementStatistics
    from herdpy_server.replica.replica import Replica
    from herdpy_server.serving import ServedDatabase
    from herdpy_server.sessions.registry import SessionRegistry


class ServerMetrics:
    """The metrics of one server.

    Attributes:
        status, statements, version: of the server.
        database, registry: set once it is open.
        replicas: of a node of a cluster, by the names of their tablespaces; set once there are some.
        logs, loop_delay: where there are any.
        max_sessions: the limit, for alarms.
    """

    def __init__(self, status: ServerStatus, statements: StatementStatistics, version: str) -> None:
        self.status = status
        self.statements = statements
        self.version = version
        self.database: ServedDatabase | None = None
        self.registry: SessionRegistry | None = None
        self.replicas: Mapping[str, Replica] | None = None
        self.logs: Logs | None = None
        self.loop_delay: LoopDelay | None = None
        self.max_sessions = 0

"""What state a server is in, and what its metrics are made of: for probes, and for people.

Below ``families``, which makes metrics of it. Nothing is computed before a request: counting adds to plain
ints.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdpy_server.backup.archiver import LogArchiver
    from herdpy_server.process.logs import Logs
    from herdpy_server.process.loop_delay import LoopDelay
    from herdpy_server.process.statements import StatementStatistics
    from herdpy_server.process.tracing import ServerTracing
    from herdpy_server.replica.replica import Replica
    from herdpy_server.serving import ServedDatabase
    from herdpy_server.serving.backup_schedule import BackupSchedule
    from herdpy_server.sessions.registry import SessionRegistry


Check = Callable[[], str | None]
"""Says what is wrong, None for nothing."""


class Phase(enum.Enum):
    """Where a server is in its life."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


class ServerStatus:
    """The state of one server.

    Attributes:
        phase: set by the process.
        checks: by name what is looked at in addition, while serving. A failing one means that the server
            cannot do all of its work: it is not ready.
    """

    def __init__(self) -> None:
        self.phase = Phase.STARTING
        self.checks: dict[str, Check] = {}
        self._began = time.monotonic()

    @property
    def uptime_s(self) -> float:
        """Since the process began to start."""
        return time.monotonic() - self._began

    def problems(self) -> dict[str, str]:
        """By the name of its check what is wrong now."""
        found = {name: check() for name, check in self.checks.items()}
        return {name: problem for name, problem in found.items() if problem is not None}

    @property
    def is_ready(self) -> bool:
        """Whether clients should be sent here."""
        return self.phase is Phase.SERVING and not self.problems()


class ServerMetrics:
    """The metrics of one server.

    Attributes:
        status, statements, version: of the server.
        database, registry: set once it is open.
        replicas: of a node of a cluster, by the names of their tablespaces; set once there are some.
        supervisor: of a node of a cluster: the process that attests this one's end, None while there is none.
        archiver, backups: of a server alone, once it has them.
        logs, loop_delay, tracing: where there are any.
        max_sessions: the limit, for alarms.
    """

    def __init__(self, status: ServerStatus, statements: StatementStatistics, version: str) -> None:
        self.status = status
        self.statements = statements
        self.version = version
        self.database: ServedDatabase | None = None
        self.registry: SessionRegistry | None = None
        self.replicas: Mapping[str, Replica] | None = None
        self.supervisor: Callable[[], int | None] | None = None
        self.archiver: LogArchiver | None = None
        self.backups: BackupSchedule | None = None
        self.logs: Logs | None = None
        self.loop_delay: LoopDelay | None = None
        self.tracing: ServerTracing | None = None
        self.max_sessions = 0

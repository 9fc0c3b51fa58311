"""What state a server is in: for probes, and for who looks why it does not serve."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable

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

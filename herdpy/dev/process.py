"""A member's process as whoever waits for it sees it: herdpy.testing.process.Watched over an identity."""

from __future__ import annotations

from pathlib import Path

from herdpy.dev.identity import ProcessIdentity
from herdpy.testing.process import log_tail


class MemberProcess:
    """The process `identity` of the member `name`, whose output goes to `log_path`."""

    def __init__(self, name: str, identity: ProcessIdentity, log_path: Path) -> None:
        self.name = name
        self.identity = identity
        self._log_path = log_path

    @property
    def pid(self) -> int | None:
        """The process's id, None when it has ended."""
        return self.identity.pid if self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.identity.is_running

    def ending(self) -> str:
        """How the process ended, as far as that is known here."""
        code = self.identity.exit_code()
        return "ended while it started" if code is None else f"ended with {code} while it started"

    def log_tail(self) -> str:
        """The last lines that it wrote."""
        return log_tail(self._log_path)

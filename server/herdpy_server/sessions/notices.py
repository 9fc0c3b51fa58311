"""What a session has to say besides answers: warnings and notices, kept until its door sends them."""

from __future__ import annotations

from dataclasses import dataclass

MESSAGE_LEVELS = ("debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error")
"""What client_min_messages can be, the least first."""


@dataclass(frozen=True, slots=True)
class SessionNotice:
    """One message that is no error.

    Attributes:
        severity: "WARNING", "NOTICE" or "INFO".
        sqlstate: five characters; "00000" when it says nothing.
    """

    severity: str
    sqlstate: str
    message: str
    detail: str | None = None
    hint: str | None = None

    def is_wanted(self, least: str) -> bool:
        """Whether a client whose client_min_messages is ``least`` wants it. INFO is always sent."""
        return self.severity == "INFO" or MESSAGE_LEVELS.index(self.severity.lower()) >= MESSAGE_LEVELS.index(
            least
        )

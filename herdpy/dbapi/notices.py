"""What a database says besides answers: warnings and notices, kept and handed to who wants them.

Below ``connection``. A link collects them while a statement runs; when the statement is over, and the
connection's lock is free, they are delivered. So a handler may use the connection.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

logger = logging.getLogger("herdpy.driver")

MOST_KEPT = 50
"""Of the newest notices so many are kept."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One message that is no error.

    Attributes:
        severity: "WARNING", "NOTICE", "INFO" and so on.
        sqlstate: five characters; "00000" when there is nothing to be told by it.
        message: the primary message; ``detail`` and ``hint`` are further lines, or None.
    """

    severity: str
    sqlstate: str
    message: str
    detail: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        lines = [f"{self.severity}: {self.message}"]
        if self.detail:
            lines.append(f"DETAIL: {self.detail}")
        if self.hint:
            lines.append(f"HINT: {self.hint}")
        return "\n".join(lines)


NoticeHandler = Callable[[Notice], object]


class Notices:
    """The notices of one connection: the newest, and who gets each."""

    def __init__(self) -> None:
        self.newest: deque[Notice] = deque(maxlen=MOST_KEPT)
        self._handlers: list[NoticeHandler] = []

    def add(self, handler: NoticeHandler) -> None:
        """Give ``handler`` each from now on."""
        self._handlers.append(handler)

    def remove(self, handler: NoticeHandler) -> None:
        """Give ``handler`` no more. ValueError when it was not added."""
        self._handlers.remove(handler)

    def deliver(self, notices: Iterable[Notice]) -> None:
        """Keep them, and call the handlers. A handler's error is logged: the statement is done either way."""
        for notice in notices:
            self.newest.append(notice)
            for handler in list(self._handlers):
                try:
                    handler(notice)
                except Exception:
                    logger.exception("a notice handler failed, of: %s", notice.message)

"""How long a statement may go on: until it is cancelled, or its time (statement_timeout) is up.

Loops over rows ask ``check`` now and then, through the workspace. What waits for something that knows
no clock (a lock, DuckDB) is given an alarm: a timer that stops the waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from herdpy_sql.errors import SqlError

CANCELLED = "canceling statement due to user request"
TIMED_OUT = "canceling statement due to statement timeout"


class StatementDeadline:
    """With the running statement of one session. ``end`` may be called from any thread.

    Attributes:
        loop: the loop that runs the session; None where threads do.
    """

    __slots__ = ("_deadline", "_error", "loop")

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._error: SqlError | None = None
        self._deadline: float | None = None

    def begin(self, seconds: float | None) -> None:
        """A statement begins, which may take so long (None: for ever)."""
        self._error = None
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def end(self, error: SqlError) -> None:
        """Make the next ``check`` raise ``error``."""
        self._error = error

    def check(self) -> None:
        """SqlError (57014, or why the session was closed) when the statement shall end."""
        if self._error is not None:
            raise self._error
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise SqlError("57014", TIMED_OUT)

    @contextlib.contextmanager
    def alarm(self, stop: Callable[[str], object]) -> Iterator[None]:
        """Call ``stop`` with a message if time is up within the block: on ``loop``, or from a thread."""
        if self._deadline is None:
            yield
            return
        left_s = max(self._deadline - time.monotonic(), 0)
        timer: asyncio.TimerHandle | threading.Timer
        if self.loop is not None:
            timer = self.loop.call_later(left_s, stop, TIMED_OUT)
        else:
            timer = threading.Timer(left_s, stop, (TIMED_OUT,))
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

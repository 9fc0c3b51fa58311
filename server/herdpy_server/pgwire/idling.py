"""How long a session may idle: idle_session_timeout and idle_in_transaction_session_timeout.

Below ``conversation``, which says when it has become ready and when a message comes. A timer is only there
while a limit is; it is not moved with every message, but looks, when it goes off, at how long nothing came.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdpy_server.sessions import Session


class Idling:
    """The clock of one conversation, made when it first has a limit."""

    __slots__ = ("_loop", "_session", "_since", "_terminate", "_timer")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, session: Session, terminate: Callable[[SqlError], object]
    ) -> None:
        """``terminate`` ends the session; when it has ended already, it does nothing."""
        self._loop = loop
        self._session = session
        self._terminate = terminate
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """ReadyForQuery is on its way: from now on the client is waited for."""
        limit_s = self._limit_s()
        if limit_s is None:
            self.stop()
            return
        self._since = self._loop.time()
        if self._timer is None or self._timer.when() > self._since + limit_s:
            self._set(limit_s)

    def end(self) -> None:
        """A message has come."""
        self._since = None

    def stop(self) -> None:
        """There is no limit any more, or no session."""
        self._since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _limit_s(self) -> float | None:
        session = self._session
        settings = session.settings
        return settings.idle_session_s if session.status == "idle" else settings.idle_transaction_s

    def _set(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._look)

    def _look(self) -> None:
        self._timer = None
        limit_s = self._limit_s()
        if self._since is None or limit_s is None:
            return
        left_s = self._since + limit_s - self._loop.time()
        if left_s > 0:
            self._set(left_s)
        elif self._session.status == "idle":
            self._terminate(SqlError("57P05", "terminating connection due to idle-session timeout"))
        else:
            self._terminate(SqlError("25P03", "terminating connection due to idle-in-transaction timeout"))

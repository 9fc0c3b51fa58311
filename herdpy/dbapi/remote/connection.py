"""The connection to the server that leads, made, given up and made again. Below ``commits``."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from psycopg import pq

from herdpy.dbapi.errors import Error
from herdpy.dbapi.link import MISSED, Notification, TransactionStatus
from herdpy.dbapi.options import RemoteOptions
from herdpy.dbapi.remote.leader import LeaderFinder, is_after
from herdpy.dbapi.remote.statements import SessionSettings
from herdpy.dbapi.remote.wire import (
    ConnectionLostError,
    StatementLimit,
    Wire,
    error_of,
    is_not_leading,
    no_answer,
    step,
)

_FATAL_ERROR = int(pq.ExecStatus.FATAL_ERROR)
PAUSE_S = 0.02
"""Before something is sent again."""
_STATUS = {
    0: TransactionStatus.IDLE,
    1: TransactionStatus.ACTIVE,
    2: TransactionStatus.INTRANS,
    3: TransactionStatus.INERROR,
}


class FailoverConnection:
    """A session on the server that leads, and the next one, with the same settings, when it is lost.

    Attributes:
        commit_position: of its newest commit, as far as a server has reported it.
    """

    def __init__(self, options: RemoteOptions, autocommit: bool) -> None:
        self.autocommit = autocommit
        self.options = options
        self.leader = LeaderFinder(options)
        self.settings = SessionSettings(options.settings)
        self.wire: Wire | None = None
        self.lost: ConnectionLostError | None = None  # that took the transaction with it
        self.unanswered = ""  # the name of a commit that was sent, or is about to be
        self.is_alone = False  # what is sent is in no transaction block
        self.limit = StatementLimit()
        self.sent_position = ""  # that the session has to wait for
        self.commit_position: str | None = None
        self.said: list[Any] = []
        self.heard: deque[Notification] = deque()

    def connect(self) -> None:
        """Find the leader for the first time."""
        deadline = time.monotonic() + self.options.connect_timeout_s
        self.wire = self.leader.connect(deadline, self._begin, patient=False)
        self.wire.belongs(self.limit, self.said, self.heard)

    def cancel(self) -> None:
        """End the running statement, from another thread."""
        wire = self.wire
        if wire is not None:
            wire.cancel()
        else:
            self.leader.stop()

    def status(self) -> TransactionStatus:
        """Where the session stands."""
        if self.wire is not None and self.wire.is_broken:  # such as by Ctrl-C
            # A commit that was interrupted leaves no transaction: it is done or not, and will be asked for.
            is_open = not (self.unanswered or self.is_alone)
            self.drop(ConnectionLostError("the statement was interrupted"), in_transaction=is_open)
        if self.lost is not None:
            return TransactionStatus.INERROR
        wire = self.wire
        if wire is None:
            return TransactionStatus.IDLE
        return _STATUS.get(wire.pgconn.transaction_status, TransactionStatus.UNKNOWN)

    def close(self) -> None:
        """Give the session up; the server rolls back what is open."""
        wire, self.wire = self.wire, None
        if wire is not None:
            wire.close()

    def connected(self, deadline: float) -> Wire:
        """The connection, or a new one to whoever leads by now."""
        wire = self.wire
        if wire is None:
            deadline = self.limit.before(min(deadline, time.monotonic() + self.options.failover_timeout_s))
            wire = self.wire = self.leader.connect(deadline, self._begin, patient=True)
            wire.belongs(self.limit, self.said, self.heard)
        return wire

    def catch_up(self, wire: Wire) -> None:
        """At the read level at_lsn, have a server that follows wait for what this process has committed."""
        newest = self.leader.positions.newest
        if newest == self.sent_position or not self.settings.is_at_lsn:
            return
        if wire.parameter("in_hot_standby") == "on" and is_after(newest, self.settings.position):
            checked(wire.run([step(f"SET herdpy.min_lsn = '{newest}'")]))
            self.sent_position = newest

    def note_commit(self, position: str | None) -> None:
        """A commit was done at this position."""
        if position:
            self.commit_position = position
            self.leader.positions.note(position)

    def _begin(self, wire: Wire) -> None:
        """Give a new session the settings that it should have."""
        self.sent_position = ""
        wanted = self.settings.statements()
        if wanted:
            checked(wire.run([step(sql) for sql in wanted]))
            if self.settings.listens:
                self.heard.append(MISSED)

    def drop(self, cause: Exception, *, in_transaction: bool) -> None:
        """The connection is of no use any more."""
        wire, self.wire = self.wire, None
        if wire is not None:
            wire.close()
        if isinstance(cause, Error):
            self.leader.leave_followers()
        if in_transaction:
            self.settings.ended(committed=False)
            self.lost = cause if isinstance(cause, ConnectionLostError) else ConnectionLostError(str(cause))

    def is_elsewhere(self, error: Error) -> bool:
        """Whether another server may do what this one refused. Who wants one that follows stays there."""
        stays = self.options.target == "follower" and error.sqlstate in ("25006", "HP003")
        return is_not_leading(error) and not stays

    def pause_or_raise(self, cause: Exception, deadline: float) -> None:
        """Before something is sent again: a short pause, and an end to it."""
        if time.monotonic() + PAUSE_S >= self.limit.before(deadline):
            if isinstance(cause, Error) and cause.outcome == "not done":
                raise cause
            raise no_answer(cause, "not done")
        time.sleep(PAUSE_S)


def checked(results: list[Any]) -> list[Any]:
    """The results, or the error among them raised."""
    refused = refusal(results)
    if refused is not None:
        raise error_of(refused)
    return results


def refusal(results: list[Any]) -> Any:
    """The result that is an error, if there is one."""
    if results and results[-1].status == _FATAL_ERROR:
        return results[-1]
    return None

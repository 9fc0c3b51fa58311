"""The connection to the server that leads, made, given up and made again. Below ``commits``."""

from __future__ import annotations

import time
from typing import Any

from psycopg import pq

from herdpy.dbapi.errors import Error
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.remote.errors import ConnectionLostError, error_of, is_not_leading, no_answer
from herdpy.dbapi.remote.leader import LeaderFinder
from herdpy.dbapi.remote.limit import StatementLimit
from herdpy.dbapi.remote.options import RemoteOptions
from herdpy.dbapi.remote.positions import is_after
from herdpy.dbapi.remote.sent import step
from herdpy.dbapi.remote.session import SessionSettings
from herdpy.dbapi.remote.wire import Wire

PAUSE_S = 0.02
"""Before something is sent again."""
_STATUS = {
    0: TransactionStatus.IDLE,
    1: TransactionStatus.ACTIVE,
    2: TransactionStatus.INTRANS,
    3: TransactionStatus.INERROR,
}


class HeldConnection:
    """A session on the server that leads, and the next one, with the same settings, when it is lost.

    Attributes:
        commit_position: of its newest commit, as far as a server told it.
    """

    def __init__(self, options: RemoteOptions, autocommit: bool) -> None:
        self.autocommit = autocommit
        self._options = options
        self._leader = LeaderFinder(options)
        self._settings = SessionSettings(options.settings)
        self._wire: Wire | None = None
        self._lost: ConnectionLostError | None = None  # that took the transaction with it
        self._unanswered = ""  # the name of a commit that was sent, or is about to be
        self._is_alone = False  # what is sent is in no transaction block
        self._limit = StatementLimit()
        self._named_position = ""  # that the session was told to wait for
        self.commit_position: str | None = None
        self.said: list[Any] = []

    def connect(self) -> None:
        """Find the leader for the first time."""
        deadline = time.monotonic() + self._options.connect_timeout_s
        self._wire = self._leader.connect(deadline, self._begin, patient=False)
        self._wire.belongs(self._limit, self.said)

    def cancel(self) -> None:
        """End the running statement, from another thread."""
        wire = self._wire
        if wire is not None:
            wire.cancel()
        else:
            self._leader.stop()

    def status(self) -> TransactionStatus:
        """Where the session stands."""
        if self._wire is not None and self._wire.is_broken:  # such as by Ctrl-C
            # A commit that was interrupted leaves no transaction: it is done or not, and will be asked for.
            is_open = not (self._unanswered or self._is_alone)
            self._drop(ConnectionLostError("the statement was interrupted"), in_transaction=is_open)
        if self._lost is not None:
            return TransactionStatus.INERROR
        if self._wire is None:
            return TransactionStatus.IDLE
        return _STATUS.get(self._wire.status, TransactionStatus.UNKNOWN)

    def close(self) -> None:
        """Give the session up; the server rolls back what is open."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def _connected(self, deadline: float) -> Wire:
        """The connection, or a new one to whoever leads by now."""
        wire = self._wire
        if wire is None:
            deadline = self._limit.before(min(deadline, time.monotonic() + self._options.failover_timeout_s))
            wire = self._wire = self._leader.connect(deadline, self._begin, patient=True)
            wire.belongs(self._limit, self.said)
        return wire

    def _catch_up(self, wire: Wire) -> None:
        """At the read level at_lsn, have a server that follows wait for what this process has committed."""
        newest = self._leader.positions.newest
        if newest == self._named_position or not self._settings.is_at_lsn:
            return
        if wire.parameter("in_hot_standby") == "on" and is_after(newest, self._settings.position):
            checked(wire.run([step(f"SET herdpy.min_lsn = '{newest}'")]))
            self._named_position = newest

    def _note(self, position: str | None) -> None:
        """A commit was done at this position."""
        if position:
            self.commit_position = position
            self._leader.positions.note(position)

    def _begin(self, wire: Wire) -> None:
        """Give a new session the settings that it should have."""
        self._named_position = ""
        wanted = self._settings.statements()
        if wanted:
            checked(wire.run([step(sql) for sql in wanted]))

    def _drop(self, cause: Exception, *, in_transaction: bool) -> None:
        """The connection is of no use any more."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
        if isinstance(cause, Error):
            self._leader.leave_followers()
        if in_transaction:
            self._settings.ended(committed=False)
            self._lost = cause if isinstance(cause, ConnectionLostError) else ConnectionLostError(str(cause))

    def _is_elsewhere(self, error: Error) -> bool:
        """Whether another server may do what this one refused. Who wants one that follows stays there."""
        stays = self._options.target == "follower" and error.sqlstate in ("25006", "HP003")
        return is_not_leading(error) and not stays

    def _again_or_raise(self, cause: Exception, deadline: float) -> None:
        """Before something is sent again: a short pause, and an end to it."""
        if time.monotonic() + PAUSE_S >= self._limit.before(deadline):
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
    if results and results[-1].status == pq.ExecStatus.FATAL_ERROR:
        return results[-1]
    return None

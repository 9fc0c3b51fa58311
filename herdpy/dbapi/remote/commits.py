"""Commits by name: whatever becomes of the connection, their outcome is learnt. Below ``requests``.

A commit (COMMIT, or a write in autocommit) is given a name. When its answer is lost, the name is given up on
the new leader: that tells whether it was done, and if it was not, it never will be. Only if this cannot be
learnt in time the outcome is unknown.
"""

from __future__ import annotations

import itertools
import os
import secrets
import time

from herdpy.dbapi.errors import Error
from herdpy.dbapi.link import StatementResult, TransactionStatus
from herdpy.dbapi.remote.connection import PAUSE_S, FailoverConnection, checked, refusal
from herdpy.dbapi.remote.results import CompletedResult, RemoteResult
from herdpy.dbapi.remote.statements import StatementKind, chains
from herdpy.dbapi.remote.wire import (
    ConnectionLostError,
    Wire,
    error_of,
    is_old_name,
    lost_transaction,
    named,
    no_answer,
    step,
)

POSITION_AGE_S = 10.0
"""The position that names begin with is asked for again after so long."""
COMMIT_POSITION = "herdpy.commit_position"
"""Under this name a server reports where a named commit is."""
_COMMIT_PATIENCE_S = 5.0
_MODES = ("isolation", "read_only", "deferrable")
_forks = 0
"""How often this process, and those that it comes from, were forked: a child makes no name of them."""


class NamedCommits:
    """The ends of a connection's transactions, whose outcome is certain.

    Attributes:
        ends_block: what is unanswered is a COMMIT of a transaction block.
    """

    def __init__(self, connection: FailoverConnection) -> None:
        self._connection = connection
        self._names = ""
        """What the names of its commits begin with; a number follows."""
        self._numbers = itertools.count()
        self._forks = 0
        self._position_until = 0.0
        self.ends_block = False
        self._chains = False  # and it is COMMIT AND CHAIN

    def commit(self) -> None:
        """Make the transaction's work last."""
        if self.is_lost():
            raise lost_transaction(self._connection.lost)
        if self._connection.status() == TransactionStatus.INTRANS:
            self.commit_as("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction's work.

        Raises:
            OperationalError: a COMMIT was interrupted before: it is done (08006), or nobody knows (08007).
        """
        if self._connection.unanswered:
            ended = self.ends_block
            if self._after_interrupt() == "done" and ended:
                raise no_answer("the commit was interrupted", "done")
        status = self._connection.status()  # which may find that the connection broke
        if self._connection.lost is not None:
            self._connection.lost = None
            return
        if self._connection.wire is None or status == TransactionStatus.IDLE:
            return
        self._connection.settings.ended(committed=False)
        try:
            checked(self._connection.wire.run([step("ROLLBACK")]))
            self._connection.wire.ended(committed=False)
        except ConnectionLostError as lost:  # which undoes it as well
            self._connection.drop(lost, in_transaction=False)

    def commit_as(self, sql: str) -> StatementResult:
        """COMMIT, by a name under which its outcome is learnt if the answer is lost."""
        connection = self._connection
        wire = connection.wire
        assert wire is not None
        cause: ConnectionLostError | Error
        request_id = ""
        begin = ""
        try:
            connection.is_alone = False
            if chains(sql):
                begin = _begin_alike(wire)
            request_id = self.new_name(wire)
            self.expect(request_id, ends_block=True)
            self._chains = bool(begin)
            results = wire.run([named(step(sql), request_id)])
            connection.unanswered = ""
            refused = refusal(results)
            if refused is None:
                connection.settings.ended(committed=True)
                wire.ended(committed=True)
                connection.note_commit(wire.parameter(COMMIT_POSITION))
                return RemoteResult(results[-1])
            cause = error_of(refused)
            if not connection.is_elsewhere(cause):
                if is_old_name(cause):
                    self.renew()  # the next one is to be newer
                connection.settings.ended(committed=False)
                wire.ended(committed=False)
                raise cause
        except ConnectionLostError as lost:
            cause = lost
        connection.drop(cause, in_transaction=False)
        if not request_id:
            self._lost_at_commit(cause)
        deadline = time.monotonic() + connection.options.failover_timeout_s
        if self.settle(request_id, cause, deadline) != "done":
            self._lost_at_commit(cause)
        connection.settings.ended(committed=True)
        if begin:
            self._begin_next(begin, deadline)
        return CompletedResult("COMMIT")

    def _begin_next(self, begin: str, deadline: float) -> None:
        """The commit is done: begin the transaction that AND CHAIN asks for, or have it as a lost one."""
        connection = self._connection
        try:
            wire = connection.connected(deadline)
        except Error as error:
            raise no_answer(error, "done") from None
        try:
            connection.catch_up(wire)
            checked(wire.run([step(begin)]))
        except ConnectionLostError as lost:
            connection.drop(lost, in_transaction=True)
        except Error as error:
            connection.drop(error, in_transaction=True)

    def is_lost(self) -> bool:
        """Whether the open transaction was lost. What an interrupt has left is seen to first."""
        connection = self._connection
        if connection.unanswered:
            self._after_interrupt()
        elif connection.wire is not None and connection.wire.is_broken:
            connection.status()
        return connection.lost is not None

    def _after_interrupt(self) -> str:
        """An interrupt came before the answer to a commit: learn what became of it; it is not done later.

        Raises:
            OperationalError: 08007, it could not be learnt.
        """
        connection = self._connection
        cause = ConnectionLostError("the commit was interrupted")
        connection.drop(cause, in_transaction=False)
        outcome = self.settle(
            connection.unanswered, cause, time.monotonic() + connection.options.failover_timeout_s
        )
        if self.ends_block:
            connection.settings.ended(committed=outcome == "done")
            connection.lost = None if outcome == "done" and not self._chains else cause
        return outcome

    def _lost_at_commit(self, cause: Exception) -> None:
        self._connection.settings.ended(committed=False)
        raise lost_transaction(cause)

    def end_lost(self, kind: StatementKind, *, chained: bool = False) -> StatementResult:
        """A statement in a transaction that was lost: only its end is taken.

        Args:
            chained: it asks for a transaction like this one, whose characteristics went with the connection.
        """
        connection = self._connection
        assert connection.lost is not None
        if not chained and kind in (StatementKind.ROLLBACK, StatementKind.COMMIT):
            lost, connection.lost = connection.lost, None
            if kind is StatementKind.COMMIT:
                raise lost_transaction(lost)
            return CompletedResult("ROLLBACK")
        raise lost_transaction(connection.lost)

    def new_name(self, wire: Wire) -> str:
        """A new name for a commit, which says after which position it was made."""
        now = time.monotonic()
        if now >= self._position_until or self._forks != _forks:
            (result,) = checked(wire.run([step("SELECT herdpy.commit_position()")]))
            self._names = f"{result.get_value(0, 0).decode()}/{secrets.token_urlsafe(12)}."
            self._forks = _forks
            self._position_until = now + POSITION_AGE_S
        return f"{self._names}{next(self._numbers)}"

    def renew(self) -> None:
        """Have the next name say a new position."""
        self._position_until = 0.0

    def expect(self, request_id: str, *, ends_block: bool) -> None:
        """A commit of this name is about to be sent: an interrupt before its answer leaves it unanswered."""
        self._connection.unanswered, self.ends_block = request_id, ends_block

    def settle(self, request_id: str, cause: Exception, deadline: float) -> str:
        """What became of a commit: "done", or "not done" now and for ever.

        Raises:
            OperationalError: 08007, it could not be learnt.
        """
        connection = self._connection
        try:
            with connection.limit.off():  # the limit is the statement's; its outcome is worth waiting for
                outcome = self._settled(request_id, cause, deadline)
        except Error:  # it says that it is unknown
            connection.unanswered = ""
            raise
        connection.unanswered = ""
        return outcome

    def _settled(self, request_id: str, cause: Exception, deadline: float) -> str:
        connection = self._connection
        while True:
            try:
                wire = connection.connected(deadline)
                results = wire.run(
                    [step("SELECT herdpy.forbid_commit($1)", request_id)],
                    max(deadline, time.monotonic() + _COMMIT_PATIENCE_S),
                )
                refused = refusal(results)
                if refused is not None:
                    raise error_of(refused)
                answer: str = results[-1].get_value(0, 0).decode()
            except ConnectionLostError as lost:
                connection.drop(lost, in_transaction=False)
            except Error as error:
                connection.drop(error, in_transaction=False)
                if not connection.is_elsewhere(error):
                    raise no_answer(f"{cause}; then: {error}", "unknown") from None
            else:
                if answer == "unknown":
                    raise no_answer(cause, "unknown")
                outcome, _space, position = answer.partition(" ")
                if outcome != "done":
                    return answer
                connection.note_commit(position)
                return outcome
            if time.monotonic() + PAUSE_S >= deadline:
                raise no_answer(cause, "unknown")
            time.sleep(PAUSE_S)


def _begin_alike(wire: Wire) -> str:
    """A BEGIN that gives a transaction the characteristics of the open one."""
    modes = ", ".join(f"current_setting('transaction_{mode}')" for mode in _MODES)
    (result,) = checked(wire.run([step(f"SELECT {modes}")]))
    level, read_only, deferrable = (result.get_value(0, at).decode() for at in range(len(_MODES)))
    access = "ONLY" if read_only == "on" else "WRITE"
    defers = "DEFERRABLE" if deferrable == "on" else "NOT DEFERRABLE"
    return f"BEGIN ISOLATION LEVEL {level.upper()}, READ {access}, {defers}"


def _in_child() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_in_child)

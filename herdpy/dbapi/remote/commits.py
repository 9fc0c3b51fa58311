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
from herdpy.dbapi.link import Result, TransactionStatus
from herdpy.dbapi.remote.connection import PAUSE_S, HeldConnection, checked, refusal
from herdpy.dbapi.remote.errors import ConnectionLostError, error_of, is_old_name, lost_transaction, no_answer
from herdpy.dbapi.remote.options import RemoteOptions
from herdpy.dbapi.remote.sent import named, step
from herdpy.dbapi.remote.statements import StatementKind, chains
from herdpy.dbapi.remote.values import RemoteResult, Told
from herdpy.dbapi.remote.wire import Wire

POSITION_AGE_S = 10.0
"""The position that names begin with is asked for again after so long."""
COMMIT_POSITION = "herdpy.commit_position"
"""Under this name a server reports where a named commit is."""
_COMMIT_PATIENCE_S = 5.0
_MODES = ("isolation", "read_only", "deferrable")
_forks = 0
"""How often this process, and those that it comes from, were forked: a child makes no name of them."""


class NamedCommits(HeldConnection):
    """A connection whose transactions end with a certain outcome."""

    def __init__(self, options: RemoteOptions, autocommit: bool) -> None:
        super().__init__(options, autocommit)
        self._names = ""
        """What the names of its commits begin with; a number follows."""
        self._numbers = itertools.count()
        self._forks = 0
        self._position_until = 0.0
        self._ends_block = False  # what is unanswered is a COMMIT,
        self._chains = False  # AND CHAIN

    def commit(self) -> None:
        """Make the transaction's work last."""
        if self._is_lost():
            raise lost_transaction(self._lost)
        if self.status() == TransactionStatus.INTRANS:
            self._commit("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction's work.

        Raises:
            OperationalError: a COMMIT was interrupted before: it is done (08006), or nobody knows (08007).
        """
        if self._unanswered:
            ended = self._ends_block
            if self._after_interrupt() == "done" and ended:
                raise no_answer("the commit was interrupted", "done")
        status = self.status()  # which may find that the connection broke
        if self._lost is not None:
            self._lost = None
            return
        if self._wire is None or status == TransactionStatus.IDLE:
            return
        self._settings.ended(committed=False)
        try:
            checked(self._wire.run([step("ROLLBACK")]))
        except ConnectionLostError as lost:  # which undoes it as well
            self._drop(lost, in_transaction=False)

    def _commit(self, sql: str) -> Result:
        """COMMIT, by a name under which its outcome is learnt if the answer is lost."""
        wire = self._wire
        assert wire is not None
        cause: ConnectionLostError | Error
        request_id = ""
        begin = ""
        try:
            self._is_alone = False
            if chains(sql):
                begin = _begin_alike(wire)
            request_id = self._name(wire)
            self._unanswered, self._ends_block, self._chains = request_id, True, bool(begin)
            results = wire.run([named(step(sql), request_id)])
            self._unanswered = ""
            refused = refusal(results)
            if refused is None:
                self._settings.ended(committed=True)
                self._note(wire.parameter(COMMIT_POSITION))
                return RemoteResult(results[-1])
            cause = error_of(refused)
            if not self._is_elsewhere(cause):
                if is_old_name(cause):
                    self._position_until = 0.0  # the next one is to be newer
                self._settings.ended(committed=False)
                raise cause
        except ConnectionLostError as lost:
            cause = lost
        self._drop(cause, in_transaction=False)
        if not request_id:
            self._lost_at_commit(cause)
        deadline = time.monotonic() + self._options.failover_timeout_s
        if self._settle(request_id, cause, deadline) != "done":
            self._lost_at_commit(cause)
        self._settings.ended(committed=True)
        if begin:
            self._begin_next(begin, deadline)
        return Told("COMMIT")

    def _begin_next(self, begin: str, deadline: float) -> None:
        """The commit is done: begin the transaction that AND CHAIN asks for, or have it as a lost one."""
        try:
            wire = self._connected(deadline)
        except Error as error:
            raise no_answer(error, "done") from None
        try:
            self._catch_up(wire)
            checked(wire.run([step(begin)]))
        except ConnectionLostError as lost:
            self._drop(lost, in_transaction=True)
        except Error as error:
            self._drop(error, in_transaction=True)

    def _is_lost(self) -> bool:
        """Whether the open transaction was lost. What an interrupt has left is seen to first."""
        if self._unanswered:
            self._after_interrupt()
        elif self._wire is not None and self._wire.is_broken:
            self.status()
        return self._lost is not None

    def _after_interrupt(self) -> str:
        """An interrupt came before the answer to a commit: learn what became of it; it is not done later.

        Raises:
            OperationalError: 08007, it could not be learnt.
        """
        cause = ConnectionLostError("the commit was interrupted")
        self._drop(cause, in_transaction=False)
        outcome = self._settle(self._unanswered, cause, time.monotonic() + self._options.failover_timeout_s)
        if self._ends_block:
            self._settings.ended(committed=outcome == "done")
            self._lost = None if outcome == "done" and not self._chains else cause
        return outcome

    def _lost_at_commit(self, cause: Exception) -> None:
        self._settings.ended(committed=False)
        raise lost_transaction(cause)

    def _in_lost(self, kind: StatementKind, *, chained: bool = False) -> Result:
        """A statement in a transaction that was lost: only its end is taken.

        Args:
            chained: it asks for a transaction like this one, whose characteristics went with the connection.
        """
        assert self._lost is not None
        if not chained and kind in (StatementKind.ROLLBACK, StatementKind.COMMIT):
            lost, self._lost = self._lost, None
            if kind is StatementKind.COMMIT:
                raise lost_transaction(lost)
            return Told("ROLLBACK")
        raise lost_transaction(self._lost)

    def _name(self, wire: Wire) -> str:
        """A new name for a commit, which says after which position it was made."""
        now = time.monotonic()
        if now >= self._position_until or self._forks != _forks:
            (result,) = checked(wire.run([step("SELECT herdpy.commit_position()")]))
            self._names = f"{result.get_value(0, 0).decode()}/{secrets.token_urlsafe(12)}."
            self._forks = _forks
            self._position_until = now + POSITION_AGE_S
        return f"{self._names}{next(self._numbers)}"

    def _settle(self, request_id: str, cause: Exception, deadline: float) -> str:
        """What became of a commit: "done", or "not done" now and for ever.

        Raises:
            OperationalError: 08007, it could not be learnt.
        """
        try:
            with self._limit.off():  # the limit is the statement's; its outcome is worth waiting for
                outcome = self._settled(request_id, cause, deadline)
        except Error:  # it says that it is unknown
            self._unanswered = ""
            raise
        self._unanswered = ""
        return outcome

    def _settled(self, request_id: str, cause: Exception, deadline: float) -> str:
        while True:
            try:
                wire = self._connected(deadline)
                results = wire.run(
                    [step("SELECT herdpy.forbid_commit($1)", request_id)],
                    max(deadline, time.monotonic() + _COMMIT_PATIENCE_S),
                )
                refused = refusal(results)
                if refused is not None:
                    raise error_of(refused)
                answer: str = results[-1].get_value(0, 0).decode()
            except ConnectionLostError as lost:
                self._drop(lost, in_transaction=False)
            except Error as error:
                self._drop(error, in_transaction=False)
                if not self._is_elsewhere(error):
                    raise no_answer(f"{cause}; then: {error}", "unknown") from None
            else:
                if answer == "unknown":
                    raise no_answer(cause, "unknown")
                outcome, _space, position = answer.partition(" ")
                if outcome != "done":
                    return answer
                self._note(position)
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

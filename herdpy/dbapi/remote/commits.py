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
from herdpy.dbapi.remote.statements import Kind
from herdpy.dbapi.remote.values import RemoteResult, Told
from herdpy.dbapi.remote.wire import Wire

POSITION_AGE_S = 10.0
"""The position that names begin with is asked for again after so long."""
COMMIT_POSITION = "herdpy.commit_position"
"""Under this name a server reports where a named commit is."""
_COMMIT_PATIENCE_S = 5.0
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

    def commit(self) -> None:
        """Make the transaction's work last."""
        if self._lost is not None:
            raise lost_transaction(self._lost)
        if self.status() == TransactionStatus.INTRANS:
            self._commit("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction's work."""
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
        try:
            request_id = self._name(wire)
            results = wire.run([named(step(sql), request_id)])
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
        if "CHAIN" in sql.upper() and "NO" not in sql.upper():
            checked(self._connected(deadline).run([step("BEGIN")]))
        return Told("COMMIT")

    def _lost_at_commit(self, cause: Exception) -> None:
        self._settings.ended(committed=False)
        raise lost_transaction(cause)

    def _in_lost(self, kind: Kind) -> Result:
        """A statement in a transaction that was lost: only its end is taken."""
        assert self._lost is not None
        if kind in (Kind.ROLLBACK, Kind.COMMIT):
            lost, self._lost = self._lost, None
            if kind is Kind.COMMIT:
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
        with self._limit.off():  # the limit is the statement's; its outcome is worth waiting for
            return self._settled(request_id, cause, deadline)

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


def _in_child() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_in_child)

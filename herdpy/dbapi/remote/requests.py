"""Requests that are sent again where that is safe. Below ``remote``, above ``commits``.

A request goes through ``_request``: it is sent on the connection at hand; when that breaks, a leader is
found again, and

* where nothing of a transaction was done before it, and it commits nothing, it is sent again;
* where it commits, it was given a name, by which its outcome is learnt (``commits``), and it is sent
  again if it was not done;
* in the middle of a transaction that is lost, and said to be lost until it is rolled back.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from herdpy.dbapi.errors import Error
from herdpy.dbapi.link import Result, TransactionStatus
from herdpy.dbapi.remote.commits import COMMIT_POSITION, NamedCommits
from herdpy.dbapi.remote.connection import checked, refusal
from herdpy.dbapi.remote.errors import (
    ConnectionLostError,
    error_of,
    is_fatal,
    is_old_name,
    is_stale_plan,
    lost_transaction,
    no_answer,
)
from herdpy.dbapi.remote.sent import Request, Step, step
from herdpy.dbapi.remote.statements import (
    StatementKind,
    begins_transaction,
    chains,
    first_word,
    is_plain,
    returns_rows,
)
from herdpy.dbapi.remote.values import RemoteResult, Told

if TYPE_CHECKING:
    from herdpy.dbapi.parameters import Translation
    from herdpy.dbapi.remote.wire import Wire


class Requests(NamedCommits):
    """Sends statements, one request at a time."""

    def _request(
        self, sql: str, kind: StatementKind, wanted: Request, source: Translation | None
    ) -> list[Any] | Told:
        """Send statements, again where that is safe; their results, or what is told of lost ones."""
        if self.status() != TransactionStatus.IDLE:
            return self._within(sql, kind, wanted, source)
        deadline = 0.0
        renamed = False
        while True:
            wire = self._connected(deadline or time.monotonic() + self._options.failover_timeout_s)
            request_id = ""
            try:
                self._catch_up(wire)
                before: list[Step] = []
                if not self.autocommit and begins_transaction(sql):
                    before = [step("BEGIN")]
                self._is_alone = not before
                if kind is StatementKind.WRITE and not before:
                    request_id = self._name(wire)
                    self._unanswered, self._ends_block = request_id, False
                results = wanted.send(wire, before, request_id)
                self._unanswered = ""
                refused = refusal(results)
                if refused is None:
                    _learn(wire, sql, kind)
                    if request_id:
                        self._note(wire.parameter(COMMIT_POSITION))
                    return results
                error = error_of(refused, source)
            except ConnectionLostError as lost:
                cause: ConnectionLostError | Error = lost
            else:
                if not self._is_elsewhere(error):
                    if is_stale_plan(error) and wire.forget_prepared():
                        continue
                    if is_old_name(error) and not renamed:
                        # New as it is: the leader's clock has jumped ahead, and it has forgotten what was.
                        renamed, self._position_until = True, 0.0
                        continue
                    raise error from None
                cause = error
            self._drop(cause, in_transaction=False)
            deadline = deadline or time.monotonic() + self._options.failover_timeout_s
            if request_id:
                outcome = self._settle(request_id, cause, deadline)
                if outcome == "done":
                    if returns_rows(sql):
                        raise no_answer(cause, "done")
                    return Told(first_word(sql))
            elif kind is StatementKind.OTHER and not before and isinstance(cause, ConnectionLostError):
                raise no_answer(cause, "unknown")
            self._again_or_raise(cause, deadline)

    def _within(
        self, sql: str, kind: StatementKind, wanted: Request, source: Translation | None
    ) -> list[Any]:
        """Send statements of a transaction that is open: if the connection breaks, it is lost."""
        if self._wire is None:
            raise lost_transaction(self._lost)
        self._is_alone = False
        try:
            results = wanted.send(self._wire, [])
            refused = refusal(results)
            if refused is None:
                _learn(self._wire, sql, kind)
                return results
            error = error_of(refused, source)
            if is_stale_plan(error):
                self._wire.forget_prepared()  # the transaction has failed, but the next shall not
            if not (is_fatal(refused) or self._is_elsewhere(error)):
                raise error from None
            lost = ConnectionLostError(str(error))
        except ConnectionLostError as broken:
            lost = broken
        ends = kind is StatementKind.ROLLBACK and not chains(sql)  # what AND CHAIN would begin is lost, too
        self._drop(lost, in_transaction=not ends)
        if ends:
            return self._connected(time.monotonic() + self._options.failover_timeout_s).run(
                [step("ROLLBACK")]
            )
        raise lost_transaction(lost)

    def _script(self, text: str) -> list[Result]:
        """Several statements by the simple query."""
        idle = self.status() == TransactionStatus.IDLE
        plain = is_plain(text)
        deadline = time.monotonic() + self._options.failover_timeout_s
        while True:
            wire = self._connected(deadline)
            request_id = ""
            try:
                if idle:
                    self._catch_up(wire)
                if idle and not self.autocommit:
                    checked(wire.run([step("BEGIN")]))
                elif idle and plain:
                    request_id = self._name(wire)
                    self._unanswered, self._ends_block = request_id, False
                    checked(wire.run([step("SELECT herdpy.use_request_id($1)", request_id)]))
                self._is_alone = idle and self.autocommit
                results = wire.script(text)
                self._unanswered = ""
                refused = refusal(results)
                if refused is None:
                    if request_id:
                        self._note(wire.parameter(COMMIT_POSITION))
                    return [RemoteResult(result) for result in results]
                error = error_of(refused)
                if not (idle and plain and self._is_elsewhere(error)):
                    raise error from None
                cause: ConnectionLostError | Error = error
            except ConnectionLostError as lost:
                cause = lost
            self._drop(cause, in_transaction=not idle)
            if not idle:
                raise lost_transaction(cause) from None
            if not plain:
                raise no_answer(cause, "unknown") from None
            if request_id and self._settle(request_id, cause, deadline) == "done":
                raise no_answer(cause, "done") from None
            self._again_or_raise(cause, deadline)


def _learn(wire: Wire, sql: str, kind: StatementKind) -> None:
    """Prepare statements anew after a definition, and after a ROLLBACK that may have taken one back."""
    if kind is StatementKind.WRITE:
        if first_word(sql) in ("CREATE", "ALTER", "DROP"):
            wire.forget_prepared()
            wire.has_redefined = wire.status != TransactionStatus.IDLE
    elif wire.has_redefined and kind is not StatementKind.READ:
        wire.forget_prepared()
        wire.has_redefined = wire.status != TransactionStatus.IDLE

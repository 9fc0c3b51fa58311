"""Requests: what is sent to a server in one piece, and sent again where that is safe. Below ``link``.

A ``Request`` is statements, or a COPY with its data. ``RequestSender`` sends it on the open connection. When
that breaks, a leader is found again, and

* where nothing of a transaction was done before it, and it commits nothing, it is sent again;
* where it commits, it was given a name, by which its outcome is learnt (``commits``), and it is sent
  again if it was not done;
* in the middle of a transaction that is lost, and said to be lost until it is rolled back. As long as BEGIN
  is all that was sent on its connection, nothing is lost with it: BEGIN is sent again as well.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from psycopg import pq

from herdpy.dbapi.errors import Error, OperationalError
from herdpy.dbapi.link import StatementResult, TransactionStatus
from herdpy.dbapi.remote.commits import COMMIT_POSITION, NamedCommits
from herdpy.dbapi.remote.connection import FailoverConnection, checked, refusal
from herdpy.dbapi.remote.results import CompletedResult, RemoteResult
from herdpy.dbapi.remote.statements import (
    StatementKind,
    begins_transaction,
    chains,
    first_word,
    is_plain,
    returns_rows,
)
from herdpy.dbapi.remote.wire import (
    ConnectionLostError,
    Step,
    Wire,
    error_of,
    is_fatal,
    is_old_name,
    is_stale_plan,
    lost_transaction,
    named,
    no_answer,
    step,
)

if TYPE_CHECKING:
    from types import ModuleType

    from herdpy.dbapi.parameters import Translation


FEW_ROWS = 24
"""So many rows are sent one by one: it takes no longer."""
_COPIED = frozenset({"INSERT", "UPDATE", "DELETE"})
_DEFINES = frozenset({"CREATE", "ALTER", "DROP"})
_IDLE, _WRITE, _BEGIN = TransactionStatus.IDLE, StatementKind.WRITE, StatementKind.BEGIN
_GO_ON = frozenset({StatementKind.READ, StatementKind.WRITE, StatementKind.SESSION})


class Request(Protocol):
    """What a request is for, to be sent once, or again on another connection."""

    def send(self, wire: Wire, before: list[Step], request_id: str = "") -> list[Any]:
        """Send it with these steps before it; the results, of which the last may be an error.

        Args:
            request_id: the name of the commit that it is; "" when it is none, or one without a name.
        """


class Steps:
    """Statements, in one piece with those before them."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps

    def send(self, wire: Wire, before: list[Step], request_id: str = "") -> list[Any]:
        """See Request."""
        if not request_id:
            return wire.run([*before, *self._steps] if before else self._steps)
        first, *rest = self._steps
        return wire.run([*before, named(first, request_id), *rest])


def _run_before(wire: Wire, before: list[Step], request_id: str) -> list[Any]:
    """What comes before a COPY, which takes no parameters: so its name is a statement's of its own."""
    if request_id:
        before = [*before, step("SELECT herdpy.use_request_id($1)", request_id)]
    return wire.run(before) if before else []


class CopyIn:
    """A COPY ... FROM STDIN and its data, after those before it."""

    def __init__(self, sql: str, pieces: Sequence[Any]) -> None:
        self._sql = sql
        self._pieces = pieces

    def send(self, wire: Wire, before: list[Step], request_id: str = "") -> list[Any]:
        """See Request."""
        results = _run_before(wire, before, request_id)
        if results and results[-1].status == pq.ExecStatus.FATAL_ERROR:
            return results
        return [*results, wire.copy_in(self._sql, self._pieces)]


class CopyOut:
    """A COPY ... TO STDOUT, after those before it.

    Attributes:
        data: what came, in pieces.
    """

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self.data: list[bytes] = []

    def send(self, wire: Wire, before: list[Step], request_id: str = "") -> list[Any]:
        """See Request."""
        self.data.clear()  # of an attempt whose connection broke
        results = _run_before(wire, before, request_id)
        if results and results[-1].status == pq.ExecStatus.FATAL_ERROR:
            return results
        return [*results, wire.copy_out(self._sql, self.data.append)]


class RequestSender:
    """Sends statements, one request at a time, and again where that is safe."""

    def __init__(self, connection: FailoverConnection, commits: NamedCommits) -> None:
        self._connection = connection
        self._commits = commits
        self._begun: tuple[str, Wire, int] | None = None
        """The text of BEGIN, the connection that it was sent on, and how much that had sent then."""

    def send(
        self, sql: str, kind: StatementKind, wanted: Request, source: Translation | None
    ) -> list[Any] | CompletedResult:
        """Send a statement's request; its results, or what stands for them where the answer was lost."""
        if kind is not _BEGIN:
            return self._send(sql, kind, wanted, source)
        connection = self._connection
        idle = connection.status() == _IDLE
        results = self._send(sql, kind, wanted, source)
        wire = connection.wire
        self._begun = (sql, wire, wire.exchanges) if idle and wire is not None else None
        return results

    def _send(
        self, sql: str, kind: StatementKind, wanted: Request, source: Translation | None
    ) -> list[Any] | CompletedResult:
        """Send statements, again where that is safe; their results, or what stands for lost ones."""
        connection = self._connection
        if connection.status() != _IDLE:
            return self._within(sql, kind, wanted, source)
        deadline = 0.0
        renamed = False
        while True:
            wire = connection.wire or connection.connected(
                deadline or time.monotonic() + connection.options.failover_timeout_s
            )
            request_id = ""
            try:
                connection.catch_up(wire)
                before: list[Step] = []
                if not connection.autocommit and begins_transaction(sql):
                    before = [step("BEGIN")]
                connection.is_alone = not before
                if kind is _WRITE and not before:
                    request_id = self._commits.new_name(wire)
                    self._commits.expect(request_id, ends_block=False)
                results = wanted.send(wire, before, request_id)
                connection.unanswered = ""
                refused = refusal(results)
                if refused is None:
                    _learn(wire, sql, kind)
                    if request_id:
                        connection.note_commit(wire.parameter(COMMIT_POSITION))
                    return results
                error = error_of(refused, source)
            except ConnectionLostError as lost:
                cause: ConnectionLostError | Error = lost
            else:
                if not connection.is_elsewhere(error):
                    if is_stale_plan(error) and wire.forget_prepared():
                        continue
                    if is_old_name(error) and not renamed:
                        # New as it is: the leader's clock has jumped ahead, and it has forgotten what was.
                        renamed = True
                        self._commits.renew()
                        continue
                    raise error from None
                cause = error
            connection.drop(cause, in_transaction=False)
            deadline = deadline or time.monotonic() + connection.options.failover_timeout_s
            if request_id:
                outcome = self._commits.settle(request_id, cause, deadline)
                if outcome == "done":
                    if returns_rows(sql):
                        raise no_answer(cause, "done")
                    return CompletedResult(first_word(sql))
            elif kind is StatementKind.OTHER and not before and isinstance(cause, ConnectionLostError):
                raise no_answer(cause, "unknown")
            connection.pause_or_raise(cause, deadline)

    def _within(
        self, sql: str, kind: StatementKind, wanted: Request, source: Translation | None
    ) -> list[Any]:
        """Send statements of an open transaction; BEGIN again before them when only that was lost."""
        connection = self._connection
        begun, self._begun = self._begun, None
        is_first = begun is not None and begun[1] is connection.wire and begun[1].exchanges == begun[2]
        deadline = 0.0
        while True:
            try:
                return self._within_once(sql, kind, wanted, source)
            except OperationalError:
                if begun is None or not is_first or connection.lost is None or kind not in _GO_ON:
                    raise
            deadline = deadline or time.monotonic() + connection.options.failover_timeout_s
            self._begin_again(begun[0], deadline)

    def _begin_again(self, begin: str, deadline: float) -> None:
        """BEGIN on the server that leads now. Until then the transaction is lost, whatever is raised."""
        connection = self._connection
        while connection.lost is not None:
            connection.pause_or_raise(connection.lost, deadline)
            wire = connection.connected(deadline)
            try:
                connection.catch_up(wire)
                checked(wire.run([step(begin)]))
            except ConnectionLostError as again:
                connection.drop(again, in_transaction=True)
            else:
                connection.lost = None

    def _within_once(
        self, sql: str, kind: StatementKind, wanted: Request, source: Translation | None
    ) -> list[Any]:
        """Send statements of a transaction that is open: if the connection breaks, it is lost."""
        connection = self._connection
        if connection.wire is None:
            raise lost_transaction(connection.lost)
        connection.is_alone = False
        try:
            results = wanted.send(connection.wire, [])
            refused = refusal(results)
            if refused is None:
                _learn(connection.wire, sql, kind)
                return results
            error = error_of(refused, source)
            if is_stale_plan(error):
                connection.wire.forget_prepared()  # the transaction has failed, but the next shall not
            if not (is_fatal(refused) or connection.is_elsewhere(error)):
                raise error from None
            lost = ConnectionLostError(str(error))
        except ConnectionLostError as broken:
            lost = broken
        ends = kind is StatementKind.ROLLBACK and not chains(sql)  # what AND CHAIN would begin is lost, too
        connection.drop(lost, in_transaction=not ends)
        if ends:
            return connection.connected(time.monotonic() + connection.options.failover_timeout_s).run(
                [step("ROLLBACK")]
            )
        raise lost_transaction(lost)

    def script(self, text: str) -> list[StatementResult]:
        """Several statements by the simple query."""
        connection = self._connection
        idle = connection.status() == TransactionStatus.IDLE
        plain = is_plain(text)
        deadline = time.monotonic() + connection.options.failover_timeout_s
        while True:
            wire = connection.connected(deadline)
            request_id = ""
            try:
                if idle:
                    connection.catch_up(wire)
                if idle and not connection.autocommit:
                    checked(wire.run([step("BEGIN")]))
                elif idle and plain:
                    request_id = self._commits.new_name(wire)
                    self._commits.expect(request_id, ends_block=False)
                    checked(wire.run([step("SELECT herdpy.use_request_id($1)", request_id)]))
                connection.is_alone = idle and connection.autocommit
                results = wire.script(text)
                connection.unanswered = ""
                refused = refusal(results)
                if refused is None:
                    if request_id:
                        connection.note_commit(wire.parameter(COMMIT_POSITION))
                    return [RemoteResult(result) for result in results]
                error = error_of(refused)
                if not (idle and plain and connection.is_elsewhere(error)):
                    raise error from None
                cause: ConnectionLostError | Error = error
            except ConnectionLostError as lost:
                cause = lost
            connection.drop(cause, in_transaction=not idle)
            if not idle:
                raise lost_transaction(cause) from None
            if not plain:
                raise no_answer(cause, "unknown") from None
            if request_id and self._commits.settle(request_id, cause, deadline) == "done":
                raise no_answer(cause, "done") from None
            connection.pause_or_raise(cause, deadline)


def _learn(wire: Wire, sql: str, kind: StatementKind) -> None:
    """Prepare statements anew after a definition, and after a ROLLBACK that may have taken one back."""
    if kind is _WRITE:
        if first_word(sql) in _DEFINES:
            wire.forget_prepared()
            wire.has_redefined = wire.status != TransactionStatus.IDLE
    elif wire.has_redefined and kind is not StatementKind.READ:
        wire.forget_prepared()
        wire.has_redefined = wire.status != TransactionStatus.IDLE


def many_as_copy(sql: str, rows: Sequence[Sequence[object]]) -> CopyIn | None:
    """The COPY that runs ``sql`` for each of the rows; None when they are to go one by one.

    The server runs the statement for each row, or does what comes to the same (``COPY PARAMETERS``), and no
    row has messages of its own. Rows go one by one where they are few, where pyarrow is not installed, of
    statements that return rows or are none of INSERT, UPDATE and DELETE, and where a column has values of
    several types.
    """
    if len(rows) <= FEW_ROWS or first_word(sql) not in _COPIED or returns_rows(sql):
        return None
    arrow = _arrow()
    pieces = None if arrow is None else arrow.parameter_stream(rows)
    if pieces is None:
        return None
    quoted = sql.replace("'", "''")
    return CopyIn(f"COPY PARAMETERS OF '{quoted}' FROM STDIN (FORMAT arrow)", pieces)


def _arrow() -> ModuleType | None:
    """What makes columns of rows; None where pyarrow is not installed."""
    try:
        from herdpy.dbapi.remote import arrow
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        return None
    return arrow

"""The driver's link to servers: what a connection calls, sent as requests to the server that leads.

The top of this package. ``connection`` has the session, and the next one after a failover; ``commits`` ends
transactions with a certain outcome; ``requests`` sends again what may be sent again;
``results`` has the answers.

Rows that are wanted as Arrow are asked for by ``COPY (query) TO STDOUT (FORMAT arrow)``. COPY takes no
parameters, so they are written into the text as psycopg writes literals of them, with their types. What is no
query (SHOW, EXPLAIN, INSERT ... RETURNING) is run as it is, and its rows are made to Arrow here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from herdpy.dbapi import parameters
from herdpy.dbapi.errors import Error, NotSupportedError
from herdpy.dbapi.link import ArrowResult, Notice, Notification, StatementResult, TransactionStatus
from herdpy.dbapi.options import RemoteOptions
from herdpy.dbapi.remote.commits import NamedCommits
from herdpy.dbapi.remote.connection import FailoverConnection, checked
from herdpy.dbapi.remote.requests import CopyOut, Request, RequestSender, Steps, many_as_copy
from herdpy.dbapi.remote.results import BatchResult, CompletedResult, RemoteResult
from herdpy.dbapi.remote.statements import (
    StatementKind,
    chains,
    first_word,
    has_copy,
    kind_of,
    statements_of,
    without_end,
)
from herdpy.dbapi.remote.values import dump, literal
from herdpy.dbapi.remote.wire import ConnectionLostError, is_undone_by_failover, lost_transaction, step

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.dbapi.parameters import Translation

_QUERIES = frozenset({"SELECT", "VALUES", "TABLE", "WITH"})
_COPY, _AS_ARROW = "COPY (", "\n) TO STDOUT (FORMAT arrow)"


def open_link(options: RemoteOptions, *, autocommit: bool) -> RemoteLink:
    """Connect to the server that leads.

    Raises:
        OperationalError: 08001 none was found, 28xxx it does not let the user in, and its like.
    """
    if options.request_timeout_s is None:
        link = RemoteLink(options, autocommit)
    else:
        link = TimedLink(options, autocommit)
    link.connect()
    return link


class RemoteLink:
    """A session on the server that leads.

    Attributes:
        said: as of Link.
    """

    def __init__(self, options: RemoteOptions, autocommit: bool) -> None:
        self._options = options
        self._connection = FailoverConnection(options, autocommit)
        self._commits = NamedCommits(self._connection)
        self._sender = RequestSender(self._connection, self._commits)
        self.said: list[Any] = self._connection.said
        self.connect = self._connection.connect
        self.cancel = self._connection.cancel
        self.status = self._connection.status
        self.close = self._connection.close

    @property
    def autocommit(self) -> bool:
        """Whether a statement outside of BEGIN is its own transaction."""
        return self._connection.autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self._connection.autocommit = value

    @property
    def commit_position(self) -> str | None:
        """Of its newest commit, as far as a server has reported it."""
        return self._connection.commit_position

    def trace_as(self, traceparent: str) -> None:
        """From now on what is sent says that it is part of this trace; "" of none."""
        self._connection.limit.comment = f" /*traceparent='{traceparent}'*/" if traceparent else ""

    def commit(self) -> None:
        """Make the transaction's work last."""
        self._commits.commit()

    def rollback(self) -> None:
        """Undo the transaction's work.

        Raises:
            OperationalError: a COMMIT was interrupted before: it is done (08006), or nobody knows (08007).
        """
        self._commits.rollback()

    def execute(
        self, sql: str, params: Sequence[object] = (), source: Translation | None = None
    ) -> StatementResult:
        """Run one statement. ``source`` knows where in the caller's text an error's position is."""
        connection = self._connection
        kind = kind_of(sql)
        if self._commits.is_lost():
            return self._commits.end_lost(kind, chained=chains(sql))
        if kind is StatementKind.COPY:
            raise _no_copy()
        if kind is StatementKind.COMMIT and connection.status() == TransactionStatus.INTRANS:
            return self._commits.commit_as(sql)
        results = self._sender.send(sql, kind, Steps([(sql, dump(params))]), source)
        if isinstance(results, CompletedResult):
            return results
        result = RemoteResult(results[-1])
        if kind in (StatementKind.ROLLBACK, StatementKind.COMMIT):
            connection.settings.ended(committed=result.tag == "COMMIT")  # a failed one is rolled back
        elif kind is StatementKind.SETTING:
            connection.settings.ran(sql, in_transaction=connection.status() != TransactionStatus.IDLE)
            connection.sent_position = ""  # it may have been changed
        return result

    def execute_arrow(
        self, sql: str, params: Sequence[object] = (), source: Translation | None = None
    ) -> StatementResult:
        """Run one statement whose rows are wanted as Arrow alone."""
        kind = kind_of(sql)
        if self._commits.is_lost():
            return self._commits.end_lost(kind, chained=chains(sql))
        if first_word(sql) not in _QUERIES or kind is StatementKind.OTHER:
            request: Request = Steps([(sql, dump(params))])
            results = self._sender.send(sql, kind, request, source)
            if isinstance(results, CompletedResult):
                return results
            plain = RemoteResult(results[-1])
            return plain if plain.columns is None else ArrowResult(plain.tag, plain.arrow(), plain.columns)
        text = without_end(with_literals(sql, params))
        copy = CopyOut(_COPY + text + _AS_ARROW)
        results = self._sender.send(sql, kind, copy, None)
        if isinstance(results, CompletedResult):
            return results
        from herdpy.dbapi.remote.arrow import columns_of, read_stream

        table = read_stream(copy.data)
        return ArrowResult(f"SELECT {table.num_rows}", table, columns_of(table.schema))

    def execute_many(self, statement: Translation, rows: Iterable[Sequence[object]]) -> StatementResult:
        """Run one statement for each row of parameters: one request, and all or none of it happens."""
        if self._commits.is_lost():
            return self._commits.end_lost(StatementKind.WRITE)
        rows = rows if isinstance(rows, list) else list(rows)
        if not rows:
            return CompletedResult("", 0)
        sql = statement.sql
        load = many_as_copy(sql, rows)
        request = load or Steps([(sql, dump(row)) for row in rows])
        results = self._sender.send(sql, kind_of(sql), request, statement)
        if isinstance(results, CompletedResult):
            return results
        return RemoteResult(results[-1]) if load else BatchResult(results[-len(rows) :])

    def close_cursor(self, name: str) -> None:
        """Give a cursor of SQL up; one that is not there, or no longer, is no error."""
        connection = self._connection
        wire = connection.wire
        if wire is not None and not wire.is_broken:
            try:
                wire.close_portal(name, in_transaction=connection.status() == TransactionStatus.INTRANS)
            except ConnectionLostError as lost:  # and the cursor with it
                connection.drop(lost, in_transaction=connection.status() != TransactionStatus.IDLE)

    @contextlib.contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Statements within the block may take so long: then they end with 57014."""
        with self._connection.limit.within(seconds):
            try:
                yield
            except Error as error:
                if error.sqlstate == "57014" and self._connection.limit.is_up:
                    error.message = "canceling statement due to statement timeout"
                raise

    def take_notices(self) -> list[Notice]:
        """Empty ``said``; the server has left out what the session does not want to hear."""
        found: list[Notice] = self.said[:]
        self.said.clear()
        return found

    def take_notification(self, timeout_s: float) -> Notification | None:
        """The next notification; None when none has come within ``timeout_s``, or perhaps earlier.

        Raises:
            OperationalError: the server was lost, and with it the transaction (40001), or no other was found.
        """
        connection = self._connection
        if self._commits.is_lost():
            self._commits.end_lost(StatementKind.OTHER)
        if not connection.heard:
            wire = connection.connected(time.monotonic() + self._options.failover_timeout_s)
            try:
                wire.hear(timeout_s)
            except ConnectionLostError as lost:
                in_transaction = connection.status() != TransactionStatus.IDLE
                connection.drop(lost, in_transaction=in_transaction)
        return connection.heard.popleft() if connection.heard else None

    def execute_script(self, text: str) -> list[StatementResult]:
        """Run the statements of ``text``, one implicit transaction where none is open."""
        count = len(statements_of(text))
        if count <= 1:
            return [self.execute(without_end(text))] if count else []
        if self._commits.is_lost():
            return [self._commits.end_lost(StatementKind.OTHER)]
        if has_copy(text):
            raise _no_copy()
        return self._sender.script(text)

    def ingest(
        self,
        table: str,
        data: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        mode: str,
        within: str | None = None,
    ) -> int:
        """Load Arrow batches by COPY; all or none of it happens."""
        from herdpy.dbapi.remote.arrow import load

        connection = self._connection
        if self._commits.is_lost():
            self._commits.end_lost(StatementKind.WRITE)
        own = connection.status() == TransactionStatus.IDLE
        deadline = time.monotonic() + self._options.failover_timeout_s
        batches = list(data)
        while True:
            wire = connection.connected(deadline)
            cause: ConnectionLostError | Error
            try:
                if own:
                    checked(wire.run([step("BEGIN")]))
                count = load(wire, table, batches, schema, mode, within)
                if own and self.autocommit:
                    self.commit()
            except ConnectionLostError as lost:
                connection.drop(lost, in_transaction=not own)
                if not own:
                    raise lost_transaction(lost) from None
                cause = lost
            except Error as error:
                if own:
                    self.rollback()
                if not (own and is_undone_by_failover(error)):
                    raise
                connection.drop(error, in_transaction=False)
                cause = error
            else:
                return count
            connection.pause_or_raise(cause, deadline)


class TimedLink(RemoteLink):
    """A session whose calls end within ``request_timeout``, whatever becomes of servers.

    A call that was given its own time keeps that. When the time is up the statement is cancelled (57014).
    What became of a commit whose answer did not come is asked for all the same, within failover_timeout.
    """

    def __init__(self, options: RemoteOptions, autocommit: bool) -> None:
        super().__init__(options, autocommit)
        assert options.request_timeout_s is not None
        self._seconds = options.request_timeout_s

    def _timed(self) -> contextlib.AbstractContextManager[None]:
        if self._connection.limit.until is not None:
            return contextlib.nullcontext()
        return self.limited(self._seconds)

    def execute(
        self, sql: str, params: Sequence[object] = (), source: Translation | None = None
    ) -> StatementResult:
        """See Link."""
        with self._timed():
            return super().execute(sql, params, source)

    def execute_arrow(
        self, sql: str, params: Sequence[object] = (), source: Translation | None = None
    ) -> StatementResult:
        """See Link."""
        with self._timed():
            return super().execute_arrow(sql, params, source)

    def execute_many(self, statement: Translation, rows: Iterable[Sequence[object]]) -> StatementResult:
        """See Link."""
        with self._timed():
            return super().execute_many(statement, rows)

    def execute_script(self, text: str) -> list[StatementResult]:
        """See Link."""
        with self._timed():
            return super().execute_script(text)

    def ingest(
        self,
        table: str,
        data: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        mode: str,
        within: str | None = None,
    ) -> int:
        """See Link."""
        with self._timed():
            return super().ingest(table, data, schema, mode, within)

    def commit(self) -> None:
        """See Link."""
        with self._timed():
            super().commit()

    def rollback(self) -> None:
        """See Link."""
        with self._timed():
            super().rollback()


def with_literals(sql: str, params: Sequence[object]) -> str:
    """A statement with its parameters in place of ``$1``, ``$2`` ..."""
    if not params:
        return sql
    literals = [literal(one) for one in params]
    pieces, taken = [], 0
    for kind, start, end, match in parameters.tokens(sql, placeholders=False):
        if kind == parameters.DOLLAR:
            number = int(match.group()[1:])
            if 1 <= number <= len(literals):
                pieces += [sql[taken:start], literals[number - 1]]
                taken = end
    return "".join([*pieces, sql[taken:]])


def _no_copy() -> NotSupportedError:
    return NotSupportedError(
        "COPY to or from the client needs the server's protocol",
        sqlstate="0A000",
        hint="Arrow data can be loaded with ingest, and fetched as Arrow.",
    )

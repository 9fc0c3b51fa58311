"""What a connection to servers calls, said in requests to the one that leads.

The top of this package.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from herdpy.dbapi.errors import Error, NotSupportedError, OperationalError
from herdpy.dbapi.link import Result, TransactionStatus
from herdpy.dbapi.notices import Notice
from herdpy.dbapi.remote.begun import BegunTransactions
from herdpy.dbapi.remote.connection import checked
from herdpy.dbapi.remote.errors import ConnectionLostError, is_undone_by_failover, lost_transaction
from herdpy.dbapi.remote.gathered import Gathered
from herdpy.dbapi.remote.many import many_as_copy
from herdpy.dbapi.remote.options import RemoteOptions, remote_options
from herdpy.dbapi.remote.sent import Steps, step
from herdpy.dbapi.remote.statements import StatementKind, chains, has_copy, kind_of
from herdpy.dbapi.remote.values import RemoteResult, Told, dump
from herdpy.dbapi.remote.words import statements_of, without_end

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.dbapi.parameters import Translation


def open_link(options: RemoteOptions, *, autocommit: bool) -> RemoteLink:
    """Connect to the server that leads.

    Raises:
        OperationalError: 08001 none was found, 28xxx it does not let the user in, and its like.
    """
    if options.request_timeout_s is None:
        link = RemoteLink(options, autocommit)
    else:
        from herdpy.dbapi.remote.timed import TimedLink

        link = TimedLink(options, autocommit)
    link.connect()
    return link


class RemoteLink(BegunTransactions):
    """A session on the server that leads."""

    def execute(self, sql: str, params: Sequence[object] = (), source: Translation | None = None) -> Result:
        """Run one statement. ``source`` knows where in the caller's text an error's position is."""
        kind = kind_of(sql)
        if self._is_lost():
            return self._in_lost(kind, chained=chains(sql))
        if kind is StatementKind.COPY:
            raise _no_copy()
        if kind is StatementKind.COMMIT and self.status() == TransactionStatus.INTRANS:
            return self._commit(sql)
        results = self._request(sql, kind, Steps([(sql, dump(params))]), source)
        if isinstance(results, Told):
            return results
        result = RemoteResult(results[-1])
        if kind in (StatementKind.ROLLBACK, StatementKind.COMMIT):
            self._settings.ended(committed=result.tag == "COMMIT")  # a failed one is rolled back
        elif kind is StatementKind.SETTING:
            self._settings.ran(sql, in_transaction=self.status() != TransactionStatus.IDLE)
            self._named_position = ""  # it may have been changed
        return result

    def execute_many(self, statement: Translation, rows: Iterable[Sequence[object]]) -> Result:
        """Run one statement for each row of parameters: one request, and all or none of it happens."""
        if self._is_lost():
            return self._in_lost(StatementKind.WRITE)
        rows = rows if isinstance(rows, list) else list(rows)
        if not rows:
            return Told("", 0)
        sql = statement.sql
        load = many_as_copy(sql, rows)
        request = load or Steps([(sql, dump(row)) for row in rows])
        results = self._request(sql, kind_of(sql), request, statement)
        if isinstance(results, Told):
            return results
        return RemoteResult(results[-1]) if load else Gathered(results[-len(rows) :])

    def close_cursor(self, name: str) -> None:
        """Give a cursor of SQL up; one that is not there, or no longer, is no error."""
        wire = self._wire
        if wire is not None and not wire.is_broken:
            try:
                wire.close_portal(name, in_transaction=self.status() == TransactionStatus.INTRANS)
            except ConnectionLostError as lost:  # and the cursor with it
                self._drop(lost, in_transaction=self.status() != TransactionStatus.IDLE)

    @contextlib.contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Statements within the block may take so long: then they end with 57014."""
        with self._limit.within(seconds):
            try:
                yield
            except Error as error:
                if error.sqlstate == "57014" and self._limit.is_up:
                    error.message = "canceling statement due to statement timeout"
                raise

    def take_notices(self) -> list[Notice]:
        """Empty ``said``; the server has left out what the session does not want to hear."""
        found: list[Notice] = self.said[:]
        self.said.clear()
        return found

    def execute_script(self, text: str) -> list[Result]:
        """Run the statements of ``text``, one implicit transaction where none is open."""
        count = len(statements_of(text))
        if count <= 1:
            return [self.execute(without_end(text))] if count else []
        if self._is_lost():
            return [self._in_lost(StatementKind.OTHER)]
        if has_copy(text):
            raise _no_copy()
        return self._script(text)

    def ingest(
        self,
        table: str,
        data: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        mode: str,
        within: str | None = None,
    ) -> int:
        """Load Arrow batches by COPY; all or none of it happens."""
        from herdpy.dbapi.remote.load import load

        if self._is_lost():
            self._in_lost(StatementKind.WRITE)
        own = self.status() == TransactionStatus.IDLE
        deadline = time.monotonic() + self._options.failover_timeout_s
        batches = list(data)
        while True:
            wire = self._connected(deadline)
            cause: ConnectionLostError | Error
            try:
                if own:
                    checked(wire.run([step("BEGIN")]))
                count = load(wire, table, batches, schema, mode, within)
                if own and self.autocommit:
                    self.commit()
            except ConnectionLostError as lost:
                self._drop(lost, in_transaction=not own)
                if not own:
                    raise lost_transaction(lost) from None
                cause = lost
            except Error as error:
                if own:
                    self.rollback()
                if not (own and is_undone_by_failover(error)):
                    raise
                self._drop(error, in_transaction=False)
                cause = error
            else:
                return count
            self._again_or_raise(cause, deadline)


def _no_copy() -> NotSupportedError:
    return NotSupportedError(
        "COPY to or from the client needs the server's protocol",
        sqlstate="0A000",
        hint="Arrow data can be loaded with ingest, and fetched as Arrow.",
    )


__all__ = ["OperationalError", "RemoteLink", "open_link", "remote_options"]

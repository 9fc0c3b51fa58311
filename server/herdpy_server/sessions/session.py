"""What one connected client can do, with no transport in it: statements, transactions, bulk, cancel.

The top of the engine. The embedded driver and every door of a server use the same sessions. Every
coroutine runs in the engine's turn and awaits what happens elsewhere: locks, the log, DuckDB. How a
statement passes through is told in ``statements``; what a transaction is, in ``block``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from herdpy_server.sessions.admission import aborted, session_closed
from herdpy_server.sessions.patience import CANCELLED
from herdpy_server.sessions.quick import QuickStatements
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.simple import SimpleQuery
from herdpy_sql.errors import SqlError
from herdpy_sql.storage import MustWait

if TYPE_CHECKING:
    import pyarrow as pa


class Session(QuickStatements):
    """One client's conversation with a tablespace; see :class:`SessionBase` for its attributes."""

    async def execute(self, sql: str, params: Sequence[object] = ()) -> Result:
        """Run a statement with its ``$1`` parameters; of several without parameters the last answers.

        Raises:
            SqlError: whatever went wrong; its ``outcome`` says what became of the statement.
        """
        self._patience.begin(self.settings.statement_timeout_s)
        statements = self.plans.statements(sql)
        if len(statements) == 1:
            if self.transaction is None and self.autocommit:
                answer = await self._at_once(statements[0], params)
                if answer is not None:
                    return await self._whole(answer)
            return await self._whole(self._without_copy(await self._statement(statements[0], params)))
        if params:
            raise SqlError("42601", "cannot insert multiple commands into a prepared statement")
        results = await self.execute_all(sql)
        return results[-1] if results else Result("", -1)

    async def _whole(self, answer: Result) -> Result:
        """Nobody takes rows bit by bit here."""
        return answer if answer.stream is None else await answer.stream.whole()

    def _without_copy(self, answer: Result) -> Result:
        """Nobody moves COPY's data here."""
        if answer.copy is not None:
            self.abort()
            raise SqlError(
                "0A000",
                "COPY to or from the client needs the server's protocol",
                hint="Arrow data can be loaded with ingest, and fetched as Arrow.",
            )
        return answer

    async def execute_all(self, sql: str) -> list[Result]:
        """Run every statement of ``sql``, as one transaction unless it says BEGIN or COMMIT itself."""
        results: list[Result] = []
        statements = self.plans.statements(sql)
        try:
            for statement in statements:
                self._patience.begin(self.settings.statement_timeout_s)
                if self.transaction is None and len(statements) > 1:
                    self.begin()
                    self.implicit = self.autocommit
                answer = self._without_copy(await self._statement(statement, ()))
                results.append(await self._whole(answer))
        except BaseException:
            if self.implicit:
                await self.rollback()
            raise
        if self.implicit:
            await self.commit()
        return results

    def simple_query(self, sql: str) -> SimpleQuery:
        """The statements of ``sql``, to be run one by one by its ``step``.

        Raises:
            SqlError: 42601, a statement cannot be parsed: none has been run. 54000, it is too long.
        """
        try:
            self.allowed.check_text(sql)
            statements = self.plans.statements(sql)
            if len(statements) > 1 or self.failed:
                for statement in statements:
                    statement.check_syntax()
        except SqlError as error:
            if self.observer is not None:
                self.observer(sql, 0.0, -1, error)
            self.abort()
            raise
        return SimpleQuery(self, statements, sql)

    async def execute_many(self, sql: str, rows: Iterable[Sequence[object]]) -> Result:
        """Run one statement for every row of parameters: all or none of it, one group commit."""
        self._patience.begin(self.settings.statement_timeout_s)
        statements = self.plans.statements(sql)
        if len(statements) != 1:
            raise SqlError("42601", "executemany takes one statement")
        rows = rows if isinstance(rows, list) else list(rows)
        if not rows:
            return Result("", 0)
        return await self._statement(statements[0], rows, many=True)

    async def ingest(
        self,
        table: str,
        data: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        mode: str,
        within: str | None = None,
    ) -> int:
        """Load Arrow batches into a table; all or none of it. Returns the number of rows.

        Args:
            mode: "create" the table from the schema, "append" to it, "replace" it, "create_append".
            within: the table's schema, "pg_temp" for a temporary table; None for the search path.

        Raises:
            SqlError: 42P07, 42P01, 3F000, 42703 where table or columns do not fit the mode; 23xxx and 22xxx
                where a row does not fit the table.
        """
        from herdpy_server.sessions.bulk import Loader, target

        self._patience.begin(self.settings.statement_timeout_s)
        if self._closed:
            raise session_closed()
        if self.failed:
            raise aborted()
        if within == "pg_temp":
            self.make_temporary_schema()
        own = self.transaction is None
        if own:
            self.begin()
        assert self.transaction is not None
        transaction = self.transaction
        mark = transaction.workspace.mark()
        try:
            await self._room()
            transaction.begin_statement()
            while True:
                try:
                    self._may_write("CREATE TABLE" if mode != "append" else "INSERT")
                    made = target(transaction, table, schema, mode, within)
                    loader = Loader(transaction, made, schema, self.settings.zone)
                    break
                except MustWait as conflict:
                    transaction.workspace.undo(mark)
                    await self._wait_for_lock(transaction, conflict)
            count = await loader.load(data, lambda c: self._wait_for_lock(transaction, c))
            await loader.finish(lambda c: self._wait_for_lock(transaction, c))
            if not (own and self.autocommit):
                await self._durable(None, transaction.workspace)
        except BaseException as error:
            transaction.workspace.undo(mark)
            if own:
                await self.rollback()
            else:
                self.failed = True
            await self._confirm(error, transaction.workspace)
            raise
        if own and self.autocommit:
            await self.commit()
        return count

    async def close(self) -> None:
        """Roll back what is open. The session is of no further use."""
        self.shut()
        await self.rollback()
        self.drop_portals()
        self.drop_temporary()
        if self.advisory is not None:
            self.advisory.close()

    def shut(self) -> None:
        """Begin no more statements, and end one that waits; within the engine's turn."""
        self._closed = True
        self._end_waiting(SqlError("57P01", "the statement was ended: its session was closed"))

    def cancel(self) -> None:
        """End the running statement with SQLSTATE 57014; from any thread. A commit is not undone."""
        self._end_waiting(SqlError("57014", CANCELLED))

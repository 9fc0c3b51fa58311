"""What one connected client can do, with no transport in it: statements, transactions, loads, cancel.

The top of the engine. The embedded driver and every front end of a server use the same sessions. A session
is a :class:`TransactionBlock`, its state, which it gives to its parts: ``execution`` runs statements,
``queries`` sends queries to the columnar engine, ``cursors`` keeps answers. Every coroutine runs in the
engine's turn and awaits what happens elsewhere: locks, the log, DuckDB.

A client asks in one of three ways: ``execute`` (a text with Python's parameters), ``simple_query`` (a text
of several statements, answered one by one), or parse, bind and execute in steps of their own. In the last,
parse gives a prepared statement, bind a portal with datums, execute its answer, whole or in parts; all is
synchronous but for execute, so that a door can answer many small messages at once. An error of any step is
one of the
transaction too: an implicit one is undone, one that BEGIN began has failed.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine, Iterable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from herdpy_server.sessions.backend_queries import BackendQueries
from herdpy_server.sessions.binding import ENDING, Bindable, Binding, aborted, session_closed
from herdpy_server.sessions.block import TransactionBlock
from herdpy_server.sessions.commands import CONTROLS
from herdpy_server.sessions.execution import Answering, Begun, Execution
from herdpy_server.sessions.flashback import past_state
from herdpy_server.sessions.plans import (
    ParameterCountError,
    PlanCache,
    Prepared,
    PreparedStatement,
    ReadyPlan,
    StatementDescription,
    no_statement,
)
from herdpy_server.sessions.portals import Cursors, Portal, no_portal
from herdpy_server.sessions.request_ids import name_in, without_name
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.waits import CANCELLED
from herdpy_server.tablespace import Tablespace, Transaction
from herdpy_sql.columnar import Limits
from herdpy_sql.errors import SqlError
from herdpy_sql.parse import moment_read, split
from herdpy_sql.plan import Begin, Commit, Execute, Fetch, Rollback
from herdpy_sql.storage import MustWait

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.plans import Declared
    from herdpy_server.tablespace.past import PastState
    from herdpy_sql.plan import OutputColumn
    from herdpy_sql.types import SqlType

_PARAMETER = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\d+)""")


class Session(TransactionBlock):
    """One client's conversation with a tablespace; see :class:`TransactionBlock` for its state.

    Attributes:
        execution, queries, cursors: see above.
    """

    def __init__(self, tablespace: Tablespace, plans: PlanCache, limits: Limits) -> None:
        super().__init__(tablespace, plans)
        self.cursors = Cursors(self, limits.temp_directory)
        self.queries = BackendQueries(self, self.cursors, limits)
        self._held_past: PastState | None = None  # what the next text that is parsed reads
        self.execution = Execution(self, Binding(self), self.cursors, self.queries, CONTROLS)

    # A text, with Python's parameters.

    async def execute(self, sql: str, params: Sequence[object] = ()) -> Result:
        """Run a statement with its ``$1`` parameters; of several without parameters the last answers.

        Raises:
            SqlError: whatever went wrong; its ``outcome`` says what became of the statement.
        """
        self.waits.begin_statement()
        statements = self.plans.statements(sql)
        if len(statements) == 1:
            answer = await self.execution.statement(statements[0], params)
            if answer.stream is None and answer.copy is None:
                return answer
            return await self._whole(answer)
        if params:
            raise SqlError("42601", "cannot insert multiple commands into a prepared statement")
        results = await self.execute_all(sql)
        return results[-1] if results else Result("", -1)

    async def _whole(self, answer: Result) -> Result:
        """An answer that is all here: nobody takes rows bit by bit here, and nobody moves COPY's data."""
        if answer.copy is not None:
            self.abort()
            raise SqlError(
                "0A000",
                "COPY to or from the client needs the server's protocol",
                hint="Arrow data can be loaded with ingest, and fetched as Arrow.",
            )
        return answer if answer.stream is None else await answer.stream.whole()

    async def execute_all(self, sql: str) -> list[Result]:
        """Run every statement of ``sql``, as one transaction unless it says BEGIN or COMMIT itself."""
        results: list[Result] = []
        failure: BaseException | None = None
        statements = self.plans.statements(sql)
        try:
            for statement in statements:
                self.waits.begin_statement()
                if self.transaction is None and len(statements) > 1:
                    self.begin()
                    self.implicit = self.autocommit
                results.append(await self._whole(await self.execution.statement(statement, ())))
        except BaseException as error:  # noqa: BLE001 - raised below: compiled code awaits in no handler
            failure = error
        if failure is not None:
            if self.implicit:
                await self.rollback()
            try:
                raise failure
            finally:
                del failure  # it has this frame
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
        self.waits.begin_statement()
        statements = self.plans.statements(sql)
        if len(statements) != 1:
            raise SqlError("42601", "executemany takes one statement")
        rows = rows if isinstance(rows, list) else list(rows)
        if not rows:
            return Result("", 0)
        return await self.execution.statement(statements[0], rows, many=True)

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

        self.waits.begin_statement()
        if self.waits.is_closed:
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
        failure: BaseException | None = None
        try:
            await self.waits.room()
            transaction.begin_statement()
            while True:
                try:
                    self.check_writable("CREATE TABLE" if mode != "append" else "INSERT")
                    made = target(transaction, table, schema, mode, within)
                    loader = Loader(transaction, made, schema, self.settings.style)
                    break
                except MustWait as conflict:
                    transaction.workspace.undo(mark)
                    met = conflict
                await self.waits.for_lock(transaction, met)
            count = await loader.load(data, lambda c: self.waits.for_lock(transaction, c))
            await loader.finish(lambda c: self.waits.for_lock(transaction, c))
            if not (own and self.autocommit):
                await self.checks.durable(None, transaction.workspace)
        except BaseException as error:  # noqa: BLE001 - raised below: compiled code awaits in no handler
            failure = error
        if failure is not None:
            transaction.workspace.undo(mark)
            if own:
                await self.rollback()
            else:
                self.fail()
            await self.checks.confirm(failure, transaction.workspace)
            try:
                raise failure
            finally:
                del failure  # it has this frame
        if own and self.autocommit:
            await self.commit()
        return count

    # A statement of a door.

    def run(
        self,
        statement: Bindable,
        params: Sequence[object],
        *,
        text: str = "",
        source: str = "",
        request_id: bytes = b"",
        pipelined: bool = False,
        ends: bool = False,
    ) -> Answering:
        """Run one statement that a client has sent. Its error is one of the transaction, too.

        Args:
            text: it, where the client wrote it otherwise.
            source: all that came in one piece with the statement; "": nothing else.
            request_id: the name that it brought for the commit that it is, or is part of.
            pipelined: others may follow before a Sync: outside of BEGIN it begins a transaction that ends
                with that.
            ends: with it an implicit transaction ends.

        Returns:
            The answer where it is there already, else what gives it, and raises SqlError: whatever went
            wrong. The observer was called.
        """
        self.begins(text or statement.text)
        if source:
            self.source = source
        if request_id:
            self.settings.name_commit(request_id)
        began = perf_counter() if self.observer is not None else 0.0
        step: Answering
        try:
            if pipelined and self.transaction is None and self.autocommit:
                step = self._in_pipeline(statement, params)
            else:
                step = self.execution.statement(statement, params)
        except BaseException:
            self.is_running = False
            self.abort()
            raise
        if type(step) is not Result or request_id or (ends and self.implicit):
            return self._ran(statement, step, began, request_id=request_id, ends=ends)
        self.is_running = False
        if self.observer is not None:
            self.observer(statement.text, perf_counter() - began, step.rowcount, None)
        return step

    def carry_on(
        self,
        statement: Bindable,
        params: Sequence[object],
        ready: ReadyPlan,
        begun: Begun,
        began_s: float,
        own: Transaction | None = None,
    ) -> Coroutine[Any, Any, Result]:
        """Go on with a point statement that has begun otherwise than by :meth:`run`.

        Args:
            params: its datums. ready: its plan. begun: how far it has come.
            began_s: when it began, by ``perf_counter``, where there is an observer.
            own: its own transaction; None: it is one of the open transaction.
        """
        self.begins(statement.text)
        step = self.execution.carry_on(statement, params, ready, begun, own)
        return self._ran(statement, step, began_s, request_id=b"", ends=False)

    async def _ran(
        self, statement: Bindable, step: Answering, began: float, *, request_id: bytes, ends: bool
    ) -> Result:
        """What :meth:`run` leaves to be done once a statement has its answer, or has failed."""
        observer = self.observer
        try:
            answer = await step
            if ends and self.implicit:
                await self._end_with(answer)
        except BaseException as error:
            if observer is not None:
                observer(statement.text, perf_counter() - began, -1, error)
            self.abort()
            raise
        finally:
            self.is_running = False
            if request_id and self.transaction is None:
                self.settings.take_request_id()  # of what changed nothing: no other commit is to have it
        if observer is not None and not answer.is_under_way:
            observer(statement.text, perf_counter() - began, answer.rowcount, None)
        return answer

    async def _end_with(self, answer: Result) -> None:
        """The implicit transaction ends with this answer, which may still be under way."""
        if answer.copy is not None:
            answer.copy.commits = True
        elif answer.stream is not None:
            answer.stream.commits = True
        else:
            await self.commit()

    async def _in_pipeline(self, statement: Bindable, params: Sequence[object]) -> Result:
        """Run a statement where no transaction is open, but others may follow before a Sync."""
        ready = statement.ready if statement.as_of is not None else None
        if ready is None:
            ready, _ = statement.bound(self.catalog, self.settings.engine, params)  # type: ignore[arg-type]
        is_control = type(ready.plan) in CONTROLS
        if not is_control:
            self._begin_pipeline()
        answer = await self.execution.statement(statement, params)
        if is_control and self.transaction is None and not isinstance(ready.plan, Begin | Commit | Rollback):
            # What comes next in the pipeline is in one transaction, as if this had been too.
            self._begin_pipeline()
        return answer

    def _begin_pipeline(self) -> None:
        self.begin()
        self.implicit = self.pipelined = True

    def runs_alone(self, statement: PreparedStatement) -> bool:
        """Whether Bind, Execute and Sync of a prepared statement are one step: a point statement, whose plan
        is ready, and no error or pipeline before it."""
        ready = statement.ready
        return (
            ready is not None
            and ready.plan.brief
            and not self.failed
            and not self.implicit
            and ready.catalog is self.catalog
            and ready.engine == self.settings.engine
        )

    # In steps: prepared statements and portals.

    async def hold_past(self, sql: str) -> None:
        """Before ``parse`` of a text with AS OF SYSTEM TIME: have the definitions that it reads.

        SqlError as ``past_state``.
        """
        self._held_past = None
        if self.failed:
            return
        statements = split(without_name(sql)[0])
        moment = moment_read(statements[0]) if len(statements) == 1 else None
        if moment is not None:
            self.waits.begin_statement()
            self._held_past = await past_state(self, moment)

    def parse(self, name: str, sql: str, declared: Declared = ()) -> None:
        """Prepare ``sql`` under ``name``; "" is the unnamed statement, which the next one replaces.

        Args:
            declared: the types of $1, $2 ... that the client gives; None or UNKNOWN: to be inferred.

        Raises:
            SqlError: 42601 it is not one statement, 42P05 the name is taken, 42P18 nothing says what
                type a parameter has, 25P02 the transaction has failed, 54000 and 53400 for limits,
                and all that planning raises.
        """
        try:
            if not name:
                self.prepared.pop("", None)
            self.allowed.check_text(sql)
            sql, named = without_name(sql)
            if named:
                declared = declared[: named - 1]
            prepared = self.plans.typed(sql, declared)
            if self.failed and prepared is not None and prepared.keyword not in ENDING:
                prepared.check_syntax()
                raise aborted()
            catalog, past, self._held_past = self.catalog, self._held_past, None
            if past is not None and prepared is not None and prepared.as_of is not None:
                catalog = catalog.reading(past.catalog)
            statement = PreparedStatement(self.plans, sql, prepared, catalog, self.settings.engine)
            if len(statement.param_types) > len(declared):
                _no_gaps(statement, len(declared))
            if named:
                statement.take_name(named)
            if name:
                if name in self.prepared:
                    raise SqlError("42P05", f'prepared statement "{name}" already exists')
                self.allowed.check_statements(len(self.prepared))
            self.prepared[name] = statement
        except SqlError as error:
            if self.observer is not None:
                self.observer(sql, 0.0, -1, error)
            self.abort()
            raise

    def bind(self, portal: str, statement: str, datums: tuple[Datum, ...] = ()) -> None:
        """Make a portal of a prepared statement and its parameters; "" is replaced, others may not be there.

        Raises:
            SqlError: 26000 no such statement, 08P01 another number of parameters, 42P03 there is such
                a portal, 25P02, 53400, and what planning raises when the catalog has changed.
        """
        try:
            found = self.prepared.get(statement)
            if found is None:
                raise no_statement(statement)
            if len(datums) != len(found.param_types):
                raise SqlError(
                    "08P01",
                    f"bind message supplies {len(datums)} parameters, but prepared statement "
                    f'"{statement}" requires {len(found.param_types)}',
                )
            request_id = b""
            if found.named and not self.failed:
                request_id, datums = name_in(datums[-1]), datums[:-1]
            if self.failed:
                if (found.statement is not None and found.keyword not in ENDING) or datums:
                    raise aborted()
            elif found.statement is not None and found.as_of is None:
                found.bound(self.catalog, self.settings.engine, datums)
            if portal:
                if portal in self.portals:
                    raise SqlError("42P03", f'cursor "{portal}" already exists')
                self.allowed.check_portals(len(self.portals))
            found.binds += 1
            self.drop_portal(portal)
            self.portals[portal] = made = Portal(portal, found, datums)
            made.depth = len(self.savepoints)
            made.request_id = request_id
        except SqlError:
            self.abort()
            raise

    def param_types(self, statement: str) -> tuple[SqlType, ...]:
        """The types of a prepared statement's parameters. SqlError 26000."""
        found = self.prepared.get(statement)
        if found is None:
            self.abort()
            raise no_statement(statement)
        return found.param_types

    def describe_statement(self, name: str) -> StatementDescription:
        """What a prepared statement takes and returns. SqlError 26000, 25P02."""
        found = self.prepared.get(name)
        if found is None:
            self.abort()
            raise no_statement(name)
        return self._described(found)

    def describe_portal(self, name: str) -> StatementDescription:
        """What a portal returns. SqlError 34000, 25P02."""
        found = self.portals.get(name)
        if found is None:
            self.abort()
            raise no_portal(name)
        if found.statement is not None:
            return self._described(found.statement)
        if self.failed:
            raise aborted()
        return StatementDescription((), found.columns, "SELECT")

    def _described(self, statement: PreparedStatement) -> StatementDescription:
        columns = statement.columns
        if columns is None:
            columns = self._columns_elsewhere(statement)
        if self.failed and columns is not None:
            raise aborted()
        return StatementDescription(statement.param_types, columns, statement.keyword)

    def _columns_elsewhere(self, statement: PreparedStatement) -> tuple[OutputColumn, ...] | None:
        """The columns of a statement whose rows are those of another one that the session keeps."""
        if statement.statement is None:
            return None
        plan = statement.plan_now
        if isinstance(plan, Execute):
            other = self.prepared.get(plan.name)
            return None if other is None else other.columns
        if isinstance(plan, Fetch) and not plan.move:
            portal = self.portals.get(plan.name)
            return None if portal is None else portal.columns
        return None

    async def execute_portal(self, name: str, max_rows: int = 0, *, ends: bool = False) -> Result:
        """Run a portal, or go on with it.

        Args:
            max_rows: return no more rows than that; 0: all.
            ends: nothing else comes before :meth:`sync`, so outside BEGIN the statement is a
                transaction of its own. Otherwise it begins one that ends with ``sync``.

        Returns:
            The rows; ``is_complete`` False when there may be more. Of an empty statement one whose tag is "".

        Raises:
            SqlError: 34000 no such portal, 55000 it ran and returns no rows, 25P02, and whatever the
                statement raises.
        """
        portal = self.portals.get(name)
        if portal is None:
            self.abort()
            raise no_portal(name)
        statement = portal.statement
        if statement is None or portal.has_run or portal.spent:
            return self._go_on(portal, max_rows)
        if statement.statement is None:
            return Result("", -1)
        answer = await self.run(statement, portal.datums, request_id=portal.request_id, pipelined=not ends)
        portal.spent = True
        if max_rows > 0 and answer.columns is not None:
            self.cursors.hold(portal, answer)
            return portal.more(self, max_rows)
        return answer

    def _go_on(self, portal: Portal, max_rows: int) -> Result:
        """An Execute of a portal that ran already."""
        try:
            if self.failed:
                raise aborted()
            if portal.columns is None:
                raise SqlError("55000", f'portal "{portal.name}" cannot be run')
            if not portal.has_run and portal.statement is not None:
                return Result(portal.statement.plan_now, 0, portal.columns, [])
            if portal.buffer is not None and portal.statement is not None:
                self.begins(portal.statement.text)
            return portal.more(self, max_rows)
        except SqlError:
            self.abort()
            raise

    def close_statement(self, name: str) -> None:
        """Forget a prepared statement; one that is not there is no error."""
        self.prepared.pop(name, None)

    def close_portal(self, name: str) -> None:
        """Forget a portal; one that is not there is no error."""
        self.drop_portal(name)

    def sync_now(self) -> bool:
        """As :meth:`sync` where nothing need be waited for; False when it must be awaited instead."""
        if self.transaction is None:
            if self.portals:
                self.end_portals(committed=True)
            return True
        return not self.implicit

    async def settled(self, error: SqlError) -> None:
        """Before an error of ``parse``, ``bind`` or a description is sent: what it says of tables is durable,
        and as new as the session's read level wants it.

        Raises:
            SqlError: to be sent instead: 40001, a definition that it rests on was lost; HP003, 57P03, this
                replica cannot say what there is.
        """
        await self.checks.durable_definitions(error)

    async def sync(self) -> None:
        """End the transaction that statements began since the last one, unless one of them said BEGIN.

        Raises:
            SqlError: what became of its commit.
        """
        if not self.sync_now():
            await self.commit()

    # Its end.

    async def close(self) -> None:
        """Roll back what is open. The session is of no further use."""
        self.shut()
        await self.rollback()
        self.drop_portals()
        self.drop_temporary()
        if self.advisory is not None:
            self.advisory.close()
        if self.channels is not None:
            self.channels.close()

    def shut(self) -> None:
        """Begin no more statements, and end one that waits; within the engine's turn."""
        self.waits.is_closed = True
        self.waits.end(SqlError("57P01", "the statement was ended: its session was closed"))

    def cancel(self) -> None:
        """End the running statement with SQLSTATE 57014; from any thread. A commit is not undone."""
        self.waits.end(SqlError("57014", CANCELLED))


def _no_gaps(statement: PreparedStatement, declared: int) -> None:
    """SqlError 42P18 for a parameter that the statement leaves out, and so nothing says its type."""
    assert statement.statement is not None
    used = {int(number) for number in _PARAMETER.findall(statement.statement.clean) if number}
    for number in range(declared + 1, len(statement.param_types) + 1):
        if number not in used:
            raise SqlError("42P18", f"could not determine data type of parameter ${number}")


class SimpleQuery:
    """The statements of one text, taken step by step. Left in the middle, it needs :meth:`Session.abort`.

    Attributes:
        commits_apart: the implicit transaction is left open after the last step, for :meth:`Session.commit`.
    """

    __slots__ = ("_at", "_session", "_statements", "_text", "commits_apart")

    def __init__(self, session: Session, statements: tuple[Prepared, ...], text: str) -> None:
        self._session = session
        self._text = text
        self._statements = statements
        self._at = 0
        self.commits_apart = False

    @property
    def keywords(self) -> tuple[str, ...]:
        """The first word of each statement, in capitals."""
        return tuple(one.keyword for one in self._statements)

    @property
    def is_empty(self) -> bool:
        """Whether there is no statement in the text at all."""
        return not self._statements

    async def step(self) -> Result | None:
        """The answer of the next statement, or None when there was none left.

        With the last statement's answer its implicit transaction is committed. An error ends the query:
        an implicit transaction is undone, one that BEGIN began has failed.
        """
        session, at = self._session, self._at
        if at == len(self._statements):
            return None
        self._at = at + 1
        statement, is_last = self._statements[at], self._at == len(self._statements)
        is_block = len(self._statements) > 1 or self.commits_apart
        if is_block and session.transaction is None and session.autocommit:
            session.begin()
            session.implicit = True
        try:
            return await session.run(
                statement, (), source=self._text, ends=is_last and not self.commits_apart
            )
        except ParameterCountError as error:
            raise SqlError("42P02", "there is no parameter $1") from error

    def __aiter__(self) -> SimpleQuery:
        return self

    async def __anext__(self) -> Result:
        answer = await self.step()
        if answer is None:
            raise StopAsyncIteration
        return answer

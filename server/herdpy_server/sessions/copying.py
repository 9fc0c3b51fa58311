"""COPY as a session sees it: where its data goes, and where it comes from.

Above ``execution`` and ``bulk``; in the table of ``commands``. The formats are ``herdpy_server.copy``'s;
here are the table, the transaction and the count of rows. A door is given a :class:`CopySink` or a
:class:`CopySource` with the statement's answer, and moves the data; the statement is over when ``finish``
has returned.

COPY PARAMETERS OF runs one statement for each row of parameters that the client sends. What each row means
is what the statement means when it is bound with these parameters and run; and that is how rows are run
(:meth:`ParameterSink._by_rows`). An INSERT whose values are its parameters goes a shorter way, a slice of
columns at a time, as loads do. That way is only taken to the end where it is certain to come to the same:
at the first doubt or error the slice is run row by row instead, which gives the error of the row that it is
in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pyarrow as pa

from herdpy.log.wait import Pause
from herdpy_server.copy import CopyDataForm, CopyReader, CopyTarget, reader
from herdpy_server.copy.parameters import Parameter, ParameterReader
from herdpy_server.sessions.binding import BoundStatement, redefined
from herdpy_server.sessions.bulk import Loader
from herdpy_server.sessions.column_inserts import ColumnWriter, Insertion, insertion_of
from herdpy_server.sessions.plans import PreparedStatement, shape_of
from herdpy_server.sessions.query_backend import MadeExport, WholeAnswer
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.time_slices import SLICE_S, TooLong
from herdpy_sql.errors import SqlError
from herdpy_sql.storage import BATCH_ROWS, MustWait

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.execution import Execution
    from herdpy_server.sessions.result import RowStream
    from herdpy_sql.plan import Plan
    from herdpy_sql.plan.copying import CopyFrom, CopyParameters, CopyTo


class _Copy:
    """What both directions have.

    Attributes:
        columns: how many columns the data has.
        is_binary: whether the data is bytes and not text.
        rows: how many there were so far.
        commits: it is the last statement of an implicit transaction, and ends it.
    """

    def __init__(
        self, session: TransactionBlock, plan: CopyFrom | CopyTo | CopyParameters, target: CopyTarget
    ) -> None:
        self._session = session
        self._tag = plan.command_tag
        self._target = target
        self._text, self._began = session.text, perf_counter()
        self.columns = len(target.columns)
        self.is_binary = target.options.is_binary
        self.rows = 0
        self.commits = False

    async def _complete(self) -> str:
        session = self._session
        if self.commits and session.implicit:
            await session.commit()
        self._over(None)
        return self._tag(self.rows)

    def _over(self, error: BaseException | None) -> None:
        session = self._session
        session.is_running = False
        if error is not None:
            session.abort()
        if session.observer is not None:
            rows = -1 if error is not None else self.rows
            session.observer(self._text, perf_counter() - self._began, rows, error)


class CopySink(_Copy):
    """COPY ... FROM STDIN under way. After an error nothing of it is left, or its transaction has failed."""

    def __init__(
        self,
        session: TransactionBlock,
        plan: CopyFrom | CopyParameters,
        target: CopyTarget,
        source: CopyReader,
    ) -> None:
        super().__init__(session, plan, target)
        assert session.transaction is not None
        self._transaction = session.transaction
        self._reader = source

    async def feed(self, data: bytes) -> None:
        """Take the next bytes, cut anywhere. SqlError as the data or the table refuse them."""
        try:
            self._session.is_running = True
            self._session.waits.check()
            batches = self._reader.feed(data)
            if batches:
                await self._load(batches)
        except BaseException as error:
            await self._failed(error)
            raise

    async def finish(self) -> str:
        """The data is complete: the command tag, once the statement is done as any other."""
        try:
            await self._load(self._reader.finish())
            await self._loaded()
            return await self._complete()
        except BaseException as error:
            await self._failed(error)
            raise

    async def fail(self, message: str) -> NoReturn:
        """The client gives up: undo all and raise SqlError 57014 with its message."""
        error = SqlError("57014", message)
        await self._failed(error)
        raise error

    async def _load(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Use what was read, and count it."""
        raise NotImplementedError

    async def _loaded(self) -> None:
        """All was read and used."""

    async def _failed(self, error: BaseException) -> None:
        self._over(error)
        await self._session.checks.confirm(error, self._transaction.workspace)


class TableSink(CopySink):
    """COPY of a table's rows under way."""

    def __init__(self, session: TransactionBlock, plan: CopyFrom, target: CopyTarget) -> None:
        super().__init__(session, plan, target, reader(target))
        self._loader = Loader(
            self._transaction,
            plan.table,
            target.schema,
            session.settings.style,
            stored=target.options.format != "arrow",  # the other readers look at every value
        )

    async def _load(self, batches: Sequence[pa.RecordBatch]) -> None:
        session, loader = self._session, self._loader
        for batch in batches:
            await loader.load([batch], lambda c: session.waits.for_lock(self._transaction, c))
            self.rows += batch.num_rows

    async def _loaded(self) -> None:
        await self._loader.finish(lambda c: self._session.waits.for_lock(self._transaction, c))


class CopySource(_Copy):
    """COPY ... TO STDOUT under way."""

    def __init__(self, session: TransactionBlock, plan: CopyTo, target: CopyTarget, answer: Result) -> None:
        super().__init__(session, plan, target)
        self._form = CopyDataForm(target)
        self._here: MadeExport | None = None
        self._pieces: RowStream | None = None
        if answer.stream is None:
            self._here = MadeExport(WholeAnswer(answer.physical()), self._form)
        else:
            self._pieces = cast("RowStream", answer.stream.take_over())

    async def next(self) -> bytes | None:
        """The next CopyData messages, of the text formats one for each row; None after the last.

        Raises:
            SqlError: why the query failed, perhaps after many rows, or 57014 when it was cancelled.
        """
        try:
            self._session.is_running = True
            self._session.waits.check()
            if self._here is not None:
                data = await self._here.next()
                self.rows = self._here.rows
            else:
                assert self._pieces is not None
                data = await self._pieces.next_bytes(self._form)
                self.rows = self._pieces.rows
        except BaseException as error:
            self.close()
            self._over(error)
            raise
        return data

    def close(self) -> None:
        """Nobody takes the rest. Again, or after the end, it does nothing."""
        for source in (self._here, self._pieces):
            if source is not None:
                source.close()

    async def finish(self) -> str:
        """The command tag, once all was taken and the statement is done."""
        return await self._complete()


async def copy_in(execution: Execution, plan: CopyFrom, bound: BoundStatement) -> Result:
    """Begin COPY ... FROM STDIN.

    Raises:
        SqlError: 25006 in a read-only transaction, 53xxx when there is no room.
    """
    del bound
    session = execution.block
    session.check_writable("COPY FROM")
    own = await begin_copy(session)
    table = plan.table
    columns = tuple((table.columns[at].name, table.columns[at].type) for at in plan.positions)
    result = Result(plan, -1)
    result.copy = sink = TableSink(
        session, plan, CopyTarget(table.name, columns, plan.options, session.settings.style)
    )
    sink.commits = own
    return result


async def begin_copy(session: TransactionBlock) -> bool:
    """See that there is a transaction, and memory; whether it is to end with the COPY. SqlError 53xxx."""
    await session.waits.room()
    own = session.transaction is None
    if own:
        session.begin()
        session.implicit = session.autocommit
    assert session.transaction is not None
    session.transaction.begin_statement()
    return own and session.autocommit


async def copy_out(execution: Execution, plan: CopyTo, bound: BoundStatement) -> Result:
    """Begin COPY ... TO STDOUT. SqlError as its query raises them, if it is not asked for its rows later."""
    session = execution.block
    answer = await execution.run_plan(bound.inner(plan.query))
    if shape_of(answer.columns) != shape_of(plan.query.columns):  # it was bound again after a wait
        raise redefined()
    columns = tuple((column.name, column.type) for column in plan.outputs)
    target = CopyTarget("", columns, plan.options, session.settings.style)
    result = Result(plan, -1)
    result.copy = CopySource(session, plan, target, answer)
    return result


_MOST_STATEMENTS = 64

Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any
Reader = Callable[[Any], "Datum"]


async def parameters_in(execution: Execution, plan: CopyParameters, bound: BoundStatement) -> Result:
    """Begin COPY PARAMETERS.

    Raises:
        SqlError: 42601 the statement cannot be parsed, 25006 in a read-only transaction, 53xxx when there
            is no room.
    """
    del bound
    session = execution.block
    prepared = session.plans.typed(plan.text, ())
    assert prepared is not None
    prepared.check_syntax()
    session.check_writable(plan.keyword)
    own = await begin_copy(session)
    result = Result(plan, -1)
    result.copy = sink = ParameterSink(execution, plan)
    sink.commits = own
    return result


class ParameterSink(CopySink):
    """A statement that is run for each row of what comes in."""

    def __init__(self, execution: Execution, plan: CopyParameters) -> None:
        session = execution.block
        style = session.settings.style
        target = CopyTarget("", (), plan.options, style)
        super().__init__(session, plan, target, ParameterReader(plan.options, style))
        self._execution = execution
        self._sql, self._style = plan.text, style
        self._parameters: list[Parameter] = []
        self._statements: dict[tuple[int, ...], tuple[PreparedStatement, list[Reader | None]]] = {}
        self._untyped = session.plans.typed(plan.text, ())
        self._found: tuple[Plan, Insertion | None] | None = None  # of the newest plan
        self._writer: ColumnWriter | None = None

    async def _load(self, batches: Sequence[pa.RecordBatch]) -> None:
        session = self._session
        for batch in batches:
            if not self._parameters:
                self._parameters = [Parameter(field) for field in batch.schema]
            for start in range(0, batch.num_rows, BATCH_ROWS):
                part = batch.slice(start, BATCH_ROWS)
                session.waits.check()
                if session.tablespace.is_full:
                    await session.waits.room()
                session.checks.take_basis()
                if not await self._by_columns(part):
                    await self._by_rows(part)
                await Pause()

    # The shorter way.

    async def _by_columns(self, part: pa.RecordBatch) -> bool:
        """Insert a slice as columns; False when it is to be run row by row, and nothing was done."""
        insertion = self._insertion()
        if insertion is None or len(insertion.plan.param_types) != part.num_columns:
            return False
        session, view = self._session, self._transaction.workspace
        view.watch = session.waits.check
        mark = view.mark()
        while True:
            try:
                given = self._columns(insertion, part)
                if given is None:
                    return False
                self._written_by(insertion).write(view, given, part.num_rows)
            except MustWait as conflict:
                view.undo(mark)
                await session.waits.for_lock(self._transaction, conflict)
                insertion = self._insertion()
                if insertion is None:
                    return False
            except SqlError as error:
                view.undo(mark)
                if error.is_limit:
                    raise
                return False
            else:
                break
        self.rows += part.num_rows
        return True

    def _insertion(self) -> Insertion | None:
        """The statement with parameters whose types are those of their places, if it may go as columns."""
        session = self._session
        assert self._untyped is not None
        try:
            plan = self._untyped.planned(session.catalog, session.settings.engine).plan
        except SqlError:
            return None
        if self._found is None or self._found[0] is not plan:
            self._found = plan, insertion_of(plan)
        return self._found[1]

    def _written_by(self, insertion: Insertion) -> ColumnWriter:
        if self._writer is None or self._writer.insertion is not insertion:
            self._writer = insertion.writer(self._transaction.clock(self._style))
        return self._writer

    def _columns(self, insertion: Insertion, part: pa.RecordBatch) -> dict[int, Array] | None:
        """The columns of the new rows that have a parameter; None when that cannot be said with certainty."""
        given: dict[int, Array] = {}
        for position, place in enumerate(insertion.places):
            if place is not None:
                column = self._parameters[place].assigned(
                    part.column(place), insertion.plan.table.columns[position].type, self._style
                )
                if column is None:
                    return None
                given[position] = column
        return given

    # Row by row.

    async def _by_rows(self, part: pa.RecordBatch) -> None:
        """Run the statement for each row."""
        session, parameters = self._session, self._parameters
        columns = [one.raw(array) for one, array in zip(parameters, part.columns, strict=True)]
        codes = [one.codes(array) for one, array in zip(parameters, part.columns, strict=True)]
        count = part.num_rows
        kinds = zip(*([one] * count if isinstance(one, int) else one for one in codes), strict=True)
        rows = zip(*columns, strict=True)
        until = perf_counter() + SLICE_S
        for kind, row in zip(kinds, rows, strict=True):
            statement, readers = self._statements.get(kind) or self._prepared(kind)
            datums = tuple(
                [
                    value if read is None or value is None else read(value)
                    for read, value in zip(readers, row, strict=True)
                ]
            )
            self.rows += await self._run(statement, datums)
            if perf_counter() > until:
                session.waits.check()
                await Pause()
                until = perf_counter() + SLICE_S

    def _prepared(self, kind: tuple[int, ...]) -> tuple[PreparedStatement, list[Reader | None]]:
        """The statement with its parameters declared so, and what reads them. SqlError as Parse and Bind."""
        session = self._session
        declared = tuple(one.types[code] for one, code in zip(self._parameters, kind, strict=True))
        prepared = session.plans.typed(self._sql, declared)
        statement = PreparedStatement(
            session.plans, self._sql, prepared, session.catalog, session.settings.engine
        )
        types = statement.param_types
        if len(types) != len(kind):
            raise SqlError(
                "08P01",
                f"bind message supplies {len(kind)} parameters, but prepared statement "
                f'"" requires {len(types)}',
            )
        readers = [
            one.reader(wanted, self._style) for one, wanted in zip(self._parameters, types, strict=True)
        ]
        if len(self._statements) >= _MOST_STATEMENTS:
            self._statements.clear()
        found = self._statements[kind] = statement, readers
        return found

    async def _run(self, statement: PreparedStatement, datums: tuple[Datum, ...]) -> int:
        """Run one row's statement in the transaction; how many rows it changed."""
        session, transaction = self._session, self._transaction
        bound = BoundStatement(self._execution.binding, statement, datums)
        bound.bind()
        try:
            outcome = await self._execution.run(transaction, bound)
        except TooLong:
            outcome = await self._execution.run(transaction, bound, limited=False)
        await session.checks.vouch(bound.ready.plan)
        return outcome.count

"""COPY as a session sees it: where its data goes, and where it comes from.

Beside ``control``, above ``bulk``. The formats are ``herdpy_server.copy``'s; here are the table, the
transaction and the count of rows. A door is given a :class:`CopySink` or a :class:`CopySource` with the
statement's answer, and moves the data; the statement is over when ``finish`` has returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, NoReturn, cast

import pyarrow as pa

from herdpy_server.copy import CopyDataForm, CopyReader, CopyTarget, reader
from herdpy_server.sessions.bulk import Loader
from herdpy_server.sessions.in_process import MadeExport, WholeAnswer
from herdpy_server.sessions.result import Result
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.binding import Rebind
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.execution import Execution
    from herdpy_server.sessions.streams import RowStream
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
            session.settings.zone,
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


async def copy_in(execution: Execution, plan: CopyFrom, values: Sequence[Datum], rebind: Rebind) -> Result:
    """Begin COPY ... FROM STDIN.

    Raises:
        SqlError: 25006 in a read-only transaction, 53xxx when there is no room.
    """
    del values, rebind
    session = execution.block
    session.check_writable("COPY FROM")
    own = await begin_copy(session)
    table = plan.table
    columns = tuple((table.columns[at].name, table.columns[at].type) for at in plan.positions)
    result = Result(plan, -1)
    result.copy = sink = TableSink(
        session, plan, CopyTarget(table.name, columns, plan.options, session.settings.zone)
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


async def copy_out(execution: Execution, plan: CopyTo, values: Sequence[Datum], rebind: Rebind) -> Result:
    """Begin COPY ... TO STDOUT. SqlError as its query raises them, if it is not asked for its rows later."""
    session = execution.block
    answer = await execution.run_plan(plan.query, values, rebind)
    columns = tuple((column.name, column.type) for column in plan.outputs)
    target = CopyTarget("", columns, plan.options, session.settings.zone)
    result = Result(plan, -1)
    result.copy = CopySource(session, plan, target, answer)
    return result

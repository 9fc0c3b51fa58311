"""COPY as a session sees it: where its data goes, and where it comes from.

Beside ``control``, above ``bulk``. The formats are ``herdpy_server.copy``'s; here are the table, the
transaction and the count of rows. A door is given a :class:`CopySink` or a :class:`CopySource` with the
statement's answer, and moves the data; the statement is over when ``finish`` has returned.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pyarrow as pa

from herdpy_server.copy import CopyTarget, reader, writer
from herdpy_server.sessions.bulk import Loader
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.work import Pause
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.statements import Rebind, Statements
    from herdpy_sql.plan.copying import CopyFrom, CopyTo

_BATCH_ROWS = 8192


class _Copy:
    """What both directions have.

    Attributes:
        columns: how many columns the data has.
        is_binary: whether the data is bytes and not text.
        rows: how many there were so far.
        commits: it is the last statement of an implicit transaction, and ends it.
    """

    def __init__(self, session: Statements, plan: CopyFrom | CopyTo, target: CopyTarget) -> None:
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

    def __init__(self, session: Statements, plan: CopyFrom, target: CopyTarget) -> None:
        super().__init__(session, plan, target)
        assert session.transaction is not None
        self._transaction = session.transaction
        self._loader = Loader(session.transaction, plan.table, target.schema)
        self._reader = reader(target)

    async def feed(self, data: bytes) -> None:
        """Take the next bytes, cut anywhere. SqlError as the data or the table refuse them."""
        try:
            self._session.is_running = True
            self._session._patience.check()
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
        session, loader = self._session, self._loader
        insert = session.plans.statements(loader.insert)[0]
        for batch in batches:
            if loader.by_row:
                for rows in loader.rows([batch]):
                    await session._statement(insert, rows, many=True)
            else:
                await loader.load([batch], lambda c: session._wait_for_lock(self._transaction, c))
            self.rows += batch.num_rows

    async def _failed(self, error: BaseException) -> None:
        self._over(error)
        await self._session._confirm(error, self._transaction.workspace)


class CopySource(_Copy):
    """COPY ... TO STDOUT under way."""

    def __init__(self, session: Statements, plan: CopyTo, target: CopyTarget, answer: Result) -> None:
        super().__init__(session, plan, target)
        self._answer = answer

    async def groups(self) -> AsyncIterator[Sequence[bytes] | pa.Array[Any]]:
        """The data in groups of pieces, each piece one message: of the text formats a row.

        A group is a list, or an Arrow array of binary, which is many rows at the cost of few.
        """
        try:
            self._session.is_running = True
            form = writer(self._target)
            table = self._answer.arrow()
            yield form.start(table.schema)
            for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
                self._session._patience.check()
                yield form.batch(batch)
                self.rows += batch.num_rows
                await Pause()
            yield form.end()
        except BaseException as error:
            self._over(error)
            raise

    async def chunks(self) -> AsyncIterator[bytes]:
        """The same, piece by piece."""
        async for group in self.groups():
            pieces = cast("list[bytes]", group.to_pylist()) if isinstance(group, pa.Array) else group
            for piece in pieces:
                yield piece

    async def finish(self) -> str:
        """The command tag, once all chunks were taken and the statement is done."""
        return await self._complete()


async def copy_in(session: Statements, plan: CopyFrom) -> Result:
    """Begin COPY ... FROM STDIN.

    Raises:
        SqlError: 25006 in a read-only transaction, 53xxx when there is no room.
    """
    session._may_write("COPY FROM")
    await session._room()
    own = session.transaction is None
    if own:
        session.begin()
        session.implicit = session.autocommit
    table = plan.table
    columns = tuple((table.columns[at].name, table.columns[at].type) for at in plan.positions)
    result = Result(plan, -1)
    result.copy = sink = CopySink(
        session, plan, CopyTarget(table.name, columns, plan.options, session.settings.zone)
    )
    sink.commits = own and session.autocommit
    return result


async def copy_out(session: Statements, plan: CopyTo, values: Sequence[Datum], rebind: Rebind) -> Result:
    """Begin COPY ... TO STDOUT: its query has run. SqlError as the query raises them."""
    answer = await session.run_plan(plan.query, values, rebind)
    columns = tuple((column.name, column.type) for column in plan.outputs)
    target = CopyTarget("", columns, plan.options, session.settings.zone)
    result = Result(plan, -1)
    result.copy = CopySource(session, plan, target, answer)
    return result

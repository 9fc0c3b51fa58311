"""The service Loads (``herdpy/rpc/loads.proto``)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.log.records import StagedPart
from herdpy.rpc import loads_pb2, loads_pb2_grpc
from herdpy.rpc.positions import lsn_message
from herdpy_server.loading import (
    BulkLoad,
    LoadMode,
    Publishing,
    StagingPlan,
    begin_load,
    check_id,
    find_load,
    give_up,
    may_load,
)
from herdpy_server.loading.files import FilePart, StagedFiles
from herdpy_server.loading.rows import Batches, StagedRowsSource
from herdpy_server.roles.permissions import judge_some, judge_table
from herdpy_server.service.gate import CALLER, Callers
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.loading.ledgers import LedgerPlace
    from herdpy_server.serving.node import LoadsHere, ServedNode
    from herdpy_server.sessions import Session
    from herdpy_server.store.loads import LoadOutcome

logger = logging.getLogger("herdpy.loads")

ipc: Any = pa.ipc
_TELL_S = 0.5
_SWEEP_S = 600.0
_MAX_CHUNK_BYTES = 1 << 20
_MAX_PARTS = 100_000
_NEEDS = {
    LoadMode.APPEND: "a",
    LoadMode.OVERWRITE: "aD",
    LoadMode.UPSERT: "aw",
    LoadMode.IGNORE: "ar",
    LoadMode.DELETE: "dr",
}
"""The privileges that each mode takes."""
_LOADS = "awdD"
"""One of these on some table lets a role stage at all."""
_MODES: dict[int, LoadMode] = {
    loads_pb2.LOAD_MODE_APPEND: LoadMode.APPEND,
    loads_pb2.LOAD_MODE_OVERWRITE: LoadMode.OVERWRITE,
    loads_pb2.LOAD_MODE_UPSERT: LoadMode.UPSERT,
    loads_pb2.LOAD_MODE_IGNORE: LoadMode.IGNORE,
    loads_pb2.LOAD_MODE_DELETE: LoadMode.DELETE,
}


class LoadsService(loads_pb2_grpc.LoadsServicer):
    """Answers calls by sessions of the tablespaces.

    Args:
        max_message_bytes: the longest request that the server takes.
        callers: whose rights are judged, and who records calls.
    """

    def __init__(
        self,
        tablespaces: ServedNode,
        files: StagedFiles,
        executor: Executor,
        max_message_bytes: int,
        callers: Callers,
    ) -> None:
        self._callers = callers
        self._tablespaces = tablespaces
        self._files = files
        self._executor = executor
        self._chunk_bytes = min(_MAX_CHUNK_BYTES, max_message_bytes // 2)
        self._sweeping: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to remove what nobody publishes."""
        self._sweeping = asyncio.get_running_loop().create_task(self._sweep(), name="staged files")

    async def close(self) -> None:
        """Remove nothing any more."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait({self._sweeping})

    async def _sweep(self) -> None:
        begins = True
        while True:
            try:
                await self._files.sweep(begins=begins)
                begins = False
            except OSError as error:
                logger.warning("staged parts could not be removed", extra={"reason": str(error)})
            await asyncio.sleep(_SWEEP_S)

    async def _permit(self, session: Session, tablespace: str, load: BulkLoad | None = None) -> None:
        """SqlError 42501 unless the caller at hand may do to the table what the load does.

        Without one: unless he may load into any table at all. Who does not lead may have rights of a while
        ago, and says who leads instead (25006).
        """
        effective_role, of_key, catalog = (
            CALLER.get().effective_role,
            self._callers.effective_roles.of_key,
            session.catalog,
        )
        try:
            if load is None:
                judge_some(catalog, _LOADS, effective_role, of_key, tablespace)
            elif (table := catalog.table_named(load.table)) is not None:
                for letter in _NEEDS[load.mode]:
                    judge_table(catalog, table, letter, effective_role, of_key, tablespace)
        except SqlError:
            await may_load(session)
            raise

    # Calls.

    async def Begin(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        load = BulkLoad(request.load_id, request.table, _mode(request.mode))
        served = self._tablespaces.find(request.tablespace)
        here = served.loads()
        async with _session(here) as session:
            await self._permit(session, served.status().name, load)
            begun = await begin_load(session, load, list(request.columns))
        if not isinstance(begun, StagingPlan):
            return loads_pb2.BeginLoadResponse(done=_outcome(begun))
        return loads_pb2.BeginLoadResponse(plan=self._plan(begun, here.ledgers))

    def _plan(self, plan: StagingPlan, place: LedgerPlace | None) -> Any:
        return loads_pb2.LoadPlan(
            table_id=plan.table_id,
            arrow_schema=plan.schema.serialize().to_pybytes(),
            defaults=b"" if plan.defaults is None else _stream(plan.defaults),
            max_chunk_bytes=self._chunk_bytes,
            ledgers=None if place is None else _staging(place),
            kept_s=self._files.kept_s,
        )

    async def Stage(self, request_iterator: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        chunks = aiter(request_iterator)
        first = await anext(chunks, None)
        if first is None:
            raise SqlError("08P01", "the stream of the part has no message")
        check_id(first.load_id)
        served = self._tablespaces.find(first.tablespace)
        async with _session(served.loads()) as session:
            await may_load(session)
            await self._permit(session, served.status().name)
        loop = asyncio.get_running_loop()
        async with self._files.staging(first.load_id) as part:
            chunk = first
            while chunk is not None:
                if chunk.data:
                    await loop.run_in_executor(self._executor, part.write, chunk.data)
                if chunk.HasField("end"):
                    keep = partial(part.keep, chunk.end.crc32c, chunk.end.rows)
                    kept = await loop.run_in_executor(self._executor, keep)
                    return loads_pb2.StagedFile(
                        id=kept.id, size_bytes=kept.size_bytes, crc32c=kept.crc, rows=kept.rows
                    )
                chunk = await anext(chunks, None)
        raise SqlError("08P01", "the stream of a part ended without its end")

    async def Publish(  # type: ignore[override]  # the stubs know generators only
        self, request: Any, context: Any
    ) -> None:
        """See the protocol."""
        load = BulkLoad(request.load_id, request.table, _mode(request.mode), request.table_id)
        served = self._tablespaces.find(request.tablespace)
        here, tablespace = served.loads(), served.status().name
        async with _session(here) as session:
            await may_load(session)  # who does not lead has no place for ledgers either, and says who does
            await self._permit(session, tablespace, load)
        user, mode = CALLER.get().user, load.mode.name.lower()
        self._callers.record_event(
            "write", "load", user=user, database=tablespace, table=load.table, mode=mode
        )
        source, ledgers = self._source(here, load.id, request.parts)
        publishing = Publishing(here.session(), load, source, ledgers)
        with _naming_leader(here):
            outcome = await _published(here, publishing, context)
        if ledgers is None:
            await self._files.remove(load.id)
        rows = publishing.rows
        await context.write(
            loads_pb2.PublishProgress(rows=rows, total_rows=max(rows, source.rows or 0), outcome=outcome)
        )

    def _source(
        self, here: LoadsHere, load_id: str, parts: Sequence[Any]
    ) -> tuple[StagedRowsSource, list[StagedPart] | None]:
        """The rows of the parts, and the ledgers that they stand in if they do. SqlError 22023."""
        if len(parts) > _MAX_PARTS:
            raise SqlError("54000", f"a load has at most {_MAX_PARTS} parts")
        kinds = {part.WhichOneof("staged") for part in parts}
        if kinds == {"ledger"}:
            if here.ledgers is None:
                raise SqlError("22023", "there is no BookKeeper here that rows could be staged in")
            from herdpy_server.loading.ledgers import LedgerParts

            ledgers = [_ledger(part.ledger) for part in parts]
            return LedgerParts(here.ledgers, load_id, ledgers), ledgers
        if kinds <= {"file"}:
            files = [_file(part.file) for part in parts]
            rows = sum(part.rows for part in files)
            return Batches(self._files.batches(load_id, files), rows, self._executor), None
        raise SqlError("22023", "the parts of a load are ledgers, or files, and not both")

    async def Abort(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        check_id(request.load_id)
        served = self._tablespaces.find(request.tablespace)
        here = served.loads()
        ledger_ids = [one.ledger.ledger_id for one in request.parts if one.HasField("ledger")]

        async def remove() -> None:
            if here.ledgers is not None:
                await here.ledgers.remove(request.load_id, ledger_ids)
            await self._files.remove(request.load_id)

        async with _session(here) as session:
            await self._permit(session, served.status().name)
            known = await give_up(session, request.load_id, remove)
        return loads_pb2.AbortLoadResponse(done=None if known is None else _outcome(known))

    async def Describe(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        served = self._tablespaces.find(request.tablespace)
        async with _session(served.loads()) as session:
            await self._permit(session, served.status().name)
            known = await find_load(session, request.load_id)
        return loads_pb2.DescribeLoadResponse(done=None if known is None else _outcome(known))


@asynccontextmanager
async def _session(here: LoadsHere) -> AsyncIterator[Session]:
    session = here.session()
    try:
        with _naming_leader(here):
            yield session
    finally:
        await session.close()


@contextmanager
def _naming_leader(here: LoadsHere) -> Iterator[None]:
    """Errors that another node leads name its gRPC address."""
    try:
        yield
    except SqlError as error:
        if error.sqlstate == "25006" and here.leader is not None:
            error.fields["leader_grpc"] = here.leader
        raise


async def _published(here: LoadsHere, publishing: Publishing, context: Any) -> Any:
    """The outcome of a load, whose caller gets its progress meanwhile."""
    work = asyncio.ensure_future(here.call(publishing.run()))
    try:
        while not (await asyncio.wait({work}, timeout=_TELL_S))[0]:
            await context.write(
                loads_pb2.PublishProgress(rows=publishing.rows, total_rows=publishing.total_rows)
            )
        return _outcome(work.result())
    finally:
        if not work.done():
            work.cancel()
            await asyncio.wait({work})


def _mode(number: int) -> LoadMode:
    mode = _MODES.get(number)
    if mode is None:
        raise SqlError("22023", "the mode of the load is unknown")
    return mode


def _outcome(one: LoadOutcome) -> Any:
    return loads_pb2.LoadOutcome(
        load_id=one.load_id,
        table_id=one.table_id,
        lsn=lsn_message(one.lsn),
        time_us=one.time_us,
        inserted=one.inserted,
        updated=one.updated,
        deleted=one.deleted,
        skipped=one.skipped,
    )


def _staging(place: LedgerPlace) -> Any:
    settings = place.settings
    return loads_pb2.LedgerStaging(
        zookeeper=place.zookeeper,
        ledgers_root=place.ledgers_root,
        password=settings.password,
        ensemble=settings.ensemble,
        write_quorum=settings.write_quorum,
        ack_quorum=settings.ack_quorum,
        strict=settings.strict,
        log_id=place.log_id,
        tablespace=settings.tablespace,
    )


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _ledger(one: Any) -> StagedPart:
    if one.rows < 0 or one.last_entry_id < 0 or one.size_bytes < 0:
        raise SqlError("22023", "a part of the load has a negative number of rows, entries or bytes")
    return StagedPart(one.ledger_id, one.last_entry_id, one.size_bytes, one.crc32c, one.rows)


def _file(one: Any) -> FilePart:
    if one.rows < 0:
        raise SqlError("22023", "a part of the load has a negative number of rows")
    return FilePart(one.id, one.size_bytes, one.crc32c, one.rows)

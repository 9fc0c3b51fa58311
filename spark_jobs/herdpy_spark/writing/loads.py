"""Beginning, publishing and aborting a load, from the driver, at whichever server leads. Above ``plan``.

Every call may be repeated: a load has a name, and is done once. So a call that broke off goes to the next
server, or to the one that a follower names, until its time is over.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import grpc

from herdpy.backoff import Backoff
from herdpy.rpc import loads_pb2 as pb
from herdpy.rpc import loads_pb2_grpc
from herdpy.rpc.address import GrpcAddress, RemoteError
from herdpy_spark.access import AccessError, TablespaceServers
from herdpy_spark.writing.plan import (
    LoadError,
    LoadUnknownError,
    ServerFiles,
    Staged,
    StagedFile,
    StagingLedgers,
    TaskRows,
    WriteMode,
    WriteOutcome,
    WritePlan,
    columns_of,
)
from herdpy_spark.writing.staging import LoadLoop

if TYPE_CHECKING:
    from herdpy_sql.catalog import Table

T = TypeVar("T")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_NOT_LEADER = "25006"

Call = Callable[[Any, GrpcAddress], Awaitable[T]]
"""What is done with a stub of the service, and with the place it leads to."""


class UnreachedError(Exception):
    """Patience is over.

    Attributes:
        may_be_done: a call broke off after it had been sent, so its server may have done it.
    """

    def __init__(self, reason: str, *, may_be_done: bool) -> None:
        super().__init__(reason)
        self.may_be_done = may_be_done


class RefusedError(Exception):
    """A server that leads said no.

    Attributes:
        error: what it said.
        where: the row that it speaks of, in words; empty when it is about none.
    """

    def __init__(self, error: RemoteError, where: str) -> None:
        super().__init__(error.message)
        self.error = error
        self.where = where


class LeaderCalls:
    """Knows some servers of a tablespace, and finds the one that leads.

    Attributes:
        place: the server that answered last.
    """

    def __init__(
        self, places: Sequence[GrpcAddress], patience_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Args:
        places: servers to begin with, at least one.
        patience_s: how long a call is tried without any progress.
        """
        assert places
        self.place = places[0]
        self._places = list(places)
        self._patience_s = patience_s
        self._clock = clock
        self._until_s = clock()
        self._next = 1

    def progressed(self) -> None:
        """A server works on the call that is under way: patience begins anew."""
        self._until_s = max(self._until_s, self._clock() + self._patience_s)

    async def call(self, do: Call[T], patience_s: float | None = None) -> T:
        """What ``do`` gives, by the server that leads.

        Raises:
            RefusedError: that server says no, and would again.
            UnreachedError: none that leads was found in time.
        """
        self._until_s = self._clock() + (self._patience_s if patience_s is None else patience_s)
        backoff, may_be_done, moved = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S), False, False
        while True:
            place = self.place
            try:
                async with place.channel() as channel:
                    return await do(loads_pb2_grpc.LoadsStub(channel), place)
            except grpc.aio.AioRpcError as broken:
                error = RemoteError.of(broken)
                trailers: dict[str, Any] = dict(broken.trailing_metadata() or ())
                if error.sqlstate == _NOT_LEADER:
                    # Two that name each other are asked with pauses.
                    moved = self._follow(trailers.get("leader-grpc")) and not moved
                elif error.is_transient or error.code is grpc.StatusCode.ABORTED:
                    may_be_done = may_be_done or error.code is not grpc.StatusCode.ABORTED
                    moved = False
                    self._advance()
                else:
                    raise RefusedError(error, _where(trailers)) from broken
                reason = f"{place.target}: {error.message}"
                if self._clock() >= self._until_s:
                    raise UnreachedError(reason, may_be_done=may_be_done) from broken
            if not moved:
                await asyncio.sleep(backoff.pause_s())

    def _follow(self, leader: Any) -> bool:
        """Go to the leader that a follower names; whether that is another place than the present one."""
        host, _, port = str(leader or "").rpartition(":")
        if not host or not port.isdigit():
            self._advance()
            return False
        named = replace(self.place, host=host.strip("[]"), port=int(port))
        moved = named.target != self.place.target
        self.place = named
        return moved

    def _advance(self) -> None:
        self.place = self._places[self._next % len(self._places)]
        self._next += 1


def _where(trailers: dict[str, Any]) -> str:
    place = trailers.get("where-bin")
    return "" if place is None else bytes(place).decode(errors="replace")


_log = logging.getLogger("herdpy_spark.loads")
PATIENCE_S = 60.0
ABORT_PATIENCE_S = 10.0
_CALL_TIMEOUT_S = 30.0
_MODES = {
    WriteMode.APPEND: pb.LOAD_MODE_APPEND,
    WriteMode.OVERWRITE: pb.LOAD_MODE_OVERWRITE,
    WriteMode.UPSERT: pb.LOAD_MODE_UPSERT,
    WriteMode.IGNORE: pb.LOAD_MODE_IGNORE,
    WriteMode.DELETE: pb.LOAD_MODE_DELETE,
}

Progress = Callable[[int, int], object]
"""Called with the rows that were looked at, and how many there are in all."""


class LoadService(Protocol):
    """Whoever publishes loads."""

    def begin(
        self, load_id: str, table: str, mode: WriteMode, columns: Sequence[str]
    ) -> WritePlan | WriteOutcome:
        """What to stage, or what the load came to when it was published before. LoadError."""

    def definition(self, table: str) -> Table | None:
        """The table as it is now; None where nobody tells."""

    def publish(
        self, plan: WritePlan, staged: Sequence[TaskRows], progress: Progress | None = None
    ) -> WriteOutcome:
        """Make the staged rows the table's, in one transaction; done once whatever is repeated.

        Raises:
            LoadUnknownError: it may have happened.
            LoadError: nothing was added.
        """

    def abort(self, plan: WritePlan, staged: Sequence[TaskRows]) -> None:
        """Remove what was staged, unless the load was published. What cannot be removed now is swept."""


class ServerLoads:
    """Loads into a tablespace of a server or a cluster."""

    def __init__(
        self,
        places: Sequence[GrpcAddress],
        tablespace: str,
        *,
        patience_s: float = PATIENCE_S,
        abort_patience_s: float = ABORT_PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        places: of some of its servers; the one that leads is found.
        tablespace: empty is the default one.
        patience_s: how long a leader is looked for.
        abort_patience_s: the same, when what was staged is only to be removed.
        """
        self._calls = LeaderCalls(places, patience_s, clock)
        self._tablespace = tablespace
        self._abort_patience_s = abort_patience_s

    def begin(
        self, load_id: str, table: str, mode: WriteMode, columns: Sequence[str]
    ) -> WritePlan | WriteOutcome:
        """See LoadService."""
        request = pb.BeginLoadRequest(
            load_id=load_id, tablespace=self._tablespace, table=table, mode=_MODES[mode], columns=columns
        )

        async def ask(stub: Any, place: GrpcAddress) -> Any:
            return await stub.Begin(request, metadata=place.metadata, timeout=_CALL_TIMEOUT_S)

        answer = self._run(ask)
        if answer.HasField("done"):
            return _outcome(answer.done)
        return self._plan(answer.plan, load_id, table, mode)

    def definition(self, table: str) -> Table | None:
        """See LoadService."""
        leader = self._calls.place
        try:
            return TablespaceServers(self._tablespace, [leader]).describe(table).table
        except AccessError as error:
            _log.info("a table is not described", extra={"table": table, "error": str(error)})
            return None

    def publish(
        self, plan: WritePlan, staged: Sequence[TaskRows], progress: Progress | None = None
    ) -> WriteOutcome:
        """See LoadService."""
        request = pb.PublishLoadRequest(
            load_id=plan.load_id,
            tablespace=self._tablespace,
            table=plan.table,
            mode=_MODES[plan.mode],
            table_id=plan.table_id,
            parts=_parts(staged),
        )

        async def ask(stub: Any, place: GrpcAddress) -> Any:
            async for message in stub.Publish(request, metadata=place.metadata):
                self._calls.progressed()
                if progress is not None:
                    progress(message.rows, message.total_rows)
                if message.HasField("outcome"):
                    return message.outcome
            raise LoadUnknownError(plan.load_id, f"{place.target} ended its answer without an outcome")

        return _outcome(self._run(ask, plan.load_id, staged))

    def abort(self, plan: WritePlan, staged: Sequence[TaskRows]) -> None:
        """See LoadService."""
        request = pb.AbortLoadRequest(load_id=plan.load_id, tablespace=self._tablespace, parts=_parts(staged))

        async def ask(stub: Any, place: GrpcAddress) -> Any:
            return await stub.Abort(request, metadata=place.metadata, timeout=_CALL_TIMEOUT_S)

        try:
            self._run(ask, patience_s=self._abort_patience_s)
        except LoadError as error:
            _log.warning("staged rows were left", extra={"load_id": plan.load_id, "error": str(error)})

    def _run(
        self,
        ask: Callable[[Any, GrpcAddress], Any],
        publishes: str = "",
        staged: Sequence[TaskRows] = (),
        patience_s: float | None = None,
    ) -> Any:
        with LoadLoop() as loop:
            try:
                return loop.run(self._calls.call(ask, patience_s))
            except RefusedError as refused:
                raise LoadError(_refusal_text(refused, staged), refused.error.sqlstate) from None
            except UnreachedError as gone:
                if publishes and gone.may_be_done:
                    raise LoadUnknownError(publishes, str(gone)) from None
                raise LoadError(f"no server leads the tablespace, or none answers: {gone}") from None

    def _plan(self, answer: Any, load_id: str, table: str, mode: WriteMode) -> WritePlan:
        ledgers = answer.ledgers
        staging: StagingLedgers | ServerFiles = (
            StagingLedgers(
                ledgers.zookeeper,
                ledgers.ledgers_root,
                ledgers.password,
                ledgers.ensemble,
                ledgers.write_quorum,
                ledgers.ack_quorum,
                ledgers.strict,
                ledgers.log_id,
                ledgers.tablespace,
            )
            if answer.HasField("ledgers")
            else ServerFiles(self._calls.place, self._tablespace)
        )
        return WritePlan(
            load_id,
            self._tablespace,
            table,
            mode,
            answer.table_id,
            columns_of(answer.arrow_schema),
            answer.defaults,
            answer.max_chunk_bytes,
            staging,
        )


def _refusal_text(refused: RefusedError, staged: Sequence[TaskRows]) -> str:
    """What the server said, with the row as Spark's partitions have it, where that is known."""
    error = refused.error
    found = _ROW.search(refused.where)
    where = refused.where if found is None else _in_partition(int(found[1]), staged) or refused.where
    return "; ".join(text for text in (error.message, error.detail, error.hint, where) if text)


_ROW = re.compile(r"row (\d+) of the load")


def _in_partition(row: int, staged: Sequence[TaskRows]) -> str | None:
    """Where the load's row of this number, from 1, is; None: it has not so many."""
    before = 0
    for one in staged:
        if row <= before + one.rows:
            return f"row {row} of the load, row {row - before} of Spark's partition {one.partition}"
        before += one.rows
    return None


def _parts(staged: Sequence[TaskRows]) -> list[pb.LoadPart]:
    return [_part(part) for one in staged for part in one.parts]


def _part(part: Staged) -> pb.LoadPart:
    if isinstance(part, StagedFile):
        file = pb.StagedFile(id=part.id, size_bytes=part.size_bytes, crc32c=part.crc, rows=part.rows)
        return pb.LoadPart(file=file)
    ledger = pb.StagedLedger(
        ledger_id=part.ledger_id,
        last_entry_id=part.last_entry_id,
        size_bytes=part.size_bytes,
        crc32c=part.crc,
        rows=part.rows,
    )
    return pb.LoadPart(ledger=ledger)


def _outcome(done: Any) -> WriteOutcome:
    lsn = f"{done.lsn.ledger_id}:{done.lsn.entry_id}"
    return WriteOutcome(done.load_id, lsn, done.inserted, done.updated, done.deleted, done.skipped)

"""The service Logs (``herdpy/rpc/logs.proto``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from herdpy.backoff import Backoff
from herdpy.rpc import common_pb2, logs_pb2, logs_pb2_grpc
from herdpy.rpc.lac_reports import LacReport
from herdpy.rpc.positions import lsn_message, lsn_of
from herdpy.rpc.read_index import ReadIndex, ReadIndexAnswerer, question_number
from herdpy_server.pgwire.subscriptions import Subscriptions
from herdpy_server.service.calls import going_down, too_many
from herdpy_server.service.gate import Callers
from herdpy_server.service.leases import DEFAULT_S
from herdpy_server.serving.logs import MAX_LEASE_S, From, LogLease, LogPlace, PublishedAt
from herdpy_sql.definitions import encode_table
from herdpy_sql.errors import SqlError
from herdpy_sql.partition_texts import partitions_hint

if TYPE_CHECKING:
    from herdpy_server.serving.node import Served, ServedNode

_PROGRESS_S = 1.0
_MAX_PURPOSE = 200
_LEAST_LEASE_S = 1.0
MAX_LISTENERS = 64
"""Streams of reports at a time, of all tablespaces; other followers ask the bookies."""
OFFER_AGAIN_S, OFFER_SELDOM_S = 1.0, 64.0
"""So long after a ticket another one, while reports go over gRPC: soon where a connection broke, and ever
later where none comes, because the receiver waits for it.
"""


class LogsService(logs_pb2_grpc.LogsServicer):
    """Answers calls out of the tablespaces' logs."""

    def __init__(
        self, tablespaces: ServedNode, callers: Callers, subscriptions: Subscriptions | None = None
    ) -> None:
        """``subscriptions`` are of the front end that speaks PostgreSQL's protocol; None: there is none."""
        self._subscriptions = subscriptions or Subscriptions()
        self._tablespaces = tablespaces
        self._callers = callers
        self._listeners = 0
        self._is_stopping = False

    def stop(self) -> None:
        """Nothing is reported any more: reports end with the next one.

        They are not cancelled, because a call that is cancelled while it writes cannot be ended.
        """
        self._is_stopping = True

    async def Describe(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        served = self._tablespaces.find(request.tablespace)
        may_read = (await self._callers.judge(context)).replicates
        found = _description(await served.log.place(), may_read=may_read)
        found.applied.CopyFrom(lsn_message(served.status().applied))
        if request.table:
            found.table.CopyFrom(_table(served, request.table))
        return found

    async def Lease(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        await self._replicates(context)
        log = self._tablespaces.find(request.tablespace).log
        purpose = request.purpose[:_MAX_PURPOSE]
        return _leased(request, await log.lease(_wanted(request), _seconds(request.lease_s), purpose))

    async def Renew(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        await self._replicates(context)
        after = lsn_of(request.after) if request.HasField("after") else None
        log = self._tablespaces.find(request.tablespace).log
        return _leased(request, await log.renew(request.id, after, _seconds(request.lease_s)))

    async def Release(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        await self._replicates(context)
        await self._tablespaces.find(request.tablespace).log.release(request.id)
        return logs_pb2.ReleaseLogLeaseResponse()

    async def Publish(  # type: ignore[override]  # the stubs know generators only
        self, request: Any, context: Any
    ) -> None:
        """See the protocol."""
        await self._replicates(context)
        log = self._tablespaces.find(request.tablespace).log
        progress = logs_pb2.PublishSnapshotProgress()

        def report(rows: int, total: int, written: int) -> None:
            progress.rows, progress.total_rows, progress.bytes = rows, max(total, rows), written

        task = asyncio.get_running_loop().create_task(log.publish(request.url, report))
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_PROGRESS_S)
                if not task.done():
                    await context.write(progress)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        progress.done.CopyFrom(_snapshot(task.result()))
        await context.write(progress)

    async def ReportLac(  # type: ignore[override]  # the stubs know generators only
        self, request: Any, context: Any
    ) -> None:
        """See the protocol."""
        await self._replicates(context)
        if self._listeners >= MAX_LISTENERS:
            raise too_many("listeners to reports", MAX_LISTENERS)
        log_id, reports, answerer = self._tablespaces.find(request.tablespace).log.lac_reports()
        self._listeners += 1
        subscription, loop = self._subscriptions.offer(), asyncio.get_running_loop()
        subscription.arrived = partial(_asked, answerer, lambda one: subscription.post(one.encode(log_id)))
        ticket, pauses = subscription.ticket, Backoff(OFFER_AGAIN_S, OFFER_SELDOM_S, spread=0.0)
        due_s = loop.time() + pauses.pause_s()
        try:
            async with aclosing(reports):
                async for one in reports:
                    if await subscription.send(one.encode(log_id)):
                        pauses.reset()
                    else:
                        if loop.time() >= due_s:
                            ticket, due_s = subscription.offer_again(), loop.time() + pauses.pause_s()
                        await context.write(_report(one._replace(entries=()), log_id, ticket))
                    ticket = b""
                    if self._is_stopping:
                        raise going_down()
        finally:
            answerer.close()
            subscription.end()
            self._listeners -= 1

    async def _replicates(self, context: Any) -> None:
        """SqlError 42501 for who may only ask where the log is."""
        caller = await self._callers.judge(context)
        if not caller.replicates:
            raise SqlError(
                "42501",
                f'role "{caller.user}" may not read the log',
                hint="It takes a superuser, or a role with REPLICATION.",
            )


def _report(one: LacReport, log_id: str, ticket: bytes) -> Any:
    return logs_pb2.LacReport(
        epoch=one.epoch,
        confirmed=lsn_message(one.confirmed),
        crc32c=one.checksum(log_id),
        ticket=ticket,
        answers=True,
    )


def _asked(answerer: ReadIndexAnswerer, send: Callable[[ReadIndex], object], message: bytes) -> None:
    """A follower has sent a question; what is none is passed over."""
    number = question_number(message)
    if number is not None:
        answerer.answer(number, send)


def _leased(request: Any, lease: LogLease) -> Any:
    found = logs_pb2.LogLease(
        id=lease.id,
        tablespace=request.tablespace,
        after=lsn_message(lease.after),
        lease=common_pb2.Lease(remaining_s=lease.remaining_s),
    )
    if lease.snapshot is not None:
        found.snapshot.CopyFrom(_snapshot(lease.snapshot))
    return found


def _wanted(request: Any) -> From:
    said = request.WhichOneof("from")
    if said == "after":
        return From(after=lsn_of(request.after))
    if said == "upto":
        return From(upto=lsn_of(request.upto))
    return From(upto_us=request.upto_us) if said == "upto_us" else From()


def _description(place: LogPlace, *, may_read: bool) -> Any:
    kind = logs_pb2.LOG_KIND_FILES if place.directory else logs_pb2.LOG_KIND_BOOKKEEPER
    found = logs_pb2.LogDescription(
        tablespace=place.tablespace,
        log_id=place.log_id,
        kind=kind,
        zookeeper=place.zookeeper,
        ledgers_root=place.ledgers_root,
        ledger_list=place.ledger_list,
        password=place.password if may_read else b"",
        directory=place.directory,
        base=lsn_message(place.base),
        snapshot_url=place.snapshot_url,
        nodes=[
            logs_pb2.LogNode(node=one.node, grpc=one.grpc, state=one.state, applied=lsn_message(one.applied))
            for one in place.nodes
        ],
        leader=place.leader,
    )
    if place.snapshot is not None:
        found.snapshot.CopyFrom(_snapshot(place.snapshot))
    return found


def _table(served: Served, name: str) -> Any:
    """The definition of a table, and the position that it holds at: read in one turn of the loop."""
    status = served.status()
    store = status.store
    if store is None:
        raise SqlError("57P03", f"tablespace {status.name} cannot be read here now", hint="Ask another node.")
    table = store.catalog.table_named(name)
    if table is None:
        raise SqlError("42P01", f'relation "{name}" does not exist')
    if table.partition_key is not None:
        raise SqlError(
            "0A000",
            f'"{name}" is a partitioned table: read the changes of its partitions',
            hint=partitions_hint(store.catalog, table),
        )
    return logs_pb2.TableDescription(definition=encode_table(table).decode(), lsn=lsn_message(store.applied))


def _seconds(lease_s: float) -> float:
    """How long a lease is to be; 0 or nonsense stands for the usual length."""
    return min(max(lease_s if lease_s > 0 else DEFAULT_S, _LEAST_LEASE_S), MAX_LEASE_S)


def _snapshot(one: PublishedAt) -> Any:
    return logs_pb2.PublishedSnapshot(url=one.url, lsn=lsn_message(one.lsn), time_us=one.time_us)

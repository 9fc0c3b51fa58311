"""One connection to a model bookie: frames in, calls of the bookie, frames out.

Between a transport (simulated, or a real socket) and `ModelBookie`. What is no frame or no request ends the
connection; a request that is understood and not served is answered with EBADREQ.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from herdpy.bookkeeper.errors import ProtocolError
from herdpy.bookkeeper.wire import server
from herdpy.bookkeeper.wire.availability import NO_ENTRIES, EntryRanges
from herdpy.bookkeeper.wire.frames import FrameSplitter
from herdpy.bookkeeper.wire.replies import (
    AddReply,
    AuthReply,
    ForceReply,
    InfoReply,
    LacReply,
    ListReply,
    ReadReply,
    Reply,
    ReplyBody,
    WriteLacReply,
)
from herdpy.bookkeeper.wire.status import HIGH_PRIORITY, InfoField, Operation, Status, WriteFlag

if TYPE_CHECKING:
    from herdpy.testing.model.bookie import Found, ModelBookie

_TOTAL_BYTES = 100 * 1024**3
_FREE_BYTES = 50 * 1024**3

_OPERATIONS = {
    server.AddRequest: Operation.ADD_ENTRY,
    server.ReadRequest: Operation.READ_ENTRY,
    server.WriteLacRequest: Operation.WRITE_LAC,
    server.ReadLacRequest: Operation.READ_LAC,
    server.ForceRequest: Operation.FORCE_LEDGER,
    server.InfoRequest: Operation.GET_BOOKIE_INFO,
    server.ListRequest: Operation.GET_LIST_OF_ENTRIES,
    server.AuthRequest: Operation.AUTH,
    server.StartTlsRequest: Operation.START_TLS,
}


class BookieConnection(asyncio.Protocol):
    """What asyncio calls for one connection; made by `ModelBookie.protocol`."""

    def __init__(self, bookie: ModelBookie) -> None:
        self._bookie = bookie
        self._splitter = FrameSplitter()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Replies have no way any more."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Serve the requests that are complete, when the process runs."""
        try:
            frames = self._splitter.feed(data)
        except ProtocolError:
            self._end()
            return
        for frame in frames:
            self._bookie.run(lambda frame=frame: self._frame(frame))  # type: ignore[misc]

    def _end(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _frame(self, frame: bytes) -> None:
        if self._transport is None:
            return  # the client is gone, as a bookie finds, too, before it reads for it
        try:
            request = server.parse_request(frame)
        except ProtocolError:
            self._end()
            return
        operation = _OPERATIONS.get(type(request))
        failure = None if operation is None else self._bookie.failures.get(operation)
        if failure is not None and operation is not None:
            self._reply(request.txn, operation, failure, None)
        else:
            self._serve(request)

    def _reply(self, txn: int, operation: int, status: int, body: ReplyBody | None) -> None:
        if self._transport is not None:
            self._transport.write(server.encode_reply(Reply(txn, operation, status, body)))

    def _serve(self, request: server.AnyRequest) -> None:
        bookie, txn = self._bookie, request.txn
        match request:
            case server.AddRequest():
                self._add(request)
            case server.ReadRequest():
                self._read(request)
            case server.WriteLacRequest(_, ledger_id):
                bookie.write_lac(
                    ledger_id,
                    request.master_key,
                    request.body,
                    lambda status: self._reply(
                        txn, Operation.WRITE_LAC, status, WriteLacReply(status, ledger_id)
                    ),
                )
            case server.ReadLacRequest(_, ledger_id):
                status, lac, last = bookie.read_lac(ledger_id)
                self._reply(txn, Operation.READ_LAC, status, LacReply(status, ledger_id, lac, last))
            case server.ForceRequest(_, ledger_id):
                bookie.force(
                    lambda status: self._reply(
                        txn, Operation.FORCE_LEDGER, status, ForceReply(status, ledger_id)
                    )
                )
            case server.ListRequest(_, ledger_id):
                ids = bookie.entry_ids(ledger_id)
                status = Status.ENOLEDGER if ids is None else Status.EOK
                entries = NO_ENTRIES if ids is None else EntryRanges.of(ids)
                self._reply(txn, Operation.GET_LIST_OF_ENTRIES, status, ListReply(status, ledger_id, entries))
            case server.InfoRequest(_, fields):
                info = InfoReply(
                    Status.EOK,
                    _TOTAL_BYTES if fields & InfoField.TOTAL_DISK_CAPACITY else None,
                    _FREE_BYTES if fields & InfoField.FREE_DISK_SPACE else None,
                )
                self._reply(txn, Operation.GET_BOOKIE_INFO, Status.EOK, info)
            case server.AuthRequest(_, plugin):
                # A bookie with no authentication lets everybody in.
                self._reply(txn, Operation.AUTH, Status.EOK, AuthReply(plugin, b""))
            case server.StartTlsRequest():
                self._reply(txn, Operation.START_TLS, Status.EBADREQ, None)
            case server.UnknownRequest(_, operation):
                self._reply(txn, operation, Status.EBADREQ, None)

    def _add(self, request: server.AddRequest) -> None:
        txn, ledger_id, entry_id = request.txn, request.ledger_id, request.entry_id

        def done(status: int) -> None:
            self._reply(txn, Operation.ADD_ENTRY, status, AddReply(status, ledger_id, entry_id))

        self._bookie.add(
            ledger_id,
            entry_id,
            request.master_key,
            request.body,
            done,
            is_recovery=request.recovery,
            is_deferred=bool(request.write_flags & WriteFlag.DEFERRED_SYNC),
            is_urgent=request.priority >= HIGH_PRIORITY,
        )

    def _read(self, request: server.ReadRequest) -> None:
        bookie, ledger_id, entry_id = self._bookie, request.ledger_id, request.entry_id

        def done(found: Found) -> None:
            reply = ReadReply(found.status, ledger_id, found.entry_id, found.body, found.max_lac)
            self._reply(request.txn, Operation.READ_ENTRY, found.status, reply)

        if request.fence:
            bookie.fence(ledger_id, entry_id, request.master_key, done)
        elif request.previous_lac is not None and request.piggyback:
            timeout_s = None if request.timeout_ms is None else request.timeout_ms / 1000
            bookie.long_poll(ledger_id, request.previous_lac, timeout_s, done)
        else:
            bookie.later(bookie.read_delay_s(), lambda: done(bookie.read(ledger_id, entry_id)))

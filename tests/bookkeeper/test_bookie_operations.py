"""Every operation that is awaited: what goes over the wire, and what comes back as what."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from herdpy.bookkeeper.bookie import Bookie, BookiePool
from herdpy.bookkeeper.errors import (
    BookieUnavailableError,
    BookKeeperError,
    ClosedClientError,
    LedgerFencedError,
    NoSuchEntryError,
    UnauthorizedError,
)
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.availability import EntryRanges
from herdpy.bookkeeper.wire.messages import ReadReply
from herdpy.bookkeeper.wire.proto import protocol_pb2 as pb
from herdpy.bookkeeper.wire.protocol import Operation, ReplyStatus
from tests.bookkeeper.scripted_bookie import KEY, LEDGER, frame, response_to, run, scripted


async def exchange(server: Any, call: Any, change: Any = None, status: int = 0) -> tuple[pb.Request, Any]:
    """Make one call, answer it, and give the request seen and the result."""
    task = asyncio.create_task(call)
    peer = await server.accept()
    request = await peer.request()
    response = response_to(request, status)
    if change is not None:
        change(response)
    peer.send(frame(response))
    return request, await task


def one_exchange(call: Any, change: Any = None, status: int = 0) -> tuple[pb.Request, Any]:
    """`exchange` on a connection of its own; `call(bookie)` makes the call."""
    result: list[tuple[pb.Request, Any]] = []

    async def test() -> None:
        async with scripted() as (server, bookie, _):
            result.append(await exchange(server, call(bookie), change, status))
            assert bookie.metrics.outcomes == {(result[0][0].header.operation, status): 1}

    run(test)
    return result[0]


def test_read() -> None:
    def change(response: pb.Response) -> None:
        response.read.body, response.read.max_lac = b"sealed", 41

    request, reply = one_exchange(lambda bookie: bookie.read(LEDGER, 5), change)
    assert request.header.operation == Operation.READ_ENTRY
    assert (request.read.ledger_id, request.read.entry_id) == (LEDGER, 5)
    assert not request.read.HasField("flag")
    assert not request.read.HasField("master_key")
    assert (reply.entry_id, reply.body, reply.max_lac) == (5, b"sealed", 41)


def test_fencing_read_of_the_last_entry() -> None:
    request, reply = one_exchange(
        lambda bookie: bookie.read(LEDGER, -1, fence_key=KEY),
        lambda response: setattr(response.read, "body", b"last"),
    )
    assert (request.read.flag, request.read.master_key, request.read.entry_id) == (1, KEY, -1)
    assert (reply.body, reply.max_lac) == (b"last", None)


def test_long_poll_and_its_patience() -> None:
    request, reply = one_exchange(
        lambda bookie: bookie.long_poll(LEDGER, 9, 1.5), lambda response: setattr(response.read, "max_lac", 9)
    )
    assert (request.read.previous_lac, request.read.flag, request.read.entry_id) == (9, 2, -1)
    assert request.read.timeout_ms == 1500
    assert (reply.body, reply.max_lac) == (None, 9)

    async def test() -> None:  # it may be held for its time, and answered within a request's time after that
        async with scripted(ClientSettings(request_timeout_s=4.0)) as (server, bookie, _):
            poll = asyncio.create_task(bookie.long_poll(LEDGER, 9, 30.0))
            peer = await server.accept()
            request = await peer.request()
            (waiting,) = bookie._pending.awaited.values()
            assert waiting.deadline_s - waiting.sent_s == pytest.approx(34.0)
            peer.send(frame(response_to(request)))
            assert isinstance(await poll, ReadReply)

    run(test)


def test_read_lac() -> None:
    def change(response: pb.Response) -> None:
        response.read_lac.lac_body, response.read_lac.last_entry_body = b"lac", b"entry"

    request, reply = one_exchange(lambda bookie: bookie.read_lac(LEDGER), change)
    assert request.read_lac.ledger_id == LEDGER
    assert (reply.lac_body, reply.last_entry_body) == (b"lac", b"entry")


def test_write_lac() -> None:
    body = LEDGER.to_bytes(8, "big") + (12).to_bytes(8, "big") + b"digest"
    request, result = one_exchange(lambda bookie: bookie.write_lac(LEDGER, KEY, body))
    assert (request.write_lac.ledger_id, request.write_lac.lac) == (LEDGER, 12)
    assert (request.write_lac.master_key, request.write_lac.body) == (KEY, body)
    assert result is None


def test_force() -> None:
    request, result = one_exchange(lambda bookie: bookie.force(LEDGER))
    assert (request.header.operation, request.force.ledger_id) == (Operation.FORCE_LEDGER, LEDGER)
    assert result is None


def test_info() -> None:
    def change(response: pb.Response) -> None:
        response.info.total_bytes, response.info.free_bytes = 1000, 400

    request, reply = one_exchange(lambda bookie: bookie.info(), change)
    assert request.header.operation == Operation.GET_BOOKIE_INFO
    assert (reply.total_bytes, reply.free_bytes) == (1000, 400)


def test_list_entries() -> None:
    entry_ids = [0, 1, 2, 5, 8, 11]
    request, listed = one_exchange(
        lambda bookie: bookie.list_entries(LEDGER),
        lambda response: setattr(response.list, "entries", EntryRanges.of(entry_ids).encode()),
    )
    assert request.header.operation == Operation.GET_LIST_OF_ENTRIES
    assert listed == entry_ids


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (ReplyStatus.ENOENTRY, NoSuchEntryError),
        (ReplyStatus.EFENCED, LedgerFencedError),
        (ReplyStatus.EUA, UnauthorizedError),
    ],
)
@pytest.mark.parametrize("inner_only", [True, False])
def test_a_status_becomes_its_error_that_says_where(
    status: int, kind: type[BookKeeperError], inner_only: bool
) -> None:
    def change(response: pb.Response) -> None:
        if inner_only:
            response.status = 0

    async def test() -> None:
        async with scripted() as (server, bookie, _):
            with pytest.raises(kind) as caught:
                await exchange(server, bookie.read(LEDGER, 5), change, status)
            error = caught.value
            assert (error.bookie, error.ledger_id, error.entry_id) == (server.id, LEDGER, 5)

    run(test)


class Sink:
    """Takes one outcome, as `send_read` tells it."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.gone = False

    def done(self) -> bool:
        return self.gone

    def set_result(self, reply: object, /) -> None:
        self.outcome.set_result(reply)

    def set_exception(self, error: BaseException, /) -> None:
        self.outcome.set_result(error)


def test_a_read_without_a_task() -> None:
    async def test() -> None:
        async with scripted() as (server, bookie, pool):
            fine, missing, lost, gone = Sink(), Sink(), Sink(), Sink()
            for entry_id, sink in enumerate((fine, missing, lost, gone)):
                bookie.send_read(LEDGER, entry_id, sink)
            gone.gone = True
            peer = await server.accept()
            requests = await peer.requests(4)
            peer.reply(requests[0])
            peer.reply(requests[1], ReplyStatus.ENOENTRY)
            assert isinstance(await fine.outcome, ReadReply)
            assert isinstance(await missing.outcome, NoSuchEntryError)
            peer.abort()
            assert isinstance(await lost.outcome, BookieUnavailableError)
            assert not gone.outcome.done()

            await closed_refuses(bookie, pool)

    run(test)


async def closed_refuses(bookie: Bookie, pool: BookiePool) -> None:
    pool.close()
    after = Sink()
    bookie.send_read(LEDGER, 0, after)
    assert not after.outcome.done()
    assert isinstance(await after.outcome, ClosedClientError)


def test_a_sinks_bug_is_reported_and_does_not_reach_the_others() -> None:
    class Broken(Sink):
        def set_result(self, reply: object, /) -> None:
            raise RuntimeError("a bug")

    async def test() -> None:
        reported = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        async with scripted() as (server, bookie, _):
            fine = Sink()
            bookie.send_read(LEDGER, 0, Broken())
            bookie.send_read(LEDGER, 1, fine)
            peer = await server.accept()
            requests = await peer.requests(2)
            peer.send(b"".join(frame(response_to(request)) for request in requests))
            assert isinstance(await fine.outcome, ReadReply)
        assert [str(error) for error in reported] == ["a bug"]

    run(test)

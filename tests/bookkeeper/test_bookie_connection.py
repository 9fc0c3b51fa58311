"""Adds over one connection: what is sent, how replies find their way, what a bad bookie can do."""

from __future__ import annotations

import asyncio
import logging
import math
import struct

import pytest

from herdpy.bookkeeper.bookie import TIMED_OUT, UNAVAILABLE
from herdpy.bookkeeper.bookie.pending import AwaitedEntry, PendingRequests
from herdpy.bookkeeper.errors import BookieUnavailableError, NoSuchEntryError, TimedOutError
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.protocol import Operation, ReplyStatus
from tests.bookkeeper.scripted_bookie import (
    LEDGER,
    Op,
    add_frame,
    frame,
    on_both_loops,
    response_to,
    run,
    scripted,
    send_add,
)

QUICK = ClientSettings(request_timeout_s=0.1, backoff_first_s=0.01, backoff_max_s=0.02)

LEFT_ALONE = ClientSettings(backoff_first_s=60, backoff_max_s=60)


@on_both_loops
def test_adds_of_one_turn_leave_in_one_write_and_each_is_answered_once(loop: str) -> None:
    async def test() -> None:
        async with scripted() as (server, bookie, pool):
            first = Op()
            send_add(pool, bookie, first)
            peer = await server.accept()
            peer.reply(await peer.request())
            assert await first.status() == ReplyStatus.EOK
            assert bookie.metrics.writes == 1

            ops = [Op() for _ in range(100)]
            for op in ops:
                send_add(pool, bookie, op)
            assert bookie.pending_bytes == 100 * 100
            requests = await peer.requests(100)
            assert bookie.metrics.writes == 2
            assert bookie.metrics.frames_sent == 101
            assert [request.header.txn for request in requests] == list(range(2, 102))
            for request in reversed(requests):  # a bookie may answer in any order
                peer.reply(request)
            assert {await op.status() for op in ops} == {ReplyStatus.EOK}
            assert bookie.pending_bytes == 0
            assert bookie.metrics.outcomes == {(Operation.ADD_ENTRY, ReplyStatus.EOK): 101}

    run(test, loop)


def test_send_add_never_tells_before_it_returns() -> None:
    async def test() -> None:
        async with scripted() as (_, bookie, pool):
            bookie.close()
            op = Op()
            send_add(pool, bookie, op)
            assert op.statuses == []
            assert await op.status() == UNAVAILABLE

    run(test)


def test_the_status_of_a_refused_add_is_told() -> None:
    async def test() -> None:
        async with scripted() as (server, bookie, pool):
            fenced, bare, fine = Op(), Op(), Op()
            for op in (fenced, bare, fine):
                send_add(pool, bookie, op)
            peer = await server.accept()
            requests = await peer.requests(3)
            peer.reply(requests[0], ReplyStatus.EFENCED)
            response = response_to(requests[1], ReplyStatus.EUA)
            response.ClearField("add")  # how a bookie answers before authentication
            peer.send(frame(response))
            peer.reply(requests[2])
            assert await fenced.status() == ReplyStatus.EFENCED
            assert await bare.status() == ReplyStatus.EUA
            assert await fine.status() == ReplyStatus.EOK
            counted = bookie.metrics.outcomes
            assert counted[Operation.ADD_ENTRY, ReplyStatus.EFENCED] == 1
            assert counted[Operation.ADD_ENTRY, ReplyStatus.EUA] == 1
            assert counted[Operation.ADD_ENTRY, ReplyStatus.EOK] == 1
            assert bookie.pending_bytes == 0

    run(test)


@on_both_loops
def test_replies_that_come_in_pieces(loop: str) -> None:
    async def test() -> None:
        async with scripted() as (server, bookie, pool):
            ops = [Op(), Op()]
            for op in ops:
                send_add(pool, bookie, op)
            peer = await server.accept()
            replies = b"".join([frame(response_to(request)) for request in await peer.requests(2)])
            for at in range(len(replies)):
                peer.send(replies[at : at + 1])
                await peer.writer.drain()
                await asyncio.sleep(0)
            assert [await op.status() for op in ops] == [ReplyStatus.EOK, ReplyStatus.EOK]

    run(test, loop)


@on_both_loops
def test_a_half_written_frame_and_then_the_end_fails_what_is_pending(loop: str) -> None:
    async def test() -> None:
        async with scripted() as (server, bookie, pool):
            ops = [Op(), Op()]
            for op in ops:
                send_add(pool, bookie, op)
            peer = await server.accept()
            requests = await peer.requests(2)
            peer.reply(requests[0])
            peer.send(frame(response_to(requests[1]))[:-3])
            peer.close()
            assert await ops[0].status() == ReplyStatus.EOK
            assert await ops[1].status() == UNAVAILABLE
            assert bookie.pending_bytes == 0
            assert bookie.metrics.disconnections == 1

            again = Op()  # it had answered, so the next request connects at once
            send_add(pool, bookie, again)
            peer = await server.accept()
            peer.reply(await peer.request())
            assert await again.status() == ReplyStatus.EOK

    run(test, loop)


def test_a_lost_connection_fails_adds_and_reads_in_flight() -> None:
    async def test() -> None:
        async with scripted() as (server, bookie, pool):
            op = Op()
            send_add(pool, bookie, op)
            read = asyncio.create_task(bookie.read(LEDGER, 3))
            peer = await server.accept()
            await peer.requests(2)
            peer.abort()
            assert await op.status() == UNAVAILABLE
            with pytest.raises(BookieUnavailableError) as caught:
                await read
            assert (caught.value.bookie, caught.value.ledger_id, caught.value.entry_id) == (
                server.id,
                LEDGER,
                3,
            )

    run(test)


def test_a_reply_to_nothing_is_counted_logged_once_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with scripted() as (server, bookie, pool):
            op = Op()
            send_add(pool, bookie, op)
            peer = await server.accept()
            request = await peer.request()
            stray = response_to(request)
            stray.header.txn = 99_999
            peer.send(frame(stray) * 3)
            peer.reply(request)
            assert await op.status() == ReplyStatus.EOK
            assert bookie.metrics.unknown_replies == 3
            assert bookie.metrics.late_replies == 0

    with caplog.at_level(logging.WARNING, "herdpy.bookkeeper"):
        run(test)
    assert [record.message for record in caplog.records].count("reply to no request") == 1


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">I", 5) + b"\xff\xff\xff\xff\xff",
        struct.pack(">I", 0),
        struct.pack(">I", 6 * 1024 * 1024),
        b"\xff\xff\xff\xff",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
    ids=["no protobuf", "empty", "oversize", "negative", "another protocol"],
)
@on_both_loops
def test_a_malformed_frame_ends_its_connection_and_harms_no_other(garbage: bytes, loop: str) -> None:
    async def test() -> None:
        async with (
            scripted(LEFT_ALONE) as (server, bookie, pool),
            scripted(LEFT_ALONE) as (other_server, other, other_pool),
        ):
            op, read_op, other_op = Op(), None, Op()
            send_add(other_pool, other, other_op)
            send_add(pool, bookie, op)
            read_op = asyncio.create_task(bookie.read(LEDGER, 0, timeout_s=30))
            peer = await server.accept()
            await peer.requests(2)
            peer.send(garbage)
            assert await op.status() == UNAVAILABLE
            with pytest.raises(BookieUnavailableError, match="malformed"):
                await read_op
            await peer.ended()
            assert bookie.metrics.malformed_frames == 1
            assert bookie.pending_bytes == 0

            refused = Op()  # and the bookie is left alone for a moment
            send_add(pool, bookie, refused)
            assert await refused.status() == UNAVAILABLE
            assert server.accepted == 1

            other_peer = await other_server.accept()
            other_peer.reply(await other_peer.request())
            assert await other_op.status() == ReplyStatus.EOK

    run(test, loop)


def test_a_reply_of_another_operation_is_malformed() -> None:
    async def test() -> None:
        async with scripted(QUICK) as (server, bookie, _):
            read = asyncio.create_task(bookie.read(LEDGER, 0, timeout_s=30))
            peer = await server.accept()
            response = response_to(await peer.request())
            response.header.operation = Operation.FORCE_LEDGER
            response.force.status, response.force.ledger_id = 0, LEDGER
            peer.send(frame(response))
            with pytest.raises(BookieUnavailableError, match="malformed"):
                await read

    run(test)


@on_both_loops
def test_a_reply_later_than_its_time_out_is_counted_and_ignored(loop: str) -> None:
    async def test() -> None:
        async with scripted(ClientSettings(request_timeout_s=0.5)) as (server, bookie, pool):
            late = Op(timeout_s=0.5)
            send_add(pool, bookie, late)
            peer = await server.accept()
            request = await peer.request()
            assert await late.status() == TIMED_OUT
            assert bookie.pending_bytes == 0
            peer.reply(request)
            with pytest.raises(
                NoSuchEntryError
            ):  # the connection stays: this goes over it, after the late reply
                await answered_read(bookie, peer)
            assert late.statuses == [TIMED_OUT]
            assert bookie.metrics.late_replies == 1
            assert bookie.metrics.unknown_replies == 0
            assert server.accepted == 1

    run(test, loop)


async def answered_read(bookie, peer) -> None:
    read = asyncio.create_task(bookie.read(LEDGER, 0, timeout_s=30))
    peer.reply(await peer.request(), ReplyStatus.ENOENTRY)
    await read


def test_a_read_times_out() -> None:
    async def test() -> None:
        async with scripted() as (_, bookie, _pool):
            with pytest.raises(TimedOutError) as caught:
                await bookie.read(LEDGER, 0, timeout_s=0.03)
            assert (caught.value.ledger_id, caught.value.entry_id) == (LEDGER, 0)
            assert bookie.metrics.outcomes == {(Operation.READ_ENTRY, TIMED_OUT): 1}

    run(test)


@on_both_loops
def test_a_bookie_that_answers_nothing_for_two_time_outs_is_given_up(loop: str) -> None:
    async def test() -> None:
        async with scripted(QUICK) as (server, bookie, pool):
            statuses = []
            while not bookie.metrics.disconnections:
                op = Op(timeout_s=0.1)
                send_add(pool, bookie, op)
                statuses.append(await op.status())
            assert statuses[0] == TIMED_OUT  # the first alone does not end the connection
            assert server.accepted == 1
            peer = await server.accept()
            await peer.ended()

    run(test, loop)


def test_a_bookie_is_silent_from_a_late_answer_until_anything_comes() -> None:
    async def test() -> None:
        async with scripted(ClientSettings(speculative_read_s=0.02)) as (server, bookie, pool):
            held = asyncio.create_task(bookie.long_poll(LEDGER, 0, 1000.0))
            peer = await server.accept()
            await peer.request()
            op = Op(timeout_s=30)
            send_add(pool, bookie, op)
            assert not bookie.is_silent
            request = await peer.request()
            while not bookie.is_silent:
                await asyncio.sleep(0.001)
            peer.reply(request)
            assert await op.status() == ReplyStatus.EOK
            assert not bookie.is_silent
            held.cancel()

    run(test)


def test_what_a_bookie_may_hold_is_due_later() -> None:
    async def test() -> None:
        pending = PendingRequests()
        assert pending.oldest_due_s(5.0) == math.inf
        pending.awaited[1] = held = AwaitedEntry(LEDGER, 0)
        held.sent_s, held.deadline_s = 10.0, 18.0
        assert pending.oldest_due_s(5.0) == 13.0
        pending.awaited[2] = impatient = AwaitedEntry(LEDGER, 0)
        impatient.sent_s, impatient.deadline_s = 11.0, 12.0
        assert pending.oldest_due_s(5.0) == 11.0
        pending.adds[3] = (Op(timeout_s=30), 10.5)
        assert pending.oldest_due_s(5.0) == 10.5

    run(test)


def test_a_bookie_that_answers_something_is_kept() -> None:
    async def test() -> None:
        async with scripted(ClientSettings(request_timeout_s=0.2)) as (server, bookie, pool):
            lost = asyncio.create_task(bookie.read(LEDGER, 0, timeout_s=0.7))  # more than two time-outs
            peer = await server.accept()
            await peer.request()
            while not lost.done():
                op = Op(timeout_s=30)
                send_add(pool, bookie, op)
                peer.reply(await peer.request())
                assert await op.status() == ReplyStatus.EOK
            with pytest.raises(TimedOutError):
                await lost
            assert bookie.metrics.disconnections == 0

    run(test)


@on_both_loops
def test_what_the_transport_has_no_room_for_waits_here(loop: str) -> None:
    async def test() -> None:
        big = b"x" * 1024 * 1024
        async with scripted(ClientSettings(request_timeout_s=30)) as (server, bookie, pool):
            ops = [Op(timeout_s=30, size_bytes=len(big)) for _ in range(40)]
            for op in ops:
                send_add(pool, bookie, op, big)
            peer = await server.accept()
            first = await peer.request()
            peer.reply(first)
            assert await ops[0].status() == ReplyStatus.EOK
            assert bookie.pending_bytes == 39 * len(big)
            # 40 MiB fit into neither the socket nor the transport, and it was not all given to the transport.
            assert bookie.metrics.frames_sent < 40
            room = asyncio.Event()
            bookie.when_room(len(big), 1, room.set)
            for _ in range(39):
                assert not room.is_set()
                peer.reply(await peer.request())
            assert [await op.status() for op in ops] == [ReplyStatus.EOK] * 40
            await room.wait()
            assert bookie.pending_bytes == 0

    run(test, loop)


def test_one_receivers_bug_is_reported_and_does_not_reach_the_others() -> None:
    class Broken(Op):
        def on_add_reply(self, bookie, status) -> None:
            raise RuntimeError("a bug")

    async def test() -> None:
        reported = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context["exception"])
        )
        async with scripted() as (server, bookie, pool):
            broken, fine = Broken(), Op()
            send_add(pool, bookie, broken)
            send_add(pool, bookie, fine)
            peer = await server.accept()
            for request in await peer.requests(2):
                peer.reply(request)
            assert await fine.status() == ReplyStatus.EOK
        assert [str(error) for error in reported] == ["a bug"]

    run(test)


def test_a_frame_is_sent_as_it_was_given() -> None:
    async def test() -> None:
        async with scripted() as (server, bookie, pool):
            txn = pool.next_txn()
            given = add_frame(txn, 5, b"\x00" * 300_000)
            bookie.send_add(txn, given, Op())
            peer = await server.accept()
            assert await peer.reader.readexactly(len(given)) == given

    run(test)

"""A bookie that cannot be reached, comes back, or is given up: what waits, what fails, and when."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator

import pytest

from herdpy.backoff import Backoff
from herdpy.bookkeeper.bookie import UNAVAILABLE, BookiePool
from herdpy.bookkeeper.bookie.handle import MAX_AWAITED
from herdpy.bookkeeper.errors import (
    BackPressureError,
    BookieUnavailableError,
    ClosedClientError,
    NoSuchLedgerError,
    Outcome,
)
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.protocol import Operation, ReplyStatus
from tests.bookkeeper.scripted_bookie import LEDGER, Op, on_both_loops, run, scripted, send_add


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that refuses connections, and is nobody else's meanwhile: bound, and not listened at."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port at which connecting neither succeeds nor fails: the queue of its listener is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
            waiting.append(client)
        yield listener.getsockname()[1]
        for client in waiting:
            client.close()


@on_both_loops
def test_a_refused_connection_fails_all_that_waits_for_it(loop: str, closed_port: int) -> None:
    async def test() -> None:
        pool = BookiePool(ClientSettings(backoff_first_s=60, backoff_max_s=60))
        bookie = pool.get(f"127.0.0.1:{closed_port}")
        ops = [Op() for _ in range(3)]
        for op in ops:
            send_add(pool, bookie, op)
        reads = [asyncio.create_task(bookie.read(LEDGER, entry_id)) for entry_id in range(2)]
        assert [await op.status() for op in ops] == [UNAVAILABLE] * 3
        errors = await asyncio.gather(*reads, return_exceptions=True)
        assert [type(error) for error in errors] == [BookieUnavailableError] * 2
        assert errors[0] is not errors[1]
        assert [error.entry_id for error in errors] == [0, 1]
        assert bookie.metrics.connection_failures == 1
        assert bookie.pending_bytes == 0
        assert isinstance(bookie.failure, BookieUnavailableError)

        # While it is left alone, requests fail at once, are known not to be sent, and nothing is tried.
        op = Op()
        send_add(pool, bookie, op)
        assert await op.status() == UNAVAILABLE
        with pytest.raises(BookieUnavailableError) as caught:
            await bookie.read(LEDGER, 0)
        assert caught.value.outcome is Outcome.NOT_DONE
        assert bookie.metrics.connection_failures == 1
        assert bookie.metrics.refused == 2
        pool.close()

    run(test, loop)


@on_both_loops
def test_a_connection_that_is_never_made_times_out(loop: str, black_hole: int) -> None:
    async def test() -> None:
        pool = BookiePool(ClientSettings(connect_timeout_s=0.1, request_timeout_s=30))
        bookie = pool.get(f"127.0.0.1:{black_hole}")
        op = Op(timeout_s=30)
        send_add(pool, bookie, op)
        assert await op.status() == UNAVAILABLE
        assert "0.1 s while connecting" in str(bookie.failure)
        pool.close()
        await pool.wait_closed()

    run(test, loop)


def test_after_the_pause_one_attempt_is_made_and_what_comes_meanwhile_waits_for_it() -> None:
    async def test() -> None:
        settings = ClientSettings(backoff_first_s=0.05, backoff_max_s=0.05)
        async with scripted(settings) as (server, bookie, pool):
            await server.stop()
            op = Op()
            send_add(pool, bookie, op)
            assert await op.status() == UNAVAILABLE

            await server.start()
            while True:  # until the pause is over: each request before fails, and none of them connects
                op = Op()
                send_add(pool, bookie, op)
                if bookie.pending_bytes:
                    break
                assert await op.status() == UNAVAILABLE
            ops = [op, *(Op() for _ in range(5))]
            for one in ops[1:]:
                send_add(pool, bookie, one)
            peer = await server.accept()
            for request in await peer.requests(6):
                peer.reply(request)
            assert [await one.status() for one in ops] == [ReplyStatus.EOK] * 6
            assert bookie.metrics.connection_failures == 1
            assert bookie.metrics.connections == 1
            assert server.accepted == 1
            assert bookie.failure is None

    run(test)


def test_a_bookie_that_closes_before_it_answers_is_left_alone() -> None:
    async def test() -> None:
        settings = ClientSettings(backoff_first_s=60, backoff_max_s=60)
        async with scripted(settings) as (server, bookie, pool):
            op = Op()
            send_add(pool, bookie, op)
            (await server.accept()).close()
            assert await op.status() == UNAVAILABLE
            op = Op()
            send_add(pool, bookie, op)
            assert await op.status() == UNAVAILABLE
            assert server.accepted == 1

    run(test)


def test_the_pause_doubles_up_to_its_limit_and_begins_anew_after_an_answer() -> None:
    backoff = Backoff(0.05, 1.0, random.Random(1))
    pauses = [backoff.pause_s() for _ in range(8)]
    for pause_s, full_s in zip(pauses, [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0], strict=True):
        assert 0.75 * full_s <= pause_s <= full_s
    assert len(set(pauses)) == 8
    backoff.reset()
    assert backoff.pause_s() <= 0.05


def test_too_much_waiting_for_a_connection_is_refused(black_hole: int) -> None:
    async def test() -> None:
        pool = BookiePool(ClientSettings(max_bookie_pending_bytes=1000))
        bookie = pool.get(f"127.0.0.1:{black_hole}")
        ops = [Op(size_bytes=500) for _ in range(10)]
        for op in ops:
            send_add(pool, bookie, op)
        assert bookie.pending_bytes == 2500  # the first beyond twice the limit is the last
        assert [await op.status() for op in ops[5:]] == [UNAVAILABLE] * 5
        assert [op.statuses for op in ops[:5]] == [[]] * 5
        pool.close()
        assert [await op.status() for op in ops] == [UNAVAILABLE] * 10
        assert bookie.pending_bytes == 0

    run(test)


def test_too_many_awaited_requests_are_refused(black_hole: int) -> None:
    async def test() -> None:
        pool = BookiePool(ClientSettings(request_timeout_s=600.0))  # a machine may stand still
        bookie = pool.get(f"127.0.0.1:{black_hole}")
        reads = [asyncio.create_task(bookie.read(LEDGER, 0)) for _ in range(MAX_AWAITED)]
        await asyncio.sleep(0)
        with pytest.raises(BackPressureError):
            await bookie.read(LEDGER, 0)
        pool.close()
        errors = await asyncio.gather(*reads, return_exceptions=True)
        assert {type(error) for error in errors} == {ClosedClientError}

    run(test)


@on_both_loops
def test_close_with_requests_pending(loop: str) -> None:
    async def test() -> None:
        async with scripted() as (server, bookie, pool):
            op = Op()
            send_add(pool, bookie, op)
            read = asyncio.create_task(bookie.read(LEDGER, 0))
            peer = await server.accept()
            await peer.requests(2)
            pool.close()
            pool.close()
            assert op.statuses == []
            assert await op.status() == UNAVAILABLE
            with pytest.raises(ClosedClientError) as caught:
                await read
            assert caught.value.outcome is Outcome.UNKNOWN
            await peer.ended()

            after = Op()
            send_add(pool, bookie, after)
            assert await after.status() == UNAVAILABLE
            with pytest.raises(ClosedClientError) as caught:
                await bookie.read(LEDGER, 0)
            assert caught.value.outcome is Outcome.NOT_DONE
            with pytest.raises(ClosedClientError):
                pool.get("127.0.0.1:1")
            assert server.accepted == 1

    run(test, loop)


@on_both_loops
def test_close_while_connecting(loop: str, black_hole: int) -> None:
    async def test() -> None:
        pool = BookiePool(ClientSettings())
        bookie = pool.get(f"127.0.0.1:{black_hole}")
        op = Op()
        send_add(pool, bookie, op)
        await asyncio.sleep(0)
        pool.close()
        assert await op.status() == UNAVAILABLE
        await pool.wait_closed()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(test, loop)


def test_a_cancelled_read_leaves_nothing_and_its_reply_is_late() -> None:
    async def test() -> None:
        async with scripted() as (server, bookie, _):
            read = asyncio.create_task(bookie.read(LEDGER, 0))
            peer = await server.accept()
            request = await peer.request()
            read.cancel()
            with pytest.raises(asyncio.CancelledError):
                await read
            assert bookie.metrics.cancelled == 1
            peer.reply(request)
            other = asyncio.create_task(bookie.read(LEDGER, 1))
            peer.reply(await peer.request(), ReplyStatus.ENOLEDGER)
            with pytest.raises(NoSuchLedgerError):
                await other
            assert bookie.metrics.late_replies == 1
            assert bookie.metrics.unknown_replies == 0
            assert bookie.metrics.outcomes == {(Operation.READ_ENTRY, ReplyStatus.ENOLEDGER): 1}

    run(test)


def test_addresses_come_from_the_registry_else_from_the_id() -> None:
    async def test() -> None:
        async with scripted() as (server, _bookie, _pool):
            where = {"bookie-a": ("127.0.0.1", server.port)}
            pool = BookiePool(ClientSettings(), where.__getitem__)
            for bookie_id in ("bookie-a", server.id):
                op = Op()
                send_add(pool, pool.get(bookie_id), op)
                peer = await server.accept()
                peer.reply(await peer.request())
                assert await op.status() == ReplyStatus.EOK
            assert pool.get("bookie-a") is pool.get("bookie-a")
            with pytest.raises(BookieUnavailableError, match="not registered"):
                await pool.get("bookie-b").read(LEDGER, 0)
            pool.close()

    run(test)


def test_a_bug_in_the_registry_fails_what_waits_instead_of_hanging_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def resolve(bookie_id: str) -> tuple[str, int]:
        raise RuntimeError("a bug")

    async def test() -> None:
        pool = BookiePool(ClientSettings(), resolve)
        with pytest.raises(BookieUnavailableError, match="a bug") as caught:
            await pool.get("127.0.0.1:1").read(LEDGER, 0)
        assert isinstance(caught.value.__cause__, RuntimeError)

    run(test)
    assert any(record.exc_info for record in caplog.records)

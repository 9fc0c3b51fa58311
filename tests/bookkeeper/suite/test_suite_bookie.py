"""What a bookie answers to raw frames: the model is what a real one is, odd cases included."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from herdpy.bookkeeper.digest import master_key
from herdpy.bookkeeper.wire import messages
from herdpy.bookkeeper.wire.messages import InfoReply, LacReply, ListReply, ReadReply, Reply
from herdpy.bookkeeper.wire.protocol import ReplyStatus
from tests.bookkeeper.suite.raw import DIGEST, RawBookie, conversation
from tests.bookkeeper.suite.targets import Target

OTHER_KEY = master_key(b"another")
UNKNOWN = 2**50


def run(target: Target, program: Callable[[RawBookie], Awaitable[None]]) -> None:
    async def main() -> None:
        async with conversation(target) as bookie:
            await program(bookie)

    target.run(main)


def read_of(reply: Reply) -> ReadReply:
    assert isinstance(reply.body, ReadReply)
    assert reply.status == reply.body.status
    return reply.body


def lac_of(reply: Reply) -> LacReply:
    assert isinstance(reply.body, LacReply)
    return reply.body


def data_of(reply: Reply, ledger_id: int, entry_id: int) -> bytes:
    body = read_of(reply).body
    assert body is not None
    return DIGEST.open(body, ledger_id, entry_id).data


def test_an_entry_is_read_with_the_highest_lac(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        assert (await bookie.add(0, -1, b"zero")).status == ReplyStatus.EOK
        assert (await bookie.add(1, 0, b"one")).status == ReplyStatus.EOK
        reply = await bookie.read(0)
        assert reply.status == ReplyStatus.EOK
        assert data_of(reply, bookie.ledger_id, 0) == b"zero"
        assert read_of(reply).max_lac == 0
        assert read_of(reply).entry_id == 0

    run(target, program)


def test_minus_one_reads_the_last_entry(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        for entry_id in (0, 1, 5):
            await bookie.add(entry_id, -1, b"%d" % entry_id)
        reply = await bookie.read(-1)
        assert data_of(reply, bookie.ledger_id, 5) == b"5"
        assert read_of(reply).entry_id == -1

    run(target, program)


def test_no_entry_is_not_no_ledger(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        assert (await bookie.read(0)).status == ReplyStatus.ENOLEDGER
        assert (await bookie.read(-1)).status == ReplyStatus.ENOLEDGER
        await bookie.add(0, -1)
        assert (await bookie.read(1)).status == ReplyStatus.ENOENTRY
        assert (await bookie.read(0, UNKNOWN)).status == ReplyStatus.ENOLEDGER

    run(target, program)


def test_adding_again_is_accepted(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        await bookie.add(0, -1, b"first")
        assert (await bookie.add(0, -1, b"first")).status == ReplyStatus.EOK
        assert data_of(await bookie.read(0), bookie.ledger_id, 0) == b"first"

    run(target, program)


def test_the_first_key_is_the_key(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        await bookie.add(0, -1)
        assert (await bookie.add(1, 0, key=OTHER_KEY)).status == ReplyStatus.EUA
        assert (await bookie.fence(key=OTHER_KEY)).status == ReplyStatus.EUA
        assert (await bookie.write_lac(0, key=OTHER_KEY)).status == ReplyStatus.EUA
        assert (await bookie.add(1, 0)).status == ReplyStatus.EOK

    run(target, program)


def test_a_fence_stops_adds_but_not_those_of_a_recovery(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        await bookie.add(0, -1, b"zero")
        reply = await bookie.fence()
        assert data_of(reply, bookie.ledger_id, 0) == b"zero"
        assert read_of(reply).max_lac is None
        assert (await bookie.add(1, 0)).status == ReplyStatus.EFENCED
        assert (await bookie.add(0, -1, b"zero")).status == ReplyStatus.EFENCED
        assert (await bookie.add(1, 0, b"one", recovery=True)).status == ReplyStatus.EOK
        assert (await bookie.fence()).status == ReplyStatus.EOK
        assert (await bookie.write_lac(0)).status == ReplyStatus.EOK

    run(target, program)


def test_a_fence_reads_the_entry_asked_for(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        await bookie.add(0, -1, b"zero")
        await bookie.add(1, 0, b"one")
        assert data_of(await bookie.fence(0), bookie.ledger_id, 0) == b"zero"
        assert (await bookie.fence(7)).status == ReplyStatus.ENOENTRY

    run(target, program)


def test_a_ledger_can_be_fenced_before_its_first_entry(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        assert (await bookie.fence()).status == ReplyStatus.ENOENTRY
        assert (await bookie.add(0, -1)).status == ReplyStatus.EFENCED
        assert (await bookie.read(0)).status == ReplyStatus.ENOENTRY
        assert (await bookie.read(-1)).status == ReplyStatus.ENOENTRY

    run(target, program)


def test_a_fence_without_a_key_is_refused(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        await bookie.add(0, -1)
        assert (await bookie.fence(key=b"")).status == ReplyStatus.EUA

    run(target, program)


def test_a_long_poll_wakes_with_the_next_entry(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        await bookie.add(0, -1, b"zero")
        waiting = asyncio.create_task(bookie.long_poll(-1, 30_000))
        await bookie.read(0)
        assert not waiting.done()
        await bookie.add(1, 0, b"one")
        reply = await waiting
        assert data_of(reply, bookie.ledger_id, 0) == b"zero"
        assert read_of(reply).entry_id == 0
        assert read_of(reply).max_lac == 0

    run(target, program)


def test_a_long_poll_that_is_late_answers_at_once(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        await bookie.add(0, -1, b"zero")
        await bookie.add(1, 0, b"one")
        reply = await bookie.long_poll(-1, 30_000)
        assert data_of(reply, bookie.ledger_id, 0) == b"zero"

    run(target, program)


def test_a_long_poll_times_out_without_a_body(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        await bookie.add(0, -1)
        await bookie.add(1, 0)
        found = read_of(await bookie.long_poll(0, 100))
        assert (found.status, found.body, found.max_lac, found.entry_id) == (ReplyStatus.EOK, None, 0, -1)

    run(target, program)


def test_a_long_poll_has_no_body_where_the_entry_is_elsewhere(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        await bookie.add(5, 4)
        found = read_of(await bookie.long_poll(2, 1000))
        assert (found.status, found.body, found.max_lac, found.entry_id) == (ReplyStatus.EOK, None, 4, -1)

    run(target, program)


def test_a_long_poll_wakes_by_an_explicit_lac_and_by_a_fence(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        await bookie.add(0, -1, b"zero")
        waiting = asyncio.create_task(bookie.long_poll(-1, 30_000))
        await bookie.read(0)
        await bookie.write_lac(0)
        assert data_of(await waiting, bookie.ledger_id, 0) == b"zero"
        waiting = asyncio.create_task(bookie.long_poll(0, 30_000))
        await bookie.read(0)
        await bookie.fence()
        found = read_of(await waiting)
        assert (found.status, found.body, found.max_lac) == (ReplyStatus.EOK, None, 0)

    run(target, program)


def test_a_long_poll_of_an_unknown_ledger(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        assert (await bookie.long_poll(-1, 1000)).status == ReplyStatus.ENOLEDGER

    run(target, program)


def test_a_long_poll_of_a_ledger_without_entries(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        await bookie.fence()
        assert (await bookie.long_poll(-1, 100)).status == ReplyStatus.ENOENTRY

    run(target, program)


def test_the_explicit_lac_and_the_last_entry_are_told(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        await bookie.add(0, -1)
        await bookie.add(1, 0)
        before = lac_of(await bookie.read_lac())
        assert before.status == ReplyStatus.EOK
        assert before.lac_body is None
        assert (await bookie.write_lac(1)).status == ReplyStatus.EOK
        after = lac_of(await bookie.read_lac())
        assert after.lac_body is not None
        assert after.last_entry_body is not None
        assert DIGEST.open_lac(after.lac_body, bookie.ledger_id) == 1
        assert DIGEST.open(after.last_entry_body, bookie.ledger_id, 1).lac == 0
        assert read_of(await bookie.read(0)).max_lac == 1

    run(target, program)


def test_there_is_no_lac_before_the_first_entry(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        assert (await bookie.read_lac()).status == ReplyStatus.ENOENTRY
        await bookie.fence()
        assert (await bookie.read_lac()).status == ReplyStatus.ENOENTRY

    run(target, program)


@pytest.mark.parametrize("count", [1, 20])
def test_a_force_answers_when_deferred_adds_are_safe(target: Target, count: int) -> None:
    async def program(bookie: RawBookie) -> None:
        for entry_id in range(count):
            assert (await bookie.add(entry_id, -1, deferred=True)).status == ReplyStatus.EOK
        assert (await bookie.force()).status == ReplyStatus.EOK
        assert (await bookie.read(count - 1)).status == ReplyStatus.EOK

    run(target, program)


def test_a_force_of_an_unknown_ledger_is_fine(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        assert (await bookie.force()).status == ReplyStatus.EOK

    run(target, program)


def test_entries_are_listed(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        for entry_id in (0, 1, 2, 5, 8):
            await bookie.add(entry_id, -1)
        reply = await bookie.list_entries()
        assert isinstance(reply.body, ListReply)
        assert list(reply.body.entry_ids) == [0, 1, 2, 5, 8]

    run(target, program)


def test_the_entries_of_an_unknown_ledger(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        assert (await bookie.list_entries(UNKNOWN)).status == ReplyStatus.ENOLEDGER

    run(target, program)


def test_disks_are_told(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        reply = await bookie.ask(messages.bookie_info)
        assert isinstance(reply.body, InfoReply)
        assert reply.body.total_bytes is not None
        assert reply.body.free_bytes is not None
        assert 0 < reply.body.free_bytes <= reply.body.total_bytes

    run(target, program)


def test_authentication_is_not_needed_and_not_refused(target: Target) -> None:
    async def program(bookie: RawBookie) -> None:
        assert (
            await bookie.ask(lambda txn: messages.auth(txn, "some plugin", b""))
        ).status == ReplyStatus.EOK
        assert (await bookie.add(0, -1)).status == ReplyStatus.EOK

    run(target, program)

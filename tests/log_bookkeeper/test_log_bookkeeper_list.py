"""The ledger list in znodes: more ledgers than one znode holds."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from herdpy.log import LSN, START, CorruptLedgerError
from herdpy.log.bookkeeper import ZnodeLedgerList
from herdpy.log.bookkeeper.znode_list import decode_list, encode_list
from herdpy.log.errors import LedgerListConflictError, LogFullError
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from tests.log_bookkeeper.kit import PATH, Place, numbers, transaction


def listed(first: int, count: int) -> LedgerListState:
    """A list of closed ledgers, and an open one."""
    ledgers = [LedgerInfo(first + n, 1, True, 9, 1000, 7, 3, "a") for n in range(count)]
    return LedgerListState(0, "1" * 32, 0, ledgers=(*ledgers, LedgerInfo(first + count, 1, epoch=3)), epoch=3)


async def chunks_of(node) -> list[str]:
    return sorted(await node.bk.znodes.children(PATH))


def test_a_list_of_many_ledgers_is_read_as_it_was_written():
    place = Place()

    async def program():
        a, b = await place.node("a"), await place.node("b")
        written = await a.list.write(listed(1, 20_000), 0)
        head = await a.bk.znodes.get(PATH)
        assert len(head.data) == a.list.size_bytes < 200_000
        assert len(await chunks_of(a)) == 39
        assert await b.list.read() == written == replace(listed(1, 20_000), version=written.version)
        told = asyncio.Queue()
        watch = ZnodeLedgerList(b.bk.znodes, PATH).watch(told.put_nowait)
        assert await told.get() == written
        last = replace(written.ledgers[-1], closed=True, last_entry_id=3, length=5, crc=6)
        closed = await a.list.write(replace(written, ledgers=(*written.ledgers[:-1], last)), written.version)
        assert await told.get() == closed
        watch.cancel()
        chunks = await chunks_of(a)
        assert len(chunks) == 39  # nothing but the list's own znode was written
        await ZnodeLedgerList(b.bk.znodes, PATH).write(closed, closed.version)
        assert await chunks_of(a) == chunks  # nor by one who has not seen it before

    place.run(program)


def test_chunks_go_with_the_ledgers_that_are_trimmed():
    place = Place()

    async def program():
        a, b = await place.node("a"), await place.node("b")
        now = await a.list.write(listed(1, 3000), 0)
        assert len(await chunks_of(a)) == 5
        for gone in (700, 1500, 2990):
            left = tuple(one for one in now.ledgers if one.ledger_id > gone)
            now = await a.list.write(replace(now, ledgers=left, base=LSN(gone, 9)), now.version)
            assert await b.list.read() == now
        assert await chunks_of(a) == []
        assert (await a.bk.znodes.get(PATH)).data.startswith(b'{"format":1,')

    place.run(program)


def test_the_loser_of_a_change_leaves_no_chunk_for_long_and_takes_none_away():
    place = Place()

    async def program():
        a, b = await place.node("a"), await place.node("b")
        now = await a.list.write(listed(1, 900), 0)
        await b.list.read()
        znodes = a.bk.znodes
        await znodes.create(f"{PATH}/0000000004-of the next owner-0", b"{}")
        grown = listed(1, 1100)
        won = await a.list.write(grown, now.version)
        with pytest.raises(LedgerListConflictError):
            await b.list.write(grown, now.version)
        assert len(await chunks_of(a)) == 3  # one of each, and one of the next owner
        left = tuple(one for one in won.ledgers if one.ledger_id > 600)
        await a.list.write(replace(won, ledgers=left, base=LSN(600, 9)), won.version)
        assert await chunks_of(a) == ["0000000004-of the next owner-0"]

    place.run(program)


def test_a_list_of_the_format_without_chunks_is_read_and_goes_on():
    place = Place()

    async def program():
        a = await place.node("a")
        old = listed(1, 3000)
        data = encode_list(old, "tag")
        assert decode_list(data, 1, PATH).state == replace(old, version=1)
        await a.bk.znodes.create(PATH, data, make_parents=True)
        assert await a.list.read() == replace(old, version=1)
        written = await a.list.write(old, 1)
        assert len(await chunks_of(a)) == 5
        assert await ZnodeLedgerList(a.bk.znodes, PATH).read() == written

    place.run(program)


def test_a_list_that_is_too_large_is_not_written_and_a_chunk_that_is_gone_is_told():
    place = Place()

    async def program():
        a = await place.node("a")
        small = ZnodeLedgerList(a.bk.znodes, PATH, limit_bytes=1000)
        now = await small.write(listed(1, 5), 0)
        with pytest.raises(LogFullError, match="may have 1000"):
            await small.write(listed(1, 20), now.version)
        assert await small.read() == now
        await a.list.write(listed(1, 1000), now.version)
        (chunk,) = await chunks_of(a)
        await a.bk.znodes.delete(f"{PATH}/{chunk}")
        with pytest.raises(CorruptLedgerError, match="is gone"):
            await ZnodeLedgerList(a.bk.znodes, PATH).read()

    place.run(program)


def test_a_log_of_many_ledgers_is_written_followed_taken_over_and_trimmed():
    place = Place()

    async def program():
        nodes = [await place.node(name) for name in ("a", "b", "c")]
        a, b, c = nodes
        for node in nodes:
            node.list = ZnodeLedgerList(node.bk.znodes, PATH, chunk_ledgers=4)
        log = await a.lead(1)
        follower = c.follow()
        following = asyncio.create_task(numbers(follower.tail(START)))
        for number in range(30):
            await log.append(transaction(number))
            await log.aroll()
        assert len(await chunks_of(a)) >= 6
        again = await b.lead(2)
        await again.append(transaction(30))
        assert await c.contents() == list(range(31))
        middle = again.ledgers()[17].last
        await again.atrim(middle)
        await again.append(transaction(31))
        await asyncio.sleep(10)
        assert await numbers(b.follow().read(middle), middle) == list(range(18, 32))
        await follower.close()
        assert await following == list(range(32))

    place.run(program)

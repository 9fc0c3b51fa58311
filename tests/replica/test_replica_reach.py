"""Which bookies answer: by a client of BookKeeper, over a network that fails in one direction or both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from herdpy.bookkeeper import BookKeeper, ClientSettings
from herdpy.bookkeeper.wire.protocol import Operation, ReplyStatus
from herdpy.testing.model import ModelCluster, on_host
from herdpy_server.replica.fitness import SILENT_S
from herdpy_server.replica.host import FEW, IDLE_ASK_S, IDLE_LOOK_S, IDLE_S, BookieReach, to_be_asked

HERE = "server"
SETTINGS = ClientSettings(request_timeout_s=1.0, connect_timeout_s=1.0, backoff_max_s=0.5)
Script = Callable[[ModelCluster, BookKeeper, BookieReach], Awaitable[None]]


def play(script: Script) -> None:
    """Run a script with three bookies and one who asks them."""
    cluster = ModelCluster(1, 3)

    async def run() -> None:
        async with BookKeeper(znodes=cluster.znodes(HERE), settings=SETTINGS) as bk:
            reach = BookieReach(bk)
            reach.start()
            reach.start()
            try:
                await asyncio.sleep(2.0)
                assert reach.answering(SILENT_S) == bk.writable_bookies() == frozenset(cluster.bookies)
                await script(cluster, bk, reach)
            finally:
                await reach.close()

    with on_host(HERE):
        cluster.run(run)


@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize("received", [True, False])
def test_a_cut_in_any_direction_is_silence(sent: bool, received: bool) -> None:
    async def script(cluster: ModelCluster, _bk: BookKeeper, reach: BookieReach) -> None:
        heard, *lost = cluster.bookies
        for bookie in (cluster.bookies[one] for one in lost):
            if sent:
                cluster.network.cut(HERE, bookie.host)
            if received:
                cluster.network.cut(bookie.host, HERE)
        await asyncio.sleep(10.0)
        assert reach.silent_s(1) < SILENT_S
        assert (reach.silent_s(2) > 8.0) == (reach.silent_s(3) > 8.0) == (sent or received)
        assert (reach.answering(SILENT_S) == {heard}) == (sent or received)
        cluster.heal()
        await asyncio.sleep(5.0)
        assert reach.silent_s(3) < SILENT_S

    play(script)


def test_a_bookie_that_refuses_to_answer_has_answered() -> None:
    async def script(cluster: ModelCluster, bk: BookKeeper, reach: BookieReach) -> None:
        for bookie in cluster.bookies.values():
            bookie.bookie.failures[Operation.GET_BOOKIE_INFO] = ReplyStatus.EUA
        await asyncio.sleep(10.0)
        assert reach.silent_s(3) < SILENT_S
        assert await bk.answers(next(iter(cluster.bookies)))

    play(script)


def test_a_bookie_that_is_no_longer_registered_is_not_waited_for() -> None:
    async def script(cluster: ModelCluster, bk: BookKeeper, reach: BookieReach) -> None:
        first, *others = cluster.bookies
        cluster.bookies[first].crash()
        while first in bk.writable_bookies():
            await asyncio.sleep(0.1)
        assert reach.silent_s(2) < SILENT_S
        assert reach.silent_s(3) == 0.0
        assert reach.answering(SILENT_S) == frozenset(others)
        assert not await bk.answers(first)

    play(script)


def test_of_many_bookies_a_few_are_asked_all_the_time() -> None:
    heard_s = {f"b{number}": 10.0 - number / 100 for number in range(20)}
    assert to_be_asked(heard_s, 10.1) == []
    assert to_be_asked(heard_s, 10.21) == [f"b{number}" for number in range(FEW)]
    # None of them answers: whoever else does is as good.
    assert set(to_be_asked(heard_s, 10.41)) == set(heard_s)
    answered = {**heard_s, **{f"b{number}": 10.42 for number in range(10, 10 + FEW)}}
    assert to_be_asked(answered, 10.6) == []
    assert to_be_asked(answered, 10.8) == [f"b{number}" for number in range(10, 10 + FEW)]
    assert "b0" in to_be_asked(answered, 15.1)


def test_of_many_bookies_a_few_are_asked_by_an_idle_node_too() -> None:
    heard_s = {f"b{number}": 10.0 - number / 100 for number in range(20)}
    assert to_be_asked(heard_s, 10.9, IDLE_ASK_S) == []
    assert to_be_asked(heard_s, 11.06, IDLE_ASK_S) == [f"b{number}" for number in range(FEW)]


def test_a_cut_from_those_that_were_asked_is_no_cut() -> None:
    async def script(cluster: ModelCluster, _bk: BookKeeper, reach: BookieReach) -> None:
        for number in range(17):
            await cluster.add_bookie(f"more{number}").start()
        await asyncio.sleep(20.0)
        most_s = 0.0
        for bookie in list(cluster.bookies.values())[:-2]:
            cluster.network.partition(HERE, bookie.host)
            for _ in range(20):
                await asyncio.sleep(0.1)
                most_s = max(most_s, reach.silent_s(2))
        assert most_s < SILENT_S
        cluster.network.partition(HERE, next(reversed(cluster.bookies.values())).host)
        await asyncio.sleep(2.0)
        assert reach.silent_s(2) > SILENT_S

    play(script)


def test_who_says_something_is_not_asked() -> None:
    async def script(cluster: ModelCluster, bk: BookKeeper, reach: BookieReach) -> None:
        writer = await bk.create_ledger(3, 3, 2)
        before = questions_of(bk)
        for _ in range(100):
            await writer.append(b"x")
            await asyncio.sleep(0.1)
        assert questions_of(bk) == before
        await asyncio.sleep(3.0)
        assert questions_of(bk) > before
        assert reach.silent_s(3) < SILENT_S

    play(script)


def questions_of(bk: BookKeeper) -> int:
    told = bk.metrics.snapshot()
    return sum(sum(one["requests"]["get_bookie_info"].values()) for one in told.values())


def test_who_has_nothing_else_to_do_asks_seldom_and_is_not_cut_off_for_it() -> None:
    async def script(_cluster: ModelCluster, bk: BookKeeper, reach: BookieReach) -> None:
        assert not reach.is_idle
        await asyncio.sleep(IDLE_S)
        assert reach.is_idle
        before, most_s = questions_of(bk), 0.0
        for _ in range(200):
            await asyncio.sleep(0.05)
            most_s = max(most_s, reach.silent_s(3))
            assert reach.answering(SILENT_S) == bk.writable_bookies()
        assert 3 * 7 <= questions_of(bk) - before <= 3 * 11
        assert most_s < SILENT_S

    play(script)


def test_a_node_with_work_asks_as_often_as_ever_for_a_while_after_it() -> None:
    async def script(_cluster: ModelCluster, bk: BookKeeper, reach: BookieReach) -> None:
        await asyncio.sleep(IDLE_S)
        writer = await bk.create_ledger(3, 3, 2)
        for _ in range(20):
            await writer.append(b"x")
            await asyncio.sleep(0.1)
            assert not reach.is_idle or writer.last_add_confirmed < 3
        before = questions_of(bk)
        await asyncio.sleep(IDLE_S / 2)
        assert questions_of(bk) - before >= 3 * 5
        await asyncio.sleep(IDLE_S)
        assert reach.is_idle

    play(script)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_an_idle_node_finds_a_cut_with_its_next_question(lost: int) -> None:
    async def script(cluster: ModelCluster, _bk: BookKeeper, reach: BookieReach) -> None:
        await asyncio.sleep(2 * IDLE_S)
        assert reach.is_idle
        cut_s = asyncio.get_running_loop().time()
        for bookie in list(cluster.bookies.values())[:lost]:
            cluster.network.partition(HERE, bookie.host)
        needed = len(cluster.bookies) - lost + 1
        while reach.silent_s(needed) <= SILENT_S:
            await asyncio.sleep(0.05)
        found_s = asyncio.get_running_loop().time() - cut_s
        assert SILENT_S - 0.25 < found_s < IDLE_ASK_S + SILENT_S + IDLE_LOOK_S + 0.1
        assert needed == 1 or reach.silent_s(needed - 1) < SILENT_S
        await asyncio.sleep(3.0)
        assert reach.silent_s(needed) > 3.0
        cluster.heal()
        await asyncio.sleep(5.0)
        assert reach.silent_s(3) < SILENT_S

    play(script)


def test_it_ends_with_the_client() -> None:
    async def script(_cluster: ModelCluster, bk: BookKeeper, reach: BookieReach) -> None:
        await bk.close()
        await asyncio.sleep(2.0)
        assert reach.silent_s(1) == 0.0
        assert reach.answering(SILENT_S) == frozenset()
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("reach")]

    play(script)

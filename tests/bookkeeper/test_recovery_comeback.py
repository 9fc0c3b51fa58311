"""Bookies that have just come back, while the client's own pause still refuses requests to them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.bookie import Bookie
from herdpy.bookkeeper.errors import (
    BookieIOError,
    BookieUnavailableError,
    RecoveryError,
)
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.testing.model import ModelCluster
from herdpy.testing.model.cluster import BookieNode
from herdpy.testing.model.network import on_host
from tests.bookkeeper.reader_fakes import SETTINGS as FAKE_SETTINGS
from tests.bookkeeper.reader_fakes import Ledger, run

SETTINGS = ClientSettings(
    request_timeout_s=5.0,
    connect_timeout_s=1.0,
    speculative_read_s=0.1,
    backoff_first_s=2.0,
    backoff_max_s=2.0,
    explicit_lac_interval_s=None,
)
LIMIT_S = FAKE_SETTINGS.request_timeout_s

Program = Callable[[BookKeeper, BookKeeper, ModelCluster], Awaitable[None]]


def simulate(program: Program) -> None:
    """Run ``program(writing, other, cluster)``: two clients of a cluster of three bookies."""
    cluster = ModelCluster(1, 3, session_timeout_s=5.0)

    async def opened(host: str) -> BookKeeper:
        with on_host(host):
            bk = BookKeeper(znodes=cluster.znodes(host), settings=SETTINGS, rng=random.Random(host))
            await bk.open()
            return bk

    async def main() -> None:
        writing, other = await opened("writer"), await opened("other")
        try:
            await program(writing, other, cluster)
        finally:
            await other.close()
            await writing.close()

    cluster.run(main)
    assert not cluster.loop.leaked


def nodes_of(cluster: ModelCluster) -> list[BookieNode]:
    return list(cluster.bookies.values())


def handles_of(bk: BookKeeper, nodes: list[BookieNode]) -> list[Bookie]:
    return [bk._open_parts().pool.get(node.bookie_id) for node in nodes]


async def refused_lately(bk: BookKeeper, ledger_id: int, cluster: ModelCluster) -> None:
    """Have "other" find two bookies out of reach, so that it pauses; then the network is whole again."""
    nodes = nodes_of(cluster)[:2]
    for node in nodes:
        cluster.network.partition("other", node.host)
    handles = handles_of(bk, nodes)
    with on_host("other"):
        failed = await asyncio.gather(
            *(handle.read_lac(ledger_id) for handle in handles), return_exceptions=True
        )
    assert all(isinstance(one, BookieUnavailableError) for one in failed)
    cluster.network.heal()
    for handle in handles:
        with pytest.raises(BookieUnavailableError):
            await handle.read_lac(ledger_id)
        assert handle.pause_left_s > 1.0


def test_a_bookie_that_registers_is_asked_at_once() -> None:
    async def program(writing: BookKeeper, other: BookKeeper, cluster: ModelCluster) -> None:
        node = nodes_of(cluster)[0]
        writer = await writing.create_ledger(3, 3, 2)
        await writer.append(b"1")
        (handle,) = handles_of(other, [node])
        placement = other._open_parts().placement
        await node.stop()
        with pytest.raises(BookieUnavailableError):
            await handle.read_lac(writer.ledger_id)
        placement.quarantine(node.bookie_id)
        assert handle.pause_left_s > 1.0
        registered = asyncio.Event()
        other._open_parts().registry.on_registration(lambda _bookie: registered.set())
        await node.start()
        await registered.wait()
        assert handle.pause_left_s == 0.0
        assert not placement.quarantined()
        await handle.read_lac(writer.ledger_id)

    simulate(program)


def test_a_bookie_that_registers_again_before_it_was_missed_is_asked_at_once() -> None:
    """Its registration is as before: only the change that made the znode is another."""

    async def program(_writing: BookKeeper, other: BookKeeper, cluster: ModelCluster) -> None:
        node = nodes_of(cluster)[0]
        registered: list[str] = []
        other._open_parts().registry.on_registration(registered.append)
        path = f"/ledgers/available/{node.bookie_id}"
        data = (await other.znodes.get(path)).data
        znodes = cluster.znodes("elsewhere")
        await znodes.start()
        cluster.network.partition("other", "zookeeper")
        await znodes.delete(path)
        await znodes.create(path, data)
        assert not registered
        cluster.network.heal()
        while not registered:
            await asyncio.sleep(0.01)
        assert registered == [node.bookie_id]
        await znodes.close()

    simulate(program)


def test_a_recovery_goes_on_when_a_bookie_registers() -> None:
    """The pause after a failure has begun; nobody waits for its end."""

    async def program(writing: BookKeeper, other: BookKeeper, cluster: ModelCluster) -> None:
        nodes = nodes_of(cluster)
        writer = await writing.create_ledger(3, 3, 2)
        for number in range(20):
            await writer.append(b"%d" % number)
        await writing.close()
        for node in nodes:
            await node.stop()
        recovering = asyncio.ensure_future(other.open_ledger(writer.ledger_id, recover=True))
        handles = handles_of(other, nodes)
        while not all(handle.pause_left_s > 1.0 for handle in handles):
            await asyncio.sleep(0.01)
        for node in nodes:
            await node.start()
        started_s = now_s()
        reader = await recovering
        assert reader.last_add_confirmed == 19
        assert now_s() - started_s < 0.5  # of virtual time: the pause had more than one second left

    simulate(program)


def test_a_ledger_is_recovered_from_bookies_that_have_just_come_back() -> None:
    async def program(writing: BookKeeper, other: BookKeeper, cluster: ModelCluster) -> None:
        writer = await writing.create_ledger(3, 3, 2)
        for number in range(20):
            await writer.append(b"%d" % number)
        await writing.close()
        await refused_lately(other, writer.ledger_id, cluster)
        reader = await other.open_ledger(writer.ledger_id, recover=True)
        assert reader.last_add_confirmed == 19
        assert [entry.data async for entry in reader.read(0, 19)] == [b"%d" % one for one in range(20)]

    simulate(program)


def test_what_is_confirmed_is_learnt_from_bookies_that_have_just_come_back() -> None:
    async def program(writing: BookKeeper, other: BookKeeper, cluster: ModelCluster) -> None:
        writer = await writing.create_ledger(3, 3, 2)
        for number in range(20):
            await writer.append(b"%d" % number)
        await refused_lately(other, writer.ledger_id, cluster)
        reader = await other.open_ledger(writer.ledger_id)
        assert reader.last_add_confirmed == 18

    simulate(program)


def now_s() -> float:
    return asyncio.get_running_loop().time()


def come_back(ledger: Ledger, *indexes: int, after_s: float) -> None:
    def back() -> None:
        for index in indexes:
            ledger.bookies[index].down = False

    asyncio.get_running_loop().call_later(after_s, back)


@pytest.mark.parametrize("handle_pauses", [False, True])
def test_one_bookie_that_comes_back_is_enough(handle_pauses: bool) -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        for bookie in ledger.bookies[:2]:
            bookie.down = True
            bookie.pause_left_s = 1.5 if handle_pauses else 0.0
        come_back(ledger, 1, after_s=4.0)
        closed = await ledger.recover()
        assert closed.metadata.last_entry_id == 9
        asked = len(ledger.bookies[0].asked)
        # Each pause of the handle is waited out; without one, nobody is asked in a busy loop.
        assert asked <= (6 if handle_pauses else 1 + 4.1 / 0.05)
        assert now_s() < LIMIT_S

    run(program)


def test_patience_with_bookies_that_stay_away_ends() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        for bookie in ledger.bookies[:2]:
            bookie.down = True
        with pytest.raises(RecoveryError, match=r"b0: .*b1: "):
            await ledger.recover()
        assert LIMIT_S - 0.1 < now_s() < LIMIT_S + 0.1
        reader = ledger.reader()
        with pytest.raises(BookieUnavailableError, match=r"b0: .*b1: "):
            await reader.read_last_add_confirmed()
        assert 2 * LIMIT_S - 0.2 < now_s() < 2 * LIMIT_S + 0.2
        await reader.close()

    run(program)


def test_a_bookie_that_hangs_after_its_return_does_not_prolong_the_patience() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        for bookie in ledger.bookies[:2]:
            bookie.down = True

        def hang() -> None:
            ledger.bookies[0].down, ledger.bookies[0].silent = False, True

        asyncio.get_running_loop().call_later(4.0, hang)
        with pytest.raises(RecoveryError, match="b0: the bookie cannot be reached"):
            await ledger.recover()
        assert now_s() < LIMIT_S + 0.1

    run(program)


def test_what_no_return_can_mend_fails_at_once() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        ledger.bookies[0].down = True
        for bookie in ledger.bookies[1:]:
            bookie.refusing = BookieIOError("disk is gone")
        with pytest.raises(RecoveryError, match="disk is gone"):
            await ledger.recover()
        reader = ledger.reader()
        with pytest.raises(BookieUnavailableError, match="disk is gone"):
            await reader.read_last_add_confirmed()
        await reader.close()
        assert now_s() < 0.1

    run(program)


def test_forward_reads_wait_for_a_bookie_to_come_back() -> None:
    """What is behind the last entry, only those know that were fenced and then could not be reached."""

    async def program() -> None:
        ledger = Ledger(3, 3, 2, "b3", "b4")
        ledger.write(0, 9)
        recovering = asyncio.ensure_future(ledger.recover())
        while not all(bookie.fenced for bookie in ledger.bookies):
            await asyncio.sleep(0.0005)
        for bookie in ledger.bookies[:2]:
            bookie.down = True
        come_back(ledger, 0, 1, after_s=3.0)
        assert (await recovering).metadata.last_entry_id == 9

    run(program)


def test_the_length_is_asked_of_a_bookie_that_comes_back() -> None:
    """The last segment is empty, and the last entry is with the bookies before."""

    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        ledger.replace(10, ("b3", "b4", "b5"))
        for bookie in ledger.bookies:
            bookie.down = True
        come_back(ledger, 2, after_s=3.0)
        metadata = (await ledger.recover()).metadata
        assert (metadata.last_entry_id, metadata.length_bytes) == (
            9,
            sum(len(b"%d." % one * 10) for one in range(10)),
        )

    run(program)

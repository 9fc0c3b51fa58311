"""The log on real ZooKeeper and bookies: what the simulation shows, where it can be shown so."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import uuid
from asyncio.subprocess import PIPE
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.log import START, LogError, TransactionAssembler
from herdpy.log.bookkeeper import LedgerLogSettings
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from tests.log_bookkeeper.kit import Node, numbers, transaction

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def nodes(uri, *names, path=None, **settings):
    """Clients of the cluster, with a log of their own."""
    path = path or f"/log-tests/{uuid.uuid4().hex}/ledgers"
    made = []
    try:
        for name in names:
            bk = BookKeeper(uri, settings=ClientSettings(quarantine_s=0.5))
            await bk.open()
            made.append(Node(name, bk, LedgerLogSettings(**settings), path))
        yield made
    finally:
        for node in made:
            await node.close()


@asynccontextmanager
async def leader_process(uri, path):
    """A leader in a process of its own; see ``leader_process``."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.log_bookkeeper.leader_process", uri, path, "1"),
        cwd=ROOT,
        stdout=PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def hear(process, count):
    """The next numbers that it says."""
    said = []
    for _ in range(count):
        async with asyncio.timeout(60):
            line = (await process.stdout.readline()).split()
        if not line or line[0] == b"lost":
            return said, line
        if line[0] != b"leads":
            said.append(int(line[0]))
    return said, None


LAST = 1_000_000
"""The number of the transaction that ends a following."""


def test_followers_go_along_over_small_ledgers_also_when_they_pause(bookkeeper_cluster):
    async def program():
        async with nodes(bookkeeper_cluster.uri, "a", "b", max_ledger_bytes=2000) as (a, b):
            seen = []
            paused = asyncio.Event()

            async def follow(pausing):
                assembler, found = TransactionAssembler(START), []
                async for _, entry in b.follow().tail(START):
                    found += [one.timestamp_us for _, one in assembler.feed(entry)]
                    if pausing and len(found) > 20 and not paused.is_set():
                        await paused.wait()
                    if found and found[-1] == LAST:
                        break
                seen.append(found[:-1])

            following = [asyncio.create_task(follow(one)) for one in (False, True)]
            log = await a.lead(1)
            count = 0
            while count < 300 or len(log.ledgers()) <= 5:  # the next ledger is made beside the writing
                appends = [log.append(transaction(count + one, 40)) for one in range(3)]
                await appends[-1]
                count += 3
            await log.append(transaction(LAST))
            paused.set()
            async with asyncio.timeout(60):
                await asyncio.gather(*following)
            assert seen == [list(range(count))] * 2
            assert await numbers(log.read(START)) == [*range(count), LAST]
            await log.aclose()

    asyncio.run(program())


def test_a_killed_leader_leaves_all_that_it_acknowledged(bookkeeper_cluster):
    async def program():
        async with nodes(bookkeeper_cluster.uri, "b") as (b,):
            async with leader_process(bookkeeper_cluster.uri, b.list.path) as leader:
                said, _ = await hear(leader, 400)
                leader.send_signal(signal.SIGKILL)
                while True:
                    more, ended = await hear(leader, 100)
                    said += more
                    if ended is not None:
                        break
            takeover = await b.take_over(2)
            found = await numbers(takeover.log.read(START, takeover.end))
            assert said == list(range(1, len(said) + 1))
            assert found[: len(said)] == said
            log = await takeover.lead()
            await log.append(transaction(0))
            await log.aclose()
            assert await numbers(b.follow().read(START)) == [*found, 0]

    asyncio.run(program())


def test_a_paused_leader_that_wakes_writes_nothing_more(bookkeeper_cluster):
    async def program():
        async with nodes(bookkeeper_cluster.uri, "b") as (b,):
            async with leader_process(bookkeeper_cluster.uri, b.list.path) as leader:
                said, _ = await hear(leader, 200)
                leader.send_signal(signal.SIGSTOP)
                log = await b.lead(2)
                lsn = await log.append(transaction(0))
                leader.send_signal(signal.SIGCONT)
                ended = None
                while ended is None:
                    more, ended = await hear(leader, 100)
                    said += more
                assert ended[1] in (b"LogFencedError", b"LedgerListConflictError")
            assert await log.append(transaction(0)) > lsn
            found = await numbers(log.read(START))
            assert found[-2:] == [0, 0]
            assert set(found[len(said) : -2]) <= {int(one) for one in ended[2:]}
            assert found[: len(said)] == said
            await log.aclose()

    asyncio.run(program())


@pytest.mark.parametrize("quorums", [pytest.param((3, 2, 2), marks=pytest.mark.soak), (3, 3, 2)])
def test_one_of_three_bookies_is_gone_for_good(own_cluster, quorums):
    cluster = own_cluster(3)
    ensemble, write, ack = quorums

    async def program():
        settings = {"ensemble": ensemble, "write_quorum": write, "ack_quorum": ack}
        async with nodes(cluster.uri, "a", "b", **settings) as (a, b):
            log = await a.lead(1)
            for number in range(20):
                await log.append(transaction(number))
            cluster.bookies[0].kill()
            for number in range(20, 60):
                await log.append(transaction(number))
            metadata = await a.bk.ledger_metadata(log.ledgers()[-1].ledger_id)
            assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (2, 2, 2)
            other = await b.lead(2)
            await other.append(transaction(60))
            with pytest.raises(LogError):
                await log.append(transaction(1000))
            assert await numbers(other.read(START)) == list(range(61))
            cluster.bookies[0].start()
            while metadata.ensemble_size < 3:
                await other.append(transaction(61))
                metadata = await a.bk.ledger_metadata(other.ledgers()[-1].ledger_id)
            await other.aclose()

    asyncio.run(program())


def test_threads_may_append_flush_roll_trim_and_close(bookkeeper_cluster):
    async def program():
        async with nodes(bookkeeper_cluster.uri, "a") as (a,):
            log = await a.lead(1)
            failed = []

            def work(first):
                try:
                    for number in range(first, first + 50):
                        append = log.append(transaction(number))
                        append.block()
                        append.result()
                    log.flush()
                    log.roll()
                    log.trim(START)
                except BaseException as error:  # noqa: BLE001 - the test shows it
                    failed.append(error)

            threads = [threading.Thread(target=work, args=(first,)) for first in (0, 100)]
            for thread in threads:
                thread.start()
            for thread in threads:
                await asyncio.to_thread(thread.join)
            assert not failed
            with pytest.raises(RuntimeError):
                log.flush()
            await asyncio.to_thread(log.close)
            found = await numbers(a.follow().read(START))
            assert sorted(found) == [*range(50), *range(100, 150)]
            assert [one for one in found if one < 100] == list(range(50))

    asyncio.run(program())


def test_a_list_of_more_ledgers_than_a_znode_holds(bookkeeper_cluster):
    async def main():
        async with nodes(bookkeeper_cluster.uri, "a", "b") as (a, b):
            many = tuple(LedgerInfo(one, 1, True, 9, 1000, 7, 3, "a") for one in range(1, 15_000))
            state = LedgerListState(0, "1" * 32, 15_000, ledgers=many, epoch=3, node="a")
            written = await a.list.write(state, 0)
            assert await b.list.read() == written
            again = await b.list.write(written, written.version)
            assert await a.list.read() == again

    asyncio.run(main())

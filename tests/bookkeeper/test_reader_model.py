"""Reading, tailing and recovering through real connections to model bookies, in virtual time."""

from __future__ import annotations

import asyncio
import gc
import random
from contextlib import AsyncExitStack

import pytest

from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.errors import BookKeeperError
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.testing.model import ModelCluster
from herdpy.testing.model.network import on_host

SETTINGS = ClientSettings(
    request_timeout_s=1.0, connect_timeout_s=1.0, speculative_read_s=0.1, long_poll_s=0.5
)


def simulate(program, seed=1, bookies=5):
    """Run ``program(cluster, client, rng)``; ``client(host)`` opens a client that lives as long."""
    cluster = ModelCluster(seed, bookies, session_timeout_s=5.0)
    rng = random.Random(seed)

    async def main():
        async with AsyncExitStack() as stack:

            async def client(host):
                with on_host(host):
                    bk = BookKeeper(
                        znodes=cluster.znodes(host), settings=SETTINGS, rng=random.Random(f"{seed} {host}")
                    )
                    return await stack.enter_async_context(bk)

            return await program(cluster, client, rng)

    result = cluster.run(main)
    assert not cluster.loop.leaked
    return result


def data_of(entry_id):
    return b"entry %d" % entry_id


@pytest.mark.parametrize("quorums", [(3, 3, 2), (4, 3, 2), (4, 2, 1)])
def test_what_was_written_is_read_tailed_and_recovered(quorums):
    async def program(cluster, client, rng):
        bk, other = await client("writer"), await client("reader")
        writer = await bk.create_ledger(*quorums, password=b"secret")
        reader = await other.open_ledger(writer.ledger_id, b"secret")
        tailed = []

        async def follow():
            tailed.extend([entry.data async for entry in reader.tail(0)])

        following = asyncio.ensure_future(follow())
        for entry_id in range(50):
            assert await writer.append(data_of(entry_id)) == entry_id
        recovered = await other.open_ledger(writer.ledger_id, b"secret", recover=True)
        assert recovered.is_closed
        assert recovered.last_add_confirmed == 49
        assert recovered.length_bytes == sum(len(data_of(one)) for one in range(50))
        await following
        assert tailed == [data_of(one) for one in range(50)]
        assert [entry.data async for entry in recovered.read(0, 49)] == tailed

    simulate(program)


def test_a_loop_that_stops_early_leaves_no_reply_unaccounted_for():
    async def program(cluster, client, rng):
        bk = await client("reader")
        writer = await bk.create_ledger(password=b"")
        for entry_id in range(300):
            await writer.append(data_of(entry_id))
        await writer.close()
        reader = await bk.open_ledger(writer.ledger_id)
        tasks = asyncio.all_tasks()
        async for entry in reader.read(0, 299):
            if entry.entry_id == 5:
                break
        gc.collect()
        await asyncio.sleep(1)
        assert asyncio.all_tasks() == tasks
        assert (await reader.get(299)).data == data_of(299)

    simulate(program)


@pytest.mark.parametrize("seed", range(25))
def test_readers_and_recoverers_among_failing_bookies(seed):
    """Whatever was acknowledged is tailed once and in order, and is in what two recoverers agree on."""

    async def program(cluster, client, rng):
        write_quorum = rng.randint(2, 3)
        quorums = (rng.randint(write_quorum, 4), write_quorum, 2)
        bk, follower, rescuer = [await client(host) for host in ("writer", "follower", "rescuer")]
        writer = await bk.create_ledger(*quorums)
        reader = await follower.open_ledger(writer.ledger_id)
        tailed, acknowledged = [], []

        async def follow():
            async for entry in reader.tail(0):
                assert entry.data == data_of(entry.entry_id)
                tailed.append(entry.entry_id)

        async def write():
            while True:
                try:
                    acknowledged.append(await writer.append(data_of(len(acknowledged))))
                except BookKeeperError:
                    return
                await asyncio.sleep(rng.uniform(0, 0.05))

        async def harm():
            while True:
                await asyncio.sleep(rng.uniform(0.1, 1.5))
                node = rng.choice(list(cluster.bookies.values()))
                for other in cluster.bookies.values():  # one at a time
                    if other.is_paused:
                        other.resume()
                    if not other.is_running:
                        await other.start()
                match rng.randrange(3):
                    case 0:
                        node.pause()
                    case 1:
                        node.crash()

        async def rescue(rival):
            while True:
                try:
                    return await rival.open_ledger(writer.ledger_id, recover=True)
                except BookKeeperError:
                    await asyncio.sleep(1)

        following, writing, harming = map(asyncio.ensure_future, (follow(), write(), harm()))
        await asyncio.sleep(rng.uniform(1, 8))
        ends = await asyncio.gather(rescue(rescuer), rescue(follower))
        await asyncio.wait_for(writing, 60)
        last = ends[0].last_add_confirmed
        assert [end.last_add_confirmed for end in ends] == [last, last]
        assert acknowledged == list(range(len(acknowledged)))
        assert last >= len(acknowledged) - 1
        await asyncio.wait_for(following, 60)
        assert tailed == list(range(last + 1))
        harming.cancel()
        await asyncio.gather(harming, return_exceptions=True)
        for node in cluster.bookies.values():
            if not node.is_running:
                await node.start()
        cluster.heal()
        assert [entry.entry_id async for entry in ends[0].read(0, last)] == tailed
        metadata = ends[0].metadata
        assert metadata.length_bytes == sum(len(data_of(one)) for one in range(last + 1))

    simulate(program, seed)

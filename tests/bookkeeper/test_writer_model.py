"""LedgerWriter over model bookies and a model ZooKeeper, in virtual time: crashes, pauses, partitions."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager, suppress

import pytest

from herdpy.bookkeeper.bookie import BookiePool
from herdpy.bookkeeper.digest import Digest, DigestType
from herdpy.bookkeeper.errors import (
    BookKeeperError,
    LedgerFencedError,
    NotEnoughBookiesError,
    Outcome,
)
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState, Segment
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore
from herdpy.bookkeeper.metadata.paths import read_layout
from herdpy.bookkeeper.metadata.registry import Registry
from herdpy.bookkeeper.placement import Placement, write_set
from herdpy.bookkeeper.read.recovery import recover_ledger
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.testing.model import ModelCluster
from tests.bookkeeper.writer_bugs import seed_bug

PASSWORD = b"secret"


class Client:
    """The parts of a client that a writer needs."""

    def __init__(self, cluster, rng, **settings):
        self.settings = ClientSettings(request_timeout_s=1.0, connect_timeout_s=1.0, **settings)
        self.cluster = cluster
        self.rng = rng
        self.digest = Digest.of(DigestType.CRC32C, PASSWORD)

    @asynccontextmanager
    async def open(self):
        znodes = self.cluster.znodes("client")
        await znodes.start()
        layout = await read_layout(znodes, self.cluster.root)
        registry = Registry(znodes, self.cluster.root)
        await registry.start()
        self.store = LedgerStore(znodes, self.cluster.root, layout, rng=self.rng)
        self.pool = BookiePool(self.settings, registry.address, rng=self.rng)
        self.placement = Placement(registry, self.rng, self.settings)
        try:
            yield self
        finally:
            self.pool.close()
            registry.close()
            await znodes.close()

    async def create(self, ensemble=3, write_quorum=3, ack_quorum=2, **options):
        members = self.placement.new_ensemble(ensemble)
        metadata = LedgerMetadata(
            ensemble, write_quorum, ack_quorum, (Segment(0, members),), password=PASSWORD
        )
        ledger_id, versioned = await self.store.create(metadata)
        parts = (self.store, self.pool, self.placement, self.settings, self.digest)
        return LedgerWriter(ledger_id, versioned, *parts, **options)


def simulate(program, seed=1, bookies=5, sync_s=(0.0005, 0.003), **settings):
    cluster = ModelCluster(seed, bookies, sync_s=sync_s)
    client = Client(cluster, random.Random(seed), **settings)

    async def main():
        async with client.open():
            return await program(cluster, client)

    return cluster.run(main)


def holders(cluster, metadata, ledger_id, entry_id):
    members = metadata.ensemble_at(entry_id).members
    indexes = write_set(entry_id, metadata.ensemble_size, metadata.write_quorum)
    return [members[index] for index in indexes if cluster.bookies[members[index]].holds(ledger_id, entry_id)]


def check_stored(cluster, metadata, ledger_id, last_entry_id):
    for entry_id in range(last_entry_id + 1):
        found = holders(cluster, metadata, ledger_id, entry_id)
        assert len(found) >= metadata.ack_quorum, f"entry {entry_id} is only on {found}"


@pytest.mark.parametrize(("ensemble", "write", "ack"), [(3, 3, 2), (4, 2, 2), (5, 3, 1), (1, 1, 1)])
def test_write_and_close(ensemble, write, ack):
    async def program(cluster, client):
        writer = await client.create(ensemble, write, ack)
        futures = [writer.append_nowait(b"%d" % number) for number in range(200)]
        assert await asyncio.gather(*futures) == list(range(200))
        await writer.close()
        stored = (await client.store.read(writer.ledger_id)).metadata
        assert (stored.state, stored.last_entry_id) == (LedgerState.CLOSED, 199)
        assert stored.length_bytes == sum(len(b"%d" % number) for number in range(200))
        check_stored(cluster, stored, writer.ledger_id, 199)

    simulate(program)


@pytest.mark.parametrize("fault", ["crash", "pause", "readonly", "partition"])
def test_a_bookie_that_goes_is_replaced(fault):
    async def program(cluster, client):
        writer = await client.create()
        victim = cluster.bookies[writer.metadata.last_segment.members[1]]
        for number in range(60):
            if number == 20:
                if fault == "readonly":
                    victim.set_readonly(True)
                elif fault == "partition":
                    cluster.network.partition("client", victim.host)
                else:
                    getattr(victim, fault)()
            assert await writer.append(bytes(100)) == number
            await asyncio.sleep(0.1)
        segments = writer.metadata.segments
        assert len(segments) == 2
        assert victim.bookie_id not in segments[1].members
        assert segments[1].first_entry_id >= 20
        cluster.heal()
        await writer.close()
        check_stored(cluster, writer.metadata, writer.ledger_id, 59)

    simulate(program)


def test_a_paused_replica_holds_up_to_its_bound_and_no_more():
    async def program(cluster, client):
        writer = await client.create()
        victim = cluster.bookies[writer.metadata.last_segment.members[0]]
        victim.pause()
        slow = client.pool.get(victim.bookie_id)
        most = 0
        for number in range(400):
            assert await writer.append(bytes(1000)) == number
            most = max(most, slow.pending_bytes)
        assert 40_000 <= most < 52_000
        assert victim.bookie_id not in writer.metadata.last_segment.members
        await writer.close()
        check_stored(cluster, writer.metadata, writer.ledger_id, 399)

    simulate(program, max_bookie_pending_bytes=50_000)


def test_a_recovered_ledger_refuses_its_old_writer():
    async def program(cluster, client):
        writer = await client.create()
        for _ in range(10):
            await writer.append(b"before")
        flying = [writer.append_nowait(b"in flight") for _ in range(50)]
        parts = (client.store, client.pool, client.placement, client.settings, client.digest)
        versioned = await client.store.read(writer.ledger_id)
        recovered = await recover_ledger(writer.ledger_id, versioned, *parts, PASSWORD)
        outcomes = await asyncio.gather(*flying, return_exceptions=True)
        done = [one for one in outcomes if isinstance(one, int)]
        for failed in outcomes[len(done) :]:
            assert isinstance(failed, LedgerFencedError)
            assert failed.outcome is Outcome.UNKNOWN
        with pytest.raises(LedgerFencedError) as refused:
            await writer.append(b"after")
        assert refused.value.outcome is Outcome.NOT_DONE
        end = recovered.metadata.last_entry_id
        assert recovered.metadata.is_closed
        assert end >= writer.last_add_confirmed == 9 + len(done)

    for seed in range(5):
        simulate(program, seed)


def test_deferred_entries_survive_a_crash_once_forced():
    async def program(cluster, client):
        writer = await client.create(deferred_sync=True)
        for _ in range(20):
            await writer.append(b"x")
        assert writer.last_add_confirmed == -1
        await writer.force()
        assert writer.last_add_confirmed == 19
        for bookie_id in writer.metadata.last_segment.members:
            cluster.bookies[bookie_id].crash()
        check_stored(cluster, writer.metadata, writer.ledger_id, 19)
        with pytest.raises(BookKeeperError, match="deferred sync"):
            await writer.append(b"x")

    simulate(program)


def test_an_idle_writers_last_entry_is_told_to_its_bookies():
    async def program(cluster, client):
        writer = await client.create()
        await writer.append(b"only")
        await asyncio.sleep(1.0)
        for bookie_id in writer.metadata.last_segment.members:
            assert (await client.pool.get(bookie_id).read_lac(writer.ledger_id)).lac_body is not None
        await writer.close()

    simulate(program)


def history(seed):
    """Several ledgers written while bookies and the network misbehave; what is left must be whole."""

    async def program(cluster, client):
        rng = client.rng
        stop = asyncio.Event()
        trouble = asyncio.create_task(make_trouble(cluster, rng, stop))
        written = await asyncio.gather(*(write_ledgers(client, rng, 150) for _ in range(2)))
        stop.set()
        await trouble
        cluster.heal()
        changes = 0
        for ledger_id, last_confirmed, lengths in [one for part in written for one in part]:
            metadata = (await client.store.read(ledger_id)).metadata
            assert metadata.is_closed
            assert metadata.last_entry_id == last_confirmed
            assert metadata.length_bytes == (lengths[last_confirmed] if last_confirmed >= 0 else 0)
            check_stored(cluster, metadata, ledger_id, last_confirmed)
            changes += len(metadata.segments) - 1
        return changes

    try:
        # Disks so uneven that replicas answer far apart: what counts a wrong one is then seen.
        return simulate(program, seed, bookies=9, sync_s=(0.001, 0.4), max_in_flight_entries=20)
    except BaseException as failed:
        failed.add_note(f"seed {seed}")
        raise


def histories(count, first_seed=0):
    """How many ensemble changes ``count`` histories had."""
    return sum(history(seed) for seed in range(first_seed, first_seed + count))


class Confirmations:
    """Looks at the disks in the moment an entry is confirmed: what comes later must not repair it."""

    def __init__(self, cluster, writer):
        self.cluster = cluster
        self.writer = writer
        self.last_entry_id = -1
        self.broken = []

    def __call__(self, future):
        if future.exception() is not None:
            return
        entry_id = future.result()
        if entry_id != self.last_entry_id + 1:
            self.broken.append(f"entry {entry_id} is confirmed after entry {self.last_entry_id}")
        self.last_entry_id = entry_id
        metadata = self.writer.metadata
        found = holders(self.cluster, metadata, self.writer.ledger_id, entry_id)
        if len(found) < metadata.ack_quorum:
            self.broken.append(f"entry {entry_id} is confirmed and only on {found}")


async def write_ledgers(client, rng, count):
    """Write ``count`` entries into as many ledgers as it takes; each: id, last confirmed, lengths."""
    result = []
    while count > 0:
        ensemble = rng.randint(1, 4)
        write_quorum = rng.randint(1, ensemble)
        try:
            writer = await client.create(ensemble, write_quorum, rng.randint(1, write_quorum))
        except NotEnoughBookiesError:
            await asyncio.sleep(1.0)
            continue
        lengths, futures = [], []
        seen = Confirmations(client.cluster, writer)
        with suppress(NotEnoughBookiesError):
            while count > 0:
                size = rng.randint(0, 3000)
                await writer.room()
                futures.append(writer.append_nowait(bytes(size)))
                futures[-1].add_done_callback(seen)
                lengths.append(size + (lengths[-1] if lengths else 0))
                count -= 1
                if rng.random() < 0.5:
                    await asyncio.sleep(rng.uniform(0, 0.2))
        await writer.close()
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        done = [one for one in outcomes if isinstance(one, int)]
        assert done == list(range(len(done)))
        for failed in outcomes[len(done) :]:
            assert isinstance(failed, NotEnoughBookiesError)
            assert failed.outcome is Outcome.UNKNOWN
        assert writer.last_add_confirmed == len(done) - 1 == seen.last_entry_id
        assert not seen.broken, seen.broken[0]
        result.append((writer.ledger_id, writer.last_add_confirmed, lengths))
    return result


async def make_trouble(cluster, rng, stop):
    """At most two bookies in trouble at a time."""
    troubled = {}
    while not stop.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(rng.uniform(0.1, 2.0)):
                await stop.wait()
        if troubled and (len(troubled) == 2 or rng.random() < 0.5):
            bookie_id = rng.choice(sorted(troubled))
            del troubled[bookie_id]
            node = cluster.bookies[bookie_id]
            cluster.network.heal("client", node.host)
            node.resume()
            node.set_readonly(False)
            await node.start()
            continue
        bookie_id = rng.choice(sorted(set(cluster.bookies) - set(troubled)))
        node = cluster.bookies[bookie_id]
        kind = rng.choice(("crash", "pause", "readonly", "partition", "reset", "silent"))
        if kind == "crash":
            node.crash()
        elif kind == "pause":
            node.pause()
        elif kind == "readonly":
            node.set_readonly(True)
        elif kind == "partition":
            cluster.network.partition("client", node.host)
        elif kind == "silent":
            cluster.network.cut(node.host, "client")
        else:
            cluster.network.reset_connections("client", node.host)
            continue
        troubled[bookie_id] = kind


@pytest.mark.parametrize("ten", range(3))
def test_histories_with_faults(ten):
    assert histories(10, ten * 10) > 10


@pytest.mark.parametrize(
    "bug",
    [
        "acks_of_replaced_bookies_stay",
        "late_acks_of_replaced_bookies_count",
        "completes_out_of_order",
        "segment_one_too_late",
        "segment_one_too_early",
        "carries_too_much",
    ],
)
def test_a_seeded_bug_is_caught_by_the_model(bug, monkeypatch):
    seed_bug(monkeypatch, bug)
    with pytest.raises(AssertionError):
        histories(30)


@pytest.mark.soak
@pytest.mark.parametrize("hundred", range(10, 30))
def test_many_histories_with_faults(hundred):
    assert histories(100, hundred * 100) > 100

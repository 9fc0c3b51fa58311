"""What is published is recorded by compare-and-set; leases on snapshots; who publishes. Modelled and real."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.log.lsn import LSN
from herdpy_server.cluster.errors import PositionTrimmedError
from herdpy_server.cluster.layout import Layout, PublishedRecord, SnapshotRecord
from herdpy_server.cluster.positions import claim_trim, read_needs
from herdpy_server.cluster.readers import (
    PublishingLock,
    found_lease,
    lease_reader,
    published_of,
    read_published,
    record_published,
)
from herdpy_server.cluster.tablespaces import TablespaceInfo
from tests.support.znode_worlds import World

HOUR_S = 3600.0


def told(ledger_id: int, url: str = "place") -> PublishedRecord:
    lsn = LSN(ledger_id, 0)
    return PublishedRecord(lsn=lsn, url=url, time_us=ledger_id, snapshots=(SnapshotRecord(lsn, ledger_id),))


def test_an_older_word_does_not_replace_a_newer_one(world: World) -> None:
    """A node that slept over its turn is late; at another place everything begins anew."""

    async def program() -> None:
        znodes, paths = await world.client(), Layout(world.root).tablespace("t")
        await znodes.create(paths.info, make_parents=True)
        assert await read_published(znodes, paths) is None
        for record, stays in (
            (told(5), told(5)),
            (told(4), told(5)),
            (told(5), told(5)),
            (told(6), told(6)),
            (told(2, "other"), told(2, "other")),
        ):
            assert await record_published(znodes, paths, record) == stays
            assert await read_published(znodes, paths) == stays
        for url, found in (("other", told(2, "other")), ("place", None), ("", None)):
            info = TablespaceInfo(name="t", uuid="u", snapshot_url=url)
            assert await published_of(znodes, paths, info) == found

    world.run(program)


def test_one_publishes_at_a_time(world: World) -> None:
    """The lock tells who holds it, and goes with the session of who does."""

    async def program() -> None:
        znodes, other = await world.client(), await world.client()
        paths = Layout(world.root).tablespace("t")
        await znodes.create(paths.info, make_parents=True)
        first, second = PublishingLock(znodes, paths, "a"), PublishingLock(other, paths, "b")
        assert await first.take() is None
        assert await second.take() == "a"
        await second.release()  # which is not one's own
        assert await second.take() == "a"
        await first.release()
        assert await second.take() is None

    world.run(program)


def test_a_lease_on_a_snapshot_alone(world: World) -> None:
    """It keeps no entries, and does not ask for any; what another node leased is renewed here."""

    async def program() -> None:
        znodes, other = await world.client(), await world.client()
        paths = Layout(world.root).tablespace("t")
        await znodes.create(paths.info, make_parents=True)

        async def claim(checkpoint: LSN) -> LSN:
            return await claim_trim(znodes, paths, checkpoint, (), retention_s=0)

        assert await claim(LSN(5, 0)) == LSN(5, 0)
        with pytest.raises(PositionTrimmedError):
            await lease_reader(znodes, paths, LSN(2, 0), "spark", lease_s=HOUR_S)
        lease = await lease_reader(znodes, paths, LSN(2, 0), "spark", lease_s=HOUR_S, entries=False)
        assert await claim(LSN(7, 0)) == LSN(7, 0)
        shared = [await found_lease(other, paths, lease.reader, lease_s=HOUR_S) for _ in range(8)]
        await asyncio.gather(*(one.renew() for one in shared))  # tasks of one job, all at once
        found = await found_lease(other, paths, lease.reader, lease_s=2 * HOUR_S)
        await found.renew()
        (record,) = (await read_needs(znodes, paths)).readers.values()
        assert (record.lsn, record.entries) == (LSN(2, 0), False)
        assert record.expires_us > lease.record.expires_us
        await found.release()
        with pytest.raises(PositionTrimmedError):
            await found_lease(other, paths, lease.reader, lease_s=HOUR_S)

    world.run(program)

"""LedgerWriter on real bookies that are killed and paused while it writes."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.errors import LedgerFencedError, NotEnoughBookiesError, Outcome
from herdpy.bookkeeper.settings import ClientSettings

ENTRIES = 3000


async def write(writer, first, last):
    futures = []
    for number in range(first, last):
        await writer.room()
        futures.append(writer.append_nowait(b"%d" % number))
    assert await asyncio.gather(*futures) == list(range(first, last))


async def write_one_by_one(writer, first, last):
    for number in range(first, last):
        assert await writer.append(b"%d" % number) == number


async def check(bk, writer, last_entry_id):
    reader = await bk.open_ledger(writer.ledger_id)
    assert reader.is_closed
    assert reader.last_add_confirmed == last_entry_id
    found = [(entry.entry_id, entry.data) async for entry in reader.read(0, last_entry_id)]
    assert found == [(number, b"%d" % number) for number in range(last_entry_id + 1)]
    await reader.close()


def victim_of(cluster, writer):
    """A bookie of the ensemble that is being written to."""
    members = writer.metadata.last_segment.members
    return next(bookie for bookie in cluster.bookies if bookie.id in members)


@pytest.mark.soak
def test_bookies_are_killed_and_paused_while_a_ledger_is_written(own_cluster):
    cluster = own_cluster(5)

    async def main():
        settings = ClientSettings(request_timeout_s=8.0, max_in_flight_entries=200)
        async with BookKeeper(cluster.uri, settings=settings) as bk:
            writer = await bk.create_ledger(3, 3, 2)
            striped = await bk.create_ledger(3, 2, 2)
            for one in (writer, striped):
                await write(one, 0, ENTRIES)
            killed = victim_of(cluster, writer)
            flying = asyncio.gather(*(write(one, ENTRIES, 2 * ENTRIES) for one in (writer, striped)))
            await asyncio.sleep(0)
            killed.kill()
            await flying
            paused = victim_of(cluster, striped)
            flying = asyncio.gather(*(write(one, 2 * ENTRIES, 3 * ENTRIES) for one in (writer, striped)))
            await asyncio.sleep(0)
            paused.pause()
            await flying
            members = {*writer.metadata.last_segment.members, *striped.metadata.last_segment.members}
            assert killed.id not in members
            paused.resume()
            for one in (writer, striped):
                await one.close()
                await check(bk, one, 3 * ENTRIES - 1)

    asyncio.run(main())


def test_a_fenced_writer_and_one_without_bookies(own_cluster):
    cluster = own_cluster(3)

    async def main():
        async with BookKeeper(cluster.uri, settings=ClientSettings(request_timeout_s=20.0)) as bk:
            writer = await bk.create_ledger(3, 3, 2)
            await write(writer, 0, 100)
            recovered = await bk.open_ledger(writer.ledger_id, recover=True)
            assert recovered.last_add_confirmed == 99
            with pytest.raises(LedgerFencedError):
                await writer.append(b"100")
            with pytest.raises(LedgerFencedError) as refused:
                writer.append_nowait(b"100")
            assert refused.value.outcome is Outcome.NOT_DONE

            deferred = await bk.create_ledger(3, 3, 2, deferred_sync=True)
            await write(deferred, 0, 50)
            assert deferred.last_add_confirmed == -1
            await deferred.force()
            assert deferred.last_add_confirmed == 49
            await deferred.close()
            await check(bk, deferred, 49)

            writer = await bk.create_ledger(3, 3, 2)
            await write(writer, 0, 100)
            cluster.bookies[0].kill()
            with pytest.raises(NotEnoughBookiesError):
                await write_one_by_one(writer, 100, 1000)
            end = writer.last_add_confirmed
            assert end >= 99
            await writer.close()
            await check(bk, writer, end)
            await survive_an_empty_disk(bk, cluster.bookies[2])

    asyncio.run(main())


async def survive_an_empty_disk(bk, bookie):
    """One bookie is away, another comes back empty under its name: the third one has everything."""
    writer = await bk.create_ledger(2, 2, 2)
    await write(writer, 0, 50)
    assert bookie.id in writer.metadata.last_segment.members
    bookie.kill()
    bookie.wipe()
    bookie.start()
    for _ in range(3):  # whichever of the two is asked first
        recovered = await bk.open_ledger(writer.ledger_id, recover=True)
        assert recovered.last_add_confirmed == 49
        assert [entry.data async for entry in recovered.read(0, 49)] == [b"%d" % one for one in range(50)]
    writer.abandon(LedgerFencedError("it was recovered"))

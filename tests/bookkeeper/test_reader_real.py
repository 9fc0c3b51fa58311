"""Reading, tailing and recovering on real bookies, with bookies killed and paused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from herdpy.bookkeeper import BookKeeper, DigestType
from herdpy.bookkeeper.errors import LedgerFencedError, NoSuchEntryError
from herdpy.bookkeeper.settings import ClientSettings

PATIENT = ClientSettings(request_timeout_s=20.0, connect_timeout_s=20.0, speculative_read_s=0.1)
"""A busy machine may need seconds for the first entries of bookies that have just started, and no test here
waits for a request that is never answered: an ack quorum is left, and other bookies are asked to read."""


def data_of(entry_id):
    return b"%d," % entry_id * 50


def length_of(count):
    return sum(len(data_of(one)) for one in range(count))


async def append(writer, first, last):
    await asyncio.gather(*[writer.append_nowait(data_of(one)) for one in range(first, last + 1)])


async def ids(entries):
    return [entry.entry_id async for entry in entries]


@pytest.mark.parametrize("digest", DigestType)
@pytest.mark.parametrize("quorums", [(3, 3, 2), (3, 2, 2), (3, 2, 1), (1, 1, 1)])
def test_a_ledger_left_open_is_recovered_and_its_writer_fenced(bookkeeper_cluster, digest, quorums):
    async def main():
        async with BookKeeper(bookkeeper_cluster.uri) as bk, BookKeeper(bookkeeper_cluster.uri) as other:
            writer = await bk.create_ledger(*quorums, digest, b"secret")
            await append(writer, 0, 300)
            reader = await other.open_ledger(writer.ledger_id, b"secret", recover=True)
            assert reader.is_closed
            assert (reader.last_add_confirmed, reader.length_bytes) == (300, length_of(301))
            assert [entry.data async for entry in reader.read(0, 300)] == [data_of(one) for one in range(301)]
            with pytest.raises(LedgerFencedError):
                await writer.append(b"too late")
            with pytest.raises(NoSuchEntryError):
                reader.read(0, 301)
            assert reader.digest_mismatches == 0

    asyncio.run(main())


def test_an_empty_ledger_is_recovered(bookkeeper_cluster):
    async def main():
        async with BookKeeper(bookkeeper_cluster.uri) as bk, BookKeeper(bookkeeper_cluster.uri) as other:
            writer = await bk.create_ledger()
            reader = await other.open_ledger(writer.ledger_id, recover=True)
            assert (reader.last_add_confirmed, reader.length_bytes) == (-1, 0)
            assert await ids(reader.read(0, -1)) == []
            assert await ids(reader.tail(0)) == []
            with pytest.raises(LedgerFencedError):
                await writer.append(b"too late")

    asyncio.run(main())


def test_a_tail_sees_every_entry_and_the_end(bookkeeper_cluster):
    async def main():
        async with BookKeeper(bookkeeper_cluster.uri) as bk:
            # Without an explicit one, the last add confirmed travels with entries and the close only.
            quiet = replace(ClientSettings(), explicit_lac_interval_s=None)
            async with BookKeeper(bookkeeper_cluster.uri, settings=quiet) as writing:
                writer = await writing.create_ledger(3, 2, 2)
                reader = await bk.open_ledger(writer.ledger_id)
                following = asyncio.ensure_future(ids(reader.tail(0)))
                for entry_id in range(100):
                    await writer.append(data_of(entry_id))
                await append(writer, 100, 1999)
                await writer.close()
                assert await following == list(range(2000))

    asyncio.run(main())


def test_an_explicit_lac_lets_a_tail_see_the_last_entry_of_an_idle_writer(bookkeeper_cluster):
    async def main():
        async with BookKeeper(bookkeeper_cluster.uri) as bk:
            writer = await bk.create_ledger()
            reader = await bk.open_ledger(writer.ledger_id)
            tail = reader.tail(0)
            for entry_id in range(3):
                await writer.append(data_of(entry_id))
                assert (await anext(tail)).data == data_of(entry_id)
            await tail.aclose()
            await writer.close()

    asyncio.run(main())


@pytest.mark.soak
def test_killed_and_paused_bookies_stop_neither_readers_nor_a_recovery(own_cluster):
    cluster = own_cluster(4)

    async def main():
        async with (
            BookKeeper(cluster.uri, settings=PATIENT) as bk,
            BookKeeper(cluster.uri, settings=PATIENT) as other,
        ):
            writer = await bk.create_ledger(3, 3, 2)
            by_id = dict(zip(cluster.bookie_ids, cluster.bookies, strict=True))
            first, second, _ = writer.metadata.last_segment.members
            reader = await other.open_ledger(writer.ledger_id)
            tailed = []

            async def follow():
                async for entry in reader.tail(0):
                    assert entry.data == data_of(entry.entry_id)
                    tailed.append(entry.entry_id)

            following = asyncio.ensure_future(follow())
            await append(writer, 0, 499)
            by_id[first].pause()
            await append(writer, 500, 999)
            assert await ids(reader.read_unconfirmed(0, 999)) == list(range(1000))
            by_id[first].resume()
            by_id[second].kill()
            await append(writer, 1000, 1499)
            recovered = await other.open_ledger(writer.ledger_id, recover=True)
            assert recovered.last_add_confirmed == 1499
            assert recovered.length_bytes == length_of(1500)
            assert await ids(recovered.read(0, 1499)) == list(range(1500))
            await asyncio.wait_for(following, 30)
            assert tailed == list(range(1500))

    asyncio.run(main())


@pytest.mark.soak
def test_several_recoverers_see_the_same_end(own_cluster):
    cluster = own_cluster(3)

    async def main():
        async with (
            BookKeeper(cluster.uri, settings=PATIENT) as bk,
            BookKeeper(cluster.uri, settings=PATIENT) as one,
            BookKeeper(cluster.uri, settings=PATIENT) as two,
        ):
            writer = await bk.create_ledger(3, 3, 2)
            in_flight = [writer.append_nowait(data_of(entry_id)) for entry_id in range(2000)]
            await in_flight[500]
            readers = await asyncio.gather(
                *[client.open_ledger(writer.ledger_id, recover=True) for client in (one, two, one)]
            )
            outcomes = await asyncio.gather(*in_flight, return_exceptions=True)
            acknowledged = sum(not isinstance(outcome, BaseException) for outcome in outcomes)
            last = readers[0].last_add_confirmed
            assert {(reader.last_add_confirmed, reader.length_bytes) for reader in readers} == {
                (last, length_of(last + 1))
            }
            assert last >= acknowledged - 1
            assert await ids(readers[1].read(0, last)) == list(range(last + 1))

    asyncio.run(main())

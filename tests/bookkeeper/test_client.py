"""The client against real bookies: what one sees of a cluster from its front door."""

from __future__ import annotations

import asyncio
import random

import pytest

from herdpy.bookkeeper import (
    BookieState,
    BookKeeper,
    ClientSettings,
    ClosedClientError,
    DigestType,
    LedgerExistsError,
    LedgerFencedError,
    LedgerState,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    Outcome,
    WrongDigestTypeError,
    WrongPasswordError,
)


def with_client(cluster, program, **settings):
    """Run ``program(bk)`` with a client of the cluster; nothing of it may be left afterwards."""

    async def main():
        async with BookKeeper(cluster.uri, settings=ClientSettings(**settings)) as bk:
            result = await program(bk)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert left == []
        return result

    return asyncio.run(main())


async def all_of(reader):
    return [entry.data async for entry in reader.read(0, reader.last_add_confirmed)]


@pytest.mark.parametrize("digest", DigestType)
@pytest.mark.parametrize("quorums", [(1, 1, 1), (3, 2, 2), (3, 3, 2)])
def test_what_was_appended_is_read(bookkeeper_cluster, digest, quorums):
    words = [b"", b"one", bytes(range(256)) * 40]

    async def program(bk):
        custom = {"of": b"\xff\x00"}
        writer = await bk.create_ledger(*quorums, digest, b"secret", custom)
        assert [await writer.append(word) for word in words] == [0, 1, 2]
        await writer.close()
        reader = await bk.open_ledger(writer.ledger_id, b"secret")
        assert reader.is_closed
        assert await all_of(reader) == words
        metadata = await bk.ledger_metadata(writer.ledger_id)
        assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == quorums
        assert (metadata.digest, dict(metadata.custom_metadata)) == (digest, custom)
        assert metadata.length_bytes == sum(map(len, words))

    with_client(bookkeeper_cluster, program)


def test_the_password_and_the_digest_type_must_be_right(bookkeeper_cluster):
    async def program(bk):
        writer = await bk.create_ledger(digest=DigestType.HMAC, password=b"right")
        await writer.append(b"kept")
        for recover in (False, True):
            with pytest.raises(WrongPasswordError):
                await bk.open_ledger(writer.ledger_id, b"wrong", recover=recover)
            with pytest.raises(WrongDigestTypeError, match="HMAC, not CRC32"):
                await bk.open_ledger(writer.ledger_id, b"right", digest=DigestType.CRC32, recover=recover)
        await writer.append(b"nobody fenced it")
        reader = await bk.open_ledger(writer.ledger_id, b"right", digest=DigestType.HMAC)
        assert reader.metadata.state is LedgerState.OPEN

    with_client(bookkeeper_cluster, program)


def test_an_open_ledger_is_read_up_to_what_is_confirmed(bookkeeper_cluster):
    async def program(bk):
        writer = await bk.create_ledger()
        for n in range(5):
            await writer.append(b"%d" % n)
        reader = await bk.open_ledger(writer.ledger_id)
        # The bookies know of entry 3 from entry 4, and of 4 once the explicit LAC has come.
        assert reader.last_add_confirmed in (3, 4)
        assert not reader.is_closed
        assert await all_of(reader) == [b"%d" % n for n in range(reader.last_add_confirmed + 1)]
        await writer.append(b"still open")

    with_client(bookkeeper_cluster, program)


def test_recovering_takes_the_ledger_from_its_writer(bookkeeper_cluster):
    async def program(bk):
        writer = await bk.create_ledger()
        for n in range(3):
            await writer.append(b"%d" % n)
        reader = await bk.open_ledger(writer.ledger_id, recover=True)
        assert (reader.is_closed, reader.last_add_confirmed) == (True, 2)
        with pytest.raises(LedgerFencedError) as caught:
            await writer.append(b"late")
        assert caught.value.outcome in Outcome
        again = await bk.open_ledger(writer.ledger_id, recover=True)
        assert await all_of(again) == [b"0", b"1", b"2"]

    with_client(bookkeeper_cluster, program)


def test_closing_the_client_leaves_open_ledgers_to_be_recovered(bookkeeper_cluster):
    async def program(bk):
        writer = await bk.create_ledger()
        await writer.append(b"acknowledged")
        idle = await bk.create_ledger()
        tailing = await bk.open_ledger(idle.ledger_id)
        tail = asyncio.ensure_future(anext(tailing.tail(0)))
        pending = [writer.append_nowait(bytes(1000)) for _ in range(100)]
        return writer, idle, tail, pending

    async def main():
        async with BookKeeper(bookkeeper_cluster.uri) as bk:
            writer, idle, tail, pending = await program(bk)
        outcomes = await asyncio.gather(*pending, return_exceptions=True)
        for outcome in outcomes:
            assert isinstance(outcome, int) or outcome.outcome is Outcome.UNKNOWN
        assert any(isinstance(outcome, ClosedClientError) for outcome in outcomes)
        for append in (writer.append, idle.append):
            with pytest.raises(ClosedClientError) as caught:
                await append(b"no")
            assert caught.value.outcome is Outcome.NOT_DONE
        with pytest.raises(ClosedClientError):
            await tail
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert left == []
        done = sum(isinstance(outcome, int) for outcome in outcomes)
        async with BookKeeper(bookkeeper_cluster.uri) as bk:
            assert (await bk.ledger_metadata(writer.ledger_id)).state is LedgerState.OPEN
            reader = await bk.open_ledger(writer.ledger_id, recover=True)
            assert reader.last_add_confirmed >= done
            assert (await reader.get(0)).data == b"acknowledged"

    asyncio.run(main())


def test_ledgers_are_listed_and_deleted(bookkeeper_cluster):
    async def program(bk):
        made = [(await bk.create_ledger()).ledger_id for _ in range(3)]
        chosen = (await bk.create_ledger(ledger_id=2**40 + random.randrange(2**39))).ledger_id
        with pytest.raises(LedgerExistsError) as caught:
            await bk.create_ledger(ledger_id=chosen)
        assert caught.value.ledger_id == chosen
        # Other tests make and delete ledgers meanwhile.
        for listed in (await bk.list_ledgers(), [one async for one in bk.list_ledgers()]):
            assert {*made, chosen} <= set(listed)
            assert listed == sorted(set(listed))
        for one in (made[0], chosen):
            await bk.delete_ledger(one)
            with pytest.raises(NoSuchLedgerError):
                await bk.delete_ledger(one)
            with pytest.raises(NoSuchLedgerError):
                await bk.open_ledger(one)
        assert {*made, chosen} & set(await bk.list_ledgers()) == {*made[1:]}

    with_client(bookkeeper_cluster, program)


def test_bookies_and_metrics_are_shown(bookkeeper_cluster):
    async def program(bk):
        bookies = await bk.bookies()
        assert {one.state for one in bookies} == {BookieState.WRITABLE}
        for one in bookies:
            assert one.id == f"{one.host}:{one.port}"
            assert 0 < one.free_bytes < one.total_bytes
            assert one.problem is None
        with pytest.raises(NotEnoughBookiesError):
            await bk.create_ledger(ensemble_size=len(bookies) + 1)
        counted = bk.metrics.snapshot()
        assert set(counted) == {one.id for one in bookies}
        assert all(one["requests"]["get_bookie_info"] == {"eok": 1} for one in counted.values())

    with_client(bookkeeper_cluster, program)


def test_a_bookie_that_is_gone_or_silent_is_shown_as_such(own_cluster):
    cluster = own_cluster(bookies=3)
    gone, silent, well = (f"127.0.0.1:{bookie.port}" for bookie in cluster.bookies)

    async def program(bk):
        unregistered = asyncio.Event()
        # The client's own view of who is registered: a watch beside it may be called before it.
        bk.on_bookies_change(lambda: gone in bk.writable_bookies() or unregistered.set())
        cluster.bookies[0].kill()
        await unregistered.wait()
        cluster.bookies[1].pause()
        try:
            return {one.id: one for one in await bk.bookies()}
        finally:
            cluster.bookies[1].resume()

    found = with_client(cluster, program, request_timeout_s=1.0)
    assert (found[gone].state, found[gone].host, found[gone].free_bytes) == (BookieState.DOWN, None, None)
    assert (found[well].state, found[well].problem) == (BookieState.WRITABLE, None)
    assert found[well].free_bytes > 0
    assert found[silent].free_bytes is None
    assert "time" in found[silent].problem

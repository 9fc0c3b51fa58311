"""What a client sees of a cluster: the same of the model and of real servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.digest import DigestType
from herdpy.bookkeeper.errors import (
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    Outcome,
    WrongPasswordError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerState
from tests.bookkeeper.suite.targets import Target

PASSWORD = b"secret"


def run(target: Target, program: Callable[[BookKeeper], Awaitable[None]]) -> None:
    async def main() -> None:
        async with target.client() as client:
            await program(client)

    target.run(main)


@pytest.mark.parametrize("quorums", [(1, 1, 1), (3, 2, 2), (3, 3, 2)])
@pytest.mark.parametrize("digest", DigestType)
def test_what_is_written_is_read(target: Target, digest: DigestType, quorums: tuple[int, int, int]) -> None:
    async def program(client: BookKeeper) -> None:
        writer = await client.create_ledger(*quorums, digest, PASSWORD, {"owner": b"suite"})
        data = [b"", b"x" * 100_000, *(b"%d" % number for number in range(30))]
        pending = [writer.append_nowait(one) for one in data]
        assert [await one for one in pending] == list(range(len(data)))
        assert writer.last_add_confirmed == len(data) - 1
        await writer.close()
        reader = await client.open_ledger(writer.ledger_id, PASSWORD)
        assert reader.is_closed
        assert reader.metadata.custom_metadata == {"owner": b"suite"}
        assert reader.length_bytes == sum(map(len, data))
        entries = [entry async for entry in reader.read(0, len(data) - 1)]
        assert [entry.data for entry in entries] == data
        with pytest.raises(NoSuchEntryError):
            await reader.get(len(data))
        await reader.close()

    run(target, program)


def test_a_reader_of_an_open_ledger_lags_until_the_explicit_lac(target: Target) -> None:
    async def program(client: BookKeeper) -> None:
        writer = await client.create_ledger(3, 3, 2, DigestType.CRC32C, PASSWORD)
        for number in range(3):
            await writer.append(b"%d" % number)
        reader = await client.open_ledger(writer.ledger_id, PASSWORD)
        assert not reader.is_closed
        while await reader.read_last_add_confirmed() < 2:
            await asyncio.sleep(0.02)
        assert (await reader.get(2)).data == b"2"
        with pytest.raises(NoSuchEntryError):
            await reader.get(3)
        await reader.close()
        await writer.close()

    run(target, program)


@pytest.mark.parametrize("quorums", [(3, 2, 2), (3, 3, 2)])
def test_recovery_fences_and_keeps_what_was_acknowledged(
    target: Target, quorums: tuple[int, int, int]
) -> None:
    async def program(client: BookKeeper) -> None:
        writer = await client.create_ledger(*quorums, DigestType.CRC32C, PASSWORD)
        for number in range(10):
            await writer.append(b"%d" % number)
        async with target.client() as other:
            readers = await asyncio.gather(
                *(other.open_ledger(writer.ledger_id, PASSWORD, recover=True) for _ in range(3))
            )
            assert {reader.metadata.last_entry_id for reader in readers} == {9}
            entries = [entry.data async for entry in readers[0].read(0, 9)]
            assert entries == [b"%d" % number for number in range(10)]
        with pytest.raises(LedgerFencedError):
            await writer.append(b"late")
        with pytest.raises(LedgerFencedError) as refused:
            writer.append_nowait(b"later")
        assert refused.value.outcome is Outcome.NOT_DONE

    run(target, program)


def test_an_empty_ledger_recovers_to_nothing(target: Target) -> None:
    async def program(client: BookKeeper) -> None:
        writer = await client.create_ledger(3, 3, 2, DigestType.HMAC, PASSWORD)
        async with target.client() as other:
            reader = await other.open_ledger(writer.ledger_id, PASSWORD, recover=True)
            assert reader.metadata.state is LedgerState.CLOSED
            assert reader.last_add_confirmed == -1
            assert reader.length_bytes == 0

    run(target, program)


def test_a_tail_gives_every_entry_and_ends_with_the_ledger(target: Target) -> None:
    async def program(client: BookKeeper) -> None:
        writer = await client.create_ledger(3, 2, 2, DigestType.CRC32, PASSWORD)
        reader = await client.open_ledger(writer.ledger_id, PASSWORD)
        seen: list[bytes] = []

        async def follow() -> None:
            seen.extend([entry.data async for entry in reader.tail(0)])

        following = asyncio.create_task(follow())
        for number in range(50):
            await writer.append(b"%d" % number)
        await writer.close()
        await following
        assert seen == [b"%d" % number for number in range(50)]
        await reader.close()

    run(target, program)


def test_deferred_writes_are_confirmed_by_a_force(target: Target) -> None:
    async def program(client: BookKeeper) -> None:
        writer = await client.create_ledger(3, 3, 2, DigestType.CRC32C, PASSWORD, deferred_sync=True)
        for number in range(5):
            await writer.append(b"%d" % number)
        assert writer.last_add_confirmed == -1
        await writer.force()
        assert writer.last_add_confirmed == 4
        await writer.close()
        reader = await client.open_ledger(writer.ledger_id, PASSWORD)
        assert [entry.data async for entry in reader.read(0, 4)] == [b"%d" % number for number in range(5)]
        await reader.close()

    run(target, program)


def test_a_wrong_password_and_a_deleted_ledger_are_refused(target: Target) -> None:
    async def program(client: BookKeeper) -> None:
        writer = await client.create_ledger(3, 3, 2, DigestType.CRC32C, PASSWORD)
        await writer.close()
        with pytest.raises(WrongPasswordError):
            await client.open_ledger(writer.ledger_id, b"wrong")
        assert writer.ledger_id in await client.list_ledgers()
        await client.delete_ledger(writer.ledger_id)
        assert writer.ledger_id not in await client.list_ledgers()
        with pytest.raises(NoSuchLedgerError):
            await client.open_ledger(writer.ledger_id, PASSWORD)

    run(target, program)


def test_bookies_are_listed_with_their_disks(target: Target) -> None:
    async def program(client: BookKeeper) -> None:
        bookies = await client.bookies()
        assert len(bookies) >= 3
        assert all(bookie.free_bytes for bookie in bookies)

    run(target, program)

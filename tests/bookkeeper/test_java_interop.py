"""What Python writes, recovers or deletes, BookKeeper's own client and tools see, and the reverse."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from herdpy.bookkeeper import (
    BookKeeper,
    DigestType,
    LedgerFencedError,
    LedgerState,
    NoSuchLedgerError,
    WrongPasswordError,
)
from herdpy.testing import JavaProgramError
from tests.bookkeeper.java_peer import JavaPeer, java_digest

PASSWORD = b"open \xe2\x9c\x93 sesame"
CUSTOM = {"application": b"interop", "bytes": bytes(range(256))}
WHOLE, STRIPED = (3, 3, 2), (3, 2, 2)
EVERY_DIGEST = pytest.mark.parametrize("digest", DigestType, ids=lambda digest: digest.name)
EVERY_SHAPE = pytest.mark.parametrize("quorums", [WHOLE, STRIPED, (2, 1, 1)], ids=str)

_random = random.Random(4)
ENTRIES = [b"", b"x", *(_random.randbytes(size) for size in (7, 1024, 1, 70_000, 100)), "größer".encode()]
LENGTHS = list(itertools.accumulate(map(len, ENTRIES)))


@pytest.fixture(scope="module")
def java(bookkeeper_cluster):
    with JavaPeer(bookkeeper_cluster.metadata_service_uri, explicitLacInterval=50) as peer:
        yield peer


def with_client(cluster, program):
    async def main():
        async with BookKeeper(cluster.uri) as bk:
            return await program(bk)

    return asyncio.run(main())


async def everything(reader):
    return [
        (entry.entry_id, entry.data, entry.length)
        async for entry in reader.read(0, reader.last_add_confirmed)
    ]


def expected(count=None):
    return list(zip(itertools.count(), ENTRIES, LENGTHS, strict=False))[:count]


@EVERY_DIGEST
@EVERY_SHAPE
def test_java_reads_what_python_wrote(bookkeeper_cluster, java, digest, quorums):
    async def write(bk):
        writer = await bk.create_ledger(*quorums, digest, PASSWORD, CUSTOM)
        pending = [writer.append_nowait(entry) for entry in ENTRIES]
        assert [await one for one in pending] == list(range(len(ENTRIES)))
        await writer.close()
        return writer.ledger_id, writer.metadata

    ledger_id, metadata = with_client(bookkeeper_cluster, write)
    opened = java.open(ledger_id, digest, PASSWORD)
    assert opened == {"last_add_confirmed": len(ENTRIES) - 1, "length_bytes": LENGTHS[-1], "is_closed": True}
    assert java.read(ledger_id, 0, len(ENTRIES) - 1) == expected()
    seen = java.metadata(ledger_id)
    assert (seen["ensemble_size"], seen["write_quorum"], seen["ack_quorum"]) == quorums
    assert (seen["digest"], seen["custom_metadata"]) == (java_digest(digest), CUSTOM)
    assert (seen["state"], seen["last_entry_id"], seen["length_bytes"]) == (
        "CLOSED",
        len(ENTRIES) - 1,
        LENGTHS[-1],
    )
    assert [tuple(one["members"]) for one in seen["segments"]] == [one.members for one in metadata.segments]


@EVERY_DIGEST
@EVERY_SHAPE
def test_python_reads_what_java_wrote(bookkeeper_cluster, java, digest, quorums):
    ledger_id = java.create(quorums, digest, PASSWORD, CUSTOM)
    assert java.append(ledger_id, *ENTRIES) == list(range(len(ENTRIES)))
    java.ask("close", ledger_id=ledger_id)
    seen = java.metadata(ledger_id)

    async def read(bk):
        reader = await bk.open_ledger(ledger_id, PASSWORD, digest=digest)
        assert (reader.is_closed, reader.length_bytes) == (True, LENGTHS[-1])
        assert await everything(reader) == expected()
        return await bk.ledger_metadata(ledger_id)

    metadata = with_client(bookkeeper_cluster, read)
    assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == quorums
    assert (metadata.digest, dict(metadata.custom_metadata)) == (digest, CUSTOM)
    assert (metadata.state, metadata.last_entry_id) == (LedgerState.CLOSED, len(ENTRIES) - 1)
    assert [one.members for one in metadata.segments] == [tuple(one["members"]) for one in seen["segments"]]


@EVERY_DIGEST
@EVERY_SHAPE
def test_java_recovers_what_a_python_writer_left_open(bookkeeper_cluster, java, digest, quorums):
    async def lose(bk):
        writer = await bk.create_ledger(*quorums, digest, PASSWORD)
        for entry in ENTRIES:
            await writer.append(entry)
        opened = await asyncio.to_thread(java.open, writer.ledger_id, digest, PASSWORD, recover=True)
        assert (opened["is_closed"], opened["last_add_confirmed"]) == (True, len(ENTRIES) - 1)
        with pytest.raises(LedgerFencedError):
            await writer.append(b"too late")
        reader = await bk.open_ledger(writer.ledger_id, PASSWORD)
        assert (reader.is_closed, await everything(reader)) == (True, expected())
        return writer.ledger_id

    ledger_id = with_client(bookkeeper_cluster, lose)
    assert java.read(ledger_id, 0, len(ENTRIES) - 1) == expected()


@EVERY_DIGEST
@EVERY_SHAPE
def test_python_recovers_what_a_java_writer_left_open(bookkeeper_cluster, java, digest, quorums):
    ledger_id = java.create(quorums, digest, PASSWORD)
    java.append(ledger_id, *ENTRIES)

    async def recover(bk):
        reader = await bk.open_ledger(ledger_id, PASSWORD, recover=True)
        assert (reader.is_closed, await everything(reader)) == (True, expected())

    with_client(bookkeeper_cluster, recover)
    with pytest.raises(JavaProgramError) as caught:
        java.append(ledger_id, b"too late")
    assert caught.value.name in ("BKLedgerFencedException", "BKLedgerClosedException")
    assert java.open(ledger_id, digest, PASSWORD)["is_closed"]
    assert java.read(ledger_id, 0, len(ENTRIES) - 1) == expected()


def test_empty_ledgers_are_recovered_both_ways(bookkeeper_cluster, java):
    left_by_java = java.create(WHOLE, DigestType.CRC32C)

    async def program(bk):
        reader = await bk.open_ledger(left_by_java, recover=True)
        assert (reader.last_add_confirmed, await everything(reader)) == (-1, [])
        return (await bk.create_ledger()).ledger_id

    left_by_python = with_client(bookkeeper_cluster, program)
    opened = java.open(left_by_python, DigestType.CRC32C, recover=True)
    assert opened == {"last_add_confirmed": -1, "length_bytes": 0, "is_closed": True}


def test_java_follows_a_python_writer(bookkeeper_cluster, java):
    async def program(bk):
        writer = await bk.create_ledger(*WHOLE)
        await writer.append(ENTRIES[0])
        java.open(writer.ledger_id, DigestType.CRC32C)
        for entry_id in range(1, 4):
            waiting = asyncio.create_task(asyncio.to_thread(java.wait_entry, writer.ledger_id, entry_id))
            await writer.append(ENTRIES[entry_id])
            confirmed, entry = await waiting  # by explicit LAC: no later entry carries it
            assert (confirmed, entry) in ((entry_id, ENTRIES[entry_id]), (entry_id, None))
        assert await asyncio.to_thread(java.read, writer.ledger_id, 0, 3) == expected(4)

    with_client(bookkeeper_cluster, program)


def test_python_follows_a_java_writer_to_its_end(bookkeeper_cluster, java):
    ledger_id = java.create(STRIPED, DigestType.HMAC, PASSWORD)

    async def program(bk):
        reader = await bk.open_ledger(ledger_id, PASSWORD)
        seen = []
        java.append(ledger_id, ENTRIES[0])
        async for entry in reader.tail(0):
            seen.append((entry.entry_id, entry.data, entry.length))
            if len(seen) < len(ENTRIES):
                await asyncio.to_thread(java.append, ledger_id, ENTRIES[len(seen)])
            else:
                await asyncio.to_thread(java.ask, "close", ledger_id=ledger_id)
        return seen

    assert with_client(bookkeeper_cluster, program) == expected()


def test_deferred_sync_moves_the_last_add_confirmed_on_force_both_ways(bookkeeper_cluster, java):
    by_java = java.create(WHOLE, DigestType.CRC32C, deferred_sync=True)
    java.append(by_java, b"one", b"two")
    assert java.ask("force", ledger_id=by_java)["last_add_confirmed"] == 1
    java.append(by_java, b"three")  # carries what the force confirmed

    async def program(bk):
        reader = await bk.open_ledger(by_java)
        assert [data for _, data, _ in await everything(reader)] == [b"one", b"two"]
        writer = await bk.create_ledger(deferred_sync=True)
        await writer.append(b"uno")
        assert writer.last_add_confirmed == -1
        await writer.force()
        await writer.append(b"due")
        opened = await asyncio.to_thread(java.open, writer.ledger_id, DigestType.CRC32C)
        assert (opened["last_add_confirmed"], java.read(writer.ledger_id, 0, 0)) == (0, [(0, b"uno", 3)])

    with_client(bookkeeper_cluster, program)


def test_passwords_hold_both_ways(bookkeeper_cluster, java):
    by_java = java.create(WHOLE, DigestType.HMAC, PASSWORD)

    async def program(bk):
        with pytest.raises(WrongPasswordError):
            await bk.open_ledger(by_java, b"another")
        return (await bk.create_ledger(*WHOLE, DigestType.HMAC, PASSWORD)).ledger_id

    by_python = with_client(bookkeeper_cluster, program)
    with pytest.raises(JavaProgramError, match="BKUnauthorizedAccessException"):
        java.open(by_python, DigestType.HMAC, b"another")


def test_both_list_and_delete_the_same_ledgers(bookkeeper_cluster, java):
    by_java = java.create(WHOLE, DigestType.CRC32C)

    async def program(bk):
        by_python = (await bk.create_ledger()).ledger_id
        assert {by_java, by_python} <= set(await bk.list_ledgers())
        assert {by_java, by_python} <= set(java.ask("list")["ledger_ids"])
        await bk.delete_ledger(by_java)
        java.ask("delete", ledger_id=by_python)
        assert not {by_java, by_python} & set(await bk.list_ledgers())
        with pytest.raises(NoSuchLedgerError):
            await bk.open_ledger(by_python)

    with_client(bookkeeper_cluster, program)
    with pytest.raises(JavaProgramError, match="BKNoSuchLedgerExists"):
        java.open(by_java, DigestType.CRC32C)


@pytest.mark.soak
def test_bookie_shell_shows_what_python_wrote(bookkeeper_cluster):
    async def write(bk):
        writer = await bk.create_ledger(*STRIPED, DigestType.CRC32C, b"", {"key": b"value"})
        for word in (b"first entry", b"second entry"):
            await writer.append(word)
        await writer.close()
        return writer.ledger_id, writer.metadata.segments[0].members

    ledger_id, members = with_client(bookkeeper_cluster, write)
    assert f"ledgerID: {ledger_id}" in bookkeeper_cluster.shell("listledgers")
    shown = bookkeeper_cluster.shell("ledgermetadata", "-ledgerid", str(ledger_id))
    for word in (
        "state=CLOSED",
        "ensembleSize=3",
        "writeQuorumSize=2",
        "digestType=CRC32C",
        "lastEntryId=1",
        *members,
    ):
        assert word in shown
    entries = bookkeeper_cluster.shell(
        "readledger", "-ledgerid", str(ledger_id), "-fe", "0", "-le", "1", "-msg"
    )
    assert "first entry" in entries
    assert "second entry" in entries

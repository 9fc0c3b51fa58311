"""Rows of loads in ledgers of their own, on model bookies: written, read, abandoned, swept."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from herdpy.bookkeeper import BookKeeperError, LedgerState
from herdpy.log import (
    CorruptLedgerError,
    LogTrimmedError,
    LogUnavailableError,
    LogWriteError,
    StagedPart,
    staging,
)
from herdpy.log.bookkeeper.settings import create_ledger
from herdpy.log.staging import StagedLabel, StagedLedger, read_part, sweep_staged
from herdpy_server.replica.host import Host
from herdpy_server.replica.placed import Removal
from tests.log_bookkeeper.kit import Node, Place, transaction

LOG_ID = "a" * 32


async def _begun(node: Node, log_id: str = LOG_ID, load_id: str = "l1") -> StagedLedger:
    return await StagedLedger.create(node.bk, node.settings, log_id=log_id, tablespace="t", load_id=load_id)


async def _staged(node: Node, stream: bytes = b"rows", **which: str) -> StagedPart:
    ledger = await _begun(node, **which)
    await ledger.write(stream)
    return await ledger.finish(rows=1)


async def _read(node: Node, part: StagedPart, password: bytes = b"", patience_s: float = 1.0) -> bytes:
    return b"".join([data async for data in read_part(node.bk, password, part, patience_s=patience_s)])


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 200, 12_345])
@pytest.mark.parametrize("piece", [1, 7, 100, 5000])
def test_what_is_staged_is_read_in_entries_of_the_size_that_is_allowed(size: int, piece: int) -> None:
    place = Place(max_entry_bytes=100, password=b"secret")
    stream = bytes(number * 7 % 251 for number in range(size))

    async def program() -> None:
        a, b = await place.node("a"), await place.node("b")
        ledger = await _begun(a)
        for at in range(0, size, piece):
            await ledger.write(memoryview(stream)[at : at + piece])
        assert ledger.size_bytes == size
        part = await ledger.finish(rows=9)
        assert (part.size_bytes, part.rows, part.last_entry_id) == (size, 9, (size + 99) // 100 - 1)
        assert await _read(b, part, b"secret") == stream
        metadata = await b.bk.ledger_metadata(part.ledger_id)
        assert metadata.state is LedgerState.CLOSED
        assert StagedLabel.of(metadata.custom_metadata).load_id == "l1"  # type: ignore[union-attr]
        with pytest.raises(BookKeeperError):
            await _read(b, replace(part, last_entry_id=0), b"wrong")

    place.run(program)


def test_a_writer_waits_while_bookies_take_no_more() -> None:
    place = Place(max_entry_bytes=10)

    async def program() -> None:
        a = await place.node("a")
        ledger = await _begun(a)
        for node in place.cluster.bookies.values():
            node.bookie.pause()
        writing = asyncio.ensure_future(ledger.write(b"x" * 1000))
        await asyncio.sleep(0.2)
        assert not writing.done()
        assert ledger._writer.last_add_pushed + 1 == staging._IN_FLIGHT
        for node in place.cluster.bookies.values():
            node.bookie.resume()
        await writing
        assert await _read(a, await ledger.finish(rows=1)) == b"x" * 1000

    place.run(program)


def test_a_bookie_that_dies_is_replaced_and_too_few_are_an_error() -> None:
    place = Place(max_entry_bytes=10, ensemble=3, write_quorum=3, ack_quorum=3)

    async def program() -> None:
        a = await place.node("a")
        ledger = await _begun(a)
        await ledger.write(b"x" * 100)
        first, second, *_ = ledger._writer.metadata.last_segment.members
        place.cluster.bookies[first].crash()
        await ledger.write(b"y" * 100)
        place.cluster.bookies[second].crash()
        with pytest.raises(LogWriteError, match="cannot be staged"):
            await ledger.write(b"z" * 1000)
        await ledger.abandon()
        await ledger.abandon()
        assert await a.bk.list_ledgers() == []
        await asyncio.sleep(60)  # until ZooKeeper has noticed
        with pytest.raises(LogWriteError, match="no ledger"):
            await _begun(a)

    place.run(program)


def test_an_abandoned_ledger_is_gone_finished_or_not() -> None:
    place = Place(max_entry_bytes=10)

    async def program() -> None:
        a = await place.node("a")
        ledger = await _begun(a)
        await ledger.write(b"x" * 25)
        await ledger.abandon()
        with pytest.raises(LogWriteError):
            await ledger.finish(rows=1)
        finished = await _begun(a)
        await finished.write(b"x")
        part = await finished.finish(rows=1)
        await finished.abandon()
        assert await a.bk.list_ledgers() == []
        with pytest.raises(LogTrimmedError, match="is gone"):
            await _read(a, part)

    place.run(program)


@pytest.mark.parametrize(
    "change", [{"crc": 1}, {"size_bytes": 24}, {"last_entry_id": 1}, {"last_entry_id": 3}], ids=str
)
def test_a_part_that_is_not_what_the_load_says_is_damage(change: dict[str, int]) -> None:
    place = Place(max_entry_bytes=10)

    async def program() -> None:
        a = await place.node("a")
        part = await _staged(a, b"x" * 25)
        assert await _read(a, part) == b"x" * 25
        with pytest.raises(CorruptLedgerError, match=f"ledger {part.ledger_id}"):
            await _read(a, replace(part, **change))

    place.run(program)


def test_a_ledger_that_is_still_open_is_no_part() -> None:
    place = Place(max_entry_bytes=10)

    async def program() -> None:
        a, b = await place.node("a"), await place.node("b")
        ledger = await _begun(a)
        await ledger.write(b"x" * 10)
        await asyncio.sleep(1)
        with pytest.raises(CorruptLedgerError, match="open"):
            await _read(b, StagedPart(ledger.ledger_id, 0, 10, ledger._crc, 1))

    place.run(program)


def test_bookies_that_are_away_for_a_while_are_waited_for() -> None:
    place = Place(max_entry_bytes=10)

    async def program() -> None:
        a, b = await place.node("a"), await place.node("b")
        part = await _staged(a, b"x" * 25)
        for node in place.cluster.bookies.values():
            node.bookie.pause()
        reading = asyncio.ensure_future(_read(b, part, patience_s=60.0))
        await asyncio.sleep(5)
        assert not reading.done()
        with pytest.raises(LogUnavailableError):
            await _read(b, part)
        for node in place.cluster.bookies.values():
            node.bookie.resume()
        assert await reading == b"x" * 25

    place.run(program)


def _swept() -> None:
    """Sweeps of a log, beside another log's staged ledgers and ledgers of the log itself."""
    place = Place()

    async def program() -> None:
        a = await place.node("a")
        old = [(await _staged(a, load_id=name)).ledger_id for name in ("published", "left", "publishing")]
        unfinished = await _begun(a)
        other = await _staged(a, log_id="b" * 32)
        own = await create_ledger(a.bk, a.settings, LOG_ID, "a", 1)
        needed = {old[0], old[2]}
        began_us = int((await a.bk.ledger_metadata(old[0])).custom_metadata["created_us"])

        async def swept(after_s: int) -> set[int]:
            return set(
                await sweep_staged(
                    a.bk,
                    LOG_ID,
                    older_than_s=3600,
                    is_needed=needed.__contains__,
                    now_us=lambda: began_us + after_s * 1_000_000,
                )
            )

        assert await swept(3599) == set()
        assert await swept(3660) == {old[1], unfinished.ledger_id}
        assert await swept(3660) == set()
        needed.clear()
        assert await swept(3660) == {old[0], old[2]}
        assert set(await a.bk.list_ledgers()) == {other.ledger_id, own.ledger_id}
        unfinished._writer.abandon(BookKeeperError("over"))
        own.abandon(BookKeeperError("over"))

    place.run(program)


def test_a_sweep_deletes_what_is_old_and_of_this_log_and_not_needed() -> None:
    _swept()


@pytest.mark.parametrize("blind", [{"log_id": LOG_ID}, {"created_us": 0}], ids=["of any log", "of any age"])
def test_a_sweep_that_deletes_too_much_is_noticed(
    blind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = StagedLabel.of

    def of(custom: Mapping[str, bytes]) -> StagedLabel | None:
        label = original(custom)
        return None if label is None else replace(label, **blind)

    monkeypatch.setattr(StagedLabel, "of", of)
    with pytest.raises(AssertionError):
        _swept()


def test_the_logs_own_sweep_leaves_staged_ledgers_alone() -> None:
    place = Place(max_ledger_bytes=400, ownership_s=1.0)

    async def program() -> None:
        a = await place.node("a")
        log = await a.lead(1)
        part = await _staged(a, log_id=log.state.log_id)
        for number in range(20):
            await log.append(transaction(number))
        await asyncio.sleep(2)
        assert await log.asweep() == []
        assert await _read(a, part) == b"rows"

    place.run(program)


def test_a_dropped_tablespace_takes_its_staged_ledgers_with_it() -> None:
    place = Place()

    async def program() -> None:
        a = await place.node("a")
        log = await a.lead(1)
        await log.append(transaction(1))
        await _staged(a, log_id=log.state.log_id)
        other = await _staged(a, log_id="b" * 32)
        await log.aclose()
        state = await a.list.read()
        assert state is not None
        await Removal(cast(Host, SimpleNamespace(bk=a.bk)))._delete_ledgers(state)
        assert await a.bk.list_ledgers() == [other.ledger_id]

    place.run(program)

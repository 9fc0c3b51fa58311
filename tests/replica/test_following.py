"""Following: a large transaction is applied while others of the node have their turn, and shows at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

import herdpy
from herdpy.log import (
    LSN,
    ChainError,
    Insert,
    LoadBatch,
    LoadDone,
    LoadOp,
    LogEntry,
    LoggedTransaction,
    LogTrimmedError,
    Record,
    RecordError,
    StagedPart,
    Update,
)
from herdpy.log.bookkeeper import EntryRun
from herdpy.log.entry import FIRST, LAST, WHOLE, decode_entry, encode_entry, encode_part
from herdpy.log.records import CreateIndex
from herdpy_server.replica import following
from herdpy_server.replica.following import PartReader, follow
from herdpy_server.replica.open_replica import OpenReplica
from herdpy_server.store import Store
from herdpy_sql.catalog import Index, KeyPart
from herdpy_sql.definitions import encode_index

ROWS = 20_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with a table, and an index so that rows take a while."""
    with herdpy.connect(f"herdpy://{tmp_path}/origin", autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)").close()
        connection.execute("CREATE INDEX t_v ON t (v)").close()
    opened = Store.open(tmp_path / "origin" / "store")
    yield opened
    opened.close()


class Log:
    """Makes entries that follow one another."""

    def __init__(self, after: LSN) -> None:
        self._before, self._crc = after, 0
        self._next = LSN(after.ledger_id + 1, 0)

    def entry(self, *parts: bytes) -> tuple[LSN, LogEntry]:
        lsn = self._next
        data, self._crc = encode_entry(lsn, self._before, self._crc, -1, parts)
        self._before, self._next = lsn, LSN(lsn.ledger_id, lsn.entry_id + 1)
        return lsn, decode_entry(data)

    def in_parts(self, records: list[Record], size: int) -> list[tuple[LSN, LogEntry]]:
        data = LoggedTransaction(1, records).encode()
        cuts = [data[at : at + size] for at in range(0, len(data), size)]
        if len(cuts) == 1:
            return [self.entry(encode_part(data, WHOLE))]
        flags = [FIRST, *[0] * (len(cuts) - 2), LAST]
        return [self.entry(encode_part(cut, flag)) for cut, flag in zip(cuts, flags, strict=True)]


def rows(store: Store) -> list[Record]:
    table = store.catalog.by_name["t"]
    encode_key, encode = table.key_codec.encode, table.row_codec.encode
    return [Insert(table.id, encode_key([at]), encode((at, f"v{at}"))) for at in range(ROWS)]


async def nothing_staged(part: StagedPart) -> AsyncGenerator[bytes, None]:
    raise LogTrimmedError(f"staged ledger {part.ledger_id} is gone")
    yield b""


async def _given(entries: EntryRun) -> AsyncIterator[EntryRun]:
    for one in entries:
        yield [one]


async def followed(
    store: Store, entries: list[tuple[LSN, LogEntry]], staged: PartReader = nothing_staged
) -> list[int]:
    """Follow these; how many rows another task of the loop saw each time that it had its turn."""
    seen: list[int] = []

    async def look() -> None:
        table = store.catalog.by_name["t"]
        first = table.key_codec.encode([0]), table.key_codec.encode([ROWS - 1])
        while True:
            snapshot, _lsn = store.applied_snapshot()
            seen.append(sum(snapshot.get(table, key) is not None for key in first))
            snapshot.close()
            await asyncio.sleep(0)

    tablespace = SimpleNamespace(memtable_grew=lambda: None, is_full=False)
    opened = cast(OpenReplica, SimpleNamespace(store=store, tablespace=tablespace))
    looking = asyncio.ensure_future(look())
    told: list[LSN] = []
    await follow(opened, _given(entries), lambda: told.append(store.applied), staged)
    await asyncio.sleep(0)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    assert told[-1] == store.applied == entries[-1][0]
    return seen


@pytest.fixture
def shares_after_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_SHARE_S", -1.0)


def large(store: Store) -> list[tuple[LSN, LogEntry]]:
    return Log(store.applied).in_parts(rows(store), 100_000)


@pytest.mark.usefixtures("shares_after_each_step")
def test_others_have_their_turn_during_a_large_transaction_and_see_all_of_it_or_nothing(
    store: Store,
) -> None:
    entries = large(store)
    seen = asyncio.run(followed(store, entries))
    assert set(seen) == {0, 2}
    assert len(seen) > len(entries) + ROWS / 512 + ROWS / 256  # decoding and applying


@pytest.mark.usefixtures("shares_after_each_step")
def test_a_follower_that_applies_all_of_it_in_one_turn_is_found(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_LARGE_BYTES", 1 << 30)
    entries = large(store)
    seen = asyncio.run(followed(store, entries))
    assert len(seen) <= len(entries) + 10


@pytest.mark.usefixtures("shares_after_each_step")
def test_others_have_their_turn_while_an_index_is_filled(store: Store) -> None:
    log = Log(store.applied)
    entries = log.in_parts(rows(store), 100_000)
    table = store.catalog.by_name["t"]
    index = Index(store.catalog.next_id, "t_again", table.id, (KeyPart(1),))
    before = len(entries)
    entries += log.in_parts([CreateIndex(table.id, encode_index(index))], 100_000)
    assert len(entries) == before + 1
    asyncio.run(followed(store, entries[:before]))
    seen = asyncio.run(followed_again(store, entries))
    assert len(seen) > ROWS / 64
    assert len(list(store.applied_snapshot()[0].index_scan(store.catalog.by_name["t"], index))) == ROWS


def a_load(store: Store) -> tuple[list[Record], dict[int, bytes]]:
    """The records of a load in three parts, and what stands in their ledgers."""
    table = store.catalog.by_name["t"]
    ledgers, parts = {}, []
    for number, (first, last) in enumerate([(0, 7000), (7000, 7001), (7001, ROWS)], 50):
        batch = pa.table({"id": pa.array(range(first, last), pa.int32()), "v": ["x"] * (last - first)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_table(batch)
        ledgers[number] = sink.getvalue().to_pybytes()
        parts.append(StagedPart(number, 0, len(ledgers[number]), 0, last - first))
    load = LoadBatch(table.id, LoadOp.INSERT, -1, tuple(parts))
    return [load, LoadDone("l1", table.id, ROWS, 0, 0, 0)], ledgers


@pytest.mark.usefixtures("shares_after_each_step")
def test_a_load_is_read_from_its_ledgers_and_shows_at_once(store: Store) -> None:
    records, ledgers = a_load(store)
    entries = Log(store.applied).in_parts(records, 100_000)
    assert len(entries) == 1

    async def staged(part: StagedPart) -> AsyncGenerator[bytes, None]:
        stream = ledgers[part.ledger_id]
        for at in range(0, len(stream), 10_000):
            await asyncio.sleep(0)
            yield stream[at : at + 10_000]

    seen = asyncio.run(followed(store, entries, staged))
    assert set(seen) == {0, 2}
    assert len(seen) > ROWS / 2048 + sum(map(len, ledgers.values())) / 10_000  # applying and reading
    outcome = store.load("l1")
    assert outcome is not None
    assert (outcome.lsn, outcome.inserted) == (entries[0][0], ROWS)
    assert [store.loads.needs(ledger) for ledger in (49, 50, 51, 52)] == [False, True, True, True]


def test_a_load_whose_ledger_is_gone_is_not_applied(store: Store) -> None:
    records, _ledgers = a_load(store)
    log = Log(store.applied)
    entries = log.in_parts(rows(store)[:1], 100_000) + log.in_parts(records, 100_000)
    with pytest.raises(LogTrimmedError, match="staged ledger 50 is gone"):
        asyncio.run(followed(store, entries))
    assert store.applied == entries[0][0]
    assert store.load("l1") is None
    assert store.flush() == entries[0][0]


async def followed_again(store: Store, entries: list[tuple[LSN, LogEntry]]) -> list[int]:
    """Follow what comes after the store's position."""
    return await followed(store, [one for one in entries if one[0] > store.applied])


async def follow_run(store: Store, run: EntryRun, staged: PartReader = nothing_staged) -> None:
    """Follow entries that come all at a time."""

    async def at_once() -> AsyncIterator[EntryRun]:
        yield run

    tablespace = SimpleNamespace(memtable_grew=lambda: None, is_full=False)
    opened = cast(OpenReplica, SimpleNamespace(store=store, tablespace=tablespace))
    await follow(opened, at_once(), lambda: None, staged)


def singly(store: Store, log: Log, first: int, stop: int) -> EntryRun:
    """An entry for each of these rows."""
    return [entry for row in rows(store)[first:stop] for entry in log.in_parts([row], 100_000)]


def test_entries_that_come_together_are_applied_together(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[LSN] = []
    apply_changes = Store.apply_changes

    def noted(self: Store, lsn: LSN, changes: Any) -> None:
        applied.append(lsn)
        apply_changes(self, lsn, changes)

    monkeypatch.setattr(Store, "apply_changes", noted)
    log = Log(store.applied)
    run = (
        singly(store, log, 0, 30)
        + log.in_parts(rows(store)[30:4000], 50_000)
        + singly(store, log, 4000, 4010)
    )
    asyncio.run(follow_run(store, run))
    assert applied == [run[29][0], run[-1][0]]  # between them a large one, by itself
    assert len(list(store.applied_snapshot()[0].scan(store.catalog.by_name["t"]))) == 4010


def test_what_comes_before_a_load_and_after_it_is_applied_in_order(store: Store) -> None:
    records, ledgers = a_load(store)
    log = Log(store.applied)
    table = store.catalog.by_name["t"]
    key = table.key_codec.encode([5])
    image = table.row_codec.encode((5, "after"))
    run = log.in_parts(records, 100_000) + log.in_parts([Update(table.id, None, key, image)], 100_000)

    async def staged(part: StagedPart) -> AsyncGenerator[bytes, None]:
        yield ledgers[part.ledger_id]

    asyncio.run(follow_run(store, run, staged))
    assert store.applied == run[-1][0]
    assert store.applied_snapshot()[0].get(table, key) == image


def test_what_comes_before_an_entry_that_does_not_follow_is_applied(store: Store) -> None:
    run = singly(store, Log(store.applied), 0, 10)
    del run[6]
    with pytest.raises(ChainError):
        asyncio.run(follow_run(store, run))
    assert store.applied == run[5][0]


def test_what_comes_before_a_damaged_transaction_is_applied(store: Store) -> None:
    log = Log(store.applied)
    run = singly(store, log, 0, 4)
    run.append(log.entry(encode_part(LoggedTransaction(1, rows(store)[4:6]).encode()[:-1], WHOLE)))
    run += singly(store, log, 6, 9)
    with pytest.raises(RecordError):
        asyncio.run(follow_run(store, run))
    assert store.applied == run[3][0]
    assert not store.is_spoilt


def test_cancelled_it_has_applied_whole_entries_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_SHARE_S", -1.0)
    log = Log(store.applied)
    small = log.in_parts(rows(store)[:5], 100_000)
    entries = small + log.in_parts(rows(store)[5:], 100_000)

    async def run() -> None:
        task: asyncio.Task[Any] = asyncio.ensure_future(followed(store, entries))
        for _ in range(len(entries) + 60):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert store.applied == small[-1][0]
        others = [one for one in asyncio.all_tasks() if one is not asyncio.current_task()]
        for one in others:
            one.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        assert store.flush() == small[-1][0]
        await followed_again(store, entries)

    asyncio.run(run())
    assert store.applied == entries[-1][0]
    assert len(list(store.applied_snapshot()[0].scan(store.catalog.by_name["t"]))) == ROWS

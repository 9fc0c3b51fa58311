"""Rows of loads, which stand in ledgers of their own, are part of what is read from the log."""

import asyncio
import uuid
from itertools import chain

import pytest

from herdpy.bookkeeper import BookKeeper
from herdpy.log import CorruptLedgerError, FileLog, LoggedTransaction, LogTrimmedError
from herdpy.log import detached as ledgers
from herdpy.log.bookkeeper import LedgerLogSettings, ZnodeLedgerList, take_over
from herdpy.log.detached import DirectoryLedgers
from herdpy.log.records import Insert, LoadBatch, Truncate
from herdpy.log.staging import StagedLedger, delete_staged
from herdpy_spark.log import LogAddress, partition, plan_table, read_partition
from tests.spark_log.loads import KEYED, Loads
from tests.spark_log.workload import plain


def rows_of(plan):
    batches = chain.from_iterable(read_partition(plan, number) for number in range(len(plan.ranges)))
    return sorted(chain.from_iterable(map(plain, batches)), key=repr)


@pytest.mark.parametrize("kept_bytes", [partition.KEPT_BYTES, 1])
@pytest.mark.parametrize("seed", range(2))
def test_loads_of_every_kind_among_other_changes(tmp_path, monkeypatch, seed, kept_bytes):
    loads = Loads(seed)
    log = FileLog(str(tmp_path / "log"))
    appended = [(log.append(LoggedTransaction(0, loads.first())), loads.rows())]
    for number in range(40):
        if records := loads.next():
            appended.append((log.append(LoggedTransaction(number, records)), loads.rows()))
        if number % 3:  # others share an entry
            log.flush()
    log.close()
    held = {append.lsn: tables for append, tables in appended}

    def part(_, staged):
        data = loads.staged[staged.ledger_id]
        yield from (data[at : at + 100] for at in range(0, len(data), 100))

    monkeypatch.setattr(DirectoryLedgers, "part", part)
    monkeypatch.setattr(partition, "KEPT_BYTES", kept_bytes)
    address = LogAddress.of_database(tmp_path)
    parted = 0
    for lsn, tables in list(held.items())[seed::2]:
        for name, expected in tables.items():
            plan = plan_table(address, name, lsn, seed + 2)
            parted += len(plan.ranges) > 1
            assert rows_of(plan) == expected, (lsn, name)
    assert parted > 10


def test_a_truncate_within_an_entry_empties_what_was_kept_of_a_range(tmp_path, monkeypatch):
    def insert(*key):
        return Insert(1, KEYED.key_codec.encode(key), KEYED.row_codec.encode(["x", *key]))

    log = FileLog(str(tmp_path / "log"))
    log.append(LoggedTransaction(0, Loads(0).first())).block()
    one = log.append(LoggedTransaction(1, [insert(1, "a")]))
    for records in ([Truncate(1)], [insert(2, "b")]):
        log.append(LoggedTransaction(2, records))
    log.close()
    assert one.lsn == log.lac
    monkeypatch.setattr(partition, "KEPT_BYTES", 1)
    plan = plan_table(LogAddress.of_database(tmp_path), "keyed", low=[9])  # the key descends
    assert rows_of(plan) == [{"name": "x", "a": 2, "b": "b"}]


def test_a_part_that_lacks_rows_is_damage(tmp_path, monkeypatch):
    loads = Loads(1)
    log = FileLog(str(tmp_path / "log"))
    log.append(LoggedTransaction(0, loads.first()))
    log.append(LoggedTransaction(1, loads._hidden_load())).block()
    log.close()
    other = Loads(2)
    other._hidden_load()
    monkeypatch.setattr(DirectoryLedgers, "part", lambda _, staged: iter([other.staged[100][:-8]]))
    with pytest.raises(CorruptLedgerError, match="ledger 100"):
        rows_of(plan_table(LogAddress.of_database(tmp_path), "hidden"))


def test_staged_ledgers_are_read_from_the_bookies_until_they_are_gone(bookkeeper_cluster):
    path = f"/spark-log/{uuid.uuid4().hex}/ledgers"
    settings = LedgerLogSettings(password=b"secret", max_ledger_bytes=20_000)
    loads = Loads(7)
    held, staged = {}, []

    async def program():
        async with BookKeeper(bookkeeper_cluster.uri) as bk:
            takeover = await take_over(bk, ZnodeLedgerList(bk.znodes, path), settings, "writer", 1)
            log = await takeover.lead()
            await log.append(LoggedTransaction(0, loads.first()))
            for number in range(12):
                records = [await stage(bk, one) for one in loads.next()]
                if records:
                    held[await log.append(LoggedTransaction(number, records))] = loads.rows()
            await log.aclose()

    async def stage(bk, record):
        if not isinstance(record, LoadBatch):
            return record
        parts = []
        for part in record.parts:
            ledger = await StagedLedger.create(bk, settings, log_id="x", tablespace="t", load_id="id")
            await ledger.write(loads.staged[part.ledger_id])
            parts.append(await ledger.finish(part.rows))
            staged.append(ledger.ledger_id)
        return LoadBatch(record.table_id, record.op, record.first_row_id, tuple(parts), record.present)

    async def forget():
        async with BookKeeper(bookkeeper_cluster.uri) as bk:
            await delete_staged(bk, staged)

    asyncio.run(program())
    zookeeper, _, root = bookkeeper_cluster.uri.removeprefix("zk://").partition("/")
    address = LogAddress(
        "t", zookeeper=zookeeper, ledgers_root=f"/{root}", list_path=path, password=b"secret"
    )
    try:
        for lsn, tables in list(held.items())[::3]:
            for name, expected in tables.items():
                assert rows_of(plan_table(address, name, lsn, 2)) == expected, (lsn, name)
        plan = plan_table(address, "keyed")
        partition._kept.clear()
        asyncio.run(forget())
        with pytest.raises(LogTrimmedError, match="make the DataFrame again"):
            rows_of(plan)
    finally:
        ledgers.close_clients()

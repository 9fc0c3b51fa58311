"""A feed from real bookies, beside a leader that goes on writing: loads of staged rows among the changes."""

from __future__ import annotations

import asyncio
import uuid

import pyarrow as pa
import pytest

from herdpy.bookkeeper import BookKeeper
from herdpy.log import CreateTable, Delete, Insert, LoadBatch, LoadDone, LoadOp, LoggedTransaction
from herdpy.log import detached as ledgers
from herdpy.log.bookkeeper import LedgerLogSettings, ZnodeLedgerList, take_over
from herdpy.log.staging import StagedLedger, delete_staged
from herdpy_spark.access import SparkDatabase
from herdpy_spark.feed import driver as feed_driver
from herdpy_spark.feed.driver import FeedDriver
from herdpy_spark.feed.table import FeedShape
from herdpy_spark.feed.tasks import read_task
from herdpy_spark.log import LogAddress
from herdpy_sql.catalog import Column, KeyPart, Table
from herdpy_sql.definitions import encode_table
from herdpy_sql.types import INTEGER, TEXT
from tests.support.feed_replay import Replica

TABLE = Table(7, "t", (Column("id", INTEGER, not_null=True), Column("v", TEXT)), (KeyPart(0),), "t_pkey")
SHAPE = FeedShape.of(TABLE)


def insert(number):
    return Insert(7, TABLE.key_codec.encode((number,)), TABLE.row_codec.encode((number, f"v{number}")))


async def staged(bk, settings, numbers):
    """Rows in a ledger of their own, of entries that are far smaller than the stream."""
    ledger = await StagedLedger.create(bk, settings, log_id="x", tablespace="t", load_id="l")
    rows = pa.table({"id": pa.array(numbers, pa.int32()), "v": [f"v{one}" for one in numbers]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=40)
    await ledger.write(sink.getvalue().to_pybytes())
    return await ledger.finish(len(numbers))


@pytest.fixture
def address(bookkeeper_cluster):
    zookeeper, _, root = bookkeeper_cluster.uri.removeprefix("zk://").partition("/")
    path = f"/spark-feed/{uuid.uuid4().hex}/ledgers"
    yield LogAddress("t", zookeeper=zookeeper, ledgers_root=f"/{root}", list_path=path, password=b"secret")
    ledgers.close_clients()


def test_a_feed_beside_a_leader_that_goes_on(bookkeeper_cluster, address, monkeypatch):
    monkeypatch.setattr(feed_driver, "LEAST_CHANGES", 50)
    settings = LedgerLogSettings(password=b"secret", max_entry_bytes=2000, max_ledger_bytes=8000)
    replica, positions, tasks_of_a_batch = Replica(), [], []

    def follow(driver, at):
        """What is new, as Spark would read it; nothing that was not acknowledged is ever there."""
        upto = driver.next(at, None)
        assert upto.lsn <= positions[-1]
        tasks = driver.tasks(at, upto)
        tasks_of_a_batch.append(len(tasks))
        found = [one for task in tasks for batch in read_task(task, SHAPE) for one in batch.to_pylist()]
        for change in sorted(found, key=lambda one: tuple(one["sequence"].values())):
            replica.apply(change)
        return upto

    async def program():
        async with BookKeeper(bookkeeper_cluster.uri) as bk:
            ledger_list = ZnodeLedgerList(bk.znodes, address.list_path)
            log = await (await take_over(bk, ledger_list, settings, "writer", 1)).lead()

            async def commit(*records):
                positions.append(await log.append(LoggedTransaction(1, list(records))))

            await commit(CreateTable(encode_table(TABLE)), insert(1))
            driver = FeedDriver(SparkDatabase(None, log=address), "t", SHAPE, partitions=8)
            at = await asyncio.to_thread(lambda: follow(driver, driver.first("earliest")))
            for number in range(10, 40):
                await commit(insert(number))
                if number % 10 == 0:
                    at = await asyncio.to_thread(follow, driver, at)
            parts = [await staged(bk, settings, list(range(low, low + 100))) for low in range(100, 600, 100)]
            present = b"\xff" + bytes(61) + b"\x0f"  # rows 0 to 7 and 496 to 499
            for one in (*range(100, 108), *range(596, 600)):
                await commit(insert(one))
            await commit(
                LoadBatch(7, LoadOp.UPSERT, -1, tuple(parts), present),
                insert(1000),
                LoadDone("l", 7, 0, 0, 0, 0),
            )
            # Many entries: a transaction in parts.
            await commit(*[insert(number) for number in range(2000, 2500)])
            await commit(Delete(7, TABLE.key_codec.encode((1,))))
            at = await asyncio.to_thread(follow, driver, at)
            await commit(insert(3000))
            assert log.failure is None
            while at.lsn < positions[-1]:  # bookies hear of the last confirmed entry a little later
                at = await asyncio.to_thread(follow, driver, at)
            await log.aclose()
            await delete_staged(bk, [part.ledger_id for part in parts])

    asyncio.run(program())
    expected = {*range(10, 40), *range(100, 600), 1000, *range(2000, 2500), 3000}
    assert {row["id"] for row in replica.rows.values()} == expected
    assert max(tasks_of_a_batch) > 3

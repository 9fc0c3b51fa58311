"""Streams whose beginning is trimmed: an error that says what to do, or the rows of a published snapshot."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from herdpy.log import (
    START,
    CreateTable,
    DropTable,
    FileLog,
    Insert,
    LoggedTransaction,
    LogSettings,
    LogTrimmedError,
)
from herdpy.log.detached import opened
from herdpy.log.published import KEY_COLUMN, SnapshotWriter
from herdpy_spark.access import SparkDatabase
from herdpy_spark.feed.driver import DefinitionUnknownError, Described, FeedDriver, Offset, table_at
from herdpy_spark.feed.table import FeedShape
from herdpy_spark.feed.tasks import read_task
from herdpy_spark.log import LogAddress, PartitionedTableError, bounds
from herdpy_sql.catalog import Column, KeyPart, Table
from herdpy_sql.definitions import encode_table
from herdpy_sql.partition_bounds import RANGE, PartitionKey
from herdpy_sql.types import INTEGER, TEXT
from tests.support.feed_replay import Replica

TABLE = Table(7, "t", (Column("id", INTEGER, not_null=True), Column("v", TEXT)), (KeyPart(0),), "t_pkey")
SHAPE = FeedShape.of(TABLE)


def insert(number, table=TABLE):
    return Insert(table.id, table.key_codec.encode((number,)), table.row_codec.encode((number, f"v{number}")))


class Place:
    """A log in small ledgers, and a place for snapshots of it."""

    def __init__(self, path):
        self.path = path
        settings = LogSettings(max_entry_bytes=1000, max_ledger_bytes=4400, preallocate_bytes=4096)
        self.log = FileLog(str(path / "log"), settings=settings)
        url = str(path / "published")
        self.address = LogAddress.of_database(path, tablespace="t", snapshot_url=url)
        self.numbers = []

    def commit(self, *records):
        append = self.log.append(LoggedTransaction(1, list(records)))
        self.log.flush()
        self.log.note_lac()
        return append.lsn

    def insert(self, numbers):
        self.numbers += numbers
        return [self.commit(insert(number)) for number in numbers][-1]

    def publish(self, lsn, numbers, log_id=None, table=TABLE):
        """A snapshot at ``lsn`` with these rows; None: the table is not there. ``log_id``: of another log."""
        writer = SnapshotWriter(self.address.snapshot_url, "t", lsn, created_us=1)
        if numbers is not None:
            columns = {
                "id": pa.array(numbers, pa.int32()),
                "v": [f"v{number}" for number in numbers],
                KEY_COLUMN: pa.array([TABLE.key_codec.encode((number,)) for number in numbers], pa.binary()),
            }
            batch = pa.RecordBatch.from_pydict(columns)
            with writer.table(7, "t", encode_table(table).decode(), batch.schema) as out:
                out.write(batch)
        writer.finish(log_id=log_id or self.log.state.log_id, crc=None, time_us=1)

    def driver(self, **options):
        return FeedDriver(SparkDatabase(None, log=self.address), "t", SHAPE, **options)


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    made.commit(CreateTable(encode_table(TABLE)))
    yield made
    made.log.close()


def rows(tasks):
    found = [one for task in tasks for batch in read_task(task, SHAPE) for one in batch.to_pylist()]
    return sorted(found, key=lambda one: tuple(one["sequence"].values()))


def follow(driver, at, replica):
    """All batches from there on, each by what Spark would keep of offsets."""
    while True:
        upto = driver.next(at, 10)
        if upto == at:
            return at
        for change in rows(driver.tasks(at, upto)):
            replica.apply(change)
        at = Offset.from_json(json.loads(json.dumps(upto.to_json())))


def test_a_checkpoint_that_was_trimmed_is_an_error_that_says_what_to_do(place):
    begin = place.driver().first("earliest")
    place.log.trim(place.insert(list(range(40))))
    base = bounds(place.address).base
    assert base > START
    for call in (
        lambda: place.driver().next(begin, None),
        lambda: place.driver().tasks(begin, replace(begin, lsn=base)),
        lambda: place.driver().first(START),
    ):
        with pytest.raises(
            LogTrimmedError, match=r"begins after .* onTrimmed to snapshot, .* earliest or latest"
        ):
            call()
    with pytest.raises(LogTrimmedError, match="no longer reaches back"):
        place.driver().first(0)


def test_a_snapshot_takes_the_place_of_changes_that_are_gone(place):
    driver = place.driver(on_trimmed="snapshot", partitions=3)
    replica = Replica()
    at = follow(driver, driver.first("earliest"), replica)
    assert replica.values() == []
    place.log.trim(place.insert(list(range(40))))
    with pytest.raises(LogTrimmedError, match="no snapshot from there on is published: publish one"):
        driver.next(at, None)
    published = place.insert(list(range(40, 60)))
    place.publish(published, list(place.numbers))
    place.insert(list(range(60, 80)))
    place.publish(place.log.end, list(place.numbers))
    last = place.insert(list(range(80, 90)))
    upto = driver.next(at, 5)
    assert upto.lsn == published  # the oldest: as few changes as possible are missed
    tasks = driver.tasks(at, upto)
    assert len(tasks) > 1
    found = rows(tasks)
    assert [one["op"] for one in found[:2]] == ["truncate", "insert"]
    assert len({tuple(one["sequence"].values()) for one in found}) == 61
    # Another driver plans the same batch after a crash.
    again = place.driver(on_trimmed="snapshot", partitions=1).tasks(at, upto)
    assert sorted(one["after"]["id"] for one in rows(again) if one["after"]) == list(range(60))
    assert follow(driver, at, replica).lsn == last
    assert sorted(row["id"] for row in replica.rows.values()) == list(range(90))


def test_a_snapshot_of_a_namesake_takes_no_place(place):
    driver = place.driver(on_trimmed="snapshot")
    begin = driver.first("earliest")
    place.log.trim(place.insert(list(range(40))))
    place.publish(place.insert([40]), [-1, -2], log_id="0" * 32)
    with pytest.raises(LogTrimmedError, match="no snapshot from there on is published"):
        driver.next(begin, None)
    published = place.insert([41])
    place.publish(published, list(place.numbers))
    upto = driver.next(begin, None)
    assert upto.lsn == published
    assert [one["after"]["id"] for one in rows(driver.tasks(begin, upto)) if one["after"]] == place.numbers


def test_a_snapshot_of_a_partitioned_table_takes_no_place(place):
    driver = place.driver(on_trimmed="snapshot")
    begin = driver.first("earliest")
    place.log.trim(place.insert(list(range(40))))
    spread = replace(TABLE, partition_key=PartitionKey(RANGE, (0,)))
    place.publish(place.insert([40]), [], table=spread)
    with pytest.raises(PartitionedTableError, match='"t" is a partitioned table: read its partitions'):
        driver.next(begin, None)


def test_a_new_stream_begins_with_a_snapshot_where_the_log_does_not(place):
    place.publish(place.insert(list(range(30))), list(range(30)))
    place.log.trim(place.log.end)
    place.insert([30])
    driver = place.driver(on_trimmed="snapshot")
    replica = Replica({})
    follow(driver, driver.first("earliest"), replica)
    assert len(replica.rows) == 31
    assert driver.first(0).lsn == START


def test_definitions_come_from_whoever_has_them(place):
    middle = place.insert(list(range(20)))
    gone = place.commit(DropTable(7))
    again = replace(TABLE, id=20)
    made = place.commit(CreateTable(encode_table(again)))
    for _ in range(20):
        place.commit(insert(1, again))
    last = place.log.end

    def at(lsn, told=None):
        with opened(place.address) as ledgers:
            found = table_at(place.address, ledgers, "t", lsn, lambda: told)
            return None if found is None else found.id

    # The log is whole: it says everything.
    assert [at(one) for one in (START, middle, gone, made, last)] == [None, 7, None, 20, 20]
    # A server knows what is there now, and that it was not always.
    told = Described(again, last)
    assert [at(one, told) for one in (middle, gone, made, last)] == [7, None, 20, 20]
    assert at(last, Described(again, made)) == 20
    place.log.trim(gone)
    kept = bounds(place.address).base
    assert START < kept < made
    assert [at(one, told) for one in (made, last)] == [20, 20]
    with pytest.raises(
        DefinitionUnknownError, match=r'it is not known what table "t" was at .* publish snapshots'
    ):
        at(kept, told)
    with pytest.raises(DefinitionUnknownError, match="no server reports it"):
        at(last)
    place.publish(kept, None)
    assert [at(one, told) for one in (kept, made, last)] == [None, 20, 20]
    assert at(last) == 20

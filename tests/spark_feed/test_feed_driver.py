"""A stream's offsets and batches, over the log of an embedded database."""

from __future__ import annotations

import json
import random
import shutil

import pytest

import herdpy
from herdpy.log import LSN, START, LogClosedError
from herdpy_server import embedded
from herdpy_spark.access import SparkDatabase
from herdpy_spark.directory import publish
from herdpy_spark.feed import driver as feed_driver
from herdpy_spark.feed.driver import FeedDriver, Offset, newest_table
from herdpy_spark.feed.table import FeedShape, SchemaChangedError
from herdpy_spark.feed.tasks import read_task
from herdpy_spark.log import LogAddress, end, entries
from herdpy_spark.options import OptionError
from tests.spark_feed.feed_workload import TABLES, work
from tests.support.feed_replay import Replica


def database_of(path):
    return SparkDatabase(None, str(path), LogAddress.of_database(path))


def driver_of(path, table="t", shape=None, **options):
    database = database_of(path)
    shape = shape or FeedShape.of(newest_table(database, table))
    return FeedDriver(database, table, shape, **options), shape


def through_json(offset):
    return Offset.from_json(json.loads(json.dumps(offset.to_json())))


def changes(tasks, shape):
    """The rows of all tasks, each task's apart."""
    return [[change for batch in read_task(task, shape) for change in batch.to_pylist()] for task in tasks]


def run(path, *statements):
    with herdpy.connect(str(path), autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.fixture(scope="module", params=list(TABLES))
def worked(request, tmp_path_factory):
    """A database after random work, and the states of its table."""
    path = tmp_path_factory.mktemp("feed") / "db"
    states = work(path, TABLES[request.param], 30, 40)
    if states[-1] is None:
        run(path, TABLES[request.param])
        states.append([])
    return path, states


@pytest.mark.parametrize("seed", range(3))
def test_batches_of_any_size_and_restarts_are_the_log(worked, seed, monkeypatch):
    """At the end of each batch the table is one that it was; killed anywhere, each change is there once."""
    path, states = worked
    random_ = random.Random(seed)
    monkeypatch.setattr(feed_driver, "LEAST_CHANGES", random_.choice([1, 30, 20_000]))
    driver, shape = driver_of(path, partitions=random_.choice([1, 3, 16]))
    replica, at = Replica(), driver.first("earliest")
    assert at.lsn == START
    seen = [None]
    while True:
        if random_.random() < 0.3:  # the driver dies, and another goes on from the checkpoint
            driver, shape = driver_of(path)
        upto = driver.next(at, random_.choice([1, 2, 7]))
        if upto == at:
            break
        if random_.random() < 0.3:  # it dies between planning and reading
            driver, shape = driver_of(path, partitions=3)
        at, upto = through_json(at), through_json(upto)
        for task in changes(driver.tasks(at, upto), shape):
            for change in task:
                replica.apply(change)
        assert replica.values() in states
        seen.append(replica.values())
        at = upto
    assert at.lsn == end(LogAddress.of_database(path))
    assert seen[-1] == states[-1]
    assert len(seen) > 5


def test_a_stream_from_any_position_has_what_follows(worked):
    path, _states = worked
    address = LogAddress.of_database(path)
    driver, shape = driver_of(path)
    whole = driver.first("earliest")
    (every,) = changes([*driver.tasks(whole, driver.next(whole, None))], shape) or [[]]
    for entry in list(entries(address, START))[::9]:
        begin = driver.first(entry.lsn)
        assert begin.lsn == entry.lsn
        tasks = driver.tasks(begin, driver.next(begin, None))
        found = [change for task in changes(tasks, shape) for change in task]
        assert found == [change for change in every if LSN(*map(int, change["lsn"].split(":"))) > entry.lsn]


def test_tasks_read_only_what_changes_the_table(tmp_path):
    run(
        tmp_path,
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE TABLE other (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        *(f"INSERT INTO other VALUES ({number})" for number in range(100)),
        "INSERT INTO t VALUES (2)",
    )
    driver, shape = driver_of(tmp_path)
    begin = driver.first("earliest")
    upto = driver.next(begin, None)
    total = sum(1 for _ in entries(LogAddress.of_database(tmp_path), START))
    (task,) = driver.tasks(begin, upto)
    assert [change["op"] for change in changes([task], shape)[0]] == ["create", "insert", "insert"]
    middle = driver.next(begin, total - 2)
    assert middle.lsn < upto.lsn
    (task,) = driver.tasks(begin, middle)
    assert task.stretch.upto < LSN(middle.lsn.ledger_id, 10)
    idle = driver.next(
        Offset.of(task.stretch.upto, begin.log_id, newest_table(database_of(tmp_path), "t")), 50
    )
    assert driver.tasks(Offset(task.stretch.upto, begin.log_id), idle) == []


def test_starting_positions(tmp_path):
    run(tmp_path, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    driver, _ = driver_of(tmp_path)
    last = driver.first("latest")
    assert last.lsn == end(LogAddress.of_database(tmp_path))
    assert last.table.name == "t"
    assert driver.next(last, None) == last
    assert driver.tasks(last, last) == []
    assert driver.first(10**18) == last
    assert driver.first(0).lsn == START
    with pytest.raises(OptionError, match="the log ends at"):
        driver.first(LSN(10**6, 0))


def test_the_target_of_a_stream_that_ends_does_not_move(tmp_path):
    run(tmp_path, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    driver, _ = driver_of(tmp_path)
    begin = driver.first("earliest")
    driver.freeze()
    target = end(LogAddress.of_database(tmp_path))
    run(tmp_path, "INSERT INTO t VALUES (2)")
    upto = driver.next(begin, None)
    assert upto.lsn == target < end(LogAddress.of_database(tmp_path))
    assert driver.next(upto, None) == upto


def test_a_table_with_other_columns_ends_the_stream_after_what_went_before(tmp_path):
    run(tmp_path, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    driver, shape = driver_of(tmp_path)
    at = driver.first("earliest")
    run(
        tmp_path,
        "INSERT INTO t VALUES (2)",
        "DROP TABLE t",
        "CREATE TABLE t (id INT PRIMARY KEY, more TEXT)",
        "INSERT INTO t VALUES (3, 'x')",
    )
    ops = []
    while True:
        upto = driver.next(at, None)
        tasks = driver.tasks(at, upto)
        if "create" in ops[1:]:
            break
        ops += [change["op"] for task in changes(tasks, shape) for change in task]
        at = upto
    assert ops == ["create", "insert", "insert", "drop", "create"]
    with pytest.raises(
        SchemaChangedError, match=r'has a column "more" .* in its row, which this stream has not'
    ):
        changes(tasks, shape)
    # One that is made now goes on where that one ended.
    driver, shape = driver_of(tmp_path)
    upto = driver.next(through_json(at), None)
    (found,) = changes(driver.tasks(at, upto), shape)
    assert [change["after"] for change in found] == [{"id": 3, "more": "x"}]


def test_a_checkpoint_of_another_log_is_refused(tmp_path):
    for name in ("a", "b"):
        run(tmp_path / name, "CREATE TABLE t (id INT PRIMARY KEY)")
    begin = driver_of(tmp_path / "a")[0].first("earliest")
    with pytest.raises(LogClosedError, match="the tablespace was made anew"):
        driver_of(tmp_path / "b")[0].next(begin, None)
    with pytest.raises(ValueError, match="not an offset of a change feed"):
        Offset.from_json({"ledger": 1})


def test_a_directory_that_was_made_anew_is_not_taken_for_the_one_before(tmp_path):
    path = tmp_path / "shop"
    run(path, "CREATE TABLE t (id INT PRIMARY KEY, old TEXT)")
    for number in range(10):
        run(path, f"INSERT INTO t VALUES ({number}, 'old')")
    before = publish(str(path))
    shutil.rmtree(path)
    run(path, "CREATE TABLE t (id INT PRIMARY KEY)")
    _trim(path)
    run(path, "INSERT INTO t VALUES (1)")
    assert end(LogAddress.of_database(path)) < before.ref.lsn
    driver, shape = driver_of(path)
    begin = driver.first("earliest")
    (found,) = changes(driver.tasks(begin, driver.next(begin, None)), shape)
    assert [change["after"] for change in found] == [{"id": 1}]


def _trim(path):
    before = end(LogAddress.of_database(path))
    run(path, "CREATE TABLE more (id INT PRIMARY KEY)", "DROP TABLE more")
    database = embedded.Database.acquire(path)
    try:
        assert database.log.trim(before)
    finally:
        database.release()


def test_a_directory_whose_log_is_trimmed_still_says_what_its_tables_are(tmp_path):
    run(tmp_path, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    before = end(LogAddress.of_database(tmp_path))
    run(tmp_path, "INSERT INTO t VALUES (2)")
    database = embedded.Database.acquire(tmp_path)
    try:
        assert database.log.trim(before)
    finally:
        database.release()
    driver, shape = driver_of(tmp_path)
    begin = driver.first("earliest")
    assert begin.lsn == before
    (found,) = changes(driver.tasks(begin, driver.next(begin, None)), shape)
    assert [change["after"] for change in found] == [{"id": 2}]

"""What may happen to a load between its first row and its answer, step by step, on the shared cluster.

Here the test is the driver: it begins, lets "tasks" stage, and publishes, so that it can stop anywhere. The
same with Spark's own processes killed is in test_spark_kills.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from herdpy_spark.access import find
from herdpy_spark.options import Options
from herdpy_spark.writing import LoadWriter, begin
from herdpy_spark.writing.loads import ServerLoads
from herdpy_spark.writing.plan import LoadError, WriteMode, WriteOutcome, WritePlan
from herdpy_spark.writing.staging import LedgerSink, stage
from tests.spark.staged import staged_ledgers

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
_ATTEMPTS = itertools.count(100)
_LOADS = itertools.count(1)


def batches(first, count):
    """Rows, some hundreds of bytes each, in batches as Spark makes them."""
    for start in range(first, first + count, 1000):
        ids = list(range(start, min(start + 1000, first + count)))
        yield pa.RecordBatch.from_pydict({"id": ids, "name": [f"{n:0>200}" for n in ids]}, SCHEMA)


class Driver:
    """One run of a job that loads rows 0 to 3999 in four partitions."""

    def __init__(self, url, table, load_id, mode=WriteMode.APPEND):
        self.url, self.table, self.load_id, self.mode = url, table, load_id, mode
        self.servers = find(Options.parse({"url": url, "table": table}, "write")).servers
        self.loads = ServerLoads(self.servers.places, self.servers.tablespace)
        self.plan = begin(self.loads, load_id, table, mode, SCHEMA)

    def task(self, partition):
        """An attempt at a partition."""
        return stage(self.plan, batches(partition * 1000, 1000), partition, next(_ATTEMPTS))

    def tasks(self):
        return [self.task(partition) for partition in range(4)]

    @property
    def writer(self):
        return LoadWriter(self.loads, self.plan)


@pytest.fixture
def table(sql, new_name):
    name = new_name("loaded")
    sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, name TEXT)")
    return name


@pytest.fixture
def driver(cluster, table):
    load_id = f"load-{next(_LOADS)}"
    return lambda mode=WriteMode.APPEND: Driver(cluster.url, table, load_id, mode)


@pytest.fixture
def is_loaded(sql, table):
    """Whether all rows are there, or none; anything between fails the test."""

    def is_loaded():
        ((count, total),) = sql(f"SELECT count(*), coalesce(sum(id), 0) FROM {table}")
        assert (count, total) in [(0, 0), (4000, sum(range(4000)))]
        return count == 4000

    return is_loaded


def test_what_is_staged_is_in_no_table_before_it_is_published(driver, is_loaded):
    run = driver()
    messages = run.tasks()
    assert not is_loaded()
    run.writer.commit(messages)
    assert is_loaded()


def test_of_two_attempts_at_a_partition_the_winner_counts(driver, is_loaded, cluster):
    run = driver()
    messages, losers = run.tasks(), [run.task(1), run.task(2)]
    run.writer.commit(messages)
    assert is_loaded()
    run.writer.commit(losers)  # whoever comes late adds nothing
    assert is_loaded()
    assert len(staged_ledgers(cluster.bookkeeper_uri, run.load_id)) == 6  # two are for the sweep


def test_a_partition_with_two_winners_is_refused(driver, is_loaded):
    run = driver()
    messages = [*run.tasks(), run.task(3)]
    with pytest.raises(ValueError, match="partition 3 has two winners"):
        run.writer.commit(messages)
    assert not is_loaded()


def test_abort_removes_what_was_staged(driver, is_loaded, cluster):
    run = driver()
    messages = run.tasks()
    run.writer.abort([messages[0], None, *messages[2:]])
    left = staged_ledgers(cluster.bookkeeper_uri, run.load_id)
    assert left == [messages[1].parts[0].ledger_id]  # of a task whose message was lost: for the sweep
    assert not is_loaded()


def test_abort_after_a_commit_that_was_told_as_failed_does_nothing(driver, is_loaded, cluster):
    run = driver()
    messages = run.tasks()
    run.writer.commit(messages)  # and then the driver sees its connection break
    run.writer.abort(messages)
    assert is_loaded()
    assert len(staged_ledgers(cluster.bookkeeper_uri, run.load_id)) == 4


def test_a_driver_that_died_before_publishing_is_followed_by_one_that_does(driver, is_loaded):
    driver().tasks()
    rerun = driver()
    assert isinstance(rerun.plan, WritePlan)
    rerun.writer.commit(rerun.tasks())
    assert is_loaded()


def test_a_driver_that_died_after_publishing_is_followed_by_one_that_adds_nothing(driver, is_loaded):
    run = driver()
    run.writer.commit(run.tasks())
    rerun = driver()
    assert isinstance(rerun.plan, WriteOutcome)
    assert rerun.plan.inserted == 4000
    rerun.writer.commit([])
    assert is_loaded()


def test_two_drivers_with_one_load_id_add_its_rows_once(driver, is_loaded):
    one, other = driver(), driver()
    first, second = one.tasks(), other.tasks()
    one.writer.commit(first)
    other.writer.commit(second)
    other.writer.abort(second)
    assert is_loaded()


def test_a_part_that_was_swept_meanwhile_is_named_and_nothing_added(driver, is_loaded):
    run = driver()
    messages = run.tasks()
    run.writer.abort(messages[2:3])
    with pytest.raises(LoadError, match="part 3 of the load, ledger"):
        run.writer.commit(messages)
    assert not is_loaded()


def test_a_table_made_again_meanwhile_is_not_the_one_that_was_meant(driver, is_loaded, sql, table):
    run = driver()
    messages = run.tasks()
    sql(f"DROP TABLE {table}")
    sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT)")
    with pytest.raises(LoadError, match="dropped and made again"):
        run.writer.commit(messages)
    assert not is_loaded()


def test_a_leader_killed_between_staging_and_publishing_loses_nothing(driver, is_loaded, cluster):
    run = driver()
    messages = run.tasks()
    leader = cluster.await_leader()
    cluster.kill(leader)
    try:
        run.writer.commit(messages)
    finally:
        cluster.start(leader)
    assert is_loaded()
    assert isinstance(driver().plan, WriteOutcome)


def test_a_leader_killed_while_it_publishes_adds_the_rows_once(driver, is_loaded, cluster):
    run = driver()
    messages = run.tasks()
    leader = cluster.await_leader()
    with ThreadPoolExecutor(1) as threads:
        commit = threads.submit(run.writer.commit, messages)
        cluster.kill(leader)
        try:
            commit.result()
        finally:
            cluster.start(leader)
    assert is_loaded()
    assert driver().plan.inserted == 4000


def test_a_bookie_killed_while_rows_are_staged_is_not_noticed(driver, is_loaded, cluster):
    run = driver()

    def killing(rows):
        yield next(rows)
        cluster.kill("bookie-2")
        yield from rows

    try:
        # Three bookies were to have each row: there is none that could take the place of the one that dies.
        message = stage(run.plan, killing(batches(0, 4000)), 0, next(_ATTEMPTS))
        run.writer.commit([message])
        assert is_loaded()
        ids = [part.ledger_id for part in message.parts]
        assert staged_ledgers(cluster.bookkeeper_uri, run.load_id) == ids
    finally:
        cluster.start("bookie-2")


def test_long_partitions_are_staged_in_several_parts(driver, is_loaded, monkeypatch):
    monkeypatch.setattr(LedgerSink, "part_bytes", 100_000)
    run = driver()
    message = stage(run.plan, batches(0, 4000), 0, next(_ATTEMPTS))
    assert [part.rows for part in message.parts] == [1000] * 4
    run.writer.commit([message])
    assert is_loaded()

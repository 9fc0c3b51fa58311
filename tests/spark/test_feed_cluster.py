"""What Spark calls of a stream, called as Spark does (offsets as JSON, readers and partitions pickled), on a
real cluster: loads of statements, images of before, servers that say where the log is, and a lease on it."""

from __future__ import annotations

import json
import random
import threading
from contextlib import suppress

import pytest
from pyspark.cloudpickle import dumps, loads
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import herdpy
from herdpy.log import detached as ledgers
from herdpy.log.lsn import LSN
from herdpy.testing.process import await_until
from herdpy_spark.access import find
from herdpy_spark.cdc.command import ChangesRequest
from herdpy_spark.cdc.command import follow as follow_changes
from herdpy_spark.feed.driver import FeedDriver, newest_table
from herdpy_spark.feed.table import FeedShape
from herdpy_spark.options import Options
from herdpy_spark.source import HerdPyDataSource
from tests.support.feed_histories import NAMES, SETUP, Histories, at_position, fold, followed, held, values
from tests.support.feed_replay import Replica


@pytest.fixture
def reader_of(cluster):
    made = []

    def make(table, **options):
        given = {"url": cluster.url, "table": table, "startingOffsets": "earliest", **options}
        source = HerdPyDataSource(given)
        reader = source.streamReader(source.schema())
        made.append(reader)
        return reader

    yield make
    for reader in made:
        reader.stop()
    ledgers.close_clients()


def through_json(offset):
    return json.loads(json.dumps(offset))


def changes_of(reader, begin, upto):
    """The rows that tasks make of a batch."""
    found = []
    for partition in reader.partitions(begin, upto):
        task = loads(dumps((type(reader)(reader._options, reader._schema), partition)))
        for batch in task[0].read(task[1]):
            found += batch.to_pylist()
    return sorted(found, key=lambda one: tuple(one["sequence"].values()))


def follow(reader, at, replica, until):
    """All batches up to a position."""
    limit = reader.getDefaultReadLimit()
    while LSN(at["ledger"], at["entry"]) < until:
        upto = through_json(reader.latestOffset(at, limit))
        for change in changes_of(reader, at, upto):
            assert (change["before"] is not None) == (change["op"] in {"update", "delete"})
            replica.apply(change)
        reader.commit(upto)
        at = upto
    return at


def test_a_streams_reader_follows_a_cluster(reader_of, sql, new_name):
    name = new_name()
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, name TEXT)")
    sql(f"ALTER TABLE {name} REPLICA IDENTITY FULL")
    for number in range(30):
        sql(f"INSERT INTO {name} VALUES (%s, %s)", (number, f"n{number}"))
    reader = reader_of(name, maxEntriesPerTrigger="10")
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    replica = Replica()
    at = follow(reader, through_json(reader.initialOffset()), replica, sql.position())
    assert len(replica.rows) == 30
    assert reader._lease is not None
    assert reader._lease._made.id
    reader.stop()

    sql(f"UPDATE {name} SET name = name || '+' WHERE id < 10")
    sql(f"UPDATE {name} SET id = id + 1000 WHERE id >= 20")
    sql(f"DELETE FROM {name} WHERE id = 15")
    # Another one goes on, and ends where the log ended when it began.
    reader = reader_of(name)
    target = sql.position()
    while True:
        reader.prepareForTriggerAvailableNow()
        if LSN(*_place(reader.latestOffset(at, ReadAllAvailable()))) >= target:
            break
    sql(f"TRUNCATE {name}")
    upto = through_json(reader.latestOffset(at, ReadAllAvailable()))
    assert LSN(*_place(upto)) == target
    for change in changes_of(reader, at, upto):
        replica.apply(change)
    assert len(replica.rows) == 29
    assert {row["name"] for row in replica.rows.values()} >= {"n0+", "n9+", "n10", "n29"}
    assert reader.latestOffset(upto, ReadAllAvailable()) == upto
    latest = reader_of(name, startingOffsets="latest").initialOffset()
    assert LSN(*_place(latest)) >= target


def _place(offset):
    return offset["ledger"], offset["entry"]


def histories_run(cluster, seed, transactions, at_half):
    """Random histories on whichever server leads, with what a kill leaves unknown as the log has it.

    The position of a last commit, a row of its own, and what the tables held before it.
    """
    histories = Histories(seed)
    with herdpy.connect(cluster.url, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in SETUP:
            cursor.execute(statement)
        for number in range(transactions):
            if number == transactions // 2:
                at_half()
            try:
                cursor.execute("BEGIN")
                for statement in histories.transaction():
                    cursor.execute(statement)
                cursor.execute("COMMIT")
            except herdpy.Error:
                with suppress(herdpy.Error):
                    cursor.execute("ROLLBACK")
        tables = held(cursor)
        cursor.execute("INSERT INTO public.t VALUES (-77, 'c', NULL, NULL)")
        ((text,),) = cursor.execute("SELECT herdpy.commit_position()").fetchall()
    return LSN.parse(text), tables


@pytest.mark.timeout(600)
def test_a_fold_by_key_is_the_table_also_across_a_leaders_kill(cluster, sql):
    killed = []

    def kill():
        killed.append(cluster.await_leader())
        cluster.kill(killed[0])

    killer = threading.Thread(target=kill)
    last, tables = histories_run(cluster, 11, 80, killer.start)
    killer.join()
    cluster.start(killed[0])
    database = find(Options.parse({"url": cluster.url, "table": "t"}))
    address, random_ = database.address(), random.Random(11)
    ledgers_seen = set()
    for name, rows_held in zip(("t", "app.t"), tables, strict=True):
        shape = FeedShape.of(newest_table(database, name))
        rows, compared = {}, 0
        for end, changes in followed(FeedDriver(database, name, shape), shape, last, random_):
            fold(rows, changes)
            ledgers_seen |= {change["sequence"]["ledger"] for change in changes}
            if random_.random() < 0.3 or end >= last:
                assert values(rows) == at_position(address, name, end), f"{name} at {end}"
                compared += 1
        rows.pop((-77, "c"), None)
        assert values(rows) == rows_held
        assert compared
    assert len(ledgers_seen) > 1  # those of one leader and of the next
    for statement in (*(f"DROP TABLE {name}" for name in NAMES), "DROP SCHEMA app", "DROP SCHEMA aside"):
        sql(statement)
    ledgers.close_clients()


def test_a_file_of_changes_goes_on_when_the_leader_is_killed(cluster, sql, new_name, tmp_path):
    name, out, stop = new_name(), tmp_path / "out.jsonl", threading.Event()
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v TEXT)")
    request = ChangesRequest(
        url=cluster.url, user=None, password=None, table=name, starting="earliest", form="json", to=str(out),
        registry=None, name=None, on_trimmed="error", lease=None, forever=True,
    )  # fmt: skip
    runs = []
    thread = threading.Thread(target=lambda: runs.append(follow_changes(request, stop, print)))

    def write(numbers):
        for number in numbers:
            sql(f"INSERT INTO {name} VALUES (%s, 'v')", (number,))
            if number % 4 == 3:
                sql(f"UPDATE {name} SET id = -id WHERE id = %s", (number - 1,))

    def has(number):
        return lambda: out.exists() and f'"key":{{"id":{number}}}' in out.read_text()

    thread.start()
    try:
        write(range(1, 21))
        assert await_until(has(20), 60.0)
        leader = cluster.await_leader()
        cluster.kill(leader)
        try:
            write(range(21, 61))
            assert await_until(has(60), 60.0)
        finally:
            cluster.start(leader)
    finally:
        stop.set()
        thread.join()
    assert [run.position is not None for run in runs] == [True]
    rows = {}
    fold(rows, map(json.loads, out.read_text().splitlines()))
    assert values(rows) == sorted(map(tuple, sql(f"SELECT id, v FROM {name}")), key=repr)
    ledgers.close_clients()

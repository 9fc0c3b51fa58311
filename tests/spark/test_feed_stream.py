"""Streams of changes by Spark, from a real cluster: exactly what was committed, once, in order."""

from __future__ import annotations

import contextlib
import threading

import pytest
from pyspark.errors import StreamingQueryException

from herdpy.testing.process import await_until
from tests.spark.conftest import SLOW
from tests.support.feed_replay import Replica


class Sink:
    """What batches brought, as a table keyed by batch: a batch that is done again replaces itself."""

    def __init__(self):
        self.batches = {}
        self.fail = {}  # what becomes of a batch: "before" or "after" it is written

    def __call__(self, frame, batch):
        what = self.fail.pop(batch, None)
        if what == "before":
            raise RuntimeError("killed before the batch was written")
        rows = [row.asDict(recursive=True) for row in frame.collect()]
        self.batches[batch] = sorted(rows, key=lambda row: tuple(row["sequence"].values()))
        if what == "after":
            raise RuntimeError("killed before the batch was noted")

    @property
    def changes(self):
        return [row for _, rows in sorted(self.batches.items()) for row in rows]


pytestmark = pytest.mark.timeout(900)
PATIENCE_S = 300.0


@pytest.fixture
def started(spark, cluster, tmp_path):
    """Start a stream of a table into a sink; all are stopped afterwards."""
    queries = []

    def start(table, sink, *, available_now=False, url=None, **options):
        given = {"url": url or cluster.url, "table": table, "startingOffsets": "earliest", **options}
        reader = spark.readStream.format("herdpy").options(**given)
        writer = reader.load().writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        queries.append((writer.trigger(availableNow=True) if available_now else writer).start())
        return queries[-1]

    yield start
    for query in queries:
        with contextlib.suppress(StreamingQueryException):  # as it ended before
            query.stop()


@pytest.fixture
def stream(started):
    """Run a stream to its end. Gives how it ended, None: well."""

    def run(table, sink, **options):
        while True:
            try:
                started(table, sink, **options).awaitTermination()
            except StreamingQueryException as error:
                if SLOW not in str(error):
                    return str(error)
            else:
                return None

    return run


def rows_of(sql, table):
    return sorted((tuple(row) for row in sql(f"SELECT * FROM {table}")), key=repr)


def test_a_stream_that_dies_again_and_again_has_each_change_once(stream, cluster, sql, new_name):
    name = new_name()
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, name TEXT)")
    sql(f"ALTER TABLE {name} REPLICA IDENTITY FULL")

    def write(numbers):
        for number in numbers:
            sql(f"INSERT INTO {name} VALUES (%s, %s)", (number, f"n{number}"))
            if number % 3 == 0:
                sql(f"UPDATE {name} SET name = name || '+' WHERE id %% 10 = %s", (number % 10,))
            if number % 7 == 0:
                sql(f"DELETE FROM {name} WHERE id %% 13 = %s", (number % 13,))

    write(range(60))
    sink = Sink()
    writer = threading.Thread(target=write, args=(range(60, 160),))
    writer.start()
    sink.fail = {1: "after"}
    assert "before the batch was noted" in stream(name, sink, maxEntriesPerTrigger=30)
    sink.fail = {2: "before"}
    assert "before the batch was written" in stream(name, sink, maxEntriesPerTrigger=30)
    writer.join()
    by_zookeeper = f"herdpy+zk://{cluster.zookeeper}/herdpy?tablespace=herdpy"
    assert stream(name, sink, available_now=True, url=by_zookeeper) is None
    replica = Replica()
    for change in sink.changes:
        assert (change["before"] is not None) == (change["op"] in {"update", "delete"})
        replica.apply(change)
    assert replica.values() == rows_of(sql, name)
    assert len(sink.batches) > 3


@pytest.mark.soak
def test_a_stream_goes_on_when_the_leader_is_killed(started, cluster, sql, new_name):
    name = new_name()
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, name TEXT)")
    sink = Sink()
    query = started(name, sink, maxEntriesPerTrigger=20)

    def write(numbers):
        for number in numbers:
            sql(f"INSERT INTO {name} VALUES (%s, %s)", (number, f"n{number}"))
            if number % 5 == 4:
                sql(f"DELETE FROM {name} WHERE id = %s", (number - 2,))

    def has(number, op="insert"):
        def has():
            nonlocal query
            try:
                query.awaitTermination(0.05)
            except StreamingQueryException as error:
                if SLOW not in str(error):
                    raise
                query = started(name, sink, maxEntriesPerTrigger=20)
            return any((change["op"], change["key"]) == (op, {"id": number}) for change in sink.changes)

        return has

    write(range(30))
    assert await_until(has(0), PATIENCE_S)
    leader = cluster.await_leader()
    cluster.kill(leader)
    try:
        write(range(30, 80))  # by whoever leads then
        assert await_until(has(79), PATIENCE_S)
    finally:
        cluster.start(leader)
    write(range(80, 90))
    assert await_until(has(87, "delete"), PATIENCE_S)  # the last change
    query.stop()
    replica = Replica()
    for change in sink.changes:
        replica.apply(change)
    assert replica.values() == rows_of(sql, name)

"""Streams of changes by Spark, from a real cluster: exactly what was committed, once, in order."""

from __future__ import annotations

import threading

import pytest
from pyspark.errors import StreamingQueryException

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


_SLOW = "Python worker failed to connect back"  # Spark gives a process 10 s to begin, on a busy machine too


@pytest.fixture
def stream(spark, cluster, tmp_path):
    """Run a stream of a table into a sink; all are stopped afterwards. Gives how it ended, None: well."""
    started = []

    def run(table, sink, *, checkpoint="c", available_now=False, url=None, **options):
        given = {"url": url or cluster.url, "table": table, "startingOffsets": "earliest", **options}
        while True:
            reader = spark.readStream.format("herdpy").options(**given)
            writer = reader.load().writeStream.foreachBatch(sink)
            writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
            query = (writer.trigger(availableNow=True) if available_now else writer).start()
            started.append(query)
            try:
                query.awaitTermination()
            except StreamingQueryException as error:
                if _SLOW not in str(error):
                    return str(error)
            else:
                return None

    yield run
    for query in started:
        query.stop()


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

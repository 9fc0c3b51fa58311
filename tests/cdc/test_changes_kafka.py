"""Changes in a topic of a real broker: each once for readers of what is committed, whatever is killed."""

from __future__ import annotations

import json
import signal
import threading

import confluent_kafka
import pytest

from herdpy.testing.process import await_until

pytestmark = pytest.mark.timeout(400)


def read(kafka, topic):
    """All committed messages of a topic's one partition: key, value, headers."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.hostport,
            "group.id": "tests",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found = []
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(60.0)
            assert message is not None
            if message.error() is None:
                found.append((message.key(), message.value(), message.headers()))
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                return found
            else:
                assert message.error().retriable(), message.error()
    finally:
        consumer.close()


def committed(kafka, topic):
    """Where readers of what is committed have come to; 0 where the topic is not there yet."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka.hostport, "group.id": "tests", "isolation.level": "read_committed"}
    )
    try:
        return consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), 60.0)[1]
    except confluent_kafka.KafkaException:
        return 0
    finally:
        consumer.close()


def folded(found):
    """The table that a topic compacted by key has: the newest value of each key, and no tombstones."""
    newest = {key: value for key, value, _ in found}
    return sorted(
        tuple(json.loads(value)["after"].values()) for key, value in newest.items() if key and value
    )


def test_messages_and_tombstones_stand_under_their_keys(sql, changes, kafka):
    sql("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    sql("UPDATE t SET id = 3 WHERE id = 1")
    target = f"kafka://{kafka.hostport}/stands"
    changes.run("--table", "t", "--to", target, "--format", "debezium")
    found = read(kafka, "stands")
    keys = [json.loads(key)["id"] for key, _, _ in found]
    assert keys == [1, 2, 1, 1, 3]
    assert found[3][1] is None
    assert found[2][2] == [("__debezium.newkey", b'{"id":3}')]
    assert folded(found) == [(2, "b"), (3, "a")]
    sql("DELETE FROM t WHERE id = 2")
    changes.run("--table", "t", "--to", target, "--format", "debezium")
    assert folded(read(kafka, "stands")) == [(3, "a")]
    assert len(read(kafka, "stands")) == 7


def test_a_topic_of_another_table_is_refused(sql, changes, kafka):
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    target = f"kafka://{kafka.hostport}/mine"
    changes.run("--table", "t", "--to", target)
    assert "has changes of {'table': 't'" in changes.run("--table", "u", "--to", target, code=1)


def test_a_topic_is_named_as_debezium_names_it(sql, changes, kafka):
    sql(
        "CREATE SCHEMA app",
        "CREATE TABLE app.orders (id INT PRIMARY KEY)",
        "INSERT INTO app.orders VALUES (1)",
    )
    changes.run("--table", "app.orders", "--to", f"kafka://{kafka.hostport}", "--name", "shop")
    assert [key for key, _, _ in read(kafka, "shop.app.orders")] == [None, b'{"id":1}']


@pytest.mark.soak
def test_each_change_is_there_once_when_runs_and_the_broker_are_killed(sql, changes, kafka):
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    target, over = f"kafka://{kafka.hostport}/killed", threading.Event()
    arguments = ("--table", "t", "--to", target, "--format", "debezium")

    def write():
        number = 0
        while not over.is_set():
            number += 1
            sql(f"INSERT INTO t VALUES ({number}, 0)")
            if number % 3 == 0:
                sql(f"UPDATE t SET v = v + 1 WHERE id % 7 = {number % 7}")
            if number % 10 == 0:
                sql(
                    f"UPDATE t SET id = -id WHERE id = {number - 4}", f"DELETE FROM t WHERE id = {number - 5}"
                )
            over.wait(0.02)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            before = committed(kafka, "killed")
            with changes.start(*arguments, "--follow") as run:
                assert await_until(lambda before=before: committed(kafka, "killed") > before, 120.0)
                if number == 1:
                    kafka.kill()
                    kafka.start()
                run.send_signal(signal.SIGKILL)
    finally:
        over.set()
        writer.join()
    changes.run(*arguments)
    found = read(kafka, "killed")
    events = [json.loads(value)["source"]["sequence"] for _, value, _ in found if value is not None]
    assert len(events) == len(set(events))
    assert [json.loads(one) for one in events] == sorted(json.loads(one) for one in events)
    every = changes.lines("--table", "t", "--format", "debezium")
    assert len(found) == len(every)
    assert folded(found) == sorted(sql("SELECT id, v FROM t"))

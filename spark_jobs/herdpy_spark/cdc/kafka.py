"""A topic of Kafka as a sink: each batch is one transaction, which has the position, too. Above ``sinks``.

The position is a message of a second, compacted topic (``TOPIC.position``), as Kafka Connect keeps those of
its sources. A sink that is opened ends what an earlier one left open, and fences it: its transactional id
is the topic's. Then it reads the newest position. Readers with ``isolation.level=read_committed`` have each
change once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from herdpy_spark.cdc.messages import Message
from herdpy_spark.cdc.sinks import SinkError
from herdpy_spark.feed.driver import Offset

_TIMEOUT_S = 60.0
_TRANSACTION_TIMEOUT_MS = 900_000  # the most that brokers allow as they come
_log = logging.getLogger("herdpy.changes.kafka")
_CLIENT = {"socket.timeout.ms": 30_000, "logger": _log}
_COMPACTED = {"cleanup.policy": "compact", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}


class KafkaPlace:
    """A topic, from ``kafka://host:port,host:port/topic?option=value``; options are librdkafka's.

    Raises:
        ValueError: the URL names no broker.
    """

    def __init__(self, url: str, default_topic: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "kafka" or not parts.netloc:
            raise ValueError(f"a topic is kafka://host:port/topic, not {url!r}")
        self.topic = unquote(parts.path.strip("/")) or default_topic
        self.options: dict[str, Any] = {
            **_CLIENT,
            **dict(parse_qsl(parts.query)),
            "bootstrap.servers": parts.netloc,
        }


class ChangesTopic:
    """``ChangesSink``: one topic; it is made, with one partition, where it is not there.

    Args:
        identity: what the messages are of; a topic whose position is another's is refused.

    Raises:
        SinkError: no broker answers, it refuses, or the topic is another's.
    """

    is_atomic = True

    def __init__(self, place: KafkaPlace, identity: dict[str, str]) -> None:
        self._topic = place.topic
        self._kept = f"{place.topic}.position"
        self._options = place.options
        self._identity = identity
        self._failure: confluent_kafka.KafkaError | None = None
        self._make_topics()
        self._producer = confluent_kafka.Producer(
            {
                "transactional.id": f"herdpy-changes-{place.topic}",
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                "linger.ms": 5,
                **place.options,
            }
        )
        self._checked(self._producer.init_transactions, _TIMEOUT_S)
        self._position = self._read_position()

    def position(self) -> Offset | None:
        """Where the topic ends."""
        return self._position

    def write(self, messages: Iterable[Message], end: Offset) -> int:
        """One transaction: the messages and the position."""
        producer = self._producer
        self._checked(producer.begin_transaction)
        count = 0
        try:
            for count, message in enumerate(messages, 1):  # noqa: B007  # the last one counts
                self._produce(self._topic, message)
            kept = json.dumps({"of": self._identity, "offset": end.to_json()}).encode()
            self._produce(self._kept, Message(b"position", kept))
            self._checked(producer.commit_transaction, _TIMEOUT_S)
        except BaseException:
            try:
                producer.abort_transaction(_TIMEOUT_S)
            except confluent_kafka.KafkaException:
                pass  # the next sink's first call ends it
            raise
        if self._failure is not None:
            raise SinkError(f"Kafka refuses a message: {self._failure.str()}")
        self._position = end
        return count

    def close(self) -> None:
        """Nothing is open between batches."""

    def _produce(self, topic: str, message: Message) -> None:
        while True:
            try:
                self._producer.produce(
                    topic,
                    key=message.key,
                    value=message.value,
                    headers=list(message.headers) or None,
                    on_delivery=self._delivered,
                )
            except BufferError:  # librdkafka's queue is full: wait for what is sent
                self._producer.poll(1.0)
                continue
            except confluent_kafka.KafkaException as error:
                raise SinkError(f"Kafka refuses a message: {error}") from error
            self._producer.poll(0)
            return

    def _delivered(self, error: confluent_kafka.KafkaError | None, _: Any) -> None:
        if error is not None:
            self._failure = error

    def _checked(self, call: Callable[..., Any], *arguments: Any) -> None:
        while True:
            try:
                call(*arguments)
            except confluent_kafka.KafkaException as error:
                if error.args[0].retriable():
                    continue
                raise SinkError(f"Kafka: {error.args[0].str()}") from error
            return

    def _make_topics(self) -> None:
        admin = AdminClient(self._options)
        try:
            there = admin.list_topics(timeout=_TIMEOUT_S).topics
            asked = [
                NewTopic(self._topic, 1),
                NewTopic(self._kept, 1, config=_COMPACTED),
            ]
            made = [one for one in asked if one.topic not in there]
            for future in (admin.create_topics(made) if made else {}).values():
                future.result(_TIMEOUT_S)
        except confluent_kafka.KafkaException as error:
            raise SinkError(
                f"Kafka at {self._options['bootstrap.servers']}: {error.args[0].str()}"
            ) from error

    def _read_position(self) -> Offset | None:
        """The newest position that was committed."""
        consumer = confluent_kafka.Consumer(
            {
                "group.id": f"herdpy-changes-{self._topic}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                **self._options,
            }
        )
        newest = None
        try:
            consumer.assign([confluent_kafka.TopicPartition(self._kept, 0, confluent_kafka.OFFSET_BEGINNING)])
            while True:
                message = consumer.poll(_TIMEOUT_S)
                if message is None:
                    raise SinkError(f"Kafka does not give the positions of {self._kept}")
                error = message.error()
                if error is None:
                    newest = message.value()
                elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    break
                elif not error.retriable():
                    raise SinkError(f"{self._kept}: {error.str()}")
        finally:
            consumer.close()
        if newest is None:
            return None
        kept = json.loads(newest)
        if kept["of"] != self._identity:
            raise SinkError(
                f"the topic {self._topic} has changes of {kept['of']}, not of {self._identity}: name another"
            )
        return Offset.from_json(kept["offset"])

"""What a message is, what a format is, and JSON as both JSON formats write it. Above ``values``; no I/O."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import msgspec
import pyarrow as pa

from herdpy_spark.feed.table import Dress
from herdpy_sql.catalog import Table


class MessagesError(Exception):
    """Messages cannot be made or delivered; the message says why and what to do."""


class Message(NamedTuple):
    """A message, as a topic has it.

    Attributes:
        key: None: it is about the whole table.
        value: None: a tombstone, which ends the key in a compacted topic.
        headers: names and values.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class ChangeFormat(Protocol):
    """Makes messages of changes.

    Attributes:
        dress: how values stand in the batches that it takes.
    """

    dress: Dress

    def messages(self, changes: pa.RecordBatch, table: Table | None) -> Iterator[Message]:
        """The messages of a batch of the feed, whose rows all have this definition, in order."""

    def line(self, message: Message) -> bytes:
        """The message as a line of a file, without its end."""


_encoder = msgspec.json.Encoder()


def json_bytes(value: Any) -> bytes:
    """A value as JSON in one line: bytes are base64, and what JSON's numbers lack is "NaN", "Infinity"."""
    return _encoder.encode(_finite(value))


def _finite(value: Any) -> Any:
    kind = type(value)
    if kind is float:
        return value if math.isfinite(value) else json.dumps(value)
    if kind is dict:
        return {name: _finite(one) for name, one in value.items()}
    if kind is list:
        return [_finite(one) for one in value]
    return value


def json_line(message: Message) -> bytes:
    """Key, value and headers, which are JSON, as one object."""
    parts = [
        b'"key":%b' % (message.key or b"null"),
        b'"value":%b' % (message.value or b"null"),
    ]
    if message.headers:
        headers = b",".join(b"%b:%b" % (json_bytes(name), value) for name, value in message.headers)
        parts.append(b'"headers":{%b}' % headers)
    return b"{%b}" % b",".join(parts)


def base64_line(message: Message) -> bytes:
    """Key, value and headers, which are bytes, in base64."""
    return json_line(
        Message(
            _base64(message.key),
            _base64(message.value),
            tuple((name, b'"%b"' % b64encode(value)) for name, value in message.headers),
        )
    )


def _base64(value: bytes | None) -> bytes | None:
    return None if value is None else b'"%b"' % b64encode(value)

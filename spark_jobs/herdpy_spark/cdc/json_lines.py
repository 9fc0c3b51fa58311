"""The feed's own format: each change as one JSON object with the feed's columns. Above ``messages``."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from herdpy_spark.cdc import values
from herdpy_spark.cdc.messages import Message, json_bytes
from herdpy_spark.feed.table import KEY, TIME
from herdpy_sql.catalog import Table


class JsonLines:
    """``ChangeFormat``: the value has all; the key is the change's key."""

    dress = values.TEXT

    def messages(self, changes: pa.RecordBatch, table: Table | None) -> Iterator[Message]:
        """One message a change."""
        at = changes.schema.get_field_index(TIME)
        times = values.timestamptz_texts(changes.column(at))
        for change in changes.set_column(at, TIME, times).to_pylist():
            key = change[KEY]
            yield Message(None if key is None else json_bytes(key), json_bytes(change))

    def line(self, message: Message) -> bytes:
        """The value, which has the key."""
        assert message.value is not None
        return message.value

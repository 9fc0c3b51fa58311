"""Debezium's envelope: before, after, source, op, ts_ms, transaction. Above ``messages``.

The structure is the one of Debezium's connectors for JSON without embedded schemas
(``schemas.enable=false``), https://debezium.io/documentation/reference/stable/connectors/postgresql.html:
c, u, d, t, and r for rows of a state; a tombstone follows each delete; a row that moves to another key is a
delete with the header ``__debezium.newkey`` and a create with ``__debezium.oldkey``. NUMERIC is text
(``decimal.handling.mode=string``). Where a table is dropped all its rows go: t. CREATE and ALTER have no
message: what follows has other fields.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from herdpy import __version__
from herdpy_spark.cdc import values
from herdpy_spark.cdc.messages import Message, json_bytes, json_line
from herdpy_spark.feed.table import (
    AFTER,
    BEFORE,
    KEY,
    LSN_,
    OP,
    OTHER_KEY,
    POSITION,
    SEQUENCE,
    TIME,
    TRANSACTION,
)
from herdpy_sql.catalog import Table

OPS = {"insert": "c", "update": "u", "delete": "d", "truncate": "t", "drop": "t"}
NEW_KEY, OLD_KEY = "__debezium.newkey", "__debezium.oldkey"


class Envelope:
    """Changes as Debezium's events, before they are JSON or Avro.

    Args:
        name: of the source: what topics of its tables begin with.
        tablespace: of the log.
    """

    def __init__(self, name: str, tablespace: str) -> None:
        self._name = name
        self._tablespace = tablespace

    def events(
        self, changes: pa.RecordBatch, table: Table | None
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Each change that has an event: the change, and its envelope."""
        at = changes.schema.get_field_index(TIME)
        now_ms = time.time_ns() // 1_000_000
        times = changes.column(at).cast(pa.int64())
        for change in changes.set_column(at, TIME, times).to_pylist():
            op = OPS.get(change[OP])
            if op is not None:
                yield change, self._event(change, op, table, now_ms)

    def _event(self, change: dict[str, Any], op: str, table: Table | None, now_ms: int) -> dict[str, Any]:
        before, time_us = change[BEFORE], change[TIME]
        if op == "d" and before is None and table is not None:
            before = {table.columns[at].name: None for at in table.visible} | _visible(change[KEY], table)
        is_state = time_us is None and op == "c"
        order = change[POSITION] + 1
        return {
            "before": before,
            "after": change[AFTER],
            "source": {
                "version": __version__,
                "connector": "herdpy",
                "name": self._name,
                "ts_ms": None if time_us is None else time_us // 1000,
                "snapshot": "true" if is_state else "false",
                "db": self._tablespace,
                "sequence": json.dumps(list(change[SEQUENCE].values())),
                "schema": "" if table is None else table.schema,
                "table": "" if table is None else table.name,
                "txId": change[TRANSACTION],
                "lsn": change[LSN_],
            },
            "transaction": {
                "id": change[TRANSACTION],
                "total_order": order,
                "data_collection_order": order,
            },
            "op": "r" if is_state else op,
            "ts_ms": now_ms,
        }


def _visible(key: dict[str, Any], table: Table) -> dict[str, Any]:
    """The columns of a key that a row shows."""
    names = {table.columns[at].name for at in table.visible}
    return {name: value for name, value in key.items() if name in names}


def moved_header(change: dict[str, Any]) -> str:
    """The name of the header that has a moved row's other key."""
    return NEW_KEY if change[OP] == "delete" else OLD_KEY


class DebeziumJson:
    """``ChangeFormat``: envelopes as JSON; see ``Envelope`` for the arguments."""

    dress = values.DEBEZIUM

    def __init__(self, name: str, tablespace: str) -> None:
        self._envelope = Envelope(name, tablespace)

    def messages(self, changes: pa.RecordBatch, table: Table | None) -> Iterator[Message]:
        """One message a change of a row, and a tombstone after a delete."""
        for change, event in self._envelope.events(changes, table):
            key = None if change[KEY] is None else json_bytes(change[KEY])
            other = change[OTHER_KEY]
            headers = () if other is None else ((moved_header(change), json_bytes(other)),)
            yield Message(key, json_bytes(event), headers)
            if event["op"] == "d":
                yield Message(key, None)

    def line(self, message: Message) -> bytes:
        """Key and value."""
        return json_line(message)

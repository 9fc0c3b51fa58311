"""Debezium's envelope in Avro, in a schema registry's wire format. Above ``debezium`` and ``registry``.

Keys and values are a zero byte, the schema's id (four bytes, big-endian) and the Avro binary without a
header
(https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format).
Subjects are the topic's name with ``-key`` and ``-value``. A name that Avro does not take has underscores
where it has other characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from struct import Struct
from typing import Any

import fastavro
import pyarrow as pa

from herdpy_spark.cdc import values
from herdpy_spark.cdc.debezium import Envelope, moved_header
from herdpy_spark.cdc.messages import Message, MessagesError, base64_line
from herdpy_spark.cdc.registry import SchemaRegistry
from herdpy_spark.feed.table import KEY, OTHER_KEY
from herdpy_sql.catalog import Column, Table
from herdpy_sql.types import Base

_HEAD = Struct(">bI").pack


def _record(name: str, namespace: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": namespace, "fields": fields}


_SOURCE = _record(
    "Source",
    "herdpy.connector",
    [
        {"name": "version", "type": "string"},
        {"name": "connector", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
        {"name": "snapshot", "type": "string", "default": "false"},
        {"name": "db", "type": "string"},
        {"name": "sequence", "type": "string"},
        {"name": "schema", "type": "string"},
        {"name": "table", "type": "string"},
        {"name": "txId", "type": "string"},
        {"name": "lsn", "type": "string"},
    ],
)
_TRANSACTION = _record(
    "block",
    "event",
    [
        {"name": "id", "type": "string"},
        {"name": "total_order", "type": "long"},
        {"name": "data_collection_order", "type": "long"},
    ],
)


class AvroNameError(MessagesError):
    """Two columns have the same name in Avro."""


class _Schemas:
    """What rows and keys of one definition are in Avro."""

    def __init__(self, prefix: str, table: Table) -> None:
        namespace = ".".join(map(avro_name, (*prefix.split("."), table.schema, table.name)))
        row = [table.columns[at] for at in table.visible]
        key = [table.columns[at] for at in table.key_positions]
        self.names = {column.name: avro_name(column.name) for column in (*row, *key)}
        if len(set(self.names.values())) < len(self.names):
            raise AvroNameError(
                f"columns of {table.name} have the same names in Avro: {', '.join(self.names)}"
            )
        self.key = _record("Key", namespace, self._fields(key))
        before = _record("Value", namespace, self._fields(row))
        self.value = _record(
            "Envelope",
            namespace,
            [
                {"name": "before", "type": ["null", before], "default": None},
                {"name": "after", "type": ["null", "Value"], "default": None},
                {"name": "source", "type": _SOURCE},
                {"name": "transaction", "type": ["null", _TRANSACTION], "default": None},
                {"name": "op", "type": "string"},
                {"name": "ts_ms", "type": ["null", "long"], "default": None},
            ],
        )
        self.key_parsed = fastavro.parse_schema(self.key)
        self.value_parsed = fastavro.parse_schema(self.value)

    def _fields(self, columns: list[Column]) -> list[dict[str, Any]]:
        return [
            {"name": self.names[column.name], "type": ["null", _avro_type(column)], "default": None}
            for column in columns
        ]

    def renamed(self, row: dict[str, Any] | None) -> dict[str, Any] | None:
        """A row under the names that its columns have in Avro."""
        return None if row is None else {self.names[name]: value for name, value in row.items()}


def avro_name(name: str) -> str:
    """The name as Avro takes it."""
    made = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"_{made}" if not made or made[0].isdigit() else made


_PLAIN: tuple[tuple[Any, Any], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int16, "int"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "long"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_string, "string"),
)
_MEANT = {
    Base.DATE: "io.debezium.time.Date",
    Base.TIME: "io.debezium.time.MicroTime",
    Base.TIMESTAMP: "io.debezium.time.MicroTimestamp",
    Base.TIMESTAMPTZ: "io.debezium.time.ZonedTimestamp",
    Base.UUID: "io.debezium.data.Uuid",
    Base.JSON: "io.debezium.data.Json",
    Base.JSONB: "io.debezium.data.Json",
}
"""Debezium's names of what numbers and texts mean. Avro's logical types have no infinity and no 24:00."""


def _avro_type(column: Column) -> Any:
    kind = values.AVRO.type_of(column)
    depth = 0
    while pa.types.is_list(kind):
        kind = kind.value_type
        depth += 1
    made = _leaf(kind, column)
    for _ in range(depth):
        made = {"type": "array", "items": ["null", made]}
    return made


def _leaf(kind: pa.DataType, column: Column) -> Any:
    if pa.types.is_decimal(kind):
        precision, scale = kind.precision, kind.scale
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    plain = next(name for is_kind, name in _PLAIN if is_kind(kind))
    base = column.type.base if column.type.element is None else column.type.element
    meant = _MEANT.get(base)
    return {"type": plain, "connect.name": meant} if meant else plain


class DebeziumAvro:
    """``ChangeFormat``: envelopes in Avro.

    Args:
        name, tablespace: as ``Envelope`` has them.
        topic: by which subjects are named.
    """

    dress = values.AVRO

    def __init__(self, name: str, tablespace: str, topic: str, registry: SchemaRegistry) -> None:
        self._envelope = Envelope(name, tablespace)
        self._name = name
        self._topic = topic
        self._registry = registry
        self._made: tuple[Table, _Schemas] | None = None

    def messages(self, changes: pa.RecordBatch, table: Table | None) -> Iterator[Message]:
        """One message a change of a row, and a tombstone after a delete; RegistryError, AvroNameError."""
        if table is None:
            return
        schemas = self._schemas(table)
        for change, event in self._envelope.events(changes, table):
            event["before"], event["after"] = map(schemas.renamed, (event["before"], event["after"]))
            key = None if change[KEY] is None else self._key(schemas, change[KEY])
            value = self._encoded("value", schemas.value, schemas.value_parsed, event)
            other = change[OTHER_KEY]
            headers = () if other is None else ((moved_header(change), self._key(schemas, other)),)
            yield Message(key, value, headers)
            if event["op"] == "d":
                yield Message(key, None)

    def line(self, message: Message) -> bytes:
        """Key and value in base64."""
        return base64_line(message)

    def _schemas(self, table: Table) -> _Schemas:
        if self._made is None or self._made[0] is not table:
            self._made = (table, _Schemas(self._name, table))
        return self._made[1]

    def _key(self, schemas: _Schemas, key: dict[str, Any]) -> bytes:
        return self._encoded("key", schemas.key, schemas.key_parsed, schemas.renamed(key))

    def _encoded(self, part: str, schema: dict[str, Any], parsed: Any, value: Any) -> bytes:
        number = self._registry.schema_id(f"{self._topic}-{part}", schema)
        out = BytesIO()
        out.write(_HEAD(0, number))
        fastavro.schemaless_writer(out, parsed, value)
        return out.getvalue()

"""Definitions of tables and indexes as bytes, for the log and the store: JSON. Above ``catalog``.

What is as it is by default is left out, so that definitions of older versions, which do not know it, are read
as they were meant. docs/log-format.md has every key.

A column's type is ``[base, length, precision, scale]``, and after these, only where there is such a thing,
the base of what an array is of, what an enum is: ``[id, schema, name, [[label, place], ...]]``, and how many
dimensions an array has, where they are several.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from herdpy.codec.kinds import Datum
from herdpy.codec.rows import RowCodec
from herdpy_sql.catalog import PUBLIC, Check, Column, Index, KeyPart, Table
from herdpy_sql.foreign_keys import decode_foreign_key, encode_foreign_key
from herdpy_sql.partition_bounds import decode_bound, decode_key, encode_bound, encode_key
from herdpy_sql.types import Base, EnumType, SqlType


def encode_type(one: SqlType) -> list[object]:
    """The type as a value of JSON."""
    raw: list[object] = [one.base.value, one.length, one.precision, one.scale]
    if one.element is not None or one.enum is not None:
        raw.append(None if one.element is None else one.element.value)
    if one.enum is None and one.dimensions > 1:
        raw.append(None)
    if one.enum is not None:
        raw.append([one.enum.id, one.enum.schema, one.enum.name, [list(label) for label in one.enum.labels]])
    if one.dimensions > 1:
        raw.append(one.dimensions)
    return raw


def decode_type(raw: object) -> SqlType:
    """The inverse of :func:`encode_type`."""
    base, length, precision, scale, *more = cast("list[Any]", raw)
    element = Base(more[0]) if more and more[0] is not None else None
    enum = None
    if len(more) > 1 and more[1] is not None:
        id_, schema, name, labels = more[1]
        enum = EnumType(id_, schema, name, tuple((str(label), float(place)) for label, place in labels))
    dimensions = int(more[2]) if len(more) > 2 else 1
    return SqlType(Base(base), length, precision, scale, element, enum, dimensions=dimensions)


def encode_table(table: Table) -> bytes:
    """The definition of a table as bytes, for the log and the store."""
    raw = {
        "id": table.id,
        "name": table.name,
        "columns": [_encode_column(column) for column in table.columns],
        "key": [_encode_part(part) for part in table.key],
        "key_name": table.key_name,
        "checks": [_check_dict(check) for check in table.checks],
        "indexes": [_index_dict(index) for index in table.indexes],
    }
    if table.identity_full:
        raw["identity_full"] = True
    if table.schema != PUBLIC:
        raw["schema"] = table.schema
    if table.on_commit:
        raw["on_commit"] = table.on_commit
    if table.foreign_keys:
        raw["foreign_keys"] = [encode_foreign_key(one) for one in table.foreign_keys]
    if table.partition_key is not None:
        raw["partition_key"] = encode_key(table.partition_key)
    if table.bound is not None:
        raw["bound"] = encode_bound(table.bound, table.fields)
    return msgspec.json.encode(raw)


def encode_index(index: Index) -> bytes:
    """The definition of an index as bytes, for the log."""
    return msgspec.json.encode(_index_dict(index))


def decode_table(data: bytes) -> Table:
    """The inverse of :func:`encode_table`."""
    raw = msgspec.json.decode(data)
    columns = tuple(_decode_column(column) for column in raw["columns"])
    return Table(
        id=raw["id"],
        name=raw["name"],
        columns=columns,
        key=tuple(KeyPart(**part) for part in raw["key"]),
        key_name=raw["key_name"],
        checks=tuple(Check(**check) for check in raw["checks"]),
        indexes=tuple(_decode_index(index) for index in raw["indexes"]),
        identity_full=raw.get("identity_full", False),
        schema=raw.get("schema", PUBLIC),
        on_commit=raw.get("on_commit", ""),
        foreign_keys=tuple(map(decode_foreign_key, raw.get("foreign_keys", ()))),
        partition_key=decode_key(raw["partition_key"]) if "partition_key" in raw else None,
        bound=decode_bound(raw["bound"], [column.type.field for column in columns])
        if "bound" in raw
        else None,
    )


def decode_index(data: bytes) -> Index:
    """The inverse of :func:`encode_index`."""
    return _decode_index(msgspec.json.decode(data))


def _check_dict(check: Check) -> dict[str, object]:
    raw: dict[str, object] = {"name": check.name, "condition": check.condition}
    return raw if check.validated else {**raw, "validated": False}


def _index_dict(index: Index) -> dict[str, object]:
    raw: dict[str, object] = {
        "id": index.id,
        "name": index.name,
        "table_id": index.table_id,
        "parts": [_encode_part(part) for part in index.parts],
        "unique": index.unique,
        "constraint": index.constraint,
    }
    if index.predicate is not None:
        raw["predicate"] = index.predicate
    if index.parent:
        raw["parent"] = index.parent
    for name in ("deferrable", "deferred", "primary"):
        if getattr(index, name):
            raw[name] = True
    return raw


def _decode_index(raw: dict[str, object]) -> Index:
    parts = tuple(KeyPart(**part) for part in raw.pop("parts"))  # type: ignore[attr-defined]
    return Index(parts=parts, **raw)  # type: ignore[arg-type]


def _encode_part(part: KeyPart) -> dict[str, object]:
    return {"position": part.position, "descending": part.descending, "nulls_first": part.nulls_first}


def _encode_column(column: Column) -> dict[str, object]:
    kind = column.type.kind
    missing = None
    if column.missing is not None:
        missing = RowCodec([column.type.field]).encode([column.missing]).hex()
    raw: dict[str, object] = {
        "name": column.name,
        "type": encode_type(column.type),
        "kind": kind.name,
        "not_null": column.not_null,
        "default": column.default,
        "missing": missing,
        "hidden": column.hidden,
        "dropped": column.dropped,
    }
    if column.generated is not None:
        raw["generated"] = column.generated
    if column.identity:
        raw["identity"] = column.identity
    return raw


def _decode_column(raw: dict[str, object]) -> Column:
    sql_type = decode_type(raw["type"])
    missing: Datum = None
    if raw["missing"] is not None:
        missing = RowCodec([sql_type.field]).decode(bytes.fromhex(str(raw["missing"])))[0]
    return Column(
        name=str(raw["name"]),
        type=sql_type,
        not_null=bool(raw["not_null"]),
        default=raw["default"],  # type: ignore[arg-type]
        missing=missing,
        hidden=bool(raw["hidden"]),
        dropped=bool(raw["dropped"]),
        generated=raw.get("generated"),  # type: ignore[arg-type]
        identity=str(raw.get("identity", "")),
    )

"""Store layer, bottom: the catalog as bytes, as ``meta`` has it."""

from __future__ import annotations

import msgspec

from herdpy_sql.catalog import Catalog
from herdpy_sql.definitions import decode_table, encode_table
from herdpy_sql.enum_types import relabelled
from herdpy_sql.objects import decode_object, encode_object


def encode_catalog(catalog: Catalog) -> bytes:
    """Definitions are kept as the log has them."""
    tables = [msgspec.Raw(encode_table(table)) for table in catalog.tables.values()]
    roles = None if catalog.roles is None else {n: msgspec.Raw(one) for n, one in catalog.roles.items()}
    objects = [msgspec.Raw(encode_object(one)) for one in catalog.objects.values()]
    return msgspec.json.encode(_CatalogImage(catalog.version, catalog.next_id, tables, roles, objects))


class _CatalogImage(msgspec.Struct, omit_defaults=True):
    version: int
    next_id: int
    tables: list[msgspec.Raw]
    roles: dict[str, msgspec.Raw] | None = None
    objects: list[msgspec.Raw] = []


def decode_catalog(data: bytes) -> Catalog:
    """What ``encode_catalog`` was given. ValueError when it was not."""
    image = msgspec.json.decode(data, type=_CatalogImage)
    tables = [decode_table(bytes(one)) for one in image.tables]
    roles = None if image.roles is None else {name: bytes(one) for name, one in image.roles.items()}
    objects = {one.id: one for one in (decode_object(bytes(raw)) for raw in image.objects)}
    return Catalog(
        image.version,
        image.next_id,
        {table.id: relabelled(table, objects) for table in tables},
        roles,
        objects,
    )

"""Small relations that functions of the catalog read: names by id, ids by name, definitions.

Their columns begin with ``l_``, so that they hide no column of the query in which they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from herdpy_sql.system import contents_herdpy as _herdpy  # noqa: F401 - registers its rows
from herdpy_sql.system import contents_information as _information  # noqa: F401
from herdpy_sql.system import contents_server as _server  # noqa: F401
from herdpy_sql.system import contents_tables
from herdpy_sql.system.contents import SCHEMAS, Context
from herdpy_sql.system.definitions import RESERVED, quote_ident, relation_oids
from herdpy_sql.system.relation import CATALOG, relations
from herdpy_sql.system.state import setting_values

_ID: Any = pa.int64()
_TEXT: Any = pa.string()
_NUMBER: Any = pa.int32()
_FLAG: Any = pa.bool_()


def _classes(context: Context) -> Iterable[tuple[Any, ...]]:
    user = relation_oids(context.catalog)
    for name, oid in user.items():
        yield oid, quote_ident(name), True
    for relation in relations().values():
        visible = relation.schema == CATALOG and relation.name not in user
        name = quote_ident(relation.name)
        yield relation.oid, name if visible else f"{relation.schema}.{name}", visible


def _names(context: Context) -> Iterable[tuple[Any, ...]]:
    user = relation_oids(context.catalog)
    for name, oid in user.items():
        for text in {name, quote_ident(name)}:
            yield text, oid
            yield f"public.{text}", oid
    for relation in relations().values():
        yield f"{relation.schema}.{relation.name}", relation.oid
        if relation.schema == CATALOG and relation.name not in user:
            yield relation.name, relation.oid


def _namespaces(context: Context) -> Iterable[tuple[Any, ...]]:
    del context
    return ((oid, name) for name, oid in SCHEMAS.items())


_LOOKUPS: dict[str, tuple[pa.Schema, Callable[[Context], Iterable[tuple[Any, ...]]]]] = {
    "class": (pa.schema([("l_oid", _ID), ("l_name", _TEXT), ("l_visible", _FLAG)]), _classes),
    "name": (pa.schema([("l_name", _TEXT), ("l_oid", _ID)]), _names),
    "namespace": (pa.schema([("l_oid", _ID), ("l_name", _TEXT)]), _namespaces),
    "role": (
        pa.schema([("l_oid", _ID), ("l_name", _TEXT)]),
        lambda context: ((oid, name) for name, oid in context.role_oids().items()),
    ),
    "setting": (
        pa.schema([("l_name", _TEXT), ("l_value", _TEXT)]),
        lambda context: setting_values(context.state).items(),
    ),
    "index": (
        pa.schema([("l_oid", _ID), ("l_number", _NUMBER), ("l_text", _TEXT), ("l_pretty", _TEXT)]),
        lambda context: contents_tables.index_definitions(context.catalog),
    ),
    "keyword": (
        pa.schema([("l_word", _TEXT), ("l_code", _TEXT), ("l_text", _TEXT)]),
        lambda context: ((word, "R", "reserved") for word in sorted(RESERVED)),
    ),
    "constraint": (
        pa.schema([("l_oid", _ID), ("l_text", _TEXT), ("l_pretty", _TEXT)]),
        lambda context: contents_tables.constraint_definitions(context.catalog),
    ),
}


def empty(name: str) -> pa.Table:
    """The relation without rows."""
    return _LOOKUPS[name][0].empty_table()


def table(name: str, context: Context) -> pa.Table:
    """The relation, now."""
    schema, rows = _LOOKUPS[name]
    listed = list(rows(context))
    columns = zip(*listed, strict=True) if listed else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)

"""Small relations that functions of the catalog read: names by id, ids by name, definitions.

Their columns begin with ``l_``, so that they hide no column of the query in which they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy_sql.plan.views import view_text
from herdpy_sql.quoting import RESERVED, quote_ident
from herdpy_sql.system import classes, contents, types
from herdpy_sql.system import herdpy_schema as _herdpy  # noqa: F401 - registers its rows
from herdpy_sql.system import information_schema as _information  # noqa: F401
from herdpy_sql.system import server as _server  # noqa: F401
from herdpy_sql.system.classes import comments, sequence_values
from herdpy_sql.system.contents import SCHEMAS, Context, named_relations, sequences, user_schemas, views
from herdpy_sql.system.state import setting_values
from herdpy_sql.system_relations import CATALOG, relations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_ID: Any = pa.int64()
_TEXT: Any = pa.string()
_NUMBER: Any = pa.int32()
_FLAG: Any = pa.bool_()


def _classes(context: Context) -> Iterable[tuple[Any, ...]]:
    catalog = context.catalog
    seen = set()
    for schema, name, oid in named_relations(catalog):
        found = catalog.find(None, name)
        visible = schema in catalog.path and (found is None or getattr(found, "schema", schema) == schema)
        shown = quote_ident(name)
        seen.add(name)
        yield oid, shown if visible else f"{quote_ident(schema)}.{shown}", visible
    for relation in relations().values():
        visible = relation.schema == CATALOG and relation.name not in seen
        name = quote_ident(relation.name)
        yield relation.oid, name if visible else f"{relation.schema}.{name}", visible


def _namespaces(context: Context) -> Iterable[tuple[Any, ...]]:
    return ((oid, name) for name, oid in {**SCHEMAS, **user_schemas(context.catalog)}.items())


def _view_texts(context: Context) -> Iterable[tuple[Any, ...]]:
    for one, _definition in views(context.catalog):
        yield one.oid, view_text(one, context.catalog) + ";"


def _serials(context: Context) -> Iterable[tuple[Any, ...]]:
    for one, what in sequences(context.catalog):
        if what.owner is not None and what.owner[0] in context.catalog.tables:
            table = context.catalog.tables[what.owner[0]]
            column = table.columns[what.owner[1]].name
            shown = f"{quote_ident(one.schema)}.{quote_ident(one.name)}"
            yield table.oid, column, shown


_LOOKUPS: dict[str, tuple[pa.Schema, Callable[[Context], Iterable[tuple[Any, ...]]]]] = {
    "class": (pa.schema([("l_oid", _ID), ("l_name", _TEXT), ("l_visible", _FLAG)]), _classes),
    "namespace": (pa.schema([("l_oid", _ID), ("l_name", _TEXT)]), _namespaces),
    "view": (pa.schema([("l_oid", _ID), ("l_text", _TEXT)]), _view_texts),
    "serial": (pa.schema([("l_oid", _ID), ("l_column", _TEXT), ("l_text", _TEXT)]), _serials),
    "sequence": (
        pa.schema([("l_oid", _ID), ("l_value", _ID), ("l_called", _FLAG)]),
        sequence_values,
    ),
    "comment": (
        pa.schema([("l_oid", _ID), ("l_class", _ID), ("l_number", _NUMBER), ("l_text", _TEXT)]),
        lambda context: comments(context.catalog),
    ),
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
        lambda context: classes.index_definitions(context.catalog),
    ),
    "type": (
        pa.schema([("l_oid", _ID), ("l_name", _TEXT), ("l_visible", _FLAG)]),
        types.shown_types,
    ),
    "keyword": (
        pa.schema([("l_word", _TEXT), ("l_code", _TEXT), ("l_text", _TEXT)]),
        lambda context: ((word, "R", "reserved") for word in sorted(RESERVED)),
    ),
    "constraint": (
        pa.schema([("l_oid", _ID), ("l_text", _TEXT), ("l_pretty", _TEXT)]),
        lambda context: classes.constraint_definitions(context.catalog),
    ),
}


OF_CATALOG = frozenset(
    (
        "class",
        "namespace",
        "view",
        "serial",
        "comment",
        "index",
        "type",
        "keyword",
        "constraint",
    )
)
"""Those that are made of the catalog alone, and never of the state."""


_KEYS = {"serial": 2, "index": 2}
"""How many of a lookup's first columns are its key, where it is not one."""


def rows(name: str, context: Context) -> Iterable[tuple[Any, ...]]:
    """The rows, now."""
    return _LOOKUPS[name][1](context)


def by_key(name: str, context: Context) -> Mapping[tuple[Any, ...], tuple[Any, ...]]:
    """What the rows have behind their keys, by key."""
    label = f"lookup {name}"
    if name in OF_CATALOG and label in context.catalog.derived:
        return context.catalog.derived[label]  # type: ignore[return-value]
    width = _KEYS.get(name, 1)
    found = {row[:width]: row[width:] for row in rows(name, context)}
    if name in OF_CATALOG:
        context.catalog.derived[label] = found
    return found


def empty(name: str) -> pa.Table:
    """The relation without rows."""
    return _LOOKUPS[name][0].empty_table()


def table(name: str, context: Context) -> pa.Table:
    """The relation, now."""
    if name not in OF_CATALOG:
        return _made(name, context)
    return contents.kept_table(context.catalog, f"lookup.{name}", lambda: _made(name, context))


def _made(name: str, context: Context) -> pa.Table:
    schema, rows = _LOOKUPS[name]
    listed = list(rows(context))
    columns = zip(*listed, strict=True) if listed else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)

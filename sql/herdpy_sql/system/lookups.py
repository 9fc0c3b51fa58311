"""Small relations that functions of the catalog read: names by id, ids by name, definitions.

Their columns begin with ``l_``, so that they hide no column of the query in which they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy_sql.plan.views import view_text
from herdpy_sql.quoting import quote_ident
from herdpy_sql.system import classes, partitions, programs, types
from herdpy_sql.system import herdpy_schema as _herdpy  # noqa: F401 - registers its rows
from herdpy_sql.system import information_schema as _information  # noqa: F401
from herdpy_sql.system import replication as _replication  # noqa: F401
from herdpy_sql.system import server as _server  # noqa: F401
from herdpy_sql.system.classes import comments, sequence_values
from herdpy_sql.system.contents import SCHEMAS, Context, named_relations, sequences, user_schemas, views
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


_LOOKUPS: dict[str, Callable[[Context], Iterable[tuple[Any, ...]]]] = {
    "class": _classes,
    "namespace": _namespaces,
    "view": _view_texts,
    "serial": _serials,
    "sequence": sequence_values,
    "comment": lambda context: comments(context.catalog),
    "role": lambda context: ((oid, name) for name, oid in context.role_oids().items()),
    "index": lambda context: classes.index_definitions(context.catalog),
    "type": types.shown_types,
    "partkey": lambda context: partitions.key_definitions(context.catalog),
    "parent": partitions.parents,
    "constraint": lambda context: classes.constraint_definitions(context.catalog),
    "function": programs.texts,
    "procedure": programs.names_of,
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
        "partkey",
        "parent",
        "constraint",
        "function",
        "procedure",
    )
)
"""Those that are made of the catalog alone, and never of the state."""


_KEYS = {"serial": 2, "index": 2}
"""How many of a lookup's first columns are its key, where it is not one."""


def rows(name: str, context: Context) -> Iterable[tuple[Any, ...]]:
    """The rows, now."""
    return _LOOKUPS[name](context)


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

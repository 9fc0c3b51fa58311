"""Store layer, inside: the locks that keep open transactions' definitions apart.

Below ``defining``, which takes them. All are keys of the database 0, which is no table's.

*A place.* What is temporary is in the schema of one session, so that schema's lock does for it, and nobody
waits for another session's. What is permanent is defined under the catalog's lock: in SHARE where the locks
below tell whose definitions exclude one another, in UPDATE where they do not (:func:`is_alone`).

*A name* is locked by who makes something of that name, or gives it to something.

*An object* is locked in SHARE by who makes something that needs it (the type of a column, the sequence of a
DEFAULT, the view that a view reads), in UPDATE by who changes or drops it.

*A table* is locked as a whole, against all, by who changes or drops it or makes an index of it, and in weaker
modes by who makes a view of it, looks at its statistics, or gives it a sequence. Who makes a foreign key
locks both its tables.

Who waits is planned anew afterwards, and so finds what others have made meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.store.locks import CATALOG_KEY
from herdpy_sql.catalog import Catalog, Table, is_temporary
from herdpy_sql.objects import (
    CommentDefinition,
    RightsDefinition,
    SequenceDefinition,
    StatisticsDefinition,
)
from herdpy_sql.sequences import sequences_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from herdpy_sql.objects import CatalogObject

NEEDED_KINDS = frozenset({"enum", "sequence", "view"})
"""Kinds of objects that tables and views need."""
_OF_NAMES = frozenset({"sequence", "view", "statistics"})
"""Kinds of objects that need no more locks than those of names, objects and tables."""


def place_key(schema: str) -> bytes:
    """What is locked to define something in a schema."""
    return b"schema %b" % schema.encode() if is_temporary(schema) else CATALOG_KEY


def object_key(number: int) -> bytes:
    """What is locked to need an object, or to change one that others may need."""
    return b"object %d" % number


def name_key(kind: str, schema: str, name: str) -> bytes:
    """What is locked to give something a name."""
    return f"name {kind} {schema}\0{name}".encode()


def names_of(table: Table) -> set[tuple[str, str]]:
    """The schema and name of a table, and of each of its indexes."""
    return {(table.schema, name) for name in (table.name, *(index.name for index in table.indexes))}


def is_alone(one: CatalogObject, fresh: Collection[int], catalog: Catalog) -> bool:
    """Whether an object is defined while nobody else has anything permanent open.

    So are changes of schemas and types, which are about everything in them or of them; and rights and
    comments, unless of what the transaction has made itself (ids in ``fresh``), which nobody else can know.
    """
    what = one.definition
    if isinstance(what, CommentDefinition | RightsDefinition):
        return what.id not in fresh
    return one.kind not in _OF_NAMES and one.id in catalog.objects and one.id not in fresh


def owner_of(one: CatalogObject) -> int | None:
    """The id of the table with which a sequence goes."""
    what = one.definition
    return what.owner[0] if isinstance(what, SequenceDefinition) and what.owner else None


def place_of(catalog: Catalog, one: CatalogObject) -> str:
    """The schema that an object is in; of what is said of a table or a sequence, the schema of that.

    Rights are permanent even then: they name roles.
    """
    what = one.definition
    if isinstance(what, StatisticsDefinition):
        return _schema_of(catalog, what.table_id)
    if isinstance(what, CommentDefinition) and what.id:
        return _schema_of(catalog, what.id)
    return one.schema


def _schema_of(catalog: Catalog, number: int) -> str:
    found = catalog.tables.get(number) or catalog.objects.get(number)
    if found is not None:
        return found.schema
    tables = catalog.tables.values()
    return next((one.schema for one in tables if any(index.id == number for index in one.indexes)), "")


def needed(table: Table) -> set[int]:
    """Ids of the types and sequences without which a table's definition has no meaning."""
    found = {number for column in table.columns for number in sequences_of(column.default)}
    return found | {one.type.enum.id for one in table.columns if one.type.enum is not None}


def differs(before: Catalog, now: Catalog, schema: str) -> bool:
    """Whether two catalogs differ in what the lock of a schema is about."""
    if not is_temporary(schema) and before.roles != now.roles:
        return True
    return _within(before, schema) != _within(now, schema)


def _within(catalog: Catalog, schema: str) -> dict[int, object]:
    key = place_key(schema)
    found: dict[int, object] = {
        number: one for number, one in catalog.tables.items() if place_key(one.schema) == key
    }
    objects = catalog.objects.items()
    return found | {number: one for number, one in objects if place_key(place_of(catalog, one)) == key}

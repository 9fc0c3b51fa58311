"""ENUMs in the catalog: the type that an object is, and the columns that are of it.

A table's definition has the labels as they were when it was written, so that whoever reads it alone (a change
feed, a published snapshot) can show them. In a catalog its columns have those of the type's own object.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.objects import CatalogObject, EnumDefinition
from herdpy_sql.quoting import quote_ident
from herdpy_sql.types import Base, EnumType, SqlType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from herdpy_sql.catalog.table import Table


def enum_type(
    one: CatalogObject, path: Sequence[str] = ("public",), others: Set[tuple[str, str]] = frozenset()
) -> SqlType:
    """The type that an enum's object defines, to be written as it is along ``path``.

    Args:
        others: (schema, name) of ENUMs, of which one may come before it on the path.
    """
    assert isinstance(one.definition, EnumDefinition)
    first = next((schema for schema in path if schema == one.schema or (schema, one.name) in others), None)
    shown = (
        quote_ident(one.name) if first == one.schema else f"{quote_ident(one.schema)}.{quote_ident(one.name)}"
    )
    return SqlType(Base.ENUM, enum=EnumType(one.id, one.schema, one.name, one.definition.labels, shown))


def enum_names(objects: Mapping[int, CatalogObject]) -> Set[tuple[str, str]]:
    """(schema, name) of every ENUM."""
    return frozenset((one.schema, one.name) for one in objects.values() if one.kind == "enum")


def relabelled(table: Table, objects: Mapping[int, CatalogObject]) -> Table:
    """``table`` with its ENUM columns as ``objects`` have their types; the same one when nothing differs."""
    columns = []
    changed = False
    for column in table.columns:
        enum = column.type.enum
        found = objects.get(enum.id) if enum is not None else None
        if found is not None and isinstance(found.definition, EnumDefinition):
            wanted = enum_type(found).enum
            if wanted != enum or str(wanted) != str(enum):
                column = replace(column, type=replace(column.type, enum=wanted))  # noqa: PLW2901
                changed = True
        columns.append(column)
    return replace(table, columns=tuple(columns)) if changed else table

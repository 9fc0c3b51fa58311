"""ENUMs in the catalog: the type that an object is, and the columns that are of it.

A table's definition has the labels as they were when it was written, so that whoever reads it alone (a change
feed, a published snapshot) can show them. In a catalog its columns have those of the type's own object.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.objects import CatalogObject, EnumDefinition
from herdpy_sql.types import Base, EnumType, SqlType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from herdpy_sql.catalog import Catalog, Table


def enum_type(one: CatalogObject) -> SqlType:
    """The type that an enum's object defines."""
    assert isinstance(one.definition, EnumDefinition)
    return SqlType(Base.ENUM, enum=EnumType(one.id, one.schema, one.name, one.definition.labels))


def relabelled(table: Table, objects: Mapping[int, CatalogObject]) -> Table:
    """``table`` with its ENUM columns as ``objects`` have their types; the same one when nothing differs."""
    columns = []
    changed = False
    for column in table.columns:
        enum = column.type.enum
        found = objects.get(enum.id) if enum is not None else None
        if found is not None and isinstance(found.definition, EnumDefinition):
            wanted = enum_type(found).enum
            if wanted != enum:
                column = replace(column, type=replace(column.type, enum=wanted))  # noqa: PLW2901
                changed = True
        columns.append(column)
    return replace(table, columns=tuple(columns)) if changed else table


def users_of(catalog: Catalog, enum_id: int) -> list[tuple[Table, str]]:
    """The tables and columns that are of a type."""
    return [
        (table, column.name)
        for table in catalog.tables.values()
        for column in table.columns
        if not column.dropped and column.type.enum is not None and column.type.enum.id == enum_id
    ]

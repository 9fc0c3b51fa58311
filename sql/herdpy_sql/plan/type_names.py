"""What the names of types that users made mean in a statement: noted at the nodes, for ``expr.typenames``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.enum_types import enum_type
from herdpy_sql.expr.typenames import ENUM
from herdpy_sql.types import EnumType

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.objects import CatalogObject


def find_type(catalog: Catalog, schema: str | None, name: str) -> CatalogObject | None:
    """The ENUM of that name: in ``schema``, or the first along the path."""
    for one in catalog.path if schema is None else (schema,):
        found = catalog.object("enum", one, name)
        if found is not None:
            return found
    return None


def has_enums(catalog: Catalog) -> bool:
    """Whether there is an ENUM at all."""
    return any(one.kind == "enum" for one in catalog.objects.values())


def mark_types(tree: exp.Expression, catalog: Catalog) -> None:
    """Note at each type's name that is no built-in one which ENUM it means, where it means one."""
    for node in tree.find_all(exp.DataType):
        if node.this is exp.DataType.Type.USERDEFINED:
            schema, name = _name(node)
            found = find_type(catalog, schema, name)
            if found is not None:
                node.set(ENUM, enum_type(found).enum)


def mark_types_of(tree: exp.Expression, table: Table) -> None:
    """The same with the ENUMs of a table's columns, for expressions that are kept with it."""
    mark_enums(tree, [column.type.enum for column in table.columns])


def mark_enums(tree: exp.Expression, enums: Iterable[EnumType | None]) -> None:
    """The same with ENUMs that are known."""
    named = {one.name: one for one in enums if one is not None}
    for node in tree.find_all(exp.DataType) if named else ():
        if node.this is exp.DataType.Type.USERDEFINED:
            found = named.get(_name(node)[1])
            if found is not None:
                node.set(ENUM, found)


def _name(node: exp.DataType) -> tuple[str | None, str]:
    kind = node.args.get("kind")
    if isinstance(kind, exp.Identifier):
        return None, str(kind.this) if kind.args.get("quoted") else str(kind.this).lower()
    text = (kind.sql("postgres") if isinstance(kind, exp.Expression) else str(kind or "")).replace('"', "")
    schema, _, name = text.rpartition(".")
    return schema or None, name if schema else name.lower()


def mark_types_within(value: Any, catalog: Catalog) -> None:
    """:func:`mark_types` of every syntax tree inside a command."""
    if isinstance(value, exp.Expression):
        mark_types(value, catalog)
    elif isinstance(value, tuple | list):
        for one in value:
            mark_types_within(one, catalog)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            mark_types_within(getattr(value, field.name), catalog)

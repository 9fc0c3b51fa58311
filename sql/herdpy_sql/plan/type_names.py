"""What the names of types that users made mean in a statement: noted at the nodes, for ``expr.typenames``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.catalog import enum_names, enum_type
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.typenames import ENUM, builtin
from herdpy_sql.plan.scope import name_of, quoted
from herdpy_sql.types import EnumType, SqlType

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.objects import CatalogObject


BY_ID = "#"
"""In the place of a schema: what follows is the id of a type."""


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
        if node.this is exp.DataType.Type.USERDEFINED and builtin(node) is None:
            schema, name = type_name(node)
            found = find_type(catalog, schema, name)
            if found is not None:
                node.set(ENUM, enum_type(found).enum)
            elif schema is not None and schema not in _SYSTEM and not catalog.has_schema(schema):
                raise SqlError("3F000", f'schema "{schema}" does not exist')


def type_along(one: CatalogObject, catalog: Catalog) -> SqlType:
    """The type that an ENUM's object defines, to be written as along the catalog's path."""
    return enum_type(one, catalog.path, enum_names(catalog.objects))


def mark_types_of(tree: exp.Expression, table: Table) -> None:
    """The same with the ENUMs of a table's columns, for expressions that are kept with it."""
    mark_enums(tree, [column.type.enum for column in table.columns])


def mark_enums(tree: exp.Expression, enums: Iterable[EnumType | None]) -> None:
    """The same with ENUMs that are known."""
    known = [one for one in enums if one is not None]
    for node in tree.find_all(exp.DataType) if known else ():
        if node.this is exp.DataType.Type.USERDEFINED:
            schema, name = type_name(node)
            found = next((one for one in known if one.name == name and schema in (None, one.schema)), None)
            if found is not None:
                node.set(ENUM, found)


def type_name(node: exp.DataType) -> tuple[str | None, str]:
    """The schema, or None, and the name that a type's node has."""
    kind = node.args.get("kind")
    if isinstance(kind, exp.Dot):
        within = kind.this.expression if isinstance(kind.this, exp.Dot) else kind.this
        return name_of(within), name_of(kind.expression)
    if isinstance(kind, exp.Identifier):
        return None, name_of(kind)
    text = (kind.sql("postgres") if isinstance(kind, exp.Expression) else str(kind or "")).replace('"', "")
    schema, _, name = text.rpartition(".")
    return schema or None, name if schema else name.lower()


_SYSTEM = frozenset({"pg_catalog", "information_schema", "herdpy", BY_ID})


def types_by_id(tree: exp.Expression, catalog: Catalog) -> list[int]:
    """Name each ENUM in the query of a view by its id, which stays when it is renamed or moved; their ids."""
    found = []
    for node in tree.find_all(exp.DataType):
        one = find_type(catalog, *type_name(node)) if node.this is exp.DataType.Type.USERDEFINED else None
        if one is not None:
            _rename(node, BY_ID, str(one.id))
            found.append(one.id)
    return found


def types_by_name(tree: exp.Expression, catalog: Catalog) -> None:
    """The inverse: their names as of now. SqlError 42704."""
    for node in tree.find_all(exp.DataType):
        if node.this is exp.DataType.Type.USERDEFINED and type_name(node)[0] == BY_ID:
            number = int(type_name(node)[1])
            one = catalog.objects.get(number)
            if one is None:
                raise SqlError("42704", f"type with OID {number} does not exist")
            _rename(node, one.schema, one.name)


def shorten_types(tree: exp.Expression, catalog: Catalog) -> None:
    """Leave out the schemas of ENUMs that are found without."""
    for node in tree.find_all(exp.DataType):
        if node.this is exp.DataType.Type.USERDEFINED:
            schema, name = type_name(node)
            one = find_type(catalog, schema, name)
            if one is not None and find_type(catalog, None, name) is one:
                node.set("kind", quoted(name))


def _rename(node: exp.DataType, schema: str, name: str) -> None:
    first, second = (quoted(one) for one in (schema, name))
    node.set("kind", exp.Dot(this=first, expression=second))


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

"""Types as the definition of a function keeps them: texts that outlive another name of the type.

Below ``routines``. A built-in type is kept by PostgreSQL's name, an ENUM as "#id", the row type of a table or
view as "%id"; "[]" behind it makes arrays of it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import Table, enum_names, enum_type
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.typenames import sql_type
from herdpy_sql.objects import CatalogObject, EnumDefinition, ViewDefinition
from herdpy_sql.parse import parse, split
from herdpy_sql.plan.type_names import mark_types
from herdpy_sql.types import SqlType, array_of

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog

RowType = tuple[tuple[str, SqlType], ...]
"""The columns of a row: names and types."""


def written_type(text: str, catalog: Catalog) -> SqlType:
    """The type that a text names, as a cast has it, with its modifiers. SqlError 42601, 42704, 0A000."""
    tree = parse(split(f"SELECT NULL::{text}")[0])
    (node,) = tree.expressions if isinstance(tree, exp.Select) and len(tree.expressions) == 1 else (None,)
    if not isinstance(node, exp.Cast):
        raise SqlError("42601", f'invalid type name "{text}"')
    mark_types(node, catalog)
    return sql_type(node.args["to"], any_scale=True)


def kept_text(type_: SqlType) -> str:
    """A type without its modifiers, as a definition keeps it."""
    if type_.enum is not None:
        return f"#{type_.enum.id}{'[]' if type_.element is not None else ''}"
    return type_.plain.name


def type_of_text(text: str, catalog: Catalog) -> SqlType:
    """The inverse, under this catalog. SqlError 42704 where an ENUM is gone."""
    if not text.startswith("#"):
        return _builtin(text)
    name, arrays, _ = text[1:].partition("[]")
    one = catalog.objects.get(int(name))
    if one is None or not isinstance(one.definition, EnumDefinition):
        raise SqlError("42704", f"type with OID {name} does not exist")
    found = enum_type(one, catalog.path, enum_names(catalog.objects))
    return array_of(found) if arrays else found


@functools.lru_cache(maxsize=512)
def _builtin(text: str) -> SqlType:
    tree = parse(split(f"SELECT NULL::{text}")[0])
    assert isinstance(tree, exp.Select)
    return sql_type(tree.expressions[0].args["to"], any_scale=True).plain


def relation_row(one: Table | CatalogObject, catalog: Catalog) -> RowType | None:
    """The columns of a table's or a view's rows; None of what has none."""
    if isinstance(one, Table):
        columns = [one.columns[position] for position in one.visible]
        return tuple((column.name, column.type) for column in columns)
    if not isinstance(one.definition, ViewDefinition):
        return None
    return tuple((name, written_type(text, catalog)) for name, text in one.definition.columns)


def row_of_text(text: str, catalog: Catalog) -> RowType:
    """The columns of a row type that a definition keeps as "%id". SqlError 42704 where it is gone."""
    number = int(text[1:])
    one = catalog.tables.get(number) or catalog.objects.get(number)
    found = None if one is None else relation_row(one, catalog)
    if found is None:
        raise SqlError("42704", f"type with OID {number} does not exist")
    return found


def used_ids(texts: tuple[str, ...]) -> set[int]:
    """The ids of types, tables and views that types of a definition need."""
    return {int(text[1:].partition("[")[0]) for text in texts if text[:1] in {"#", "%"}}

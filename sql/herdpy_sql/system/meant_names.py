"""What names in texts mean: object ids of relations, types, schemas, roles; regclass and its relatives.

``resolved`` is asked by queries over the catalog while DuckDB runs them, through :mod:`asked`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.system.contents import SCHEMAS
from herdpy_sql.system.contents_objects import named_relations, user_schemas
from herdpy_sql.system.contents_types import own_types
from herdpy_sql.system.types import array_oid, oid_of_name, oid_of_words
from herdpy_sql.system.written_names import TypeText, parts_of, single_part, type_text
from herdpy_sql.system_relations import CATALOG, relations

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.system.contents import Context

_RELATIONS = "names of relations"
_OWN_TYPES = "names of types"


def resolved(context: Context, kind: str, text: str, *, strict: bool) -> int | None:
    """The id of what a text names.

    Args:
        kind: "class", "type", "namespace", "role".
        strict: as a cast does it: numbers are ids, and what is not there is an error. Otherwise as to_reg...
            do it: None.

    Raises:
        SqlError: 42602, 42601 for what is no name; strictly 42P01, 42704, 3F000 for what is not there.
    """
    if strict and text == "-" and kind != "role":
        return 0
    if strict and text.isascii() and text.isdigit():
        return int(text)
    try:
        return _KINDS[kind](context, text)
    except AbsentError as error:
        if strict:
            raise SqlError(error.sqlstate, error.message) from None
        return None


class AbsentError(SqlError):
    """There is nothing of that name."""


def relation_oid(context: Context, text: str) -> int:
    """Of a table, view, index or sequence. AbsentError 42P01, 3F000; SqlError 42602, 42601, 0A000."""
    parts = parts_of(text)
    schema, name = qualified(context, parts, "relation", cross=".".join(parts))
    found = relation_named(context.catalog, schema, name)
    if found is None:
        if schema is not None:
            check_schema(context.catalog, schema)
        shown = name if schema is None else f"{schema}.{name}"
        raise AbsentError("42P01", f'relation "{shown}" does not exist')
    return found


def relation_named(catalog: Catalog, schema: str | None, name: str) -> int | None:
    """The id of a relation: in ``schema``, or the first along the path, which begins with the system's."""
    named = relations_named(catalog)
    for one in _places(catalog, schema):
        found = named.get((one, name))
        if found is not None:
            return found
        system = relations().get((one, name))
        if system is not None:
            return system.oid
    return None


def relations_named(catalog: Catalog) -> Mapping[tuple[str, str], int]:
    """Ids of users' relations by schema and name."""
    found = catalog.derived.get(_RELATIONS)
    if found is None:
        found = {(schema, name): oid for schema, name, oid in named_relations(catalog)}
        catalog.derived[_RELATIONS] = found
    assert isinstance(found, dict)
    return found


def _places(catalog: Catalog, schema: str | None) -> list[str]:
    if schema is not None:
        return (
            [one for one in catalog.path if one.startswith("pg_temp_")] if schema == "pg_temp" else [schema]
        )
    own = [one for one in catalog.path if one.startswith("pg_temp_")]
    return [*own, *(() if CATALOG in catalog.path else (CATALOG,)), *catalog.path]


def check_schema(catalog: Catalog, schema: str) -> None:
    if schema not in SCHEMAS and not catalog.has_schema(schema):
        raise AbsentError("3F000", f'schema "{schema}" does not exist')
    if schema == "public" and not catalog.has_schema(schema):
        raise AbsentError("3F000", f'schema "{schema}" does not exist')


def qualified(context: Context, parts: list[str], what: str, *, cross: str) -> tuple[str | None, str]:
    """(schema or None, name) of up to three parts, of which the first must be this database."""
    if len(parts) > 3:
        message = f"improper {what} name (too many dotted names): {'.'.join(parts)}"
        raise SqlError("42601", message)
    if len(parts) == 3 and parts[0] != context.state.database:
        shown = f'"{cross}"' if what == "relation" else cross
        raise SqlError("0A000", f"cross-database references are not implemented: {shown}")
    return (None if len(parts) == 1 else parts[-2]), parts[-1]


def type_oid(context: Context, text: str) -> int:
    """Of a type, or of an array of it. AbsentError 42704, 3F000; SqlError 42601."""
    wanted = type_text(text)
    found = _plain_type(context.catalog, wanted)
    if found is not None and wanted.dimensions:
        found = array_oid(found) or _own_types(context.catalog).arrays.get(found)
    if found is None:
        if wanted.schema:
            check_schema(context.catalog, wanted.schema)
        shown = f"{wanted.schema}.{wanted.name}" if wanted.schema else wanted.name
        raise AbsentError("42704", f'type "{shown}{"[]" * bool(wanted.dimensions)}" does not exist')
    return found


class _OwnTypes:
    """Types that are not PostgreSQL's own, by schema and name; and their arrays by their ids."""

    def __init__(self, catalog: Catalog) -> None:
        self.named: dict[tuple[str, str], int] = {}
        self.arrays: dict[int, int] = {}
        for row in own_types(catalog):
            self.named[row["schema"], row["typname"]] = row["oid"]
            if row["typarray"]:
                self.arrays[row["oid"]] = row["typarray"]


def _own_types(catalog: Catalog) -> _OwnTypes:
    found = catalog.derived.get(_OWN_TYPES)
    if found is None:
        found = catalog.derived[_OWN_TYPES] = _OwnTypes(catalog)
    assert isinstance(found, _OwnTypes)
    return found


def _plain_type(catalog: Catalog, wanted: TypeText) -> int | None:
    if not wanted.schema and not wanted.quoted:
        words = oid_of_words(wanted.name)
        if words is not None:
            return words
    named: Mapping[tuple[str, str], int] = _own_types(catalog).named
    for schema in _places(catalog, wanted.schema or None):
        found = oid_of_name(wanted.name) if schema == CATALOG else None
        if found is None:
            found = named.get((schema, wanted.name))
        if found is not None:
            return found
    return None


def schema_oid(context: Context, text: str) -> int:
    """Of a schema. AbsentError 3F000; SqlError 42602."""
    name = single_part(text)
    found = {**SCHEMAS, **user_schemas(context.catalog)}.get(name)
    if found is None or (name == "public" and not context.catalog.has_schema(name)):
        raise AbsentError("3F000", f'schema "{name}" does not exist')
    return found


def role_oid(context: Context, text: str) -> int:
    """Of a role. AbsentError 42704; SqlError 42602."""
    name = single_part(text)
    found = context.role_oids().get(name)
    if found is None:
        raise AbsentError("42704", f'role "{name}" does not exist')
    return found


_KINDS = {"class": relation_oid, "type": type_oid, "namespace": schema_oid, "role": role_oid}

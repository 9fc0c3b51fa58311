"""What GRANT, REVOKE and OWNER TO name, found in the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.catalog import Index
from herdpy_sql.errors import SqlError
from herdpy_sql.rights.held import DATABASE, Subject, schema_subject, subject_of

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.parse.role_commands import RightCommand


def named(command: RightCommand, catalog: Catalog, database: str) -> list[Subject]:
    """The things that a command is about; of OWNER TO ... IF EXISTS perhaps none.

    Args:
        database: the name of the session's own.

    Raises:
        SqlError: 42P01, 3F000, 3D000, 42704 something is not there, 42809 it is something else, 0A000
            another database.
    """
    if command.kind.startswith("ALL "):
        return [one for schema in command.schemas for one in _all_in(catalog, schema, command.kind)]
    found = []
    for schema, name in dict.fromkeys(command.names):
        one = _named(command.kind, catalog, schema, name, database, "IF EXISTS" in command.options)
        if one is not None:
            found.append(one)
    return found


def _named(
    kind: str, catalog: Catalog, schema: str | None, name: str, database: str, may_lack: bool
) -> Subject | None:
    if kind in {"SCHEMA", "DATABASE"} and schema is not None:
        raise SqlError("42601", 'syntax error at or near "."')
    if kind == "DATABASE":
        if name != database:
            raise SqlError(
                "0A000",
                f'the rights to tablespace "{name}" are changed in a session of it',
                hint=f"Connect to {name}.",
            )
        return replace(DATABASE, name=name)
    if kind == "SCHEMA":
        if not catalog.has_schema(name):
            raise SqlError("3F000", f'schema "{name}" does not exist')
        return schema_subject(catalog, name)
    if kind == "TYPE":
        return _type(catalog, schema, name)
    found = catalog.find(schema, name)
    if found is None:
        if may_lack:
            return None
        shown = f"{schema}.{name}" if schema else name
        raise SqlError("42P01", f'relation "{shown}" does not exist')
    subject = subject_of(found)
    if isinstance(found, Index):
        raise SqlError("42809", f'"{name}" is an index')
    wanted = {"SEQUENCE": "sequence", "VIEW": "view"}.get(kind)
    if wanted is not None and subject.kind != wanted:
        raise SqlError("42809", f'"{name}" is not a {wanted}')
    return subject


def _type(catalog: Catalog, schema: str | None, name: str) -> Subject:
    for path in catalog.path if schema is None else (schema,):
        found = catalog.object("enum", path, name)
        if found is not None:
            return subject_of_type(found.id, name)
    raise SqlError("42704", f'type "{name}" does not exist')


def subject_of_type(number: int, name: str) -> Subject:
    """A type as what rights are had to."""
    return Subject("type", number, name)


def _all_in(catalog: Catalog, schema: str, kind: str) -> Iterator[Subject]:
    if not catalog.has_schema(schema):
        raise SqlError("3F000", f'schema "{schema}" does not exist')
    wanted = {"table", "view"} if kind == "ALL TABLES" else {"sequence"}
    relations = sorted(catalog.relations.items(), key=lambda item: item[1].id)
    for (where, _name), one in relations:
        if where == schema and not isinstance(one, Index) and subject_of(one).kind in wanted:
            yield subject_of(one)


def everything(catalog: Catalog) -> Iterator[Subject]:
    """All that has an owner: the database, schemas, relations, types."""
    yield DATABASE
    yield Subject("schema", 0, "public")
    for table in catalog.tables.values():
        yield subject_of(table)
    for one in catalog.objects.values():
        if one.kind in {"view", "sequence", "enum", "function"}:
            yield subject_of(one)
        elif one.kind == "schema" and one.name != "public":
            yield Subject("schema", one.id, one.name)

"""COMMENT ON: what is said of a table, column, index, sequence, view, schema, type, constraint, role ..."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.catalog import Index, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import DefinePlan
from herdpy_sql.objects import CatalogObject, CommentDefinition
from herdpy_sql.plan.scope import find_table

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.parse.object_commands import ObjectCommand
    from herdpy_sql.storage import View

_RELATIONS = {"TABLE": "table", "INDEX": "index", "SEQUENCE": "sequence", "VIEW": "view"}


def plan(command: ObjectCommand, catalog: Catalog) -> Plan:
    """The plan of COMMENT ON."""
    subject, name = _subject(command, catalog)
    definition = None if command.text is None else CommentDefinition(command.text, *subject)
    return DefinePlan("COMMENT", ".".join(command.words), lambda view: _say(view, name, definition))


def _say(view: View, name: str, definition: CommentDefinition | None) -> None:
    there = view.catalog.object("comment", "", name)
    if definition is None:
        if there is not None:
            view.drop_object(there)
    elif there is not None:
        view.put_object(replace(there, definition=definition))
    else:
        view.put_object(CatalogObject(view.next_id, "", name, definition))


def _subject(command: ObjectCommand, catalog: Catalog) -> tuple[tuple[str, int, int], str]:
    """(on, id, column) of a comment, and the name of its object."""
    kind, words = command.action, command.words
    if kind in _RELATIONS:
        number = _relation(catalog, kind, words)
        return ("relation", number, -1), f"relation {number}"
    if kind == "COLUMN":
        if len(words) < 2:
            raise SqlError("42601", "column name must be qualified")
        return _column(catalog, words)
    if kind == "CONSTRAINT":
        ((schema, table_name),) = command.names
        table = find_table(catalog, schema, table_name)
        if words[0] not in _constraints(table):
            raise SqlError("42704", f'constraint "{words[0]}" for table "{table.name}" does not exist')
        return ("constraint", table.id, -1), f"constraint {table.id} {words[0]}"
    if kind == "SCHEMA":
        if not catalog.has_schema(words[0]):
            raise SqlError("3F000", f'schema "{words[0]}" does not exist')
        return ("schema", 0, -1), f"schema {words[0]}"
    if kind == "TYPE":
        found = next(
            (one for path in _path(catalog, words) if (one := catalog.object("enum", path, words[-1]))), None
        )
        if found is None:
            raise SqlError("42704", f'type "{".".join(words)}" does not exist')
        return ("type", found.id, -1), f"type {found.id}"
    if kind in {"DATABASE", "ROLE", "TABLESPACE"}:
        return (kind.lower(), 0, -1), f"{kind.lower()} {words[0]}"
    raise SqlError("0A000", f"COMMENT ON {kind} is not supported")


def _path(catalog: Catalog, words: tuple[str, ...]) -> tuple[str, ...]:
    return catalog.path if len(words) == 1 else (words[0],)


def _relation(catalog: Catalog, kind: str, words: tuple[str, ...]) -> int:
    found = catalog.find(words[0] if len(words) > 1 else None, words[-1])
    if found is None:
        schema = words[0] if len(words) > 1 else None
        if kind == "INDEX" and catalog.table_of_key(schema, words[-1]) is not None:
            raise SqlError("0A000", "COMMENT ON INDEX of a primary key is not supported")
        raise SqlError("42P01", f'relation "{".".join(words)}" does not exist')
    is_kind = {
        "TABLE": isinstance(found, Table),
        "INDEX": isinstance(found, Index),
        "SEQUENCE": isinstance(found, CatalogObject) and found.kind == "sequence",
        "VIEW": isinstance(found, CatalogObject) and found.kind == "view",
    }[kind]
    if not is_kind:
        article = "an" if kind == "INDEX" else "a"
        raise SqlError("42809", f'"{words[-1]}" is not {article} {_RELATIONS[kind]}')
    return found.id


def _column(catalog: Catalog, words: tuple[str, ...]) -> tuple[tuple[str, int, int], str]:
    *path, name = words
    found = catalog.find(path[0] if len(path) > 1 else None, path[-1])
    if found is None:
        raise SqlError("42P01", f'relation "{".".join(path)}" does not exist')
    position = None
    if isinstance(found, Table):
        position = found.positions.get(name)
        if position is not None and found.columns[position].hidden:
            position = None
    elif isinstance(found, CatalogObject) and found.kind == "view":
        names = [column for column, _type in found.definition.columns]  # type: ignore[union-attr]
        position = names.index(name) if name in names else None
    else:
        raise SqlError("42809", f'"{path[-1]}" is not a table, view or composite type')
    if position is None:
        raise SqlError("42703", f'column "{name}" of relation "{path[-1]}" does not exist')
    return ("relation", found.id, position), f"column {found.id} {position}"


def _constraints(table: Table) -> set[str]:
    found = {check.name for check in table.checks} | {one.name for one in table.foreign_keys}
    found |= {index.name for index in table.indexes if index.constraint}
    return found if table.has_hidden_key else found | {table.key_name}

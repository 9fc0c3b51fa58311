"""CREATE, ALTER and DROP TYPE of ENUMs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import DefinePlan
from herdpy_sql.objects import CatalogObject, EnumDefinition, ViewDefinition
from herdpy_sql.parse import Command
from herdpy_sql.parse.commands import AlterAction
from herdpy_sql.plan.alter_table import plan_alter
from herdpy_sql.plan.drop import depended_on
from herdpy_sql.plan.names import checked_name, refuse_temporary_move, target_schema
from herdpy_sql.plan.remarks import absent, cascaded, notice, with_remarks
from herdpy_sql.plan.type_names import find_type, type_along
from herdpy_sql.storage import Clock

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import Plan, Remark
    from herdpy_sql.parse.object_commands import TypeCommand
    from herdpy_sql.storage import View

MAX_LABEL = 63


def plan(command: TypeCommand, catalog: Catalog) -> Plan:
    """The plan of a statement about types."""
    if command.name == "CREATE TYPE":
        return _create(command, catalog)
    if command.name == "DROP TYPE":
        return _drop(command, catalog)
    return _alter(command, catalog)


def _labelled(label: str) -> str:
    if not label or len(label.encode()) > MAX_LABEL:
        raise SqlError(
            "42602", f'invalid enum label "{label}"', detail=f"Labels must be {MAX_LABEL} bytes or less."
        )
    return label


def _create(command: TypeCommand, catalog: Catalog) -> Plan:
    ((schema, name),) = command.names
    schema, name = target_schema(catalog, schema, name), checked_name(name)
    if catalog.object("enum", schema, name) is not None or catalog.is_taken(schema, name):
        raise SqlError("42710", f'type "{name}" already exists')
    seen: list[str] = []
    for label in map(_labelled, command.labels):
        if label in seen:
            raise SqlError("23505", f'enum label "{label}" used more than once')
        seen.append(label)
    labels = tuple((label, float(at + 1)) for at, label in enumerate(seen))

    def make(view: View) -> None:
        view.put_object(CatalogObject(view.next_id, schema, name, EnumDefinition(labels)))

    return DefinePlan(command.name, name, make)


def _known(command: TypeCommand, catalog: Catalog) -> CatalogObject:
    ((schema, name),) = command.names
    found = find_type(catalog, schema, name)
    if found is None:
        raise _absent(catalog, schema, name)
    return found


def _absent(catalog: Catalog, schema: str | None, name: str) -> SqlError:
    if schema is not None and not catalog.has_schema(schema):
        return SqlError("3F000", f'schema "{schema}" does not exist')
    return SqlError("42704", f'type "{f"{schema}." if schema else ""}{name}" does not exist')


def _alter(command: TypeCommand, catalog: Catalog) -> Plan:
    found = _known(command, catalog)
    assert isinstance(found.definition, EnumDefinition)
    labels = found.definition.labels
    match command.action:
        case "ADD VALUE":
            added = _with_label(command, labels, found.name)
            if added is None:
                skipped = notice(f'enum label "{command.labels[0]}" already exists, skipping', "42710")
                return with_remarks(DefinePlan(command.name, found.name, None), [skipped])
            new = replace(found, definition=EnumDefinition(added))
        case "RENAME VALUE":
            new = replace(found, definition=EnumDefinition(_renamed(command.labels, labels)))
        case "RENAME":
            name = checked_name(command.labels[0])
            if catalog.object("enum", found.schema, name) is not None:
                raise SqlError("42710", f'type "{name}" already exists')
            new = replace(found, name=name)
        case "SET SCHEMA":
            schema = target_schema(catalog, command.labels[0], found.name)
            if schema == found.schema:
                return DefinePlan(command.name, found.name, None)
            refuse_temporary_move(found.schema, schema)
            if catalog.object("enum", schema, found.name) is not None or catalog.is_taken(schema, found.name):
                raise SqlError("42710", f'type "{found.name}" already exists in schema "{schema}"')
            new = replace(found, schema=schema)
        case _:
            return DefinePlan(command.name, found.name, None)
    return DefinePlan(command.name, found.name, lambda view: view.put_object(new))


def _with_label(
    command: TypeCommand, labels: tuple[tuple[str, float], ...], name: str
) -> tuple[tuple[str, float], ...] | None:
    """The labels with one more; its place is between those of its neighbours, which keep theirs."""
    label = _labelled(command.labels[0])
    if any(label == one for one, _ in labels):
        if "IF NOT EXISTS" in command.options:
            return None
        raise SqlError("42710", f'enum label "{label}" already exists')
    if not command.place:
        return (*labels, (label, labels[-1][1] + 1.0 if labels else 1.0))
    at = next((i for i, (one, _) in enumerate(labels) if one == command.neighbour), None)
    if at is None:
        raise SqlError("22023", f'"{command.neighbour}" is not an existing enum label')
    at += command.place == "AFTER"
    before = labels[at - 1][1] if at else None
    after = labels[at][1] if at < len(labels) else None
    place = (
        (before + 1.0 if before is not None else 1.0)
        if after is None
        else after - 1.0
        if before is None
        else (before + after) / 2
    )
    if place in {before, after}:
        raise SqlError("54000", f'there is no room for another label there in type "{name}"')
    return (*labels[:at], (label, place), *labels[at:])


def _renamed(
    names_of: tuple[str, ...], labels: tuple[tuple[str, float], ...]
) -> tuple[tuple[str, float], ...]:
    old, new = names_of
    names = [one for one, _ in labels]
    if old not in names:
        raise SqlError("22023", f'"{old}" is not an existing enum label')
    if _labelled(new) in names:
        raise SqlError("42710", f'enum label "{new}" already exists')
    return tuple((new if one == old else one, place) for one, place in labels)


def _drop(command: TypeCommand, catalog: Catalog) -> Plan:
    found: list[CatalogObject] = []
    skipped: list[Remark] = []
    for schema, name in command.names:
        one = find_type(catalog, schema, name)
        if one is not None:
            found.append(one)
        elif "IF EXISTS" not in command.options:
            raise _absent(catalog, schema, name)
        elif schema is not None and not catalog.has_schema(schema):
            skipped.append(absent("schema", schema))
        else:
            skipped.append(absent("type", f"{schema}.{name}" if schema else name))
    shown = {one.id: str(type_along(one, catalog)) for one in found}
    readers = [
        (one, view)
        for one in found
        for view in catalog.objects.values()
        if isinstance(view.definition, ViewDefinition) and one.id in view.definition.uses
    ]
    if readers and "CASCADE" in command.options:
        raise SqlError(
            "0A000", f"DROP TYPE ... CASCADE with views that use {shown[readers[0][0].id]} is not supported"
        )
    users = [(one, table, column) for one in found for table, column in catalog.columns_of_enum(one.id)]
    if (users or readers) and "CASCADE" not in command.options:
        reasons = [
            f"column {column} of table {table.name} depends on type "
            f"{table.columns[table.positions[column]].type.name}"
            for one, table, column in users
        ]
        reasons += [f"view {view.name} depends on type {shown[one.id]}" for one, view in readers]
        raise depended_on(f"cannot drop type {shown[found[0].id]}", reasons)

    def drop(view: View) -> None:
        for table in {table.id: table for _, table, _ in users}.values():
            names = [column for _, other, column in users if other.id == table.id]
            _drop_columns(view, table, names)
        for one in found:
            view.drop_object(one)

    plan = DefinePlan(command.name, ", ".join(one.name for one in found), drop if found else None)
    along = cascaded([f"column {column} of table {table.name}" for _, table, column in users])
    return with_remarks(plan, (*skipped, *along))


def _drop_columns(view: View, table: Table, names: list[str]) -> None:
    """Drop columns of a table, and what depends on them."""
    options = frozenset({"IF EXISTS", "CASCADE"})
    actions = tuple(AlterAction("DROP COLUMN", name, options=options) for name in names)
    command = Command("ALTER TABLE", names=((table.schema, table.name),), actions=actions)
    plan_alter(command, view.catalog).run(view, (), Clock(0, 0))  # nothing of it looks at the clock

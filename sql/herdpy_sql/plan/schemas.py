"""CREATE, ALTER and DROP SCHEMA."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed

from herdpy_sql.catalog import PUBLIC, Catalog, Table, is_temporary
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import DefinePlan, detach
from herdpy_sql.objects import CatalogObject, SchemaDefinition
from herdpy_sql.plan.commands import CreateSchemaFor
from herdpy_sql.plan.drop import Dropping, carry_out, depended_on, described, gather, references_to
from herdpy_sql.plan.names import checked_name
from herdpy_sql.plan.remarks import absent, cascaded, notice, with_remarks

if TYPE_CHECKING:
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.parse.object_commands import ObjectCommand
    from herdpy_sql.storage import View


def plan(command: ObjectCommand, catalog: Catalog) -> Plan:
    """The plan of a statement about schemas."""
    if any(schema is not None for schema, _name in command.names):
        raise SqlError("42601", 'syntax error at or near "."')
    if command.name == "CREATE SCHEMA":
        return _create(command, catalog)
    if command.name == "ALTER SCHEMA":
        return _alter(command, catalog)
    return _drop(command, catalog)


def _new(name: str) -> str:
    if name.startswith("pg_"):
        raise SqlError(
            "42939",
            f'unacceptable schema name "{name}"',
            detail='The prefix "pg_" is reserved for system schemas.',
        )
    return checked_name(name)


def _create(command: ObjectCommand, catalog: Catalog) -> Plan:
    ((_none, name),) = command.names
    _new(name)
    if catalog.has_schema(name) or name in {"information_schema", "herdpy"}:
        if "IF NOT EXISTS" in command.options:
            skipped = notice(f'schema "{name}" already exists, skipping', "42P06")
            return with_remarks(DefinePlan(command.name, name, None), [skipped])
        raise SqlError("42P06", f'schema "{name}" already exists')
    owner = command.words[0] if command.words else ""
    if owner:
        return CreateSchemaFor(name, owner, lambda view: _make(view, name, owner))
    return DefinePlan(command.name, name, lambda view: _make(view, name, owner))


def _make(view: View, name: str, owner: str) -> None:
    if view.catalog.has_schema(name):
        raise SqlError("42P06", f'schema "{name}" already exists')
    there = view.catalog.object("schema", "", name)
    if there is not None:  # "public", dropped before
        view.put_object(replace(there, definition=SchemaDefinition(owner)))
    else:
        view.put_object(CatalogObject(view.next_id, "", name, SchemaDefinition(owner)))


def _alter(command: ObjectCommand, catalog: Catalog) -> Plan:
    ((_none, name),) = command.names
    _refuse_temporary(name)
    there = _existing(catalog, name)
    (word,) = command.words
    if command.action == "OWNER":
        if there is None:
            return DefinePlan(command.name, name, None)
        owned = replace(there, definition=SchemaDefinition(word))
        return DefinePlan(command.name, name, lambda view: view.put_object(owned))
    _new(word)
    if catalog.has_schema(word):
        raise SqlError("42P06", f'schema "{word}" already exists')
    if name == PUBLIC:
        raise SqlError("0A000", "renaming the schema public is not supported")
    assert there is not None
    return DefinePlan(command.name, name, lambda view: _rename(view, there, word))


def _rename(view: View, there: CatalogObject, name: str) -> None:
    """The schema's name is in the definition of everything in it."""
    before = there.name
    view.put_object(replace(there, name=name))
    for table in list(view.catalog.tables.values()):
        if table.schema == before:
            view.alter_table(table, replace(table, schema=name))
    for one in list(view.catalog.objects.values()):
        if one.schema == before:
            view.put_object(replace(one, schema=name))


def _refuse_temporary(name: str) -> None:
    """A session's schema comes and goes with it."""
    if is_temporary(name):
        raise SqlError("0A000", "temporary schemas cannot be altered or dropped")


def _existing(catalog: Catalog, name: str) -> CatalogObject | None:
    if not catalog.has_schema(name):
        if name in {"pg_catalog", "information_schema", "herdpy"}:
            raise SqlError("42501", f'permission denied for schema "{name}"')
        raise SqlError("3F000", f'schema "{name}" does not exist')
    return catalog.object("schema", "", name)


def _drop(command: ObjectCommand, catalog: Catalog) -> Plan:
    names, remarks = [], []
    for _none, name in dict.fromkeys(command.names):
        _refuse_temporary(name)
        if catalog.has_schema(name):
            names.append(name)
        elif name in {"pg_catalog", "information_schema", "herdpy"}:
            raise SqlError(
                "2BP01", f"cannot drop schema {name} because it is required by the database system"
            )
        elif "IF EXISTS" not in command.options:
            raise SqlError("3F000", f'schema "{name}" does not exist')
        else:
            remarks.append(absent("schema", name))
    inside: list[Table | CatalogObject] = [one for one in catalog.tables.values() if one.schema in names]
    inside += [one for one in catalog.objects.values() if one.schema in names]
    _refuse_types_in_use(inside, catalog)
    dropping = gather(inside, catalog)
    reasons = [f"{described(one)} depends on schema {one.schema}" for one in inside if _stands_alone(one)]
    reasons += dropping.reasons
    if inside and "CASCADE" not in command.options:
        raise depended_on(f"cannot drop schema {names[0]}", reasons)
    reasons += [
        f"constraint {one.name} on table {child.name}"
        for child, one in references_to(catalog, dropping.tables)
    ]
    text = ", ".join(names)
    work = (lambda view: _remove(view, names, dropping)) if names else None
    return with_remarks(DefinePlan(command.name, text, work), (*remarks, *cascaded(reasons)))


def _refuse_types_in_use(inside: list[Table | CatalogObject], catalog: Catalog) -> None:
    """SqlError 2BP01 for an ENUM that columns of tables elsewhere are of: those are not dropped along."""
    gone = {one.id for one in inside if isinstance(one, Table)}
    for one in inside:
        users = catalog.columns_of_enum(one.id) if not isinstance(one, Table) and one.kind == "enum" else []
        left = [(table, column) for table, column in users if table.id not in gone]
        if left:
            shown = f"{one.schema}.{one.name}"
            reasons = [
                f"column {column} of table {table.name} depends on type {shown}" for table, column in left
            ]
            raise depended_on(f"cannot drop schema {one.schema}", reasons)


def _stands_alone(one: Table | CatalogObject) -> bool:
    """Whether it is no sequence that goes with a column."""
    return isinstance(one, Table) or getattr(one.definition, "owner", None) is None or one.kind == "schema"


def _remove(view: View, names: list[str], dropping: Dropping) -> None:
    detach(view, [(child.id, one.name) for child, one in references_to(view.catalog, dropping.tables)])
    carry_out(view, dropping)
    for name in names:
        there = view.catalog.object("schema", "", name)
        if name != PUBLIC:
            assert there is not None
            view.drop_object(there)
        elif there is not None:
            assert isinstance(there.definition, SchemaDefinition)
            view.put_object(replace(there, definition=changed(there.definition, dropped=True)))
        else:
            gone = CatalogObject(view.next_id, "", name, SchemaDefinition(dropped=True))
            view.put_object(gone)

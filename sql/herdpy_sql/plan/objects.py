"""CREATE, ALTER and DROP of schemas and ENUM types, and COMMENT ON."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed

from herdpy_sql.catalog import PUBLIC, Catalog, Index, Table, is_temporary
from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import DefinePlan, detach
from herdpy_sql.objects import (
    CatalogObject,
    CommentDefinition,
    EnumDefinition,
    FunctionDefinition,
    SchemaDefinition,
    ViewDefinition,
)
from herdpy_sql.parse import Command
from herdpy_sql.parse.commands import AlterAction
from herdpy_sql.plan.alter_table import plan_alter
from herdpy_sql.plan.commands import CreateSchemaFor
from herdpy_sql.plan.drop import (
    Dropping,
    carry_out,
    depended_on,
    described,
    gather,
    ids_used,
    references_to,
)
from herdpy_sql.plan.names import (
    absent,
    cascaded,
    checked_name,
    notice,
    refuse_temporary_move,
    target_schema,
    with_remarks,
)
from herdpy_sql.plan.rules import names_of
from herdpy_sql.plan.scope import find_table
from herdpy_sql.plan.type_names import find_type, type_along

if TYPE_CHECKING:
    from herdpy_sql.execute.base import Plan, Remark
    from herdpy_sql.parse.object_commands import ObjectCommand, TypeCommand
    from herdpy_sql.storage import View


def plan_schema(command: ObjectCommand, catalog: Catalog) -> Plan:
    """The plan of a statement about schemas."""
    if any(schema is not None for schema, _name in command.names):
        raise SqlError("42601", 'syntax error at or near "."')
    if command.name == "CREATE SCHEMA":
        return _create_schema(command, catalog)
    if command.name == "ALTER SCHEMA":
        return _alter_schema(command, catalog)
    return _drop_schema(command, catalog)


def _new(name: str) -> str:
    if name.startswith("pg_"):
        raise SqlError(
            "42939",
            f'unacceptable schema name "{name}"',
            detail='The prefix "pg_" is reserved for system schemas.',
        )
    return checked_name(name)


def _create_schema(command: ObjectCommand, catalog: Catalog) -> Plan:
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


def _alter_schema(command: ObjectCommand, catalog: Catalog) -> Plan:
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
    return DefinePlan(command.name, name, lambda view: _rename_schema(view, there, word))


def _rename_schema(view: View, there: CatalogObject, name: str) -> None:
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


def _drop_schema(command: ObjectCommand, catalog: Catalog) -> Plan:
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


MAX_LABEL = 63


def plan_type(command: TypeCommand, catalog: Catalog) -> Plan:
    """The plan of a statement about types."""
    if command.name == "CREATE TYPE":
        return _create_type(command, catalog)
    if command.name == "DROP TYPE":
        return _drop_type(command, catalog)
    return _alter_type(command, catalog)


def _labelled(label: str) -> str:
    if not label or len(label.encode()) > MAX_LABEL:
        raise SqlError(
            "42602", f'invalid enum label "{label}"', detail=f"Labels must be {MAX_LABEL} bytes or less."
        )
    return label


def _create_type(command: TypeCommand, catalog: Catalog) -> Plan:
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


def _alter_type(command: TypeCommand, catalog: Catalog) -> Plan:
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


def _drop_type(command: TypeCommand, catalog: Catalog) -> Plan:
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
    readers += [
        (one, program)
        for one in found
        for program in catalog.objects.values()
        if isinstance(program.definition, FunctionDefinition) and one.id in ids_used(program.definition)
    ]
    users = [(one, table, column) for one in found for table, column in catalog.columns_of_enum(one.id)]
    if readers and "CASCADE" in command.options:
        raise SqlError(
            "0A000",
            f"DROP TYPE ... CASCADE with views or functions of {shown[readers[0][0].id]} is not supported",
        )
    if (users or readers) and "CASCADE" not in command.options:
        reasons = [
            f"column {column} of table {table.name} depends on type "
            f"{table.columns[table.positions[column]].type.name}"
            for one, table, column in users
        ]
        reasons += [f"{described(reader)} depends on type {shown[one.id]}" for one, reader in readers]
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


_RELATIONS = {"TABLE": "table", "INDEX": "index", "SEQUENCE": "sequence", "VIEW": "view"}


def plan_comment(command: ObjectCommand, catalog: Catalog) -> Plan:
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
        if words[0] not in names_of(table):
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

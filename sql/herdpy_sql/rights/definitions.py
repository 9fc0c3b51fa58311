"""What statements of definition need: to make things in a schema, to own what is altered or dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import Table
from herdpy_sql.objects import CatalogObject
from herdpy_sql.parse import split
from herdpy_sql.parse.lexer import TokenCursor
from herdpy_sql.parse.object_commands import ObjectCommand, TypeCommand
from herdpy_sql.plan.names import target_schema
from herdpy_sql.plan.scope import name_of
from herdpy_sql.rights.held import DATABASE, Subject, schema_subject, subject_of
from herdpy_sql.rights.need import OWNER, SUPERUSER, Need, owner_needs, relation_needs, schema_needs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from herdpy_sql.catalog import Catalog, Relation
    from herdpy_sql.parse import Command
    from herdpy_sql.parse.lexer import QualifiedName

_LOCKS = {
    "ACCESS SHARE": "rawdD",
    "ROW SHARE": "rwdD",
    "ROW EXCLUSIVE": "awdD",
}
"""Privileges one of which is enough for LOCK TABLE; of stronger modes "wdD"."""


def needs_of_command(command: Command, catalog: Catalog) -> Iterator[Need]:
    """Of a statement of fixed words; nothing for those that judge by themselves, or are anybody's."""
    if isinstance(command, TypeCommand):
        yield from _of_type(command, catalog)
    elif isinstance(command, ObjectCommand):
        yield from _of_object(command, catalog)
    elif command.name in {"DROP TABLE", "DROP INDEX"}:
        yield from _owned(command.names, catalog, drops=True)
    elif command.name in {"ALTER TABLE", "ALTER INDEX"}:
        yield from _owned(command.names, catalog)
        yield from _of_actions(command, catalog)
    elif command.name == "TRUNCATE":
        yield from _of_truncate(command, catalog)
    elif command.name == "LOCK":
        for name in command.names:
            found = catalog.find(*name)
            if found is not None:
                letters = _LOCKS.get(command.argument, "wdD")
                yield from relation_needs(catalog, found, letters, named=name[0] is not None)
    elif command.name == "CLUSTER":
        yield from _owned(command.names[:1], catalog)
    elif command.name in {"ANALYZE", "VACUUM", "REINDEX"}:
        if command.names and command.argument != "SCHEMA":
            yield from _owned(command.names, catalog)
        else:
            yield Need(DATABASE, OWNER)
    elif command.name == "CHECKPOINT":
        yield Need(
            Subject("", 0, "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT"),
            SUPERUSER,
        )


def needs_of_create(tree: exp.Expression, catalog: Catalog) -> Iterator[Need]:
    """Of CREATE TABLE and CREATE INDEX; of SELECT INTO, too."""
    if isinstance(tree, exp.Create) and str(tree.args.get("kind")).upper() == "INDEX":
        table = tree.this.args.get("table")
        if table is not None:
            yield from _owned(((_schema(table), name_of(table.this)),), catalog)
        return
    target = tree.this if isinstance(tree, exp.Create) else tree.args["into"].this
    target = target.this if isinstance(target, exp.Schema) else target
    into = tree.args.get("into")
    temporary = into is not None and bool(into.args.get("temporary"))
    if tree.find(exp.TemporaryProperty) is not None or temporary or _schema(target) == "pg_temp":
        yield Need(DATABASE, "T")
    else:
        yield from _creates(catalog, _schema(target), name_of(target.this))
    for reference in tree.find_all(exp.Reference):
        node = reference.this.this if isinstance(reference.this, exp.Schema) else reference.this
        if isinstance(node, exp.Table) and name_of(node.this) != name_of(target.this):
            yield from _referred(catalog, _schema(node), name_of(node.this))


def _schema(node: exp.Expression) -> str | None:
    schema = node.args.get("db")
    return None if schema is None else name_of(schema)


def _creates(catalog: Catalog, schema: str | None, name: str) -> Iterator[Need]:
    yield from schema_needs(catalog, target_schema(catalog, schema, name), "C")


def _referred(catalog: Catalog, schema: str | None, name: str) -> Iterator[Need]:
    found = catalog.find(schema, name)
    if isinstance(found, Table):
        yield from relation_needs(catalog, found, "x", named=schema is not None)


def _owned(names: tuple[QualifiedName, ...], catalog: Catalog, *, drops: bool = False) -> Iterator[Need]:
    for schema, name in names:
        found: Relation | None = catalog.find(schema, name)
        if found is None:  # it may be the index of a key, which goes by no name of its own
            found = catalog.table_of_key(schema, name)
        if found is not None:
            yield from owner_needs(catalog, found, drops=drops)


def _of_actions(command: Command, catalog: Catalog) -> Iterator[Need]:
    """ALTER TABLE: what is besides the table."""
    for action in command.actions:
        if action.kind == "SET SCHEMA":
            yield from schema_needs(catalog, action.name, "C")
        for schema, name in _references(action.text):
            if name not in {one for _schema, one in command.names}:
                yield from _referred(catalog, schema, name)


def _references(text: str) -> Iterator[QualifiedName]:
    """The tables after REFERENCES in the text of a column or constraint."""
    if "REFERENCES" not in text.upper():
        return
    cursor = TokenCursor(split(text)[0])
    while cursor.at < len(cursor.tokens):
        if cursor.accept("REFERENCES"):
            name = cursor.name()
            yield (name, cursor.name()) if cursor.accept(".") else (None, name)
        else:
            cursor.at += 1


def _of_truncate(command: Command, catalog: Catalog) -> Iterator[Need]:
    chosen = [found for name in command.names if isinstance(found := catalog.find(*name), Table)]
    named = {(schema is not None, name) for schema, name in command.names}
    if "CASCADE" in command.options:
        for one in chosen:  # it grows meanwhile
            for child, _key in catalog.referencing.get(one.id, ()):
                if child not in chosen:
                    chosen.append(child)
    for one in chosen:
        yield from relation_needs(catalog, one, "D", named=(False, one.name) not in named)
        if "RESTART IDENTITY" in command.options:
            yield from owner_needs(catalog, one)


def _of_type(command: TypeCommand, catalog: Catalog) -> Iterator[Need]:
    for schema, name in command.names:
        if command.name.startswith("CREATE"):
            yield from _creates(catalog, schema, name)
            continue
        for path in catalog.path if schema is None else (schema,):
            found = catalog.object("enum", path, name)
            if found is not None:
                drops = command.name.startswith("DROP")
                instead = schema_subject(catalog, path) if drops else None
                yield Need(subject_of(found), OWNER, instead=instead)
                break


def _of_object(command: ObjectCommand, catalog: Catalog) -> Iterator[Need]:
    name = command.name
    if name == "COMMENT":
        yield from _of_comment(command, catalog)
    elif name == "CREATE SCHEMA":
        yield Need(DATABASE, "C")
    elif name.endswith("SCHEMA"):
        for _none, one in command.names:
            if catalog.has_schema(one):
                yield Need(schema_subject(catalog, one), OWNER)
        if name == "ALTER SCHEMA":
            yield Need(DATABASE, "C")
    elif name.startswith("CREATE"):
        for schema, one in command.names:
            there = catalog.find(schema, one)
            if there is not None and isinstance(there, CatalogObject):
                yield from owner_needs(catalog, there)  # OR REPLACE
            yield from _creates(catalog, schema, one)
    else:
        yield from _owned(command.names, catalog, drops=name.startswith("DROP"))
        if command.action == "SET SCHEMA":
            yield from schema_needs(catalog, command.words[0], "C")


def _of_comment(command: ObjectCommand, catalog: Catalog) -> Iterator[Need]:
    kind, words = command.action, command.words
    if kind == "COLUMN":
        words = words[:-1]
    if kind == "CONSTRAINT":
        yield from _owned(command.names, catalog)
    elif kind == "SCHEMA":
        yield Need(schema_subject(catalog, words[0]), OWNER)
    elif kind in {"DATABASE", "TABLESPACE"}:
        yield Need(DATABASE, OWNER)
    elif kind == "ROLE":
        yield Need(Subject("", 0, "must be superuser to comment on a role"), SUPERUSER)
    elif kind == "TYPE":
        yield from _of_type(TypeCommand("ALTER TYPE", names=(_pair(words),)), catalog)
    else:
        yield from _owned((_pair(words),), catalog)


def _pair(words: tuple[str, ...]) -> QualifiedName:
    return (words[0], words[1]) if len(words) > 1 else (None, words[0])

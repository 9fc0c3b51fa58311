"""ALTER TABLE: its actions, in PostgreSQL's order of passes, to one change of a table.

Each action has a function here or in ``alter_columns``; constraints' own are found by kind in ``ACTIONS``,
too. What they do to the definition and ask of the rows is summed up in a ``TableChange``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import Check, Index, KeyPart
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.alter_table import AlterNothing, AlterTablePlan
from herdpy_sql.execute.define import duplicate
from herdpy_sql.parse import parse, split
from herdpy_sql.plan import alter_attributes, alter_columns
from herdpy_sql.plan.alter_identity import alter_identity, drop_identity
from herdpy_sql.plan.constraints import (
    add_foreign_key,
    add_table_foreign_key,
    alter_constraint,
    drop_constraint,
    rename_constraint,
    validate_constraint,
)
from herdpy_sql.plan.create_table import check_storage_parameter, column_name, ordered, refuse_deferrable
from herdpy_sql.plan.foreign_keys import names_of
from herdpy_sql.plan.names import FreshNames, checked_name, fresh_name
from herdpy_sql.plan.namespace import refuse_temporary_move
from herdpy_sql.plan.remarks import absent_relation, with_remarks
from herdpy_sql.plan.renames import with_column_renamed, with_table_renamed
from herdpy_sql.plan.rules import bind_check, rules_of
from herdpy_sql.plan.scope import find_table, name_of
from herdpy_sql.plan.table_change import TableChange
from herdpy_sql.plan.view_users import rename_in_views
from herdpy_sql.sequences import relation_names

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.parse import Command
    from herdpy_sql.parse.alter_table import AlterAction

_PASSES = (
    ("DROP COLUMN", "DROP CONSTRAINT", "DROP DEFAULT", "DROP NOT NULL", "DROP EXPRESSION", "DROP IDENTITY"),
    ("ALTER TYPE",),
    ("ADD COLUMN",),
    ("SET NOT NULL",),
    ("ADD CONSTRAINT",),
    ("SET DEFAULT",),
)
"""The order in which the actions of one statement are done, whatever order they are written in."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A table constraint as ALTER TABLE ... ADD reads it: its name, if given, and sqlglot's node.

    Attributes:
        not_valid: a CHECK is not asked of the rows there (a foreign key has that among its options).
    """

    label: str | None
    node: exp.Expression
    not_valid: bool = False


def plan_alter(command: Command, catalog: Catalog) -> Plan:
    """The plan of ALTER TABLE. SqlError 42P01, 42703, 42701, 42P16, 42P07, 0A000 and others."""
    ((schema, name),) = command.names
    try:
        table = find_table(catalog, schema, name)
    except SqlError as error:
        if error.sqlstate == "42P01" and "IF EXISTS" in command.options:
            return with_remarks(AlterNothing(), [absent_relation(catalog, "relation", schema, name)])
        raise
    change = TableChange(catalog, table, table)
    for action in sorted(command.actions, key=_pass):
        ACTIONS[action.kind](change, action)
    for add in change.last:
        add()
    return AlterTablePlan(change, rules_of)


def _pass(action: AlterAction) -> int:
    return next((at for at, kinds in enumerate(_PASSES) if action.kind in kinds), len(_PASSES))


# Names.


def _rename_to(change: TableChange, action: AlterAction) -> None:
    name = checked_name(action.text)
    if change.catalog.is_taken(change.table.schema, name):
        raise duplicate(name)
    change.table = with_table_renamed(change.table, name)


def _rename_column(change: TableChange, action: AlterAction) -> None:
    if action.name not in change.table.positions:
        raise SqlError("42703", f'column "{action.name}" does not exist', column=action.name)
    position, name = change.position(action.name), checked_name(action.text)
    alter_columns.refuse_taken(change, name)
    rename_in_views(change, action.name, name)
    change.table = with_column_renamed(change.table, position, name)


# Constraints.


def _add_constraint(change: TableChange, action: AlterAction) -> None:
    add_constraint(change, read_constraint(action.text, action.name or None))


def read_constraint(text: str, label: str | None) -> Constraint:
    """A table constraint's text, without CONSTRAINT and its name. SqlError 42601."""
    text, not_valid = _NOT_VALID.subn("", text) if text[:5].upper() == "CHECK" else (text, 0)
    (statement,) = split(f"CREATE TABLE t (x int, {text})")
    tree = parse(statement)
    assert isinstance(tree, exp.Create)
    _, node = tree.this.expressions
    return Constraint(checked_name(label) if label else None, node, not_valid > 0)


_NOT_VALID = re.compile(r"\s+NOT\s+VALID\s*$", re.IGNORECASE)


def add_constraint(change: TableChange, constraint: Constraint) -> None:
    """Add a constraint that the rows must satisfy."""
    node, label = constraint.node, constraint.label
    if label is not None and label in names_of(change.table):
        raise SqlError("42710", f'constraint "{label}" for relation "{change.table.name}" already exists')
    if isinstance(node, exp.PrimaryKey):
        refuse_deferrable(node)
        _add_key(change, [column_name(one) for one in node.expressions], label)
    elif isinstance(node, exp.UniqueColumnConstraint):
        listed = node.this.expressions if isinstance(node.this, exp.Schema) else []
        if not listed:
            raise SqlError("42601", "syntax error: UNIQUE needs a list of columns")
        refuse_deferrable(node)
        add_unique(change, [column_name(one) for one in listed], label)
    elif isinstance(node, exp.CheckColumnConstraint):
        names = list(dict.fromkeys(name_of(one.this) for one in node.this.find_all(exp.Column)))
        add_check(change, names, node.this, label, not_valid=constraint.not_valid)
    elif isinstance(node, exp.ForeignKey):
        change.last.append(partial(add_table_foreign_key, change, node, label))
    elif isinstance(node, exp.PrimaryKeyColumnConstraint):
        raise SqlError("42601", "syntax error: PRIMARY KEY needs a list of columns")
    else:
        raise SqlError("0A000", f"constraint {node.sql('postgres')} is not supported")


def _add_key(change: TableChange, columns: list[str], label: str | None) -> None:
    table = change.table
    if not table.has_hidden_key:
        raise SqlError("42P16", f'multiple primary keys for table "{table.name}" are not allowed')
    parts = _parts(change, columns)
    names = _names(change)
    names.taken.discard(table.key_name)
    if label is not None and label in names.taken:
        raise duplicate(label)
    change.set_key(parts, label or names.new([], "pkey"))


def add_unique(change: TableChange, columns: list[str], label: str | None) -> None:
    """Add a UNIQUE constraint."""
    parts = _parts(change, columns)
    names = _names(change)
    if label is not None and label in names.taken:
        raise duplicate(label)
    name = label or names.new(columns, "key")
    change.fresh.append(Index(0, name, change.table.id, parts, unique=True, constraint=True))


def add_check(
    change: TableChange,
    columns: list[str],
    condition: exp.Expression,
    label: str | None,
    *,
    not_valid: bool = False,
) -> None:
    """Add a CHECK constraint."""
    table = change.table
    bind_check(table, condition)
    name = label or fresh_name(table.name, columns if len(columns) == 1 else (), "check", names_of(table))
    change.add_check(Check(name, condition.sql("postgres"), validated=not not_valid))


def _names(change: TableChange) -> FreshNames:
    names = FreshNames(change.table.name, change.catalog, change.table.schema)
    names.taken |= {index.name for index in change.fresh}
    return names


def _parts(change: TableChange, columns: list[str]) -> tuple[KeyPart, ...]:
    table, found = change.table, []
    for i, column in enumerate(columns):
        position = table.positions.get(column)
        if position is None or table.columns[position].hidden:
            raise SqlError("42703", f'column "{column}" named in key does not exist', column=column)
        if column in columns[:i]:
            raise SqlError("42701", f'column "{column}" appears twice in a key constraint', column=column)
        ordered(column, table.columns[position].type)
        found.append(KeyPart(position))
    return tuple(found)


# Columns.


def _add_column(change: TableChange, action: AlterAction) -> None:
    draft = alter_columns.add_column(change, action)
    if draft is None:
        return
    if draft.key is not None:
        _add_key(change, draft.key.columns, draft.key.name)
    for unique in draft.uniques:
        add_unique(change, unique.columns, unique.name)
    for label, columns, condition in draft.checks:
        add_check(change, columns, condition, label)
    for label, columns, node in draft.foreign_keys:
        change.last.append(partial(add_foreign_key, change, columns, node, label))


# The rest.


def _identity(change: TableChange, action: AlterAction) -> None:
    change.table = replace(change.table, identity_full=action.name == "FULL")


def _storage(change: TableChange, action: AlterAction) -> None:
    """Known parameters, which have no meaning here."""
    for one in action.text.split(","):
        if one.strip() and not action.name:
            check_storage_parameter(one.split("=")[0].strip().lower())
    if action.name:
        change.position(action.name)


def _owner(change: TableChange, action: AlterAction) -> None:
    roles = change.catalog.roles
    if roles is not None and action.name not in {*roles, "current_user", "session_user", "current_role"}:
        raise SqlError("42704", f'role "{action.name}" does not exist')


def _set_schema(change: TableChange, action: AlterAction) -> None:
    table, name = change.table, action.name
    refuse_temporary_move(table.schema, name)
    if name != "public" and change.catalog.object("schema", "", name) is None:
        raise SqlError("3F000", f'schema "{name}" does not exist')
    if table.schema == name:
        return
    if change.catalog.object("enum", name, table.name) is not None:
        raise SqlError("42710", f'type "{table.name}" already exists in schema "{name}"')
    for one in relation_names(table, change.catalog):
        if change.catalog.is_taken(name, one):
            raise SqlError("42P07", f'relation "{one}" already exists in schema "{name}"')
    change.table = replace(table, schema=name)


ACTIONS: dict[str, Callable[[TableChange, AlterAction], None]] = {
    "RENAME TO": _rename_to,
    "RENAME COLUMN": _rename_column,
    "RENAME CONSTRAINT": rename_constraint,
    "ADD CONSTRAINT": _add_constraint,
    "DROP CONSTRAINT": drop_constraint,
    "ALTER CONSTRAINT": alter_constraint,
    "VALIDATE CONSTRAINT": validate_constraint,
    "ADD COLUMN": _add_column,
    "DROP COLUMN": alter_columns.drop_column,
    "ALTER TYPE": alter_columns.alter_type,
    "SET DEFAULT": alter_attributes.set_default,
    "DROP DEFAULT": alter_attributes.set_default,
    "SET NOT NULL": alter_attributes.set_not_null,
    "DROP NOT NULL": alter_attributes.drop_not_null,
    "DROP EXPRESSION": alter_attributes.drop_expression,
    "DROP IDENTITY": drop_identity,
    "ALTER IDENTITY": alter_identity,
    "REPLICA IDENTITY": _identity,
    "STORAGE": _storage,
    "OWNER TO": _owner,
    "SET SCHEMA": _set_schema,
}
"""What each kind of action does; constraints' and sequences' modules put theirs in."""

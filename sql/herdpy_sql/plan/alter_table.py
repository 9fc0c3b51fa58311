"""ALTER TABLE: its actions, in PostgreSQL's order of passes, to one change of a table.

A parsed command comes in. Each of its actions has a function in ``_ACTIONS``, which says in a ``TableChange``
what becomes of the definition and what is asked of the rows; ``AlterTablePlan`` carries the whole out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import expressions as exp
from sqlglot.dialects.postgres import Postgres

from herdpy_sql.catalog import HIDDEN_KEY, Check, Column, Index, KeyPart
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.alter_table import AlterNothing, AlterTablePlan, TableChange, dropped_column
from herdpy_sql.execute.define import detach, duplicate
from herdpy_sql.execute.links import unique_access
from herdpy_sql.execute.references import validate_foreign_key
from herdpy_sql.expr import Params, bind, coerce, compile_expr, is_volatile
from herdpy_sql.expr.scope import Scope
from herdpy_sql.node_names import refusal
from herdpy_sql.parse import parse, split
from herdpy_sql.parse.lexer import TokenCursor
from herdpy_sql.parse.object_commands import sequence_option, sequence_options
from herdpy_sql.plan.create_table import (
    MAX_COLUMNS,
    Deferral,
    check_storage_parameters,
    column_draft,
    column_name,
    column_of,
    deferral,
    ordered,
)
from herdpy_sql.plan.drop import CASCADE_HINT
from herdpy_sql.plan.indexes import expression_type
from herdpy_sql.plan.names import (
    FreshNames,
    absent_relation,
    cascaded,
    checked_name,
    notice,
    refuse_temporary_move,
    with_remarks,
)
from herdpy_sql.plan.own import own
from herdpy_sql.plan.rules import (
    bind_check,
    bind_default,
    bind_foreign_key,
    bind_generated,
    check_types,
    columns_named,
    default_expr,
    names_of,
    rules_of,
    scalar,
)
from herdpy_sql.plan.scope import find_table, name_of
from herdpy_sql.plan.sequences import altered, sequence_of
from herdpy_sql.plan.type_names import mark_types
from herdpy_sql.plan.views import drop_views, refuse_retyping, rename_in_views
from herdpy_sql.sequences import fresh_name, owned_by, relation_names
from herdpy_sql.types import BIGINT, MOMENTS, Base

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.foreign_keys import ForeignKey
    from herdpy_sql.objects import CatalogObject
    from herdpy_sql.parse import Command
    from herdpy_sql.parse.commands import AlterAction
    from herdpy_sql.parse.object_commands import Option
    from herdpy_sql.plan.create_table import Draft
    from herdpy_sql.storage import View
    from herdpy_sql.types import SqlType


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
class AddedConstraint:
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
    return AlterTablePlan(changed_table(command, table, catalog), rules_of)


def changed_table(command: Command, table: Table, catalog: Catalog) -> TableChange:
    """What the actions of ALTER TABLE make of a table. SqlError as of :func:`plan_alter`."""
    change = TableChange(catalog, table, table)
    for action in sorted(command.actions, key=_pass):
        _ACTIONS[action.kind](change, action)
    for add in change.last:
        add()
    return change


def _pass(action: AlterAction) -> int:
    return next((at for at, kinds in enumerate(_PASSES) if action.kind in kinds), len(_PASSES))


# --- names ----------------------------------------------------------------------------------------


def _rename_to(change: TableChange, action: AlterAction) -> None:
    name = checked_name(action.text)
    if change.catalog.is_taken(change.table.schema, name):
        raise duplicate(name)
    change.table = renamed_table(change.table, name)


def _rename_column(change: TableChange, action: AlterAction) -> None:
    if action.name not in change.table.positions:
        raise SqlError("42703", f'column "{action.name}" does not exist', column=action.name)
    position, name = change.position(action.name), checked_name(action.text)
    _refuse_taken(change, name)
    rename_in_views(change, action.name, name)
    change.table = _with_column_renamed(change.table, position, name)


def _with_column_renamed(table: Table, position: int, name: str) -> Table:
    """The table with a column of another name, in its expressions too."""
    old = table.columns[position].name

    def rename(node: exp.Column) -> None:
        if name_of(node.this) == old:
            node.set("this", _identifier(name))

    columns = list(table.columns)
    columns[position] = replace(columns[position], name=name)
    return _with_expressions(replace(table, columns=tuple(columns)), rename)


def renamed_table(table: Table, name: str) -> Table:
    """The table with another name, which may qualify columns in its expressions."""
    old = table.name

    def rename(node: exp.Column) -> None:
        qualifier = node.args.get("table")
        if qualifier is not None and name_of(qualifier) == old:
            node.set("table", _identifier(name))

    return _with_expressions(replace(table, name=name), rename)


def _identifier(name: str) -> exp.Identifier:
    """The name in a text, quoted where it must be, or might have to be."""
    plain = _PLAIN.match(name) and name.upper() not in Postgres.Tokenizer.KEYWORDS
    return exp.to_identifier(name, quoted=not plain)


_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")


def _with_expressions(table: Table, rename: Callable[[exp.Column], None]) -> Table:
    checks = tuple(
        replace(check, condition=_renamed_expression(check.condition, rename)) for check in table.checks
    )
    columns = tuple(
        column
        if column.generated is None
        else replace(column, generated=_renamed_expression(column.generated, rename))
        for column in table.columns
    )
    return replace(table, checks=checks, columns=columns)


def _renamed_expression(text: str, rename: Callable[[exp.Column], None]) -> str:
    tree = scalar(text)
    for node in list(tree.find_all(exp.Column)):
        if isinstance(node.this, exp.Identifier):
            rename(node)
    return tree.sql("postgres")


# --- columns: added, dropped, of another type -----------------------------------------------------


def _add_column(change: TableChange, action: AlterAction) -> None:
    draft = _new_column(change, action)
    if draft is None:
        return
    if draft.key is not None:
        _add_key(change, draft.key.columns, draft.key.name, draft.key.when)
    for unique in draft.uniques:
        add = _add_key if unique.primary else _add_unique
        add(change, unique.columns, unique.name, unique.when)
    for label, columns, condition in draft.checks:
        _add_check(change, columns, condition, label)
    for label, columns, node in draft.foreign_keys:
        change.last.append(partial(_add_foreign_key, change, columns, node, label))


_TEXTS = (Base.TEXT, Base.VARCHAR)


def _refuse_taken(change: TableChange, name: str) -> None:
    """42701 for the name of a column that there is."""
    if name in change.table.positions:
        raise SqlError(
            "42701",
            f'column "{name}" of relation "{change.table.name}" already exists',
            column=name,
            table=change.table.name,
        )


def _new_column(change: TableChange, action: AlterAction) -> Draft | None:
    """ADD COLUMN: the column itself; its constraints are in the draft. None when it is there already."""
    if action.name in change.table.positions and "IF NOT EXISTS" in action.options:
        what = f'column "{action.name}" of relation "{change.table.name}"'
        change.remarks.append(notice(f"{what} already exists, skipping", "42701"))
        return None
    (statement,) = split(f"CREATE TABLE t ({action.text})")
    tree = parse(statement)
    assert isinstance(tree, exp.Create)
    mark_types(tree, change.catalog)
    (part,) = tree.this.expressions
    if not isinstance(part, exp.ColumnDef):
        raise SqlError("42601", f'syntax error at or near "{part.sql("postgres")}"')
    draft = column_draft(change.table.name, part)
    ((name, one),) = draft.columns.items()
    _refuse_taken(change, name)
    if len(change.table.columns) >= MAX_COLUMNS:
        raise SqlError("54011", f"tables can have at most {MAX_COLUMNS} columns")
    column = column_of(name, one)
    position = change.add_column(column)
    if one.sequence is not None:
        change.sequences[position] = one.sequence
        change.rewritten = True
    elif column.generated is not None:
        bind_generated(change.table, position)
        change.rewritten = True
    elif column.default is not None:
        _fill(change, position, column)
    if column.not_null:
        change.not_null.add(position)
    return draft


def _fill(change: TableChange, position: int, column: Column) -> None:
    """Let the rows there have the default of an added column: one value, or one for each."""
    assert column.default is not None
    default = default_expr(column.name, column.type, scalar(column.default))
    if is_volatile(default):
        change.rewritten = True
        change.convert[position] = compile_expr(default)
    else:
        change.missing[position] = compile_expr(default)


def _drop_column(change: TableChange, action: AlterAction) -> None:
    """DROP COLUMN. SqlError 2BP01 when a generated column needs it."""
    table = change.table
    if action.name not in table.positions and "IF EXISTS" in action.options:
        what = f'column "{action.name}" of relation "{table.name}"'
        change.remarks.append(notice(f"{what} does not exist, skipping"))
        return
    position = change.position(action.name)
    cascade = "CASCADE" in action.options
    reasons = drop_views(change, action.name, cascade=cascade)
    users = _generated_of(table, action.name)
    shown = [at for at in users if not table.columns[at].hidden]
    if shown and not cascade:
        name = table.columns[shown[0]].name
        raise SqlError(
            "2BP01",
            f"cannot drop column {action.name} of table {table.name} because other objects depend on it",
            detail=f"column {name} of table {table.name} depends on "
            f"column {action.name} of table {table.name}",
            hint="Use DROP ... CASCADE to drop the dependent objects too.",
        )
    reasons += [f"column {table.columns[at].name} of table {table.name}" for at in shown]
    for at in (*users, position):
        reasons += _drop_foreign_keys_of(change, at, cascade=cascade)
        _without_column(change, at)
    change.remarks += cascaded(reasons)


def _without_column(change: TableChange, position: int) -> None:
    """Drop a column, and the indexes, checks and key that are about it."""
    column = change.table.columns[position]
    for index in change.indexes:
        if index.predicate == position or any(part.position == position for part in index.parts):
            change.drop_index(index)
    if position in change.table.key_positions:
        change.leave_hidden_key(position)
        _drop_key(change)
    kept = tuple(one for one in change.table.checks if column.name not in columns_named(one.condition))
    change.checks -= {one.name for one in change.table.checks} - {one.name for one in kept}
    change.table = replace(change.table, checks=kept)
    change.convert.pop(position, None)
    change.missing.pop(position, None)
    change.not_null.discard(position)
    change.set_column(position, dropped_column(column, position))


def _generated_of(table: Table, name: str) -> list[int]:
    """The columns that are generated from that one, hidden ones too."""
    return [
        at
        for at, column in enumerate(table.columns)
        if column.generated is not None and not column.dropped and name in columns_named(column.generated)
    ]


def _alter_type(change: TableChange, action: AlterAction) -> None:
    """ALTER COLUMN ... TYPE: rows are converted, indexes and constraints made for the new type."""
    position = change.position(action.name)
    column = change.table.columns[position]
    refuse_retyping(change.catalog, change.old, column.name)
    if position in change.retyped:
        raise SqlError("0A000", f'cannot alter type of column "{column.name}" twice', column=column.name)
    change.retyped.add(position)
    target = _type(change, action)
    if column.identity:
        _retype_identity(change, position, target)
    users = _generated_of(change.table, column.name)
    shown = [at for at in users if not change.table.columns[at].hidden]
    if shown:
        raise SqlError(
            "0A000",
            "cannot alter type of a column used by a generated column",
            detail=f'Column "{column.name}" is used by generated column '
            f'"{change.table.columns[shown[0]].name}".',
        )
    if column.generated is not None:
        _retype_generated(change, position, target, action.using)
        return
    value = _converted(change, position, target, action.using)
    change.leave_hidden_key(position)
    default = column.default
    if default is not None:
        default = _default_for(column, target)
    if any(position == part.position for index in change.indexes for part in index.parts) or (
        position in change.table.key_positions
    ):
        ordered(column.name, target)
    same = not action.using and _is_same_image(column.type, target)
    missing = column.missing if same else None
    change.set_column(position, replace(column, type=target, default=default, missing=missing))
    _revalidate_foreign_keys(change, position)
    for at in users:  # of indexes on expressions, which are of what type the expression is now
        change.set_column(at, replace(change.table.columns[at], type=expression_type(change.table, at)))
    if same:
        return
    change.rewritten = True
    change.convert[position] = compile_expr(value)
    if column.not_null:
        change.not_null.add(position)
    change.checks |= {one.name for one in change.table.checks if column.name in columns_named(one.condition)}
    if users:
        change.checks |= {one.name for one in change.table.checks}


def _retype_generated(change: TableChange, position: int, target: SqlType, using: str) -> None:
    """Have a generated column computed as a value of another type."""
    column = change.table.columns[position]
    if using:
        raise SqlError(
            "42611",
            "cannot specify USING when altering type of generated column",
            detail=f'Column "{column.name}" is a generated column.',
            column=column.name,
        )
    if any(position == part.position for index in change.indexes for part in index.parts):
        ordered(column.name, target)
    change.set_column(position, replace(column, type=target))
    bind_generated(change.table, position)
    change.rewritten = True
    if column.not_null:
        change.not_null.add(position)
    change.checks |= {one.name for one in change.table.checks}


def _is_same_image(old: SqlType, new: SqlType) -> bool:
    """Whether every value of one type is, as it is kept, one of the other."""
    if old == new:
        return True
    if old.base in _TEXTS and new.base in _TEXTS:
        return new.length is None or (old.length is not None and new.length >= old.length)
    if old.base is new.base and old.base in MOMENTS:
        return new.precision is None or (old.precision is not None and new.precision >= old.precision)
    return old.base is new.base is Base.INTERVAL and not new.is_rounded_time


def _type(change: TableChange, action: AlterAction) -> SqlType:
    (statement,) = split(f"CREATE TABLE t (x {action.text})")
    tree = parse(statement)
    assert isinstance(tree, exp.Create)
    mark_types(tree, change.catalog)
    (part,) = tree.this.expressions
    draft = column_draft("t", part)
    ((_, one),) = draft.columns.items()
    if one.sequence is not None:
        raise SqlError("42704", f'type "{action.text.lower()}" does not exist')
    for constraint in part.args.get("constraints") or ():
        if not isinstance(constraint.args["kind"], exp.CollateColumnConstraint):
            raise SqlError("42601", f'syntax error at or near "{constraint.sql("postgres").split()[0]}"')
    return one.type


def _converted(change: TableChange, position: int, target: SqlType, using: str) -> Expr:
    """The new value over the old row. SqlError 42804 when there is no such cast by assignment."""
    old = change.old
    column = change.table.columns[position]
    scope, params = Scope(clause="USING"), Params()
    scope.add_table(old.name, old)
    try:
        if using:
            node = scalar(using)
            mark_types(node, change.catalog)
            found = own(bind(node, scope, params, target), "ALTER COLUMN TYPE")
        else:
            found = scope.resolve(None, old.columns[position].name)
        found = coerce(found, target, "assignment", params)
    except SqlError as error:
        if error.sqlstate != "42804":
            raise
        what = f'result of USING clause for column "{column.name}"' if using else f'column "{column.name}"'
        hint = (
            "You might need to add an explicit cast."
            if using
            else f'You might need to specify "USING {column.name}::{target}".'
        )
        raise SqlError(
            "42804", f"{what} cannot be cast automatically to type {target}", hint=hint, column=column.name
        ) from None
    if len(params.types):
        raise SqlError("42P02", "there is no parameter $1")
    return found


def _default_for(column: Column, target: SqlType) -> str | None:
    """The DEFAULT of a column whose type changes. SqlError 42804 when it is none of the new type."""
    assert column.default is not None
    try:
        default = default_expr(column.name, column.type, scalar(column.default))
        coerce(default, target, "assignment", Params())
        return bind_default(column.name, target, scalar(column.default))
    except SqlError as error:
        raise SqlError(
            "42804",
            f'default for column "{column.name}" cannot be cast automatically to type {target}',
            column=column.name,
        ) from error


# --- DEFAULT, NOT NULL and generation of columns --------------------------------------------------


def _set_default(change: TableChange, action: AlterAction) -> None:
    """SET DEFAULT and DROP DEFAULT: of rows to come."""
    position = change.position(action.name)
    column = change.table.columns[position]
    if column.generated is not None:
        raise SqlError(
            "42601",
            f'column "{column.name}" of relation "{change.table.name}" is a generated column',
            hint=None if action.text else "Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead.",
        )
    if column.identity:
        raise SqlError(
            "42601",
            f'column "{column.name}" of relation "{change.table.name}" is an identity column',
            hint=None if action.text else "Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.",
        )
    node = scalar(action.text) if action.text else None
    text = bind_default(column.name, column.type, node)
    change.set_column(position, replace(column, default=text))


def _set_not_null(change: TableChange, action: AlterAction) -> None:
    """SET NOT NULL: 23502 when a row has NULL there."""
    position = change.position(action.name)
    if not change.table.columns[position].not_null:
        change.set_nullable(position, nullable=False)
        change.not_null.add(position)


def primary_key_positions(table: Table, indexes: Iterable[Index]) -> tuple[int, ...]:
    """The columns of the primary key, a deferrable one too; none of a table without one."""
    if not table.has_hidden_key:
        return tuple(table.key_positions)
    return tuple(part.position for one in indexes if one.primary for part in one.parts)


def _drop_not_null(change: TableChange, action: AlterAction) -> None:
    """DROP NOT NULL."""
    position = change.position(action.name)
    if position in primary_key_positions(change.table, change.indexes):
        raise SqlError("42P16", f'column "{action.name}" is in a primary key', column=action.name)
    if change.table.columns[position].identity:
        what = f'column "{action.name}" of relation "{change.table.name}"'
        raise SqlError("42601", f"{what} is an identity column", column=action.name)
    change.not_null.discard(position)
    change.set_nullable(position, nullable=True)


def _drop_expression(change: TableChange, action: AlterAction) -> None:
    """DROP EXPRESSION: a generated column becomes an ordinary one, its values stay."""
    position = change.position(action.name)
    column = change.table.columns[position]
    if column.generated is None:
        message = f'column "{column.name}" of relation "{change.table.name}" is not a stored generated column'
        if "IF EXISTS" not in action.options:
            raise SqlError("55000", message)
        change.remarks.append(notice(f"{message}, skipping"))
        return
    change.set_column(position, replace(column, generated=None))


# --- identity columns -----------------------------------------------------------------------------


def _alter_identity(change: TableChange, action: AlterAction) -> None:
    """ADD GENERATED, SET GENERATED, SET with options of a sequence, RESTART. SqlError 55000, 42601, 22023."""
    position = change.position(action.name)
    cursor = TokenCursor(split(action.text)[0])
    cursor.at = 0
    try:
        (_add_identity if cursor.accept("ADD", "GENERATED") else _set_identity)(change, position, cursor)
        cursor.done()
    except SqlError as error:
        error.position = None  # it would be one in the action's text
        raise


def _drop_identity(change: TableChange, action: AlterAction) -> None:
    """DROP IDENTITY [IF EXISTS]: the values stay, the sequence goes. SqlError 55000."""
    position = change.position(action.name)
    column = change.table.columns[position]
    if not column.identity:
        message = f"{_what(change, column)} is not an identity column"
        if "IF EXISTS" not in action.options:
            raise SqlError("55000", message)
        change.remarks.append(notice(f"{message}, skipping"))
        return
    change.set_column(position, replace(column, identity="", default=None))

    def drop(view: View, one: CatalogObject) -> None:
        view.drop_object(one)

    _with_sequence(change, position, drop)


def _add_identity(change: TableChange, position: int, cursor: TokenCursor) -> None:
    how = _generated(cursor)
    if not cursor.accept("AS", "IDENTITY"):
        raise cursor.fail()
    options: tuple[tuple[str, Option], ...] = ()
    if cursor.accept("("):
        options = sequence_options(cursor)
        if not cursor.accept(")"):
            raise cursor.fail()
    column = change.table.columns[position]
    definition = sequence_of(dict(options), column.type)
    if not column.not_null:
        raise SqlError(
            "55000", f"{_what(change, column)} must be declared NOT NULL before identity can be added"
        )
    if column.identity:
        raise SqlError("55000", f"{_what(change, column)} is already an identity column")
    if column.default is not None or column.generated is not None:
        raise SqlError("55000", f"{_what(change, column)} already has a default value")
    change.set_column(position, replace(column, identity=how))
    change.sequences[position] = definition


def _set_identity(change: TableChange, position: int, cursor: TokenCursor) -> None:
    how, options = "", dict[str, "Option"]()
    while cursor.peek():
        if cursor.accept("SET", "GENERATED"):
            if how:
                raise SqlError("42601", "conflicting or redundant options")
            how = _generated(cursor)
            continue
        if cursor.peek() != "RESTART" and not cursor.accept("SET"):
            raise cursor.fail()
        name, value = sequence_option(cursor)
        if name in options:
            raise SqlError("42601", "conflicting or redundant options")
        if name in {"as", "owned"}:
            raise SqlError(
                "42601", f'sequence option "{name if name == "as" else "owned_by"}" not supported here'
            )
        options[name] = value
    column = change.table.columns[position]
    if not column.identity:
        raise SqlError("55000", f"{_what(change, column)} is not an identity column")
    if how:
        change.set_column(position, replace(column, identity=how))
    if options:
        _with_sequence(change, position, lambda view, one: altered(one, options)(view))


def _retype_identity(change: TableChange, position: int, target: SqlType) -> None:
    """Have the sequence of a column count in the column's new type. SqlError 22023 when it cannot."""
    kind = sequence_of({}, target).type
    _with_sequence(change, position, lambda view, one: altered(one, {"as": kind})(view))


def _generated(cursor: TokenCursor) -> str:
    if cursor.accept("ALWAYS"):
        return "ALWAYS"
    if cursor.accept("BY", "DEFAULT"):
        return "BY DEFAULT"
    raise cursor.fail()


def _what(change: TableChange, column: Column) -> str:
    return f'column "{column.name}" of relation "{change.table.name}"'


def _with_sequence(change: TableChange, position: int, work: Callable[[View, CatalogObject], None]) -> None:
    """Do something to the identity sequence of a column once the new definition is in force."""

    def afterwards(view: View, table: Table, clock: Clock) -> Generator[None, None, None]:
        for one in owned_by(view.catalog, table, position):
            if one.definition.identity:  # type: ignore[union-attr]
                work(view, one)
        yield

    change.afterwards.append(afterwards)


# --- keys, UNIQUE, CHECK and foreign keys: added --------------------------------------------------


def _add_constraint(change: TableChange, action: AlterAction) -> None:
    _place_constraint(change, _read_constraint(action.text, action.name or None))


def _read_constraint(text: str, label: str | None) -> AddedConstraint:
    """A table constraint's text, without CONSTRAINT and its name. SqlError 42601."""
    text, not_valid = _NOT_VALID.subn("", text) if text[:5].upper() == "CHECK" else (text, 0)
    (statement,) = split(f"CREATE TABLE t (x int, {text})")
    tree = parse(statement)
    assert isinstance(tree, exp.Create)
    _, node = tree.this.expressions
    return AddedConstraint(checked_name(label) if label else None, node, not_valid > 0)


_NOT_VALID = re.compile(r"\s+NOT\s+VALID\s*$", re.IGNORECASE)


def _place_constraint(change: TableChange, constraint: AddedConstraint) -> None:
    """Add a constraint that the rows must satisfy."""
    node, label = constraint.node, constraint.label
    if label is not None and label in names_of(change.table):
        raise SqlError("42710", f'constraint "{label}" for relation "{change.table.name}" already exists')
    if isinstance(node, exp.PrimaryKey):
        _add_key(change, [column_name(one) for one in node.expressions], label, deferral(node))
    elif isinstance(node, exp.UniqueColumnConstraint):
        listed = node.this.expressions if isinstance(node.this, exp.Schema) else []
        if not listed:
            raise SqlError("42601", "syntax error: UNIQUE needs a list of columns")
        _add_unique(change, [column_name(one) for one in listed], label, deferral(node))
    elif isinstance(node, exp.CheckColumnConstraint):
        names = list(dict.fromkeys(name_of(one.this) for one in node.this.find_all(exp.Column)))
        _add_check(change, names, node.this, label, not_valid=constraint.not_valid)
    elif isinstance(node, exp.ForeignKey):
        change.last.append(partial(_add_table_foreign_key, change, node, label))
    elif isinstance(node, exp.PrimaryKeyColumnConstraint):
        raise SqlError("42601", "syntax error: PRIMARY KEY needs a list of columns")
    else:
        raise refusal(node)


def _add_key(change: TableChange, columns: list[str], label: str | None, when: Deferral) -> None:
    table = change.table
    if not table.has_hidden_key or any(one.primary for one in (*change.indexes, *change.fresh)):
        raise SqlError("42P16", f'multiple primary keys for table "{table.name}" are not allowed')
    parts = _parts(change, columns)
    names = _names(change)
    names.taken.discard(table.key_name)
    if label is not None and label in names.taken:
        raise duplicate(label)
    name = label or names.new([], "pkey")
    if not when.deferrable:
        change.set_key(parts, name)
        return
    for part in parts:
        if not table.columns[part.position].not_null:
            change.set_nullable(part.position, nullable=False)
            change.not_null.add(part.position)
    change.fresh.append(_deferrable(change, name, parts, when, primary=True))


def _deferrable(
    change: TableChange, name: str, parts: tuple[KeyPart, ...], when: Deferral, *, primary: bool = False
) -> Index:
    if change.table.is_routed:
        raise SqlError("0A000", "DEFERRABLE constraints of partitioned tables are not supported")
    return Index(
        0,
        name,
        change.table.id,
        parts,
        constraint=True,
        deferrable=True,
        deferred=when.deferred,
        primary=primary,
    )


def _add_unique(change: TableChange, columns: list[str], label: str | None, when: Deferral) -> None:
    """Add a UNIQUE constraint."""
    parts = _parts(change, columns)
    names = _names(change)
    if label is not None and label in names.taken:
        raise duplicate(label)
    name = label or names.new(columns, "key")
    if when.deferrable:
        change.fresh.append(_deferrable(change, name, parts, when))
    else:
        change.fresh.append(Index(0, name, change.table.id, parts, unique=True, constraint=True))


def _add_check(
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


def _drop_key(change: TableChange) -> None:
    """Let the rows be keyed by a hidden number; the columns stay NOT NULL."""
    if change.table.has_hidden_key:
        return
    position = change.add_column(Column(HIDDEN_KEY, BIGINT, not_null=True, hidden=True))
    names = FreshNames(change.table.name, change.catalog, change.table.schema)
    names.taken.discard(change.table.key_name)
    change.table = replace(change.table, key=(KeyPart(position),), key_name=names.new([], "pkey"))
    change.rewritten = True


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


# --- foreign keys, and constraints of every kind dropped, validated, renamed ----------------------


def _add_foreign_key(
    change: TableChange, columns: Sequence[str], node: exp.Reference, label: str | None
) -> None:
    """Add a foreign key, which the rows must satisfy unless it is NOT VALID."""
    # What the statement makes in the same breath can be referred to.
    table = replace(change.table, indexes=change.indexes)
    one = bind_foreign_key(table, columns, node, label, change.catalog)
    change.table = replace(change.table, foreign_keys=(*change.table.foreign_keys, one))
    change.afterwards.append(_validation(one) if one.validated else _locking(one))


def _add_table_foreign_key(change: TableChange, node: exp.ForeignKey, label: str | None) -> None:
    """Add FOREIGN KEY (columns) REFERENCES ..."""
    columns = [name_of(one.this if isinstance(one, exp.Column) else one) for one in node.expressions]
    _add_foreign_key(change, columns, node.args["reference"], label)


def _validation(one: ForeignKey) -> Callable[[View, Table, Clock], Generator[None, None, None]]:
    def validate(view: View, table: Table, clock: Clock) -> Generator[None, None, None]:
        del clock
        yield from validate_foreign_key(view, table, one.name)

    return validate


def _locking(one: ForeignKey) -> Callable[[View, Table, Clock], Generator[None, None, None]]:
    """Transactions that delete from the other table now do not know of the key yet: wait for their end."""

    def lock(view: View, table: Table, clock: Clock) -> Generator[None, None, None]:
        del table, clock
        view.lock_definition(view.catalog.tables[one.table_id])
        yield

    return lock


def _revalidate_foreign_keys(change: TableChange, position: int) -> None:
    """The type of a column changed: the foreign keys on both of its sides are looked at again. 42804."""
    table = change.table
    for one in table.foreign_keys:
        if position in one.columns or (one.table_id == table.id and position in one.referenced):
            parent = table if one.table_id == table.id else change.catalog.tables[one.table_id]
            check_types(one, table, parent)
            change.afterwards.append(_validation(one))
    for child, one in change.catalog.referencing.get(table.id, ()):
        if child.id != table.id and position in one.referenced:
            check_types(one, child, table)
            change.afterwards.append(_validation_of(child.id, one))


def _validation_of(
    number: int, one: ForeignKey
) -> Callable[[View, Table, Clock], Generator[None, None, None]]:
    def validate(view: View, table: Table, clock: Clock) -> Generator[None, None, None]:
        del table, clock
        yield from validate_foreign_key(view, view.catalog.tables[number], one.name)

    return validate


def _drop_constraint(change: TableChange, action: AlterAction) -> None:
    """DROP CONSTRAINT. SqlError 42704, 2BP01 where foreign keys need it."""
    table, name = change.table, action.name
    index = next((one for one in change.indexes if one.constraint and one.name == name), None)
    if any(one.name == name for one in table.foreign_keys):
        kept = tuple(one for one in table.foreign_keys if one.name != name)
        change.table = replace(table, foreign_keys=kept)
    elif any(one.name == name for one in table.checks):
        change.table = replace(table, checks=tuple(one for one in table.checks if one.name != name))
        change.checks.discard(name)
    elif index is not None:
        change.drop_index(index)
        _detach(change, action, _is_orphaned(change))
    elif name == table.key_name and not table.has_hidden_key:
        _drop_key(change)
        _detach(change, action, _is_orphaned(change))
    elif "IF EXISTS" not in action.options:
        raise _missing_constraint(table, name)
    else:
        change.remarks.append(notice(f"{_missing_constraint(table, name).message}, skipping"))


def _is_orphaned(change: TableChange) -> Callable[[ForeignKey], bool]:
    """Whether nothing of the table is unique any more by what a foreign key refers to."""
    table = replace(change.table, indexes=change.indexes)
    return lambda one: unique_access(table, one.referenced) is None


def _drop_foreign_keys_of(change: TableChange, position: int, *, cascade: bool) -> list[str]:
    """A column goes: foreign keys from it go with it, those to it with CASCADE, or it stays: 2BP01.

    What is given names those to it.
    """
    table = change.table
    dependents = _referencing(change, lambda one: position in one.referenced)
    if dependents and not cascade:
        raise _needed(f"column {table.columns[position].name} of table {table.name}", dependents)
    _forget(change, dependents)
    kept = tuple(one for one in change.table.foreign_keys if position not in one.columns)
    change.table = replace(change.table, foreign_keys=kept)
    return [f"constraint {one.name} on table {child.name}" for child, one in dependents]


def _detach(change: TableChange, action: AlterAction, concerned: Callable[[ForeignKey], bool]) -> None:
    """Drop the foreign keys that need what goes, with CASCADE; 2BP01 without."""
    dependents = _referencing(change, concerned)
    if dependents and "CASCADE" not in action.options:
        what = f"constraint {action.name} on table {change.table.name}"
        raise _needed(what, dependents, f"index {action.name}")
    _forget(change, dependents)
    change.remarks += cascaded([f"constraint {one.name} on table {child.name}" for child, one in dependents])


def _referencing(
    change: TableChange, concerned: Callable[[ForeignKey], bool]
) -> list[tuple[Table, ForeignKey]]:
    table = change.table
    found = [(table, one) for one in table.foreign_keys if one.table_id == table.id and concerned(one)]
    for child, one in change.catalog.referencing.get(table.id, ()):
        if child.id != table.id and concerned(one):
            found.append((child, one))
    return found


def _forget(change: TableChange, gone: Sequence[tuple[Table, ForeignKey]]) -> None:
    own = [one for child, one in gone if child.id == change.table.id]
    kept = tuple(one for one in change.table.foreign_keys if one not in own)
    change.table = replace(change.table, foreign_keys=kept)
    others = [(child.id, one.name) for child, one in gone if child.id != change.table.id]
    if others:

        def forget(view: View, table: Table, clock: Clock) -> Generator[None, None, None]:
            del table, clock
            detach(view, others)
            yield

        change.afterwards.insert(0, forget)


def _needed(what: str, dependents: Sequence[tuple[Table, ForeignKey]], on: str | None = None) -> SqlError:
    return SqlError(
        "2BP01",
        f"cannot drop {what} because other objects depend on it",
        detail="\n".join(
            f"constraint {one.name} on table {child.name} depends on {on or what}"
            for child, one in dependents
        ),
        hint=CASCADE_HINT,
    )


def _validate_constraint(change: TableChange, action: AlterAction) -> None:
    """VALIDATE CONSTRAINT. SqlError 42704, 42809, and 23503 or 23514 of a row that is refused."""
    table, name = change.table, action.name
    for one in table.foreign_keys:
        if one.name == name:
            if not one.validated:
                _put_foreign_key(change, replace(one, validated=True))
                change.afterwards.append(_validation(one))
            return
    for check in table.checks:
        if check.name == name:
            if not check.validated:
                made = tuple(replace(c, validated=True) if c is check else c for c in table.checks)
                change.table = replace(table, checks=made)
                change.checks.add(name)
            return
    if name not in names_of(table):
        raise _missing_constraint(table, name)
    raise SqlError(
        "42809", f'constraint "{name}" of relation "{table.name}" is not a foreign key or check constraint'
    )


def _put_foreign_key(change: TableChange, changed: ForeignKey) -> None:
    keys = tuple(changed if one.name == changed.name else one for one in change.table.foreign_keys)
    change.table = replace(change.table, foreign_keys=keys)


def _alter_constraint(change: TableChange, action: AlterAction) -> None:
    """ALTER CONSTRAINT ... [NOT] DEFERRABLE, INITIALLY DEFERRED | IMMEDIATE."""
    table, name = change.table, action.name
    one = next((key for key in table.foreign_keys if key.name == name), None)
    if one is None:
        if name not in names_of(table):
            raise _missing_constraint(table, name)
        raise SqlError(
            "42809", f'constraint "{name}" of relation "{table.name}" is not a foreign key constraint'
        )
    words = " ".join(action.text.upper().split())
    found = _MODES.get(words)
    if found is None:
        if "INITIALLY DEFERRED" in words and "NOT DEFERRABLE" in words:
            raise SqlError("42601", "constraint declared INITIALLY DEFERRED must be DEFERRABLE")
        raise SqlError("42601", f'syntax error at or near "{action.text.split()[0]}"')
    deferrable, deferred = found
    _put_foreign_key(change, replace(one, deferrable=deferrable, deferred=deferred))


_MODES = {
    "DEFERRABLE": (True, False),
    "NOT DEFERRABLE": (False, False),
    "INITIALLY IMMEDIATE": (False, False),
    "INITIALLY DEFERRED": (True, True),
    "DEFERRABLE INITIALLY IMMEDIATE": (True, False),
    "DEFERRABLE INITIALLY DEFERRED": (True, True),
    "INITIALLY DEFERRED DEFERRABLE": (True, True),
    "INITIALLY IMMEDIATE DEFERRABLE": (True, False),
    "NOT DEFERRABLE INITIALLY IMMEDIATE": (False, False),
}


def _rename_constraint(change: TableChange, action: AlterAction) -> None:
    """RENAME CONSTRAINT; a key's or UNIQUE's name is its index's, too. SqlError 42704, 42710, 42P07."""
    table, old, name = change.table, action.name, checked_name(action.text)
    if old not in names_of(table):
        raise SqlError("42704", f'constraint "{old}" for table "{table.name}" does not exist')
    if name in names_of(table):
        raise SqlError("42710", f'constraint "{name}" for relation "{table.name}" already exists')
    is_key = old == table.key_name and not table.has_hidden_key
    if (is_key or old in {one.name for one in table.indexes}) and change.catalog.is_taken(table.schema, name):
        raise duplicate(name)

    def renamed(one: Index) -> Index:
        return replace(one, name=name) if one.constraint and one.name == old else one

    change.table = replace(
        table,
        key_name=name if is_key else table.key_name,
        indexes=tuple(map(renamed, table.indexes)),
        checks=tuple(replace(one, name=name) if one.name == old else one for one in table.checks),
        foreign_keys=tuple(replace(one, name=name) if one.name == old else one for one in table.foreign_keys),
    )


def _missing_constraint(table: Table, name: str) -> SqlError:
    """42704: there is no constraint of that name."""
    return SqlError("42704", f'constraint "{name}" of relation "{table.name}" does not exist')


# --- the table as a whole -------------------------------------------------------------------------


def _identity(change: TableChange, action: AlterAction) -> None:
    change.table = replace(change.table, identity_full=action.name == "FULL")


def _storage(change: TableChange, action: AlterAction) -> None:
    """Known parameters, which have no meaning here."""
    if not action.name:
        check_storage_parameters(action.text)
    else:
        change.position(action.name)


def _cluster_on(change: TableChange, action: AlterAction) -> None:
    """The index is there; rows lie in the order of the primary key all the same. SqlError 42704."""
    table = change.table
    named = {index.name for index in table.indexes}
    if not table.has_hidden_key:
        named.add(table.key_name)
    if action.name not in named:
        raise SqlError("42704", f'index "{action.name}" for table "{table.name}" does not exist')


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


_ACTIONS: dict[str, Callable[[TableChange, AlterAction], None]] = {
    "RENAME TO": _rename_to,
    "RENAME COLUMN": _rename_column,
    "RENAME CONSTRAINT": _rename_constraint,
    "ADD CONSTRAINT": _add_constraint,
    "DROP CONSTRAINT": _drop_constraint,
    "ALTER CONSTRAINT": _alter_constraint,
    "VALIDATE CONSTRAINT": _validate_constraint,
    "ADD COLUMN": _add_column,
    "DROP COLUMN": _drop_column,
    "ALTER TYPE": _alter_type,
    "SET DEFAULT": _set_default,
    "DROP DEFAULT": _set_default,
    "SET NOT NULL": _set_not_null,
    "DROP NOT NULL": _drop_not_null,
    "DROP EXPRESSION": _drop_expression,
    "DROP IDENTITY": _drop_identity,
    "ALTER IDENTITY": _alter_identity,
    "REPLICA IDENTITY": _identity,
    "STORAGE": _storage,
    "CLUSTER ON": _cluster_on,
    "OWNER TO": _owner,
    "SET SCHEMA": _set_schema,
}
"""What each kind of action does."""

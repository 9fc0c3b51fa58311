"""ALTER TABLE: the actions that add, drop and change columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr import NotOwn, Params, bind, coerce, compile_expr, is_volatile
from herdpy_sql.parse import parse, split
from herdpy_sql.plan.alter_identity import retype_identity
from herdpy_sql.plan.constraints import drop_foreign_keys_of, revalidate_foreign_keys
from herdpy_sql.plan.create_table import MAX_COLUMNS, column_draft, column_of, ordered
from herdpy_sql.plan.expression_index import expression_type
from herdpy_sql.plan.remarks import cascaded, notice
from herdpy_sql.plan.rules import bind_default, bind_generated, default_expr, scalar
from herdpy_sql.plan.scope import TableScope
from herdpy_sql.plan.table_change import columns_named
from herdpy_sql.plan.type_names import mark_types
from herdpy_sql.plan.view_users import drop_views, refuse_retyping
from herdpy_sql.types import Base

if TYPE_CHECKING:
    from herdpy_sql.catalog import Column, Table
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.parse.alter_table import AlterAction
    from herdpy_sql.plan.create_table import Draft
    from herdpy_sql.plan.table_change import TableChange
    from herdpy_sql.types import SqlType

_TEXTS = (Base.TEXT, Base.VARCHAR)


def refuse_taken(change: TableChange, name: str) -> None:
    """42701 for the name of a column that there is."""
    if name in change.table.positions:
        raise SqlError(
            "42701",
            f'column "{name}" of relation "{change.table.name}" already exists',
            column=name,
            table=change.table.name,
        )


def add_column(change: TableChange, action: AlterAction) -> Draft | None:
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
    refuse_taken(change, name)
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


def drop_column(change: TableChange, action: AlterAction) -> None:
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
        reasons += drop_foreign_keys_of(change, at, cascade=cascade)
        change.drop_column(at)
    change.remarks += cascaded(reasons)


def _generated_of(table: Table, name: str) -> list[int]:
    """The columns that are generated from that one, hidden ones too."""
    return [
        at
        for at, column in enumerate(table.columns)
        if column.generated is not None and not column.dropped and name in columns_named(column.generated)
    ]


def alter_type(change: TableChange, action: AlterAction) -> None:
    """ALTER COLUMN ... TYPE: rows are converted, indexes and constraints made for the new type."""
    position = change.position(action.name)
    column = change.table.columns[position]
    refuse_retyping(change.catalog, change.old, column.name)
    if position in change.retyped:
        raise SqlError("0A000", f'cannot alter type of column "{column.name}" twice', column=column.name)
    change.retyped.add(position)
    target = _type(change, action)
    if column.identity:
        retype_identity(change, position, target)
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
    revalidate_foreign_keys(change, position)
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
    return False


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
    scope, params = TableScope(), Params()
    scope.add(old.name, old)
    try:
        if using:
            node = scalar(using)
            mark_types(node, change.catalog)
            found = bind(node, scope, params, target)
        else:
            found = scope.resolve(None, old.columns[position].name)
        found = coerce(found, target, "assignment", params)
    except NotOwn as refusal:
        raise SqlError("0A000", f"ALTER COLUMN TYPE: {refusal.reason} is not supported") from None
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

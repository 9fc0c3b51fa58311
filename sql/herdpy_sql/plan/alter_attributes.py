"""ALTER TABLE: what columns are given besides a type: DEFAULT, NOT NULL, and how they are generated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.plan.remarks import notice
from herdpy_sql.plan.rules import bind_default, scalar

if TYPE_CHECKING:
    from herdpy_sql.parse.alter_table import AlterAction
    from herdpy_sql.plan.table_change import TableChange


def set_default(change: TableChange, action: AlterAction) -> None:
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


def set_not_null(change: TableChange, action: AlterAction) -> None:
    """SET NOT NULL: 23502 when a row has NULL there."""
    position = change.position(action.name)
    if not change.table.columns[position].not_null:
        change.set_nullable(position, nullable=False)
        change.not_null.add(position)


def drop_not_null(change: TableChange, action: AlterAction) -> None:
    """DROP NOT NULL."""
    position = change.position(action.name)
    if position in change.table.key_positions:
        raise SqlError("42P16", f'column "{action.name}" is in a primary key', column=action.name)
    if change.table.columns[position].identity:
        what = f'column "{action.name}" of relation "{change.table.name}"'
        raise SqlError("42601", f"{what} is an identity column", column=action.name)
    change.not_null.discard(position)
    change.set_nullable(position, nullable=True)


def drop_expression(change: TableChange, action: AlterAction) -> None:
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

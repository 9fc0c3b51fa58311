"""ALTER TABLE: a column becomes an identity column, counts otherwise, or is one no longer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.parse import split
from herdpy_sql.parse.cursor import Cursor
from herdpy_sql.parse.object_commands import sequence_option, sequence_options
from herdpy_sql.plan.identity import sequence_of
from herdpy_sql.plan.remarks import notice
from herdpy_sql.plan.sequences import altered
from herdpy_sql.sequences import owned_by

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from herdpy_sql.catalog import Column, Table
    from herdpy_sql.objects import CatalogObject
    from herdpy_sql.parse.alter_table import AlterAction
    from herdpy_sql.parse.object_commands import Option
    from herdpy_sql.plan.table_change import TableChange
    from herdpy_sql.storage import Clock, View
    from herdpy_sql.types import SqlType


def alter_identity(change: TableChange, action: AlterAction) -> None:
    """ADD GENERATED, SET GENERATED, SET with options of a sequence, RESTART. SqlError 55000, 42601, 22023."""
    position = change.position(action.name)
    cursor = Cursor(split(action.text)[0])
    cursor.at = 0
    try:
        (_add if cursor.accept("ADD", "GENERATED") else _set)(change, position, cursor)
        cursor.done()
    except SqlError as error:
        error.position = None  # it would be one in the action's text
        raise


def drop_identity(change: TableChange, action: AlterAction) -> None:
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


def _add(change: TableChange, position: int, cursor: Cursor) -> None:
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


def _set(change: TableChange, position: int, cursor: Cursor) -> None:
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


def retype_identity(change: TableChange, position: int, target: SqlType) -> None:
    """Have the sequence of a column count in the column's new type. SqlError 22023 when it cannot."""
    kind = sequence_of({}, target).type
    _with_sequence(change, position, lambda view, one: altered(one, {"as": kind})(view))


def _generated(cursor: Cursor) -> str:
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

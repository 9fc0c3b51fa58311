"""ALTER TABLE: foreign keys that are added, and constraints of every kind dropped, validated, renamed.

Beside ``alter_table``, which adds keys, UNIQUE and CHECK constraints.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import duplicate
from herdpy_sql.execute.detaching import detach
from herdpy_sql.execute.links import unique_access
from herdpy_sql.execute.reference_validation import validate_foreign_key
from herdpy_sql.plan.dependents import CASCADE_HINT
from herdpy_sql.plan.foreign_keys import bind_foreign_key, check_types, names_of
from herdpy_sql.plan.names import checked_name
from herdpy_sql.plan.remarks import cascaded, notice
from herdpy_sql.plan.scope import name_of

if TYPE_CHECKING:
    from herdpy_sql.catalog import Index, Table
    from herdpy_sql.foreign_keys import ForeignKey
    from herdpy_sql.parse.alter_table import AlterAction
    from herdpy_sql.plan.table_change import TableChange
    from herdpy_sql.storage import Clock, View


def add_foreign_key(
    change: TableChange, columns: Sequence[str], node: exp.Reference, label: str | None
) -> None:
    """Add a foreign key, which the rows must satisfy unless it is NOT VALID."""
    # What the statement makes in the same breath can be referred to.
    table = replace(change.table, indexes=change.indexes)
    one = bind_foreign_key(table, columns, node, label, change.catalog)
    change.table = replace(change.table, foreign_keys=(*change.table.foreign_keys, one))
    change.afterwards.append(_validation(one) if one.validated else _locking(one))


def add_table_foreign_key(change: TableChange, node: exp.ForeignKey, label: str | None) -> None:
    """Add FOREIGN KEY (columns) REFERENCES ..."""
    columns = [name_of(one.this if isinstance(one, exp.Column) else one) for one in node.expressions]
    add_foreign_key(change, columns, node.args["reference"], label)


def _validation(one: ForeignKey) -> Callable[[View, Table, Clock], Generator[None, None, None]]:
    def validate(view: View, table: Table, clock: Clock) -> Generator[None, None, None]:
        del clock
        yield from validate_foreign_key(view, table, one.name)

    return validate


def _locking(one: ForeignKey) -> Callable[[View, Table, Clock], Generator[None, None, None]]:
    """Whoever deletes from the other table now does not know of the key yet: wait for their end."""

    def lock(view: View, table: Table, clock: Clock) -> Generator[None, None, None]:
        del table, clock
        view.lock_definition(view.catalog.tables[one.table_id])
        yield

    return lock


def revalidate_foreign_keys(change: TableChange, position: int) -> None:
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


def drop_constraint(change: TableChange, action: AlterAction) -> None:
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
        change.drop_key()
        _detach(change, action, _is_orphaned(change))
    elif "IF EXISTS" not in action.options:
        raise missing(table, name)
    else:
        change.remarks.append(notice(f"{missing(table, name).message}, skipping"))


def _is_orphaned(change: TableChange) -> Callable[[ForeignKey], bool]:
    """Whether nothing of the table is unique any more by what a foreign key refers to."""
    table = replace(change.table, indexes=change.indexes)
    return lambda one: unique_access(table, one.referenced) is None


def drop_foreign_keys_of(change: TableChange, position: int, *, cascade: bool) -> list[str]:
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


def validate_constraint(change: TableChange, action: AlterAction) -> None:
    """VALIDATE CONSTRAINT. SqlError 42704, 42809, and 23503 or 23514 of a row that is refused."""
    table, name = change.table, action.name
    for one in table.foreign_keys:
        if one.name == name:
            if not one.validated:
                _put(change, replace(one, validated=True))
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
        raise missing(table, name)
    raise SqlError(
        "42809", f'constraint "{name}" of relation "{table.name}" is not a foreign key or check constraint'
    )


def _put(change: TableChange, changed: ForeignKey) -> None:
    keys = tuple(changed if one.name == changed.name else one for one in change.table.foreign_keys)
    change.table = replace(change.table, foreign_keys=keys)


def alter_constraint(change: TableChange, action: AlterAction) -> None:
    """ALTER CONSTRAINT ... [NOT] DEFERRABLE, INITIALLY DEFERRED | IMMEDIATE."""
    table, name = change.table, action.name
    one = next((key for key in table.foreign_keys if key.name == name), None)
    if one is None:
        if name not in names_of(table):
            raise missing(table, name)
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
    _put(change, replace(one, deferrable=deferrable, deferred=deferred))


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


def rename_constraint(change: TableChange, action: AlterAction) -> None:
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


def missing(table: Table, name: str) -> SqlError:
    """42704: there is no constraint of that name."""
    return SqlError("42704", f'constraint "{name}" of relation "{table.name}" does not exist')

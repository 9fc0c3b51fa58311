"""Names that mean nothing: the error, with what might have been meant.

The rules are those of PostgreSQL's parser: a column is suggested when its name is at most three edits
away, and at most half the written name's length; a relation's name that is not the one written counts as
so many edits more. One or two of the nearest are named, more are none.
"""

from __future__ import annotations

from collections.abc import Iterable

from herdpy_sql.errors import SqlError

_MAX_DISTANCE = 3


def missing_column(table: str | None, name: str, known: Iterable[tuple[str, str]]) -> SqlError:
    """42703 for a column that is not there; ``known`` are (relation, column) that could be."""
    message = f'column "{name}" does not exist' if table is None else f"column {table}.{name} does not exist"
    return SqlError("42703", message, hint=_hint(table, name, known), column=name)


def missing_relation(table: str, relations: Iterable[tuple[str, str | None]]) -> SqlError:
    """42P01 for a qualifier that no relation of FROM has; ``relations`` are (name there, table's name)."""
    for alias, own in relations:
        if own == table:
            return SqlError(
                "42P01",
                f'invalid reference to FROM-clause entry for table "{table}"',
                hint=f'Perhaps you meant to reference the table alias "{alias}".',
                table=table,
            )
    return SqlError("42P01", f'missing FROM-clause entry for table "{table}"', table=table)


def _hint(table: str | None, name: str, known: Iterable[tuple[str, str]]) -> str | None:
    best, found = _MAX_DISTANCE + 1, list[tuple[str, str]]()
    for relation, column in known:
        distance = distance_of(name, column)
        if distance > len(name) // 2:
            continue
        if table is not None:
            distance += distance_of(table, relation)
        if distance < best:
            best, found = distance, [(relation, column)]
        elif distance == best:
            found.append((relation, column))
            if len(found) > 2:
                best, found = best - 1, []
    if not found:
        return None
    shown = " or the column ".join(f'"{relation}.{column}"' for relation, column in found)
    return f"Perhaps you meant to reference the column {shown}."


def distance_of(one: str, other: str) -> int:
    """The edits (of one character each) that make one name the other: Levenshtein's distance."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        last, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]

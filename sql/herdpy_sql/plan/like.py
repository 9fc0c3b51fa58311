"""LIKE in CREATE TABLE: the columns of another table, and what else of it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.plan.define import ColumnDraft, Unique
from herdpy_sql.plan.rules import scalar

if TYPE_CHECKING:
    from herdpy_sql.catalog import Column, Table
    from herdpy_sql.plan.define import Draft

_OPTIONS = (
    "COMMENTS",
    "COMPRESSION",
    "CONSTRAINTS",
    "DEFAULTS",
    "GENERATED",
    "IDENTITY",
    "INDEXES",
    "STATISTICS",
    "STORAGE",
)


def take_columns(draft: Draft, part: exp.LikeProperty, source: Table) -> None:
    """Add the columns of ``source`` to the draft of a table. SqlError 42701, 0A000."""
    asked = _asked(part)
    for position in source.visible:
        column = source.columns[position]
        if column.name in draft.columns:
            raise SqlError("42701", f'column "{column.name}" specified more than once', column=column.name)
        draft.columns[column.name] = _column(column, asked)
    if "CONSTRAINTS" in asked:
        for check in source.checks:
            condition = scalar(check.condition)
            draft.checks.append((check.name, [], condition))
    if "INDEXES" in asked:
        if any(not index.unique or index.predicate is not None for index in source.indexes):
            raise SqlError("0A000", "LIKE ... INCLUDING INDEXES of indexes without UNIQUE is not supported")
        if not source.has_hidden_key:
            draft.set_key([source.columns[part.position].name for part in source.key], None)
        for index in source.indexes:
            names = [source.columns[part.position].name for part in index.parts]
            draft.uniques.append(Unique(names, None))


def _asked(part: exp.LikeProperty) -> set[str]:
    asked: set[str] = set()
    for option in part.expressions:
        word, value = str(option.this).upper(), option.args["value"].name.upper()
        if value != "ALL" and value not in _OPTIONS:
            raise SqlError("42601", f'syntax error at or near "{value}"')
        named = set(_OPTIONS) if value == "ALL" else {value}
        asked = asked | named if word == "INCLUDING" else asked - named
    return asked


def _column(column: Column, asked: set[str]) -> ColumnDraft:
    draft = ColumnDraft(column.type, not_null=column.not_null)
    if column.identity and "IDENTITY" in asked:
        from herdpy_sql.plan.identity import serial_sequence

        draft.identity = column.identity
        draft.sequence = msgspec.structs.replace(serial_sequence(column.type), identity=True)
    elif column.default is not None and not column.identity and "DEFAULTS" in asked:
        draft.default = scalar(column.default)
    if column.generated is not None and "GENERATED" in asked:
        draft.generated = scalar(column.generated)
    return draft

"""Definitions as SQL text, and object ids: what pg_get_indexdef and its relatives say; foreign keys too.

Object ids follow from the catalog's own ids: tables and indexes have theirs plus 16384, as users' objects
begin there; what has no id of its own (keys, constraints, defaults) has high bits of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from herdpy_sql.catalog import PUBLIC
from herdpy_sql.execute.links import unique_access
from herdpy_sql.foreign_keys import NO_ACTION
from herdpy_sql.objects import FIRST_USER_OID
from herdpy_sql.quoting import quote_ident
from herdpy_sql.system.conditions import expression_text
from herdpy_sql.types import Base

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog, Check, Column, Index, KeyPart, Table
    from herdpy_sql.foreign_keys import ForeignKey


_KEY, _CONSTRAINT, _CHECK, _DEFAULT = 1 << 28, 1 << 29, 1 << 30, 3 << 29
_CHECK_ROOM = 256

_STRING = re.compile(r"'(?:[^']|'')*'\Z")


@dataclass(frozen=True, slots=True)
class Relating:
    """An index as the catalog shows it: the key of a table is one too.

    Attributes:
        is_part: it is a partition's part of an index of the partitioned table.
    """

    oid: int
    name: str
    table: Table
    parts: tuple[KeyPart, ...]
    unique: bool
    primary: bool
    constraint: bool
    predicate: int | None = None
    is_part: bool = False
    deferrable: bool = False
    deferred: bool = False


def table_oid(table: Table) -> int:
    """The object id of a table."""
    return table.oid


def indexes_of(table: Table) -> Iterator[Relating]:
    """The indexes of a table, its primary key first; a hidden key is not shown."""
    if not table.has_hidden_key:
        oid = _KEY + table.oid
        yield Relating(
            oid,
            table.key_name,
            table,
            table.key,
            unique=True,
            primary=True,
            constraint=True,
            is_part=table.bound is not None,
        )
    for index in sorted(table.indexes, key=lambda one: not one.primary):
        yield _secondary(table, index)


def _secondary(table: Table, index: Index) -> Relating:
    oid = FIRST_USER_OID + index.id
    return Relating(
        oid,
        index.name,
        table,
        index.parts,
        unique=index.unique or index.deferrable,
        primary=index.primary,
        constraint=index.constraint,
        predicate=index.predicate,
        is_part=bool(index.parent),
        deferrable=index.deferrable,
        deferred=index.deferred,
    )


def constraint_oid(index: Relating) -> int:
    """The object id of the constraint that an index serves."""
    return _CONSTRAINT + index.oid % _CONSTRAINT


def check_oid(table: Table, number: int) -> int:
    """The object id of a table's CHECK constraint."""
    return _CHECK + table.oid * _CHECK_ROOM % _CONSTRAINT + number


def check_columns(table: Table, check: Check) -> list[int]:
    """The numbers of the columns that a CHECK speaks of."""
    from herdpy_sql.plan.rules import columns_named

    names = columns_named(check.condition)
    return [at + 1 for at in table.visible if table.columns[at].name in names]


def default_oid(table: Table, position: int) -> int:
    """The object id of a column's default."""
    return _DEFAULT + (table.id * 1600 + position) % _CONSTRAINT


def default_text(column: Column) -> str | None:
    """A default as PostgreSQL prints it: strings with the type that they have become."""
    if column.default is None or not _STRING.match(column.default):
        return column.default
    shown = "bpchar" if column.type.base is Base.CHAR else column.type.base.value
    if column.type.base in (Base.ENUM, Base.ARRAY, Base.VECTOR):
        shown = column.type.name
    return f"{column.default}::{shown}"


def key_text(table: Table, position: int) -> str:
    """What a part of an index is on: a column, or an expression (in parentheses unless it is a call)."""
    column = table.columns[position]
    if not column.hidden or column.generated is None:
        return quote_ident(column.name)
    text = expression_text(table, column.generated)
    return f"({text})" if text.startswith("(") else text


def predicate_text(index: Relating) -> str | None:
    """The condition of a partial index, in parentheses."""
    if index.predicate is None:
        return None
    return expression_text(index.table, index.table.columns[index.predicate].generated or "")


def _part_text(table: Table, part: KeyPart) -> str:
    text = key_text(table, part.position)
    if part.descending:
        return f"{text} DESC" if part.nulls_first else f"{text} DESC NULLS LAST"
    return f"{text} NULLS FIRST" if part.nulls_first else text


def index_text(index: Relating, *, schema: bool) -> str:
    """CREATE INDEX as pg_get_indexdef prints it; ``schema``: with the table's schema."""
    parts = ", ".join(_part_text(index.table, part) for part in index.parts)
    unique = "UNIQUE " if index.unique else ""
    predicate = predicate_text(index)
    where = "" if predicate is None else f" WHERE {predicate}"
    table = (f"{quote_ident(index.table.schema)}." if schema else "") + quote_ident(index.table.name)
    return f"CREATE {unique}INDEX {quote_ident(index.name)} ON {table} USING btree ({parts}){where}"


def constraint_text(index: Relating) -> str:
    """PRIMARY KEY (...) or UNIQUE (...), with DEFERRABLE and INITIALLY DEFERRED."""
    names = ", ".join(quote_ident(index.table.columns[part.position].name) for part in index.parts)
    when = " DEFERRABLE" * index.deferrable + " INITIALLY DEFERRED" * index.deferred
    return f"{'PRIMARY KEY' if index.primary else 'UNIQUE'} ({names}){when}"


_CODES = {"NO ACTION": "a", "RESTRICT": "r", "CASCADE": "c", "SET NULL": "n", "SET DEFAULT": "d"}


def foreign_keys(catalog: Catalog) -> Iterator[tuple[int, Table, ForeignKey, Table]]:
    """(object id, table that refers, foreign key, table referred to) of each."""
    for table in catalog.tables.values():
        for number, one in enumerate(table.foreign_keys, len(table.checks)):
            yield check_oid(table, number), table, one, catalog.tables[one.table_id]


def has_triggers(catalog: Catalog, table: Table) -> bool:
    """What PostgreSQL says of tables with foreign keys, on either side; psql looks for them only then."""
    return bool(table.foreign_keys) or table.id in catalog.referencing


def constraint_columns(one: ForeignKey, parent: Table) -> dict[str, Any]:
    """What pg_constraint has of a foreign key besides what it has of every constraint."""
    index = referenced_index(one, parent)
    return {
        "condeferrable": one.deferrable,
        "condeferred": one.deferred,
        "convalidated": one.validated,
        "conindid": 0 if index is None else index.oid,
        "confrelid": parent.oid,
        "confupdtype": _CODES[one.on_update],
        "confdeltype": _CODES[one.on_delete],
        "confmatchtype": "f" if one.full else "s",
        "conkey": [position + 1 for position in one.columns],
        "confkey": [position + 1 for position in one.referenced],
        "confdelsetcols": [position + 1 for position in one.set_columns] or None,
    }


def referenced_index(one: ForeignKey, parent: Table) -> Relating | None:
    """The key or unique index that a foreign key rests on."""
    access = unique_access(parent, one.referenced)
    if access is None:
        return None
    name = parent.key_name if access.index is None else access.index.name
    return next((index for index in indexes_of(parent) if index.name == name), None)


def foreign_key_text(table: Table, one: ForeignKey, parent: Table) -> str:
    """FOREIGN KEY (...) REFERENCES ..., as pg_get_constraintdef prints it."""
    target = quote_ident(parent.name)
    if parent.schema != PUBLIC:
        target = f"{quote_ident(parent.schema)}.{target}"
    words = [
        f"FOREIGN KEY ({_names(table, one.columns)}) REFERENCES {target}({_names(parent, one.referenced)})"
    ]
    if one.full:
        words.append("MATCH FULL")
    if one.on_update != NO_ACTION:
        words.append(f"ON UPDATE {one.on_update}")
    if one.on_delete != NO_ACTION:
        words.append(f"ON DELETE {one.on_delete}")
    if one.set_columns:
        words.append(f"({_names(table, one.set_columns)})")
    if one.deferrable:
        words.append("DEFERRABLE")
    if one.deferred:
        words.append("INITIALLY DEFERRED")
    if not one.validated:
        words.append("NOT VALID")
    return " ".join(words)


def _names(table: Table, positions: Sequence[int]) -> str:
    return ", ".join(quote_ident(table.columns[position].name) for position in positions)


# information_schema: of each foreign key, without what every constraint has.


def table_constraint(one: ForeignKey) -> dict[str, Any]:
    """Its row of table_constraints."""
    return {
        "constraint_type": "FOREIGN KEY",
        "is_deferrable": "YES" if one.deferrable else "NO",
        "initially_deferred": "YES" if one.deferred else "NO",
        "enforced": "YES",
        "nulls_distinct": None,
    }


def foreign_key_columns(table: Table, one: ForeignKey, parent: Table) -> Iterator[dict[str, Any]]:
    """Its rows of key_column_usage."""
    index = referenced_index(one, parent)
    order = [] if index is None else [part.position for part in index.parts]
    for place, (here, there) in enumerate(zip(one.columns, one.referenced, strict=True), 1):
        yield {
            "column_name": table.columns[here].name,
            "ordinal_position": place,
            "position_in_unique_constraint": order.index(there) + 1 if there in order else None,
        }


def foreign_key_rules(one: ForeignKey, parent: Table, database: str) -> dict[str, Any]:
    """Its row of referential_constraints; a unique index that is no constraint has no name there."""
    index = referenced_index(one, parent)
    unique = index is not None and index.constraint
    return {
        "unique_constraint_catalog": database if unique else None,
        "unique_constraint_schema": parent.schema if unique else None,
        "unique_constraint_name": index.name if unique and index is not None else None,
        "match_option": "FULL" if one.full else "NONE",
        "update_rule": one.on_update,
        "delete_rule": one.on_delete,
    }

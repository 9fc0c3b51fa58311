"""Foreign keys as the catalog shows them: rows of pg_constraint and information_schema, and their texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from herdpy_sql.catalog import PUBLIC
from herdpy_sql.execute.links import unique_access
from herdpy_sql.foreign_keys import NO_ACTION
from herdpy_sql.quoting import quote_ident
from herdpy_sql.system import definitions
from herdpy_sql.system.definitions import Relating, indexes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.foreign_keys import ForeignKey

_CODES = {"NO ACTION": "a", "RESTRICT": "r", "CASCADE": "c", "SET NULL": "n", "SET DEFAULT": "d"}


def foreign_keys(catalog: Catalog) -> Iterator[tuple[int, Table, ForeignKey, Table]]:
    """(object id, table that refers, foreign key, table referred to) of each."""
    for table in catalog.tables.values():
        for number, one in enumerate(table.foreign_keys, len(table.checks)):
            yield definitions.check_oid(table, number), table, one, catalog.tables[one.table_id]


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


def definition(table: Table, one: ForeignKey, parent: Table) -> str:
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


def key_columns(table: Table, one: ForeignKey, parent: Table) -> Iterator[dict[str, Any]]:
    """Its rows of key_column_usage."""
    index = referenced_index(one, parent)
    order = [] if index is None else [part.position for part in index.parts]
    for place, (here, there) in enumerate(zip(one.columns, one.referenced, strict=True), 1):
        yield {
            "column_name": table.columns[here].name,
            "ordinal_position": place,
            "position_in_unique_constraint": order.index(there) + 1 if there in order else None,
        }


def rules(one: ForeignKey, parent: Table, database: str) -> dict[str, Any]:
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

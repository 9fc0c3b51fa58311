"""Rows about constraints: pg_constraint, and their definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from herdpy_sql.system import definitions, foreign_key_rows
from herdpy_sql.system.conditions import condition_text
from herdpy_sql.system.contents import (
    Context,
    Rows,
    of_catalog,
    rows_of,
)
from herdpy_sql.system.contents_objects import schema_oid
from herdpy_sql.system.contents_tables import tables
from herdpy_sql.system.definitions import Relating, indexes_of, table_oid

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Table


def _constraint(
    catalog: Catalog, table: Table, oid: int, name: str, kind: str, **more: Any
) -> dict[str, Any]:
    return {
        "oid": oid,
        "conname": name,
        "connamespace": schema_oid(catalog, table.schema),
        "contype": kind,
        "condeferrable": False,
        "condeferred": False,
        "convalidated": True,
        "conrelid": table_oid(table),
        "contypid": 0,
        "conindid": 0,
        "conparentid": 0,
        "confrelid": 0,
        "confupdtype": " ",
        "confdeltype": " ",
        "confmatchtype": " ",
        "conislocal": True,
        "coninhcount": 0,
        "connoinherit": kind != "c",
        **more,
    }


def constraint_indexes(table: Table) -> list[Relating]:
    """The indexes that serve a constraint: the key and UNIQUE ones."""
    return [index for index in indexes_of(table) if index.constraint]


@of_catalog("pg_constraint")
@rows_of("pg_catalog", "pg_constraint")
def _constraints(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in constraint_indexes(table):
            yield _constraint(
                context.catalog,
                table,
                definitions.constraint_oid(index),
                index.name,
                "p" if index.primary else "u",
                conindid=index.oid,
                conkey=[part.position + 1 for part in index.parts],
            )
        for number, check in enumerate(table.checks):
            yield _constraint(
                context.catalog,
                table, definitions.check_oid(table, number), check.name, "c", conbin=check.condition,
                convalidated=check.validated, conkey=definitions.check_columns(table, check),
            )  # fmt: skip
    for oid, table, one, parent in foreign_key_rows.foreign_keys(context.catalog):
        yield _constraint(
            context.catalog, table, oid, one.name, "f", **foreign_key_rows.constraint_columns(one, parent)
        )


def constraint_definitions(catalog: Catalog) -> Iterator[tuple[int, str, str]]:
    """(constraint, text, pretty text) for pg_get_constraintdef."""
    for table in tables(catalog):
        for index in constraint_indexes(table):
            text = definitions.constraint_text(index)
            yield definitions.constraint_oid(index), text, text
        for number, check in enumerate(table.checks):
            oid = definitions.check_oid(table, number)
            plain = condition_text(table, check.condition, pretty=False) or f"({check.condition})"
            pretty = condition_text(table, check.condition, pretty=True) or check.condition
            mark = "" if check.validated else " NOT VALID"
            yield oid, f"CHECK ({plain}){mark}", f"CHECK ({pretty}){mark}"
    for oid, table, one, parent in foreign_key_rows.foreign_keys(catalog):
        text = foreign_key_rows.definition(table, one, parent)
        yield oid, text, text

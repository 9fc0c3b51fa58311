"""Rows about partitions: pg_inherits, of tables and of the indexes on them; pg_partitioned_table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.objects import FIRST_USER_OID
from herdpy_sql.partition_map import partitions_of
from herdpy_sql.partition_texts import key_text
from herdpy_sql.system.classes import OPERATOR_CLASSES
from herdpy_sql.system.contents import Context, Rows, of_catalog, rows_of
from herdpy_sql.system.definitions import indexes_of
from herdpy_sql.system.types import by_oid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.types import SqlType


def partitioned_tables(catalog: Catalog) -> list[Table]:
    """Users' partitioned tables by name."""
    found = [table for table in catalog.tables.values() if table.partition_key is not None]
    return sorted(found, key=lambda table: table.name)


def key_definitions(catalog: Catalog) -> Iterator[tuple[int, str]]:
    """(object id, text) for pg_get_partkeydef."""
    for table in partitioned_tables(catalog):
        yield table.oid, key_text(table)


def parents(context: Context) -> Iterator[tuple[int, int | None]]:
    """(object id, its parent's) of partitioned tables, partitions and their indexes; None: it has none."""
    found: dict[int, int | None] = {}
    for table in partitioned_tables(context.catalog):
        found |= dict.fromkeys([table.oid, *(index.oid for index in indexes_of(table))])
    for row in _inherits(context):
        found[row["inhrelid"]] = row["inhparent"]
    yield from found.items()


@of_catalog("pg_inherits")
@rows_of("pg_catalog", "pg_inherits")
def _inherits(context: Context) -> Rows:
    for table in partitioned_tables(context.catalog):
        for part in partitions_of(context.catalog, table).partitions:
            yield _inherited(part.oid, table.oid)
            if not table.has_hidden_key:
                keys = [next(iter(indexes_of(one))).oid for one in (part, table)]
                yield _inherited(*keys)
            for index in part.indexes:
                if index.parent:
                    yield _inherited(FIRST_USER_OID + index.id, FIRST_USER_OID + index.parent)


def _inherited(child: int, parent: int) -> dict[str, object]:
    return {"inhrelid": child, "inhparent": parent, "inhseqno": 1, "inhdetachpending": False}


def _collation(type_: SqlType) -> int:
    known = by_oid().get(type_.oid)
    return 0 if known is None else int(known["typcollation"])


@of_catalog("pg_partitioned_table")
@rows_of("pg_catalog", "pg_partitioned_table")
def _partitioned(context: Context) -> Rows:
    for table in partitioned_tables(context.catalog):
        key = table.partition_key
        assert key is not None
        default = partitions_of(context.catalog, table).default
        types = [table.columns[at].type for at in key.positions]
        yield {
            "partrelid": table.oid,
            "partstrat": key.strategy[0],
            "partnatts": len(key.positions),
            "partdefid": 0 if default is None else default.oid,
            "partattrs": [at + 1 for at in key.positions],
            "partclass": [OPERATOR_CLASSES.get(one.oid, 0) for one in types],
            "partcollation": [_collation(one) for one in types],
            "partexprs": None,
        }

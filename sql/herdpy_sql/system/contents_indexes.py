"""Rows about indexes: pg_index, the classes of their operators, and their definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from herdpy_sql.system import definitions
from herdpy_sql.system.contents import (
    OWNER_OID,
    PG_CATALOG_OID,
    Context,
    Rows,
    of_catalog,
    rows_of,
)
from herdpy_sql.system.contents_tables import tables
from herdpy_sql.system.definitions import indexes_of, table_oid
from herdpy_sql.system.types import by_oid

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog

OPERATOR_CLASSES = {
    16: 10003, 17: 10006, 18: 10007, 19: 10028, 20: 3124, 21: 1979, 23: 1978, 25: 3126, 26: 1981, 700: 10012,
    701: 3123, 829: 10024, 1042: 10004, 1043: 3126, 1082: 3122, 1083: 10038, 1114: 3128, 1184: 3127,
    1186: 10022, 1700: 3125, 2950: 10065,
}  # fmt: skip
_DESCENDING, _NULLS_FIRST = 1, 2


@of_catalog("pg_index")
@rows_of("pg_catalog", "pg_index")
def _indexes(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in indexes_of(table):
            types = [table.columns[part.position].type for part in index.parts]
            yield {
                "indexrelid": index.oid,
                "indrelid": table_oid(table),
                "indnatts": len(index.parts),
                "indnkeyatts": len(index.parts),
                "indisunique": index.unique,
                "indnullsnotdistinct": False,
                "indisprimary": index.primary,
                "indisexclusion": False,
                "indimmediate": True,
                "indisclustered": False,
                "indisvalid": True,
                "indcheckxmin": False,
                "indisready": True,
                "indislive": True,
                "indisreplident": False,
                "indkey": [
                    0 if table.columns[part.position].hidden else part.position + 1 for part in index.parts
                ],
                "indexprs": ", ".join(
                    definitions.key_text(table, part.position)
                    for part in index.parts
                    if table.columns[part.position].hidden
                )
                or None,
                "indpred": definitions.predicate_text(index),
                "indcollation": [by_oid()[t.oid]["typcollation"] for t in types],
                "indclass": [OPERATOR_CLASSES.get(t.oid, 0) for t in types],
                "indoption": [
                    part.descending * _DESCENDING + part.nulls_first * _NULLS_FIRST for part in index.parts
                ],
            }


def index_definitions(catalog: Catalog) -> Iterator[tuple[int, int, str, str]]:
    """(index, column or 0 for all, text, text without the schema) for pg_get_indexdef."""
    for table in tables(catalog):
        for index in indexes_of(table):
            full = definitions.index_text(index, schema=True)
            yield index.oid, 0, full, definitions.index_text(index, schema=False)
            for number, part in enumerate(index.parts, 1):
                name = definitions.key_text(table, part.position)
                yield index.oid, number, name, name


@of_catalog("pg_opclass")
@rows_of("pg_catalog", "pg_opclass")
def _operator_classes(context: Context) -> Rows:
    del context
    seen = set()
    for type_id, oid in OPERATOR_CLASSES.items():
        if oid not in seen:
            seen.add(oid)
            yield {
                "oid": oid, "opcmethod": 403, "opcname": f"{by_oid()[type_id]['typname']}_ops",
                "opcnamespace": PG_CATALOG_OID, "opcowner": OWNER_OID, "opcfamily": 0, "opcintype": type_id,
                "opcdefault": True, "opckeytype": 0,
            }  # fmt: skip

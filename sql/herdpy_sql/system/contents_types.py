"""pg_type's rows of types that are not PostgreSQL's own, and pg_enum: ENUMs from the catalog, VECTOR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from herdpy_sql import types as t
from herdpy_sql.enum_types import enum_type
from herdpy_sql.objects import EnumDefinition
from herdpy_sql.system.contents import PG_CATALOG_OID, PUBLIC_OID, Context, Rows, of_catalog, rows_of

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog


def type_names(context: Context) -> Iterator[tuple[int, str]]:
    """Object ids and names of the types that are not PostgreSQL's own, of their arrays too."""
    for row in own_types(context.catalog):
        yield row["oid"], row["shown"]


def own_types(catalog: Catalog) -> Iterator[dict[str, Any]]:
    """Rows of pg_type, with ``shown`` as of format_type."""
    for one in (t.VECTOR, *(enum_type(o) for o in catalog.objects.values() if o.kind == "enum")):
        array = t.array_of(one)
        kind = "e" if one.enum is not None else "b"
        prefix = "enum" if kind == "e" else "vector"
        yield {
            "oid": one.oid,
            "typname": one.name,
            "shown": one.name,
            "typlen": 4 if kind == "e" else -1,
            "typbyval": kind == "e",
            "typtype": kind,
            "typcategory": kind.upper() if kind == "e" else "U",
            "typarray": array.oid,
            "typelem": 0,
            "typinput": f"{prefix}_in",
            "typoutput": f"{prefix}_out",
            "typreceive": f"{prefix}_recv",
            "typsend": f"{prefix}_send",
            "typalign": "i",
            "typstorage": "p" if kind == "e" else "x",
            "typsubscript": "-",
        }
        yield {
            "oid": array.oid,
            "typname": f"_{one.name}",
            "shown": array.name,
            "typlen": -1,
            "typbyval": False,
            "typtype": "b",
            "typcategory": "A",
            "typarray": 0,
            "typelem": one.oid,
            "typinput": "array_in",
            "typoutput": "array_out",
            "typreceive": "array_recv",
            "typsend": "array_send",
            "typalign": "i",
            "typstorage": "x",
            "typsubscript": "array_subscript_handler",
        }


def type_rows_of(context: Context) -> Rows:
    """What pg_type has of them."""
    enums = {one.oid for one in context.catalog.objects.values() if one.kind == "enum"}
    for row in own_types(context.catalog):
        yield {
            **row,
            "typispreferred": False,
            "typmodin": "-",
            "typmodout": "-",
            "typcollation": 0,
            "typnamespace": PUBLIC_OID
            if row["typtype"] == "e" or row["typelem"] in enums
            else PG_CATALOG_OID,
        }


@of_catalog("pg_enum")
@rows_of("pg_catalog", "pg_enum")
def _enums(context: Context) -> Rows:
    for one in context.catalog.objects.values():
        if isinstance(one.definition, EnumDefinition):
            for at, (label, place) in enumerate(one.definition.labels):
                yield {
                    "oid": 1 << 29 | one.id << 10 | at,
                    "enumtypid": one.oid,
                    "enumsortorder": place,
                    "enumlabel": label,
                }

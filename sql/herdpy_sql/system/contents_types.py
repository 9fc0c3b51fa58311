"""pg_type's rows of types that are not PostgreSQL's own, and pg_enum: ENUMs from the catalog, VECTOR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from herdpy_sql import types as t
from herdpy_sql.objects import EnumDefinition
from herdpy_sql.plan.type_names import type_along
from herdpy_sql.quoting import quote_ident
from herdpy_sql.system.contents import Context, Rows, of_catalog, rows_of
from herdpy_sql.system.contents_objects import schema_oid

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog


_SYSTEM = "pg_catalog"


def shown_types(context: Context) -> Iterator[tuple[int, str, bool]]:
    """The same, and whether the name is found without its schema."""
    for row in own_types(context.catalog):
        plain = row["schema"] == _SYSTEM or not row["shown"].startswith(f"{quote_ident(row['schema'])}.")
        yield row["oid"], row["shown"], plain


def type_names(context: Context) -> Iterator[tuple[int, str]]:
    """Object ids and names of the types that are not PostgreSQL's own, of their arrays too."""
    for row in own_types(context.catalog):
        yield row["oid"], row["shown"]


def own_types(catalog: Catalog) -> Iterator[dict[str, Any]]:
    """Rows of pg_type, with ``shown`` as of format_type."""
    for one in (t.VECTOR, *(type_along(o, catalog) for o in catalog.objects.values() if o.kind == "enum")):
        array = t.array_of(one)
        kind = "e" if one.enum is not None else "b"
        name = one.name if one.enum is None else one.enum.name
        prefix = "enum" if kind == "e" else "vector"
        yield {
            "oid": one.oid,
            "typname": name,
            "schema": one.enum.schema if one.enum is not None else _SYSTEM,
            "shown": str(one),
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
            "typname": f"_{name}",
            "schema": one.enum.schema if one.enum is not None else _SYSTEM,
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


def own_type(catalog: Catalog, shown: str) -> dict[str, Any] | None:
    """The row of the type that a view's definition calls so, with its schema or without."""
    element = shown.removesuffix("[]")
    for row in own_types(catalog):
        name = row["typname"][1:] if row["typelem"] else row["typname"]
        whole = f"{quote_ident(row['schema'])}.{quote_ident(name)}"
        plain = quote_ident(name) if row["schema"] in ("public", _SYSTEM) else whole
        if bool(row["typelem"]) is (element != shown) and element in (whole, plain):
            return row
    return None


def type_rows_of(context: Context) -> Rows:
    """What pg_type has of them."""
    for row in own_types(context.catalog):
        yield {
            **row,
            "typispreferred": False,
            "typmodin": "-",
            "typmodout": "-",
            "typcollation": 0,
            "typnamespace": schema_oid(context.catalog, row["schema"]),
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

"""Rows about columns: pg_attribute and pg_attrdef."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from herdpy_sql.system import definitions
from herdpy_sql.system.conditions import expression_text
from herdpy_sql.system.contents import (
    Context,
    Rows,
    always_in,
    of_catalog,
    rows_of,
)
from herdpy_sql.system.contents_objects import shown_default, views
from herdpy_sql.system.contents_tables import tables
from herdpy_sql.system.contents_types import own_type
from herdpy_sql.system.definitions import indexes_of, table_oid
from herdpy_sql.system.types import by_oid, type_oid
from herdpy_sql.system_relations import relations
from herdpy_sql.types import VECTOR, Base, array_of

if TYPE_CHECKING:
    from herdpy_sql.types import SqlType

_CALL = re.compile(r"([a-z_]\w*)\(")
_MODIFIERS = re.compile(r"\((\d+)(?:,(-?\d+))?\)")
_ENUM_ARRAYS = 1 << 30
"""Object ids from here on are those of arrays of ENUMs."""


def _modifier(shown: str) -> int:
    """The modifier of a type as format_type shows it: "numeric(8,2)", "character varying(10)"."""
    found = _MODIFIERS.search(shown)
    if found is None or shown.endswith("]"):
        return -1
    if found[2] is not None:
        return (int(found[1]) << 16 | int(found[2])) + 4
    return int(found[1]) + (4 if shown.startswith("character") else 0)


def _own_type(type_id: int) -> Mapping[str, Any]:
    """How values of a type are kept that is not PostgreSQL's own: of an ENUM, or of any length."""
    is_array = type_id in (array_of(VECTOR).oid, 0) or type_id >= _ENUM_ARRAYS
    if is_array or type_id == VECTOR.oid:
        return {**by_oid()[1009], "typcategory": "A" if is_array else "U", "typcollation": 0}
    return {**by_oid()[23], "typcategory": "E"}


def _attribute(oid: int, number: int, name: str, type_id: int, typmod: int, **more: Any) -> dict[str, Any]:
    row = by_oid().get(type_id) or _own_type(type_id)
    return {
        "attrelid": oid,
        "attname": name,
        "atttypid": type_id,
        "attstattarget": -1,
        "attlen": int(row["typlen"]),
        "attnum": number,
        "attndims": 1 if row["typcategory"] == "A" else 0,
        "attcacheoff": -1,
        "atttypmod": typmod,
        "attbyval": row["typbyval"],
        "attalign": row["typalign"],
        "attstorage": row["typstorage"],
        "attcompression": "",
        "attnotnull": False,
        "atthasdef": False,
        "atthasmissing": False,
        "attidentity": "",
        "attgenerated": "",
        "attisdropped": False,
        "attislocal": True,
        "attinhcount": 0,
        "attcollation": row["typcollation"] if type_id in by_oid() else 0,
        **more,
    }


@always_in("pg_attribute")
def _builtin_attributes() -> Rows:
    for relation in relations().values():
        for number, (name, type_) in enumerate(relation.columns, 1):
            yield _attribute(relation.oid, number, name, type_oid(type_) or 25, -1)


@of_catalog("pg_attribute")
@rows_of("pg_catalog", "pg_attribute")
def _attributes(context: Context) -> Rows:
    for table in tables(context.catalog):
        oid = table_oid(table)
        for position, column in enumerate(table.columns):
            if column.hidden:
                continue
            if column.dropped:
                name = f"........pg.dropped.{position + 1}........"
                yield _attribute(oid, position + 1, name, 0, -1, attisdropped=True)
                continue
            yield _attribute(
                oid,
                position + 1,
                column.name,
                column.type.oid,
                column.type.typmod,
                attndims=column.type.dimensions if column.type.base is Base.ARRAY else 0,
                attnotnull=column.not_null,
                atthasdef=(column.default is not None and not column.identity)
                or column.generated is not None,
                attidentity={"ALWAYS": "a", "BY DEFAULT": "d"}.get(column.identity, ""),
                attgenerated="s" if column.generated is not None else "",
            )
        for index in indexes_of(table):
            unnamed = 0
            for number, part in enumerate(index.parts, 1):
                column = table.columns[part.position]
                name = column.name
                if column.hidden:
                    call = _CALL.match(definitions.key_text(table, part.position))
                    name = call[1] if call else f"expr{unnamed or ''}"
                    unnamed += call is None
                yield _attribute(index.oid, number, name, column.type.oid, column.type.typmod)
    for one, view in views(context.catalog):
        for number, (name, type_) in enumerate(view.columns, 1):
            own = own_type(context.catalog, type_.partition("(")[0])
            oid, modifier = (type_oid(type_) or 25, _modifier(type_)) if own is None else (own["oid"], -1)
            yield _attribute(one.oid, number, name, oid, modifier)


@of_catalog("pg_attrdef")
@rows_of("pg_catalog", "pg_attrdef")
def _defaults(context: Context) -> Rows:
    for table in tables(context.catalog):
        for position in table.visible:
            column = table.columns[position]
            if column.default is not None and not column.identity:
                yield {
                    "oid": definitions.default_oid(table, position),
                    "adrelid": table_oid(table),
                    "adnum": position + 1,
                    "adbin": shown_default(context.catalog, definitions.default_text(column)),
                }
            elif column.generated is not None:
                yield {
                    "oid": definitions.default_oid(table, position),
                    "adrelid": table_oid(table),
                    "adnum": position + 1,
                    "adbin": expression_text(table, column.generated),
                }


def udt_name(sql_type: SqlType) -> str:
    """The internal name of a type: "int4"."""
    if sql_type.base is Base.UNKNOWN:
        return "text"
    found = by_oid().get(sql_type.oid)
    if found is not None:
        return str(found["typname"])
    if sql_type.enum is not None:
        name = sql_type.enum.name
    else:
        name = sql_type.name if sql_type.element is None else sql_type.element_type.name
    return f"_{name}" if sql_type.element is not None else name

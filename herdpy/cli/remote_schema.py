"""What tables a server has, from its system tables. Beside ``schema``, which asks the engine itself."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from herdpy.cli import target
from herdpy.cli.schema import ColumnInfo, KeyColumn, TableInfo

if TYPE_CHECKING:
    from herdpy_sql.types import SqlType

_COLUMNS = """
SELECT schema_name, table_name, name, type, not_null, default_value, key_position
FROM herdpy.columns ORDER BY schema_name, table_name, position
"""


def tables(connection: Any) -> list[TableInfo]:
    """Every table, without indexes and checks. ``connection`` is the driver's."""
    with connection.execute(_COLUMNS) as cursor:
        rows = cursor.fetchall()
    return [
        _table(schema, name, list(columns)) for (schema, name), columns in groupby(rows, itemgetter(0, 1))
    ]


def _table(schema: str, name: str, rows: list[tuple[Any, ...]]) -> TableInfo:
    key = sorted((place, column) for *_named, column, _type, _not_null, _default, place in rows if place)
    catalog = target.needed("herdpy_sql.catalog")
    return TableInfo(
        name=name,
        schema=schema,
        columns=tuple(
            ColumnInfo(column, _type(text), not not_null, default)
            for _schema, _table, column, text, not_null, default, _place in rows
        ),
        key=tuple(KeyColumn(column, descending=False) for _place, column in key),
        key_name="",
        hidden_key=None if key else catalog.HIDDEN_KEY,
        indexes=(),
        checks=(),
    )


def _type(text: str) -> SqlType:
    """A type as the server spells it."""
    sqlglot = target.needed("sqlglot")
    names = target.needed("herdpy_sql.expr.typenames")
    cast = sqlglot.parse_one(f"CAST(NULL AS {text})", read="postgres")
    found: SqlType = names.sql_type(cast.to)
    return found

"""System tables: information_schema.tables and columns, whose rows are made from the catalog when read.

They are tables with negative ids and no storage: a plan reads them through :class:`VirtualScan`, and
nothing can be written to them. Own plans alone know them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.catalog import Column, KeyPart, Table
from herdpy_sql.execute.sources import Pair, Source
from herdpy_sql.types import INTEGER, TEXT, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Row
    from herdpy_sql.storage import Clock, View

SCHEMA = "information_schema"
DATABASE = "herdpy"

_BITS = {Base.SMALLINT: 16, Base.INTEGER: 32, Base.BIGINT: 64, Base.REAL: 24, Base.DOUBLE: 53}
_UDT = {
    Base.BOOLEAN: "bool",
    Base.SMALLINT: "int2",
    Base.INTEGER: "int4",
    Base.BIGINT: "int8",
    Base.REAL: "float4",
    Base.DOUBLE: "float8",
    Base.VARCHAR: "varchar",
    Base.CHAR: "bpchar",
    Base.TIME: "time",
    Base.TIMESTAMP: "timestamp",
    Base.TIMESTAMPTZ: "timestamptz",
}


@dataclass(frozen=True)
class VirtualScan(Source):
    """Every row of a system table."""

    table: Table
    rows: Callable[[Catalog], Iterator[Row]]
    conditions: str = ""

    def pairs(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[Pair]:
        encode = self.table.row_codec.encode
        for row in self.rows(view.catalog):
            yield b"", encode(row)

    def explain(self) -> list[str]:
        return [f"System Scan on {SCHEMA}.{self.table.name}"]


def _tables(catalog: Catalog) -> Iterator[Row]:
    for table in sorted(catalog.tables.values(), key=lambda one: one.name):
        yield (DATABASE, "public", table.name, "BASE TABLE", "YES")


def _columns(catalog: Catalog) -> Iterator[Row]:
    for table in sorted(catalog.tables.values(), key=lambda one: one.name):
        for place, position in enumerate(table.visible, 1):
            column = table.columns[position]
            yield (
                DATABASE,
                "public",
                table.name,
                column.name,
                place,
                column.default,
                "NO" if column.not_null else "YES",
                column.type.base.value,
                column.type.length,
                *_numeric(column.type),
                6 if column.type.base in {Base.TIME, Base.TIMESTAMP, Base.TIMESTAMPTZ} else None,
                _UDT.get(column.type.base, column.type.base.value),
            )


def _numeric(sql_type: SqlType) -> tuple[int | None, int | None, int | None]:
    """numeric_precision, numeric_precision_radix, numeric_scale."""
    if sql_type.base is Base.NUMERIC:
        return sql_type.precision, 10, sql_type.scale if sql_type.precision is not None else None
    bits = _BITS.get(sql_type.base)
    whole = sql_type.base in {Base.SMALLINT, Base.INTEGER, Base.BIGINT}
    return bits, None if bits is None else 2, 0 if whole else None


def _table(number: int, name: str, columns: list[tuple[str, SqlType]]) -> Table:
    return Table(
        id=-number,
        name=name,
        columns=tuple(Column(column, sql_type) for column, sql_type in columns),
        key=(KeyPart(0),),
        key_name=name,
    )


_SYSTEM: dict[str, tuple[Table, Callable[[Catalog], Iterator[Row]]]] = {
    "tables": (
        _table(
            1,
            "tables",
            [
                (name, TEXT)
                for name in (
                    "table_catalog",
                    "table_schema",
                    "table_name",
                    "table_type",
                    "is_insertable_into",
                )
            ],
        ),
        _tables,
    ),
    "columns": (
        _table(
            2,
            "columns",
            [
                ("table_catalog", TEXT),
                ("table_schema", TEXT),
                ("table_name", TEXT),
                ("column_name", TEXT),
                ("ordinal_position", INTEGER),
                ("column_default", TEXT),
                ("is_nullable", TEXT),
                ("data_type", TEXT),
                ("character_maximum_length", INTEGER),
                ("numeric_precision", INTEGER),
                ("numeric_precision_radix", INTEGER),
                ("numeric_scale", INTEGER),
                ("datetime_precision", INTEGER),
                ("udt_name", TEXT),
            ],
        ),
        _columns,
    ),
}


def system_table(name: str) -> Table | None:
    """The table of that name in information_schema."""
    found = _SYSTEM.get(name)
    return found[0] if found else None


def is_system(table: Table) -> bool:
    """Whether a table is one of these."""
    return table.id < 0


def system_source(table: Table) -> VirtualScan:
    """The source of a system table's rows."""
    return VirtualScan(table, _SYSTEM[table.name][1])

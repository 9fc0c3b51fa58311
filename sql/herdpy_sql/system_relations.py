"""The system relations: names, object ids and column types, and their rows as Arrow tables.

Below ``plan``, which must know such a name to refuse changes of it, and ``system``, which makes the rows.
``system_relations.txt`` has a line for each: schema.name, id, kind ("r" table, "v" view), name:type of each
column. The facts are those of PostgreSQL 15, so that ``SELECT *`` has its columns.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import pyarrow as pa

CATALOG, INFORMATION, HERDPY = "pg_catalog", "information_schema", "herdpy"

_ARROW: dict[str, Any] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "oid": pa.int64(),
    "xid": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "bytea": pa.binary(),
    "oid[]": pa.list_(pa.int64()),
    "oidvector": pa.list_(pa.int64()),
    "int2[]": pa.list_(pa.int16()),
    "int2vector": pa.list_(pa.int16()),
    "float4[]": pa.list_(pa.float32()),
}


@dataclass(frozen=True)
class SystemRelation:
    """A system table or view. ``columns`` are names and PostgreSQL's types."""

    schema: str
    name: str
    oid: int
    kind: str
    columns: tuple[tuple[str, str], ...]

    @property
    def label(self) -> str:
        """What DuckDB knows it by; no user's table can have this name there."""
        return f"{self.schema}.{self.name}"

    @functools.cached_property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow types of its columns."""
        return pa.schema([pa.field(name, arrow_of(type_)) for name, type_ in self.columns])

    def table(self, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
        """Rows, given by column name (what is left out is NULL), as an Arrow table."""
        listed = list(rows)
        arrays = [
            pa.array([row.get(field.name) for row in listed], field.type) for field in self.arrow_schema
        ]
        return pa.Table.from_arrays(arrays, schema=self.arrow_schema)


def arrow_of(type_: str) -> pa.DataType:
    """The Arrow type that stands for a PostgreSQL type; ids are BIGINT, what has no other form is text."""
    found: pa.DataType | None = _ARROW.get(type_)
    if found is not None:
        return found
    return pa.list_(pa.string()) if type_.endswith("[]") else pa.string()


def words_of_lines(package: str, name: str) -> list[list[str]]:
    """The words of each line of a data file of a package."""
    text = resources.files(package).joinpath(name).read_text(encoding="utf-8")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


@functools.lru_cache(maxsize=1)
def relations() -> Mapping[tuple[str, str], SystemRelation]:
    """Every system relation by schema and name."""
    found = {}
    for full, oid, kind, *columns in words_of_lines("herdpy_sql", "system_relations.txt"):
        schema, name = full.split(".")
        parts = tuple((c.partition(":")[0], c.partition(":")[2]) for c in columns)
        found[schema, name] = SystemRelation(schema, name, int(oid), kind, parts)
    return found


def find_relation(schema: str | None, name: str) -> SystemRelation | None:
    """The system relation that a name means; without a schema, one of pg_catalog."""
    return relations().get((schema or CATALOG, name))

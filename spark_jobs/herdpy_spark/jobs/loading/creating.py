"""A table for a DataFrame: CREATE TABLE from its schema. Pure, but for ``create``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from herdpy_spark.jobs.errors import JobError, UsageError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_PLAIN = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "time(6)": "time",
    "void": "text",
}


def sql_type(kind: DataType) -> str:
    """The SQL type for values of a type of Spark; what is nested is JSON. UsageError when there is none."""
    text = kind.simpleString()
    if text in _PLAIN:
        return _PLAIN[text]
    if text.startswith("decimal("):
        return f"numeric{text.removeprefix('decimal')}"
    if text.startswith(("array<", "map<", "struct<", "variant")):
        return "json"
    if text.startswith(("varchar(", "char(")):
        return text
    raise UsageError(f"there is no SQL type for Spark's {text}", hint="--type COLUMN=TYPE names one.")


def create_table(
    table: str, schema: StructType, key: Sequence[str], types: Mapping[str, str] | None = None
) -> str:
    """The CREATE TABLE statement.

    Args:
        key: columns of the primary key; none: the table has none.
        types: SQL types of columns, instead of those that their Spark types suggest.

    Raises:
        UsageError: the key or ``types`` name columns that are not there.
    """
    chosen = dict(types or {})
    for what, names in (("key", key), ("--type", chosen)):
        missing = [name for name in names if name not in schema.names]
        if missing:
            raise UsageError(f"{what}: there is no column {', '.join(missing)}: {', '.join(schema.names)}")
    lines = [
        f"{identifier(one.name)} {chosen.get(one.name) or sql_type(one.dataType)}"
        + (" NOT NULL" if one.name in key or not one.nullable else "")
        for one in schema.fields
    ]
    if key:
        lines.append(f"PRIMARY KEY ({', '.join(map(identifier, key))})")
    return f"CREATE TABLE {identifier(table)} (\n  " + ",\n  ".join(lines) + "\n)"


def identifier(name: str) -> str:
    """A name in SQL, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def create(base: Mapping[str, str], statement: str) -> None:
    """Run the statement where the database is. JobError: it cannot be reached, or says no."""
    import herdpy

    given: dict[str, Any] = {name: base[name] for name in ("user", "password") if name in base}
    try:
        with herdpy.connect(base["url"], autocommit=True, **given) as connection:
            connection.execute(statement)
    except herdpy.Error as error:
        raise JobError(f"the table cannot be made: {error}") from error

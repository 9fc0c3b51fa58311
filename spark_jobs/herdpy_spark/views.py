"""A schema's tables as temporary views: ``spark.table``, Spark's SQL and SHOW TABLES know their names.

Beside ``source``: it reads the names with the driver, and has Spark make a DataFrame of each. PySpark has no
catalogs in Python, and hands the options of a table of its own catalog (CREATE TABLE ... USING herdpy) to no
source in Python when the table is read, so views are what there is.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import herdpy
from herdpy_spark.access import find
from herdpy_spark.options import OptionError, Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_ONE_TABLE = (
    "table", "dbtable", "query", "columns", "where", "partitionColumn", "lowerBound", "upperBound",
)  # fmt: skip
_SCHEMA = "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s"
_TABLES = """
    SELECT table_name FROM information_schema.tables
    WHERE table_schema = %s AND table_type = 'BASE TABLE' ORDER BY table_name
"""


def attach(
    spark: SparkSession, url: str, schema: str = "public", *, prefix: str = "", **options: str
) -> list[str]:
    """Make a temporary view of each table of a schema; one of the same name gives way.

    A view is a DataFrame: it reads one state from its first use on, and takes INSERT INTO. Attach again for a
    newer state.

    Args:
        url: the database, as of the option ``url``.
        schema: as it is stored, without quotes.
        prefix: comes before the tables' names in those of the views.
        options: more options of ``spark.read``, for all of them: ``user``, ``password``, ``from`` ...

    Returns:
        The names of the views, in order.

    Raises:
        OptionError: there is no such schema, an option is of one table, or two names differ in case alone,
            as Spark's cannot.
        AccessError, herdpy.Error: nobody answers, the role may not look, a directory is open elsewhere.
    """
    for name in _OF_ONE_TABLE:
        if name.lower() in map(str.lower, options):
            raise OptionError(f"the option {name} is of one table, not of a schema")
    names = _names(Options.parse({**options, "url": url, "table": "all"}, "read"), schema)
    for folded, count in Counter(name.lower() for name in names).items():
        if count > 1:
            raise OptionError(
                f"schema {schema} has several tables called {folded}, whatever their case: Spark has one name"
            )
    views = []
    for name in names:
        table = name if schema == "public" else f"{schema}.{name}"
        frame = spark.read.format("herdpy").options(**options, url=url, table=table).load()
        frame.createOrReplaceTempView(f"`{(prefix + name).replace('`', '``')}`")
        views.append(prefix + name)
    return views


def _names(options: Options, schema: str) -> list[str]:
    """Of the schema's tables. OptionError when there is no such schema."""
    role: dict[str, Any] = {"user": options.user, "password": options.password}
    known = {name: text for name, text in role.items() if text is not None}
    if find(options).directory is not None:
        known["create"] = False
    with herdpy.connect(options.url, **known) as connection:
        if connection.execute(_SCHEMA, (schema,)).fetchone() is None:
            raise OptionError(f"there is no schema {schema}")
        return [name for (name,) in connection.execute(_TABLES, (schema,)).fetchall()]

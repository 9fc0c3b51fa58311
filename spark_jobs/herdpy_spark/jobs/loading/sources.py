"""Where rows come from, as DataFrames.

CSV and JSON are read as text, whatever their values look like: ``checking`` makes values of it, and knows
then which one did not fit. Parquet and JDBC have types of their own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

CSV = "csv"
JSON = "json"
PARQUET = "parquet"
JDBC = "jdbc"
KINDS = (CSV, JSON, PARQUET, JDBC)

JDBC_PASSWORD_VARIABLE = "HERDPY_JDBC_PASSWORD"
_DRIVERS = {
    "db2": "com.ibm.db2.jcc.DB2Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "oracle": "oracle.jdbc.OracleDriver",
    "postgresql": "org.postgresql.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
}

CORRUPT = "__record"
"""Column of a DataFrame of text: the record, where it is not one of the format."""


def jdbc(url: str, table: str, options: dict[str, str]) -> LoadSource:
    """A table behind ``jdbc:...``; Spark is told the usual driver for the URL where the options name none.

    By itself Spark finds drivers only on the class path that Java was started with, not among ``--jars``.
    The password is that of the environment.
    """
    password = os.environ.get(JDBC_PASSWORD_VARIABLE)
    options = ({"password": password} if password else {}) | options
    named = _DRIVERS.get(url.removeprefix("jdbc:").partition(":")[0])
    driver = {"driver": named} if named is not None else {}
    return LoadSource(JDBC, (), {"url": url, "dbtable": table, **driver, **options})


@dataclass(frozen=True, slots=True)
class LoadSource:
    """Where rows come from.

    Attributes:
        kind: one of ``KINDS``.
        paths: of files; none for JDBC.
        options: of Spark's reader; they come after our own.
    """

    kind: str
    paths: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)

    def inferred(self, spark: SparkSession) -> StructType:
        """The columns, with types that fit what is there."""
        reader = spark.read.options(**self._defaults(), **self.options)
        if self.kind == CSV:
            return reader.option("inferSchema", "true").csv(list(self.paths)).schema
        if self.kind == JSON:
            return reader.json(list(self.paths)).schema
        return self.rows(spark).schema

    def names(self, spark: SparkSession) -> list[str]:
        """The names of the columns. JSON's are those that any of its records has."""
        if self.kind == CSV:
            reader = spark.read.options(**self._defaults(), **self.options)
            return reader.option("inferSchema", "false").csv(list(self.paths)).columns
        return self.inferred(spark).names

    def rows(self, spark: SparkSession) -> DataFrame:
        """The rows: of text, with ``CORRUPT`` at the end, where the format has no types."""
        if self.kind == PARQUET:
            return spark.read.options(**self.options).parquet(*self.paths)
        if self.kind == JDBC:
            return spark.read.format("jdbc").options(**self.options).load()
        from pyspark.sql.types import StringType, StructField, StructType

        fields = [StructField(name, StringType()) for name in (*self.names(spark), CORRUPT)]
        reader = spark.read.schema(StructType(fields)).options(
            **self._defaults(), **self.options, mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT
        )
        return reader.csv(list(self.paths)) if self.kind == CSV else reader.json(list(self.paths))

    def _defaults(self) -> dict[str, str]:
        if self.kind == CSV:
            return {"header": "true", "escape": '"', "multiLine": "true", "enforceSchema": "false"}
        return {"primitivesAsString": "false"} if self.kind == JSON else {}

"""Bulk loads: sources as DataFrames, made to fit the table, and why a row does not; a table made for them.

    source columns -> the table's types -> row, or a reason in words: "column price: 'abc' is no integer"

CSV and JSON are read as text; Parquet and JDBC have types. Here is found only what a row shows by itself;
keys that are there already, CHECK and UNIQUE are the database's to judge, when all rows are there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from herdpy_spark.jobs.exporting.rows import TIMES, quoted
from herdpy_spark.jobs.job import JobError, UsageError
from herdpy_sql.errors import SqlError
from herdpy_sql.types import BITS, OPAQUE, Base

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

    from herdpy_sql.types import SqlType


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
    """A table behind ``jdbc:...``; Spark gets the usual driver for the URL where the options name none.

    By itself Spark finds drivers only on the class path that Java was started with, not among ``--jars``.
    The password is that of the environment.
    """
    password = os.environ.get(JDBC_PASSWORD_VARIABLE)
    options = ({"password": password} if password else {}) | options
    named = _DRIVERS.get(url.removeprefix("jdbc:").partition(":")[0])
    driver = {"driver": named} if named is not None else {}
    return LoadSource(JDBC, (url, table), driver | options)


_RECORDS = {
    "mode": "a damaged record ends the load, or is set aside by --quarantine",
    "columnnameofcorruptrecord": "it names that column itself",
    "path": "paths are arguments",
}
_OURS: dict[str, dict[str, str]] = {
    CSV: _RECORDS | {"inferschema": "types are the table's, or those of --type"},
    JSON: _RECORDS,
    PARQUET: {"path": "paths are arguments"},
    JDBC: {
        "url": "it is --jdbc-url",
        "dbtable": "it is --jdbc-table",
        "query": "give --jdbc-table '(SELECT ...) t'",
    },
}
"""Options of Spark's readers, in lower case, that a job gives itself, and why nobody else does."""


@dataclass(frozen=True, slots=True)
class LoadSource:
    """Where rows come from.

    Attributes:
        kind: one of ``KINDS``.
        paths: of files; for JDBC its URL and the table.
        options: of Spark's reader; they come after our own. UsageError for one that is ours to give.
        columns: names for those of a CSV without a header, in order; none where Spark is to name them.
    """

    kind: str
    paths: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.options:
            if (why := _OURS[self.kind].get(name.lower())) is not None:
                raise UsageError(f"--option {name} contradicts the job: {why}")

    @property
    def has_header(self) -> bool:
        """Whether the source names its columns."""
        given = {name.lower(): value for name, value in self.options.items()}
        return self.kind != CSV or given.get("header", "true").strip().lower() == "true"

    def inferred(self, spark: SparkSession) -> StructType:
        """The columns, with types that fit what is there."""
        reader = spark.read.options(**self._defaults() | self.options)
        if self.kind == CSV:
            found = reader.option("inferSchema", "true").csv(list(self.paths)).schema
            return self._named(found.fieldNames(), found)
        if self.kind == JSON:
            return reader.json(list(self.paths)).schema
        return self.rows(spark).schema

    def names(self, spark: SparkSession) -> list[str]:
        """The names of the columns. JSON's are those that any of its records has."""
        if self.kind == CSV:
            reader = spark.read.options(**self._defaults() | self.options)
            found = reader.option("inferSchema", "false").csv(list(self.paths)).schema
            return self._named(found.fieldNames(), found).names
        return self.inferred(spark).names

    def rows(self, spark: SparkSession) -> DataFrame:
        """The rows: of text, with ``CORRUPT`` at the end, where the format has no types."""
        if self.kind == PARQUET:
            return spark.read.options(**self.options).parquet(*self.paths)
        if self.kind == JDBC:
            url, table = self.paths
            return spark.read.format("jdbc").options(url=url, dbtable=table, **self.options).load()
        from pyspark.sql.types import StringType, StructField, StructType

        fields = [StructField(name, StringType()) for name in (*self.names(spark), CORRUPT)]
        reader = spark.read.schema(StructType(fields)).options(
            **self._defaults() | self.options, mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT
        )
        return reader.csv(list(self.paths)) if self.kind == CSV else reader.json(list(self.paths))

    def _named(self, given: Sequence[str], schema: StructType) -> StructType:
        """The columns with the names that this source has for them; UsageError: there are more, or fewer."""
        from pyspark.sql.types import StructField, StructType

        if not self.columns:
            return schema
        if len(given) != len(self.columns):
            raise UsageError(
                f"the file has {len(given)} columns, and {len(self.columns)} are named: "
                f"{', '.join(self.columns)}",
                hint="--columns COL,... names those of a file without a header, in order.",
            )
        return StructType(
            [
                StructField(name, one.dataType, one.nullable)
                for name, one in zip(self.columns, schema.fields, strict=True)
            ]
        )

    def _defaults(self) -> dict[str, str]:
        if self.kind == CSV:
            return {"header": "true", "escape": '"', "multiLine": "true", "enforceSchema": "false"}
        return {"primitivesAsString": "false"} if self.kind == JSON else {}


_READ_AS_TEXT = frozenset(
    {
        Base.ARRAY,
        Base.ENUM,
        Base.INTERVAL,
        Base.JSONB,
        Base.MACADDR,
        Base.MACADDR8,
        Base.VECTOR,
        *BITS,
        *OPAQUE,
    }
)
_LISTS = frozenset({Base.ARRAY, Base.VECTOR})
REASON = "__reason"
SQL_TYPE = "herdpy.type"
"""Metadata of a column of the data source: its type in SQL."""
_SHOWN = 60
_PATTERNS = {
    "uuid": r"^\{?[0-9A-Fa-f]{4}(-?[0-9A-Fa-f]{4}){7}\}?$",
    "numeric": r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*$|^\s*[+-]?(?i:nan|inf|infinity)\s*$",
    "time without time zone": r"^\s*\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?\s*$",
}
_DAY = r"[+-]?\d{4,6}-\d{1,2}-\d{1,2}"
_CLOCK = r"[ T]\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?"
_ZONE = r"(Z|[A-Za-z_]+(/[A-Za-z_]+)*|[+-]\d{1,2}(:?\d{2})?)"
_GIVEN_PATTERNS = {
    "date": rf"^\s*{_DAY}\s*$",
    "timestamp without time zone": rf"^\s*{_DAY}({_CLOCK})?\s*$",
    "timestamp with time zone": rf"^\s*{_DAY}({_CLOCK}\s*{_ZONE}?)?\s*$",
}
"""Of texts that Spark would read more into: a time of today, the first of a month, a day before anything."""
_LENGTH = re.compile(r"character(?: varying)?\((\d+)\)")


def columns_of(source: Sequence[str], table: StructType, renamed: Mapping[str, str]) -> dict[str, str]:
    """Name of the table's column -> name of the source's that fills it.

    Args:
        renamed: source's name -> table's name, where they differ.

    Raises:
        UsageError: names that are nobody's.
    """
    there = set(source) - {CORRUPT}
    unknown = sorted(set(renamed) - there)
    if unknown:
        raise UsageError(f"the source has no column {', '.join(unknown)}: it has {', '.join(sorted(there))}")
    found = {renamed.get(name, name): name for name in source if name in there}
    strange = [name for name in found if name not in table.names]
    if strange:
        raise UsageError(
            f"the table has no column {', '.join(strange)}: it has {', '.join(table.names)}",
            hint="--rename SOURCE=COLUMN gives another name, --drop COLUMN leaves one of the source out.",
        )
    return found


def checked(
    rows: DataFrame,
    table: StructType,
    columns: Mapping[str, str],
    types: Mapping[str, SqlType] | None = None,
) -> DataFrame:
    """The table's columns that ``columns`` names, the whole record as ``__source``, and ``REASON``.

    Args:
        types: SQL types of the table's columns; text for types that Spark has not is read by their rules.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StringType

    values, reasons = [], []
    for one in table.fields:
        if one.name in columns:
            given = sql.col(quoted(columns[one.name]))
            value = _value(given, rows.schema[columns[one.name]], one)
            values.append(value.alias(one.name))
            is_text = isinstance(rows.schema[columns[one.name]].dataType, StringType)
            reasons.append(_reason(given, value, one, is_text=is_text))
            type_ = (types or {}).get(one.name)
            if type_ is None:
                continue
            if type_.base in _READ_AS_TEXT and _is_read(rows, columns, one):
                reasons.append(_misread(value, one.name, type_))
            elif type_.base in _LISTS:
                reasons.append(_misfit(value, one.name, type_))
    if CORRUPT in rows.columns:
        broken = sql.col(CORRUPT).isNotNull()
        reasons.insert(0, sql.when(broken, sql.lit("the record is damaged, or has another number of fields")))
    source = sql.struct(*(sql.col(quoted(name)) for name in rows.columns)).alias("__source")
    return rows.select(*values, source, sql.coalesce(*reasons, sql.lit(None).cast("string")).alias(REASON))


def bad(checked_rows: DataFrame) -> DataFrame:
    """The rows that are none of the table's: the reason, and the record as JSON."""
    from pyspark.sql import functions as sql

    kept = checked_rows.where(sql.col(REASON).isNotNull())
    record = sql.to_json("__source", {"ignoreNullFields": "false", **TIMES})
    return kept.select(sql.col(REASON).alias("reason"), record.alias("record"))


def good(checked_rows: DataFrame) -> DataFrame:
    """The rows that are the table's."""
    from pyspark.sql import functions as sql

    return checked_rows.where(sql.col(REASON).isNull()).drop("__source", REASON)


def strict(checked_rows: DataFrame) -> DataFrame:
    """All rows; Spark's job ends with the first that is none of the table's, and says why."""
    from pyspark.sql import functions as sql

    names = [name for name in checked_rows.columns if name not in {"__source", REASON}]
    record = sql.substring(sql.to_json("__source"), 1, 500)
    failing = sql.raise_error(sql.concat(sql.lit("BadRowError: "), REASON, sql.lit("; the record: "), record))
    # A condition, so that no optimisation drops it with a column.
    return checked_rows.where(
        sql.when(sql.col(REASON).isNull(), True).otherwise(failing.cast("boolean"))
    ).select(*map(quoted, names))


def _value(given: Column, source: StructField, target: StructField) -> Column:
    from pyspark.sql import functions as sql
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

    if isinstance(target.dataType, ArrayType):
        return _array(given, source, target)
    if isinstance(source.dataType, ArrayType | MapType | StructType):
        return sql.to_json(given, TIMES)
    if isinstance(target.dataType, StringType):
        return given.cast("string")
    if isinstance(source.dataType, StringType) and isinstance(target.dataType, BinaryType):
        return sql.when(
            given.startswith("\\x"), sql.try_to_binary(sql.substr(given, sql.lit(3)), sql.lit("hex"))
        )
    if isinstance(source.dataType, StringType):
        return sql.trim(given).try_cast(target.dataType)
    if _family(source.dataType) != _family(target.dataType):
        return sql.lit(None).cast(target.dataType)
    value = given.try_cast(target.dataType)
    kept = _kept(given, value, source, target)
    return value if kept is None else sql.when(kept, value)


def _array(given: Column, source: StructField, target: StructField) -> Column:
    """Arrays of the same elements as they are; others as SQL's or JSON's text, for the type's own rules."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import ArrayType, StringType

    if source.dataType.simpleString() == target.dataType.simpleString():
        return given
    if isinstance(source.dataType, ArrayType):
        return sql.to_json(given, TIMES)
    if isinstance(source.dataType, StringType):
        return sql.trim(given)
    return sql.lit(None).cast("string")


def _is_read(rows: DataFrame, columns: Mapping[str, str], target: StructField) -> bool:
    """Whether a column of the table is given text that only its type's rules read."""
    from pyspark.sql.types import ArrayType

    source = rows.schema[columns[target.name]].dataType
    is_array = isinstance(target.dataType, ArrayType)
    return not is_array or source.simpleString() != target.dataType.simpleString()


def _misread(value: Column, name: str, type_: SqlType) -> Column:
    """Why a text is no value of a type; NULL where it is one."""
    from pyspark.sql import functions as sql

    def misread(text: str | None) -> str | None:
        from herdpy_sql.values import input_converter

        try:
            input_converter(type_)(text)
        except SqlError as error:
            return f"column {name}: {error.message}"
        return None

    return sql.udf(misread, "string", useArrow=False)(value)


def _misfit(value: Column, name: str, type_: SqlType) -> Column:
    """Why a list is no value of a type, by the writer's rules and the server's; NULL where it is one."""
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    def misfit(array: Any) -> Any:
        if _why_unfit(array, type_) is None:
            return pa.nulls(len(array), pa.string())
        reasons = (_why_unfit(array.slice(at, 1), type_) for at in range(len(array)))
        return pa.array([None if one is None else f"column {name}: {one}" for one in reasons], pa.string())

    misfit.__annotations__ = {"array": pa.Array, "return": pa.Array}  # Spark reads its kind from these
    judged: Any = arrow_udf
    found: Column = judged(misfit, "string")(value)
    return found


def _why_unfit(array: Any, type_: SqlType) -> str | None:
    from herdpy_spark.writing.conforming import stored
    from herdpy_spark.writing.plan import TargetColumn
    from herdpy_sql.values.stored_columns import kept_texts

    try:
        kept_texts(stored(array, TargetColumn("", type_.field, type_.precision, sql=type_)), type_)
    except SqlError as error:
        return error.message
    except ValueError as error:
        return _ROW.sub("", str(error))
    return None


_ROW = re.compile(r"^row \d+: ")


def _kept(given: Column, value: Column, source: StructField, target: StructField) -> Column | None:
    """Where a cast of Spark's leaves the value what it is, or rounds it as INSERT would; None: everywhere.

    Spark cuts fractions and times of day off, counts seconds as numbers, and knows infinities of its own.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import DateType, FractionalType, IntegralType, NumericType

    one, other = source.dataType, target.dataType
    if isinstance(one, FractionalType) and isinstance(other, IntegralType):
        return given == sql.floor(given)
    if isinstance(one, NumericType) and isinstance(other, FractionalType):
        return ~sql.coalesce(value.cast("double").isin(*_INFINITE), sql.lit(False)) | (
            given.cast("double").isin(*_INFINITE)
        )
    if isinstance(other, DateType) and not isinstance(one, DateType):
        return given == sql.date_trunc("day", given)
    return None


_INFINITE = (float("inf"), float("-inf"))


def _family(type_: DataType) -> str:
    """Types of one family are assigned to each other."""
    from pyspark.sql.types import DateType, NumericType, TimestampNTZType, TimestampType

    if isinstance(type_, NumericType):
        return "number"
    if isinstance(type_, DateType | TimestampType | TimestampNTZType):
        return "time"
    return type_.typeName()


def _reason(given: Column, value: Column, field: StructField, *, is_text: bool) -> Column:
    from pyspark.sql import functions as sql
    from pyspark.sql.types import DoubleType, FloatType

    kind = str(field.metadata.get(SQL_TYPE, field.dataType.simpleString()))
    place = sql.lit(f"column {field.name}: ")
    shown = sql.concat(sql.lit("'"), sql.substring(given.cast("string"), 1, _SHOWN), sql.lit("'"))
    fits = value.isNotNull()
    if kind in _PATTERNS:
        fits = fits & value.rlike(_PATTERNS[kind])
    if is_text and kind in _GIVEN_PATTERNS:
        fits = fits & given.rlike(_GIVEN_PATTERNS[kind])
    if is_text and isinstance(field.dataType, FloatType | DoubleType):
        fits = fits & (~value.isin(*_INFINITE) | given.rlike("(?i)inf"))
    if kind == "json":
        fits = fits & sql.try_parse_json(value).isNotNull()
    reason = sql.when(given.isNotNull() & ~fits, sql.concat(place, shown, sql.lit(f" is no {kind}")))
    length = _LENGTH.fullmatch(kind)
    if length is not None:
        long = sql.length(sql.rtrim(value) if kind.startswith("character(") else value) > int(length[1])
        reason = reason.when(long, sql.concat(place, shown, sql.lit(f" is longer than {kind}")))
    if not field.nullable:
        reason = reason.when(given.isNull(), sql.concat(place, sql.lit("NULL where a value is needed")))
    return reason


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

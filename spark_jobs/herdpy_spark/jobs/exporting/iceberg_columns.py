"""Columns of an export as Iceberg's: types, and field ids that follow a column through its names. No I/O.

    DataFrame's schema, the table's columns before, what became of them -> the Iceberg schema of now

Iceberg knows columns by their ids. A column that is renamed keeps its id, one that is added or has a type
to which Iceberg does not promote gets a new one, and rows of older files are read by that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from herdpy_spark.jobs.job import UsageError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_PLAIN: dict[str, IcebergType] = {
    "boolean": BooleanType(),
    "byte": IntegerType(),
    "short": IntegerType(),
    "integer": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
    "string": StringType(),
}


def iceberg_type(kind: DataType, next_id: Callable[[], int]) -> IcebergType:
    """What values of Spark's type are in Iceberg. UsageError where it has nothing of the kind."""
    from pyspark.sql import types as spark

    if isinstance(kind, spark.DecimalType):
        return DecimalType(kind.precision, kind.scale)
    if isinstance(kind, spark.ArrayType):
        number = next_id()
        return ListType(number, iceberg_type(kind.elementType, next_id), element_required=False)
    found = _PLAIN.get(kind.typeName())
    if found is None:
        raise UsageError(
            f"Iceberg tables are not exported with values of Spark's type {kind.simpleString()}",
            hint="Leave the column out (--columns), or cast it in a --query.",
        )
    return found


def first_schema(schema: StructType) -> Schema:
    """Of a new table; the catalog chooses the ids."""
    return evolved_schema(schema, {}, 0, 0)


def evolved_schema(
    schema: StructType, before: Mapping[str, NestedField], last_id: int, number: int
) -> Schema:
    """The schema of now.

    Args:
        before: for names of columns now, the field that the column was until now.
        last_id: the highest field id that the table ever had.
        number: the id of this schema, if it is a new one.
    """
    used = last_id

    def next_id() -> int:
        nonlocal used
        used += 1
        return used

    fields = []
    for one in schema.fields:
        old = before.get(one.name)
        found = iceberg_type(one.dataType, lambda: 0)
        if old is not None and is_same(old.field_type, found):
            fields.append(NestedField(old.field_id, one.name, old.field_type, required=False))
        elif old is not None and _promotes(old.field_type, found):
            fields.append(NestedField(old.field_id, one.name, found, required=False))
        else:
            own = next_id()
            fields.append(NestedField(own, one.name, iceberg_type(one.dataType, next_id), required=False))
    return Schema(*fields, schema_id=number)


def is_same(old: IcebergType, new: IcebergType) -> bool:
    """Whether two types are alike but for the ids in them."""
    if isinstance(old, ListType) and isinstance(new, ListType):
        return is_same(old.element_type, new.element_type)
    return old == new


def _promotes(old: IcebergType, new: IcebergType) -> bool:
    """Whether Iceberg reads values of the old type as ones of the new."""
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision <= new.precision
    return (isinstance(old, IntegerType) and isinstance(new, LongType)) or (
        isinstance(old, FloatType) and isinstance(new, DoubleType)
    )

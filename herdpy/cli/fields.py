"""A column of the table that rows are imported into, and how text becomes arrays of its type.

The fast way is Arrow's own conversion, for types where it means what PostgreSQL means; the exact
way is the engine's input functions, value by value, for the other types and for blocks in which
something did not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from herdpy.cli.source import Array, Misfit

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_sql.types import SqlType


@dataclass(frozen=True)
class TargetField:
    """A column to be filled.

    Attributes:
        name: in the table.
        place: which column of the file fills it.
    """

    name: str
    type: SqlType
    place: int

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """What the engine takes for it."""
        from herdpy.codec.arrow import arrow_type

        return arrow_type(self.type.field)

    @cached_property
    def text_type(self) -> pa.DataType | None:
        """What Arrow's CSV and JSON readers make of it by themselves; None when they read it as text."""
        import pyarrow as pa

        types: dict[str, pa.DataType] = {
            "boolean": pa.bool_(),
            "smallint": pa.int16(),
            "integer": pa.int32(),
            "bigint": pa.int64(),
            "double precision": pa.float64(),
            "text": pa.string(),
            "date": pa.date32(),
            "timestamp without time zone": pa.timestamp("us"),
            "timestamp with time zone": pa.timestamp("us", tz="UTC"),
        }
        return types.get(self.type.base.value)

    @cached_property
    def convert(self) -> Callable[[object], Datum]:
        """From a Python object or text to the engine's datum; raises SqlError."""
        from herdpy_sql.values import input_converter

        return input_converter(self.type)

    def array(self, values: Sequence[object]) -> Array:
        """The array of these objects or texts; Misfit when one does not fit."""
        from herdpy_sql.errors import SqlError

        convert = self.convert
        try:
            datums = [None if value is None else convert(value) for value in values]
        except SqlError as error:
            raise Misfit(str(error)) from error
        return self.array_of_datums(datums)

    def array_of_datums(self, datums: Sequence[Datum]) -> Array:
        """The array that the engine takes."""
        from herdpy.codec.arrow import datums_to_array

        return datums_to_array(self.type.field, list(datums))

    def fitted(self, array: Array) -> Array:
        """An array that a reader made, as the engine takes it; Misfit when a value does not fit."""
        import pyarrow as pa

        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
            if isinstance(array, pa.ChunkedArray):  # of several chunks, or none
                array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
        if self.text_type is None and pa.types.is_string(array.type):
            return self.array(array.to_pylist())
        if array.type == self.arrow_type:
            return array
        try:
            if pa.types.is_string(array.type) or pa.types.is_string(self.arrow_type):
                return array.cast(self.arrow_type)
            return self.conformed(array)
        except (ValueError, pa.ArrowNotImplementedError) as error:  # pa.ArrowInvalid is a ValueError
            raise Misfit(str(error)) from error

    def conformed(self, array: Array) -> Array:
        """The values as INSERT would assign them; ValueError for one that would not be the same any more."""
        from herdpy.codec.arrow import conform

        return conform(array, self.type.field, self.type.precision)


def why(error: Any) -> str:
    """The message of a database error, with its detail, on one line."""
    detail = getattr(error, "detail", None)
    return f"{error.message} ({detail})" if detail else str(error.message)

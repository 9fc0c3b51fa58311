"""Parameters of a statement as Arrow columns: what they are declared as, and their values.

Beside ``arrow``. A field is a parameter: the first is $1, whatever its name. Most Arrow types are SQL types.
Text is a parameter without a type, which takes that of its place, as a quoted literal does; with
``herdpy.type`` in the field's metadata it is the text form of a value of that type. Integers with
``smallest`` there are each of the smallest integer type that holds them, which is how PostgreSQL's drivers
declare Python's. NULL has no type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import array_to_datums, is_text
from herdpy.codec.arrow_conform import conform
from herdpy.codec.kinds import Datum
from herdpy.codec.plain_arrow import PLAIN_TYPES
from herdpy_server.copy.arrow import ArrowReader
from herdpy_server.copy.target import Array, CopyTarget
from herdpy_server.wire.columns import column_from_text
from herdpy_server.wire.formats import decoder
from herdpy_sql import types as t
from herdpy_sql.arrow_types import sql_type
from herdpy_sql.errors import SqlError
from herdpy_sql.plan.copying import CopyOptions
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.precision import fit_column
from herdpy_sql.values.styles import Style

TYPE_KEY = b"herdpy.type"
"""In a field's metadata."""
SMALLEST = "smallest"
_SPELLED = {"numeric": t.NUMERIC, "json": t.JSON}
_INTEGERS = (t.SMALLINT, t.INTEGER, t.BIGINT)
_INTEGER_BASES = frozenset({Base.SMALLINT, Base.INTEGER, Base.BIGINT})
_WIDENED = {  # what a column takes of another type with the very same value
    Base.SMALLINT: _INTEGER_BASES,
    Base.INTEGER: _INTEGER_BASES,
    Base.BIGINT: _INTEGER_BASES,
    Base.DOUBLE: _INTEGER_BASES,
    Base.NUMERIC: _INTEGER_BASES,
}

Code = int
"""Which of a parameter's types a value is declared as: an index into ``Parameter.types``."""


class Parameter:
    """One field.

    Attributes:
        types: what its values may be declared as, first None for NULL and for text without a type.
    """

    def __init__(self, field: pa.Field[Any]) -> None:
        """SqlError 0A000 for an Arrow type that no parameter has, or metadata that does not fit it."""
        kind = field.type
        named = (field.metadata or {}).get(TYPE_KEY)
        name = None if named is None else named.decode("utf-8", "replace")
        self.is_text = is_text(kind)
        self.by_size = name == SMALLEST and pa.types.is_int64(kind)
        self.types: tuple[SqlType | None, ...] = (None,)
        if self.by_size:
            self.types = (None, *_INTEGERS)
        elif self.is_text:
            if name is not None:
                self.types = (None, _spelled(name))
        elif name is not None:
            raise SqlError("0A000", f'a parameter of Arrow type {kind} cannot be of type "{name}"')
        elif not pa.types.is_null(kind):
            self.types = (None, _typed(kind))

    def codes(self, array: Array) -> list[Code] | Code:
        """Which type each value is declared as, or all of them."""
        if len(self.types) == 1:
            return 0
        if not self.by_size:
            return 1 if not array.null_count else array.is_valid().cast(pa.int8()).to_pylist()
        given = np.asarray(array.fill_null(0))
        low, high = (int(given.min()), int(given.max())) if len(given) else (0, 0)
        same = _size(low) == _size(high) and (_size(low) == 1 or low > 0 or high < 0)
        if same and not array.null_count:
            return _size(low)
        sizes = 1 + ((given < -(1 << 15)) | (given >= 1 << 15)).astype(np.int8)
        sizes += ((given < -(1 << 31)) | (given >= 1 << 31)).astype(np.int8)
        if array.null_count:
            sizes[np.asarray(array.is_null())] = 0
        codes: list[Code] = sizes.tolist()
        return codes

    def raw(self, array: Array) -> list[Any]:
        """The values as :meth:`reader` takes them: text as its bytes, others as datums; None for NULL.

        SqlError 22023 where the array holds what its type does not.
        """
        kind = self.types[-1]
        if self.is_text:
            found: list[Any] = array.cast(pa.binary()).to_pylist()
            return found
        if kind is None:
            return [None] * len(array)
        try:
            return array_to_datums(kind.field, conform(array, kind.field))
        except ValueError as error:
            raise SqlError("22023", f"invalid Arrow data for type {kind}: {error}") from error

    def reader(self, wanted: SqlType, style: Style) -> Callable[[Any], Datum] | None:
        """The function from raw values (never None) to datums of the parameter's type; None: they are."""
        return decoder(wanted, False, style) if self.is_text else None

    def assigned(self, array: Array, wanted: SqlType, style: Style) -> Array | None:
        """The values as a column of type ``wanted`` would keep them; None: look at them one by one.

        Only what is certain to be the same is reported. SqlError where a value is wrong, though perhaps not
        the first one that is.
        """
        field, declared = wanted.field, self.types[-1]
        if wanted.element is not None:
            return None
        try:
            if self.is_text:
                if declared is not None and declared.base is not wanted.base:
                    return None
                given: Array = array.cast(pa.string())
                read = column_from_text(given, wanted, style)
                return None if read is None else conform(read, field, wanted.precision)
            if (
                declared is None
                or declared.base is wanted.base
                or declared.base in _WIDENED.get(wanted.base, ())
            ):
                return fit_column(conform(array, field, wanted.precision), wanted)
        except (ValueError, pa.ArrowException):
            return None
        return None


def _size(value: int) -> Code:
    return 1 if -(1 << 15) <= value < 1 << 15 else 2 if -(1 << 31) <= value < 1 << 31 else 3


def _spelled(name: str) -> SqlType:
    if name not in _SPELLED:
        raise SqlError("0A000", f'text cannot be declared as a parameter of type "{name}"')
    return _SPELLED[name]


def _typed(kind: pa.DataType) -> SqlType:
    found = None if pa.types.is_dictionary(kind) else sql_type(kind)
    if found is not None and found.kind in PLAIN_TYPES:
        return found
    raise SqlError("0A000", f"there is no type of parameters for Arrow's {kind}")


class ParameterReader(ArrowReader):
    """Reads an Arrow IPC stream of parameters."""

    def __init__(self, options: CopyOptions, style: Style) -> None:
        super().__init__(CopyTarget("", (), options, style))

    def _check_names(self, names: Sequence[str]) -> None:
        """They mean nothing."""

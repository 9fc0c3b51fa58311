"""Arrow's types as SQL's: of a column that is made for Arrow data, and of results by PostgreSQL's object ids.

Above ``types``; for the server, the driver and the command line alike, so it needs pyarrow alone.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from herdpy.codec.plain_arrow import PLAIN_TYPES
from herdpy_sql import types
from herdpy_sql.types import FACTS, Base, SqlType

TYPES_BY_OID: dict[int, pa.DataType] = {
    facts.oid: PLAIN_TYPES[facts.kind]
    for facts in FACTS.values()
    if facts.oid is not None and facts.kind in PLAIN_TYPES
}
"""The Arrow type of values of a SQL type, by its object id; a type that is not here has its text."""
OIDS: dict[pa.DataType, int] = {arrow: oid for oid, arrow in reversed(TYPES_BY_OID.items())}
"""The object id of an Arrow type; TEXT's of strings."""

_TESTS: tuple[tuple[Any, SqlType], ...] = (
    (pa.types.is_boolean, types.BOOLEAN),
    (pa.types.is_int8, types.SMALLINT),
    (pa.types.is_uint8, types.SMALLINT),
    (pa.types.is_int16, types.SMALLINT),
    (pa.types.is_uint16, types.INTEGER),
    (pa.types.is_int32, types.INTEGER),
    (pa.types.is_uint32, types.BIGINT),
    (pa.types.is_int64, types.BIGINT),
    (pa.types.is_uint64, SqlType(Base.NUMERIC, precision=20, scale=0)),
    (pa.types.is_float16, types.REAL),
    (pa.types.is_float32, types.REAL),
    (pa.types.is_float64, types.DOUBLE),
    (pa.types.is_string, types.TEXT),
    (pa.types.is_large_string, types.TEXT),
    (pa.types.is_string_view, types.TEXT),
    (pa.types.is_null, types.TEXT),
    (pa.types.is_binary, types.BYTEA),
    (pa.types.is_large_binary, types.BYTEA),
    (pa.types.is_binary_view, types.BYTEA),
    (pa.types.is_fixed_size_binary, types.BYTEA),
    (pa.types.is_date, types.DATE),
    (pa.types.is_time, types.TIME),
)
_EXTENSIONS = {
    arrow.extension_name: SqlType(base)
    for base, facts in FACTS.items()
    if isinstance(arrow := PLAIN_TYPES.get(facts.kind), pa.BaseExtensionType)
} | {"arrow.json": types.JSON}


def sql_type(arrow: Any) -> SqlType | None:
    """The type of a column that is made for Arrow data; None: there is none."""
    if pa.types.is_dictionary(arrow):
        return sql_type(arrow.value_type)
    if pa.types.is_decimal(arrow) and arrow.precision <= 38 and arrow.scale >= 0:
        return SqlType(Base.NUMERIC, precision=arrow.precision, scale=arrow.scale)
    if pa.types.is_timestamp(arrow):
        return types.TIMESTAMPTZ if arrow.tz else types.TIMESTAMP
    if (extension := _EXTENSIONS.get(getattr(arrow, "extension_name", ""))) is not None:
        return extension
    return next((found for test, found in _TESTS if test(arrow)), None)

"""The types that clients declare for parameters by object id, ours and PostgreSQL's others.

Beside ``formats``. Ids that are written as names (regclass) are numbers
or texts as parameters; types that are not ours are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from herdpy_server.wire.formats import decoder
from herdpy_sql import types as t
from herdpy_sql.catalog import Catalog, enum_of_oid
from herdpy_sql.errors import SqlError
from herdpy_sql.system.types import by_oid
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.form import Bytes, wrong_length
from herdpy_sql.values.reg_types import REG_TYPES
from herdpy_sql.values.styles import PLAIN, Style

_NOT_GIVEN = {Base.UNKNOWN, Base.ARRAY, Base.ENUM, Base.RECORD, *REG_TYPES}
_OURS = {SqlType(base).oid: SqlType(base) for base in Base if base not in _NOT_GIVEN}
_UNSIGNED = {29, *(SqlType(base).oid for base in REG_TYPES)}  # 29: cid
_STRINGS = {2275: "cstring"}
_NOT_IN_PG_TYPE = {
    601: "lseg", 602: "path", 603: "box", 604: "polygon", 628: "line", 718: "circle", 774: "macaddr8",
    1790: "refcursor", 3614: "tsvector", 3615: "tsquery", 3904: "int4range", 3906: "numrange",
    3908: "tsrange", 3910: "tstzrange", 3912: "daterange", 3926: "int8range", 4072: "jsonpath",
}  # fmt: skip
"""PostgreSQL's types that our pg_type has no rows of."""


def type_of_oid(oid: int) -> SqlType | None:
    """The type that a parameter declared with this object id has; None when it is left to the statement.

    SqlError 0A000 for a type of PostgreSQL's that HerdPy has not, 42704 for an object id of no type.
    """
    if oid in {0, 705}:
        return None
    found = _OURS.get(oid) or t.ARRAYS.get(oid)
    if found is not None:
        return found
    if oid in _UNSIGNED:
        return t.BIGINT
    if oid in _STRINGS:
        return t.TEXT
    name = by_oid()[oid]["shown"] if oid in by_oid() else _NOT_IN_PG_TYPE.get(oid)
    if name is not None:
        raise SqlError("0A000", f"parameters of type {name} are not supported")
    raise SqlError("42704", f"type with OID {oid} does not exist")


def declared_types(oids: Sequence[int], catalog: Catalog) -> tuple[SqlType | None, ...]:
    """The types of parameters declared with these object ids; those of ENUMs are the catalog's.

    SqlError as :func:`type_of_oid` raises it.
    """
    return tuple([enum_of_oid(catalog, oid) or type_of_oid(oid) for oid in oids])


def parameter_decoder(
    oid: int, sql_type: SqlType, binary: bool, style: Style = PLAIN
) -> Callable[[Bytes], Any]:
    """As ``formats.decoder``, for a parameter that was declared as ``oid`` (0: not) and is a ``sql_type``."""
    if binary and oid in _UNSIGNED:
        return _unsigned
    if oid == t.JSONB.oid and sql_type.base is Base.JSON:
        read: Callable[[Bytes], Any] = decoder(t.JSONB, binary, style)
        return read
    return decoder(sql_type, binary, style)


def _unsigned(data: Bytes) -> int:
    if len(data) != 4:
        raise wrong_length(len(data), 4)
    return int.from_bytes(data, "big")

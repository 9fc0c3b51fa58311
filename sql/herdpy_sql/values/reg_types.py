"""REGCLASS and its relatives: object ids that are written as names. Above ``form``, below ``forms``.

A datum is a text: ten digits of the id, and behind them the name as it is shown. So equal ids are equal and
sort as ids do, and a value is written without the catalog. What makes a datum of a name, or of an id with
its name, is ``herdpy_sql.system``, where the catalog is at hand; here an id is shown as its digits.
"""

from __future__ import annotations

import struct
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.form import DuckForms, TypeForms, always, fixed_reader, mismatch, quote
from herdpy_sql.values.oids import oid_of_bigint, parse_oid

REG_TYPES: frozenset[Base] = frozenset(base for base in Base if base.value.startswith("reg"))
NAME_AT = 10
"""How many digits of the id stand before the name."""
_FORM = struct.Struct("!I")


def reg_value(oid: int, name: str) -> str:
    """The datum of an id that is shown so."""
    return f"{oid:0{NAME_AT}d}{name}"


def reg_oid(value: str) -> int:
    """The id that a datum has."""
    return int(value[:NAME_AT])


def reg_text(value: str) -> str:
    """The name that a datum is shown as."""
    return value[NAME_AT:]


def has_labels(sql_type: SqlType) -> bool:
    """Whether users get another Arrow column than the engine has: texts of ENUMs, OPAQUE and REG_TYPES."""
    return sql_type.has_places or (sql_type.element or sql_type.base) in REG_TYPES


def without_name(oid: int) -> str:
    """The datum of an id that nothing has."""
    return reg_value(oid, str(oid) if oid else "-")


def _read(text: str) -> str:
    if text != "-" and not text.strip().isdigit():
        raise SqlError("0A000", f'the name "{text}" cannot be looked up here')
    return without_name(0 if text == "-" else parse_oid(text))


def _take(value: object) -> Any:
    if value is None:
        return None
    value = plain(value)
    if isinstance(value, str):
        return _read(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return without_name(oid_of_bigint(value))
    raise mismatch(value, "regclass")


def _give(value: str | None) -> object:
    return None if value is None else reg_text(value)


_read_oid = fixed_reader(_FORM)

FORMS: TypeForms = TypeForms(
    write=always(reg_text),
    read=always(_read),
    take=always(_take),
    give=always(_give),
    pack=always(lambda value: _FORM.pack(reg_oid(value))),
    unpack=always(lambda data: without_name(_read_oid(data))),
    duck=DuckForms("VARCHAR", text="substr({}, 11)", constant=quote),
)

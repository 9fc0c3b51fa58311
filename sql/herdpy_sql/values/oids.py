"""OID and XID: a datum is an ``int`` of 32 bits without a sign. Above ``form``, below ``forms``."""

from __future__ import annotations

import re
import struct
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.values.form import DuckForms, Reader, TypeForms, always, fixed_reader, mismatch

MAX_OID = 2**32 - 1
_BLANKS = " \t\n\r\f\v"
_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)
_FORM = struct.Struct("!I")


def parse_oid(text: str, name: str = "oid") -> int:
    """Read an object id; a negative number is the id of the same 32 bits. SqlError 22P02, 22003."""
    stripped = text.strip(_BLANKS)
    match = _NUMBER.fullmatch(stripped)
    if match is None:
        raise SqlError("22P02", f'invalid input syntax for type {name}: "{text}"')
    value = int(match[0]) if len(match[0]) <= 20 else MAX_OID + 1
    if not -(2**31) <= value <= MAX_OID:
        raise SqlError("22003", f'value "{text}" is out of range for type {name}')
    return value % (MAX_OID + 1)


def oid_of_bigint(value: int) -> int:
    """A BIGINT as an object id. SqlError 22003."""
    if not 0 <= value <= MAX_OID:
        raise SqlError("22003", "OID out of range")
    return value


def _take(name: str) -> Reader:
    def take(value: object) -> Any:
        if value is None:
            return None
        value = plain(value)
        if isinstance(value, str):
            return parse_oid(value, name)
        if isinstance(value, int) and not isinstance(value, bool):
            return oid_of_bigint(value)
        raise mismatch(value, name)

    return take


def _forms(name: str) -> TypeForms:
    return TypeForms(
        write=always(str),
        read=always(lambda text: parse_oid(text, name)),
        take=always(_take(name)),
        pack=always(_FORM.pack),
        unpack=always(fixed_reader(_FORM)),
        duck=DuckForms("BIGINT", constant=lambda value: f"CAST({value} AS BIGINT)"),
        fixed=_FORM,
        text_bytes=lambda value: b"%d" % value,
    )


OID_FORMS: TypeForms = _forms("oid")
XID_FORMS: TypeForms = _forms("xid")

"""What the server says: the messages of PostgreSQL's protocol 3 as bytes.

The lowest layer of ``pgwire``, pure. Format: PostgreSQL's manual, "Message Formats"; each message is a
type byte, an int32 length that counts itself, and a body. Rows come ready from ``wire.formats``.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from herdpy_sql.types import FACTS, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.plan import OutputColumn
    from herdpy_sql.types import SqlType

_HEAD = struct.Struct(">BI")
_INT = struct.Struct(">I")
_COLUMN = struct.Struct(">IhIhih")  # table, attribute, type, its length, its modifier, format

PARSE_COMPLETE = b"1\0\0\0\4"
BIND_COMPLETE = b"2\0\0\0\4"
CLOSE_COMPLETE = b"3\0\0\0\4"
NO_DATA = b"n\0\0\0\4"
EMPTY_QUERY = b"I\0\0\0\4"
PORTAL_SUSPENDED = b"s\0\0\0\4"
COPY_DONE = b"c\0\0\0\4"
AUTHENTICATION_OK = b"R\0\0\0\10\0\0\0\0"
READY = {
    "idle": b"Z\0\0\0\5I",
    "active": b"Z\0\0\0\5T",
    "failed": b"Z\0\0\0\5E",
}
"""ReadyForQuery by the session's transaction status."""


def message(kind: bytes, body: bytes) -> bytes:
    """One message."""
    return _HEAD.pack(kind[0], len(body) + 4) + body


def text(value: str) -> bytes:
    """A string as the protocol has them: UTF-8 with a zero at its end, which it cannot hold itself."""
    return value.encode("utf-8", "replace").replace(b"\0", b"") + b"\0"


def row_description(columns: Sequence[OutputColumn], formats: Sequence[int]) -> bytes:
    """RowDescription. ``formats`` has one code for every column: 0 text, 1 binary."""
    parts = [struct.pack(">H", len(columns))]
    for column, form in zip(columns, formats, strict=True):
        parts.append(text(column.name))
        origin = column.origin
        table, number = (0, 0) if origin is None else (origin.table_oid, origin.number)
        parts.append(
            _COLUMN.pack(table, number, _oid(column.type), _length(column.type), column.type.typmod, form)
        )
    return message(b"T", b"".join(parts))


def _oid(sql_type: SqlType) -> int:
    # A literal without a type is text once it is answered.
    return 25 if sql_type.base is Base.UNKNOWN else sql_type.oid


def _length(sql_type: SqlType) -> int:
    return FACTS[sql_type.base].size or -1


def parameter_description(types: Sequence[SqlType]) -> bytes:
    """ParameterDescription: the type of each parameter."""
    oids = [_oid(one) for one in types]
    return message(b"t", struct.pack(f">H{len(oids)}I", len(oids), *oids))


@functools.lru_cache(maxsize=256)
def command_complete(tag: str) -> bytes:
    """CommandComplete, such as "SELECT 1"."""
    body = tag.encode() + b"\0"
    return _HEAD.pack(67, len(body) + 4) + body


def parameter_status(name: str, value: str) -> bytes:
    """ParameterStatus: a setting's value, when a session begins and when it changes."""
    return message(b"S", text(name) + text(value))


def backend_key_data(pid: int, secret: int) -> bytes:
    """BackendKeyData: what a CancelRequest must show."""
    return message(b"K", struct.pack(">II", pid, secret))


def authentication_sasl(mechanisms: Iterable[str]) -> bytes:
    """AuthenticationSASL: the mechanisms that the client may choose from."""
    return message(b"R", _INT.pack(10) + b"".join(map(text, mechanisms)) + b"\0")


def authentication_sasl_continue(data: bytes) -> bytes:
    """AuthenticationSASLContinue: the server's challenge."""
    return message(b"R", _INT.pack(11) + data)


def authentication_sasl_final(data: bytes) -> bytes:
    """AuthenticationSASLFinal: the server's proof that it knows the verifier too."""
    return message(b"R", _INT.pack(12) + data)


def negotiate_protocol_version(newest: int, unknown: Sequence[str]) -> bytes:
    """NegotiateProtocolVersion: the version that is spoken, and the options that are not known."""
    return message(b"v", struct.pack(">II", newest, len(unknown)) + b"".join(map(text, unknown)))


def copy_response(kind: bytes, columns: int, *, binary: bool) -> bytes:
    """CopyInResponse (kind G) or CopyOutResponse (kind H); every column has the same format."""
    form = int(binary)
    return message(kind, struct.pack(f">bH{columns}H", form, columns, *([form] * columns)))

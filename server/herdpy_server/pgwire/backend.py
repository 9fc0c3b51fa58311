"""What the server says: the messages of PostgreSQL's protocol 3 as bytes, errors and notices among them.

The lowest layer of ``pgwire``, pure. Format: PostgreSQL's manual, "Message Formats" and "Error and Notice
Message Fields"; each message is a type byte, an int32 length that counts itself, and a body. Rows come ready
from ``wire.formats``.
"""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError
from herdpy_sql.types import FACTS, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.plan import OutputColumn


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


def notification_response(pid: int, channel: str, payload: str) -> bytes:
    """NotificationResponse: a notification, with the process id of the session that sent it."""
    return message(b"A", _INT.pack(pid) + text(channel) + text(payload))


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


_NAMED = {
    "where": b"W",
    "schema": b"s",
    "table": b"t",
    "column": b"c",
    "datatype": b"d",
    "constraint": b"n",
}
_OF_OBJECTS = frozenset({"22", "23"})
"""Classes of SQLSTATE whose errors name objects in PostgreSQL: data exceptions and constraints."""


class ProtocolViolationError(SqlError):
    """A message that cannot be what the client means: 08P01, reported as ERROR."""

    def __init__(self, text: str) -> None:
        super().__init__("08P01", text)


class FatalError(Exception):
    """Ends the connection, after the error was sent to its client."""

    def __init__(
        self, sqlstate: str, text: str, *, detail: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(text)
        self.error = SqlError(sqlstate, text, detail=detail, hint=hint)

    @classmethod
    def of(cls, error: SqlError) -> FatalError:
        """An error of a statement or a setting, as the connection's end."""
        fatal = cls(error.sqlstate, error.message, detail=error.detail, hint=error.hint)
        fatal.__cause__ = error
        return fatal


class SilentClose(Exception):  # noqa: N818 - only logged
    """Ends the connection without a word: what came is not PostgreSQL's protocol."""


def error_response(error: SqlError, severity: str = "ERROR") -> bytes:
    """ErrorResponse. ``severity``: ERROR, FATAL (the connection ends) or PANIC."""
    return message(b"E", _fields(error, severity))


def notice_response(notice: SqlError, severity: str = "WARNING") -> bytes:
    """NoticeResponse. ``severity``: WARNING, NOTICE, DEBUG, INFO or LOG."""
    return message(b"N", _fields(notice, severity))


def _fields(error: SqlError, severity: str) -> bytes:
    shown = text(severity)
    parts = [b"S", shown, b"V", shown, b"C", text(error.sqlstate), b"M", text(error.message)]
    if error.detail:
        parts += b"D", text(error.detail)
    if error.hint:
        parts += b"H", text(error.hint)
    if error.position:
        parts += b"P", text(str(error.position))
    if "where" not in error.fields and "row" in error.fields:
        parts += b"W", text(f"row {error.fields['row']}")
    objects = error.sqlstate[:2] in _OF_OBJECTS
    for name, code in _NAMED.items():
        value = error.fields.get(name)
        if value and (objects or name == "where"):
            parts += code, text(value)
    if objects and "table" in error.fields and "schema" not in error.fields:
        parts += b"s", b"public\0"
    parts += _place(error)
    parts.append(b"\0")
    return b"".join(parts)


def _place(error: SqlError) -> tuple[bytes, ...]:
    """File, line and routine that raised the error, where it was raised at all.

    A routine that drivers know an error by is among the error's fields.
    """
    trace = error.__traceback__
    if trace is None:
        return ()
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return (
        b"F",
        text(os.path.basename(code.co_filename)),
        b"L",
        text(str(trace.tb_lineno)),
        b"R",
        text(error.fields.get("routine", code.co_name)),
    )

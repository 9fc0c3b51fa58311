"""Errors and notices as messages, with every field that PostgreSQL has for them.

Pure. Format: PostgreSQL's manual, "Error and Notice Message Fields".
"""

from __future__ import annotations

import os

from herdpy_server.pgwire.backend import message, text
from herdpy_sql.errors import SqlError

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
    """A message that cannot be what the client means: 08P01, told as ERROR."""

    def __init__(self, text: str) -> None:
        super().__init__("08P01", text)


class FatalError(Exception):
    """Ends the connection, after its client was told."""

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


class SilentClose(Exception):  # noqa: N818 - not told to anybody but the log
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

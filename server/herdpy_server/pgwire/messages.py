"""What a client says: the bodies of PostgreSQL's frontend messages, taken apart.

The lowest layer of ``pgwire``, pure. Every function takes the whole buffer and where in it the body
begins and ends, so that nothing is copied but what is kept. Format: PostgreSQL's manual, "Message
Formats". A body that does not fit its format raises :class:`ProtocolViolationError`, which is an ERROR and
not the connection's end: the message's length said where the next one begins.
"""

from __future__ import annotations

import struct

from herdpy_server.pgwire.errors import ProtocolViolationError
from herdpy_sql.errors import SqlError

HEAD = struct.Struct(">BI")
"""Type and length of a message."""
SMALL_MESSAGE_BYTES = 10_000
"""Bound of the length of messages that hold no data, as PostgreSQL has it."""

_SHORT = struct.Struct(">H")
_INT = struct.Struct(">i")
_SHORTS = [struct.Struct(f">{count}h") for count in range(33)]
_NOT_A_STRING = "invalid string in message"
_TOO_SHORT = "insufficient data left in message"
_TOO_LONG = "invalid message format"

Values = list[bytes | None]


def string(data: bytes, at: int, stop: int) -> tuple[str, int]:
    """The string that begins at ``at``, and where what follows begins.

    Raises:
        ProtocolError: it has no end.
        SqlError: 22021, it is not UTF-8.
    """
    end = data.find(0, at, stop)
    if end < 0:
        raise ProtocolViolationError(_NOT_A_STRING)
    return _decode(data[at:end]), end + 1


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        wrong = " ".join(f"0x{byte:02x}" for byte in raw[error.start : error.start + 4])
        raise SqlError("22021", f'invalid byte sequence for encoding "UTF8": {wrong}') from None


def query(data: bytes, at: int, stop: int) -> str:
    """Query: the text."""
    sql, at = string(data, at, stop)
    _end(at, stop)
    return sql


def parse(data: bytes, at: int, stop: int) -> tuple[str, str, tuple[int, ...]]:
    """Parse: the statement's name, its text, and the type (object id, 0: unsaid) of its first parameters."""
    name, at = string(data, at, stop)
    sql, at = string(data, at, stop)
    count, at = _count(data, at, stop)
    if at + 4 * count > stop:
        raise ProtocolViolationError(_TOO_SHORT)
    oids = struct.unpack_from(f">{count}I", data, at) if count else ()
    _end(at + 4 * count, stop)
    return name, sql, oids


def bind(data: bytes, at: int, stop: int) -> tuple[str, str, tuple[int, ...], Values, tuple[int, ...]]:
    """Bind: portal, statement, parameters' formats, parameters (None: NULL), results' formats.

    Formats are as they came: none (all text), one (for all), or one each.
    """
    try:
        end = data.index(0, at, stop)
        portal = "" if end == at else _decode(data[at:end])
        at = end + 1
        end = data.index(0, at, stop)
        statement = "" if end == at else _decode(data[at:end])
    except ValueError:
        raise ProtocolViolationError(_NOT_A_STRING) from None
    formats, at = _formats(data, end + 1, stop)
    count, at = _count(data, at, stop)
    values: Values = []
    unpack = _INT.unpack_from
    for _ in range(count):
        if at + 4 > stop:
            raise ProtocolViolationError(_TOO_SHORT)
        (length,) = unpack(data, at)
        at += 4
        if length < 0:
            if length != -1:
                raise ProtocolViolationError(_TOO_SHORT)
            values.append(None)
        else:
            end = at + length
            if end > stop:
                raise ProtocolViolationError(_TOO_SHORT)
            values.append(data[at:end])
            at = end
    results, at = _formats(data, at, stop)
    if at != stop:
        raise ProtocolViolationError(_TOO_LONG)
    return portal, statement, formats, values, results


def target(data: bytes, at: int, stop: int) -> tuple[int, str]:
    """Describe and Close: what kind of thing (the byte S or P, or nonsense), and its name."""
    if at >= stop:
        raise ProtocolViolationError("no data left in message")
    name, end = string(data, at + 1, stop)
    _end(end, stop)
    return data[at], name


def execute(data: bytes, at: int, stop: int) -> tuple[str, int]:
    """Execute: the portal, and how many rows at most (0 or less: all)."""
    portal, at = string(data, at, stop)
    if at + 4 > stop:
        raise ProtocolViolationError(_TOO_SHORT)
    (rows,) = _INT.unpack_from(data, at)
    _end(at + 4, stop)
    return portal, rows


def nothing(at: int, stop: int) -> None:
    """Sync, Flush and CopyDone have no body."""
    _end(at, stop)


def _count(data: bytes, at: int, stop: int) -> tuple[int, int]:
    if at + 2 > stop:
        raise ProtocolViolationError(_TOO_SHORT)
    return _SHORT.unpack_from(data, at)[0], at + 2


def _formats(data: bytes, at: int, stop: int) -> tuple[tuple[int, ...], int]:
    count, at = _count(data, at, stop)
    if count == 0:
        return (), at
    end = at + 2 * count
    if end > stop:
        raise ProtocolViolationError(_TOO_SHORT)
    if count < len(_SHORTS):
        return _SHORTS[count].unpack_from(data, at), end
    return struct.unpack_from(f">{count}h", data, at), end


def _end(at: int, stop: int) -> None:
    if at != stop:
        raise ProtocolViolationError(_TOO_LONG)

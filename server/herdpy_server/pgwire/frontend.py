"""What a client says: the packets that open a connection, its bytes cut into messages, and messages taken
apart.

The lowest layer of ``pgwire``, pure. A start-up packet (a wish for encryption, a request to cancel, a
session's start) has no type byte: an int32 length that counts itself, an int32 code, a body. :class:`Inbox`
cuts messages: what comes in one piece is read in place, and a buffer is put together when a message arrives
in several pieces, and then once, however many they are.

The functions that take a message's body apart get the whole buffer and where in it the body begins and ends,
so that only what is kept is copied. A body that does not fit its format raises
:class:`ProtocolViolationError`, which is an ERROR and not the connection's end: the message's length said
where the next one begins.

Format: PostgreSQL's manual, "Message Formats", "StartupMessage", "SSLRequest", "GSSENCRequest",
"CancelRequest".
"""

from __future__ import annotations

import shlex
import struct
from dataclasses import dataclass, field
from typing import Final

from herdpy.rpc.subscription import SUBSCRIBE_CODE, TICKET_BYTES
from herdpy_server.pgwire.backend import FatalError, ProtocolViolationError, SilentClose
from herdpy_sql.errors import SqlError

MAX_PACKET_BYTES = 10_004
PROTOCOL = 3 << 16
_MIN_PACKET_BYTES = 8
_CANCEL = 80877102
_SSL = 80877103
_GSS = 80877104
_CANCEL_BYTES = 16
_SUBSCRIBE_BYTES = 8 + TICKET_BYTES
FORWARD_CODE: Final = 0x4844_0002
"""As ``SUBSCRIBE_CODE``, for a session that another node forwards."""
NONCE_BYTES: Final = 16
CONTEXT: Final = ord("h")
"""The type of the messages, in both directions, that forwarded sessions alone have."""
_LENGTH = struct.Struct(">I")
_PAIR = struct.Struct(">II")
_NOT_SETTINGS = frozenset({"user", "database", "options", "replication"})
_EXTENSION = "_pq_."
HEAD: Final = struct.Struct(">BI")
"""Type and length of a message."""
SMALL_MESSAGE_BYTES: Final = 10_000
"""Bound of the length of messages that hold no data, as PostgreSQL has it."""
_SHORT = struct.Struct(">H")
_INT = struct.Struct(">i")
_SHORTS = [struct.Struct(f">{count}h") for count in range(33)]
_NOT_A_STRING = "invalid string in message"
_TOO_SHORT = "insufficient data left in message"
_TOO_LONG = "invalid message format"
Values = list[bytes | None]
PASSWORD = ord("p")
_SMALL = frozenset(b"CDEHSXcf")
_LARGE = frozenset(b"QFBPd")
_HEAD_BYTES: Final = 5
_unpack = HEAD.unpack_from
KNOWN = _SMALL | _LARGE


@dataclass(frozen=True, slots=True)
class SslRequest:
    """The client wants TLS."""


@dataclass(frozen=True, slots=True)
class GssRequest:
    """The client wants encryption by GSSAPI."""


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Cancel what another connection is doing."""

    pid: int
    secret: int = field(repr=False)


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    """A node takes a stream that it was offered; an extension of the protocol, see ``subscriptions``."""

    ticket: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ForwardRequest:
    """A node forwards a session of its own; an extension of the protocol, see ``forwarded``."""

    nonce: bytes


@dataclass(frozen=True, slots=True)
class StartupMessage:
    """A session is to begin.

    Attributes:
        user, database: of whom and of what; the database is the user's name when none is said.
        own_settings, options: what :meth:`settings` is made of.
        unknown: protocol extensions that were asked for; there are none here.
        minor: of the protocol's version 3.
    """

    user: str
    database: str
    own_settings: dict[str, str]
    options: str
    unknown: tuple[str, ...]
    minor: int

    def settings(self) -> dict[str, str]:
        """By name; the packet's own win over those of ``options``. FatalError 42601 for nonsense."""
        return _options(self.options) | self.own_settings


Packet = SslRequest | GssRequest | CancelRequest | SubscribeRequest | ForwardRequest | StartupMessage


def packet_length(data: bytes) -> int:
    """How long the packet is that begins ``data``, which has 4 bytes or more.

    Raises:
        HangUp: no packet has this length.
    """
    (length,) = _LENGTH.unpack_from(data)
    if not _MIN_PACKET_BYTES <= length <= MAX_PACKET_BYTES:
        raise SilentClose(f"a start-up packet of {length} bytes")
    return int(length)


def read_packet(data: bytes) -> Packet:
    """Take a whole packet apart.

    Raises:
        HangUp: it is not one.
        FatalError: 0A000 another version of the protocol, 08P01 a malformed one, 28000 without a user.
    """
    (code,) = _LENGTH.unpack_from(data, 4)
    if code == _CANCEL:
        if len(data) != _CANCEL_BYTES:
            raise SilentClose("a cancel request of another length")
        return CancelRequest(*_PAIR.unpack_from(data, 8))
    if code == _SSL:
        return SslRequest()
    if code == _GSS:
        return GssRequest()
    if code == SUBSCRIBE_CODE:
        if len(data) != _SUBSCRIBE_BYTES:
            raise SilentClose("a subscription of another length")
        return SubscribeRequest(data[8:])
    if code == FORWARD_CODE:
        if len(data) != 8 + NONCE_BYTES:
            raise SilentClose("a forwarded session's start of another length")
        return ForwardRequest(data[8:])
    check_version(code)
    return _start(data, code & 0xFFFF)


def check_version(code: int) -> None:
    """FatalError 0A000 when this is not protocol 3."""
    if code >> 16 != 3:
        raise FatalError(
            "0A000",
            f"unsupported frontend protocol {code >> 16}.{code & 0xFFFF}: server supports 3.0 to 3.0",
        )


def _start(data: bytes, minor: int) -> StartupMessage:
    parts = data[8:].split(b"\0")
    # name, value, ..., and then an empty name and what follows its zero: nothing.
    if len(parts) < 2 or parts[-1] or parts[-2] or len(parts) % 2:
        raise _layout()
    try:
        words = [part.decode() for part in parts[:-2]]
    except UnicodeDecodeError:
        raise FatalError("22021", "the start-up packet is not UTF-8") from None
    given = dict(zip(words[::2], words[1::2], strict=True))
    if "" in given:
        raise _layout()
    user = given.get("user", "")
    if not user:
        raise FatalError("28000", "no PostgreSQL user name specified in startup packet")
    if given.get("replication", "off").lower() not in {"off", "false", "no", "0"}:
        raise FatalError("0A000", "replication connections are not supported")
    settings = {
        name: value
        for name, value in given.items()
        if name not in _NOT_SETTINGS and not name.startswith(_EXTENSION)
    }
    unknown = tuple(name for name in given if name.startswith(_EXTENSION))
    return StartupMessage(
        user, given.get("database") or user, settings, given.get("options", ""), unknown, minor
    )


def _layout() -> FatalError:
    return FatalError("08P01", "invalid startup packet layout: expected terminator as last byte")


def _options(text: str) -> dict[str, str]:
    """Settings of the command line that ``options`` is: ``-c name=value`` and ``--name=value``."""
    settings = {}
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split = True
    lexer.quotes = lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        raise FatalError("42601", f"invalid command-line arguments: {text}") from None
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "-c" and at < len(words):
            word = words[at]
            at += 1
        elif word.startswith(("-c", "--")) and len(word) > 2:
            word = word[2:]
        else:
            raise FatalError("42601", f"invalid command-line argument for server process: {word}")
        name, equals, value = word.partition("=")
        if not equals:
            raise FatalError("42601", f"-c {word} requires a value")
        settings[name.replace("-", "_")] = value
    return settings


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


class Inbox:
    """What a client sent and nobody has taken yet.

    Attributes:
        data: the buffer that messages are read from; ``at`` is where the next one begins.
        max_message_bytes: longest message that holds data.
        kinds: types of messages that may come; others end the connection.
    """

    __slots__ = ("_chunks", "_missing", "at", "data", "kinds", "max_message_bytes")

    def __init__(self, max_message_bytes: int) -> None:
        self.data = b""
        self.at = 0
        self.max_message_bytes = max_message_bytes
        self.kinds = KNOWN
        self._chunks: list[bytes] = []
        self._missing = 0  # bytes of the message that is arriving, when its length is known

    def feed(self, data: bytes) -> None:
        """More has arrived."""
        if self._chunks:
            self._chunks.append(data)
            self._missing -= len(data)
            if self._missing <= 0:
                self._join()
        elif self.at == len(self.data):
            self.data, self.at = data, 0
            self._missing = 0
        elif self._missing > len(data):
            self._chunks = [self.data[self.at :], data]
            self.data, self.at = b"", 0
            self._missing -= len(data)
        else:
            self.data, self.at = self.data[self.at :] + data, 0
            self._missing = 0

    def _join(self) -> None:
        self.data, self.at = b"".join(self._chunks), 0
        self._chunks.clear()
        self._missing = 0

    @property
    def waiting_bytes(self) -> int:
        """How much is here."""
        return len(self.data) - self.at + sum(map(len, self._chunks))

    def take(self, count: int) -> bytes | None:
        """The next ``count`` bytes whatever they are; None until there are so many."""
        if len(self.data) - self.at < count:
            return None
        self.at += count
        return self.data[self.at - count : self.at]

    def peek(self) -> bytes:
        """All that is here, in ``take``'s view."""
        return self.data[self.at :]

    def next(self) -> tuple[int, int, int] | None:
        """The next whole message: type, where in ``data`` its body begins, and ends; None if it is not here.

        Raises:
            FatalError: 08P01, there is no such type; 54000, it is longer than this server takes.
            HangUp: no message of the type has this length.
        """
        data, at = self.data, self.at
        if len(data) - at < _HEAD_BYTES:
            if at < len(data):
                self._check_kind(data[at])
            return None
        kind, length = _unpack(data, at)
        stop: int = at + 1 + length
        if kind not in self.kinds or not 4 <= length <= SMALL_MESSAGE_BYTES:
            self._check(kind, length)
        if stop > len(data):
            self._missing = stop - len(data)
            return None
        self.at = stop
        return kind, at + _HEAD_BYTES, stop

    def put_back(self, messages: bytes) -> None:
        """Whole messages that were taken are to be taken again, before what is here."""
        rest = [self.data[self.at :], *self._chunks]
        self._chunks.clear()
        self.data, self.at, self._missing = b"".join([messages, *rest]), 0, 0

    def _check_kind(self, kind: int) -> None:
        if kind not in self.kinds:
            raise FatalError("08P01", f"invalid frontend message type {kind}")

    def _check(self, kind: int, length: int) -> None:
        self._check_kind(kind)
        if length < 4 or (length > SMALL_MESSAGE_BYTES and kind in _SMALL):
            raise SilentClose(f"a message of type {chr(kind)!r} with length {length}")
        if length > self.max_message_bytes:
            raise FatalError(
                "54000",
                f"a message of {length} bytes is too long",
                detail=f"This server takes up to {self.max_message_bytes} bytes (max_message_bytes).",
            )

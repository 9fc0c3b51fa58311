"""The packets that open a connection: a wish for encryption, a request to cancel, or a session's start.

Pure. They have no type byte: an int32 length that counts itself, an int32 code, a body. Format:
PostgreSQL's manual, "StartupMessage", "SSLRequest", "GSSENCRequest" and "CancelRequest".
"""

from __future__ import annotations

import shlex
import struct
from dataclasses import dataclass, field

from herdpy_server.pgwire.errors import FatalError, SilentClose

MAX_PACKET_BYTES = 10_004
PROTOCOL = 3 << 16
_MIN_PACKET_BYTES = 8
_CANCEL = 80877102
_SSL = 80877103
_GSS = 80877104
_CANCEL_BYTES = 16
_LENGTH = struct.Struct(">I")
_PAIR = struct.Struct(">II")
_NOT_SETTINGS = frozenset({"user", "database", "options", "replication"})
_EXTENSION = "_pq_."


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


Packet = SslRequest | GssRequest | CancelRequest | StartupMessage


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

"""Bytes as they arrive, cut into messages. Pure.

What comes in one piece is read in place: a buffer is only put together when a message arrives in
several, and then once, however many they are.
"""

from __future__ import annotations

from herdpy_server.pgwire.errors import FatalError, SilentClose
from herdpy_server.pgwire.messages import HEAD, SMALL_MESSAGE_BYTES

PASSWORD = ord("p")
_SMALL = frozenset(b"CDEHSXcf")
_LARGE = frozenset(b"QFBPd")
_HEAD_BYTES = 5
_unpack = HEAD.unpack_from

KNOWN = _SMALL | _LARGE


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

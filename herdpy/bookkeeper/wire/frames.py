"""From the bytes of a connection to frames.

Below the parsers, above the socket: a connection feeds what it received, in pieces of any size, and gets
back the messages that are complete. One splitter a connection.

Format: BookKeeper's proto/BookieProtoEncoding.java and Netty's length field: u32 big-endian, which does not
count itself.
"""

from __future__ import annotations

import struct
from typing import Final

from herdpy.bookkeeper.errors import ProtocolError
from herdpy.bookkeeper.wire.entries import find_adds
from herdpy.bookkeeper.wire.protocol import DEFAULT_MAX_FRAME_BYTES

_unpack_length: Final = struct.Struct(">I").unpack_from
_PREFIX_BYTES: Final = 4
_MAX_PIECES: Final = 4096  # a peer that sends byte by byte must not cost an object a byte


class FrameSplitter:
    """Cuts a stream of bytes into frames, each without its length prefix.

    ``max_frame_bytes`` bounds what a stranger can make this process keep: a longer frame, which includes
    every "negative" length, raises ProtocolError as soon as its prefix is there, and so does any later feed.
    Frames that came in one piece with it are lost: nothing of such a connection is to be trusted.
    """

    __slots__ = ("_failure", "_missing_bytes", "_pieces", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes: Final = max_frame_bytes
        # What is left over: joined again only once it can be a whole frame, so that a large frame that comes
        # in many pieces costs one copy, not one for each piece.
        self._pieces: list[bytes] = []
        self._missing_bytes = 0
        self._failure: str | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """The frames completed by ``data``, in order; maybe none. Raises ProtocolError."""
        whole = self._joined(data)
        return self._split(whole, 0) if whole else []

    def feed_answers(self, data: bytes) -> tuple[list[int], list[bytes]]:
        """As ``feed``, of a bookie that answers: transaction ids of successful adds, then other frames.

        Adds found in front are not made frames of; others may be among the frames. Raises ProtocolError.
        """
        whole = self._joined(data)
        if not whole:
            return [], []
        txns, start = find_adds(whole)
        return txns, self._split(whole, start) if start < len(whole) else []

    def _joined(self, data: bytes) -> bytes:
        """What is left over and ``data``; nothing while that is less than a frame."""
        if self._failure is not None:
            raise ProtocolError(self._failure)
        if self._pieces:
            self._pieces.append(data)
            self._missing_bytes -= len(data)
            if self._missing_bytes > 0:
                if len(self._pieces) == _MAX_PIECES:
                    self._pieces = [b"".join(self._pieces)]
                return b""
            data = b"".join(self._pieces)
            self._pieces = []
        return data

    def _split(self, data: bytes, start: int) -> list[bytes]:
        frames: list[bytes] = []
        add = frames.append
        size = len(data)
        limit = self.max_frame_bytes
        last_prefix = size - _PREFIX_BYTES
        while start <= last_prefix:
            (length,) = _unpack_length(data, start)
            if length > limit:
                self._failure = f"a frame of {length} bytes, {limit} are allowed"
                raise ProtocolError(self._failure)
            body = start + _PREFIX_BYTES
            end = body + length
            if end > size:
                self._pieces = [data[start:]]
                self._missing_bytes = end - size
                return frames
            add(data[body:end])
            start = end
        if start < size:
            self._pieces = [data[start:]]
            self._missing_bytes = _PREFIX_BYTES - (size - start)
        return frames

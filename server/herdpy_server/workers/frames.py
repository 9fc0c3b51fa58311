"""Frames: how messages travel between a server and its worker. The bottom of ``workers``; both sides use it.

A frame is two lengths (little-endian, four bytes each), a head, which is a message of ``messages`` in
MessagePack, and a body of bytes: a record batch, or what a client gets. Both sides are the same version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import msgspec

_LENGTHS = struct.Struct("<II")
_encode = msgspec.msgpack.Encoder().encode

Buffer = bytes | bytearray | memoryview
Frame = tuple[bytes, bytes]
"""Head and body."""


def frame(message: msgspec.Struct, body: Any = b"") -> list[Any]:
    """The pieces of a frame, to be sent one after the other; ``body`` is anything with a buffer."""
    head = _encode(message)
    size = memoryview(body).nbytes
    first = _LENGTHS.pack(len(head), size) + head
    return [first, body] if size else [first]


class Splitter:
    """Finds frames in data that comes in pieces cut anywhere."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._wanted = _LENGTHS.size

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take the next piece; the frames that are complete."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return
        whole = data if len(self._pieces) == 1 else b"".join(self._pieces)
        at = 0
        left = len(whole)
        while left - at >= _LENGTHS.size:
            head, body = _LENGTHS.unpack_from(whole, at)
            self._wanted = _LENGTHS.size + head + body
            if left - at < self._wanted:
                break
            start = at + _LENGTHS.size
            yield whole[start : start + head], whole[start + head : start + head + body]
            at += self._wanted
            self._wanted = _LENGTHS.size
        rest = whole[at:]
        self._pieces, self._size = ([rest] if rest else []), len(rest)

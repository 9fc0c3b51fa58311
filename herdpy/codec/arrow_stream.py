"""An Arrow IPC stream that comes in pieces of any size, cut into messages: pyarrow reads from files only.

Format: Arrow columnar format 1.4, "IPC Streaming Format" (a continuation mark, the length of the metadata,
the metadata, the body whose length the metadata says); format/Message.fbs.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

_PREFIX = struct.Struct("<Ii")
_CONTINUES = 0xFFFFFFFF
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
END_OF_STREAM = _PREFIX.pack(_CONTINUES, 0)
"""The mark after the last message."""
ipc: Any = pa.ipc


class ArrowStreamError(ValueError):
    """What came is no Arrow IPC stream; nothing more can be read of it."""


class MessageTooLongError(ArrowStreamError):
    """A message is longer than the reader allows."""


class DataAfterEndError(ArrowStreamError):
    """Something follows the mark of the end."""


class ArrowStreamReader:
    """Reads one stream. Buffers of its batches are not validated: who does not trust the writer does that.

    Attributes:
        schema, names: once it was read; names of its fields.
        is_ended: whether the mark of the end was read.

    Args:
        max_message_bytes: the longest message that is read, and the most that dictionaries take together.
    """

    def __init__(self, max_message_bytes: int) -> None:
        self.schema: pa.Schema | None = None
        self.names: list[str] = []
        self.is_ended = False
        self._max_message_bytes = max_message_bytes
        self._data = bytearray()
        self._opening: list[bytes] = []  # the schema's message, then those of dictionaries
        self._has_dictionaries = False

    def feed(self, data: bytes) -> list[pa.RecordBatch]:
        """Take the next bytes; gives the batches that are complete, perhaps none yet. ArrowStreamError."""
        if self.is_ended and data:
            raise DataAfterEndError("something follows the end of the stream")
        self._data += data
        found: list[pa.RecordBatch] = []
        while (message := self._next()) is not None:
            try:
                found += self._message(*message)
            except (pa.ArrowException, OSError, struct.error, UnicodeDecodeError) as error:
                raise ArrowStreamError(str(error)) from error
        return found

    @property
    def has_rest(self) -> bool:
        """Whether there are bytes of a message that is not complete."""
        return bool(self._data)

    def _next(self) -> tuple[int, bytes] | None:
        """The kind and bytes of the next message that is complete."""
        data = self._data
        if len(data) < _PREFIX.size:
            return None
        mark, length = _PREFIX.unpack_from(data)
        if mark != _CONTINUES or length < 0:
            raise ArrowStreamError("a message does not begin with a continuation mark")
        if length == 0:
            if len(data) > _PREFIX.size:
                raise DataAfterEndError("something follows the end of the stream")
            self.is_ended = True
            data.clear()
            return None
        self._check(length)
        if len(data) < 8 + length:
            return None
        try:
            kind, body = _header(bytes(data[8 : 8 + length]))
        except struct.error:
            raise ArrowStreamError("a message's metadata is damaged") from None
        if body < 0:
            raise ArrowStreamError("a message's metadata is damaged")
        self._check(length + body)
        size = 8 + length + body
        if len(data) < size:
            return None
        message = bytes(data[:size])
        del data[:size]
        return kind, message

    def _check(self, size: int) -> None:
        if size > self._max_message_bytes:
            raise MessageTooLongError(f"a message is longer than {self._max_message_bytes} bytes")

    def _message(self, kind: int, message: bytes) -> list[pa.RecordBatch]:
        if self.schema is None:
            if kind != _SCHEMA:
                raise ArrowStreamError("it does not begin with a schema")
            schema = ipc.read_schema(pa.py_buffer(message))
            self.names = schema.names  # damaged ones fail here
            self._opening = [message]
            self._has_dictionaries = any(_has_dictionary(field.type) for field in schema)
            self.schema = schema
            return []
        if kind == _DICTIONARY:
            self._opening.append(message)
            self._check(sum(map(len, self._opening)))
            return []
        if kind != _BATCH:
            raise ArrowStreamError("a message is neither a dictionary nor a record batch")
        if self._has_dictionaries:
            return [ipc.open_stream(pa.py_buffer(b"".join([*self._opening, message]))).read_next_batch()]
        return [ipc.read_record_batch(pa.py_buffer(message), self.schema)]


def _header(metadata: bytes) -> tuple[int, int]:
    """The kind of a message and its body's length, of a flatbuffer of table Message."""
    (root,) = struct.unpack_from("<I", metadata)
    (back,) = struct.unpack_from("<i", metadata, root)
    table = root - back
    if table < 0:
        raise struct.error("a table before its buffer")
    (size,) = struct.unpack_from("<H", metadata, table)
    kind = body = 0
    if size > 6:  # fields: version, header_type, header, bodyLength
        (at,) = struct.unpack_from("<H", metadata, table + 6)
        kind = struct.unpack_from("<B", metadata, root + at)[0] if at else 0
    if size > 10:
        (at,) = struct.unpack_from("<H", metadata, table + 10)
        body = struct.unpack_from("<q", metadata, root + at)[0] if at else 0
    return kind, body


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(i).type) for i in range(kind.num_fields))

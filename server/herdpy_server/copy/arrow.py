"""COPY's format "arrow": an Arrow IPC stream, in pieces of any size.

Beside ``textual`` and ``binary``. pyarrow reads streams from files only, so the messages are cut here, and
each is given to it whole. Format: Arrow columnar format 1.4, "IPC Streaming Format" (a continuation mark,
the length of the metadata, the metadata, the body whose length the metadata says); format/Message.fbs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from herdpy_server.copy.target import CopyTarget
from herdpy_sql.errors import SqlError

_PREFIX = struct.Struct("<Ii")
_CONTINUES = 0xFFFFFFFF
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
ipc: Any = pa.ipc


class ArrowReader:
    """Reads an Arrow IPC stream whose fields are the columns copied, by name."""

    def __init__(self, target: CopyTarget) -> None:
        self._target = target
        self._data = bytearray()
        self._schema: pa.Schema | None = None
        self._opening: list[bytes] = []  # the schema's message, then those of dictionaries
        self._has_dictionaries = False
        self._ended = False

    def feed(self, data: bytes) -> Sequence[pa.RecordBatch]:
        """See target.Reader. Batches have the stream's own types."""
        if self._ended and data:
            raise SqlError("22P04", "received copy data after EOF marker")
        self._data += data
        found: list[pa.RecordBatch] = []
        while (message := self._next()) is not None:
            try:
                found += self._message(*message)
            except (pa.ArrowException, OSError, struct.error, UnicodeDecodeError) as error:
                raise _invalid(str(error)) from error
        return found

    def finish(self) -> Sequence[pa.RecordBatch]:
        """See target.Reader. SqlError 22P04 when the stream was cut off."""
        if self._data:
            raise SqlError("22P04", "unexpected EOF in COPY data")
        return ()

    def _next(self) -> tuple[int, bytes] | None:
        """The kind and bytes of the next message that is complete."""
        data = self._data
        if len(data) < 8:
            return None
        mark, length = _PREFIX.unpack_from(data)
        if mark != _CONTINUES or length < 0:
            raise _invalid("a message does not begin with a continuation mark")
        if length == 0:
            if len(data) > 8:
                raise SqlError("22P04", "received copy data after EOF marker")
            self._ended = True
            data.clear()
            return None
        self._check(length)
        if len(data) < 8 + length:
            return None
        try:
            kind, body = _header(bytes(data[8 : 8 + length]))
        except struct.error:
            raise _invalid("a message's metadata is damaged") from None
        if body < 0:
            raise _invalid("a message's metadata is damaged")
        self._check(length + body)
        size = 8 + length + body
        if len(data) < size:
            return None
        message = bytes(data[:size])
        del data[:size]
        return kind, message

    def _check(self, size: int) -> None:
        if size > self._target.max_record_bytes:
            raise SqlError("54000", f"COPY record is longer than {self._target.max_record_bytes} bytes")

    def _message(self, kind: int, message: bytes) -> list[pa.RecordBatch]:
        if self._schema is None:
            if kind != _SCHEMA:
                raise _invalid("it does not begin with a schema")
            self._schema = ipc.read_schema(pa.py_buffer(message))
            self._opening = [message]
            self._check_names(self._schema.names)
            self._has_dictionaries = any(_has_dictionary(field.type) for field in self._schema)
            return []
        if kind == _DICTIONARY:
            self._opening.append(message)
            self._check(sum(map(len, self._opening)))
            return []
        if kind != _BATCH:
            raise _invalid("a message is neither a dictionary nor a record batch")
        if self._has_dictionaries:
            batch = ipc.open_stream(pa.py_buffer(b"".join([*self._opening, message]))).read_next_batch()
        else:
            batch = ipc.read_record_batch(pa.py_buffer(message), self._schema)
        batch.validate(full=True)
        return [batch]

    def _check_names(self, names: Sequence[str]) -> None:
        wanted = [name for name, _ in self._target.columns]
        for name in names:
            if name not in wanted:
                raise SqlError("22P04", f'the Arrow stream has a field "{name}" that is not copied')
        if len(set(names)) != len(names):
            raise SqlError("22P04", "the Arrow stream has two fields of the same name")
        for name in wanted:
            if name not in names:
                raise SqlError("22P04", f'missing data for column "{name}"')


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


def _invalid(reason: str) -> SqlError:
    return SqlError("22P04", "invalid Arrow IPC stream in COPY data", detail=reason)


class ArrowWriter:
    """Writes an Arrow IPC stream; every message of it is a piece."""

    def start(self, schema: pa.Schema) -> Sequence[bytes]:
        """The schema's message."""
        message: bytes = schema.serialize().to_pybytes()
        return [message]

    def batch(self, batch: pa.RecordBatch) -> Sequence[bytes]:
        """One message."""
        message: bytes = batch.serialize().to_pybytes()
        return [message]

    def end(self) -> Sequence[bytes]:
        """The end-of-stream mark."""
        return [_PREFIX.pack(_CONTINUES, 0)]

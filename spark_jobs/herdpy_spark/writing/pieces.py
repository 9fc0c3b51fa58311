"""Record batches as the pieces of one Arrow IPC stream, with its size and checksum. Pure."""

from __future__ import annotations

import struct

import google_crc32c
import pyarrow as pa

_END = struct.pack("<Ii", 0xFFFFFFFF, 0)


class StreamPieces:
    """Gives the bytes of a stream piece by piece: ``start``, ``batch`` again and again, ``end``.

    Attributes:
        rows, size_bytes, crc: of what was given so far; ``crc`` is CRC32C.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.rows = 0
        self.size_bytes = 0
        self.crc = 0

    def start(self) -> bytes:
        """The schema's message."""
        return self._counted(self._schema.serialize().to_pybytes())

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """A batch's message."""
        self.rows += batch.num_rows
        return self._counted(batch.serialize().to_pybytes())

    def end(self) -> bytes:
        """The mark of the stream's end."""
        return self._counted(_END)

    def _counted(self, piece: bytes) -> bytes:
        self.size_bytes += len(piece)
        self.crc = google_crc32c.extend(self.crc, piece)
        return piece

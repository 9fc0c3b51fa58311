"""Many messages at once: of the bodies in an Arrow array without a Python object for each.

Beside ``rows``. Format: PostgreSQL 15 manual, 55.7 "Message Formats": a type byte, the length, the body.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

pc: Any = pyarrow.compute
_HEAD = struct.Struct("!ci")


def copy_data_messages(pieces: Any) -> bytes:
    """CopyData messages, one for each piece of a list of bytes or of an Arrow array of type binary."""
    if isinstance(pieces, pa.Array):
        return messages(b"d", pieces)
    return b"".join([part for piece in pieces for part in (_HEAD.pack(b"d", len(piece) + 4), piece)])


def messages(kind: bytes, pieces: Any) -> bytes:
    """The messages of a type whose bodies are in an Arrow array of type binary."""
    count = len(pieces)
    if not count:
        return b""
    heads = np.empty((count, 5), np.uint8)
    heads[:, 0] = kind[0]
    lengths = pc.binary_length(pieces).to_numpy(zero_copy_only=False) + 4
    heads[:, 1:] = lengths.astype(">i4").view(np.uint8).reshape(count, 4)
    offsets = np.arange(0, 5 * count + 1, 5, dtype=np.int32)
    buffer: Any = pa.py_buffer
    starts = pa.Array.from_buffers(pa.binary(), count, [None, buffer(offsets), buffer(heads)])
    joined = pc.binary_join_element_wise(starts, pieces, pa.scalar(b"", pa.binary()))
    _, places, data = joined.buffers()
    ends = np.frombuffer(places, np.int32, count + 1, joined.offset * 4)
    whole: bytes = data.slice(int(ends[0]), int(ends[-1] - ends[0])).to_pybytes()
    return whole

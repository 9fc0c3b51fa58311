"""Arrow arrays as texts, where those who take them have no such type: uuid, time, interval. No I/O."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from herdpy.codec.arrow import array_to_datums
from herdpy.codec.kinds import Field, Kind
from herdpy_sql.values.intervals import interval_text

Array = Any  # pyarrow's stubs know arrays by element type

pc: Any = pyarrow.compute
_DAY_US = 86_400_000_000
_INTERVAL: Any = Field(Kind.INTERVAL)


def interval_texts(array: Array) -> Array:
    """Intervals as SQL writes them."""
    intervals: list[Any] = array_to_datums(_INTERVAL, array)
    texts = [None if one is None else interval_text(one) for one in intervals]
    return pa.array(texts, pa.string())


def time_texts(array: Array) -> Array:
    """Times of day, 24:00:00 among them, to microseconds."""
    us = array.cast(pa.int64())
    last = pc.equal(us, _DAY_US)
    texts = pc.if_else(last, 0, us).cast(pa.time64("us")).cast(pa.string())
    return pc.if_else(last, "24:00:00.000000", texts)


_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)
_PLACES = [at for at in range(36) if at not in (8, 13, 18, 23)]


def uuid_texts(storage: Array) -> Array:
    """The storage of UUIDs, 16 bytes each, as they are written."""
    count = len(storage)
    raw = np.frombuffer(storage.buffers()[1] or b"", np.uint8)
    raw = raw[storage.offset * 16 : (storage.offset + count) * 16].reshape(count, 16)
    texts = np.full((count, 36), ord("-"), np.uint8)
    texts[:, _PLACES] = _HEX[raw].reshape(count, 32)
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(36)
    plain = pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(texts.tobytes())]
    )
    return pc.if_else(storage.is_valid(), plain, None) if storage.null_count else plain

"""What surrounds every record of the log: its type, the version of its body's layout, the body's length.

Below ``records`` and ``load_records``, which have the bodies.
"""

from __future__ import annotations

from struct import Struct

from herdpy.log.errors import RecordError

FRAME = Struct(">BBI")
FRAME_BYTES = FRAME.size


def exactly(start: int, end: int, size: int) -> None:
    """RecordError unless a body has so many bytes."""
    if end - start != size:
        raise RecordError(f"a record's body has {end - start} bytes, not {size}")


def at_least(start: int, end: int, size: int) -> None:
    """RecordError if a body has fewer bytes."""
    if end - start < size:
        raise RecordError(f"a record's body has {end - start} bytes, fewer than {size}")

"""Codec layer: many rows at once, between row images, keys or datums and Arrow arrays.

Scans hand Arrow batches to DuckDB, and bulk loads arrive as them; a row at a time is too slow for
either. Everything here equals what ``rows`` and ``keys`` do row by row, which is what the tests
hold it to, so that a compiled twin can replace this module. It alone of ``herdpy.codec`` needs
numpy and pyarrow.

Arrow types: BOOL bool; INT16, INT32, INT64 int16 to int64; FLOAT32, FLOAT64 float, double;
DECIMAL64, DECIMAL128 decimal128(18 or 38 unless the precision is given, scale); DECIMAL string in
plain notation (Arrow has no decimal without a fixed scale); TEXT, JSON string; BYTES binary; DATE
date32; TIME time64[us]; TIMESTAMP timestamp[us]; TIMESTAMPTZ timestamp[us, UTC]; UUID arrow.uuid,
which DuckDB reads as its UUID (and gives back as one if ``arrow_lossless_conversion`` is set).

Arrow has no infinite dates, DuckDB has: infinity is the greatest integer in both, but DuckDB's
-infinity is the least plus one. Arrays made here have DuckDB's, and arrays read here may have it.
"""

from __future__ import annotations

from herdpy.codec._arrowconform import OutOfRangeError, conform
from herdpy.codec._arrowkeys import batch_to_keys, keys_to_arrays
from herdpy.codec._arrowrows import batch_to_images, images_to_batch
from herdpy.codec._arrowstream import (
    END_OF_STREAM,
    ArrowStreamError,
    ArrowStreamReader,
    DataAfterEndError,
    MessageTooLongError,
)
from herdpy.codec._arrowtypes import array_to_datums, arrow_type, datums_to_array

__all__ = [
    "END_OF_STREAM",
    "ArrowStreamError",
    "ArrowStreamReader",
    "DataAfterEndError",
    "MessageTooLongError",
    "OutOfRangeError",
    "array_to_datums",
    "arrow_type",
    "batch_to_images",
    "batch_to_keys",
    "conform",
    "datums_to_array",
    "images_to_batch",
    "keys_to_arrays",
]

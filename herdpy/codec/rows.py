"""Codec layer: a row becomes an image, the bytes that the log carries and the store holds.

An image of n columns, every integer little-endian, nothing aligned:

=================  ==============================================================================
bytes              meaning
=================  ==============================================================================
2                  n, the number of columns in this image, unsigned
ceil(n / 8)        null bitmap: bit ``i % 8`` of byte ``i // 8`` is set when column i is NULL
sum of the slots   one slot for each column, in column order (below)
the rest           variable area: the bytes of the variable columns, in column order, end to end
=================  ==============================================================================

==========================================  ======  =============================================
kind                                        slot    holds
==========================================  ======  =============================================
BOOL                                        1       0 or 1
INT16                                       2       two's complement
INT32, DATE                                 4       two's complement; days since 1970-01-01
INT64, TIME, TIMESTAMP, TIMESTAMPTZ         8       two's complement; microseconds (see ``kinds``)
FLOAT32, FLOAT64                            4, 8    IEEE 754
DECIMAL64, DECIMAL128                       8, 16   value * 10**scale, two's complement
UUID                                        16      the bytes in RFC 4122 order
INTERVAL                                    16      months (4), days (4), microseconds (8)
TEXT, JSON, BYTES, DECIMAL, JSONB, ARRAY,   4       unsigned: where the column's bytes end,
VECTOR
                                                    counted from the start of the variable area;
                                                    they start where the variable column before
                                                    ends (0 for the first)
==========================================  ======  =============================================

TEXT, JSON and JSONB are UTF-8; ``_contents`` tells what ARRAY and VECTOR have; DECIMAL is the number
in ASCII with all its digits and no exponent ("-12.50", "1000"), which keeps its display scale. The
slot of a NULL is all zeros, except that a variable column's still says where it would end, which is
the end of the one before.

Columns are only appended: a dropped one keeps its place (and is written as NULL), so the layout
of an image of n columns follows from the first n fields of any later definition of the table,
and the columns that an image lacks have the datum ``Field.missing``. A row is therefore read
with today's definition, whatever the definition was when it was written.

``RowCodec`` holds the functions that ``_rowencode`` and ``_rowdecode`` write for a table's fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from herdpy.codec._rowdecode import make_decoder
from herdpy.codec._rowencode import make_encoder
from herdpy.codec._rowslots import Decoder, Encoder
from herdpy.codec.kinds import Datum, Field

MAX_COLUMNS = 0xFFFF


class RowCodec:
    """Encodes rows of these fields, and decodes their images, older layouts included."""

    def __init__(self, fields: Sequence[Field]) -> None:
        """Raise ValueError if there are more than 65,535 fields."""
        if len(fields) > MAX_COLUMNS:
            raise ValueError(f"a row has at most {MAX_COLUMNS} columns, not {len(fields)}")
        self.fields = tuple(fields)
        self._decoders: dict[tuple[int, ...], Decoder] = {}
        #: encode(values): the image of a row. ValueError names the column that does not fit.
        self.encode: Encoder = make_encoder(self.fields)
        #: decode(image): every column of a row. ValueError if it is not an image of these fields.
        self.decode: Decoder = self.decoder(range(len(self.fields)))

    def encode_many(self, rows: Iterable[Sequence[Datum]]) -> list[bytes]:
        """Return the images of the rows; errors as ``encode``."""
        return list(map(self.encode, rows))

    def decoder(self, positions: Sequence[int]) -> Decoder:
        """Return a function that decodes these columns only, in this order.

        IndexError if there is no such column. The function raises ValueError as ``decode`` does.
        Decoders are kept: asking again costs a dictionary lookup.
        """
        key = tuple(positions)
        found = self._decoders.get(key)
        if found is None:
            found = self._decoders[key] = make_decoder(self.fields, key)
        return found

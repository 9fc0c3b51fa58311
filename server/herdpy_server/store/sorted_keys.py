"""Store layer, inside: the sorted keys of kept columns, for finding the rows that changed.

The key columns of a table come in, block by block; keys are looked for by binary search, with the
rows' own columns standing for their keys until so many were asked for that packing all pays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from herdpy.codec import arrow
from herdpy.codec.kinds import Kind
from herdpy_sql.catalog import Table

_SEARCHED = 16  # so many keys are looked for before all are packed
_MANY = 2000  # from so many keys on, one pass over all rows beats a search for each
_INTEGERS = frozenset({Kind.INT16, Kind.INT32, Kind.INT64})


class SortedKeys:
    """The sorted keys of many rows, from the rows' key columns.

    A few keys are looked for by encoding the rows that a binary search meets; when there are more,
    all keys are made and packed, once.
    """

    def __init__(self, table: Table, width: int | None, block_rows: int) -> None:
        """``width``: bytes of every key, None when they differ; ``block_rows``: rows of a full block."""
        self._codec = table.key_codec
        self._fields = [table.fields[at] for at in table.key_positions]
        self._width = width
        self._block_rows = block_rows
        self._blocks: list[list[pa.Array[Any]]] = []
        self._count = self._looked_for = 0
        self._packed: Any = None

    def add(self, columns: list[pa.Array[Any]]) -> None:
        """The next block of rows, by their key columns; all but the last one are full."""
        self._blocks.append(columns)
        self._count += len(columns[0])

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> bytes:
        if self._packed is not None:
            if self._width is not None:
                return bytes(self._packed[row : row + 1].tobytes())
            return bytes(self._packed[row].as_py())
        block, within = divmod(row, self._block_rows)
        columns = zip(self._fields, self._blocks[block], strict=True)
        return self._codec.encode(
            [arrow.array_to_datums(field, column.slice(within, 1))[0] for field, column in columns]
        )

    @property
    def nbytes(self) -> int:
        """What the packed keys take."""
        return 0 if self._packed is None else int(self._packed.nbytes)

    def _pack(self) -> None:
        if all(one.kind in _INTEGERS and not one.nullable for one in self._codec.fields):
            parts = [self._packed_integers(columns) for columns in self._blocks]
            self._packed = np.concatenate(parts)
            return
        made = [arrow.batch_to_keys(self._codec.fields, columns) for columns in self._blocks]
        if self._width is not None:
            self._packed = np.frombuffer(b"".join(map(b"".join, made)), f"S{self._width}")
        else:
            self._packed = pa.concat_arrays([pa.array(part, pa.large_binary()) for part in made])

    def _packed_integers(self, columns: list[pa.Array[Any]]) -> Any:
        """The keys of a block as ``herdpy.codec.keys`` has them: big-endian, sign bit flipped."""
        keys = np.empty((len(columns[0]), self._width or 0), np.uint8)
        at = 0
        for one, column in zip(self._codec.fields, columns, strict=True):
            values = column.to_numpy()
            width = values.dtype.itemsize
            piece = values.astype(f">i{width}").view(np.uint8).reshape(-1, width)
            if one.descending:
                piece = ~piece
            keys[:, at : at + width] = piece
            keys[:, at] ^= 0x80
            at += width
        return keys.view(f"S{self._width}").reshape(-1)

    def first_from(self, key: bytes) -> int:
        """The first row whose key is ``key`` or greater."""
        return bisect_left(self, key)

    def rows_of(self, keys: Sequence[bytes]) -> list[int]:
        """The row of each key, -1 where there is none."""
        if not self._count or not keys:
            return [-1] * len(keys)
        self._looked_for += len(keys)
        if self._packed is None and self._looked_for > _SEARCHED:
            self._pack()
        if self._packed is not None and self._width is not None:
            wanted = np.array(keys, self._packed.dtype)
            places = np.searchsorted(self._packed, wanted)
            found = self._packed[np.minimum(places, self._count - 1)] == wanted
            rows: list[int] = np.where(found, places, -1).tolist()
            return rows
        if self._packed is not None and len(keys) > _MANY:
            hits = pc.index_in(self._packed, value_set=pa.array(keys, pa.large_binary()))
            placed = np.full(len(keys), -1, np.int64)
            placed[hits.drop_null().to_numpy()] = np.flatnonzero(
                hits.is_valid().to_numpy(zero_copy_only=False)
            )
            at: list[int] = placed.tolist()
            return at
        slots = [self.first_from(key) for key in keys]
        pairs = zip(slots, keys, strict=True)
        return [row if row < self._count and self[row] == key else -1 for row, key in pairs]

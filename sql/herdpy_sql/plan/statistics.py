"""What ANALYZE knows of a table, and what it says of conditions: estimates, never answers.

Below ``access``. Values are held as the bytes that keys are made of, in which every type has its order:
so one histogram does for all types. A table's statistics are an object of the catalog, replicated as tables
are, so that every replica plans alike; they are as old as the last ANALYZE.
"""

from __future__ import annotations

import functools
import struct
from bisect import bisect_left
from typing import TYPE_CHECKING

import msgspec

from herdpy.codec.keys import KeyCodec
from herdpy.codec.kinds import KeyField
from herdpy_sql.objects import StatisticsDefinition

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum, Field
    from herdpy_sql.catalog import Catalog, Table

UNKNOWN_RANGE = 1 / 3
"""The share of rows above or below a value that is not known while planning, as PostgreSQL guesses it."""
_LEAST = 1e-9
LONGEST = 64
"""Bytes of a value that are kept: two longer ones that begin alike count as one."""


class ColumnStatistics(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of one column.

    Attributes:
        nulls: share of rows without a value.
        distinct: how many different values there are.
        common: the most frequent values as key bytes (hex), each with its share of all rows.
        bounds: values at equal steps through the others in order, the least and the greatest included.
    """

    nulls: float = 0.0
    distinct: int = 0
    common: tuple[tuple[str, float], ...] = ()
    bounds: tuple[str, ...] = ()

    def equal(self, value: bytes | None) -> float:
        """The share of rows that equal a value; None: one that is not known."""
        if value is not None:
            for text, share in self.common:
                if text == value.hex():
                    return share
        known = sum(share for _, share in self.common) if value is not None else 0.0
        values = self.distinct - (len(self.common) if value is not None else 0)
        return max((1.0 - self.nulls - known) / max(values, 1), _LEAST)

    def below(self, value: bytes | None) -> float:
        """The share of rows that are less than a value; None: one that is not known."""
        if value is None:
            return UNKNOWN_RANGE
        text = value.hex()
        known = sum(share for _, share in self.common)
        found = sum(share for one, share in self.common if one < text)
        if len(self.bounds) > 1:
            place = min(bisect_left(self.bounds, text), len(self.bounds) - 1)
            found += max(1.0 - self.nulls - known, 0.0) * place / (len(self.bounds) - 1)
        return found


class TableStatistics(msgspec.Struct, frozen=True):
    """Of one table: its rows when it was looked at, and its columns by position."""

    rows: int
    columns: dict[int, ColumnStatistics]


def statistics_of(catalog: Catalog, table: Table) -> TableStatistics | None:
    """What is known of ``table``; None when it was never analyzed, or was made anew since."""
    found: dict[int, TableStatistics] | None = catalog.derived.get(TableStatistics)  # type: ignore[assignment]
    if found is None:
        found = {
            one.definition.table_id: decode(bytes(one.definition.data))
            for one in catalog.objects.values()
            if isinstance(one.definition, StatisticsDefinition)
        }
        catalog.derived[TableStatistics] = found
    return found.get(table.id)


def decode(data: bytes) -> TableStatistics:
    """The inverse of :func:`encode`."""
    return _decoder.decode(data)


def encode(statistics: TableStatistics) -> bytes:
    """As JSON, for the catalog."""
    return msgspec.json.encode(statistics)


@functools.lru_cache(maxsize=256)
def position_codec(field: Field) -> KeyCodec:
    """Encodes one value of a column as statistics hold it."""
    return KeyCodec([KeyField(field.kind, field.scale)])


def position_bytes(field: Field, value: Datum) -> bytes | None:
    """A value as statistics hold it; None when the column can have no such value."""
    if value is None:
        return None
    try:
        return position_codec(field).encode([value])[:LONGEST]
    except (ValueError, TypeError, ArithmeticError, AttributeError, struct.error):  # of another type
        return None


_decoder = msgspec.json.Decoder(TableStatistics)

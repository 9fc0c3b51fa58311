"""Which partition of a partitioned table has a row, or may have rows with keys in a range. Above ``catalog``.

The values of the partition key become bytes by the codec of keys, so that a partition of RANGE is an interval
of bytes and one of LIST a set of them. A row's partition is found by one search among these; so is what a
statement has to read, whose conditions on the partition key are ranges of the same bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import gcd
from operator import itemgetter
from typing import TYPE_CHECKING
from zlib import crc32

from herdpy.codec.keys import successor
from herdpy_sql.catalog import KeyPart
from herdpy_sql.errors import SqlError
from herdpy_sql.partition_bounds import LIST, MAXVALUE, RANGE, BoundLimit
from herdpy_sql.shown_rows import failing_row, shown_value

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Catalog, Index, Table
    from herdpy_sql.partition_bounds import PartitionBound

KeyBytes = tuple[bytes | None, bytes | None]
"""A range of partition keys: from (inclusive) and to (exclusive), None where it is open."""


class PartitionMap:
    """The partitions of one partitioned table, as one catalog has them.

    Attributes:
        table: the partitioned table. keyed: the same, keyed by its partition key.
        partitions: all of them; those of RANGE in the order of their bounds, the default one last.
        default: the one that takes what no other does; None where there is none.
    """

    def __init__(self, table: Table, partitions: Sequence[Table]) -> None:
        assert table.partition_key is not None
        key = table.partition_key
        self.table = table
        self.keyed = replace(table, key=tuple(KeyPart(position) for position in key.positions))
        self.default: Table | None = None
        self._strategy = key.strategy
        self._positions = key.positions
        self._encode = self.keyed.key_codec.encode
        self._lows: list[bytes] = []
        self._highs: list[bytes | None] = []
        self._ranges: list[Table] = []
        self._lists: dict[bytes, Table] = {}
        self._hashes: list[tuple[int, int, Table]] = []
        self._children: dict[tuple[int, int], Index] = {}
        for one in partitions:
            self._add(one)
        ordered = sorted(zip(self._lows, self._highs, self._ranges, strict=True), key=itemgetter(0))
        self._lows = [low for low, _, _ in ordered]
        self._highs = [high for _, high, _ in ordered]
        self._ranges = [one for _, _, one in ordered]
        rest = [one for one in partitions if one is not self.default and key.strategy != RANGE]
        last: list[Table] = [] if self.default is None else [self.default]
        self.partitions: tuple[Table, ...] = (*self._ranges, *rest, *last)
        whole = [part.position for part in table.key[: len(key.positions)]]
        leads = whole == list(key.positions) and not any(part.descending for part in table.key)
        self._leads = leads and key.strategy == RANGE

    def __reduce__(self) -> tuple[type[PartitionMap], tuple[Table, tuple[Table, ...]]]:
        return PartitionMap, (self.table, self.partitions)

    def _add(self, one: Table) -> None:
        bound = one.bound
        assert bound is not None
        if bound.is_default:
            self.default = one
        elif self._strategy == RANGE:
            low = self.edge(bound.low)
            assert low is not None  # such a range would be empty
            self._lows.append(low)
            self._highs.append(self.edge(bound.high))
            self._ranges.append(one)
        elif self._strategy == LIST:
            self._lists |= {self._encode((value,)): one for value in bound.values}
        else:
            self._hashes.append((bound.modulus, bound.remainder, one))

    def edge(self, limits: Sequence[BoundLimit]) -> bytes | None:
        """The least partition key, as bytes, that is not below ``limits``; None: there is none."""
        values: list[Datum] = []
        for limit in limits:
            if limit.side:
                start = self.keyed.key_codec.encode_prefix(values)
                if limit.side != MAXVALUE:
                    return start
                return successor(start) if start else None
            values.append(limit.value)
        return self._encode(values)

    @property
    def ids(self) -> tuple[int, ...]:
        """Those of the partitions, in order."""
        return tuple(sorted(one.id for one in self.partitions))

    @property
    def is_ordered(self) -> bool:
        """Whether the partitions one after another have their rows in the order of the table's key."""
        return self._leads and self.default is None

    # Rows.

    def of_row(self, row: Sequence[Datum]) -> Table | None:
        """The partition that takes a row, by its values at all positions; None where none does."""
        return self.of_values([row[position] for position in self._positions])

    def of_key(self, key: bytes) -> Table | None:
        """The partition of the row with that key of the table, which has the partition key in it."""
        if self._leads:
            return self._in_ranges(key) or self.default
        values = dict(zip(self.table.key_positions, self.table.key_codec.decode(key), strict=True))
        return self.of_values([values[position] for position in self._positions])

    def of_values(self, values: Sequence[Datum]) -> Table | None:
        """The partition that takes a row with these values of the partition key; None where none does."""
        if self._strategy == RANGE:
            found = None if None in values else self._in_ranges(self._encode(values))
        elif self._strategy == LIST:
            found = self._lists.get(self._encode(values))
        else:
            found = self._hashed(self._encode(values))
        return self.default if found is None else found

    def _in_ranges(self, key: bytes) -> Table | None:
        at = bisect_right(self._lows, key) - 1
        if at < 0:
            return None
        high = self._highs[at]
        return self._ranges[at] if high is None or key < high else None

    def _hashed(self, key: bytes) -> Table | None:
        number = crc32(key)
        return next((one for modulus, rest, one in self._hashes if number % modulus == rest), None)

    def of_all_between(self, low: Datum, high: Datum) -> Table | None:
        """Of RANGE by one column: the partition that takes all values from ``low`` to ``high``; None: several
        do, or none."""
        if self._strategy != RANGE:
            return None
        first, last = self._in_ranges(self._encode((low,))), self._in_ranges(self._encode((high,)))
        return first if first is last else None

    def route(self, row: Sequence[Datum]) -> Table:
        """The partition that takes a row. SqlError 23514 where none does."""
        found = self.of_row(row)
        if found is None:
            raise no_partition(self.table, row)
        return found

    def check(self, partition: Table, row: Sequence[Datum]) -> None:
        """SqlError 23514 when another partition takes the row, or none does."""
        found = self.of_row(row)
        if found is None or found.id != partition.id:
            raise SqlError(
                "23514",
                f'new row for relation "{partition.name}" violates partition constraint',
                detail=failing_row(partition, row),
                table=partition.name,
            )

    # What a statement reads.

    def within(self, ranges: Iterable[KeyBytes]) -> tuple[Table, ...]:
        """The partitions that may have rows whose partition keys are in one of the ranges, in order."""
        wanted: set[int] = set()
        for low, high in ranges:
            wanted.update(one.id for one in self._within(low, high))
        return tuple(one for one in self.partitions if one.id in wanted)

    def _within(self, low: bytes | None, high: bytes | None) -> Iterator[Table]:
        if self.default is not None:
            yield self.default
        if self._strategy == RANGE:
            yield from self._meeting(low, high)
        elif self._strategy == LIST:
            for value, one in self._lists.items():
                if (low is None or low <= value) and (high is None or value < high):
                    yield one
        elif low is not None and high == successor(low) and self._is_whole(low):
            found = self._hashed(low)
            if found is not None:
                yield found
        else:
            yield from (one for _, _, one in self._hashes)

    def _meeting(self, low: bytes | None, high: bytes | None) -> Iterator[Table]:
        """The partitions of RANGE that have something of a range of keys, in order."""
        first = 0 if low is None else max(bisect_right(self._lows, low) - 1, 0)
        for at in range(first, len(self._ranges)):
            if high is not None and self._lows[at] >= high:
                return
            stop = self._highs[at]
            if low is None or stop is None or low < stop:
                yield self._ranges[at]

    def _is_whole(self, key: bytes) -> bool:
        """Whether these bytes are of all columns of the partition key."""
        try:
            self.keyed.key_codec.decode(key)
        except ValueError:
            return False
        return True

    def overlapped(self, bound: PartitionBound) -> Table | None:
        """A partition that takes rows which one with that bound would take, too; None: there is none."""
        if bound.is_default:
            return self.default
        if self._strategy == LIST:
            return next(filter(None, (self._lists.get(self._encode((one,))) for one in bound.values)), None)
        if self._strategy == RANGE:
            return next(self._meeting(self.edge(bound.low), self.edge(bound.high)), None)
        for modulus, rest, one in self._hashes:
            step = gcd(modulus, bound.modulus)
            if rest % step == bound.remainder % step:
                return one
        return None

    def child(self, partition: Table, index: Index) -> Index:
        """The partition's part of an index of the partitioned table. SqlError 40001 when it is not there."""
        found = self._children.get((partition.id, index.id))
        if found is None:
            found = next((one for one in partition.indexes if one.parent == index.id), None)
            if found is None:
                raise SqlError("40001", f'the indexes of table "{partition.name}" were changed concurrently')
            self._children[partition.id, index.id] = found
        return found


def partitions_of(catalog: Catalog, table: Table) -> PartitionMap:
    """The partitions of a partitioned table; kept with the catalog."""
    found = catalog.derived.get(("partitions", table.id))
    if found is None:
        current = catalog.tables.get(table.id, table)
        found = PartitionMap(current, catalog.partitions.get(table.id, ()))
        catalog.derived["partitions", table.id] = found
    assert isinstance(found, PartitionMap)
    return found


def siblings_of(catalog: Catalog, partition: Table) -> PartitionMap:
    """The partitions of the table that ``partition`` is one of."""
    assert partition.bound is not None
    return partitions_of(catalog, catalog.tables[partition.bound.parent])


def read_tables(catalog: Catalog, tables: Iterable[Table]) -> Iterator[Table]:
    """The tables with their partitions."""
    for table in tables:
        yield table
        yield from catalog.partitions.get(table.id, ())


def parts_of_index(catalog: Catalog, table: Table, index: Index) -> tuple[tuple[Table, Index], ...]:
    """The parts of a partitioned table's index, each with its partition; none of any other index."""
    if table.partition_key is None:
        return ()
    spread = partitions_of(catalog, table)
    return tuple((one, spread.child(one, index)) for one in spread.partitions)


def no_partition(table: Table, row: Sequence[Datum]) -> SqlError:
    """No partition takes a row."""
    assert table.partition_key is not None
    positions = table.partition_key.positions
    names = ", ".join(table.columns[position].name for position in positions)
    shown = ", ".join(shown_value(table.columns[at].type, row[at]) for at in positions)
    return SqlError(
        "23514",
        f'no partition of relation "{table.name}" found for row',
        detail=f"Partition key of the failing row contains ({names}) = ({shown}).",
        table=table.name,
    )

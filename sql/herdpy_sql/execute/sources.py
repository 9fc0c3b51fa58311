"""Where rows come from: a key, a range of keys or index entries, or the whole table.

Each source gives pairs of (key, row image) from the view. ``outer`` is the row joined so far, so the same
sources serve single tables and the inner sides of nested loops. A :class:`KeyRange` holds equalities on the
first columns of a key and at most one range on the next: ``bounds(row, params, clock)`` gives (low, high),
high exclusive, or None when no row can match. A value of another type is *fitted*: replaced by the greatest
value the column can hold that is not above it, and whether that is exact, from which each comparison
follows without loss.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import ROUND_FLOOR, Context, Decimal
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from herdpy.codec.keys import successor
from herdpy.codec.kinds import Grid, Kind
from herdpy_sql.partition_map import partitions_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from herdpy.codec.keys import KeyCodec
    from herdpy.codec.kinds import Datum, KeyField
    from herdpy_sql.catalog import Index, Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Compiled, Row
    from herdpy_sql.partition_map import PartitionMap
    from herdpy_sql.storage import View

_BELOW, _EXACT, _INSIDE, _ABOVE = -1, 0, 1, 2
Fit = Callable[["Datum"], tuple["Datum", int]]
_INT_BITS = {Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}
_FLOOR = Context(prec=200_000, rounding=ROUND_FLOOR)


@dataclass(frozen=True, slots=True)
class KeyValue:
    """What one key column is compared with; ``fit`` is None when its datum fits as it is."""

    field: KeyField
    value: Compiled
    fit: Fit | None
    op: str = "="
    param: int | None = None  # index into the parameters, when it is one
    several: bool = False  # its datum is an array, each element of which is compared with


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Equalities on the first columns of ``codec``'s keys, then perhaps one IN, then perhaps a range."""

    codec: KeyCodec
    equals: tuple[KeyValue, ...] = ()
    items: tuple[KeyValue, ...] = ()  # of an IN on the column after ``equals``
    low: KeyValue | None = None  # op > or >= on the column after those
    high: KeyValue | None = None  # op < or <=
    low_rest: tuple[KeyValue, ...] = ()  # of a comparison of rows: of the columns after that one
    high_rest: tuple[KeyValue, ...] = ()

    @property
    def is_point(self) -> bool:
        """Whether every column of the key has one value."""
        return len(self.equals) == len(self.codec.fields)

    @property
    def width(self) -> int:
        """How many columns are bound to values."""
        return len(self.equals) + bool(self.items)

    def prefixes(self, row: Row, params: Row, clock: Clock) -> list[tuple[Datum, ...]]:
        """The values of the bound columns: one tuple, one for each item of IN, or none."""
        values = _values(self.equals, row, params, clock)
        if values is None:
            return []
        head = tuple(values)
        if not self.items:
            return [head]
        found = [value for one in self.items for value in _each(one, row, params, clock)]
        return [(*head, value) for value in found if value is not None]

    def keys(self, row: Row, params: Row, clock: Clock) -> list[bytes]:
        """The whole keys, in order, when every column is bound."""
        keys = {k for p in self.prefixes(row, params, clock) if (k := _encode(self.codec.encode, p))}
        return sorted(keys)

    def bounds(self, row: Row, params: Row, clock: Clock) -> list[tuple[bytes | None, bytes | None]]:
        """The byte ranges to scan, in key order, none overlapping."""
        if self.low is None and self.high is None and not self.items:
            values = _values(self.equals, row, params, clock)
            start = None if values is None else _encode(self.codec.encode_prefix, values)
            return [] if start is None else [(start or None, successor(start) if start else None)]
        found = []
        for prefix in self.prefixes(row, params, clock):
            start = _encode(self.codec.encode_prefix, prefix)
            if start is None:
                continue
            if self.low is None and self.high is None:
                found.append((start or None, successor(start) if start else None))
                continue
            one = self._range(prefix, start, row, params, clock)
            if one is not None:
                found.append(one)
        return sorted(set(found), key=lambda pair: pair[0] or b"") if len(found) > 1 else found

    def _range(
        self, prefix: tuple[Datum, ...], start: bytes, row: Row, params: Row, clock: Clock
    ) -> tuple[bytes | None, bytes | None] | None:
        side = self.low or self.high
        assert side is not None
        field = side.field
        # The bytes of the column's values, NULLs (which no comparison accepts) left out.
        low: bytes | None = start + b"\x01" if field.nullable else start
        high: bytes | None = start + b"\x02" if field.nullable else successor(start) if start else None
        for bound, rest in ((self.low, self.low_rest), (self.high, self.high_rest)):
            if bound is None:
                continue
            value = bound.value(row, params, clock)
            if value is None:
                return None
            value, place = bound.fit(value) if bound.fit else (value, _EXACT)
            upward = bound.op in {">", ">="}  # the values wanted are above
            if place in {_BELOW, _ABOVE}:
                if (place == _ABOVE) == upward:
                    return None
                continue  # every value of the column satisfies it
            more = [one.value(row, params, clock) for one in rest]
            whole = place == _EXACT and None not in more
            edge = _encode(self.codec.encode_prefix, (*prefix, value, *more) if whole else (*prefix, value))
            if edge is None:
                return None
            inclusive = bound.op in {">=", "<="} if place == _EXACT else not upward
            if rest and not whole:
                inclusive = True  # more than is wanted; the condition itself is verified for each row
            if upward != field.descending:  # it is the low end in bytes
                low = edge if inclusive else successor(edge)
                if low is None:
                    return None
            else:
                high = successor(edge) if inclusive else edge
        if low is not None and high is not None and low >= high:
            return None
        return low or None, high


def _each(one: KeyValue, row: Row, params: Row, clock: Clock) -> list[Datum]:
    if not one.several:
        return [_exact(one, row, params, clock)]
    array: Any = one.value(row, params, clock)
    if array is None:
        return []
    fit = one.fit
    if fit is None:
        return list(array)
    fitted = [fit(value) for value in array if value is not None]
    return [value for value, place in fitted if place == _EXACT]


def _values(equals: tuple[KeyValue, ...], row: Row, params: Row, clock: Clock) -> list[Datum] | None:
    """What the columns are equal to; None when no row can be."""
    values: list[Datum] = []
    for one in equals:
        value = one.value(row, params, clock)
        if one.fit is not None and value is not None:
            value = _exact(one, row, params, clock)
        if value is None:
            return None
        values.append(value)
    return values


def _exact(one: KeyValue, row: Row, params: Row, clock: Clock) -> Datum:
    value = one.value(row, params, clock)
    if value is None or one.fit is None:
        return value
    value, place = one.fit(value)
    return value if place == _EXACT else None


def _encode(encode: Callable[[Sequence[Datum]], bytes], values: Sequence[Datum]) -> bytes | None:
    try:
        return encode(values)
    except ValueError:  # a value that no key has, so that no row has it
        return None


def point_encoder(found: KeyRange) -> Callable[[Row, Row, Clock], bytes | None]:
    """A fast ``(row, params, clock) -> key or None`` for a range that is one point."""
    encode = found.codec.encode
    numbers = [one.param for one in found.equals if one.param is not None and one.fit is None]
    if len(numbers) == len(found.equals) == 1:
        number = numbers[0]

        def by_parameter(row: Row, params: Row, clock: Clock) -> bytes | None:
            value = params[number]
            if value is None:
                return None
            try:
                return encode((value,))
            except ValueError:
                return None

        return by_parameter
    if len(numbers) == len(found.equals):

        def by_parameters(row: Row, params: Row, clock: Clock) -> bytes | None:
            values = [params[number] for number in numbers]
            if None in values:
                return None
            try:
                return encode(values)
            except ValueError:
                return None

        return by_parameters

    def by_values(row: Row, params: Row, clock: Clock) -> bytes | None:
        values = _values(found.equals, row, params, clock)
        return None if values is None else _encode(encode, values)

    return by_values


def fitting(field: KeyField, kind: Kind) -> Fit | bool | None:
    """How datums of ``kind`` fit the key column: a function, None for as they are, False for not at all."""
    own = field.kind
    if own == kind == Kind.ARRAY and field.scale < 2:
        return _plain_array
    if own == kind and own not in {Kind.DECIMAL64, Kind.DECIMAL128}:
        return None
    if own in _INT_BITS and kind in {*_INT_BITS, Kind.DECIMAL, Kind.DECIMAL64, Kind.DECIMAL128}:
        if kind in _INT_BITS and _INT_BITS[kind] < _INT_BITS[own]:
            return None
        return _integer_fit(_INT_BITS[own])
    if own in {Kind.DECIMAL64, Kind.DECIMAL128} and kind in _NUMBERS:
        return _decimal_fit(field.scale, 18 if own == Kind.DECIMAL64 else 38)
    if own == Kind.DECIMAL and kind in _NUMBERS:
        return _any_decimal
    if own == Kind.FLOAT64 and kind == Kind.FLOAT32:
        return None
    return False


_NUMBERS = {*_INT_BITS, Kind.DECIMAL, Kind.DECIMAL64, Kind.DECIMAL128}


def _integer_fit(bits: int) -> Fit:
    least, greatest = -(1 << bits - 1), (1 << bits - 1) - 1

    def fit(value: Datum) -> tuple[Datum, int]:
        assert isinstance(value, int | Decimal)
        whole = math.floor(value)
        if whole < least:
            return None, _BELOW
        if whole > greatest:
            return None, _ABOVE
        return whole, _EXACT if whole == value else _INSIDE

    return fit


def _decimal_fit(scale: int, digits: int) -> Fit:
    unit = Decimal(1).scaleb(-scale)
    limit = Decimal(10) ** (digits - scale)

    def fit(value: Datum) -> tuple[Datum, int]:
        assert isinstance(value, int | Decimal)
        number = Decimal(value)
        if number >= limit:
            return None, _ABOVE
        if number <= -limit:
            return None, _BELOW
        floor = number.quantize(unit, context=_FLOOR)
        if floor <= -limit:
            return None, _BELOW
        return floor, _EXACT if floor == number else _INSIDE

    return fit


def _plain_array(value: Datum) -> tuple[Datum, int]:
    """Of arrays of one dimension: any other comes behind the one of the same elements, before the next."""
    assert isinstance(value, tuple)
    return tuple(value), _INSIDE if isinstance(value, Grid) else _EXACT


def _any_decimal(value: Datum) -> tuple[Datum, int]:
    return (value if isinstance(value, Decimal) else Decimal(value)), _EXACT  # type: ignore[arg-type]


Pair = tuple[bytes, bytes]


class RowSource:
    """Rows of one table. ``conditions`` are what the access satisfies, as text for EXPLAIN."""

    table: Table
    conditions: str
    reverse: bool = False

    @property
    def few(self) -> bool:
        """Whether it is a look-up: of a key, or of one value of an index."""
        return False

    def opened(self, view: View, params: Row, clock: Clock) -> RowSource:
        """The source for one run, with what it keeps for that run only."""
        del view, params, clock
        return self

    def look_up(self, view: View, outer: Row, params: Row, clock: Clock) -> Sequence[Pair]:
        """The same as ``pairs``, all at once."""
        return list(self.pairs(view, outer, params, clock))

    def pairs(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[Pair]:
        """The rows' keys and images."""
        raise NotImplementedError

    def of_partition(self, partition: Table, spread: PartitionMap) -> RowSource:
        """The same of a partition of the table."""
        return replace(self, table=partition)  # type: ignore[type-var]  # every source of a partition is one

    def placed(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[tuple[bytes, Pair]]:
        """``pairs``, each with the bytes that they come in the order of."""
        return ((pair[0], pair) for pair in self.pairs(view, outer, params, clock))

    def explain(self) -> list[str]:
        """Lines for EXPLAIN."""
        raise NotImplementedError

    def _lines(self, title: str) -> list[str]:
        return [title, f"  Cond: {self.conditions}"] if self.conditions else [title]


@dataclass(frozen=True)
class KeyGet(RowSource):
    """At most one row, by its whole key."""

    table: Table
    range: KeyRange
    conditions: str = ""
    key: Callable[[Row, Row, Clock], bytes | None] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", point_encoder(self.range))

    @property
    def few(self) -> bool:
        """It is."""
        return True

    @property
    def by_parameters(self) -> bool:
        """Whether the key is made of parameters alone: of no other row, and no clock."""
        return all(one.param is not None for one in self.range.equals)

    def look_up(self, view: View, outer: Row, params: Row, clock: Clock) -> Sequence[Pair]:
        key = self.key(outer, params, clock)
        if key is not None and (image := view.get(self.table, key)) is not None:
            return ((key, image),)
        return ()

    def pairs(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[Pair]:
        return iter(self.look_up(view, outer, params, clock))

    def explain(self) -> list[str]:
        return self._lines(f"Key Get on {self.table.name} using {self.table.key_name}")


@dataclass(frozen=True)
class KeyGets(RowSource):
    """Some rows by their whole keys (IN), in key order."""

    table: Table
    range: KeyRange
    conditions: str = ""
    reverse: bool = False

    def pairs(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[Pair]:
        keys = self.range.keys(outer, params, clock)
        for key in reversed(keys) if self.reverse else keys:
            image = view.get(self.table, key)
            if image is not None:
                yield key, image

    def explain(self) -> list[str]:
        return self._lines(f"Key Gets on {self.table.name} using {self.table.key_name}")


@dataclass(frozen=True)
class KeyScan(RowSource):
    """The rows in a range of keys, along the key."""

    table: Table
    range: KeyRange
    conditions: str = ""
    reverse: bool = False

    def pairs(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[Pair]:
        bounds = self.range.bounds(outer, params, clock)
        for low, high in reversed(bounds) if self.reverse else bounds:
            yield from view.scan(self.table, low, high, reverse=self.reverse)

    def explain(self) -> list[str]:
        back = " Backward" if self.reverse else ""
        return self._lines(f"Key Range{back} on {self.table.name} using {self.table.key_name}")


@dataclass(frozen=True)
class IndexScan(RowSource):
    """The rows in a range of index entries, along the index; each is looked up by its key.

    Attributes:
        keys_only: nothing of the rows is needed, so they are not looked up: their images are empty.
    """

    table: Table
    index: Index
    range: KeyRange
    conditions: str = ""
    reverse: bool = False
    keys_only: bool = False

    @property
    def few(self) -> bool:
        """When every column of the index has its value."""
        return self.range.is_point

    def of_partition(self, partition: Table, spread: PartitionMap) -> RowSource:
        return replace(self, table=partition, index=spread.child(partition, self.index))

    def pairs(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[Pair]:
        return (pair for _, pair in self.placed(view, outer, params, clock))

    def placed(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[tuple[bytes, Pair]]:
        table, get = self.table, view.get
        bounds = self.range.bounds(outer, params, clock)
        for low, high in reversed(bounds) if self.reverse else bounds:
            entries = view.index_scan(table, self.index, low, high, reverse=self.reverse)
            if self.keys_only:
                yield from ((entry, (key, b"")) for entry, key in entries)
                continue
            for entry, key in entries:
                image = get(table, key)
                if image is None:
                    raise RuntimeError(f"index {self.index.name} has an entry without a row: {key.hex()}")
                yield entry, (key, image)

    def explain(self) -> list[str]:
        kind = "Range"
        if self.index.unique and self.range.width == len(self.index.parts):
            kind = "Gets" if self.range.items else "Get"
        back = " Backward" if self.reverse else ""
        what = "Index Only" if self.keys_only else "Index"
        return self._lines(f"{what} {kind}{back} on {self.table.name} using {self.index.name}")


@dataclass(frozen=True)
class FullScan(RowSource):
    """Every row, along the key."""

    table: Table
    conditions: str = ""
    reverse: bool = False

    def pairs(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[Pair]:
        return view.scan(self.table, reverse=self.reverse)

    def explain(self) -> list[str]:
        return self._lines(f"Full Scan{' Backward' if self.reverse else ''} on {self.table.name}")


@dataclass(frozen=True)
class PartitionedScan(RowSource):
    """The rows of a partitioned table, of those partitions that conditions on its partition key leave.

    Attributes:
        inner: how each partition is read, as if it were the table.
        chosen: what the conditions say of the partition key; None: nothing.
        in_order: the rows are wanted in the order of ``inner``.
        note: which partitions these are, for EXPLAIN.
    """

    inner: RowSource
    chosen: KeyRange | None
    in_order: bool
    note: str

    @property
    def table(self) -> Table:  # type: ignore[override]
        """The partitioned table."""
        return self.inner.table

    @property
    def conditions(self) -> str:  # type: ignore[override]
        """Those of ``inner``."""
        return self.inner.conditions

    def pairs(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[Pair]:
        spread, reverse = partitions_of(view.catalog, self.table), self.inner.reverse
        parts = spread.partitions
        if self.chosen is not None:
            parts = spread.within(self.chosen.bounds(outer, params, clock))
        sources = [self.inner.of_partition(part, spread) for part in parts]
        if (
            len(sources) > 1
            and self.in_order
            and (isinstance(self.inner, IndexScan) or not spread.is_ordered)
        ):
            placed = [source.placed(view, outer, params, clock) for source in sources]
            yield from (pair for _, pair in heapq.merge(*placed, key=itemgetter(0), reverse=reverse))
            return
        for source in reversed(sources) if reverse else sources:
            yield from source.pairs(view, outer, params, clock)

    def explain(self) -> list[str]:
        return [*self.inner.explain(), f"  Partitions: {self.note}"]

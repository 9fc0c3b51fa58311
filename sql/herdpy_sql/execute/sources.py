"""Where rows come from: a key, a range of keys or index entries, or the whole table.

Each source gives pairs of (key, row image) from the view; the plan decodes what it needs. ``outer`` is the
row joined so far: the values a source looks up may come from it (a key join), so the same sources serve
single tables and the inner sides of nested loops.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from herdpy_sql.execute.bounds import KeyRange, point_encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from herdpy_sql.catalog import Index, Table
    from herdpy_sql.execute.base import Row
    from herdpy_sql.storage import Clock, View

Pair = tuple[bytes, bytes]


class RowSource:
    """Rows of one table. ``conditions`` are what the access satisfies, as text for EXPLAIN."""

    table: Table
    conditions: str

    @property
    def few(self) -> bool:
        """Whether it is a look-up: of a key, or of one value of an index."""
        return False

    def look_up(self, view: View, outer: Row, params: Row, clock: Clock) -> Sequence[Pair]:
        """The same as ``pairs``, all at once."""
        return list(self.pairs(view, outer, params, clock))

    def pairs(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[Pair]:
        """The rows' keys and images."""
        raise NotImplementedError

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
    """The rows in a range of index entries, along the index; each is looked up by its key."""

    table: Table
    index: Index
    range: KeyRange
    conditions: str = ""
    reverse: bool = False

    @property
    def few(self) -> bool:
        """When every column of the index has its value."""
        return self.range.is_point

    def pairs(self, view: View, outer: Row, params: Row, clock: Clock) -> Iterator[Pair]:
        table, get = self.table, view.get
        bounds = self.range.bounds(outer, params, clock)
        for low, high in reversed(bounds) if self.reverse else bounds:
            for _, key in view.index_scan(table, self.index, low, high, reverse=self.reverse):
                image = get(table, key)
                if image is None:
                    raise RuntimeError(f"index {self.index.name} has an entry without a row: {key.hex()}")
                yield key, image

    def explain(self) -> list[str]:
        kind = "Range"
        if self.index.unique and self.range.width == len(self.index.parts):
            kind = "Gets" if self.range.items else "Get"
        back = " Backward" if self.reverse else ""
        return self._lines(f"Index {kind}{back} on {self.table.name} using {self.index.name}")


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

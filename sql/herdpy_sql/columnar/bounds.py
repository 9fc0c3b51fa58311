"""Key ranges: what conditions on the first columns of a primary key say of the rows to read.

``bind.bounds`` has noted the conjuncts of WHERE and ON; ``key_range`` makes ranges of them when the types of
parameters are known. A condition serves when it compares a key column with a literal or a parameter of the
column's own kind of type. Bounds are a superset: the query still checks its conditions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy.codec.keys import successor
from herdpy.codec.kinds import KIND_FACTS, ByteForm
from herdpy_sql.errors import SqlError
from herdpy_sql.types import FACTS, TIMESTAMPTZ, Base, SqlType
from herdpy_sql.values.civil import DAY_US
from herdpy_sql.values.moments import is_plain, parse_timestamp
from herdpy_sql.values.styled import UNSETTLED, settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Table
    from herdpy_sql.partition_map import PartitionMap


_INTEGERS = {Base.SMALLINT: 15, Base.INTEGER: 31, Base.BIGINT: 63}
_EXACT = frozenset(
    base
    for base, facts in FACTS.items()
    if facts.comparable
    and KIND_FACTS[facts.kind].slot not in "fd"
    and KIND_FACTS[facts.kind].form
    in {ByteForm.BOOL, ByteForm.NUMBER, ByteForm.TEXT, ByteForm.BYTES, ByteForm.RAW}
)
"""Types of which a literal's datum is the one that is compared, whatever the column's modifiers."""


@dataclass(frozen=True, slots=True)
class RangeEnd:
    """A constant, or the parameter of that number."""

    constant: Datum = None
    param: int = 0

    def get(self, params: Sequence[Datum]) -> Datum:
        """The datum."""
        return params[self.param - 1] if self.param else self.constant


@dataclass(frozen=True, slots=True)
class ScanRange:
    """``equal`` values of the key's first columns, then bounds of the next one: (value, inclusive)."""

    equal: tuple[RangeEnd, ...] = ()
    low: tuple[RangeEnd, bool] | None = None
    high: tuple[RangeEnd, bool] | None = None

    def bounds(self, table: Table, params: Sequence[Datum]) -> tuple[bytes | None, bytes | None]:
        """Key bytes from (inclusive) and to (exclusive), None where open."""
        prefix = [value.get(params) for value in self.equal]
        if not _fit(table, prefix):
            return None, None
        codec = table.key_codec
        start = codec.encode_prefix(prefix) if prefix else None
        low, high = start, (successor(start) if start is not None else None)
        if self.low is not None:
            whole = [*prefix, self.low[0].get(params)]
            if _fit(table, whole):
                at = codec.encode_prefix(whole)
                low = at if self.low[1] else successor(at)
        if self.high is not None:
            whole = [*prefix, self.high[0].get(params)]
            if _fit(table, whole):
                at = codec.encode_prefix(whole)
                high = successor(at) if self.high[1] else at
        return low, high

    @property
    def of_parameters(self) -> bool:
        """Whether it is another one for other parameters."""
        ends = (*self.equal, *(one[0] for one in (self.low, self.high) if one is not None))
        return any(end.param for end in ends)


NOTHING: tuple[bytes, bytes] = (b"\0", b"\0")
"""A range of keys that no row has."""


@dataclass(frozen=True, slots=True)
class PartitionChoice:
    """Which partitions of a table may have rows, by what conditions say of its partition key."""

    spread: PartitionMap
    range: ScanRange

    @staticmethod
    def of(
        spread: PartitionMap, bounded: Sequence[tuple[int, str, Any]], params: Sequence[SqlType]
    ) -> PartitionChoice:
        """What the conditions (position, operator, value node) choose."""
        return PartitionChoice(spread, key_range(spread.keyed, bounded, params))

    def may_have(self, partition: Table, params: Sequence[Datum]) -> bool:
        """Whether a partition may have rows that satisfy the conditions."""
        return any(one.id == partition.id for one in self.chosen(params))

    def chosen(self, params: Sequence[Datum]) -> tuple[Table, ...]:
        """The partitions that may have rows that satisfy the conditions."""
        return self.spread.within([self.range.bounds(self.spread.keyed, params)])


def _fit(table: Table, values: Sequence[Datum]) -> bool:
    """Whether these can be values of the key's first columns (NULL and what is out of range cannot)."""
    for value, position in zip(values, table.key_positions, strict=False):
        bits = _INTEGERS.get(table.columns[position].type.base)
        if value is None:
            return False
        if bits is not None and isinstance(value, int) and not -(2**bits) <= value < 2**bits:
            return False
    return True


def key_range(table: Table, bounded: Sequence[tuple[int, str, Any]], params: Sequence[SqlType]) -> ScanRange:
    """The range that conditions (position, operator, value node) describe."""
    by_position: dict[int, list[tuple[str, RangeEnd]]] = {}
    for position, symbol, node in bounded:
        value = _value(table.columns[position].type, symbol, node, params)
        if value is not None:
            by_position.setdefault(position, []).append((symbol, value))
    equal: list[RangeEnd] = []
    for part in table.key:
        conditions = by_position.get(part.position, [])
        exact = next((v for s, v in conditions if s == "="), None)
        if exact is not None:
            equal.append(exact)
            continue
        if part.descending:
            break
        low = next(((v, s == ">=") for s, v in conditions if s in (">", ">=")), None)
        high = next(((v, s == "<=") for s, v in conditions if s in ("<", "<=")), None)
        return ScanRange(tuple(equal), low, high)
    return ScanRange(tuple(equal))


def _value(type_: SqlType, symbol: str, node: Any, params: Sequence[SqlType]) -> RangeEnd | None:
    base = type_.base
    if base not in _EXACT:
        return None
    if isinstance(node, exp.Parameter):
        number = int(node.this.this)
        own = params[number - 1]
        same = own.base is base or (own.base in _INTEGERS and base in _INTEGERS)
        return RangeEnd(param=number) if same or {own.base, base} <= {Base.TEXT, Base.VARCHAR} else None
    sign = 1
    if isinstance(node, exp.Neg):
        sign, node = -1, node.this
    if isinstance(node, exp.Cast):
        return None
    if not isinstance(node, exp.Literal):
        return None
    text = str(node.this)
    if not node.is_string:
        return RangeEnd(sign * int(text)) if base in _INTEGERS and text.isdigit() else None
    if sign < 0:
        return None
    try:
        if base is Base.TIMESTAMPTZ:
            return _moment(text, symbol)
        value = settled(SqlType(base), text)
        return None if value is UNSETTLED else RangeEnd(value)
    except SqlError:
        return None


def _moment(text: str, symbol: str) -> RangeEnd | None:
    """A TIMESTAMPTZ; without a zone it is of the session's, which is none further than a day from UTC."""
    us = settled(TIMESTAMPTZ, text)
    if us is not UNSETTLED:
        return RangeEnd(us)
    if symbol == "=" or not is_plain(Base.TIMESTAMP, text):
        return None
    return RangeEnd(parse_timestamp(text) + (DAY_US if symbol[0] == "<" else -DAY_US))

"""Key ranges: what conditions on the first columns of a primary key say of the rows to read.

``note_bounds`` notes conjuncts of WHERE and ON on the scans of a scope; ``key_range`` makes ranges of them
when the whole query is bound. Bounds are a superset: the query still checks its conditions, so leaving one
out costs time only. A condition serves when it compares a key column with a literal or a parameter of the
column's own kind of type; every conjunct of WHERE or of an inner join's ON may be used alone, because a row
that fails it cannot be part of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy.codec.keys import successor
from herdpy.codec.kinds import KIND_FACTS, ByteForm
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.conditions import COMPARISONS
from herdpy_sql.expr.syntax import identifier
from herdpy_sql.types import FACTS, Base, SqlType
from herdpy_sql.values import from_text
from herdpy_sql.values.moments import DAY_US, parse_zoned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Table
    from herdpy_sql.columnar.binder import Binder
    from herdpy_sql.columnar.scope import Scope


def note_bounds(binder: Binder, node: Any, scope: Scope) -> None:
    """Remember conjuncts that bound a scan's key: ``column <op> constant or parameter``."""
    stack = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, exp.Paren):
            stack.append(one.this)
        elif isinstance(one, exp.And):
            stack += [one.this, one.expression]
        elif type(one) in COMPARISONS and not isinstance(one, exp.NEQ):
            _note(one.this, COMPARISONS[type(one)], one.expression, scope)
            flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
            symbol = COMPARISONS[type(one)]
            _note(one.expression, flipped.get(symbol, symbol), one.this, scope)
        elif isinstance(one, exp.Between) and not one.args.get("symmetric"):
            _note(one.this, ">=", one.args["low"], scope)
            _note(one.this, "<=", one.args["high"], scope)


def _note(column: Any, symbol: str, value: Any, scope: Scope) -> None:
    if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
        return
    while isinstance(value, exp.Paren):
        value = value.this
    if not isinstance(value, (exp.Literal, exp.Parameter, exp.Cast, exp.Neg)):
        return
    table = column.args.get("table")
    try:
        found, col = scope.find(identifier(table) if table is not None else None, identifier(column.this))
    except SqlError:
        return
    if found is not scope or col.rel is None or col.rel.scan is None or col.rel.table is None:
        return
    if col.position not in col.rel.table.key_positions:
        return
    col.rel.scan.bounded.append((col.position, symbol, value))


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
        return _moment(text, symbol) if base is Base.TIMESTAMPTZ else RangeEnd(from_text(SqlType(base))(text))
    except SqlError:
        return None


def _moment(text: str, symbol: str) -> RangeEnd | None:
    """A TIMESTAMPTZ; without a zone it is of the session's, which is none further than a day from UTC."""
    us, named = parse_zoned(text)
    if named:
        return RangeEnd(us)
    return None if symbol == "=" else RangeEnd(us + (DAY_US if symbol[0] == "<" else -DAY_US))

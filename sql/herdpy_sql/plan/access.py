"""The cheapest way to a table's rows: conditions read for a key or index to use, and the rows it may read.

A condition can serve an access path when it is ``column op value`` with a value that does not come from
the table itself: a constant, a parameter, or a column of a table joined before (:class:`Sarg`). Candidates
are the key and every index; each takes equalities on its first columns, then one IN or one range on the
next. What a path serves exactly is taken out of the conditions; the rest stays a filter.

How many rows a path reads is estimated from ``statistics``; conditions are taken to be independent of each
other. Without statistics there is no estimate, and what a path *can* read decides (:class:`PathReach`).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from herdpy_sql.clock import Clock
from herdpy_sql.execute.sources import (
    FullScan,
    IndexScan,
    KeyGet,
    KeyGets,
    KeyRange,
    KeyScan,
    KeyValue,
    PartitionedScan,
    fitting,
)
from herdpy_sql.expr import columns_used, compile_expr
from herdpy_sql.expr.nodes import (
    TRUE,
    And,
    Between,
    ColumnRef,
    Comparison,
    Const,
    Elements,
    In,
    Or,
    Param,
    comparable_as_is,
)
from herdpy_sql.hidden_columns import part_text
from herdpy_sql.partition_map import partitions_of
from herdpy_sql.plan.indexes import implied, implies
from herdpy_sql.plan.statistics import UNKNOWN_RANGE, ColumnStatistics, TableStatistics, position_bytes
from herdpy_sql.plan.text import expr_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from herdpy.codec.kinds import KeyField
    from herdpy_sql.catalog import Catalog, Index, KeyPart, Table
    from herdpy_sql.execute.sources import RowSource
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.expr.scope import TableRelation


_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Sarg:
    """A condition that can serve an access path: ``column op value``, op "in" having several values.

    Attributes:
        number: of the condition it comes from.
        half: BETWEEN gives two: each serves half of it.
        rest: of a comparison of rows, the columns after the first, with what each is compared with.
    """

    position: int
    op: str
    values: tuple[Expr, ...]
    number: int
    half: int = 0
    rest: tuple[tuple[int, Expr], ...] = ()


def sargs_of(item: TableRelation, conditions: Sequence[Expr], known: Callable[[int], bool]) -> list[Sarg]:
    """The conditions that can serve an access to ``item``; ``known`` says which columns have values."""
    found: list[Sarg] = []
    for number, condition in enumerate(conditions):
        match condition:
            case Comparison(op=op, left=left, right=right) if op in _MIRRORED:
                for column, value, way in ((left, right, op), (right, left, _MIRRORED[op])):
                    position = _position(item, column)
                    if position is not None and _usable(column, (value,), known):
                        found.append(Sarg(position, way, (value,), number))
            case In(arg=arg, items=items, negated=False):
                position = _position(item, arg)
                if position is not None and _usable(arg, items, known):
                    found.append(Sarg(position, "in", items, number))
            case Between(arg=arg, low=low, high=high):
                position = _position(item, arg)
                if position is not None:
                    found += [
                        Sarg(position, op, (value,), number, half)
                        for op, value, half in ((">=", low, 1), ("<=", high, 2))
                        if _usable(arg, (value,), known)
                    ]
            case Or(args=args):
                sarg = _alternatives(item, args, known, number) or _row(item, args, known, number)
                found += [sarg] if sarg is not None else []
            case ColumnRef() if _position(item, condition) is not None:
                found.append(Sarg(condition.index - item.base, "=", (TRUE,), number))
    return found


def _alternatives(
    item: TableRelation, args: Sequence[Expr], known: Callable[[int], bool], number: int
) -> Sarg | None:
    """``a = 1 OR a = 2`` as ``a IN (1, 2)``."""
    values: list[Expr] = []
    position: int | None = None
    for arg in args:
        if not isinstance(arg, Comparison) or arg.op != "=":
            return None
        for column, value in ((arg.left, arg.right), (arg.right, arg.left)):
            place = _position(item, column)
            if place is not None and position in {None, place} and _usable(column, (value,), known):
                position = place
                values.append(value)
                break
        else:
            return None
    return None if position is None else Sarg(position, "in", tuple(values), number)


def _row(item: TableRelation, args: Sequence[Expr], known: Callable[[int], bool], number: int) -> Sarg | None:
    """``a < 1 OR (a = 1 AND b < 2)``, which is ``(a, b) < (1, 2)``: where a page of keyset paging begins."""
    parts: list[tuple[int, Expr]] = []
    op = ""
    while True:
        match args:
            case (
                Comparison(op=this, left=a, right=x),
                And(args=(Comparison(op="=", left=b, right=y), rest)),
            ):
                place = _position(item, a)
                if place is None or (a, x) != (b, y) or this not in {op or "<", op or ">"}:
                    return None
                if not _usable(a, (x,), known):
                    return None
                parts.append((place, x))
                op = this
            case _:
                return None
        if isinstance(rest, Or):
            args = rest.args
            continue
        if not isinstance(rest, Comparison) or rest.op not in {op, f"{op}="}:
            return None
        place = _position(item, rest.left)
        if place is None or not _usable(rest.left, (rest.right,), known):
            return None
        return Sarg(parts[0][0], rest.op, (parts[0][1],), number, rest=(*parts[1:], (place, rest.right)))


def _position(item: TableRelation, expr: Expr) -> int | None:
    if isinstance(expr, ColumnRef) and item.base <= expr.index < item.end:
        return expr.index - item.base
    return None


def _usable(column: Expr, values: Iterable[Expr], known: Callable[[int], bool]) -> bool:
    values = tuple(values)
    if not all(comparable_as_is(column.type, value.type) for value in values):
        return False
    return all(known(column.index) for value in values for column in columns_used(value))


OWN_ROWS = 400
"""An own plan that reads fewer rows is done before the columnar engine has begun."""
SETTLED_ROWS = 10_000
"""A table that had as many when it was analyzed has not become another one since; a small one may have."""
LEAST_SCAN_ROWS = 1000
"""A scan costs as much at least: a table that was analyzed when it was empty, as queues are, fills again."""
COLUMNAR_ROWS = 4000
"""One that reads more is slower than the columnar engine; in between, what a way can read decides."""
INDEX_COST = 1.6
"""What a row costs that is looked up from an index entry, in rows read along the key."""


def share(table: Table, statistics: TableStatistics, sargs: Iterable[Sarg]) -> float:
    """The share of the rows that satisfy all of ``sargs``."""
    by_column: dict[int, list[Sarg]] = {}
    for sarg in sargs:
        by_column.setdefault(sarg.position, []).append(sarg)
    found = 1.0
    for position, here in by_column.items():
        column = statistics.columns.get(position)
        if column is not None:
            found *= _share(table, position, column, here)
    return found


def _share(table: Table, position: int, column: ColumnStatistics, sargs: list[Sarg]) -> float:
    low, high = 0.0, 1.0 - column.nulls
    known_ends = 0
    unknown_ends = 0
    for sarg in sargs:
        values = [_known(table, position, value) for value in sarg.values]
        if sarg.op == "=":
            return column.equal(values[0])
        if sarg.op == "in":
            return min(sum(column.equal(value) for value in values), 1.0)
        if values[0] is None:
            unknown_ends += 1
            continue
        known_ends += 1
        at = column.below(values[0])
        if sarg.op in {">", ">="}:
            low = max(low, at)
        else:
            high = min(high, at + (column.equal(values[0]) if sarg.op == "<=" else 0.0))
    if unknown_ends and not known_ends:
        # Who gives both ends means a short range.
        return UNKNOWN_RANGE if unknown_ends == 1 else UNKNOWN_RANGE**5
    return max(high - low, column.equal(None)) * UNKNOWN_RANGE**unknown_ends


def _known(table: Table, position: int, value: Expr) -> bytes | None:
    """A constant as statistics hold it; None of what is known at run time only, or of another type."""
    return position_bytes(table.fields[position], value.value) if isinstance(value, Const) else None


class PathReach(enum.IntEnum):
    """How much an access path may read, the least first."""

    ONE = 0  # a whole key or unique index entry
    FEW = 1  # several of those (IN)
    SOME = 2  # equality on all of a plain index, or a prefix of a key
    RANGE = 3  # both ends of a range
    HALF = 4  # one end of a range
    ALL = 5


@dataclass(frozen=True)
class WantedOrder:
    """One item of the order that rows are wanted in: a column of this table."""

    position: int
    descending: bool
    nulls_first: bool


@dataclass
class AccessPath:
    """A way to the rows.

    Attributes:
        reach: how much it may read.
        used: numbers of the conditions it satisfies exactly.
        ordered: whether rows come in the wanted order.
        bound: how many columns have a value.
        rows: how many it is likely to read; None when the table was never analyzed.
        cost: the same, in rows read along a key.
    """

    source: RowSource
    reach: PathReach
    used: frozenset[int] = frozenset()
    ordered: bool = False
    bound: int = 0
    preferred: bool = field(default=False)  # the key rather than an index, all else being equal
    rows: float | None = None
    cost: float = 0.0

    @property
    def rank(self) -> tuple[float, int, int, int, int]:
        """The smaller, the better. Costs are of all ways to a table, or of none."""
        return (self.cost, self.reach, -self.bound, 0 if self.ordered else 1, 0 if self.preferred else 1)


def choose(
    item: TableRelation,
    conditions: Sequence[Expr],
    known: Callable[[int], bool],
    renumber: Callable[[Expr], Expr],
    wanted: Sequence[WantedOrder] = (),
    *,
    limited: bool = False,
    forced_scan: bool = False,
    statistics: TableStatistics | None = None,
) -> AccessPath:
    """The best access path; ``renumber`` turns values into expressions over the outer row.

    ``limited``: few rows are wanted, so that coming in the wanted order is worth more than a shorter range.
    ``forced_scan``: the full scan, for comparison.
    """
    table = item.table
    scan = _full_scan(table, wanted)
    if statistics is not None:
        scan.rows = float(statistics.rows)
        scan.cost = max(scan.rows, float(LEAST_SCAN_ROWS))
    if forced_scan:
        return scan
    sargs = sargs_of(item, conditions, known)
    candidates = [scan]
    paths: list[tuple[Index | None, tuple[KeyPart, ...]]] = [(None, table.key)]
    paths += [(index, index.parts) for index in table.indexes if implies(item, index, conditions)]
    for index, parts in paths:
        found = _path(table, index, parts, sargs, renumber, wanted, statistics)
        if found is not None and index is not None:
            found.used |= implied(item, index, conditions)
        if found is not None and (found.bound or found.reach < PathReach.ALL or (found.ordered and limited)):
            candidates.append(found)
    if limited and wanted:
        ordered = [one for one in candidates if one.ordered]
        best = min(candidates, key=lambda one: one.rank)
        few = best.reach < PathReach.RANGE if best.rows is None else best.rows <= OWN_ROWS
        if ordered and not few:
            return min(ordered, key=lambda one: one.rank)
    return min(candidates, key=lambda one: one.rank)


def spread_out(
    access: AccessPath,
    item: TableRelation,
    conditions: Sequence[Expr],
    known: Callable[[int], bool],
    renumber: Callable[[Expr], Expr],
    catalog: Catalog,
    *,
    in_order: bool,
) -> AccessPath:
    """The access to a table whose rows are in partitions; of any other table as it is.

    Args:
        conditions: as of :func:`choose`; those on the partition key choose the partitions.
        in_order: the order of the rows matters.
    """
    table = item.table
    if table.partition_key is None or isinstance(access.source, KeyGet | KeyGets):
        return access  # a row's key says where it is
    spread = partitions_of(catalog, table)
    codec, parts = spread.keyed.key_codec, spread.keyed.key
    served = _served(spread.keyed, parts, codec.fields, sargs_of(item, conditions, known), renumber)
    chosen: KeyRange | None = None
    note = f"all {len(spread.partitions)}"
    if served.sargs:
        chosen = KeyRange(
            codec, tuple(served.equals), served.items, served.low, served.high,
            served.low_rest, served.high_rest,
        )  # fmt: skip
        values = [value for sarg in served.sargs for value in (*sarg.values, *(one for _, one in sarg.rest))]
        note = f"chosen of {len(spread.partitions)} when it runs"
        if all(isinstance(value, Const) for value in values):
            there = spread.within(chosen.bounds((), (), _NO_CLOCK))
            note = f"{', '.join(one.name for one in there) or 'none'} of {len(spread.partitions)}"
    return replace(access, source=PartitionedScan(access.source, chosen, in_order, note))


_NO_CLOCK = Clock(0, 0)
"""For constants."""


def _full_scan(table: Table, wanted: Sequence[WantedOrder]) -> AccessPath:
    order = _order(table, table.key, 0, wanted, set(), whole=True)
    return AccessPath(
        FullScan(table, reverse=order is True), PathReach.ALL, ordered=order is not None, preferred=True
    )


@dataclass
class _Served:
    """What a key's first columns are compared with, and the conditions that this serves."""

    equals: list[KeyValue] = field(default_factory=list)
    items: tuple[KeyValue, ...] = ()
    low: KeyValue | None = None
    high: KeyValue | None = None
    low_rest: tuple[KeyValue, ...] = ()
    high_rest: tuple[KeyValue, ...] = ()
    used: set[int] = field(default_factory=set)
    fixed: set[int] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    sargs: list[Sarg] = field(default_factory=list)


def _served(
    table: Table,
    parts: tuple[KeyPart, ...],
    fields: Sequence[KeyField],
    sargs: Sequence[Sarg],
    renumber: Callable[[Expr], Expr],
) -> _Served:
    """Equalities with the first columns, then one IN or one range."""
    found = _Served()
    halves: dict[int, int] = {}
    for part, keyed in zip(parts, fields, strict=True):
        here = [sarg for sarg in sargs if sarg.position == part.position]
        name = part_text(table, part.position)
        equal = _first(here, ("=",), keyed, renumber)
        if equal is not None and not found.items:
            sarg, (value,) = equal
            found.equals.append(value)
            found.sargs.append(sarg)
            found.used.add(sarg.number)
            found.fixed.add(part.position)
            found.texts.append(f"{name} = {expr_text(sarg.values[0], qualified=True)}")
            continue
        listed = _first(here, ("in",), keyed, renumber)
        if listed is not None and not found.items:
            sarg, found.items = listed
            found.sargs.append(sarg)
            found.used.add(sarg.number)
            found.texts.append(
                f"{name} IN ({', '.join(expr_text(value, qualified=True) for value in sarg.values)})"
            )
            if part is parts[-1]:
                break
            continue
        following = list(zip(parts, fields, strict=True))[parts.index(part) :]
        for ops in ((">", ">="), ("<", "<=")):
            one = _first(sorted(here, key=lambda sarg: -len(sarg.rest)), ops, keyed, renumber)
            if one is None:
                continue
            sarg, (value,) = one
            found.sargs.append(sarg)
            rest = _rest(sarg, following, renumber)
            if len(rest) < len(sarg.rest):
                value = replace(value, op=f"{ops[0]}=")
            if ops[0] == ">":
                found.low, found.low_rest = value, rest
            else:
                found.high, found.high_rest = value, rest
            halves[sarg.number] = halves.get(sarg.number, 0) | (sarg.half or (0 if sarg.rest else 3))
            found.texts.append(_range_text(table, sarg))
        break
    found.used |= {number for number, half in halves.items() if half == 3}
    return found


def _rest(
    sarg: Sarg, following: Sequence[tuple[KeyPart, KeyField]], renumber: Callable[[Expr], Expr]
) -> tuple[KeyValue, ...]:
    """What of a comparison of rows the columns after the first can serve: those that go the same way."""
    found: list[KeyValue] = []
    first = following[0][0]
    for (position, expr), (part, keyed) in zip(sarg.rest, following[1:], strict=False):
        value = _key_value(keyed, expr, sarg.op, renumber)
        if part.position != position or part.descending != first.descending:
            break
        if value is None or value.fit is not None:
            break
        found.append(value)
    return tuple(found)


def _range_text(table: Table, sarg: Sarg) -> str:
    """A condition that is one end of a range, for EXPLAIN."""
    names = [part_text(table, position) for position in (sarg.position, *(p for p, _ in sarg.rest))]
    values = [expr_text(value, qualified=True) for value in (sarg.values[0], *(v for _, v in sarg.rest))]
    if not sarg.rest:
        return f"{names[0]} {sarg.op} {values[0]}"
    return f"({', '.join(names)}) {sarg.op} ({', '.join(values)})"


def _path(
    table: Table,
    index: Index | None,
    parts: tuple[KeyPart, ...],
    sargs: Sequence[Sarg],
    renumber: Callable[[Expr], Expr],
    wanted: Sequence[WantedOrder],
    statistics: TableStatistics | None,
) -> AccessPath | None:
    """The access along one key or index, with all it can use of ``sargs``."""
    codec = table.key_codec if index is None else table.index_codec(index)
    served = _served(table, parts, codec.fields, sargs, renumber)
    equals, items, low, high = served.equals, served.items, served.low, served.high
    key_range = KeyRange(codec, tuple(equals), items, low, high, served.low_rest, served.high_rest)
    whole = index is None or index.unique
    order = _order(table, parts, len(equals) + bool(items), wanted, served.fixed, whole=whole)
    if items and len(equals) + 1 < len(parts):  # several ranges, each ordered in itself only
        order = order if not wanted else None
    elif items:
        order = _order(table, parts, len(equals), wanted, served.fixed, whole=whole)
    reverse = order is True
    text = " AND ".join(served.texts)
    complete = key_range.width == len(parts)
    source: RowSource
    if index is not None:
        source = IndexScan(table, index, key_range, text, reverse)
    elif complete:
        source = KeyGets(table, key_range, text, reverse) if items else KeyGet(table, key_range, text)
    elif key_range.width or low or high:
        source = KeyScan(table, key_range, text, reverse)
    else:
        return None  # the same as the full scan
    bound = 2 * key_range.width + bool(low) + bool(high)
    reach = _reach(key_range, complete=complete, unique=whole)
    found = AccessPath(
        source, reach, frozenset(served.used), order is not None, bound, preferred=index is None
    )
    if statistics is not None:
        rows = statistics.rows * share(table, statistics, served.sargs)
        found.rows = min(rows, 1.0) if reach is PathReach.ONE else max(rows, 1.0)
        found.cost = found.rows * (1.0 if index is None else INDEX_COST)
    return found


def _reach(key_range: KeyRange, *, complete: bool, unique: bool) -> PathReach:
    """How much a range can read; ``complete``: every column of the key is given."""
    if complete:
        if not unique:
            return PathReach.SOME
        return PathReach.FEW if key_range.items else PathReach.ONE
    if key_range.width:
        return PathReach.SOME
    if key_range.low and key_range.high:
        return PathReach.RANGE
    return PathReach.HALF if key_range.low or key_range.high else PathReach.ALL


def _first(
    sargs: Sequence[Sarg], ops: tuple[str, ...], keyed: KeyField, renumber: Callable[[Expr], Expr]
) -> tuple[Sarg, tuple[KeyValue, ...]] | None:
    """The first of ``sargs`` with such an operator whose values can be made into key bytes."""
    for sarg in sargs:
        if sarg.op not in ops:
            continue
        made = [_key_value(keyed, value, sarg.op, renumber) for value in sarg.values]
        if all(one is not None for one in made):
            return sarg, tuple(one for one in made if one is not None)
    return None


def _key_value(keyed: KeyField, value: Expr, op: str, renumber: Callable[[Expr], Expr]) -> KeyValue | None:
    try:
        kind = value.type.kind
    except KeyError:
        return None
    fit = fitting(keyed, kind)
    if fit is False:
        return None
    assert not isinstance(fit, bool)
    inner = renumber(value)
    param = inner.number - 1 if isinstance(inner, Param) else None
    return KeyValue(keyed, compile_expr(inner), fit, op, param, isinstance(inner, Elements))


def _order(
    table: Table,
    parts: Sequence[KeyPart],
    start: int,
    wanted: Sequence[WantedOrder],
    fixed: set[int],
    *,
    whole: bool,
) -> bool | None:
    """Whether rows along ``parts`` come as wanted: False as they are, True backwards, None if not."""
    reverse: bool | None = None
    at = start
    for want in wanted:
        if want.position in fixed:
            continue
        if at == len(parts):
            # Beyond a whole key nothing is left to order, if no two rows can share it.
            return None if not whole or _nullable(table, parts) else bool(reverse)
        part = parts[at]
        if part.position in fixed and part.position != want.position:
            at += 1
            continue
        if part.position != want.position:
            return None
        backwards = part.descending != want.descending
        nulls_first = part.nulls_first != backwards
        if not table.columns[part.position].not_null and nulls_first != want.nulls_first:
            return None
        if reverse is not None and reverse != backwards:
            return None
        reverse = backwards
        at += 1
    return bool(reverse)


def _nullable(table: Table, parts: Sequence[KeyPart]) -> bool:
    return any(not table.columns[part.position].not_null for part in parts)

"""A row has one partition, found by its values and by its key; a range of keys leaves no partition out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy.codec.keys import successor
from herdpy_sql.catalog import Column, KeyPart, Table
from herdpy_sql.definitions import decode_table, encode_table
from herdpy_sql.partition_bounds import (
    HASH,
    LIST,
    MAXVALUE,
    MINVALUE,
    RANGE,
    BoundLimit,
    PartitionBound,
    PartitionKey,
)
from herdpy_sql.partition_map import PartitionMap
from herdpy_sql.types import INTEGER, TEXT

COLUMNS = (Column("a", INTEGER, not_null=True), Column("b", TEXT, not_null=True), Column("c", INTEGER))
NUMBERS = st.integers(-20, 20)
LETTERS = st.sampled_from(["", "a", "aa", "ab", "b", "z"])
ROWS = st.lists(st.tuples(NUMBERS, LETTERS, NUMBERS), min_size=12, max_size=30)
MANY = settings(max_examples=200, deadline=None)


def table(key: PartitionKey, *, leads: bool) -> Table:
    """Keyed by a and b, or by b and a: the partition key leads the key, or does not."""
    parts = (0, 1) if leads else (1, 0)
    whole = Table(1, "t", COLUMNS, tuple(KeyPart(at) for at in parts), "t_pkey")
    return replace(whole, partition_key=key)


def partition(whole: Table, number: int, **bound: Any) -> Table:
    assert whole.partition_key is not None
    one = replace(whole, id=number, name=f"p{number}", partition_key=None)
    return replace(one, bound=PartitionBound(whole.id, whole.partition_key, **bound))


@st.composite
def spreads(draw: st.DrawFn) -> PartitionMap:
    strategy = draw(st.sampled_from([RANGE, RANGE, LIST, HASH]))
    parts: list[Table] = []
    if strategy == RANGE:
        key = PartitionKey(RANGE, draw(st.sampled_from([(0,), (1,), (0, 1)])))
        whole = table(key, leads=draw(st.booleans()))
        kinds = [NUMBERS if at == 0 else LETTERS for at in key.positions]
        cuts = sorted(draw(st.sets(st.tuples(*kinds), min_size=1, max_size=6)))
        ends = [tuple(BoundLimit(value) for value in cut) for cut in cuts]
        ends = [
            tuple(BoundLimit(side=MINVALUE) for _ in kinds),
            *ends,
            tuple(BoundLimit(side=MAXVALUE) for _ in kinds),
        ]
        gap = draw(st.integers(0, len(ends)))  # no partition is there, or there is none
        parts = [
            partition(whole, 2 + at, low=ends[at], high=ends[at + 1])
            for at in range(len(ends) - 1)
            if at != gap
        ]
    elif strategy == LIST:
        whole = table(PartitionKey(LIST, (0,)), leads=draw(st.booleans()))
        values = draw(st.lists(NUMBERS, unique=True, min_size=4, max_size=20))
        parts = [partition(whole, 2 + at, values=tuple(values[at::3])) for at in range(3) if values[at::3]]
    else:
        whole = table(PartitionKey(HASH, draw(st.sampled_from([(0,), (1, 0)]))), leads=draw(st.booleans()))
        parts = [partition(whole, 2 + rest, modulus=3, remainder=rest) for rest in (0, 1, 2)]
    if strategy != HASH and draw(st.booleans()):
        parts.append(partition(whole, 90, is_default=True))
    return PartitionMap(whole, draw(st.permutations(parts)))


def takes(one: Table, row: tuple[Any, ...]) -> bool:
    """What the bound of RANGE or LIST says, as Python compares."""
    bound = one.bound
    assert bound is not None
    values = [row[at] for at in bound.key.positions]
    if bound.values:
        return values[0] in bound.values
    return at_least(values, bound.low) and not at_least(values, bound.high)


def at_least(values: list[Any], limits: tuple[BoundLimit, ...]) -> bool:
    for value, limit in zip(values, limits, strict=True):
        if limit.side:
            return limit.side == MINVALUE
        if value != limit.value:
            return bool(value > limit.value)
    return True


@MANY
@given(spreads(), ROWS)
def test_a_row_is_found_by_its_values_and_by_its_key(
    spread: PartitionMap, rows: list[tuple[Any, ...]]
) -> None:
    for row in rows:
        found = spread.of_row(row)
        key = spread.table.key_codec.encode([row[at] for at in spread.table.key_positions])
        assert spread.of_key(key) is found
        assert spread.table.partition_key is not None
        if spread.table.partition_key.strategy != HASH:
            named = [one for one in spread.partitions if one is not spread.default and takes(one, row)]
            assert found is (named[0] if named else spread.default)
        else:
            assert found is not None


@MANY
@given(spreads(), ROWS, NUMBERS, NUMBERS, LETTERS)
def test_a_range_of_keys_leaves_no_partition_out(
    spread: PartitionMap, rows: list[tuple[Any, ...]], one: int, other: int, letter: str
) -> None:
    """Pruning may leave too many partitions, and never too few."""
    codec = spread.keyed.key_codec
    values = [one if at == 0 else letter for at in spread.keyed.key_positions]
    start, stop = codec.encode_prefix(values[:1]), successor(codec.encode_prefix([values[0]]))
    point = codec.encode(values)
    ranges = [(start, stop), (start, None), (None, start), (point, successor(point)), (None, None)]
    if spread.keyed.key_positions[0] == 0:
        ends = sorted([codec.encode_prefix([one]), codec.encode_prefix([other])])
        ranges.append((ends[0], ends[1]))
    for low, high in ranges:
        kept = {part.id for part in spread.within([(low, high)])}
        for row in rows:
            key = codec.encode([row[at] for at in spread.keyed.key_positions])
            if (low is None or low <= key) and (high is None or key < high):
                found = spread.of_row(row)
                assert found is None or found.id in kept


@MANY
@given(spreads(), ROWS)
def test_partitions_in_order_have_their_rows_in_order(
    spread: PartitionMap, rows: list[tuple[Any, ...]]
) -> None:
    if not spread.is_ordered:
        return
    place = {part.id: at for at, part in enumerate(spread.partitions)}
    encode = spread.table.key_codec.encode
    keys = sorted((encode([row[at] for at in spread.table.key_positions]), row) for row in rows)
    found = [place[part.id] for _, row in keys if (part := spread.of_row(row)) is not None]
    assert found == sorted(found)


@given(spreads())
def test_definitions_are_read_as_they_were_written(spread: PartitionMap) -> None:
    for one in (spread.table, *spread.partitions):
        assert decode_table(encode_table(one)) == one


@given(spreads(), NUMBERS, NUMBERS)
def test_all_between_two_ends_are_in_one_partition(spread: PartitionMap, one: int, other: int) -> None:
    if spread.keyed.key_positions != (0,):
        return
    low, high = sorted((one, other))
    found = spread.of_all_between(low, high)
    if found is not None:
        assert {spread.of_values([value]) for value in range(low, high + 1)} == {found}

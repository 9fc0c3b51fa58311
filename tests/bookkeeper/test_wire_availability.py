"""The list of entries a bookie has: known bytes, there and back, impossible lists refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy.bookkeeper.errors import ProtocolError
from herdpy.bookkeeper.wire.availability import NO_ENTRIES, EntryRanges, RunGroup


def encoded(*groups: tuple[int, int, int, int], version: int = 0, count: int | None = None) -> bytes:
    head = struct.pack(">ii", version, len(groups) if count is None else count) + bytes(56)
    return head + b"".join(struct.pack(">qqii", *group) for group in groups)


@pytest.mark.parametrize(
    ("entry_ids", "groups"),
    [
        ([], []),
        ([0], [(0, 0, 1, 0)]),
        ([7, 8, 9], [(7, 7, 3, 0)]),
        # A striped ledger: every third entry is elsewhere.
        ([0, 1, 3, 4, 6, 7], [(0, 6, 2, 3)]),
        # The last run is shorter, then one far away.
        ([0, 1, 3, 4, 6, 100], [(0, 3, 2, 3), (6, 100, 1, 94)]),
        ([0, 2, 4, 5], [(0, 2, 1, 2), (4, 4, 2, 0)]),
    ],
)
def test_known_lists(entry_ids: list[int], groups: list[tuple[int, int, int, int]]):
    data = encoded(*groups)
    assert EntryRanges.of(entry_ids).encode() == data
    found = EntryRanges.decode(data)
    assert list(found) == entry_ids
    assert len(found) == len(entry_ids)


@given(entry_ids=st.sets(st.integers(0, 300)).map(sorted))
def test_there_and_back(entry_ids: list[int]):
    found = EntryRanges.decode(EntryRanges.of(entry_ids).encode())
    assert list(found) == entry_ids
    assert len(found) == len(entry_ids)


def test_far_away_entries():
    entry_ids = [0, 2**40, 2**62]
    assert list(EntryRanges.decode(EntryRanges.of(entry_ids).encode())) == entry_ids


@pytest.mark.parametrize("entry_ids", [[1, 1], [2, 1], [-1, 0]])
def test_ids_must_ascend(entry_ids: list[int]):
    with pytest.raises(ValueError, match="entry"):
        EntryRanges.of(entry_ids)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(63),
        encoded(version=1),
        encoded(version=-1),
        encoded(count=1),
        encoded(count=-1),
        encoded(count=2**31 - 1),
        encoded((0, 0, 1, 0), count=0),
        encoded((0, 0, 1, 0)) + b"x",
        encoded((0, 0, 1, 0))[:-1],
        encoded((-1, -1, 1, 0)),
        encoded((0, 0, 0, 0)),
        encoded((0, 0, -5, 0)),
        encoded((0, 0, 1, -1)),
        encoded((5, 3, 1, 1)),
        encoded((0, 4, 1, 0)),
        encoded((0, 4, 1, 3)),
        encoded((0, 4, 3, 2)),
        encoded((0, 0, 5, 0), (4, 4, 1, 0)),
        encoded((5, 5, 1, 0), (0, 0, 1, 0)),
        encoded((2**63 - 1, 2**63 - 1, 2**31 - 1, 0)),
        encoded((0, 2**62, 1, 1)),
        encoded(*((at * 2**24, at * 2**24, 2**23, 0) for at in range(3))),
    ],
)
def test_impossible_or_enormous_lists_are_refused(data: bytes):
    with pytest.raises(ProtocolError):
        EntryRanges.decode(data)


def test_the_bound_is_on_entries():
    data = encoded((0, 90, 5, 10))
    assert len(EntryRanges.decode(data, max_entries=50)) == 50
    with pytest.raises(ProtocolError, match="more than 49"):
        EntryRanges.decode(data, max_entries=49)


@given(data=st.binary(max_size=150))
def test_random_bytes_raise_nothing_else(data: bytes):
    try:
        found = EntryRanges.decode(bytes(8) + data)
    except ProtocolError:
        return
    assert found == NO_ENTRIES


def test_groups_have_names():
    assert EntryRanges.decode(encoded((0, 6, 2, 3))).groups == (RunGroup(first=0, last=6, size=2, period=3),)

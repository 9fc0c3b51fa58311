"""Cutting keys into ranges: counts are exact and ranges even, however many keys are left out."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy_server.service import partitions


@pytest.fixture(scope="module", autouse=True)
def small():
    """Steps and samples so small that few keys are many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "_CUT_STEP", 4)
        patch.setattr(partitions, "_SAMPLES", 16)
        yield


@given(
    size=st.integers(0, 600),
    apart=st.integers(1, 100),
    wanted=st.integers(1, 40),
    low=st.none() | st.integers(0, 60_000),
    high=st.none() | st.integers(0, 60_000),
)
def test_ranges_have_each_key_once_and_say_how_many(size, apart, wanted, low, high):
    keys = [number.to_bytes(2, "big") for number in range(0, size * apart, apart)]
    bounds = [None if one is None else one.to_bytes(2, "big") for one in (low, high)]
    cut = cut_of(keys, *bounds, wanted)
    for _step in cut.steps():
        pass
    ranges = cut.ranges()
    inside = within(keys, *bounds)
    assert (ranges[0].low, ranges[-1].high) == tuple(bounds)
    assert all(one.high == other.low for one, other in itertools.pairwise(ranges))
    if low is None or high is None or low < high:
        assert [one.rows for one in ranges] == [len(within(keys, one.low, one.high)) for one in ranges]
    assert sum(one.rows for one in ranges) == len(inside)
    assert len(ranges) <= wanted
    if len(inside) <= 16:
        assert len(ranges) == max(1, min(wanted, len(inside)))
    if inside and wanted <= 4:
        even, slack = len(inside) / len(ranges), 2 * (len(inside) // 8 + 1)
        assert all(abs(one.rows - even) <= slack for one in ranges)


def cut_of(keys: list[bytes], low: bytes | None, high: bytes | None, wanted: int) -> Any:
    """A cut through these keys."""
    snapshot: Any = SimpleNamespace(keys=lambda _table, low, high: iter(within(keys, low, high)))
    return partitions._Cut(snapshot, None, low, high, wanted)  # type: ignore[arg-type]


def within(keys: list[bytes], low: bytes | None, high: bytes | None) -> list[bytes]:
    """Those of the keys that are in [low, high)."""
    return [key for key in keys if (low is None or key >= low) and (high is None or key < high)]

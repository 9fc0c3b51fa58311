"""Cutting keys into ranges: counts are exact and ranges even, however many keys are left out."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import herdpy
from herdpy_server.service import partitions
from herdpy_server.store import Store, StoreSnapshot
from herdpy_server.store.segments import decoded
from herdpy_sql.catalog import Table


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


@given(
    leaves=st.lists(st.integers(1, 40), min_size=1, max_size=400),
    wanted=st.integers(1, 20),
    is_wrong=st.booleans(),
)
def test_leaves_are_cut_as_keys_are(leaves: list[int], wanted: int, is_wrong: bool) -> None:
    keys = [number.to_bytes(2, "big") for number in range(sum(leaves))]
    firsts = [0, *itertools.accumulate(leaves)]
    pairs = [(keys[first] if first else b"", rows) for first, rows in zip(firsts, leaves, strict=False)]
    tree = SimpleNamespace(leaf_pages=len(leaves), entries=len(keys) + is_wrong, leaves=lambda: iter(pairs))
    walked: list[bytes] = []

    def all_keys(*_arguments: object) -> Any:
        walked.extend(keys)
        return iter(keys)

    snapshot: Any = SimpleNamespace(keys=all_keys, tree=lambda _table: tree)
    cut = partitions._Cut(snapshot, None, None, None, wanted)  # type: ignore[arg-type]
    for _step in cut.steps():
        pass
    ranges = cut.ranges()
    assert bool(walked) == (is_wrong or len(leaves) < partitions._LEAVES * wanted)
    assert (ranges[0].low, ranges[-1].high) == (None, None)
    assert all(one.high == other.low for one, other in itertools.pairwise(ranges))
    assert [one.rows for one in ranges] == [len(within(keys, one.low, one.high)) for one in ranges]
    assert len(ranges) <= wanted
    if not walked and wanted <= 4 and max(leaves) <= 4:
        assert len(ranges) == wanted
        assert max(one.rows for one in ranges) <= 2 * len(keys) / wanted


def test_a_stored_table_is_cut_by_its_leaves(tmp_path: Path) -> None:
    count = 30_000
    with herdpy.connect(tmp_path, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, a TEXT)")
        source = f"generate_series(1, {count}) i"
        connection.execute(f"INSERT INTO t SELECT i * 3, repeat('x', (i % 90)::int) FROM {source}")
        connection.execute("DELETE FROM t WHERE id % 5 = 0")
    store = Store.open(tmp_path / "store")
    try:
        snapshot, _ = store.applied_snapshot()
        table = snapshot.catalog.table_named("t")
        assert table is not None
        assert _rows(snapshot, table) == [one * 3 for one in range(1, count + 1) if one % 5]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(StoreSnapshot, "keys", None)  # nobody goes through the keys
            patched.setattr(partitions, "_SAMPLES", count)  # so that ranges are even
            by_leaves = _ranges(snapshot, table)
        assert [one.rows for one in by_leaves] == [
            sum(1 for _ in snapshot.keys(table, one.low, one.high)) for one in by_leaves
        ]
        assert max(one.rows for one in by_leaves) < 1.2 * count * 0.8 / 4
        snapshot.close()
    finally:
        store.close()


def _ranges(snapshot: StoreSnapshot, table: Table) -> list[partitions.Range]:
    cut = partitions._Cut(snapshot, table, None, None, 4)
    for _step in cut.steps():
        pass
    return cut.ranges()


def _rows(snapshot: StoreSnapshot, table: Table) -> list[int]:
    """The first column of all partitions, as they are read."""
    found: list[int] = []
    for one in _ranges(snapshot, table):
        schema = decoded(table, (0,), []).schema
        for _, message in partitions._slices(snapshot, table, (0,), one):
            found += pa.ipc.read_record_batch(pa.py_buffer(message), schema).column(0).to_pylist()
    return found


def cut_of(keys: list[bytes], low: bytes | None, high: bytes | None, wanted: int) -> Any:
    """A cut through these keys."""
    snapshot: Any = SimpleNamespace(
        keys=lambda _table, low, high: iter(within(keys, low, high)), tree=lambda _table: None
    )
    return partitions._Cut(snapshot, None, low, high, wanted)  # type: ignore[arg-type]


def within(keys: list[bytes], low: bytes | None, high: bytes | None) -> list[bytes]:
    """Those of the keys that are in [low, high)."""
    return [key for key in keys if (low is None or key >= low) and (high is None or key < high)]

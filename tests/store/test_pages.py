"""LMDB's tree as its file has it, and what a scan has read ahead."""

from __future__ import annotations

import random
import resource
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from herdpy_server.store import disk_view as disk_module
from herdpy_server.store import pages
from herdpy_server.store.disk_view import DiskView
from herdpy_server.store.pages import Pages, PageTree, ReadAhead

_MAJOR_FAULTS = 7
"""The place of ru_majflt among getrusage's figures."""

ROWS = 10_000


class NotedPages(Pages):
    """It is noted which pages are wanted."""

    def __init__(self, path: Path, page_bytes: int) -> None:
        self.wanted: list[int] = []
        super().__init__(path, page_bytes)

    def want(self, first: int, count: int) -> None:
        self.wanted += range(first, first + count)
        super().want(first, count)


class World:
    """An environment with one table, and its file."""

    def __init__(self, path: Path, items: dict[bytes, bytes]) -> None:
        self.env = lmdb.open(str(path), map_size=1 << 28, max_dbs=2)
        self.db = self.env.open_db(b"t7")
        with self.env.begin(write=True) as txn:
            for key in random.Random(1).sample(sorted(items), len(items)):
                txn.put(key, items[key], db=self.db)
        self.env.close()  # so that no page is mapped
        self.env = lmdb.open(str(path), map_size=1 << 28, max_dbs=2, readahead=False)
        self.db = self.env.open_db(b"t7")
        self.items = items
        self.pages = NotedPages(path / "data.mdb", int(self.env.stat()["psize"]))
        self.view = DiskView(self.env.begin(), {7: self.db}, self.pages)

    def tree(self) -> PageTree:
        found = self.view.tree(7)
        assert found is not None
        return found

    def leaf_of(self, key: bytes) -> int:
        """The page that a look-up reads last."""
        tree = self.tree()
        number = tree._root
        for _ in range(tree._depth - 1):
            keys, children = tree._branch(number)
            number = children[bisect_right(keys, key) - 1]
        assert key in self.pages.read(number)
        return number

    def close(self) -> None:
        self.view.end()
        self.pages.close()
        self.env.close()


def _key(nth: int) -> bytes:
    return b"key %06d" % nth


@pytest.fixture
def small(tmp_path: Path) -> Iterator[World]:
    """Many small rows."""
    world = World(tmp_path, {_key(nth): b"value %d" % nth * 12 for nth in range(ROWS)})
    yield world
    world.close()


def test_an_empty_table_has_nothing_to_read_ahead(tmp_path: Path) -> None:
    world = World(tmp_path, {})
    assert world.tree().want(b"k") is None
    assert world.view.tree(8) is None
    world.close()


def test_leaves_have_all_entries_in_order(small: World) -> None:
    tree = small.tree()
    leaves = list(tree.leaves())
    keys = sorted(small.items)
    assert len(leaves) == tree.leaf_pages > 100
    assert sum(rows for _, rows in leaves) == tree.entries == len(keys)
    at = 0
    for number, (least, rows) in enumerate(leaves):
        assert least <= keys[at] if number else least == b""
        assert not at or keys[at - 1] < least
        at += rows


@pytest.mark.parametrize("count", [0, 1, 30, 200_000])
def test_trees_of_any_depth_have_leaves(tmp_path: Path, count: int) -> None:
    world = World(tmp_path, {_key(nth): b"value" for nth in range(count)})
    try:
        tree = world.view.tree(7)
        assert tree is not None
        leaves = list(tree.leaves())
        assert (len(leaves), sum(rows for _, rows in leaves)) == (tree.leaf_pages, count)
        assert [least for least, _ in leaves] == sorted({least for least, _ in leaves})
    finally:
        world.close()


def test_what_is_read_ahead_is_all_of_the_scan_and_not_too_early(
    small: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_BRANCHES_AHEAD", 2)
    monkeypatch.setattr(pages, "_GAP", 0)
    leaves = {nth: small.leaf_of(_key(nth)) for nth in range(500, ROWS, 5)}
    ahead = ReadAhead(small.tree(), _key(500))
    first = set(small.pages.wanted)
    assert not first.issuperset(leaves.values())
    for nth, leaf in leaves.items():
        assert leaf in small.pages.wanted
        ahead.reached(_key(nth))


def _scans(view: DiskView) -> Iterator[tuple[list[object], list[object]]]:
    everything = sorted((_key(nth), b"value %d" % nth * 12) for nth in range(ROWS))
    whole = view.scan(7, None, None, reverse=False, may_be_long=False)
    yield list(whole), list(everything)
    for low, high in ((5, 5), (5, 6), (0, 255), (0, 256), (0, 257), (3, 7_345), (9_990, 30_000)):
        found = view.scan(7, _key(low), _key(high), reverse=False, may_be_long=False)
        yield list(found), list(everything[low:high])
    yield list(view.values(7)), [value for _, value in everything]


def test_scans_give_the_same_whether_or_not_they_read_ahead(
    small: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = 0

    def more_faults(_who: int) -> resource.struct_rusage:
        nonlocal faults
        faults += step
        return resource.struct_rusage([faults if field == _MAJOR_FAULTS else 0 for field in range(16)])

    monkeypatch.setattr(disk_module.resource, "getrusage", more_faults)
    for step in (0, 1):
        small.pages.wanted.clear()
        for found, expected in _scans(small.view):
            assert found == expected
        assert bool(small.pages.wanted) == bool(step)

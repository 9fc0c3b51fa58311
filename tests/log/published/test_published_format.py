"""Snapshots are written, found, read and pruned; what was damaged is named."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy.log.lsn import LSN, START
from herdpy.log.published import (
    DamagedSnapshotError,
    PlaceError,
    PublishedManifest,
    Retention,
    SnapshotRef,
    SnapshotWriter,
    TableWriter,
    dated,
    load,
    newest,
    open_file,
    prune,
    read_batches,
    remove_others,
    snapshots,
)
from herdpy.log.published.shelf import Dated, choose
from herdpy.log.published.tables import Quantiles

FIELDS: list[Any] = [
    pa.field("n", pa.int64()),
    pa.field("t", pa.string()),
    pa.field("u", pa.uuid()),
    pa.field("__key", pa.binary()),
]
SCHEMA = pa.schema(FIELDS)


def rows(start: int, stop: int) -> pa.RecordBatch:
    numbers = range(start, stop)
    ids: Any = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([n.to_bytes(16, "big") for n in numbers], pa.binary(16))
    )
    keys = pa.array([n.to_bytes(8, "big") for n in numbers], pa.binary())
    return pa.record_batch(
        [pa.array(numbers, pa.int64()), pa.array([f"row {n}" for n in numbers]), ids, keys], schema=SCHEMA
    )


def write(table: TableWriter, batches: Sequence[pa.RecordBatch]) -> None:
    with table:
        for batch in batches:
            table.write(batch)


def key(n: int) -> bytes:
    return n.to_bytes(8, "big")


AT = LSN(3, 7)


def publish(
    url: str,
    lsn: LSN = AT,
    *,
    count: int = 1000,
    time_us: int = 50,
    file_bytes: int = 1 << 20,
    log_id: str = "ab",
) -> PublishedManifest:
    writer = SnapshotWriter(url, "herd", lsn, created_us=60, file_bytes=file_bytes)
    with writer.table(5, "rows", '{"id":5}', SCHEMA) as table:
        for start in range(0, count, 400):
            table.write(rows(start, min(start + 400, count)))
    with writer.table(6, "empty", '{"id":6}', SCHEMA):
        pass
    return writer.finish(log_id=log_id, crc=9, time_us=time_us)


def outcome(ref: SnapshotRef) -> PublishedManifest | str:
    """A snapshot's manifest, or the file that an error says is damaged."""
    try:
        return load(ref)
    except DamagedSnapshotError as error:
        return error.file


def numbers(ref: SnapshotRef, **bounds: bytes) -> list[int]:
    table = load(ref).table("rows")
    assert table is not None
    found: list[Any] = []
    for batch in read_batches(ref, table.files, ["n"], **bounds):
        assert batch.schema.names == ["n"]
        found += batch.column("n").to_pylist()
    return found


@pytest.mark.parametrize("scheme", ["path", "file", "memory"])
def test_a_snapshot_is_read_as_it_was_written(tmp_path: Path, scheme: str) -> None:
    """By a path, a file: URL, and a store that is no directory of this machine."""
    url = {
        "path": str(tmp_path / "x"),
        "file": f"file://{tmp_path}/x/",
        "memory": f"memory://{tmp_path.name}",
    }[scheme]
    assert snapshots(url, "herd") == []
    written = publish(url, count=150_000, file_bytes=300_000)
    (ref,) = snapshots(url, "herd")
    assert ref == SnapshotRef(url, "herd", LSN(3, 7))
    assert pickle.loads(pickle.dumps(ref)) == ref
    found = load(ref)
    assert found == written
    table, empty = found.tables
    assert (table.rows, len(table.files)) == (150_000, 3)
    assert [file.rows for file in table.files] == [65_536, 65_536, 18_928]
    assert (empty.rows, empty.files, empty.quantiles) == (0, (), ())
    read = pa.Table.from_batches(list(read_batches(ref, table.files)))
    assert read.schema.equals(SCHEMA)
    assert read.column("n").to_pylist() == list(range(150_000))
    assert read.column("__key").combine_chunks() == rows(0, 150_000).column("__key")


def test_ranges_of_keys(tmp_path: Path) -> None:
    """Bounds at and between the borders of files and row groups give the rows inside, and none else."""
    url = str(tmp_path)
    publish(url, count=140_000, file_bytes=300_000)
    (ref,) = snapshots(url, "herd")
    edges = [0, 65_535, 65_536, 65_537, 140_000]
    for i, low in enumerate(edges):
        for high in edges[i:]:
            assert numbers(ref, low=key(low), high=key(high)) == list(range(low, high))
    assert numbers(ref, low=key(139_998)) == [139_998, 139_999]


def test_only_what_has_a_manifest_is_a_snapshot(tmp_path: Path) -> None:
    """A writer that did not finish leaves nothing that is found; an abandoned one leaves nothing."""
    url = str(tmp_path)
    writer = SnapshotWriter(url, "herd", LSN(4, 0), created_us=0)
    with writer.table(5, "rows", "{}", SCHEMA) as table:
        table.write(rows(0, 10))
    assert snapshots(url, "herd") == []
    writer.abandon()
    assert list((tmp_path / "herd").iterdir()) == []


def test_a_table_that_failed_is_not_in_the_snapshot(tmp_path: Path) -> None:
    """Rows out of order are refused, and what was written of the table does not count."""
    writer = SnapshotWriter(str(tmp_path), "herd", LSN(4, 0), created_us=0)
    table = writer.table(5, "rows", "{}", SCHEMA)
    batches = [rows(0, 70_000), rows(0, 1)]
    with pytest.raises(ValueError, match="key order"):
        write(table, batches)
    assert writer.finish(log_id="", crc=None, time_us=0).tables == ()


def test_a_snapshot_whose_files_went_is_not_finished(tmp_path: Path) -> None:
    """Somebody who removed the directory meanwhile keeps the manifest from being written."""
    writer = SnapshotWriter(str(tmp_path), "herd", LSN(4, 0), created_us=0)
    with writer.table(5, "rows", "{}", SCHEMA) as table:
        table.write(rows(0, 10))
    writer.place.clear()
    with pytest.raises(PlaceError, match=r"part-00000-.* was removed"):
        writer.finish(log_id="", crc=None, time_us=0)
    assert snapshots(str(tmp_path), "herd") == []


def test_damage_names_the_file(tmp_path: Path) -> None:
    """A flipped bit anywhere, a cut file, a missing one: never rows, always the file's name."""
    publish(str(tmp_path))
    (ref,) = snapshots(str(tmp_path), "herd")
    (file,) = load(ref).tables[0].files
    path = tmp_path / ref.directory / file.path
    whole = path.read_bytes()
    for at in range(0, len(whole), 501):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(DamagedSnapshotError, match=r"part-00000-.*checksum"):
            open_file(ref, file)
    path.write_bytes(whole[:-1])
    with pytest.raises(DamagedSnapshotError, match=r"part-00000-.*bytes"):
        numbers(ref)
    path.unlink()
    with pytest.raises(DamagedSnapshotError, match=r"part-00000-.*not there") as caught:
        numbers(ref)
    assert pickle.loads(pickle.dumps(caught.value)).file == caught.value.file == str(path)


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    """Whatever bit of it is flipped, unless its meaning stays the same; and one of another snapshot."""
    publish(str(tmp_path), count=3)
    (ref,) = snapshots(str(tmp_path), "herd")
    path = tmp_path / ref.directory / "manifest.json"
    whole, meant = path.read_bytes(), load(ref)
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        found = outcome(ref)
        assert found in (meant, str(path)), f"byte {at}"
    path.write_bytes(whole)
    other = path.parent.parent / f"{9:020d}-{0:020d}"
    path.parent.rename(other)
    with pytest.raises(DamagedSnapshotError, match="at 3:7"):
        load(snapshots(str(tmp_path), "herd")[0])
    (other / "manifest.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(DamagedSnapshotError, match="format 2"):
        load(snapshots(str(tmp_path), "herd")[0])


def test_newest(tmp_path: Path) -> None:
    """By position and by time: nothing that is later than what was asked for."""
    url = str(tmp_path)
    lsns = [START, LSN(1, 900), LSN(2, 3), LSN(10, 0)]
    for i, lsn in enumerate(lsns):
        publish(url, lsn, count=1, time_us=100 * i)
    assert [ref.lsn for ref in snapshots(url, "herd")] == lsns[::-1]

    def at(upto: LSN | None = None, time_us: int | None = None) -> LSN | None:
        ref = newest(url, "herd", upto, time_us)
        return None if ref is None else ref.lsn

    assert at() == LSN(10, 0)
    assert at(LSN(9, 999)) == at(LSN(2, 3)) == LSN(2, 3)
    assert at(LSN(0, 5)) == START
    assert at(time_us=100) == at(time_us=199) == LSN(1, 900)
    assert at(LSN(1, 900), time_us=300) == LSN(1, 900)
    assert at(time_us=-1) is None
    assert newest(url, "other") is None


def test_snapshots_of_another_log_are_somebody_elses(tmp_path: Path) -> None:
    """A tablespace that was made again under its name neither reads nor removes what the old one left."""
    url = str(tmp_path)
    publish(url, LSN(1, 0), count=1)
    publish(url, LSN(2, 0), count=1, log_id="cd")
    publish(url, LSN(3, 0), count=1, log_id="cd")
    publish(url, LSN(9, 0), count=1)

    def lsns(log_id: str) -> list[LSN]:
        return [one.ref.lsn for one in dated(url, "herd", log_id)[0]]

    assert newest(url, "herd", log_id="cd") == SnapshotRef(url, "herd", LSN(3, 0))
    assert newest(url, "herd", LSN(1, 0), log_id="cd") is None
    assert (lsns("ab"), lsns("cd")) == ([LSN(9, 0), LSN(1, 0)], [LSN(3, 0), LSN(2, 0)])
    assert remove_others(url, "herd", [LSN(3, 0)], "cd") == [LSN(2, 0)]
    assert (lsns("ab"), lsns("cd")) == ([LSN(9, 0), LSN(1, 0)], [LSN(3, 0)])


def test_an_unknown_scheme_is_an_error_that_names_it() -> None:
    with pytest.raises(PlaceError, match="nowhere://x"):
        snapshots("nowhere://x", "herd")


@given(st.lists(st.integers(0, 700), max_size=20), st.integers(1, 8))
def test_quantiles(lengths: list[int], most: int) -> None:
    """Never more than asked for, evenly spread, the first key among them, however the rows come."""
    quantiles = Quantiles(most)
    total = 0
    for length in lengths:
        quantiles.add(pa.array([key(n) for n in range(total, total + length)], pa.binary()))
        total += length
    chosen = [int.from_bytes(one, "big") for one in quantiles.chosen()]
    assert len(chosen) <= most
    if total:
        assert chosen[0] == 0
        steps = {after - before for before, after in itertools.pairwise(chosen)}
        assert len(steps) <= 1
        last = total - chosen[-1]
        assert last <= 2 * max(steps, default=total)
        assert len(chosen) > min(total, most) // 4


def at_times(times: Sequence[int]) -> list[Dated]:
    return [Dated(SnapshotRef("x", "herd", LSN(1, t)), t * 1_000_000) for t in sorted(times, reverse=True)]


@given(
    st.sets(st.integers(0, 2000), min_size=1),
    st.integers(1, 4),
    st.integers(0, 800),
    st.lists(st.integers(0, 2000), max_size=3),
)
def test_what_stays(times: set[int], keep: int, history_s: int, leases: list[int]) -> None:
    """The newest stay, every moment of the history has a snapshot before it, leases keep theirs."""
    now = max(times)
    found = at_times(list(times))
    kept, floor = choose(
        found,
        Retention(keep, history_s),
        leased=[LSN(1, t) for t in leases],
        now_us=now * 1_000_000,
    )
    stay = [ref.lsn.entry_id for ref in kept]
    assert stay == sorted(stay, reverse=True)
    assert set(sorted(times, reverse=True)[:keep]) <= set(stay)
    assert floor is not None
    assert floor.entry_id in stay
    if history_s:
        old = [t for t in times if t <= now - history_s]
        assert floor.entry_id == (max(old) if old else min(times))
    else:
        assert floor.entry_id == now
    for t in leases:
        before = [s for s in times if s <= t]
        assert not before or max(before) in stay


def test_a_history_does_not_grow_for_ever() -> None:
    """A snapshot each minute for ten hours: at the end about an eighth of the history between two."""
    present: list[int] = []
    for minute in range(600):
        now = minute * 60
        present.append(now)
        kept, floor = choose(at_times(present), Retention(2, 7200), now_us=now * 1_000_000)
        present = [ref.lsn.entry_id for ref in kept]
        assert floor is not None
        assert now - floor.entry_id <= 7200 * 10 // 8 + 60
        assert minute < 120 or now - floor.entry_id >= 7200
        assert len(present) <= 13


def test_prune(tmp_path: Path) -> None:
    """Removes the others and remnants behind the newest, not what is being written ahead of it."""
    url = str(tmp_path)
    for n in range(1, 6):
        publish(url, LSN(n, 0), count=1, time_us=n)
    remnant, ahead = (tmp_path / "herd" / f"{n:020d}-{1:020d}" for n in (4, 9))
    for directory in (remnant, ahead):
        (directory / "t5").mkdir(parents=True)
    (tmp_path / "herd" / "notes").mkdir()
    kept, floor = prune(url, "herd", Retention(2), leased=[LSN(2, 500)], now_us=0)
    assert [ref.lsn.ledger_id for ref in kept] == [5, 4, 2]
    assert snapshots(url, "herd") == kept
    assert floor == LSN(5, 0)
    assert not remnant.exists()
    assert ahead.exists()
    assert (tmp_path / "herd" / "notes").exists()
    assert prune(url, "none", Retention(), now_us=0) == ([], None)
    damaged = tmp_path / kept[1].directory / "manifest.json"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert prune(url, "herd", Retention(9), now_us=0)[0] == [kept[0], kept[2]]
    assert not damaged.parent.exists()

"""Columns in files beside LMDB: they equal the rows, whatever happened to tables, files and processes."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

import herdpy
from herdpy.codec.arrow_bytes import images_to_batch
from herdpy.codec.rows import RowCodec
from herdpy.log.lsn import LSN
from herdpy_server.store import (
    Store,
    StoreSnapshot,
    columns,
    flush,
    layers,
    segment_file,
    segments,
    workspace,
)
from herdpy_server.store.columns import ColumnCache
from herdpy_server.store.disk_view import DiskView
from herdpy_server.store.segment_file import SegmentDamagedError, SegmentDraft, SegmentFile, Stamp
from herdpy_server.store.segments import FoundColumns, SegmentFiles, SegmentKeeper
from herdpy_sql.catalog import Column, KeyPart, Table
from herdpy_sql.types import INTEGER
from tests.codec.codec_data import MICROSECONDS_A_DAY, fields, rows
from tests.store.test_store_model import StoreModel

ROWS = 3000
SUMS = "SELECT b, count(*), sum(a), min(c), max(c) FROM t GROUP BY b ORDER BY b"
FILLED = "INSERT INTO t SELECT i, i % 7, 'text ' || i FROM generate_series(1, 3000) i"


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table has a segment, as often as it pays."""
    monkeypatch.setattr(segments, "LEAST_ROWS", 1)
    monkeypatch.setattr(segments, "_PAUSE_S", 0.0)
    monkeypatch.setattr(segments, "_SHARE", 0)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[FoundColumns]:
    """What segments have given."""
    given_: list[FoundColumns] = []
    find = SegmentFiles.find

    def noted(self: SegmentFiles, *arguments: Any) -> FoundColumns | None:
        columns = find(self, *arguments)
        given_.extend([columns] if columns is not None else [])
        return columns

    monkeypatch.setattr(SegmentFiles, "find", noted)
    return given_


# The file.

TABLE = Table(1, "t", (Column("id", INTEGER, not_null=True),), (KeyPart(0),), "t_pkey")


@given(st.data())
def test_a_file_gives_back_columns_of_every_type(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(fields(arrow=True), min_size=1, max_size=5))
    made = data.draw(st.lists(rows(kinds, arrow=True), max_size=12))
    codec = RowCodec(kinds)
    names = [f"c{at}" for at in range(len(kinds))]
    block_rows = data.draw(st.integers(1, 5))
    images = [codec.encode(row) for row in made]
    blocks = [
        images_to_batch(kinds, names, range(len(kinds)), images[start : start + block_rows])
        for start in range(0, len(images), block_rows)
    ]
    schema = images_to_batch(kinds, names, range(len(kinds)), []).schema
    draft = SegmentDraft(TABLE, tuple(range(len(kinds))), blocks, LSN(1, 2), Stamp(3, 4), {b"k"})
    with tempfile.TemporaryDirectory() as directory:
        partial, path = Path(directory, "partial"), Path(directory, "t1.columns")
        segment_file.write(draft, "store", "definition", partial, path)
        assert not partial.exists()
        file = SegmentFile(path)
        wanted = data.draw(st.permutations(range(len(kinds)))) if kinds else []
        read = file.blocks(pa.schema([schema.field(at) for at in wanted]), wanted)
        assert [block.num_rows for block in read] == [block.num_rows for block in blocks]
        for ours, theirs in zip(read, blocks, strict=True):
            for nth, at in enumerate(wanted):
                ours.column(nth).validate(full=not _has_midnight(ours.column(nth)))
                assert _bytes(ours.column(nth)) == _bytes(theirs.column(at))
        assert (file.footer.stamp, file.footer.lsn, file.footer.changed) == ((3, 4), "1:2", [b"k"])


def _has_midnight(array: Any) -> bool:
    """Whether it has the time 24:00, which is PostgreSQL's and kept, and which Arrow's full check refuses."""
    if pa.types.is_nested(array.type):
        return _has_midnight(array.flatten())
    return bool(array.type == pa.time64("us") and MICROSECONDS_A_DAY in array.cast(pa.int64()).to_pylist())


def _bytes(array: Any) -> bytes:
    """All of an array; NaN and -0.0 too."""
    batch = pa.RecordBatch.from_arrays([array], ["c"])
    return bytes(batch.serialize().to_pybytes())


@pytest.mark.parametrize("seed", range(4))
def test_any_flipped_bit_or_missing_byte_is_noticed(tmp_path: Path, seed: int) -> None:
    block = pa.record_batch({"id": pa.array(range(500), pa.int32()), "s": [f"text {i}" for i in range(500)]})
    draft = SegmentDraft(TABLE, (0, 1), [block, block], LSN(1, 2), Stamp(3, 4), [b"a", b"b"])
    path = tmp_path / "t1.columns"
    segment_file.write(draft, "store", "definition", tmp_path / "partial", path)
    whole = path.read_bytes()
    read = SegmentFile(path).blocks(block.schema, (0, 1))
    random_ = random.Random(seed)
    covered = [(part.start, part.start + part.nbytes) for c in SegmentFile(path).footer.parts for part in c]
    covered.append((covered[-1][1], len(whole)))
    for _ in range(60):
        damaged = bytearray(whole)
        start, stop = random_.choice(covered)
        damaged[random_.randrange(start, stop)] ^= 1 << random_.randrange(8)
        if random_.random() < 0.3:
            damaged = damaged[: random_.randrange(len(damaged))]
        path.write_bytes(damaged)
        with pytest.raises(SegmentDamagedError):
            SegmentFile(path).blocks(block.schema, (0, 1))
    path.write_bytes(whole)
    assert SegmentFile(path).blocks(block.schema, (0, 1)) == read


# Whatever transactions, checkpoints, kills and damage do.


class SegmentDriver(StoreModel):
    """The store's model with segments, whose files are damaged, and whose writers are killed."""

    def open(self) -> Store:
        return Store.open(self.path, map_size_bytes=1 << 28, segment_bytes=1 << 30)

    def step(self) -> None:
        super().step()
        if self.rng.random() < 0.3:
            self.store.keep_columns()
        chance = self.rng.random()
        if chance < 0.05:
            self.killed()
        elif chance < 0.1:
            self.damage()

    def killed(self) -> None:
        """The process ends at some step of a flush or of the writing of columns."""
        with pytest.MonkeyPatch.context() as patched:
            _kill_after(patched, self.rng.randrange(6))
            try:
                self.store.flush()
                self.store.keep_columns()
            except KilledError:
                pass
        self.crash()

    def damage(self) -> None:
        files = sorted(path for path in self.store.disk.path.glob("columns/*") if path.stat().st_size)
        if not files:
            return
        path = self.rng.choice(files)
        data = bytearray(path.read_bytes())
        if self.rng.random() < 0.5:
            data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
        else:
            del data[self.rng.randrange(len(data)) :]
        other = path.with_name("other")  # what is mapped stays as it was
        other.write_bytes(data)
        other.rename(path)


class KilledError(BaseException):
    """The process was killed here."""


def _kill_after(patched: pytest.MonkeyPatch, steps: int) -> None:
    """Let the process end at the step with this number of those that change files."""
    left = [steps]

    def stepping(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **keywords: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KilledError
            return real(*arguments, **keywords)

        return step

    patched.setattr(segment_file, "_write_part", stepping(segment_file._write_part))
    patched.setattr(segment_file, "sync_directory", stepping(segment_file.sync_directory))
    patched.setattr(os, "rename", stepping(os.rename))
    patched.setattr(segments, "_record", stepping(segments._record))
    patched.setattr(segments, "_remove", stepping(segments._remove))
    patched.setattr(SegmentKeeper, "flushed", stepping(SegmentKeeper.flushed))
    patched.setattr(SegmentKeeper, "tend", stepping(SegmentKeeper.tend))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such small limits that a few rows reach every path."""
    for module, name, value in (
        (layers, "_ADOPT_ROWS", 2),
        (layers, "_MERGE_ROWS", 8),
        (workspace, "_FEW", 1),
        (flush, "_CHUNK", 3),
        (columns, "_BLOCK_ROWS", 4),
        (columns, "_FEW", 6),
        (segments, "_FEW_KEYS", 12),
    ):
        assert hasattr(module, name)
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("small")
def test_columns_equal_the_model(
    tmp_path: Path, seed: int, found: list[FoundColumns], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "_REPEATED", seed % 2 or 8)  # with dictionaries for all texts, and for none
    SegmentDriver(tmp_path / "store", random.Random(seed)).run(120)
    assert found, "no segment was ever of use: this test would show nothing"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1200))
@pytest.mark.usefixtures("small")
def test_columns_equal_the_model_for_long(tmp_path: Path, seed: int) -> None:
    SegmentDriver(tmp_path / "store", random.Random(seed)).run(400)


# Through SQL.


def connected(path: Path, **settings: Any) -> herdpy.Connection:
    return herdpy.connect(path, autocommit=True, checkpoint_interval_s=3600.0, **settings)


def files(path: Path) -> list[Path]:
    return sorted((path / "store" / "columns").glob("*.columns"))


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Path]:
    """A database whose table has a segment."""
    path = tmp_path / "db"
    with connected(path) as connection:
        connection.execute("CREATE TABLE t (a int PRIMARY KEY, b int, c text)")
        connection.execute(FILLED)
        connection.execute(SUMS).fetchall()
        connection.execute("CHECKPOINT")
    assert len(files(path)) == 1
    return path


def by_rows(connection: herdpy.Connection, table: str = "t") -> list[Any]:
    """The groups of SUMS, without any columns."""
    groups: dict[int, list[Any]] = {}
    for a, b, c in connection.execute(f"SELECT a, b, c FROM {table} WHERE a >= -1000000").fetchall():
        groups.setdefault(b, []).append((a, c))
    return [
        (b, len(of), sum(a for a, _ in of), min(c for _, c in of), max(c for _, c in of))
        for b, of in sorted(groups.items())
    ]


def test_the_first_question_after_a_start_reads_no_row(
    filled: Path, monkeypatch: pytest.MonkeyPatch, found: list[FoundColumns]
) -> None:
    def refuse(*_arguments: object) -> Any:
        raise AssertionError("rows are decoded")

    with connected(filled) as connection:
        expected = by_rows(connection)
        monkeypatch.setattr(columns, "blocks", refuse)
        assert connection.execute(SUMS).fetchall() == expected
    assert len(found) == 1


def test_changes_since_are_merged_over_many_starts(filled: Path, found: list[FoundColumns]) -> None:
    random_ = random.Random(3)
    for turn in range(5):
        with connected(filled) as connection:
            for _ in range(20):
                key = random_.randrange(1, ROWS)
                connection.execute("UPDATE t SET b = b + 1, c = 'new ' || a WHERE a = %s", (key,))
                connection.execute("DELETE FROM t WHERE a = %s", (key + 1,))
            connection.execute("INSERT INTO t VALUES (%s, 99, 'added')", (ROWS + 1 + turn,))
            if turn % 2:
                connection.execute("CHECKPOINT")
            assert connection.execute(SUMS).fetchall() == by_rows(connection)
    assert len(found) == 5
    assert len(files(filled)) == 1
    assert files(filled)[0].with_suffix(".changes").exists()


def test_worn_segments_are_written_again(filled: Path) -> None:
    before = files(filled)
    with connected(filled) as connection:
        connection.execute("UPDATE t SET b = b + 1 WHERE a <= 2900")
        connection.execute("CHECKPOINT")
        assert files(filled) == []
        connection.execute(SUMS).fetchall()
        connection.execute("CHECKPOINT")
        assert files(filled) != before
    with connected(filled) as connection:
        assert connection.execute(SUMS).fetchall() == by_rows(connection)


@pytest.mark.parametrize(
    "ddl",
    [
        "TRUNCATE t",
        "DROP TABLE t",
        "ALTER TABLE t ADD COLUMN d int DEFAULT 5",
        "ALTER TABLE t ALTER COLUMN b TYPE bigint",
    ],
)
def test_definitions_remove_segments(filled: Path, ddl: str) -> None:
    with connected(filled) as connection:
        connection.execute(ddl)
        connection.execute("CHECKPOINT")
        assert files(filled) == []
    assert not list((filled / "store" / "columns").iterdir())


def test_indexes_and_names_do_not(filled: Path, found: list[FoundColumns]) -> None:
    with connected(filled) as connection:
        connection.execute("CREATE INDEX ON t (b)")
        connection.execute("ALTER TABLE t RENAME COLUMN c TO text")
        connection.execute("ALTER TABLE t RENAME COLUMN text TO c")
        connection.execute("ALTER TABLE t RENAME TO s")
        connection.execute("CHECKPOINT")
    with connected(filled) as connection:
        sums = SUMS.replace("FROM t", "FROM s")
        assert connection.execute(sums).fetchall() == by_rows(connection, "s")
    assert found


def test_tables_of_one_name_in_two_schemas_are_two(tmp_path: Path, found: list[FoundColumns]) -> None:
    path = tmp_path / "db"
    with connected(path) as connection:
        connection.execute("CREATE SCHEMA other")
        for schema, start in (("public", 1), ("other", 5000)):
            connection.execute(f"CREATE TABLE {schema}.t (a int PRIMARY KEY, b int, c text)")
            source = f"generate_series({start}, {start + 1000}) i"
            connection.execute(f"INSERT INTO {schema}.t SELECT i, i % 3, 'x' || i FROM {source}")
            connection.execute(SUMS.replace("FROM t", f"FROM {schema}.t")).fetchall()
        connection.execute("CHECKPOINT")
    one, two = files(path)
    for turn in range(2):
        with connected(path) as connection:
            for schema in ("public", "other"):
                answer = connection.execute(SUMS.replace("FROM t", f"FROM {schema}.t")).fetchall()
                assert answer == by_rows(connection, f"{schema}.t")
        assert len(found) == 2 + turn
        one.write_bytes(two.read_bytes())  # a foreign one, where its own was


def test_a_stale_or_foreign_file_is_removed(filled: Path, tmp_path: Path, found: list[FoundColumns]) -> None:
    (path,) = files(filled)
    kept = path.read_bytes()
    with connected(filled) as connection:
        connection.execute("UPDATE t SET b = 1000 WHERE a = 5")
        connection.execute("CHECKPOINT")
    for changes in (filled / "store" / "columns").glob("*.changes"):
        changes.unlink()  # so nobody knows what came after the segment
    with connected(filled) as connection:
        assert files(filled) == []
        assert connection.execute(SUMS).fetchall() == by_rows(connection)
    shutil.rmtree(filled / "store" / "columns")
    other = tmp_path / "other"
    with connected(other) as connection:
        connection.execute("CREATE TABLE t (a int PRIMARY KEY, b int, c text)")
        connection.execute(FILLED)
        connection.execute("UPDATE t SET b = 8 WHERE a = 1")
    (other / "store" / "columns").mkdir()
    (other / "store" / "columns" / path.name).write_bytes(kept)
    with connected(other) as connection:
        assert files(other) == []
        assert connection.execute(SUMS).fetchall() == by_rows(connection)
    assert not found


def test_a_state_that_the_changes_do_not_reach_is_read_by_rows(
    filled: Path, monkeypatch: pytest.MonkeyPatch, found: list[FoundColumns]
) -> None:
    """As a worker meets it between LMDB's commit and the record of what it changed."""
    with connected(filled) as connection:
        monkeypatch.setattr(SegmentKeeper, "flushed", lambda *_arguments: None)
        connection.execute("UPDATE t SET b = 1000 WHERE a = 5")
        connection.shared_link.link.database.store.flush()
        assert connection.execute(SUMS).fetchall() == by_rows(connection)
        assert len(files(filled)) == 1
    assert not found


@pytest.mark.parametrize("seed", range(4))
def test_damaged_changes_remove_their_segment(filled: Path, seed: int, found: list[FoundColumns]) -> None:
    with connected(filled) as connection:
        for key in range(5, 100):
            connection.execute("UPDATE t SET b = 1000 WHERE a = %s", (key,))
        connection.execute("CHECKPOINT")
    path = files(filled)[0].with_suffix(".changes")
    data = bytearray(path.read_bytes())
    random_ = random.Random(seed)
    data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
    path.write_bytes(data)
    with connected(filled) as connection:
        assert files(filled) == []
        assert connection.execute(SUMS).fetchall() == by_rows(connection)
    assert not found


@pytest.mark.parametrize("body", [b"\x01", b"\x93\x01\x02\x03", b""])
def test_changes_of_another_version_remove_their_segment(filled: Path, body: bytes) -> None:
    head = segments._HEAD.pack(len(body), xxh3_64_intdigest(body))
    with connected(filled) as connection:
        connection.execute("UPDATE t SET b = 1000 WHERE a = 5")
    files(filled)[0].with_suffix(".changes").write_bytes(head + body)
    with connected(filled) as connection:
        assert files(filled) == []
        assert connection.execute(SUMS).fetchall() == by_rows(connection)


def test_damage_that_is_met_while_reading_is_removed(filled: Path) -> None:
    (path,) = files(filled)
    data = bytearray(path.read_bytes())
    data[data.index(b"text 77")] ^= 1
    path.write_bytes(data)
    with connected(filled) as connection:
        assert files(filled) == [path]  # its footer is whole
        assert connection.execute(SUMS).fetchall() == by_rows(connection)
        assert files(filled) == []
        connection.execute("CHECKPOINT")
        assert len(files(filled)) == 1


def test_a_full_disk_costs_the_segment_and_not_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "db"

    def full(*_arguments: object) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with connected(path) as connection:
        connection.execute("CREATE TABLE t (a int PRIMARY KEY, b int, c text)")
        connection.execute(FILLED)
        expected = connection.execute(SUMS).fetchall()
        monkeypatch.setattr(segment_file.os, "fsync", full)
        store = connection.shared_link.link.database.store
        store.flush()
        store.keep_columns()
        monkeypatch.undo()
        assert store.durable == store.applied
        assert "No space left" in caplog.text
        assert not list((path / "store" / "columns").iterdir())
        assert connection.execute(SUMS).fetchall() == expected


def test_changes_that_cannot_be_written_cost_the_segment(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connected(filled) as connection:
        (filled / "store" / "columns" / files(filled)[0].with_suffix(".changes").name).mkdir()
        connection.execute("UPDATE t SET b = 1000 WHERE a = 5")
        store = connection.shared_link.link.database.store
        store.flush()
        assert store.durable == store.applied
        assert files(filled) == []
        assert connection.execute(SUMS).fetchall() == by_rows(connection)


def test_the_least_used_go_where_there_are_too_many(tmp_path: Path) -> None:
    path = tmp_path / "db"
    names = ("t", "s", "r")
    with connected(path) as connection:
        for name in names:
            connection.execute(f"CREATE TABLE {name} (a int PRIMARY KEY, b int, c text)")
            connection.execute(FILLED.replace("INTO t", f"INTO {name}"))
            connection.execute(SUMS.replace("FROM t", f"FROM {name}")).fetchall()
            connection.execute("CHECKPOINT")
        assert len(files(path)) == 3
        size = files(path)[0].stat().st_size
        connection.execute(SUMS).fetchall()
        store = connection.shared_link.link.database.store
        store.segments.files.limit_bytes = size * 2 + size // 2
        connection.execute("CHECKPOINT")
        kept = {store.catalog.tables[table].name for table in store.segments.tables}
        assert kept == {"t", "r"}
        assert len(files(path)) == 2
    with connected(path, column_segment_bytes=0) as connection:
        assert files(path) == []
        connection.execute(SUMS).fetchall()
        connection.execute("CHECKPOINT")
        assert files(path) == []


def test_temporary_tables_have_none(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with connected(path) as connection:
        connection.execute("CREATE TEMP TABLE t (a int PRIMARY KEY, b int, c text)")
        connection.execute(FILLED)
        connection.execute(SUMS).fetchall()
        connection.execute("CHECKPOINT")
        assert files(path) == []


def test_columns_that_memory_does_not_keep_are_in_a_file(tmp_path: Path, found: list[FoundColumns]) -> None:
    path = tmp_path / "db"
    with connected(path, column_cache_bytes=1000) as connection:
        connection.execute("CREATE TABLE t (a int PRIMARY KEY, b int, c text)")
        connection.execute(FILLED)
        expected = connection.execute(SUMS).fetchall()
        connection.execute("CHECKPOINT")
        assert len(files(path)) == 1
        assert connection.execute(SUMS).fetchall() == expected
        connection.execute("UPDATE t SET b = 6 WHERE a = 8")
        assert connection.execute(SUMS).fetchall() == by_rows(connection)
    assert len(found) == 1


def test_copies_leave_them_out(filled: Path, tmp_path: Path) -> None:
    store = Store.open(filled / "store", segment_bytes=1 << 30)
    store.copy(tmp_path / "copy")
    store.close()
    assert not (tmp_path / "copy" / "columns").exists()
    assert len(files(filled)) == 1


CHILD = """
import os, signal, sys
import herdpy
from herdpy_server.store import segment_file, segments
segments.LEAST_ROWS = 1
where, name = sys.argv[2].rsplit(".", 1)
owner = {"file": segment_file, "files": segments, "os": os, "keeper": segments.SegmentKeeper}[where]
real = getattr(owner, name)
def dies(*arguments, **keywords):
    if sys.argv[3] == "after":
        real(*arguments, **keywords)
    os.kill(os.getpid(), signal.SIGKILL)
connection = herdpy.connect(sys.argv[1], autocommit=True, checkpoint_interval_s=3600.0)
if sys.argv[4] == "change":
    connection.execute("UPDATE t SET b = 1000 WHERE a = 5")
else:
    connection.execute("SELECT b, c, sum(a) FROM t GROUP BY b, c").fetchall()
setattr(owner, name, dies)
connection.execute("CHECKPOINT")
"""


@pytest.mark.parametrize(
    ("step", "when", "what"),
    [
        ("file._write_part", "after", "write"),
        ("os.fsync", "before", "write"),
        ("os.rename", "before", "write"),
        ("os.rename", "after", "write"),
        ("file.sync_directory", "after", "write"),
        ("keeper.tend", "after", "write"),
        ("keeper.flushed", "before", "change"),
        ("files._record", "after", "change"),
        ("keeper.flushed", "after", "change"),
    ],
)
def test_a_kill_between_any_two_steps(tmp_path: Path, step: str, when: str, what: str) -> None:
    path = tmp_path / "db"
    with connected(path) as connection:
        connection.execute("CREATE TABLE t (a int PRIMARY KEY, b int, c text)")
        connection.execute(FILLED)
        if what == "change":
            connection.execute(SUMS).fetchall()
        connection.execute("CHECKPOINT")
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), step, when, what],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert child.returncode == -signal.SIGKILL
    with connected(path) as connection:
        assert not list((path / "store" / "columns").glob("*.partial"))
        assert connection.execute(SUMS).fetchall() == by_rows(connection)
        connection.execute("CHECKPOINT")
        assert len(files(path)) == 1
    with connected(path) as connection:
        assert connection.execute(SUMS).fetchall() == by_rows(connection)


def test_lmdb_may_be_newer_than_what_is_known_of_it(tmp_path: Path) -> None:
    """A worker opens a state whose flush its server has not noted when it takes the snapshot."""
    path = tmp_path / "db"
    with connected(path) as connection:
        connection.execute("CREATE TABLE t (a int PRIMARY KEY, b int, c text)")
        connection.execute(FILLED)
        connection.execute("CHECKPOINT")
        store = connection.shared_link.link.database.store
        table = store.catalog.by_name["t"]
        cache = ColumnCache(1 << 30, store.segments.files)

        def over(view: DiskView, of: StoreSnapshot) -> StoreSnapshot:
            chains = {table.id: of.applied_chain(table.id)}
            return StoreSnapshot(view, chains, {}, {}, of.catalog, of.sequence, cache)

        over(store.disk.current, store.snapshot()).arrow(table, (0, 1))
        connection.execute("UPDATE t SET b = 1000 WHERE a = 5")
        before = store.snapshot()
        store.flush()
        snapshot = over(store.disk.current, before)
        (draft,) = cache.drafts(snapshot)
        assert store.segments.files.write(draft) is not None
        expected = by_rows(connection)
    with connected(path) as connection:
        assert len(files(path)) == 1
        two = "SELECT b, count(*), sum(a) FROM t GROUP BY b ORDER BY b"
        assert connection.execute(two).fetchall() == [row[:3] for row in expected]


# Decimals, which are kept in 64 bits where they fit.


def test_decimals_in_keys_and_columns_are_found_by_what_changed(
    tmp_path: Path, found: list[FoundColumns]
) -> None:
    """A key of decimals is encoded from kept columns, and changed rows are left out by it."""
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        connection.execute("CREATE TABLE d (k NUMERIC(9, 2) PRIMARY KEY, v NUMERIC(18, 4), w NUMERIC(30, 1))")
        connection.execute(
            "INSERT INTO d SELECT i / 4.0 - 300, i / 7.0, CASE WHEN i % 5 > 0 THEN i END"
            " FROM generate_series(1, 3000) i"
        )
        connection.execute("CHECKPOINT")
        whole = "SELECT count(*), sum(k), sum(v), sum(w), min(k), max(v) FROM d"
        before = connection.execute(whole).fetchone()
        connection.execute("CHECKPOINT")
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        assert connection.execute(whole).fetchone() == before
        assert found
        connection.execute("DELETE FROM d WHERE k IN (-299.75, 0, 450)")
        connection.execute("UPDATE d SET v = -1.5, w = NULL WHERE k = 0.25")
        rows = connection.execute("SELECT k, v, w FROM d WHERE k < 1000 ORDER BY k LIMIT 5000").fetchall()
        after = connection.execute(whole).fetchone()
    assert after is not None
    assert after[0] == len(rows) == 2997
    assert after[1:4] == tuple(sum(row[at] or 0 for row in rows) for at in range(3))
    assert (after[4], after[5]) == (rows[0][0], max(row[1] for row in rows))

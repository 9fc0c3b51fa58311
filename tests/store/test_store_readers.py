"""LMDB's readers: those of one state share one, a flush has its own, a killed process keeps none."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import lmdb
import pytest

from herdpy.log.lsn import LSN
from herdpy_server.store import NoLocks, Store, Workspace
from herdpy_server.store.disk import MAX_READERS, Disk
from herdpy_server.store.outcomes import CommitOutcome
from herdpy_server.store.snapshot import StoreSnapshot
from herdpy_sql.catalog import Column, KeyPart, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.types import INTEGER, TEXT

READERS = 16
COLUMNS = (Column("id", INTEGER, not_null=True), Column("text", TEXT))


class Filling:
    """A store with a table, and what changes it: each change is an entry of the log, applied and flushed."""

    def __init__(self, path: Path, **settings: int) -> None:
        self.store = store = Store.open(path, **settings)
        self._entry = 0
        if not store.catalog.tables:
            space = Workspace(store, NoLocks(), None)
            space.create_table(Table(1, "t", COLUMNS, (KeyPart(0),), "t_pkey", (), ()))
            self._apply(space)
            store.flush()
        self.table = store.catalog.tables[1]

    def _apply(self, space: object) -> None:
        self._entry += 1
        lsn, store = LSN(1, self._entry), self.store
        token = store.push_pending(space.layer, space.own_catalog)
        store.apply_entry(
            lsn, [(space.records, space.layer)], [CommitOutcome(b"%d" % self._entry, lsn, 0, True)]
        )
        store.pop_pending(token)

    def write(self, number: int, text: str = "x") -> None:
        """Put a row, in the place of one with that number, and leave it in memory."""
        space = Workspace(self.store, NoLocks(), None)
        key = self.table.key_codec.encode((number,))
        image = space.get(self.table, key)
        if image is None:
            space.insert(self.table, (number, text))
        else:
            space.update(self.table, key, image, (number, text))
        self._apply(space)

    def rows(self, snapshot: object) -> int:
        """How many rows a snapshot shows."""
        return sum(1 for _ in snapshot.scan(self.table))


def fill_readers(store: Store) -> list[lmdb.Transaction]:
    """Take every place of LMDB's table of readers, as other processes could."""
    taken = []
    try:
        while True:
            taken.append(store.disk.env.begin())
    except lmdb.ReadersFullError:
        return taken


def test_snapshots_of_one_state_share_a_reader(tmp_path):
    filling = Filling(tmp_path / "store", max_readers=READERS)
    store = filling.store
    filling.write(1)
    held = [store.snapshot(stays=True) for _ in range(4 * READERS)]
    for number in range(2, 6):
        filling.write(number)
        store.flush()
    assert store.disk.states == 2
    assert {filling.rows(snapshot) for snapshot in held} == {1}
    for snapshot in held:
        snapshot.close()
    assert store.disk.states == 1
    store.close()


@pytest.mark.parametrize("stays", [True, False])
def test_a_snapshot_too_many_is_refused_and_flushes_go_on(tmp_path, stays):
    filling = Filling(tmp_path / "store", max_readers=READERS)
    store, held = filling.store, hold_states(filling, 2 * READERS, stays=stays)
    assert len(held) == store.max_states - 1
    for number in range(100, 100 + 2 * READERS):
        filling.write(number)
        assert store.flush() == store.applied
    assert [filling.rows(snapshot) for snapshot in held] == list(range(len(held)))
    with pytest.raises(SqlError):
        store.applied_snapshot()
    held.pop().close()
    store.snapshot().close()
    store.close()


def test_a_flush_without_a_reader_writes_nothing_and_can_be_made_again(tmp_path):
    filling = Filling(tmp_path / "store", max_readers=READERS)
    store = filling.store
    filling.write(1)
    taken = fill_readers(store)
    before = store.durable
    for _ in range(2):
        with pytest.raises(lmdb.ReadersFullError):
            store.flush()
        assert (store.durable, store.disk.env.info()["last_txnid"]) == (before, store.disk.current.txn.id())
    with pytest.raises(lmdb.ReadersFullError):
        list(store.check())
    taken.clear()
    assert store.flush() == store.applied
    filling.write(2)
    store.flush()
    assert list(store.check()) == []
    store.close()
    again = Store.open(tmp_path / "store")
    assert again.durable == LSN(1, 3)
    assert filling.rows(again.snapshot()) == 2
    assert list(again.check()) == []
    again.close()


def test_the_reader_of_what_was_written_is_there_however_many_come_meanwhile(tmp_path):
    filling = Filling(tmp_path / "store", max_readers=READERS)
    store, taken = filling.store, []
    write_meta = store.disk.write_meta

    def fill_and_write(*args):
        taken.extend(fill_readers(store))
        write_meta(*args)

    store.disk.write_meta = fill_and_write
    filling.write(1)
    assert store.flush() == store.applied == store.durable
    assert len(taken) > READERS // 2
    taken.clear()
    store.disk.write_meta = write_meta
    filling.write(2)
    store.flush()
    assert list(store.check()) == []
    store.close()


def test_a_failed_flush_gives_its_reader_back(tmp_path):
    filling = Filling(tmp_path / "store", max_readers=READERS)
    store = filling.store
    write_meta = store.disk.write_meta

    def fail(*_args):
        raise lmdb.DiskError("full")

    filling.write(1)
    store.disk.write_meta = fail
    failures = []
    for _ in range(2 * READERS):
        with pytest.raises(lmdb.DiskError) as failure:
            store.flush()
        failures.append(failure.value)  # whoever keeps it keeps its frames
    store.disk.write_meta = write_meta
    assert store.flush() == store.applied
    store.close()


def test_a_store_whose_readers_are_all_taken_is_refused_and_not_damaged(tmp_path):
    path = tmp_path / "store"
    Filling(path, max_readers=READERS).store.close()
    with _process(path, MAX_READERS) as child:
        with pytest.raises(SqlError) as refused:
            Store.open(path, max_readers=READERS)
        assert refused.value.sqlstate == "53400"
        child.kill()
    store = Store.open(path, max_readers=READERS)
    assert list(store.catalog.tables) == [1]
    store.close()


def test_a_reader_that_is_taken_while_a_store_is_opened_is_no_damage(tmp_path, monkeypatch):
    path = tmp_path / "store"
    Filling(path).store.close()

    def full(_disk):
        raise lmdb.ReadersFullError

    monkeypatch.setattr(Disk, "renewed", full)
    with pytest.raises(SqlError) as refused:
        Store.open(path)
    assert refused.value.sqlstate == "53400"
    monkeypatch.undo()
    Store.open(path).close()


_CHILD = """
import sys, lmdb
env = lmdb.open(sys.argv[1], readonly=True, max_dbs=16)
taken = []
try:
    for _ in range(int(sys.argv[2])):
        taken.append(env.begin())
except lmdb.ReadersFullError:
    pass
print(len(taken), flush=True)
sys.stdin.read()
"""


def hold_states(filling: Filling, most: int, *, stays: bool) -> list[StoreSnapshot]:
    """Snapshots of one state after another, until one is refused."""
    store, held = filling.store, []
    for number in range(most):
        try:
            held.append(store.snapshot(stays=stays))
        except SqlError as refused:
            if refused.sqlstate != "53400":
                raise
            return held
        filling.write(number)
        store.flush()
    pytest.fail(f"{most} snapshots were not refused")


class _process:  # noqa: N801 - used as a block
    """Another process that holds read transactions."""

    def __init__(self, path: Path, count: int) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(path), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> _process:
        assert int(self._child.stdout.readline()) > 0
        return self

    def kill(self) -> None:
        """Kill -9, and wait for its end."""
        self._child.kill()
        self._child.wait()

    def __exit__(self, *_exc: object) -> None:
        self.kill()
        self._child.stdin.close()
        self._child.stdout.close()


def test_what_a_killed_reader_held_is_used_again_after_the_next_flush(tmp_path):
    path = tmp_path / "store"
    filling = Filling(path)
    store = filling.store

    def grown(flushes: int) -> int:
        """By how many pages the file grows."""
        before = store.disk.env.info()["last_pgno"]
        for number in range(flushes):
            filling.write(1, f"{number:04}" * 500)
            store.flush()
        return store.disk.env.info()["last_pgno"] - before

    grown(10)
    with _process(path, 1) as child:
        assert grown(20) > 20, "a reader that lives keeps what it reads"
        child.kill()
        grown(3)
        assert grown(50) == 0
    store.close()


def test_threads_read_one_view_at_the_same_time(tmp_path):
    filling = Filling(tmp_path / "store")
    store, table = filling.store, filling.table
    for number in range(3000):
        filling.write(number, str(number))
    store.flush()
    snapshots = [store.snapshot() for _ in range(4)]
    assert len({id(snapshot.disk) for snapshot in snapshots}) == 1
    expected = [(number, str(number)) for number in range(3000)]
    wrong = []

    def read(snapshot: object) -> None:
        for _ in range(5):
            found = [table.row_codec.decode(image) for _, image in snapshot.scan(table)]
            keys = (table.key_codec.encode((number,)) for number in range(3000))
            by_key = [table.row_codec.decode(snapshot.get(table, key)) for key in keys]
            if not found == by_key == expected:
                wrong.append((len(found), len(by_key)))

    threads = [threading.Thread(target=read, args=(snapshot,)) for snapshot in snapshots]
    for thread in threads:
        thread.start()
    for number in range(20):
        filling.write(number, "changed")
        store.flush()
    for thread in threads:
        thread.join()
    assert wrong == []
    del snapshots
    store.close()


@pytest.mark.soak
def test_as_many_states_as_there_may_be_are_held_and_no_more(tmp_path):
    filling = Filling(tmp_path / "store")
    store, held = filling.store, hold_states(filling, MAX_READERS, stays=True)
    assert len(held) == store.max_states - 1 == 959
    filling.write(-1)
    assert store.flush() == store.applied
    held.clear()
    store.close()
    Store.open(tmp_path / "store").close()

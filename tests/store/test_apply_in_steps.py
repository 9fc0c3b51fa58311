"""A large transaction applied in steps: the same as at once, and nothing of it shows before all does."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import herdpy
from herdpy.log import LSN, START, FileLog, LoggedTransaction, TransactionAssembler
from herdpy.log.records import Delete, Insert
from herdpy_server.store import NoLocks, Store, apply
from herdpy_server.store.check import Sum, sums
from herdpy_server.store.disk import ApplyError
from herdpy_server.store.snapshot_transaction import SnapshotTransaction
from herdpy_server.store.spilling import SpillFile, SpillSettings, spill_error
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError

Logged = list[tuple[LSN, LoggedTransaction]]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_AT_ONCE", 7)
    monkeypatch.setattr(apply, "_BATCH_AT_ONCE", 5)


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Logged:
    """What transactions of many kinds were logged as."""
    path = tmp_path_factory.mktemp("origin")
    rng = random.Random(6)
    with herdpy.connect(f"herdpy://{path}/d", checkpoint_interval_s=3600.0) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, v TEXT)")
        cursor.execute("CREATE UNIQUE INDEX t_a ON t (a)")
        cursor.execute("INSERT INTO t SELECT g, g + 1000, 'v' || g FROM generate_series(1, 60) g")
        connection.commit()
        first = 100
        for number in range(16):
            for _ in range(rng.randint(1, 6)):
                first += 40
                match rng.randrange(6):
                    case 0:
                        cursor.execute(
                            f"INSERT INTO t SELECT g, -g, 'x' FROM generate_series({first}, {first + 30}) g"
                        )
                    case 1:
                        cursor.execute(f"UPDATE t SET v = v || '!' WHERE id % 7 = {rng.randrange(7)}")
                    case 2:
                        cursor.execute(f"DELETE FROM t WHERE id % 11 = {rng.randrange(11)}")
                    case 3:
                        cursor.execute(f"UPDATE t SET id = id + 100000 WHERE id % 13 = {rng.randrange(13)}")
                    case 4:
                        cursor.execute("DROP INDEX IF EXISTS t_v")
                        cursor.execute("CREATE INDEX t_v ON t (v, id)")
                    case 5:
                        cursor.execute(f"CREATE TABLE u{number}_{first} (k TEXT PRIMARY KEY)")
                        rows = pa.table({"k": [f"{i:05}" for i in range(rng.randint(1, 40))]})
                        cursor.adbc_ingest(f"u{number}_{first}", rows, mode="append")
            if number == 8:
                cursor.execute("TRUNCATE t")
                cursor.execute("INSERT INTO t SELECT g, g + 1000, 'v' FROM generate_series(1, 40) g")
            connection.commit()
        found = _read(path / "d" / "log")
    assert len(found) > 12
    return found


def _read(path: Path) -> Logged:
    assembler, found = TransactionAssembler(), []

    async def read() -> None:
        async for _lsn, entry in log.read(START):
            found.extend(assembler.feed(entry))

    log = FileLog(str(path), read_only=True)
    try:
        herdpy.log.run_blocking(read())
    finally:
        log.close()
    return found


def of(store: Store) -> list[Sum]:
    """The sums of all that is applied."""
    snapshot, _lsn = store.applied_snapshot()
    try:
        return sorted(sums(snapshot, threading.Event()))
    finally:
        snapshot.close()


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    both = Store.open(tmp_path / "one"), Store.open(tmp_path / "other")
    yield both
    for store in both:
        store.close()


@pytest.mark.parametrize("spills", [False, True])
@pytest.mark.parametrize("flushes", [False, True])
def test_it_is_the_same_as_at_once_and_shows_at_its_end(
    logged: Logged, stores: tuple[Store, Store], tmp_path: Path, flushes: bool, spills: bool
) -> None:
    at_once, in_steps = stores
    if spills:
        in_steps.spilling = SpillSettings(tmp_path / "spill", 1)
    longest = 0
    for lsn, transaction in logged:
        before = of(in_steps)
        position, count = in_steps.applied, 0
        for _ in in_steps.apply_in_steps(lsn, [(lsn, transaction)]):
            count += 1
            if flushes and count % 3 == 0:
                assert in_steps.flush() == position
            if count % 5 == 1:
                assert of(in_steps) == before
                assert in_steps.applied == position
        longest = max(longest, count)
        at_once.apply_logged(lsn, [(lsn, transaction)])
        assert of(in_steps) == of(at_once)
        assert in_steps.applied == at_once.applied == lsn
        assert in_steps.catalog == at_once.catalog
    assert longest > 10
    for store in stores:
        store.flush()
    assert at_once.table_checksums() == in_steps.table_checksums()
    assert list(in_steps.check()) == []


def test_given_up_half_way_it_has_done_nothing(logged: Logged, stores: tuple[Store, Store]) -> None:
    at_once, in_steps = stores
    for lsn, transaction in logged:
        steps = in_steps.apply_in_steps(lsn, [(lsn, transaction)])
        for _ in zip(range(3), steps, strict=False):
            pass
        in_steps.flush()
        if in_steps.applied == lsn:  # it had fewer steps
            at_once.apply_logged(lsn, [(lsn, transaction)])
            continue
        del steps
        for store in stores:
            store.apply_logged(lsn, [(lsn, transaction)])
        assert of(in_steps) == of(at_once)


def test_what_does_not_fit_is_an_error_and_changes_nothing(
    logged: Logged, stores: tuple[Store, Store]
) -> None:
    _, in_steps = stores
    for lsn, transaction in logged[:3]:
        in_steps.apply_logged(lsn, [(lsn, transaction)])
    before, position = of(in_steps), in_steps.applied
    table = in_steps.catalog.by_name["t"]
    rows = [Insert(table.id, b"%d" % at, table.row_codec.encode((at, -at, "v"))) for at in range(30)]
    broken = LoggedTransaction(1, [*rows, Delete(table.id, b"it is not there")])
    with pytest.raises(ApplyError):
        for _ in in_steps.apply_in_steps(LSN(9, 9), [(LSN(9, 9), broken)]):
            pass
    assert of(in_steps) == before
    assert in_steps.applied == position


@pytest.mark.parametrize("flushes", [False, True])
def test_who_stands_on_a_state_sees_it_while_more_is_applied(
    logged: Logged, stores: tuple[Store, Store], *, flushes: bool
) -> None:
    """A transaction on a follower: whatever comes from the log, and goes to the disk."""
    store, _ = stores
    store.apply_logged(logged[0][0], [logged[0]])
    held = SnapshotTransaction(store, NoLocks(), object(), serializable=True)
    held.begin_statement()
    table = held.catalog.by_name["t"]
    rows, entries = list(held.scan(table)), list(held.index_scan(table, table.indexes[0]))
    assert len(rows) == len(entries) == 60
    for number, (lsn, transaction) in enumerate(logged[1:]):
        for _ in store.apply_in_steps(lsn, [(lsn, transaction)]):
            pass
        if flushes and number % 3 == 0:
            store.flush()
        assert list(held.scan(table, reverse=True)) == rows[::-1]
        assert list(held.index_scan(table, table.indexes[0])) == entries
        assert [held.get(table, key) for key, _ in rows] == [image for _, image in rows]
    snapshot = held.snapshot()
    assert sorted(snapshot.arrow(table, [0]).column("id").to_pylist()) == list(range(1, 61))
    snapshot.close()
    held.check_reads()
    held.release()
    assert not store.history.is_kept


def test_a_follower_gives_up_a_state_that_is_too_old(logged: Logged, stores: tuple[Store, Store]) -> None:
    store, _ = stores
    store.history.limit_bytes = 20_000
    store.apply_logged(logged[0][0], [logged[0]])
    store.flush()
    held = SnapshotTransaction(store, NoLocks(), object(), serializable=False)
    held.begin_statement()
    for lsn, transaction in logged[1:]:
        store.apply_logged(lsn, [(lsn, transaction)])
        store.flush()
    with pytest.raises(SqlError) as caught:
        held.begin_statement()
    assert caught.value.sqlstate == "72000"
    held.release()


def images(table: Table, count: int) -> Iterator[tuple[bytes, bytes]]:
    """Rows of the table t, from 1,000,000 on."""
    ops = TableOps(table)
    for number in range(1_000_000, 1_000_000 + count):
        values = (number, number, "text")
        yield ops.key(values), ops.encode(values)


def test_the_rows_of_a_large_transaction_do_not_stay_in_memory(
    logged: Logged, stores: tuple[Store, Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "_AT_ONCE", 256)
    monkeypatch.setattr(apply, "_BATCH_AT_ONCE", 256)
    store, _other = stores
    store.spilling = SpillSettings(tmp_path / "spill", 100_000)
    lsn = logged[0][0]
    store.apply_logged(lsn, logged[:1])
    table = next(iter(store.catalog.tables.values()))
    before = store.memtable_bytes
    at = LSN(lsn.ledger_id, lsn.entry_id + 1)
    rows = [Insert(table.id, key, image) for key, image in images(table, 5000)]
    for _ in store.apply_in_steps(at, [(at, LoggedTransaction(1, list(rows)))]):
        pass
    assert store.memtable_bytes - before < 200_000
    store.flush()
    assert store.table_checksums()[table.id][0] == 5060
    assert list(store.check()) == []


def test_a_disk_that_is_full_does_not_stop_who_follows(
    logged: Logged,
    stores: tuple[Store, Store],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refused(*_: object) -> None:
        raise spill_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    monkeypatch.setattr(SpillFile, "write", refused)
    at_once, in_steps = stores
    in_steps.spilling = SpillSettings(tmp_path / "spill", 1)
    for lsn, transaction in logged:
        for _ in in_steps.apply_in_steps(lsn, [(lsn, transaction)]):
            pass
        at_once.apply_logged(lsn, [(lsn, transaction)])
    assert of(in_steps) == of(at_once)
    assert any("in memory" in record.message for record in caplog.records)

"""Checkpoints: nobody waits for one, failures are reported and tried again, trimming stops at ``durable``."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy.log import LSN, START
from herdpy.log.ledger_list import LedgerInfo
from herdpy_server.embedded import Database, opened
from herdpy_server.store import Store, flush
from herdpy_server.tablespace import Checkpointer, store_error
from herdpy_sql.errors import SqlError
from tests.tablespace.test_threads import Runner, sql, until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db"


class Blockade:
    """A checkpoint that has come to its write into LMDB stays there until it is let go."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.reached, self.free = threading.Event(), threading.Event()
        write = flush.begin

        def held(*args):
            self.reached.set()
            assert self.free.wait(60)
            return write(*args)

        patch.setattr(flush, "begin", held)


@pytest.fixture
def blockade(monkeypatch: pytest.MonkeyPatch) -> Iterator[Blockade]:
    made = Blockade(monkeypatch)
    yield made
    made.free.set()


def test_commits_and_reads_go_on_while_a_checkpoint_writes(path: Path, blockade: Blockade) -> None:
    with opened(path, checkpoint_interval_s=0.01) as database:
        sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT UNIQUE)")
        assert blockade.reached.wait(60)
        for number in range(50):
            sql(database, "INSERT INTO t VALUES ($1, $2)", number, str(number))
        sql(database, "UPDATE t SET b = 'x' WHERE a = 7")
        sql(database, "CREATE INDEX t_b ON t (b, a)")
        assert sql(database, "SELECT b FROM t WHERE a = 7") == [("x",)]
        assert sql(database, "SELECT count(*) FROM t") == [(50,)]
        assert not blockade.free.is_set(), "all of that was done while the checkpoint stood still"
        assert database.store.durable == START
        blockade.free.set()
        database.checkpoint()
        assert list(database.store.check()) == []
        assert database.store.durable == database.log.lac


def test_writers_wait_for_a_checkpoint_when_memory_is_full(path: Path, blockade: Blockade) -> None:
    with opened(path, checkpoint_interval_s=1000.0, memtable_limit_bytes=200_000) as database:
        sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        number = 0
        while not database.tablespace.is_full:
            sql(database, "INSERT INTO t VALUES ($1, $2)", number, "b" * 1000)
            number += 1
        assert not blockade.reached.is_set(), "nothing but the want of memory asks for a checkpoint here"
        session, open_one = database.session(), database.session()
        database.run(open_one.execute("BEGIN"))
        writers = [
            Runner(lambda: database.run(session.execute("INSERT INTO t VALUES (-1, 'x')"))),
            Runner(lambda: database.run(open_one.execute("UPDATE t SET b = 'y' WHERE a = 1"))),
            Runner(
                lambda: database.run(database.session().execute_many("DELETE FROM t WHERE a = $1", [(2,)]))
            ),
        ]
        assert blockade.reached.wait(60)
        until(lambda: len(database.tablespace._kept_out) == 3)
        assert sql(database, "SELECT b FROM t WHERE a = 1") == [("b" * 1000,)]  # reading goes on
        assert all(writer.is_alive() for writer in writers)
        blockade.free.set()
        for writer in writers:
            writer.end()
        database.run(open_one.commit())
        assert not database.tablespace.is_full
        assert sql(database, "SELECT a, b FROM t WHERE a <= 2 ORDER BY a") == [
            (-1, "x"),
            (0, "b" * 1000),
            (1, "y"),
        ]


def test_a_writer_that_waits_for_memory_can_be_cancelled_and_is_told_of_closing(
    path: Path, blockade: Blockade
) -> None:
    database = Database.open(path, checkpoint_interval_s=1000.0, memtable_limit_bytes=1)
    sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY)")
    sql(database, "INSERT INTO t VALUES (0)")
    assert database.tablespace.is_full
    one, two = database.session(), database.session()
    first = Runner(lambda: database.run(one.execute("INSERT INTO t VALUES (1)")))
    second = Runner(lambda: database.run(two.execute("INSERT INTO t VALUES (2)")))
    until(lambda: len(database.tablespace._kept_out) == 2)
    one.cancel()
    with pytest.raises(SqlError) as caught:
        first.end()
    assert caught.value.sqlstate == "57014"
    closing = Runner(database.close)
    with pytest.raises(SqlError) as caught:
        second.end()
    assert caught.value.sqlstate == "57P01"
    blockade.free.set()
    closing.end()


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (lmdb.MapFullError("mdb_put: MDB_MAP_FULL"), "53100"),
        (lmdb.DiskError("mdb_txn_commit: No space left on device"), "53100"),
        (OSError(5, "Input/output error"), "58030"),
    ],
)
def test_a_failing_checkpoint_is_told_tried_again_and_stops_nothing(
    path: Path,
    error: Exception,
    state: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries = threading.Semaphore(0)

    def fail(*args):
        tries.release()
        raise error

    with opened(path, checkpoint_interval_s=0.005, memtable_limit_bytes=2_000_000) as database:
        sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        database.checkpoint()
        durable = database.store.durable
        assert database.checkpoint_failure is None
        monkeypatch.setattr(flush, "begin", fail)
        for number in range(20):
            sql(database, "INSERT INTO t VALUES ($1, 'b')", number)
        for _ in range(3):
            assert tries.acquire(timeout=60)
        assert database.checkpoint_failure is error
        assert [r.levelno for r in caplog.records if "will be tried again" in r.message] == [logging.ERROR]
        assert database.store.durable == durable
        with pytest.raises(SqlError) as caught:
            database.checkpoint()
        assert caught.value.sqlstate == state
        with pytest.raises(SqlError) as caught:
            sql(database, "CHECKPOINT")
        assert caught.value.sqlstate == state
        assert sql(database, "SELECT count(*) FROM t") == [(20,)]
        # Above the limit a writer gets an error rather than waiting for ever.
        sql(
            database, "INSERT INTO t SELECT 1000 + i, repeat('b', 1000) FROM generate_series(1, 2500) AS s(i)"
        )
        until(lambda: database.tablespace.is_full)
        with pytest.raises(SqlError) as caught:
            sql(database, "INSERT INTO t VALUES (-1, 'b')")
        assert caught.value.sqlstate == state
        assert sql(database, "SELECT b FROM t WHERE a = 3") == [("b",)]
        monkeypatch.undo()
        until(lambda: database.checkpoint_failure is None)
        sql(database, "INSERT INTO t VALUES (-1, 'b')")
        assert "checkpoints work again" in caplog.text
    with opened(path) as database:
        assert sql(database, "SELECT count(*) FROM t") == [(2521,)]
        assert list(database.store.check()) == []


def test_closing_after_a_failed_checkpoint_closes_everything(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args):
        raise lmdb.DiskError("injected")

    database = Database.open(path)
    sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY)")
    sql(database, "INSERT INTO t VALUES (1)")
    with monkeypatch.context() as patch:
        patch.setattr(flush, "begin", fail)
        database.close()
    assert "the last checkpoint failed" in caplog.text
    with opened(path) as again:  # the lock is free, the log whole
        assert again.recovery.transactions == 2
        assert sql(again, "SELECT a FROM t") == [(1,)]


def test_closing_goes_on_when_the_log_cannot_be_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database.open(path)
    sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY)")

    def fail():
        raise OSError(5, "Input/output error")

    close = database.log.close
    monkeypatch.setattr(database.log, "close", fail)
    with pytest.raises(OSError, match="Input/output error"):
        database.close()
    close()
    with opened(path) as again:
        assert sql(again, "SELECT count(*) FROM t") == [(0,)]


class FakeLog:
    """A list of ledgers, and what was asked to be trimmed."""

    def __init__(self, ledgers: tuple[LedgerInfo, ...]) -> None:
        self.list = ledgers

    def ledgers(self):
        return self.list

    def roll(self):
        last = self.list[-1]
        self.list = (*self.list[:-1], LedgerInfo(last.ledger_id, 0, True, last.last_entry_id, last.length))

    def trim(self, before: LSN) -> list[int]:
        gone = [one for one in self.list if one.closed and one.last <= before]
        self.list = self.list[len(gone) :]
        return [one.ledger_id for one in gone]


class FakeStore:
    def __init__(self, durable: LSN) -> None:
        self.durable = self.floor = durable

    def flush(self) -> LSN:
        return self.durable

    def limits(self) -> tuple[()]:
        return ()

    def keep_columns(self) -> None:
        """There are none."""


@given(
    lengths=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 1000)), min_size=1, max_size=8),
    durable=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    keep=st.integers(0, 3000),
    everything=st.booleans(),
)
def test_trimming_never_passes_what_the_store_has(lengths, durable, keep, everything) -> None:
    closed = [LedgerInfo(i, 0, True, last, size) for i, (last, size) in enumerate(lengths, 1)]
    before = (*closed[:-1], LedgerInfo(len(closed), 0, False, closed[-1].last_entry_id, closed[-1].length))
    log, store = FakeLog(before), FakeStore(LSN(*durable))
    checkpointer = Checkpointer(
        log,  # type: ignore[arg-type]
        store,  # type: ignore[arg-type]
        cadence_s=1,
        flush_rows=1,
        retention_bytes=keep,
    )
    gone = checkpointer.checkpoint(trim=everything)
    left = {one.ledger_id for one in log.list}
    assert gone == [one.ledger_id for one in before if one.ledger_id not in left]
    for one in before:
        if one.last > store.durable:
            assert one.ledger_id in left, "a ledger was trimmed that the store still needs"
    if everything:
        assert all(one.last > store.durable for one in log.list)
    else:
        # Nothing is trimmed that the retention could have kept: with the last one gone it was more.
        kept = sum(one.length for one in log.list if one.closed)
        if gone:
            assert kept + before[len(gone) - 1].length > keep
        over = [one for one in log.list if one.closed and one.last <= store.durable]
        assert not over or kept <= keep


def test_an_error_of_the_store_is_told_as_what_it_is() -> None:
    assert store_error(OSError(28, "No space left on device")).sqlstate == "53100"
    assert store_error(lmdb.CorruptedError("bad page")).sqlstate == "58030"


def test_a_store_keeps_its_state_when_a_flush_fails(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before a failed flush is read after it, and the next flush makes it good."""
    with opened(path, checkpoint_interval_s=1000.0) as database:
        sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT UNIQUE)")
        database.checkpoint()
        sql(database, "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
        write_meta = database.store.disk.write_meta

        def fail(*args):
            write_meta(*args)
            raise lmdb.MapFullError("injected")

        monkeypatch.setattr(database.store.disk, "write_meta", fail)
        store: Store = database.store
        for number in range(3, 6):
            with pytest.raises(lmdb.MapFullError):
                store.flush()
            assert sql(database, "SELECT a FROM t ORDER BY a") == [(i,) for i in range(1, number)]
            sql(database, "INSERT INTO t VALUES ($1, $2)", number, str(number))
        monkeypatch.undo()
        database.checkpoint()
        assert store.memtable_rows == 0
        assert store.memtable_bytes == 0
        assert list(store.check()) == []

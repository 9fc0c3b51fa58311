"""Restores of what the log only names: rows that loads staged, and what CHECK TABLESPACE has found."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from google_crc32c import value as crc32c

import herdpy
from herdpy.backup.archive import ArchiveWriter
from herdpy.backup.errors import DamagedPartError
from herdpy.backup.manifest import read_catalog
from herdpy.backup.repository import Repository
from herdpy.log.entry import LoggedTransaction, TransactionAssembler
from herdpy.log.lsn import START
from herdpy.log.records import LoadBatch, LoadDone, LoadOp, StagedPart, TablesChecksum
from herdpy_server.backup.restoring import RestoreOptions, RestoreReport, restore
from herdpy_server.backup.targets import RestoreTarget, make_plan
from herdpy_server.backup.verifying import RestoredWrongError
from herdpy_server.store import Store
from herdpy_server.store.check import sums
from tests.backup.restore_histories import BackupMaker, History, history_of, repack

MADE = ["CREATE TABLE item (id int PRIMARY KEY, v text)", "INSERT INTO item VALUES (1, 'one'), (2, 'two')"]
LATER = "INSERT INTO item VALUES (3, 'three')"
STAGED_LEDGER = 77


def load(table_id: int) -> tuple[LoggedTransaction, StagedPart, bytes]:
    """A load of two rows that stand in a ledger of their own."""
    rows = pa.table({"id": pa.array([10, 11], pa.int32()), "v": ["ten", "eleven"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    stream = sink.getvalue().to_pybytes()
    part = StagedPart(STAGED_LEDGER, 0, len(stream), crc32c(stream), 2)
    batch = LoadBatch(table_id, LoadOp.INSERT, -1, (part,))
    done = LoadDone("nightly", table_id, 2, 0, 0, 0)
    return LoggedTransaction(5, [batch, done]), part, stream


def checksum(*items: tuple[int, int, int]) -> LoggedTransaction:
    return LoggedTransaction(6, [TablesChecksum(list(items))])


def sums_of(path: Path, history: History, stream: bytes) -> list[tuple[int, int, int]]:
    """What replicas find at the end of a history."""
    store = Store.open(path)
    assembler = TransactionAssembler(START)
    for entry in history.entries:
        whole = assembler.feed(entry)
        for _lsn, transaction in whole:
            for record in transaction.records:
                if isinstance(record, LoadBatch):
                    record.staged = [bytearray(stream)]
        store.apply_logged(assembler.safe, whole)
    snapshot, _lsn = store.applied_snapshot()
    found = [(one.relation, one.rows, one.checksum) for one in sums(snapshot, threading.Event())]
    snapshot.close()
    store.close()
    return found


def history_with(tmp_path: Path, wrong: int) -> tuple[History, StagedPart, bytes]:
    """Rows, a load, a mark, another row, and the verdict about the mark, one transaction an entry."""
    history = history_of(tmp_path / "db", [*MADE, LATER])
    *before, later = history.transactions
    loaded, part, stream = load(1)
    history.transactions = [*before, loaded]
    history.entries, history.counts = [], []
    repack(history, 0, max_entry_bytes=1)
    found = sums_of(tmp_path / "sums", history, stream)
    found[0] = (found[0][0], found[0][1], found[0][2] ^ wrong)
    history.transactions = [*before, loaded, checksum((0, 9, 0)), later, checksum((0, 9, 1), *found)]
    history.entries, history.counts = [], []
    repack(history, 0, max_entry_bytes=1)
    return history, part, stream


def restored(repository: Repository, directory: Path) -> RestoreReport:
    plan = make_plan(repository, read_catalog(repository), RestoreTarget())
    return restore(repository, plan, directory, RestoreOptions(indexes=True))


def test_staged_rows_come_back_and_their_ledgers_are_forgotten(tmp_path: Path) -> None:
    history, part, stream = history_with(tmp_path, 0)
    repository = Repository.create(str(tmp_path / "repo"))
    maker = BackupMaker(repository, history, tmp_path)
    maker.back_up(history.entries[1].lsn, history.entries[-1].lsn)
    with pytest.raises(DamagedPartError, match=r"staged/.*it is not there"):
        restored(repository, tmp_path / "restored")
    ArchiveWriter(repository, maker.log_id, START).add_staged(part, [stream])
    report = restored(repository, tmp_path / "restored")
    assert len(report.compared) == 1
    with herdpy.connect(str(tmp_path / "restored")) as connection:
        rows = connection.execute("SELECT * FROM item ORDER BY id").fetchall()
    assert rows == [(1, "one"), (2, "two"), (3, "three"), (10, "ten"), (11, "eleven")]
    store = Store.open(tmp_path / "restored" / "store")
    try:
        assert store.load("nightly") is not None
        assert store.log_trimmed(store.applied) == []  # in another cluster those ids are other ledgers
    finally:
        store.close()


def test_a_state_that_is_not_what_the_replicas_had_is_no_database(tmp_path: Path) -> None:
    history, part, stream = history_with(tmp_path, 1)
    repository = Repository.create(str(tmp_path / "repo"))
    maker = BackupMaker(repository, history, tmp_path)
    ArchiveWriter(repository, maker.log_id, START).add_staged(part, [stream])
    maker.back_up(history.entries[1].lsn, history.entries[-1].lsn)
    with pytest.raises(RestoredWrongError, match="differs from the replicas' in item"):
        restored(repository, tmp_path / "restored")
    assert not (tmp_path / "restored" / "HERDPY").exists()

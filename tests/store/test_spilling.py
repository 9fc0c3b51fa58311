"""Large transactions: what is too much for memory lies in files, and nothing else is different."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lmdb
import pytest

from herdpy_server.embedded import Database, opened
from herdpy_server.sessions import Session
from herdpy_server.store import spilling, transaction_state
from herdpy_server.store.limits import ADDRESS_SPACE
from herdpy_server.store.spilling import SpilledRows, SpillFile, Spool, spill_error
from herdpy_server.tablespace import tablespace
from herdpy_sql.errors import SqlError
from tests.tablespace.test_threads import sql

TABLES = """
CREATE TABLE parent (id INTEGER PRIMARY KEY, name TEXT UNIQUE, note TEXT);
CREATE INDEX parent_note ON parent (note);
CREATE TABLE child (
    id TEXT PRIMARY KEY,
    parent INTEGER REFERENCES parent ON DELETE CASCADE DEFERRABLE INITIALLY IMMEDIATE,
    amount INTEGER
);
CREATE TABLE plain (a BIGINT, b TEXT)
"""
QUERIES = (
    "SELECT * FROM parent ORDER BY id",
    "SELECT * FROM child ORDER BY id",
    "SELECT a, b FROM plain ORDER BY a, b",
    "SELECT note, count(*) FROM parent GROUP BY note ORDER BY note",
    "SELECT id FROM parent WHERE note = 'n3' ORDER BY id",
    "SELECT id FROM parent WHERE id BETWEEN 5 AND 30 ORDER BY id DESC",
    "SELECT id FROM parent WHERE name = 'p7'",
    "SELECT c.id FROM child c JOIN parent p ON p.id = c.parent WHERE p.note = 'n1' ORDER BY c.id",
)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every write looks whether something is too much."""
    monkeypatch.setattr(transaction_state, "WATCHED", 0)


def run(database: Database, session: Session, text: str) -> object:
    """The rows, the count, or the SQLSTATE."""
    try:
        result = database.run(session.execute(text))
    except SqlError as error:
        return error.sqlstate
    return result.rows or result.rowcount


def statement(rng: random.Random, savepoints: list[str]) -> str:
    """Something that writes, at random; half of it meets what was written before."""
    number, note = rng.randrange(60), f"n{rng.randrange(5)}"
    long = "k" * rng.choice([0, 0, 0, 490, 700]) + str(rng.randrange(12))
    name = f"s{rng.randrange(3)}"
    choices = [
        f"INSERT INTO parent VALUES ({number}, 'p{rng.randrange(60)}', '{note}')",
        f"INSERT INTO parent SELECT i, 'q' || i, '{note}' FROM generate_series({number}, {number + 9}) g (i)",
        f"INSERT INTO parent SELECT i, 'r' || i, '{note}' FROM generate_series({number}, {number + 9}) g (i) "
        "ON CONFLICT DO NOTHING",
        f"INSERT INTO parent VALUES ({number}, 'u{number}', 'new') "
        "ON CONFLICT (id) DO UPDATE SET note = excluded.note",
        f"UPDATE parent SET note = '{note}' WHERE id >= {number}",
        f"UPDATE parent SET id = id + 100 WHERE id = {number}",
        f"UPDATE parent SET name = name || 'x' WHERE id % 7 = {number % 7}",
        f"DELETE FROM parent WHERE id BETWEEN {number} AND {number + 6}",
        f"INSERT INTO child VALUES ('{long}', {number}, {number})",
        f"UPDATE child SET id = '{long}' WHERE amount = {number}",
        f"UPDATE child SET amount = amount + 1 WHERE amount > {number}",
        f"INSERT INTO plain SELECT i, '{note}' FROM generate_series(1, {number}) g (i)",
        f"DELETE FROM plain WHERE a = {number}",
        f"SAVEPOINT {name}",
        f"SAVEPOINT {name}",
    ]
    if savepoints:
        choices += [f"ROLLBACK TO {savepoints[-1]}", f"ROLLBACK TO {rng.choice(savepoints)}"]
        choices.append(f"RELEASE {savepoints[-1]}")
    if rng.random() < 0.05:
        choices = [
            "TRUNCATE plain",
            "TRUNCATE child",
            "CREATE INDEX again ON child (amount)",
            "DROP INDEX again",
        ]
    return rng.choice(choices)


class Pair:
    """The same statements on a database where everything is spilled, and on one where nothing is."""

    def __init__(self, path: Path, memory_bytes: int, settings: dict[str, object]) -> None:
        self.path = path
        self.settings = [{"transaction_memory_bytes": bytes_, **settings} for bytes_ in (memory_bytes, 0)]
        self.open()
        for one in self.databases:
            for text in TABLES.split(";"):
                sql(one, text)

    def open(self) -> None:
        paths = [self.path / "spilled", self.path / "whole"]
        self.databases = [Database.open(at, **one) for at, one in zip(paths, self.settings, strict=True)]
        self.sessions = [one.session() for one in self.databases]
        self.others = [one.session() for one in self.databases]

    def close(self) -> None:
        for one in self.databases:
            one.close()

    def same(self, text: str, *, other: bool = False) -> object:
        """What both answer to a statement."""
        sessions = self.others if other else self.sessions
        spilled, whole = (
            run(one, session, text) for one, session in zip(self.databases, sessions, strict=True)
        )
        assert spilled == whole, text
        return spilled

    def look(self, *, other: bool = False) -> None:
        """Compare all that can be seen."""
        for query in QUERIES:
            self.same(query, other=other)


def transaction(pair: Pair, rng: random.Random, begin: str) -> None:
    """A transaction of random statements, looked at now and then, from outside too."""
    pair.same(begin)
    savepoints: list[str] = []
    for _ in range(rng.randrange(1, 25)):
        text = statement(rng, savepoints)
        answer = pair.same(text)
        words = text.split()
        if words[0] == "SAVEPOINT":
            savepoints.append(words[1])
        elif words[0] == "ROLLBACK":
            at = len(savepoints) - 1 - savepoints[::-1].index(words[2])
            del savepoints[at + 1 :]
        elif words[0] == "RELEASE":
            savepoints.pop()
        if isinstance(answer, str):  # refused: the transaction has failed
            if not savepoints:
                break
            pair.same(f"ROLLBACK TO {savepoints[-1]}")
        if rng.random() < 0.2:
            pair.look()
        if rng.random() < 0.3:
            number = rng.randrange(60)
            pair.same(f"SELECT id FROM parent WHERE id = {number} FOR UPDATE NOWAIT", other=True)
            pair.same("SELECT id FROM parent ORDER BY id FOR KEY SHARE SKIP LOCKED", other=True)
        if rng.random() < 0.1:
            for one in pair.databases:
                one.store.flush()
    pair.same(rng.choice(["COMMIT", "COMMIT", "ROLLBACK"]))


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"])
@pytest.mark.parametrize("seed", range(6))
def test_random_transactions_do_the_same_as_in_memory(
    tmp_path: Path, always: None, monkeypatch: pytest.MonkeyPatch, seed: int, begin: str
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(spilling, "AT_ONCE", rng.choice([1, 3, 20, 2048]))
    monkeypatch.setattr(transaction_state, "AT_ONCE", spilling.AT_ONCE)
    pair = Pair(tmp_path, rng.choice([1, 2000, 10_000]), {"checkpoint_interval_s": 1000.0})
    try:
        for _ in range(5):
            transaction(pair, rng, begin)
            pair.look(other=True)
            for one in pair.databases:
                assert len(one.tablespace.locks) == 0
        if seed % 2:
            for one in pair.databases:
                one.store.flush()
                assert list(one.store.check()) == []
            sums = [one.store.table_checksums() for one in pair.databases]
            assert sums[0] == sums[1]
        pair.close()
        shutil.rmtree(tmp_path / "spilled" / "store")  # and so it is made of the log
        pair.open()
        pair.look()
    finally:
        pair.close()


def test_savepoints_bring_back_what_was_there(
    tmp_path: Path, always: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_state, "AT_ONCE", 7)
    with opened(tmp_path / "db", transaction_memory_bytes=1) as database:
        sql(database, "CREATE TABLE t (id INTEGER PRIMARY KEY, b INTEGER)")
        sql(database, "CREATE INDEX t_b ON t (b)")
        sql(database, "INSERT INTO t SELECT i, 0 FROM generate_series(1, 40) g (i)")
        session, seen = database.session(), []
        writes = (
            *("UPDATE t SET b = 1 WHERE id <= 30", "DELETE FROM t WHERE id % 3 = 0"),
            *("INSERT INTO t SELECT i, 2 FROM generate_series(41, 90) g (i)", "UPDATE t SET id = id + 1000"),
            *("DELETE FROM t WHERE b = 2", "INSERT INTO t SELECT i, 3 FROM generate_series(1, 9) g (i)"),
        )
        run(database, session, "BEGIN")
        for number, text in enumerate(writes):
            run(database, session, f"SAVEPOINT s{number}")
            seen.append(run(database, session, "SELECT id, b FROM t ORDER BY id"))
            assert run(database, session, text) != 0
        for number in range(len(writes) - 1, 2, -1):
            run(database, session, f"ROLLBACK TO s{number}")
            assert run(database, session, "SELECT id, b FROM t ORDER BY id") == seen[number]
            by_index = [
                run(database, session, f"SELECT id FROM t WHERE b = {b} ORDER BY id") for b in range(4)
            ]
            assert [len(rows) if isinstance(rows, list) else 0 for rows in by_index] == [
                sum(row[1] == b for row in seen[number]) for b in range(4)
            ]
        run(database, session, "COMMIT")
        assert sql(database, "SELECT id, b FROM t ORDER BY id") == seen[3]
    shutil.rmtree(tmp_path / "db" / "store")
    with opened(tmp_path / "db") as database:
        assert sql(database, "SELECT id, b FROM t ORDER BY id") == seen[3]
        assert list(database.store.check()) == []


# What it takes of memory and of the disk.

STEP = 1000


def load(database: Database, session: Session, kind: str, start: int) -> None:
    """Change 1,000 rows more in an open transaction."""
    if kind == "select":
        source = f"generate_series({start + 1}, {start + STEP}) g (i)"
        database.run(session.execute(f"INSERT INTO t SELECT i, 'text of the row', i % 100 FROM {source}"))
    elif kind == "many":
        values = [(at, "text of the row", at % 100) for at in range(start + 1, start + STEP + 1)]
        database.run(session.execute_many("INSERT INTO t VALUES ($1, $2, $3)", values))
    else:
        database.run(session.execute(f"UPDATE t SET b = b + 1 WHERE id > {start} AND id <= {start + STEP}"))


def open_files(directory: Path) -> dict[str, int]:
    """What this process has open in a directory, and the bytes of disk that each of it takes."""
    found = {}
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            link = f"/proc/self/fd/{descriptor}"
            found[os.readlink(link)] = os.stat(link).st_blocks * 512
    return {name: size for name, size in found.items() if name.startswith(str(directory))}


@pytest.mark.parametrize("kind", ["select", "many", "update"])
def test_the_memory_of_a_transaction_is_bounded(tmp_path: Path, kind: str) -> None:
    limit, rows = 1 << 19, 15_000
    settings = {"checkpoint_interval_s": 1000.0, "checkpoint_rows": 1 << 30}
    with opened(tmp_path / "db", transaction_memory_bytes=limit, **settings) as database:
        sql(database, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b INTEGER)")
        sql(database, "CREATE INDEX t_b ON t (b)")
        if kind == "update":
            source = f"generate_series(1, {rows}) g (i)"
            sql(database, f"INSERT INTO t SELECT i, 'text of the row', i % 100 - 1 FROM {source}")
            database.checkpoint()
        session = database.session()
        run(database, session, "BEGIN")
        load(database, session, kind, 0)
        workspace = session.transaction.workspace
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for start in range(STEP, rows, STEP):
                load(database, session, kind, start)
                assert workspace.size_bytes < 2 * limit
                assert tracemalloc.get_traced_memory()[0] - before < 3 * limit
            assert sum(open_files(tmp_path / "db" / "spill").values()) > 3 * limit
            tracemalloc.reset_peak()
            run(database, session, "COMMIT")
            assert database.store.memtable_bytes < 2 * limit
            database.checkpoint()
            assert tracemalloc.get_traced_memory()[1] - before < 5 * limit
        finally:
            tracemalloc.stop()
        assert sql(database, "SELECT count(*), sum(b) FROM t") == [(rows, rows // 100 * 4950)]
        assert list(database.store.check()) == []


def test_its_files_have_no_name_and_go_with_it(tmp_path: Path, always: None) -> None:
    taken = ADDRESS_SPACE.used_bytes
    with opened(tmp_path / "db", transaction_memory_bytes=1) as database:
        sql(database, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
        session = database.session()
        used = ADDRESS_SPACE.used_bytes
        for end in ("ROLLBACK", "COMMIT"):
            for text in ("BEGIN", "INSERT INTO t SELECT * FROM generate_series(1, 100)"):
                run(database, session, text)
            assert sum(open_files(tmp_path / "db" / "spill").values()) > 0
            assert list((tmp_path / "db" / "spill").glob("transaction-*")) == []
            run(database, session, end)
            database.checkpoint()
            assert open_files(tmp_path / "db" / "spill") == {}
            assert ADDRESS_SPACE.used_bytes == used
    assert ADDRESS_SPACE.used_bytes == taken


def test_what_a_crash_left_of_them_is_removed(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as database:
        sql(database, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    left = tmp_path / "db" / "spill" / "transaction-x"
    left.mkdir(parents=True)
    (left / "data.mdb").write_bytes(b"half")
    with opened(tmp_path / "db"):
        assert not left.exists()


def test_a_write_cut_short_by_a_full_disk_is_no_failure_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = lmdb.Error(f"mdb_txn_commit: {os.strerror(errno.EIO)}")
    assert spill_error(error, tmp_path).sqlstate == "58030"
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=4096))
    assert spill_error(error, tmp_path).sqlstate == "53100"


@pytest.mark.parametrize("part", ["rows", "notes"])
def test_a_disk_that_is_full_fails_the_transaction_alone(
    tmp_path: Path, always: None, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    full = False

    def refused(*_: object) -> None:
        raise spill_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def write(*args: Any) -> None:
        refused() if full else wanted(*args)

    of, name = (SpillFile, "write") if part == "rows" else (Spool, "push")
    wanted = getattr(of, name)
    monkeypatch.setattr(of, name, write)
    with opened(tmp_path / "db", transaction_memory_bytes=1) as database:
        sql(database, "CREATE TABLE t (id INTEGER PRIMARY KEY, b INTEGER)")
        session = database.session()
        run(database, session, "BEGIN")
        assert run(database, session, "INSERT INTO t SELECT i, 0 FROM generate_series(1, 50) g (i)") == 50
        run(database, session, "SAVEPOINT s")
        full = True
        assert run(database, session, "UPDATE t SET b = 1") == "53100"
        assert run(database, session, "SELECT 1") == "25P02"
        assert sql(database, "SELECT count(*) FROM t") == [(0,)]
        run(database, session, "ROLLBACK TO s")
        assert run(database, session, "SELECT count(*), sum(b) FROM t") == [(50, 0)]
        full = False
        assert run(database, session, "UPDATE t SET b = 2") == 50
        run(database, session, "COMMIT")
        assert sql(database, "SELECT count(*), sum(b) FROM t") == [(50, 100)]
        assert len(database.tablespace.locks) == 0


def test_rolling_back_needs_no_space(
    tmp_path: Path, always: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(transaction_state, "AT_ONCE", 10)
    with opened(tmp_path / "db", transaction_memory_bytes=1) as database:
        sql(database, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
        session = database.session()
        for text in ("BEGIN", "INSERT INTO t VALUES (0)", "SAVEPOINT s"):
            run(database, session, text)
        for number in range(1, 100):
            run(database, session, f"INSERT INTO t VALUES ({number})")

        def refused(*_: object) -> None:
            raise spill_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

        with monkeypatch.context() as full:
            full.setattr(SpillFile, "write", refused)
            run(database, session, "ROLLBACK TO s")
        assert any("taken back" in record.message for record in caplog.records)
        assert run(database, session, "SELECT * FROM t") == [(0,)]
        assert run(database, session, "INSERT INTO t VALUES (50)") == 1
        run(database, session, "COMMIT")
        assert sql(database, "SELECT * FROM t ORDER BY id") == [(0,), (50,)]


def test_locks_that_lie_in_the_file_keep_others_out_until_the_end(tmp_path: Path, always: None) -> None:
    with opened(tmp_path / "db", transaction_memory_bytes=1) as database:
        sql(database, "CREATE TABLE t (id INTEGER PRIMARY KEY, b INTEGER)")
        sql(database, "CREATE TABLE u (t INTEGER REFERENCES t)")
        sql(database, "INSERT INTO t SELECT i, 0 FROM generate_series(1, 300) g (i)")
        session, other = database.session(), database.session()
        run(database, session, "BEGIN")
        run(database, session, "UPDATE t SET b = 1 WHERE id <= 100")
        run(database, session, "DELETE FROM t WHERE id BETWEEN 101 AND 200")
        run(database, session, "INSERT INTO t SELECT i, 0 FROM generate_series(301, 500) g (i)")
        assert len(database.tablespace.locks) < 10
        run(database, other, "SET lock_timeout = '1ms'")
        assert run(database, other, "SELECT * FROM t WHERE id = 7 FOR UPDATE NOWAIT") == "55P03"
        assert run(database, other, "INSERT INTO u VALUES (7)") == 1  # FOR KEY SHARE goes with that UPDATE
        assert run(database, other, "INSERT INTO u VALUES (150)") == "55P03"
        assert run(database, other, "INSERT INTO t VALUES (400, 0)") == "55P03"
        assert (
            run(database, other, "INSERT INTO t SELECT i, 0 FROM generate_series(450, 600) g (i)") == "55P03"
        )
        assert run(database, other, "SELECT id FROM t WHERE id > 99 FOR UPDATE SKIP LOCKED LIMIT 1") == [
            (201,)
        ]
        assert run(database, session, "UPDATE t SET id = 1000 WHERE id = 8") == 1
        run(database, session, "ROLLBACK")
        assert run(database, other, "DELETE FROM t WHERE id = 150") == 1
        assert len(database.tablespace.locks) == 0


def test_rows_of_a_delta_do_what_a_dict_does(tmp_path: Path) -> None:
    for seed in range(6):
        rng = random.Random(seed)
        rows: SpilledRows = SpilledRows(SpillFile(tmp_path), 1, {}, 0)
        model: dict[bytes, bytes | None] = {}
        for _ in range(250):
            key = b"k" * rng.choice([1, 1, 490, 600]) + bytes((rng.randrange(20),))
            if rng.random() < 0.3:
                rows.move_some(rng.choice([1, 5, 100]))
            elif key in model and rng.random() < 0.4:
                del model[key], rows[key]
            else:
                model[key] = rows[key] = rng.choice([None, b"", b"\0", b"value"])
            assert rows.get(key, b"?") == model.get(key, b"?")
            low, high = sorted([key, bytes((rng.randrange(256),))])
            within = sorted(one for one in model if low <= one < high)
            assert list(rows.keys_within(low, high, False)) == within
            assert list(rows.keys_within(low, high, True)) == within[::-1]
            keys = set(rng.sample(sorted(model), min(3, len(model)))) | {key, b"none"}
            assert rows.known(keys) == keys & model.keys()
        twin, before = rows.copy(), dict(sorted(model.items()))
        while rows.move_some(1000):
            pass
        assert rows.resident_bytes == 0
        rows.update(dict.fromkeys(model, b"other"))
        while rows.move_some(1000):
            pass
        assert dict(twin.items()) == before


def test_recovery_puts_the_rows_of_a_large_transaction_into_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tablespace, "_MANY_ROWS", 1000)
    groups = "SELECT b, count(*) FROM t GROUP BY b ORDER BY b"
    with opened(tmp_path / "db") as database:
        sql(database, "CREATE TABLE t (id INTEGER PRIMARY KEY, b INTEGER)")
        sql(database, "CREATE INDEX t_b ON t (b)")
        sql(database, "INSERT INTO t SELECT i, i % 7 FROM generate_series(1, 9000) g (i)")
        at, wanted = database.store.applied, sql(database, groups)
    shutil.rmtree(tmp_path / "db" / "store")
    written: list[int] = []
    write = SpillFile.write

    def noted(file: SpillFile, slot: int, items: Any, *gone: Any) -> None:
        written.append(len(items))
        write(file, slot, items, *gone)

    monkeypatch.setattr(SpillFile, "write", noted)
    with opened(tmp_path / "db", transaction_memory_bytes=100_000) as database:
        assert sum(written) > 9000
        assert (database.store.applied, sql(database, groups)) == (at, wanted)
        assert list(database.store.check()) == []

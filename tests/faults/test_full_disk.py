"""A full disk: writes fail cleanly, reads go on, and everything works again once there is space."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy_server.embedded import Database, opened
from herdpy_server.sessions import Session
from herdpy_sql.errors import SqlError

SIZE_MIB = 48


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, in memory, that can be filled."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mount = tmp_path / "small"
    mount.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", str(mount)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"this machine does not let root mount a tmpfs: {made.stderr.strip()}")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def fill_up(mount: Path) -> Path:
    """Leave no space; returns the file to delete for some."""
    ballast = mount / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\1" * 65536)
        except OSError:
            pass  # that was the point
    return ballast


def write_until_refused(database: Database, first: int) -> tuple[int, SqlError]:
    """Insert rows until one is refused; returns its id and the error."""
    session = database.session()
    row = first
    while row < first + 100_000:
        try:
            database.run(session.execute("INSERT INTO t VALUES ($1, $2)", (row, "x" * 2000)))
        except SqlError as error:
            return row, error
        row += 1
    raise AssertionError("the disk never filled up")


def test_writes_fail_cleanly_and_work_again(small_disk: Path) -> None:
    path = small_disk / "db"
    with opened(path, checkpoint_interval_s=0.05) as database:
        session = database.session()
        database.run(session.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)"))
        for i in range(100):
            database.run(session.execute("INSERT INTO t VALUES ($1, 'before')", (i,)))
        ballast = fill_up(small_disk)
        refused, error = write_until_refused(database, 100)
        assert error.sqlstate == "53100"
        assert error.outcome == "not done"
        # Reads go on, by key and through DuckDB.
        assert database.run(session.execute("SELECT v FROM t WHERE id = 7")).rows == [("before",)]
        assert database.run(session.execute("SELECT count(*) FROM t")).rows == [(refused,)]
        # A second refusal, in a transaction, fails the transaction and nothing else.
        database.run(session.execute("BEGIN"))
        rows = [(1_000_000 + i, "y" * 2000) for i in range(5000)]
        database.run(session.execute_many("INSERT INTO t VALUES ($1, $2)", rows))
        with pytest.raises(SqlError) as caught:
            database.run(session.execute("COMMIT"))
        assert caught.value.sqlstate == "53100"
        database.run(session.rollback())
        ballast.unlink()
        database.run(session.execute("INSERT INTO t VALUES ($1, 'after')", (refused,)))
        count = database.run(session.execute("SELECT count(*) FROM t")).rows
        assert count == [(refused + 1,)]
    with opened(path) as database:
        assert list(database.store.check()) == []
        session = database.session()
        assert database.run(session.execute("SELECT count(*), max(id) FROM t")).rows == [
            (refused + 1, refused)
        ]


def test_opening_with_a_full_disk_says_so_and_works_once_there_is_space(small_disk: Path) -> None:
    path = small_disk / "db"
    with opened(path) as database:
        session = database.session()
        database.run(session.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)"))
        database.run(session.execute("INSERT INTO t VALUES (1, 'kept')"))
    ballast = fill_up(small_disk)
    try:
        with opened(path) as database:
            session = database.session()
            assert database.run(session.execute("SELECT v FROM t WHERE id = 1")).rows == [("kept",)]
    except (SqlError, OSError) as error:
        assert getattr(error, "sqlstate", "53100") in {"53100", "58030"}  # noqa: PT017
    ballast.unlink()
    with opened(path) as database:
        session = database.session()
        assert database.run(session.execute("SELECT v FROM t")).rows == [("kept",)]


def fill_a_transaction(database: Database, session: Session) -> tuple[str, str]:
    """Insert rows in an open transaction until the disk is full; what that is refused with."""
    for start in range(0, 1_000_000, 1000):
        rows = [(start + i, "y" * 2000) for i in range(1000)]
        try:
            database.run(session.execute_many("INSERT INTO t VALUES ($1, $2)", rows))
        except SqlError as error:
            return error.sqlstate, str(error)
    raise AssertionError("the disk never filled up")


def test_a_small_disk_fails_a_large_transaction_alone(small_disk: Path) -> None:
    path = small_disk / "db"
    with opened(path, transaction_memory_bytes=1 << 20, max_ledger_bytes=1 << 20) as database:
        session, other = database.session(), database.session()
        database.run(session.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)"))
        database.run(session.execute("BEGIN"))
        sqlstate, message = fill_a_transaction(database, session)
        assert sqlstate == "53100"
        assert "large transaction" in message
        database.run(session.rollback())
        database.run(other.execute("INSERT INTO t VALUES (1, 'other')"))
        assert database.run(session.execute("SELECT * FROM t")).rows == [(1, "other")]
        assert len(database.tablespace.locks) == 0
    with opened(path) as database:
        assert list(database.store.check()) == []
        assert database.run(database.session().execute("SELECT count(*) FROM t")).rows == [(1,)]

"""A statement of one turn holds no locks: what it would wait for before its commit makes it run again.

Else another session could change the rows in between, and its change would be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy.log.wait import Wait, run_blocking
from herdpy_server.embedded import Database, opened
from herdpy_server.tablespace.locks import LockWait
from tests.sessions.stepping import ask, until


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with opened(tmp_path / "db") as database:
        yield database


class Room(Wait[None]):
    """Room in the log."""


def test_a_full_log_at_the_end_of_a_statement(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = database.session(), database.session()
    ask(one, "CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    ask(one, "INSERT INTO t VALUES (1, 0)")
    room, full = Room(), iter([False, True])
    with monkeypatch.context() as patch:
        patch.setattr(type(database.log), "is_full", property(lambda _log: next(full, False)))
        patch.setattr(database.tablespace, "log_room", lambda: room)
        # The columnar engine is asked first, so the log may have become full since.
        steps = one.execute("UPDATE t SET v = v + 1 WHERE k IN (SELECT max(k) FROM t GROUP BY v % 2)")
        assert until(steps, Room) is room
        ask(other, "UPDATE t SET v = v + 10 WHERE k = 1")
        room.resolve(None)
        assert run_blocking(steps).rowcount == 1
    assert ask(one, "SELECT v FROM t") == [(11,)]


def test_a_lock_in_the_way_of_a_deferred_check(database: Database) -> None:
    holder, one, other = database.session(), database.session(), database.session()
    ask(one, "CREATE TABLE p (k INT PRIMARY KEY)")
    ask(one, "CREATE TABLE c (k INT PRIMARY KEY, p INT REFERENCES p DEFERRABLE INITIALLY DEFERRED, v INT)")
    ask(one, "INSERT INTO p VALUES (1), (2)")
    ask(one, "INSERT INTO c VALUES (1, 1, 0)")
    ask(holder, "BEGIN")
    ask(holder, "DELETE FROM p WHERE k = 2")
    steps = one.execute("UPDATE c SET p = 2, v = v + 1 WHERE k = 1")
    until(steps, LockWait)
    ask(other, "UPDATE c SET v = v + 10 WHERE k = 1")
    ask(holder, "ROLLBACK")
    assert run_blocking(steps).rowcount == 1
    assert ask(one, "SELECT p, v FROM c") == [(2, 11)]

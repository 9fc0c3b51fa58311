"""Advisory locks: as PostgreSQL has them, between sessions that wait for one another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.support.server_process import RunningServer

ALONE = (
    "SELECT hashtext('a'), hashtext(''), hashtext('twelve bytes'), hashtext('more than one block, é')",
    "SELECT pg_advisory_lock(1), pg_advisory_lock(1), pg_advisory_unlock(1), pg_advisory_unlock(1), "
    "pg_advisory_unlock(1)",
    "SELECT pg_try_advisory_lock(-7), pg_try_advisory_lock(1, -2), pg_advisory_unlock(1, -2), "
    "pg_advisory_unlock(-7)",
    "SELECT pg_advisory_lock_shared(3), pg_advisory_unlock(3), pg_advisory_unlock_shared(3)",
    "SELECT pg_try_advisory_xact_lock(4), pg_advisory_unlock(4)",
    "SELECT pg_advisory_lock(NULL), pg_try_advisory_lock(NULL)",
    "SELECT pg_advisory_lock(5), pg_advisory_unlock_all(), pg_advisory_unlock(5)",
)
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = %s"


@pytest.fixture
def sessions(clients_server: RunningServer) -> Iterator[Callable[[], Any]]:
    opened: list[Any] = []

    def connect() -> Any:
        opened.append(clients_server.connect())
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


def _one(connection: Any, query: str) -> Any:
    return connection.execute(query).fetchone()[0]


def _until_it_waits(watcher: Any, pid: int) -> None:
    while not watcher.execute(WAITS, (pid,)).fetchone()[0]:
        pass


def test_one_session_is_answered_as_by_postgres(sessions: Callable[[], Any], postgres: str) -> None:
    ours = sessions()
    with psycopg.connect(postgres, autocommit=True) as reference:
        for query in ALONE:
            assert ours.execute(query).fetchall() == reference.execute(query).fetchall(), query


def test_sessions_exclude_one_another(sessions: Callable[[], Any]) -> None:
    one, two = sessions(), sessions()
    one.execute("SELECT pg_advisory_lock(10)")
    assert not _one(two, "SELECT pg_try_advisory_lock(10)")
    assert not _one(two, "SELECT pg_try_advisory_lock_shared(10)")
    assert _one(two, "SELECT pg_try_advisory_lock(0, 10)")  # two numbers are another lock
    one.execute("SELECT pg_advisory_unlock(10)")
    one.execute("SELECT pg_advisory_lock_shared(10)")
    assert _one(two, "SELECT pg_try_advisory_lock_shared(10)")
    assert not _one(two, "SELECT pg_try_advisory_lock(10)")
    one.close()
    assert _one(two, "SELECT pg_advisory_lock(10)") == ""


def test_a_lock_of_a_transaction_ends_with_it(sessions: Callable[[], Any]) -> None:
    one, two = sessions(), sessions()
    for end in ("COMMIT", "ROLLBACK"):
        one.execute("BEGIN")
        one.execute("SELECT pg_advisory_xact_lock(20)")
        assert not _one(one, "SELECT pg_advisory_unlock(20)")
        assert not _one(two, "SELECT pg_try_advisory_xact_lock(20)")
        one.execute(end)
        assert _one(two, "SELECT pg_try_advisory_xact_lock(20)")
    one.execute("SELECT pg_advisory_lock(21)")
    one.execute("BEGIN; SELECT pg_advisory_xact_lock(21); ROLLBACK")
    assert not _one(two, "SELECT pg_try_advisory_lock(21)")
    one.execute("DISCARD ALL")
    assert _one(two, "SELECT pg_try_advisory_lock(21)")


def test_who_waits_goes_on_when_the_lock_is_free(sessions: Callable[[], Any]) -> None:
    one, two, three = sessions(), sessions(), sessions()
    one.execute("SELECT pg_advisory_lock(30)")
    # A statement that waits begins again: what it had locked before is counted once.
    waiting = threading.Thread(
        target=two.execute, args=("SELECT pg_advisory_lock(31), pg_advisory_lock(30)",)
    )
    waiting.start()
    _until_it_waits(three, two.info.backend_pid)
    assert _one(three, "SELECT pg_try_advisory_lock(31)")
    three.execute("SELECT pg_advisory_unlock(31)")
    one.execute("SELECT pg_advisory_unlock(30)")
    waiting.join(30)
    assert not waiting.is_alive()
    assert not _one(one, "SELECT pg_try_advisory_lock(30)")
    two.execute("SELECT pg_advisory_unlock(30), pg_advisory_unlock(31)")
    assert _one(one, "SELECT pg_try_advisory_lock(30)")
    assert _one(one, "SELECT pg_try_advisory_lock(31)")


def test_waiting_ends(sessions: Callable[[], Any]) -> None:
    one, two = sessions(), sessions()
    one.execute("SELECT pg_advisory_lock(40)")
    two.execute("SET lock_timeout = '20ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        two.execute("SELECT pg_advisory_lock(40)")
    one.execute("SELECT pg_advisory_unlock(40)")
    assert _one(one, "SELECT pg_try_advisory_lock(40)")  # nobody is in the queue any more
    two.execute("SELECT pg_advisory_lock(41)")
    two.execute("RESET lock_timeout")
    failed: list[str | None] = []

    def wait() -> None:
        try:
            two.execute("SELECT pg_advisory_lock(40)")
        except psycopg.Error as error:
            failed.append(error.sqlstate)

    waiting = threading.Thread(target=wait)
    waiting.start()
    _until_it_waits(one, two.info.backend_pid)
    with pytest.raises(psycopg.errors.DeadlockDetected):
        one.execute("SELECT pg_advisory_lock(41)")
    assert _one(one, f"SELECT pg_cancel_backend({two.info.backend_pid})")
    waiting.join(30)
    assert failed == ["57014"]


LOCKS = (
    "SELECT locktype, classid::bigint, objid::bigint, objsubid, mode, granted, fastpath, "
    "pid = pg_backend_pid() FROM pg_locks WHERE locktype = 'advisory' ORDER BY classid, objid, objsubid, mode"
)


def test_pg_locks_has_them_as_in_postgres(sessions: Callable[[], Any], postgres: str) -> None:
    ours = sessions()
    with psycopg.connect(postgres, autocommit=True) as reference:
        for one in (ours, reference):
            one.execute("SELECT pg_advisory_lock(-7), pg_advisory_lock(50), pg_advisory_lock_shared(50)")
            one.execute("SELECT pg_advisory_lock(3, -4), pg_advisory_lock_shared(9000000000)")
        assert len(shown := ours.execute(LOCKS).fetchall()) == 5
        assert shown == reference.execute(LOCKS).fetchall()


@pytest.mark.parametrize("first", ["advisory", "row"])
def test_a_deadlock_with_a_lock_of_a_row_is_found(sessions: Callable[[], Any], first: str) -> None:
    """Whichever of the two is waited for first: who would wait for ever fails, and the other goes on."""
    one, two = sessions(), sessions()
    row = "UPDATE lib_author SET born = born WHERE name = 'ann'"
    one.execute("BEGIN")
    one.execute(row)
    two.execute("BEGIN")
    two.execute("SELECT pg_advisory_xact_lock(60)")
    waits, asks = (
        ((one, "SELECT pg_advisory_lock(60)"), (two, row))
        if first == "advisory"
        else ((two, row), (one, "SELECT pg_advisory_lock(60)"))
    )
    waiting = threading.Thread(target=waits[0].execute, args=(waits[1],))
    waiting.start()
    watcher = sessions()
    _until_it_waits(watcher, waits[0].info.backend_pid)
    if first == "advisory":
        asked = "SELECT pid, granted FROM pg_locks WHERE objid = 60 ORDER BY granted"
        assert watcher.execute(asked).fetchall() == [
            (one.info.backend_pid, False),
            (two.info.backend_pid, True),
        ]
    asks[0].execute("SET lock_timeout = '20s'")  # who gets no such error would get 55P03
    with pytest.raises(psycopg.errors.DeadlockDetected):
        asks[0].execute(asks[1])
    waiting.join(30)
    assert not waiting.is_alive()
    for each in (one, two):
        each.execute("ROLLBACK")


def test_a_deadlock_of_a_statement_alone_is_found(sessions: Callable[[], Any]) -> None:
    """A session outside of a transaction has advisory locks, and waits for a row."""
    one, two = sessions(), sessions()
    row = "UPDATE lib_author SET born = born WHERE name = 'ann'"
    one.execute("BEGIN")
    one.execute(row)
    two.execute("SELECT pg_advisory_lock(61)")
    waiting = threading.Thread(target=two.execute, args=(row,))
    waiting.start()
    _until_it_waits(sessions(), two.info.backend_pid)
    one.execute("SET lock_timeout = '20s'")
    with pytest.raises(psycopg.errors.DeadlockDetected):
        one.execute("SELECT pg_advisory_lock(61)")
    waiting.join(30)
    assert not waiting.is_alive()

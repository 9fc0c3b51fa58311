"""A point statement of an open transaction that meets a lock goes on where it was: with its own time, its own
plan where nothing was defined meanwhile, and with rows as they are then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy.log import Append
from herdpy.log.wait import Wait, run_blocking
from herdpy_server.embedded import Database, opened
from herdpy_server.sessions import Session, execution
from herdpy_server.sessions.binding import Binding
from herdpy_server.tablespace import tablespace
from herdpy_server.tablespace.locks import LockWait
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.change import UpdatePlan
from tests.sessions.stepping import ask, until


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with opened(tmp_path / "db") as database:
        session = database.session()
        ask(session, "CREATE TABLE t (k INT PRIMARY KEY, v INT, at TIMESTAMPTZ)")
        ask(session, "INSERT INTO t VALUES (1, 0, NULL), (2, 0, NULL)")
        yield database


@pytest.fixture
def holder(database: Database) -> Session:
    """It holds row 1."""
    holder = database.session()
    ask(holder, "BEGIN")
    ask(holder, "UPDATE t SET v = 10 WHERE k = 1")
    return holder


@pytest.fixture
def waiter(database: Database) -> Session:
    waiter = database.session()
    ask(waiter, "BEGIN")
    return waiter


def test_it_is_attempted_again_and_not_bound_again(
    holder: Session, waiter: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound, attempts = [], []
    bind, run = Binding.bind, UpdatePlan.run
    monkeypatch.setattr(
        Binding, "bind", lambda self, *args, **kwargs: bound.append(1) or bind(self, *args, **kwargs)
    )
    monkeypatch.setattr(
        UpdatePlan, "run", lambda self, *args, **kwargs: attempts.append(1) or run(self, *args, **kwargs)
    )
    steps = waiter.execute("UPDATE t SET v = v + 1 WHERE k = 1")
    until(steps, LockWait)
    assert (len(bound), len(attempts)) == (1, 1)
    ask(holder, "ROLLBACK")
    bound.clear()
    assert run_blocking(steps).rowcount == 1
    assert (len(bound), len(attempts)) == (0, 2)
    ask(waiter, "COMMIT")
    assert ask(waiter, "SELECT v FROM t WHERE k = 1") == [(1,)]


def test_its_time_is_that_of_its_beginning(
    holder: Session, waiter: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(1, 100))
    monkeypatch.setattr(tablespace, "now_us", lambda: next(seconds) * 1_000_000)
    monkeypatch.setattr(execution, "now_us", tablespace.now_us)
    steps = waiter.execute("UPDATE t SET at = statement_timestamp() WHERE k = 1")
    until(steps, LockWait)
    ask(holder, "ROLLBACK")
    run_blocking(steps)
    ask(waiter, "COMMIT")
    assert ask(waiter, "SELECT at FROM t WHERE k = 1") == [(1_000_000,)]


def test_what_is_cancelled_before_it_waits_does_not_wait(database: Database, waiter: Session) -> None:
    waits, wait = waiter.waits, Wait[object]()
    assert waiter.transaction is not None
    waits.deadline.end(SqlError("57014", "canceling statement due to user request"))  # from another thread
    with pytest.raises(SqlError, match="user request"):
        waits.until_granted(waiter.transaction, wait).send(None)
    assert waits.kind is None


@pytest.mark.parametrize("in_time", [True, False])
def test_a_deadline_does_not_change_how_it_goes_on(holder: Session, waiter: Session, in_time: bool) -> None:
    ask(waiter, f"SET LOCAL statement_timeout = '{'1min' if in_time else '10ms'}'")
    steps = waiter.execute("UPDATE t SET v = v + 1 WHERE k = 1")
    if not in_time:
        with pytest.raises(SqlError, match="statement timeout"):
            run_blocking(steps)
        assert waiter.failed
        ask(holder, "COMMIT")
        return
    until(steps, LockWait)
    ask(holder, "COMMIT")
    assert run_blocking(steps).rowcount == 1
    ask(waiter, "COMMIT")
    assert ask(waiter, "SELECT v FROM t WHERE k = 1") == [(11,)]


def test_its_reads_wait_for_what_they_rest_on(database: Database, waiter: Session) -> None:
    other = database.session()
    steps = other.execute("UPDATE t SET v = 7 WHERE k = 2")
    durable = steps.send(None)  # it has its place in the log, and is not durable
    read = waiter.execute("SELECT v FROM t WHERE k = 2")
    certain = read.send(None)
    assert isinstance(certain, Append)
    assert durable.block()
    run_blocking(steps)
    assert certain.block()
    assert run_blocking(read).rows == [(7,)]
    ask(waiter, "COMMIT")

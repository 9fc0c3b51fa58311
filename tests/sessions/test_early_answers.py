"""``herdpy.early_answers``: in a transaction block a query need not wait for the log, and COMMIT does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from herdpy.log import LastWait
from herdpy.log.group_commit import QueuedAppend
from herdpy.log.wait import Wait, run_blocking
from herdpy_server.embedded import Database, opened
from herdpy_server.sessions import Result, Session
from herdpy_sql.errors import SqlError
from tests.sessions.stepping import STEP, ask, until

READS = [
    "SELECT v FROM t WHERE k = 1",
    "SELECT v FROM t WHERE k = 1 FOR UPDATE",
    "SELECT max(v) FROM t GROUP BY k",
    "UPDATE t SET k = k WHERE k = 1 RETURNING v",
]
OF_THE_LOG = (QueuedAppend, LastWait)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with opened(tmp_path / "db") as database:
        ask(database.session(), "CREATE TABLE t (k INT PRIMARY KEY, v INT)")
        ask(database.session(), "INSERT INTO t VALUES (1, 0)")
        yield database


def begun(database: Database, setting: str) -> Session:
    session = database.session()
    ask(session, f"SET herdpy.early_answers = {setting}")
    ask(session, "BEGIN")
    return session


def not_yet_durable(database: Database) -> tuple[STEP, Wait[Any]]:
    """A change that others see and the log has not got for sure: nobody has waited for it yet."""
    steps = database.session().execute("UPDATE t SET v = 1 WHERE k = 1")
    return steps, wait_of(steps)


def wait_of(steps: STEP) -> Wait[Any]:
    """What a statement waits for: the log."""
    return until(steps, *OF_THE_LOG)


def answer_of(steps: STEP) -> list[tuple[Any, ...]]:
    """The answer of a statement that does not wait for the log."""
    while True:
        try:
            wait: Wait[Any] = steps.send(None)
        except StopIteration as stop:
            result: Result = stop.value
            return result.rows
        assert not isinstance(wait, OF_THE_LOG)
        wait.block()


def goes_on(steps: STEP, wait: Wait[Any]) -> Result:
    """What comes of a statement when it has waited."""
    wait.block()
    return run_blocking(steps)


@pytest.mark.parametrize("sql", READS)
def test_a_query_in_a_block_waits_for_the_log_unless_it_may_be_early(database: Database, sql: str) -> None:
    change, durable = not_yet_durable(database)
    waiting = begun(database, "off")
    assert wait_of(waiting.execute(sql))
    ask(waiting, "ROLLBACK")
    early = begun(database, "on")
    assert answer_of(early.execute(sql)) == [(1,)]
    commit = early.execute("COMMIT")
    goes_on(commit, wait_of(commit))
    goes_on(change, durable)


def test_outside_of_a_block_a_query_waits(database: Database) -> None:
    change, durable = not_yet_durable(database)
    session = database.session()
    ask(session, "SET herdpy.early_answers = on")
    query = session.execute(READS[0])
    assert goes_on(query, wait_of(query)).rows == [(1,)]
    goes_on(change, durable)


def test_an_error_that_says_something_of_rows_waits(database: Database) -> None:
    change, durable = not_yet_durable(database)
    early = begun(database, "on")
    failing = early.execute("INSERT INTO t VALUES (1, 2)")
    certain = wait_of(failing)
    with pytest.raises(SqlError, match="duplicate key"):
        goes_on(failing, certain)
    goes_on(change, durable)

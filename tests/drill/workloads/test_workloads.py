"""Every workload finds a right database right, and a wrong one wrong."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from herdpy.drill.checkers.every_drill import check_errors
from herdpy.drill.history import OperationOutcome
from herdpy.drill.sessions import SessionAnswer
from herdpy.drill.workloads import WORKLOADS
from tests.drill.workloads.embedded import Bend, EmbeddedSession, run


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_right_database_is_found_right(name: str, tmp_path: Path) -> None:
    verdicts, recorder = run(WORKLOADS[name](), tmp_path / "d")
    assert all(verdict.valid for verdict in verdicts), verdicts
    assert check_errors(recorder.history).valid
    done = [one for one in recorder.history if one.outcome is OperationOutcome.DONE]
    assert len(done) > 100
    assert {"linearizable"} < {one.details.get("read_level", "linearizable") for one in done} or name in (
        "inserts",
        "queue",
        "unique-keys",
        "sequences",
    )


class Every:
    """True every so many times; for several threads."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._count = 0
        self._lock = threading.Lock()

    def __call__(self) -> bool:
        with self._lock:
            self._count += 1
            return self._count % self._number == 0


def acknowledges_and_forgets(word: str) -> Bend:
    """Says of every twentieth statement of that beginning that it is done, and does nothing."""
    now = Every(20)

    def bend(_session: EmbeddedSession, sql: str, _parameters: tuple[object, ...]) -> SessionAnswer | None:
        return SessionAnswer([], 1) if sql.startswith(word) and now() else None

    return bend


def does_twice(word: str) -> Bend:
    """Does every twentieth statement of that beginning twice."""
    now = Every(20)

    def bend(session: EmbeddedSession, sql: str, parameters: tuple[object, ...]) -> SessionAnswer | None:
        if sql.startswith(word) and now():
            session.truly(sql, *parameters)
        return None

    return bend


def reads_the_past(words: str) -> Bend:
    """Answers every tenth query that has those words as it was answered first."""
    now = Every(10)
    first: dict[tuple[str, tuple[object, ...]], SessionAnswer] = {}

    def bend(session: EmbeddedSession, sql: str, parameters: tuple[object, ...]) -> SessionAnswer | None:
        if not sql.startswith("SELECT") or words not in sql:
            return None
        if (sql, parameters) not in first:
            first[sql, parameters] = session.truly(sql, *parameters)
            return first[sql, parameters]
        return first[sql, parameters] if now() else None

    return bend


def counts_back() -> Bend:
    """Now and then a sequence gives the number before the one that it is at."""
    now = Every(10)

    def bend(session: EmbeddedSession, sql: str, parameters: tuple[object, ...]) -> SessionAnswer | None:
        if "nextval" not in sql or not now():
            return None
        ((number,),) = session.truly(sql, *parameters).rows
        return SessionAnswer([(number - 1,)], 1)

    return bend


def forgets_a_row_of_the_index() -> Bend:
    """Now and then a look along the index lacks its first row."""
    now = Every(10)

    def bend(session: EmbeddedSession, sql: str, parameters: tuple[object, ...]) -> SessionAnswer | None:
        if "WHERE tag >= 0" not in sql or not now():
            return None
        return SessionAnswer(session.truly(sql, *parameters).rows[1:], None)

    return bend


def gives_a_key_twice() -> Bend:
    """Tells who comes second for a unique key, too, that he has it."""
    now = Every(2)

    def bend(session: EmbeddedSession, sql: str, parameters: tuple[object, ...]) -> SessionAnswer | None:
        if not sql.startswith("INSERT") or not parameters or not now():
            return None
        rows = session.truly(f"SELECT 1 FROM {sql.split()[2]} WHERE name = %s", parameters[1]).rows
        return SessionAnswer([], 1) if rows else None

    return bend


def gives_a_job_twice() -> Bend:
    """Now and then a worker is offered a job that somebody has, and takes it."""
    now = Every(15)

    def bend(session: EmbeddedSession, sql: str, parameters: tuple[object, ...]) -> SessionAnswer | None:
        if sql.startswith("UPDATE") and "is_waiting = false" in sql:
            return session.truly(sql.replace(" AND is_waiting = true", ""), *parameters)
        if sql.startswith("SELECT job") and "LIMIT" in sql and now():
            return session.truly(sql.replace("is_waiting = true", "is_waiting = false")) or None
        return None

    return bend


@pytest.mark.parametrize(
    ("name", "bend"),
    [
        ("registers", reads_the_past("SELECT v")),
        ("registers", acknowledges_and_forgets("UPDATE")),
        ("list-append", acknowledges_and_forgets("UPDATE")),
        ("list-append", does_twice("UPDATE")),
        ("bank", acknowledges_and_forgets("UPDATE")),
        ("inserts", acknowledges_and_forgets("INSERT")),
        ("inserts", does_twice("INSERT")),
        ("sets", acknowledges_and_forgets("INSERT")),
        ("queue", acknowledges_and_forgets("INSERT")),
        ("queue", gives_a_job_twice()),
        ("unique-keys", gives_a_key_twice()),
        ("sequences", counts_back()),
        ("sequences", acknowledges_and_forgets("INSERT")),
        ("sequences", does_twice("INSERT")),
        ("indexed", forgets_a_row_of_the_index()),
        ("redefined", reads_the_past("SELECT a, b")),
    ],
)
def test_a_wrong_database_is_found_wrong(name: str, bend: Bend, tmp_path: Path) -> None:
    verdicts, _recorder = run(WORKLOADS[name](), tmp_path / "d", bend=bend)
    assert not all(verdict.valid for verdict in verdicts)

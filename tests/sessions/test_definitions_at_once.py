"""Sessions define temporary and permanent tables in transactions that are open at once.

Nobody waits, everybody finds what the model says, and who replays the log has the leader's catalog.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from herdpy.log import TransactionAssembler
from herdpy.log.wait import run_blocking
from herdpy_server.embedded import Database, opened
from herdpy_server.store import NoLocks, Store, Workspace
from herdpy_server.tablespace.locks import LockWait
from herdpy_sql.errors import SqlError
from tests.sessions.definitions_model import NAMES, STEPS, Actor

PUBLIC = tuple(f"public_{one}" for one in ("create", "drop", "alter", "index", "insert", "view"))
STEP = st.tuples(st.integers(0, 2), st.sampled_from((*STEPS, *PUBLIC)), st.sampled_from(NAMES))


def answer(session, sql: str) -> list[tuple]:
    """The rows of a statement that must not wait for anybody. SqlError as it fails."""
    steps = session.execute(sql)
    try:
        while True:
            wait = steps.send(None)
            assert not isinstance(wait, LockWait) or wait.done(), f"{sql} waits"
            wait.block()
    except StopIteration as stop:
        result = stop.value
    return [] if result.columns is None else list(result.rows)


def state_of(session, sql: str) -> str:
    try:
        answer(session, sql)
    except SqlError as error:
        return error.sqlstate
    return ""


def check_tables(session, actor: Actor) -> None:
    """The session finds what its model has."""
    if actor.failed:
        return
    for (schema, name), made in actor.tables.items():
        rows = answer(session, f"SELECT * FROM {schema}.{name} ORDER BY id, n")
        assert [row[0] for row in rows] == sorted(made.rows)
        assert [row[2:] for row in rows] == [tuple(range(1, made.columns + 1))] * len(made.rows)
    found = session.catalog
    own = [one for one in found.tables.values() if one.schema == session.settings.temporary_schema]
    kept = [one for one in found.tables.values() if one.name.endswith(str(actor.number))]
    names = {("pg_temp", one.name): one for one in own} | {("public", one.name): one for one in kept}
    assert {key: len(one.indexes) for key, one in names.items()} == {
        key: made.indexes for key, made in actor.tables.items()
    }
    views = {one.name for one in found.objects.values() if one.kind == "view"}
    assert {one for one in views if one.endswith(str(actor.number))} == {
        f"v_{name}" for (_, name), made in actor.tables.items() if made.has_view
    }


def replayed(database: Database, path: Path) -> Store:
    """A second store that has applied the whole log."""
    follower = Store.open(path)
    assembler = TransactionAssembler(follower.durable)

    async def read() -> None:
        async for lsn, entry in database.tablespace.log.read(follower.durable):
            whole = assembler.feed(entry)
            if whole or assembler.safe == lsn:
                follower.apply_logged(assembler.safe, whole)

    run_blocking(read())
    return follower


def check_follower(database: Database, path: Path) -> None:
    follower = replayed(database, path)
    try:
        leader = database.store
        assert follower.applied == leader.applied
        assert follower.catalog == leader.catalog
        assert list(follower.catalog.tables) == list(leader.catalog.tables)
        mine, its = Workspace(leader, NoLocks(), None), Workspace(follower, NoLocks(), None)
        for table in leader.catalog.tables.values():
            assert list(its.scan(table)) == list(mine.scan(table))
            for index in table.indexes:
                assert list(its.index_scan(table, index)) == list(mine.index_scan(table, index))
    finally:
        follower.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEP, min_size=5, max_size=45))
def test_whatever_is_defined_at_once(tmp_path_factory: pytest.TempPathFactory, steps) -> None:
    path = tmp_path_factory.mktemp("at_once")
    actors = [Actor(number) for number in range(3)]
    with opened(path / "db", checkpoint_interval_s=3600.0) as database:
        sessions = [database.session() for _ in actors]
        for value, (number, what, name) in enumerate(steps):
            step = actors[number].step(what, name, value)
            if step is not None:
                sql, state = step
                assert state_of(sessions[number], sql) == state, sql
                check_tables(sessions[number], actors[number])
        for session, actor in zip(sessions, actors, strict=True):
            check_tables(session, actor)
        for session, actor in zip(sessions[:2], actors[:2], strict=True):
            if actor.step("rollback", "a", 0):
                answer(session, "ROLLBACK")
            check_tables(session, actor)
        check_follower(database, path / "follower")
        for session in sessions:
            database.run(session.close())
        assert not any(one.is_temporary for one in database.tablespace.catalog.tables.values())
    actors[2].step("rollback", "a", 0)
    with opened(path / "db") as database:
        for actor in actors:
            actor.tables = {key: one for key, one in actor.tables.items() if key[0] == "public"}
            check_tables(database.session(), actor)


KILLED = """
import os, signal, sys
from pathlib import Path
from herdpy_server.embedded import opened
with opened(Path(sys.argv[1])) as database:
    one, two, three = (database.session() for _ in range(3))
    def ask(session, *texts):
        for text in texts:
            database.run(session.execute(text))
    ask(one, "CREATE TEMP TABLE t (id serial, v int)", "INSERT INTO t (v) VALUES (1)", "BEGIN",
        "ALTER TABLE t ADD COLUMN w int", "CREATE TEMP TABLE u (id int)")
    ask(two, "BEGIN", "CREATE TEMP TABLE t (id int)", "CREATE INDEX ON t (id)")
    ask(three, "BEGIN", "CREATE TABLE kept (id serial PRIMARY KEY, v int)", "INSERT INTO kept (v) VALUES (7)")
    ask(two, "INSERT INTO t VALUES (1)", "COMMIT", "BEGIN", "CREATE TEMP TABLE u (id int)")
    ask(three, "COMMIT", "BEGIN", "CREATE TABLE lost (id int)")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_after_a_kill_what_was_committed_is_there_and_nothing_temporary(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "db")],
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ended.returncode == -9
    with opened(tmp_path / "db") as database:
        assert [one.name for one in database.tablespace.catalog.tables.values()] == ["kept"]
        assert [one.name for one in database.tablespace.catalog.objects.values()] == ["kept_id_seq"]
        assert answer(database.session(), "SELECT * FROM kept") == [(1, 7)]
        assert answer(database.session(), "INSERT INTO kept (v) VALUES (8) RETURNING id") == [(2,)]


def test_tables_that_are_made_at_once_are_counted_at_the_commit(tmp_path: Path) -> None:
    """Neither transaction sees the other's tables; the second to commit would make too many."""
    with opened(tmp_path / "db", checkpoint_interval_s=3600.0) as database:
        database.store.max_databases = 3
        one, other = database.session(), database.session()
        for session in (one, other):
            answer(session, "BEGIN")
            answer(session, "CREATE TEMP TABLE t (id int)")
            answer(session, "CREATE TEMP TABLE u (id int)")
        answer(one, "COMMIT")
        assert state_of(other, "COMMIT") == "53400"
        assert state_of(other, "CREATE TEMP TABLE t (id int)") == ""


def test_the_other_sessions_definitions_come_under_the_own_ones(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as database:
        one, other = database.session(), database.session()
        answer(other, "CREATE TYPE mood AS ENUM ('good')")
        answer(one, "BEGIN")
        answer(one, "CREATE TEMP TABLE t (id int)")
        answer(other, "CREATE TABLE kept (id int, is_in mood)")
        answer(other, "ALTER TYPE mood ADD VALUE 'bad'")
        answer(other, "INSERT INTO kept VALUES (1, 'bad')")
        answer(one, "SAVEPOINT s")
        answer(one, "CREATE TEMP TABLE u AS SELECT * FROM kept")
        answer(other, "ALTER TABLE kept ADD COLUMN more int DEFAULT 3")
        joined = "SELECT kept.id, kept.is_in::text, more, u.is_in::text FROM kept, u"
        assert answer(one, joined) == [(1, "bad", 3, "bad")]
        answer(one, "ROLLBACK TO s")
        assert state_of(one, "SELECT * FROM u") == "42P01"
        answer(one, "ROLLBACK TO s")
        assert answer(one, "SELECT id, is_in::text, more FROM kept") == [(1, "bad", 3)]
        assert answer(one, "SELECT * FROM t") == []
        answer(one, "COMMIT")
        check_follower(database, tmp_path / "follower")

"""Workers as processes on a server: killed, stopped past their leases, drained; each effect exactly once."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest
from herdpy_broker import reading, types
from herdpy_broker.process_worker import ProcessWorker
from herdpy_broker.schema import migrate

import herdpy
from herdpy.testing.process import await_until
from tests.support.broker_program import HANDLERS
from tests.support.broker_workers import (
    PATIENCE_S,
    add_tasks,
    await_ends,
    await_value,
    effects,
    end_leases,
    open_gate,
    worker_process,
    working,
)
from tests.support.server_process import RunningServer

BEATING_LEASE_S = 6.0
"""Of a worker that finds out by a beat, after two seconds, that it was given up."""
KINDS = ("threads", "coroutines", "processes")
RUNNING = "SELECT count(*) FROM broker.task WHERE state = 'running'"


def make_tables(db):
    db.execute("CREATE TABLE effect (task BIGINT, process BIGINT)")
    db.execute("CREATE TABLE gate (open BOOLEAN)")
    for name in ("effect", "gated", "plain", "die"):
        types.define(db, name, max_attempts=5, backoff_s=0.0)


@pytest.fixture
def db(server_db):
    """A connection to a broker's database without tasks, with empty tables `effect` and `gate`."""
    make_tables(server_db)
    yield server_db
    server_db.execute("DROP TABLE effect, gate")


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_does_60_tasks_and_ends_by_sigterm(db, server_url, kind):
    tasks = add_tasks(db, "effect", 30)
    others = add_tasks(db, "plain", 30, -2)
    with worker_process(kind, server_url) as process:
        await_ends(db)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert effects(db) == tasks
    assert {reading.task(db, task).result for task in others} == {2}
    assert db.execute("SELECT count(*) FROM broker.worker").fetchone() == (0,)


@pytest.mark.parametrize("kind", KINDS)
def test_the_tasks_of_a_worker_that_is_killed_come_back_once(db, server_url, kind):
    tasks = add_tasks(db, "gated", 6)
    with worker_process(kind, server_url) as victim:
        await_value(db, RUNNING, 2)
        victim.kill()
        victim.wait()
        end_leases(db)
    with working(server_url, HANDLERS):
        await_value(db, "SELECT count(*) FROM broker.worker", 1)
        open_gate(db)
        await_ends(db)
    assert effects(db) == tasks
    attempts = [reading.task(db, task).attempts for task in tasks]
    assert sorted(attempts) == [1] * 4 + [2] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_sleeps_past_its_lease_finishes_nothing_when_it_wakes(db, server_url, kind):
    tasks = add_tasks(db, "gated", 2)
    with worker_process(kind, server_url, lease_s=BEATING_LEASE_S) as sleeper:
        await_value(db, RUNNING, 2)
        (first,) = db.execute("SELECT id FROM broker.worker").fetchone()
        os.kill(sleeper.pid, signal.SIGSTOP)
        end_leases(db)
        with working(server_url, HANDLERS):
            await_value(db, f"SELECT count(*) FROM broker.worker WHERE id = {first}", 0)
            open_gate(db)
            await_ends(db)
            os.kill(sleeper.pid, signal.SIGCONT)
        # It registers anew, does the next tasks, and the old ones had no second effect.
        tasks += add_tasks(db, "effect", 4)
        await_ends(db)
    assert effects(db) == tasks
    by = {reading.task(db, task).worker for task in tasks[:2]}
    assert first not in by


def test_a_drained_worker_ends_its_tasks_and_takes_no_more(db, server_url):
    tasks = add_tasks(db, "gated", 4)
    with worker_process("threads", server_url) as process:
        await_value(db, RUNNING, 2)
        process.terminate()
        open_gate(db)
        assert process.wait(PATIENCE_S) == 0
    assert effects(db) == tasks[:2]
    assert [reading.task(db, task).state for task in tasks[2:]] == ["ready"] * 2


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_second_signal_gives_running_tasks_back(db, server_url, kind):
    tasks = add_tasks(db, "gated", 2)
    with worker_process(kind, server_url) as process:
        await_value(db, RUNNING, 2)
        process.terminate()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    assert {reading.task(db, task).state for task in tasks} == {"ready"}
    assert effects(db) == []
    assert db.execute("SELECT count(*) FROM broker.worker").fetchone() == (0,)


def test_a_child_that_dies_fails_its_own_task_alone(db, server_url):
    types.define(db, "die", max_attempts=2, backoff_s=0.0)
    (task,) = add_tasks(db, "die", 1, 3)
    others = add_tasks(db, "effect", 6)
    with worker_process("processes", server_url):
        await_ends(db)
    view = reading.task(db, task)
    assert (view.reason, view.attempts) == ("failed", 2)
    assert "ended with exit code 3" in (view.error or "")
    assert effects(db) == others


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("tests.support.broker_program", ValueError, "module:name"),
        ("tests.support.nothing:HANDLERS", ValueError, "No module named"),
        ("tests.support.broker_program:NOTHING", ValueError, "NOTHING"),
        ("tests.support.broker_program:main", TypeError, "not a mapping"),
    ],
)
def test_handlers_that_a_process_could_not_import_are_refused(name, error, message):
    with pytest.raises(error, match=message):
        ProcessWorker("herdpy:nowhere", name)


def test_a_server_that_is_restarted_is_waited_for(tmp_path):
    """Claims, beats and finishes go on by themselves; what was under way is done once."""
    server = RunningServer(tmp_path / "data").ready()
    url = f"herdpy://ann@127.0.0.1:{server.port}/herdpy"
    with contextlib.closing(herdpy.connect(url, autocommit=True)) as db:
        migrate(db)
        make_tables(db)
        tasks = add_tasks(db, "effect", 40) + add_tasks(db, "gated", 4)  # some are under way in any case
        with worker_process("threads", url):
            assert await_until(lambda: len(effects(db)) > 8, PATIENCE_S)
            server.process.kill()
            server.close()
            server = RunningServer(tmp_path / "data", "--port", str(server.port)).ready()
            open_gate(db)
            await_ends(db)
        assert effects(db) == tasks
    server.close()

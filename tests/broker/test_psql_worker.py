"""The worker of plain psql, on a server: its effects are exactly once, and what follows a task follows."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from herdpy_broker import groups, reading, submission, types, upkeep, workers
from herdpy_broker.submission import Submission

WORKER = Path(__file__).parents[2] / "examples/broker/psql/worker.sh"
PATIENCE_S = 120.0


@pytest.fixture
def db(server_db):
    server_db.execute("CREATE TABLE effect (task BIGINT, payload JSONB)")
    types.define(server_db, "sql", max_attempts=2, backoff_s=0.0)
    yield server_db
    server_db.execute("DROP TABLE effect")


@pytest.fixture
def run(server, tmp_path):
    def run(work: str, group: str = "default") -> None:
        """Run the worker until no task is ready."""
        file = tmp_path / "work.sql"
        file.write_text(work)
        place = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "ann", "PGDATABASE": "herdpy"}
        command = [WORKER, group, "sql", file, "once"]
        done = subprocess.run(
            command, env={**os.environ, **place}, timeout=PATIENCE_S, capture_output=True, check=False
        )
        print(done.stderr.decode())
        assert done.returncode == 0, done

    return run


INSERT = "INSERT INTO effect VALUES (:task, :'payload');"


def test_tasks_are_done_once_in_their_order(db, run):
    low, high = submission.submit_all(
        db, [Submission("sql", {"text": "it's\n'quoted'"}), Submission("sql", [1], priority=5, batch="b")]
    )
    (other,) = submission.submit_all(db, [Submission("sql", group="elsewhere")])
    run(INSERT)
    done = db.execute("SELECT task, payload FROM effect ORDER BY task").fetchall()
    assert done == [(low, {"text": "it's\n'quoted'"}), (high, [1])]
    order = db.execute("SELECT id FROM broker.finished ORDER BY finished_at").fetchall()
    assert order == [(high,), (low,)]
    assert reading.task(db, high).batch == "b"
    assert reading.task(db, other).state == "ready"
    assert workers.reap(db) == []
    assert db.execute("SELECT count(*) FROM broker.worker").fetchone() == (0,)


def test_slots_pass_and_dependents_go_on(db, run):
    first = submission.submit(db, Submission("sql", slot="s"))
    second = submission.submit(db, Submission("sql", slot="s", waits_for_slot=True))
    third = submission.submit(db, Submission("sql", after=(first, second)))
    run(INSERT)
    assert [reading.task(db, task).state for task in (first, second, third)] == ["done"] * 3
    assert db.execute("SELECT count(*) FROM broker.dependency").fetchone() == (0,)


def test_work_that_fails_is_undone_and_given_back_by_upkeep(db, run):
    task = submission.submit(db, Submission("sql"))
    run(f"{INSERT} SELECT 1 / 0;")
    assert reading.task(db, task).state == "running"
    assert workers.reap(db) == [task]
    upkeep.promote(db)
    run(f"{INSERT} SELECT 1 / 0;")
    assert workers.reap(db) == []
    assert reading.task(db, task).reason == "worker died"
    assert db.execute("SELECT count(*) FROM effect").fetchone() == (0,)


def test_a_worker_that_is_given_up_during_its_work_has_no_effect(db, run):
    task = submission.submit(db, Submission("sql", max_attempts=1))
    run(f"{INSERT} UPDATE broker.task SET worker = 0 WHERE id = :task;")
    assert db.execute("SELECT count(*) FROM effect").fetchone() == (0,)
    assert reading.task(db, task).state == "running"


def test_groups_that_are_paused_or_counted_are_left_to_other_workers(db, run):
    groups.set_group(db, "quiet", paused=True)
    groups.set_group(db, "counted", max_running=1)
    tasks = submission.submit_all(db, [Submission("sql", group=name) for name in ("quiet", "counted")])
    run(INSERT, "quiet")
    run(INSERT, "counted")
    assert [reading.task(db, task).state for task in tasks] == ["ready"] * 2


def test_how_it_is_used_is_said():
    done = subprocess.run([WORKER], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (2, "usage: worker.sh GROUP TYPE WORK.sql [once]\n")

"""Which errors a transaction is run again after; tests/pool has how often, and the other ways to run one."""

from __future__ import annotations

import pytest

import herdpy

DEADLOCK = herdpy.OperationalError("deadlock", sqlstate="40P01", retryable=True)
SERIALIZATION = herdpy.OperationalError("not serializable", sqlstate="40001", retryable=True)
LOST = herdpy.OperationalError("lost", sqlstate="08006", outcome="not done")
UNKNOWN = herdpy.OperationalError("who knows", sqlstate="08007", outcome="unknown")
DONE = herdpy.OperationalError("the answer was lost", sqlstate="08006", outcome="done")


@pytest.fixture
def ready(conn):
    conn.execute("CREATE TABLE t (a INTEGER)")
    conn.commit()
    return conn


class Unlucky:
    """Inserts a row, then fails as often as it is asked to."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.runs = 0

    def __call__(self, connection):
        self.runs += 1
        connection.execute("INSERT INTO t VALUES (%s)", (self.runs,))
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def rows(connection):
    return connection.execute("SELECT a FROM t").fetchall()


@pytest.mark.parametrize("error", [DEADLOCK, SERIALIZATION, LOST], ids=["deadlock", "serialization", "lost"])
def test_bad_luck_is_tried_again(ready, error):
    function = Unlucky(error, error)
    assert herdpy.run_transaction(ready, function) == "done"
    assert function.runs == 3
    assert rows(ready) == [(3,)]


@pytest.mark.parametrize(
    "error", [UNKNOWN, DONE, ValueError("mine"), herdpy.IntegrityError("no", sqlstate="23505")]
)
def test_all_else_is_raised_at_once(ready, error):
    function = Unlucky(error)
    with pytest.raises(type(error)) as caught:
        herdpy.run_transaction(ready, function)
    assert caught.value is error
    assert function.runs == 1
    assert rows(ready) == []


@pytest.mark.parametrize("error", [UNKNOWN, DONE])
def test_a_commit_that_may_have_happened_is_not_run_again(conn, monkeypatch, error):
    conn.execute("CREATE TABLE t (a INTEGER)")
    conn.commit()
    commit = conn.shared_link.link.commit

    def committed_and_lost():
        commit()
        raise error

    function = Unlucky()
    with monkeypatch.context() as patch:
        patch.setattr(conn.shared_link.link, "commit", committed_and_lost)
        with pytest.raises(herdpy.OperationalError) as caught:
            herdpy.run_transaction(conn, function)
    assert caught.value is error
    assert function.runs == 1
    assert rows(conn) == [(1,)]

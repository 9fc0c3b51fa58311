"""Ctrl-C strikes while the driver talks to a server: what became of a commit is asked for, not guessed."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import psycopg
import pytest

import herdpy
from herdpy.dbapi.remote import wire as wires
from herdpy.dbapi.remote.statements import StatementKind, kind_of


@pytest.fixture
def url(server):
    with herdpy.connect(f"herdpy://ann@127.0.0.1:{server.port}/test", autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS interrupted")
        conn.execute("CREATE TABLE interrupted (k BIGINT)")  # no key: what is done twice is there twice
        conn.execute("CREATE SEQUENCE IF NOT EXISTS interrupted_numbers")
    return f"herdpy://ann@127.0.0.1:{server.port}/test?failover_timeout=20"


@contextlib.contextmanager
def ctrl_c(monkeypatch, *, sent):
    """The next exchange with the server is interrupted: before it was sent, or when its answer is there."""
    whole = wires.Wire._wait

    def wait(self, steps, deadline):
        monkeypatch.undo()
        if sent:
            whole(self, steps, deadline)
        raise KeyboardInterrupt

    monkeypatch.setattr(wires.Wire, "_wait", wait)
    with pytest.raises(KeyboardInterrupt):
        yield


def rows(url):
    with herdpy.connect(url, autocommit=True) as conn:
        return [k for (k,) in conn.execute("SELECT k FROM interrupted ORDER BY k").fetchall()]


@pytest.mark.parametrize("sent", [False, True])
def test_a_statement_of_its_own(url, monkeypatch, sent):
    with herdpy.connect(url, autocommit=True) as conn:
        conn.execute("INSERT INTO interrupted VALUES (1)")
        with ctrl_c(monkeypatch, sent=sent):
            conn.execute("INSERT INTO interrupted VALUES (2)")
        assert conn.info.transaction_status == herdpy.TransactionStatus.IDLE
        conn.execute("INSERT INTO interrupted VALUES (3)")
    assert rows(url) == ([1, 2, 3] if sent else [1, 3])


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("then", ["commit", "rollback", "execute"])
def test_a_commit(url, monkeypatch, sent, then):
    with herdpy.connect(url) as conn:
        conn.execute("INSERT INTO interrupted VALUES (1)")
        conn.commit()
        conn.execute("INSERT INTO interrupted VALUES (2)")
        with ctrl_c(monkeypatch, sent=sent):
            conn.commit()
        does = {
            "commit": conn.commit,
            "rollback": conn.rollback,
            "execute": lambda: conn.execute("INSERT INTO interrupted VALUES (3)"),
        }[then]
        if (then == "rollback") is sent:  # it says what is so
            with pytest.raises(herdpy.OperationalError) as caught:
                does()
            assert caught.value.outcome == ("done" if sent else "not done")
            conn.rollback()
        else:
            does()
            conn.rollback()
        conn.execute("INSERT INTO interrupted VALUES (4)")
        conn.commit()
    assert rows(url) == ([1, 2, 4] if sent else [1, 4])


def test_within_a_transaction(url, monkeypatch):
    with herdpy.connect(url) as conn:
        conn.execute("INSERT INTO interrupted VALUES (1)")
        with ctrl_c(monkeypatch, sent=True):
            conn.execute("INSERT INTO interrupted VALUES (2)")
        for _ in range(2):
            with pytest.raises(herdpy.OperationalError) as caught:
                conn.execute("INSERT INTO interrupted VALUES (3)")
            assert (caught.value.sqlstate, caught.value.outcome) == ("40001", "not done")
        conn.rollback()
        conn.execute("INSERT INTO interrupted VALUES (4)")
        conn.commit()
    assert rows(url) == [4]


def test_a_read_leaves_no_transaction_to_roll_back(url, monkeypatch):
    with herdpy.connect(url, autocommit=True) as conn:
        with ctrl_c(monkeypatch, sent=True):
            conn.execute("SELECT 1")
        assert conn.execute("SELECT 2").fetchone() == (2,)


@pytest.mark.parametrize("sql", ["SELECT nextval('interrupted_numbers')", "VALUES (setval('s', 1))"])
def test_what_takes_values_of_a_sequence_is_named(sql):
    assert kind_of(sql) is StatementKind.WRITE


@pytest.mark.parametrize(
    "call",
    [
        "set_config('a.b', 'c', false)",
        "pg_cancel_backend(1)",
        "pg_reload_conf()",
        "herdpy.forbid_commit('x')",
    ],
)
def test_what_acts_is_not_sent_again(call):
    assert kind_of(f"SELECT {call}") is StatementKind.OTHER
    assert kind_of(f"VALUES ({call})") is StatementKind.OTHER


def test_a_sequence_is_set_once(url, monkeypatch):
    with herdpy.connect(url, autocommit=True) as conn, herdpy.connect(url, autocommit=True) as other:
        assert conn.execute("SELECT setval('interrupted_numbers', 40)").fetchone() == (40,)
        whole = wires.Wire._wait

        def cut(self, steps, deadline):
            monkeypatch.undo()
            whole(self, steps, deadline)
            other.execute("SELECT setval('interrupted_numbers', 70)")
            raise wires.ConnectionLostError("cut")

        link = conn.shared_link.link  # the position that names begin with is known:
        link._commits.new_name(link._connection.wire)
        monkeypatch.setattr(wires.Wire, "_wait", cut)
        with pytest.raises(herdpy.OperationalError) as caught:
            conn.execute("SELECT setval('interrupted_numbers', 50)")
        assert caught.value.outcome == "done"
        assert conn.execute("SELECT last_value FROM interrupted_numbers").fetchone() == (70,)


@pytest.mark.parametrize("at", ["before", "in the middle", "after"])
def test_the_documented_way_of_plain_psycopg(server, url, at):
    """docs/consistency.md: a transaction is done once, wherever its connection is lost."""
    page = (Path(__file__).parents[2] / "docs/consistency.md").read_text()
    (code,) = re.findall(r"```python\n(def settled.*?)```", page, re.DOTALL)
    scope = {"psycopg": psycopg}
    exec(code, scope)
    losses = [at]

    class Losing(psycopg.Connection):
        def commit(self):
            lose = losses.pop() if losses else ""
            if lose == "before":
                self.pgconn.finish()
            if lose == "in the middle":
                self.pgconn.send_query(b"COMMIT")  # on its way, and nobody reads the answer
                self.pgconn.flush()
                self.pgconn.finish()
            super().commit()
            if lose == "after":
                raise psycopg.OperationalError("the answer was lost")

    def connect():
        return Losing.connect(f"host=127.0.0.1 port={server.port} user=ann dbname=test")

    scope["settled"](connect, f"once-{at}", lambda conn: conn.execute("INSERT INTO interrupted VALUES (1)"))
    assert rows(url) == [1]


def test_a_name_that_was_given_up_is_refused_later(server, url):
    """As a commit whose packet was delayed; commit_outcome alone would not have stopped it."""
    where = f"host=127.0.0.1 port={server.port} user=ann dbname=test"
    with psycopg.connect(where) as late, psycopg.connect(where, autocommit=True) as asking:
        late.execute("SET herdpy.request_id = 'late'")
        late.execute("INSERT INTO interrupted VALUES (1)")
        assert asking.execute("SELECT herdpy.commit_outcome('late')").fetchone() == ("not done",)
        assert asking.execute("SELECT herdpy.forbid_commit('late')").fetchone() == ("not done",)
        with pytest.raises(psycopg.Error) as caught:
            late.commit()
        assert caught.value.sqlstate == "HP002"
    assert rows(url) == []

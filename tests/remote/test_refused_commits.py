"""A commit that is refused when its statements have been answered already: by Sync, at the end of a request.

The statements of a request are one transaction, and each says that it is done before that is committed. Names
that were given up stand for whatever may refuse a commit, such as a log that another leader has taken over.
"""

from __future__ import annotations

import itertools

import pytest

import herdpy

_names = itertools.count()


@pytest.fixture
def conn(server):
    with herdpy.connect(f"herdpy://ann@127.0.0.1:{server.port}/test", autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS refused")
        conn.execute("CREATE TABLE refused (k BIGINT)")
        yield conn


def by_execute(conn):
    conn.execute("INSERT INTO refused VALUES (%s)", (1,))


def by_executemany(conn):
    conn.cursor().executemany("INSERT INTO refused VALUES (%s)", [(1,), (2,)])


def by_script(conn):
    conn.execute("INSERT INTO refused VALUES (1); INSERT INTO refused VALUES (2)")


def by_transaction(conn):
    with conn.transaction():
        conn.execute("INSERT INTO refused VALUES (1)")


@pytest.mark.parametrize("write", [by_execute, by_executemany, by_script, by_transaction])
def test_it_is_an_error(conn, write, monkeypatch):
    for _ in range(3):  # from the second time on it is prepared
        name = f"given up {next(_names)}"
        assert conn.execute("SELECT herdpy.forbid_commit(%s)", (name,)).fetchone() == ("not done",)
        with monkeypatch.context() as changes:
            changes.setattr(conn.shared_link.link._commits, "new_name", lambda _wire, name=name: name)
            with pytest.raises(herdpy.Error, match="was cancelled before its commit arrived") as caught:
                write(conn)
        assert (caught.value.sqlstate, caught.value.outcome) == ("HP002", "not done")
        assert conn.execute("SELECT count(*) FROM refused").fetchone() == (0,)
    write(conn)
    assert conn.execute("SELECT count(*) FROM refused").fetchone()[0] > 0

"""Connections that listen: what they hear, how long they wait, and what a failover leaves."""

from __future__ import annotations

import asyncio
import threading

import pytest

import herdpy
import herdpy.aio
from herdpy.dbapi.remote.statements import SessionSettings, StatementKind, kind_of


def heard(connection, **how):
    return [(one.channel, one.payload) for one in connection.notifies(**how)]


def test_a_connection_hears_itself_and_others(url):
    with herdpy.connect(url, autocommit=True) as one, herdpy.connect(url, autocommit=True) as other:
        one.execute("LISTEN a")
        one.execute("NOTIFY a, '1'")
        other.execute("SELECT pg_notify('a', %s)", ("2",))
        other.execute("NOTIFY b")
        assert heard(one, stop_after=2) == [("a", "1"), ("a", "2")]
        assert heard(other, timeout_s=0) == []
        one.execute("UNLISTEN a")
        other.execute("NOTIFY a, '3'")
        assert heard(one, timeout_s=0) == []


def test_a_connection_without_autocommit_listens_from_its_commit_on(conn, url):
    with herdpy.connect(url, autocommit=True) as other:
        conn.execute("LISTEN a")
        other.execute("NOTIFY a, 'before'")
        conn.commit()
        conn.execute("SELECT 1")
        other.execute("NOTIFY a, 'within a transaction'")
        assert heard(conn, timeout_s=0) == []
        conn.rollback()
        assert heard(conn, stop_after=1) == [("a", "within a transaction")]
        conn.execute("LISTEN b")
        conn.rollback()
        other.execute("NOTIFY b, 'x'")
        other.execute("NOTIFY a, 'y'")
        assert heard(conn, stop_after=1) == [("a", "y")]


def test_who_waits_hears_at_once(auto, url):
    auto.execute("LISTEN a")
    found = []
    waiting = threading.Thread(target=lambda: found.extend(auto.notifies(stop_after=1)))
    waiting.start()
    with herdpy.connect(url, autocommit=True) as other:
        assert auto.execute("SELECT 1").fetchone() == (1,)  # others use it meanwhile
        other.execute("NOTIFY a, 'x'")
        waiting.join(30)
        pid = other.execute("SELECT pg_backend_pid()").fetchone()[0]
    assert found == [herdpy.Notification("a", "x", pid)]


def test_tasks_listen(url):
    async def main():
        async with await herdpy.aio.connect(url, autocommit=True) as one:
            await one.execute("LISTEN a")
            listening = asyncio.ensure_future(anext(one.notifies()))
            async with await herdpy.aio.connect(url, autocommit=True) as other:
                await other.execute("NOTIFY a, 'x'")
                assert (await listening).payload == "x"
            assert [found async for found in one.notifies(timeout_s=0)] == []

    asyncio.run(main())


@pytest.mark.parametrize(
    "sql", ["NOTIFY a", "SELECT pg_notify('a', 'x')", "select PG_NOTIFY('a', 'x') from t"]
)
def test_what_notifies_is_never_sent_twice(sql):
    assert kind_of(sql) is StatementKind.WRITE


def test_a_new_session_listens_where_the_one_before_did():
    settings = SessionSettings({})
    for sql in ("LISTEN a", 'LISTEN "B"', "LISTEN c", "SET timezone = 'UTC'", "RESET ALL", "UNLISTEN a;"):
        settings.ran(sql, in_transaction=False)
    settings.ran("LISTEN lost", in_transaction=True)
    settings.ended(committed=False)
    settings.ran("UNLISTEN c", in_transaction=True)
    settings.ended(committed=True)
    assert settings.statements() == ['LISTEN "B"']
    assert settings.listens
    settings.ran("UNLISTEN *", in_transaction=False)
    assert settings.statements() == []
    settings.ran("LISTEN a", in_transaction=False)
    settings.ran("DISCARD ALL", in_transaction=False)
    assert not settings.listens

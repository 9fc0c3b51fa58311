"""Cancelling by another connection, and ending sessions from outside."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from herdpy.log.files import OsFiles
from tests.pgwire.servers import ThreadServer, thread_server, waits
from tests.pgwire.wire import SYNC, Wire, bind, cancel_request, execute, key_of, parse, query
from tests.serving.conftest import keep_in_thread


@contextlib.contextmanager
def locked(server: ThreadServer) -> Iterator[Wire]:
    """A row of table "held" is locked by the connection that this gives."""
    with Wire(server.address) as holder:
        holder.start()
        holder.ask(query("CREATE TABLE IF NOT EXISTS held (a int PRIMARY KEY, b int)"))
        holder.ask(query("INSERT INTO held SELECT 1, 0 WHERE NOT EXISTS (SELECT 1 FROM held)"))
        holder.ask(query("BEGIN"))
        assert holder.ask(query("UPDATE held SET b = 1"))[-1].meaning() == ("Z", b"T")
        yield holder


def terminate(server: ThreadServer, pid: int) -> bool:
    return server.server.registry.signal(pid, terminate=True)


UPDATES = {
    "simple": [query("UPDATE held SET b = 2")],
    "extended": [parse("UPDATE held SET b = 2"), bind(), execute(), SYNC],
}


@pytest.mark.parametrize("form", UPDATES)
def test_a_statement_that_waits_is_cancelled(server: ThreadServer, form: str) -> None:
    with locked(server), Wire(server.address) as waiter:
        pid, secret = key_of(waiter.start())
        waiter.send(*UPDATES[form])
        waits(server)
        with Wire(server.address) as canceller:
            canceller.send(cancel_request(pid, secret))
            assert canceller.rest() == []
        replies = [one.meaning() for one in waiter.replies()]
        assert replies[-2:] == [("E", "ERROR", "57014"), ("Z", b"I")]
        assert waiter.ask(query("SELECT 1"))[-1].meaning() == ("Z", b"I")
        waits(server, 0)


def test_a_wrong_secret_cancels_nothing(server: ThreadServer) -> None:
    with locked(server) as holder, Wire(server.address) as waiter:
        pid, secret = key_of(waiter.start())
        waiter.send(*UPDATES["simple"])
        waits(server)
        for wrong in (cancel_request(pid, secret ^ 1), cancel_request(pid + 1000, secret)):
            with Wire(server.address) as canceller:
                canceller.send(wrong)
                assert canceller.rest() == []
        holder.ask(query("ROLLBACK"))
        assert [one.meaning() for one in waiter.replies()] == [("C", b"UPDATE 1\0"), ("Z", b"I")]


def test_cancelling_nothing_does_nothing(server: ThreadServer) -> None:
    with Wire(server.address) as wire, Wire(server.address) as canceller:
        canceller.send(cancel_request(*key_of(wire.start())))
        assert canceller.rest() == []
        assert wire.ask(query("SELECT 1"))[1].kind == "D"


def test_a_query_of_the_columnar_engine_is_cancelled(server: ThreadServer) -> None:
    with Wire(server.address) as wire, Wire(server.address) as canceller:
        key = key_of(wire.start())
        wire.send(
            query(
                "SELECT count(*) FROM generate_series(1, 100000) AS a(x), generate_series(1, 100000) AS b(y) "
                "WHERE (x * y) % 7 = 3"
            )
        )
        server.wait_for(lambda: bool(server.database.driver.waiting))
        canceller.send(cancel_request(*key))
        replies = [one.meaning() for one in wire.replies()]
        assert [one[0] for one in replies] == ["T", "E", "Z"]  # PostgreSQL too describes rows first
        assert replies[1:] == [("E", "ERROR", "57014"), ("Z", b"I")]


def test_requests_wait_their_turn_behind_one_that_waits(server: ThreadServer) -> None:
    with locked(server) as holder, Wire(server.address) as waiter:
        waiter.start()
        waiter.send(query("UPDATE held SET b = 5 RETURNING b"), query("SELECT b FROM held"), SYNC)
        waits(server)
        with Wire(server.address) as other:
            other.start()
            assert other.ask(query("SELECT 1"))[-1].meaning() == ("Z", b"I")  # others are served
        holder.ask(query("COMMIT"))
        first, second, third = waiter.replies(), waiter.replies(), waiter.replies()
        assert [one.kind for one in first] == ["T", "D", "C", "Z"]
        assert second[1].body.endswith(b"5")
        assert [one.kind for one in third] == ["Z"]


def test_a_terminated_session_is_told(server: ThreadServer) -> None:
    with locked(server), Wire(server.address) as idle, Wire(server.address) as waiter:
        pids = [key_of(wire.start())[0] for wire in (idle, waiter)]
        waiter.send(*UPDATES["simple"])
        waits(server)
        for pid in pids:
            assert server.look(lambda pid=pid: terminate(server, pid))  # type: ignore[misc]
        for wire in (idle, waiter):
            assert [one.meaning() for one in wire.rest()] == [("E", "FATAL", "57P01")]
        waits(server, 0)
    assert not server.look(lambda: terminate(server, pids[0]))


def test_a_commit_under_way_is_answered_before_its_session_ends(
    server: ThreadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Wire(server.address) as wire:
        pid, _ = key_of(wire.start())
        wire.ask(query("CREATE TABLE IF NOT EXISTS slowly (a int)"))
        syncs, may_sync = threading.Event(), threading.Event()
        keep_in_thread(server.database.log)

        def slowly(descriptor: int) -> None:
            syncs.set()
            may_sync.wait(60)
            os.fdatasync(descriptor)

        monkeypatch.setattr(OsFiles, "fdatasync", staticmethod(slowly))
        wire.send(query("INSERT INTO slowly VALUES (1)"))
        assert syncs.wait(60)
        server.wait_for(lambda: any(run.is_committing for run in server.database.driver.waiting))
        assert server.look(lambda: terminate(server, pid))
        may_sync.set()
        assert [one.meaning() for one in wire.rest()] == [
            ("C", b"INSERT 0 1\0"),
            ("Z", b"I"),
            ("E", "FATAL", "57P01"),
        ]


def test_stopping_lets_a_transaction_end(tmp_path: Path) -> None:
    with thread_server(tmp_path / "data") as server:
        with Wire(server.address) as idle, Wire(server.address) as busy:
            idle.start()
            busy.start()
            busy.ask(query("CREATE TABLE t (a int)"))
            busy.ask(query("BEGIN; INSERT INTO t VALUES (1)"))
            stopped = asyncio.run_coroutine_threadsafe(server.server.stop(60), server.loop)
            assert [one.meaning() for one in idle.rest()] == [("E", "FATAL", "57P01")]
            assert busy.ask(query("SELECT a FROM t"))[-1].meaning() == ("Z", b"T")
            busy.send(query("COMMIT"))
            replies = [one.meaning() for one in busy.rest()]
            assert replies == [("C", b"COMMIT\0"), ("Z", b"I"), ("E", "FATAL", "57P01")]
            stopped.result(20)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(server.dsn)


def test_stopping_fast_ends_what_waits(tmp_path: Path) -> None:
    with thread_server(tmp_path / "data") as server:
        with locked(server) as holder, Wire(server.address) as waiter:
            waiter.start()
            waiter.send(*UPDATES["simple"])
            waits(server)
            server.run(server.server.stop())
            for wire in (holder, waiter):
                assert [one.meaning() for one in wire.rest()] == [("E", "FATAL", "57P01")]
        server.wait_for(server.is_clean)

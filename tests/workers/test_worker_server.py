"""A whole server: its workers end with it, however it ends, and statements by key do not wait for them."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.server_process import RunningServer
from tests.workers.conftest import LONG

TABLE = "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    running = RunningServer(
        tmp_path / "db", "--set", "workers.maximum=1", "--set", "workers.threads=1"
    ).ready()
    yield running
    running.close()


def children(pid: int) -> list[int]:
    """Its child processes."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def busy(server: RunningServer) -> tuple[int, threading.Thread, list[BaseException]]:
    """(a worker's process, the thread of a client that waits for a long query, the client's answer)."""
    connection = server.connect()
    told: list[BaseException] = []

    def run() -> None:
        try:
            connection.execute(LONG)
        except psycopg.Error as error:
            told.append(error)

    client = threading.Thread(target=run)
    client.start()
    server.wait_for_metric("herdpy_workers_busy 1.0")
    (worker,) = children(server.pid)
    return worker, client, told


def gone(pid: int) -> None:
    """Return when there is no such process."""
    until = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_client_that_goes_away_leaves_its_worker_to_others(server: RunningServer) -> None:
    worker, client, told = busy(server)
    (connection,) = server._connections
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.shutdown(socket.SHUT_RDWR)
    client.join(30)
    assert told
    server.wait_for_metric("herdpy_workers_busy 0.0")
    assert server.connect().execute("SELECT count(*) FROM generate_series(1, 9) a").fetchone() == (9,)
    assert children(server.pid) == [worker]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_its_server(server: RunningServer, how: signal.Signals) -> None:
    worker, client, told = busy(server)
    server.signal(how)
    server.wait()
    gone(worker)
    client.join(30)
    assert told


def test_statements_by_key_are_answered_while_a_query_runs(server: RunningServer) -> None:
    connection = server.connect()
    connection.execute(TABLE)
    connection.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i")
    _, client, told = busy(server)
    for row in range(1, 300):
        assert connection.execute("SELECT b FROM t WHERE a = %s", (row,)).fetchone() == (row,)
    assert client.is_alive()
    assert "herdpy_workers_busy 1.0" in server.get("/metrics")[1]
    connection.execute("INSERT INTO t VALUES (5000, 1)")
    pids = connection.execute("SELECT pid FROM pg_stat_activity WHERE state = 'active'").fetchall()
    assert len(pids) == 2
    for (pid,) in pids:
        connection.execute("SELECT pg_cancel_backend(%s) WHERE %s <> pg_backend_pid()", (pid, pid))
    client.join(30)
    assert isinstance(told[0], psycopg.errors.QueryCanceled)
    assert connection.execute("SELECT count(*), sum(b) FROM t").fetchone() == (1001, 500_501)


def read_all(connection: psycopg.Connection[Any], statement: str) -> int:
    """Take all that COPY gives; how many pieces there were."""
    with connection.cursor().copy(statement) as copy:
        return sum(1 for _ in copy)


def test_a_result_that_is_too_large_is_refused_as_it_grows(server: RunningServer) -> None:
    large = "SELECT g, repeat('x', 100) FROM generate_series(1, 500000) g"
    with server.connect() as connection:
        connection.execute("SET herdpy.max_result_size = '1MB'")
        with pytest.raises(psycopg.OperationalError, match=r"herdpy\.max_result_size") as caught:
            connection.execute(large).fetchall()
        assert caught.value.sqlstate == "54000"
        with pytest.raises(psycopg.OperationalError):
            read_all(connection, f"COPY ({large}) TO STDOUT")
        assert connection.execute("SELECT count(*) FROM generate_series(1, 1000)").fetchone() == (1000,)


def test_tables_are_analyzed_by_a_worker(server: RunningServer) -> None:
    with server.connect() as connection:
        connection.execute(TABLE)
        connection.execute("INSERT INTO t SELECT g, g % 7 FROM generate_series(1, 20000) g")
        connection.execute("VACUUM ANALYZE t")
        plan = connection.execute("EXPLAIN SELECT * FROM t WHERE a > 19990").fetchall()
        assert plan[-1] == ("Engine: own",)
        assert connection.execute("EXPLAIN SELECT * FROM t WHERE a > 5").fetchall()[-1] == (
            "Engine: columnar",
        )

"""A server's life: it starts, says so, refuses what is in its way, ends as it is asked to, and comes back."""

from __future__ import annotations

import contextlib
import json
import select
import signal
import socket
import threading

import psycopg
import pytest

from tests.support.server_process import PATIENCE_S


def told_something(connection: psycopg.Connection) -> None:
    """Wait until the server has said something to a client that asked for nothing: its end."""
    readable, _, _ = select.select([connection.pgconn.socket], [], [], PATIENCE_S)
    assert readable


def test_it_serves_and_says_where(server):
    with server.connect() as connection:
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
        assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]
    ready = server.wait_for("ready")
    assert ready["pid"] == server.pid
    assert ready["directory"] == str(server.data)


def test_every_line_of_the_log_is_json_with_time_level_logger_and_message(server):
    server.stop()
    for record in server.records():
        assert {"time", "level", "logger", "message"} <= record.keys()
        assert record["time"].endswith("Z")


# Ending


def test_sigterm_lets_a_transaction_come_to_its_end(server):
    idle = server.connect()
    busy = server.connect(autocommit=False)
    busy.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    server.signal(signal.SIGTERM)
    told_something(idle)
    with pytest.raises(psycopg.OperationalError):
        idle.execute("SELECT 1")
    busy.execute("INSERT INTO t VALUES (1)")
    busy.commit()
    assert server.wait() == 0
    assert server.records()[-1]["message"] == "stopped"


def test_what_was_committed_while_it_ended_is_there_again(server, start):
    busy = server.connect(autocommit=False)
    busy.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    server.signal(signal.SIGTERM)
    server.wait_for("SIGTERM")
    busy.execute("INSERT INTO t VALUES (1)")
    busy.commit()
    server.wait()
    with start().ready().connect() as connection:
        assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_nobody_new_is_let_in_while_it_ends(server):
    idle, busy = server.connect(), server.connect(autocommit=False)
    busy.execute("SELECT 1")
    server.signal(signal.SIGTERM)
    told_something(idle)
    with pytest.raises(psycopg.OperationalError):
        server.connect()
    status, body = server.get("/ready")
    assert (status, json.loads(body)["phase"]) == (503, "stopping")
    assert server.get("/health")[0] == 200
    busy.rollback()
    assert server.wait() == 0


def test_its_patience_ends(start):
    server = start("--set", "shutdown.graceful_timeout_s=0.2").ready()
    busy = server.connect(autocommit=False)
    busy.execute("SELECT 1")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    with pytest.raises(psycopg.errors.AdminShutdown):
        busy.execute("SELECT 1")


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_its_patience(start, second):
    server = start("--set", "shutdown.graceful_timeout_s=3600").ready()
    busy = server.connect(autocommit=False)
    busy.execute("SELECT 1")
    server.signal(signal.SIGTERM)
    server.wait_for("SIGTERM: no more sessions")
    server.signal(second)
    assert server.wait() == 0
    with pytest.raises(psycopg.errors.AdminShutdown):
        busy.execute("SELECT 1")


def test_sigint_ends_sessions_and_statements(server):
    server.connect().execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    holder = server.connect(autocommit=False)
    holder.execute("INSERT INTO t VALUES (1)")
    waiter = server.connect()
    raised = []

    def wait_for_the_lock():
        try:
            waiter.execute("INSERT INTO t VALUES (1)")
        except psycopg.Error as error:
            raised.append(error.sqlstate)

    thread = threading.Thread(target=wait_for_the_lock)
    thread.start()
    server.wait_for_metric("herdpy_lock_waiters 1.0")
    server.signal(signal.SIGINT)
    assert server.wait() == 0
    thread.join()
    assert raised == ["57P01"]
    with pytest.raises(psycopg.errors.AdminShutdown):
        holder.execute("SELECT 1")


def test_after_kill_9_everything_acknowledged_is_there(server, start):
    with server.connect() as connection:
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    acknowledged = []
    begun = threading.Event()

    def insert():
        with contextlib.suppress(psycopg.OperationalError), server.connect() as connection:
            for number in range(1_000_000):
                connection.execute("INSERT INTO t VALUES (%s)", (number,))
                acknowledged.append(number)
                if number == 50:
                    begun.set()

    thread = threading.Thread(target=insert)
    thread.start()
    assert begun.wait(PATIENCE_S)
    server.signal(signal.SIGKILL)
    assert server.wait() == -signal.SIGKILL
    thread.join()
    again = start().ready()
    with again.connect() as connection:
        found = [row[0] for row in connection.execute("SELECT a FROM t ORDER BY a")]
    assert found[: len(acknowledged)] == acknowledged
    assert len(found) - len(acknowledged) in (0, 1)  # one may have been made durable and not answered
    assert again.wait_for("database open")["level"] == "info"


# What is in its way


def test_a_data_directory_in_use_names_the_process_that_has_it(server, start):
    second = start()
    assert second.wait() == 1
    (said,) = [record for record in second.records() if record["level"] == "critical"]
    assert said["sqlstate"] == "55006"
    assert f"another process has {server.data} open" in said["message"]
    assert said["detail"] == f"Its process id is {server.pid}."


def test_a_port_in_use_is_told(server, start, tmp_path):
    second = start("--port", server.port, data=tmp_path / "other")
    assert second.wait() == 1
    (said,) = [record for record in second.records() if record["level"] == "critical"]
    assert said["message"] == (
        f"cannot start: postgres cannot listen on 127.0.0.1:{server.port}: Address already in use"
    )
    assert "ready" not in [record["message"] for record in second.records()]


def test_an_http_port_in_use_is_told(start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = start("--set", f"http.port={port}")
        assert server.wait() == 1
        said = server.wait_for("cannot start")
        assert (
            said["message"] == f"cannot start: http cannot listen on 127.0.0.1:{port}: Address already in use"
        )


def test_an_address_that_is_not_ours_is_told(start):
    server = start("--host", "192.0.2.1")
    assert server.wait() == 1
    assert "postgres cannot listen on 192.0.2.1:0: " in server.wait_for("cannot start")["message"]


def test_a_directory_of_something_else_is_told(start, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "letters.txt").write_text("dear")
    server = start()
    assert server.wait() == 1
    said = server.wait_for("cannot start")
    assert "is neither empty nor a HerdPy database" in said["message"]
    assert said["hint"] == "Name an empty or a new directory."


def test_no_database_is_made_where_none_may_be(start, tmp_path):
    server = start("--set", "data.create=false")
    assert server.wait() == 1
    assert "there is no database in" in server.wait_for("cannot start")["message"]
    assert not (tmp_path / "data").exists()


def test_a_damaged_log_is_told_and_nothing_is_changed(start):
    server = start("--set", "storage.checkpoint_interval_s=3600").ready()
    with server.connect() as connection:
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        for number in range(20):
            connection.execute("INSERT INTO t VALUES (%s, %s)", (number, "x" * 100))
    server.signal(signal.SIGKILL)
    server.wait()
    (ledger,) = (server.data / "log").glob("*.ledger")
    damaged = bytearray(ledger.read_bytes())
    damaged[damaged.index(b"HPEN") + 1000] ^= 0xFF
    ledger.write_bytes(damaged)
    again = start()
    assert again.wait() == 1
    said = again.wait_for("cannot start")
    assert said["sqlstate"] == "XX001"
    assert ledger.name in said["message"]
    assert ledger.read_bytes() == bytes(damaged)


def test_a_torn_end_is_told_and_cut(start):
    server = start("--set", "storage.checkpoint_interval_s=3600").ready()
    with server.connect() as connection:
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
    server.signal(signal.SIGKILL)
    server.wait()
    (ledger,) = (server.data / "log").glob("*.ledger")
    ledger.write_bytes(ledger.read_bytes().rstrip(b"\0")[:-5])
    again = start().ready()
    said = again.wait_for("the log's end was torn")
    assert said["level"] == "warning"
    assert ledger.name in said["file"]
    with again.connect() as connection:
        assert connection.execute("SELECT a FROM t").fetchall() == []

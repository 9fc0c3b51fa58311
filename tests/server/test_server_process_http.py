"""The HTTP page: health, readiness, metrics; and that metrics say what happened."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families


@pytest.fixture(scope="module")
def server(shared_server):
    """The server of this file."""
    return shared_server


def metrics(server) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by its name and labels."""
    status, text = server.get("/metrics")
    assert status == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found, name: str, **labels: str) -> float:
    """One sample; 0 for one that is not there yet."""
    return found.get((name, frozenset(labels.items())), 0.0)


def test_health_says_that_the_process_answers(server):
    status, body = server.get("/health")
    said = json.loads(body)
    assert (status, said["status"], said["phase"]) == (200, "ok", "serving")
    assert said["uptime_s"] > 0


def test_ready_says_that_clients_may_come(server):
    assert server.get("/ready") == (200, '{"ready": true, "phase": "serving", "problems": {}}\n')


def test_the_first_page_leads_to_the_others(server):
    status, body = server.get("/")
    assert status == 200
    for path in re.findall(r'href="([^"]+)"', body):
        assert server.get(path)[0] == 200


def test_other_pages_and_methods_are_refused(server):
    assert server.get("/etc/passwd")[0] == 404
    assert server.get("/" + "x" * 10_000)[0] == 400


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi", 405),
        (b"GET /health\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nbad header\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 40_000, 400),
        (b"\x16\x03\x01\x02\x00 a TLS greeting\r\n\r\n", 400),
    ],
    ids=["method", "no version", "bad header", "endless head", "tls"],
)
def test_a_bad_request_is_refused_and_the_next_one_is_answered(server, sent, status):
    address = ("127.0.0.1", server.http_port)
    with socket.create_connection(address, timeout=30) as client:
        client.sendall(sent)
        assert client.recv(4096).startswith(b"HTTP/1.1 %d" % status)
    assert server.get("/health")[0] == 200


def test_head_has_the_length_and_no_body(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=30)
    with contextlib.closing(connection):
        for _ in range(2):  # on one connection
            connection.request("HEAD", "/ready")
            answer = connection.getresponse()
            assert (answer.status, int(answer.headers["Content-Length"]) > 0, answer.read()) == (
                200,
                True,
                b"",
            )


def test_statements_are_counted_by_kind_and_outcome(server):
    with server.connect() as connection:
        connection.execute("CREATE TABLE counted (a INTEGER PRIMARY KEY)")
        before = metrics(server)
        connection.execute("INSERT INTO counted SELECT * FROM generate_series(1, 7)")
        for _ in range(3):
            connection.execute("SELECT a FROM counted WHERE a < 3").fetchall()
        for _ in range(2):
            with pytest.raises(psycopg.errors.UniqueViolation):
                connection.execute("INSERT INTO counted VALUES (1)")
        with pytest.raises(psycopg.errors.SyntaxError):
            connection.execute("INSERT INTO")
        after = metrics(server)

    def grown(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert grown("herdpy_statements_total", kind="SELECT", outcome="ok") == 3
    assert grown("herdpy_statements_total", kind="INSERT", outcome="ok") == 1
    assert grown("herdpy_statements_total", kind="INSERT", outcome="failed") == 3
    assert grown("herdpy_statement_rows_total", kind="INSERT") == 7
    assert grown("herdpy_statement_rows_total", kind="SELECT") == 6
    assert grown("herdpy_statement_seconds_count", kind="SELECT") == 3
    assert grown("herdpy_statement_seconds_bucket", kind="SELECT", le="+Inf") == 3
    assert grown("herdpy_statement_seconds_sum", kind="SELECT") > 0
    assert grown("herdpy_errors_total", sqlstate="23505") == 2
    assert grown("herdpy_errors_total", sqlstate="42601") == 1
    assert grown("herdpy_commits_total") == 1
    assert grown("herdpy_log_group_transactions_count") == 1
    assert grown("herdpy_log_sync_seconds_count") == 1
    assert grown("herdpy_log_bytes_total") > 0


def test_extended_statements_are_counted_too(server):
    with server.connect() as connection:
        before = metrics(server)
        for number in range(5):
            connection.execute("SELECT %s::int", (number,), prepare=True)
        after = metrics(server)
    labels = {"kind": "SELECT", "outcome": "ok"}
    assert value(after, "herdpy_statements_total", **labels) == (
        value(before, "herdpy_statements_total", **labels) + 5
    )


def test_a_cancelled_statement_is_no_failed_one(server):
    holder, waiter = server.connect(autocommit=False), server.connect()
    waiter.execute("CREATE TABLE held (a INTEGER PRIMARY KEY)")
    holder.execute("INSERT INTO held VALUES (1)")
    before = metrics(server)
    raised = []

    def wait_for_the_lock() -> None:
        try:
            waiter.execute("INSERT INTO held VALUES (1)")
        except psycopg.Error as error:
            raised.append(error.sqlstate)

    thread = threading.Thread(target=wait_for_the_lock)
    thread.start()
    server.wait_for_metric("herdpy_lock_waiters 1.0")
    waiter.cancel_safe()
    thread.join()
    after = metrics(server)
    holder.rollback()
    assert raised == ["57014"]

    def grown(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert grown("herdpy_statements_total", kind="INSERT", outcome="cancelled") == 1
    assert grown("herdpy_statements_total", kind="INSERT", outcome="failed") == 0
    assert grown("herdpy_errors_total", sqlstate="57014") == 1
    assert grown("herdpy_lock_waits_total") >= 1
    assert value(after, "herdpy_lock_waiters") == 0


def test_sessions_are_counted_by_state(server):
    open_now = [server.connect(), server.connect(autocommit=False)]
    open_now[1].execute("SELECT 1")
    found = metrics(server)
    assert value(found, "herdpy_sessions", state="idle in transaction") == 1
    idle = value(found, "herdpy_sessions", state="idle")
    assert idle >= 1
    open_now[0].close()
    server.wait_for_metric(f'herdpy_sessions{{state="idle"}} {idle - 1}')
    open_now[1].close()
    server.wait_for_metric('herdpy_sessions{state="idle in transaction"} 0.0')


def test_a_checkpoint_is_counted(server):
    with server.connect() as connection:
        connection.execute("CREATE TABLE checked (a INTEGER PRIMARY KEY)")
        before = metrics(server)
        connection.execute("CHECKPOINT")
        after = metrics(server)
    name = "herdpy_checkpoints_total"
    assert value(after, name, outcome="ok") > value(before, name, outcome="ok")
    assert value(after, "herdpy_checkpoint_lag_seconds") < 60


def test_openmetrics_is_given_to_who_asks_for_it(server):
    status, body = server.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert status == 200
    assert body.endswith("# EOF\n")


def test_it_can_be_switched_off(start):
    said = start("--set", "http.enabled=false").ready().wait_for("ready")
    assert "http_port" not in said

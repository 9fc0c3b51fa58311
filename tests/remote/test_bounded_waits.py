"""Nothing waits for ever, and whoever waits can be stopped: searches, requests, forked children."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

import herdpy
from herdpy.dbapi.remote import leader as remote_leader


def connect(port, **options):
    return herdpy.connect(f"herdpy://ann@127.0.0.1:{port}/test?sslmode=disable", autocommit=True, **options)


def test_request_timeout_ends_what_runs(server):
    with connect(server.port, request_timeout=0.2) as conn:
        for ask in (
            lambda: conn.execute("SELECT pg_sleep(60)"),
            lambda: conn.execute("SELECT pg_sleep(60); SELECT 1"),
            lambda: conn.execute("SELECT pg_sleep(60)", arrow=True),
            lambda: conn.cursor().executemany("SELECT pg_sleep(%s)", [(60,), (60,)]),
        ):
            with pytest.raises(herdpy.OperationalError) as caught:
                ask()
            assert (caught.value.sqlstate, caught.value.outcome) == ("57014", "not done")
        assert conn.execute("SELECT 1").fetchone() == (1,)
        assert conn.execute("SELECT pg_sleep(0.4)", timeout_s=60).rowcount == 1


def test_request_timeout_counts_the_search_for_a_leader(server, proxy):
    with connect(proxy.port, request_timeout=0.3, failover_timeout=3600) as conn:
        conn.execute("SELECT 1")
        proxy.close()
        with pytest.raises(herdpy.OperationalError) as caught:
            conn.execute("SELECT 1")
        assert (caught.value.sqlstate[:2], caught.value.outcome) == ("08", "not done")


def test_a_search_for_a_leader_is_cancelled(server, proxy, monkeypatch):
    searches = threading.Event()
    run = remote_leader.Search.run

    def told(search, deadline):
        searches.set()
        return run(search, deadline)

    with connect(proxy.port, failover_timeout=3600) as conn:
        conn.execute("SELECT 1")
        proxy.close()
        monkeypatch.setattr(remote_leader.Search, "run", told)
        over = threading.Event()

        def cancel():
            assert searches.wait(60)
            while not over.wait(0.02):
                conn.cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            with pytest.raises(herdpy.OperationalError) as caught:
                conn.execute("SELECT 1")
        finally:
            over.set()
            thread.join()
        assert (caught.value.sqlstate, caught.value.outcome) == ("57014", "not done")


FORKED = """
import herdpy, os, sys
conn = herdpy.connect(sys.argv[1], autocommit=True)
conn.execute("SELECT 1")
if (child := os.fork()) == 0:
    try:
        conn.execute("SELECT 2")
    except herdpy.InterfaceError as error:
        print(error, flush=True)
    with herdpy.connect(sys.argv[1]) as mine:
        print(mine.execute("SELECT 3").fetchone(), flush=True)
    sys.exit(0)  # with all that happens at exit
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(conn.execute("SELECT 4").fetchone())
conn.close()
"""


def test_a_forked_child_is_refused_and_leaves_the_parents_connection_alone(server):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORKED, f"herdpy://ann@127.0.0.1:{server.port}/test"],
        capture_output=True, text=True, timeout=60, check=True, env=dict(os.environ),
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "the connection was opened before a fork, in the parent process: open one here",
        "(3,)",
        "0",
        "(4,)",
    ]
    assert done.stderr == ""


def test_nothing_is_left_at_exit_of_a_connection_that_was_not_closed(server):
    code = (
        "import herdpy, sys, threading\n"
        "conn = herdpy.connect(sys.argv[1])\n"
        "conn.execute('SELECT 1')\n"
        "print([thread.name for thread in threading.enumerate()])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, f"herdpy://ann@localhost:{server.port}/test"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("['MainThread']\n", "")

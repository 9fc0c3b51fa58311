"""How connections end: closed, forgotten, at exit, and what a forked child may do."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import herdpy
from herdpy.dbapi import link


def run(code: str, path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_forgotten_connection_warns_and_is_closed(url):
    with herdpy.connect(url, autocommit=True) as watcher:
        watcher.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        connection = herdpy.connect(url)
        connection.execute("INSERT INTO t VALUES (1)")
        with pytest.warns(ResourceWarning, match="was deleted without being closed"):
            del connection
        link.settle()
        watcher.execute("INSERT INTO t VALUES (1)")  # the lock is free, the row was never there


def test_a_forgotten_connection_in_a_cycle(url):
    with herdpy.connect(url, autocommit=True) as watcher:
        connection = herdpy.connect(url)
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        cycle = [connection]
        cycle.append(cycle)
        del connection, cycle
        with pytest.warns(ResourceWarning):
            gc.collect()
        link.settle()
        watcher.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")


def test_cursors_keep_their_connection(url):
    cursor = herdpy.connect(url).execute("SELECT 1")
    assert cursor.fetchone() == (1,)
    cursor.connection.close()


def test_closed_connections_do_not_warn(url):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        connection = herdpy.connect(url)
        connection.close()
        del connection
        gc.collect()


OPEN_AT_EXIT = """
import sys, threading, herdpy
one = herdpy.connect(sys.argv[1], autocommit=True)
one.execute("CREATE TABLE t (a INTEGER)")
one.execute("INSERT INTO t VALUES (1)")
two = herdpy.connect(sys.argv[1])
two.execute("INSERT INTO t VALUES (2)")
{more}
print("end")
"""


@pytest.mark.parametrize(
    "more",
    [
        "keep = two.execute('SELECT a FROM t')",
        "cycle = [one, two]; cycle.append(cycle); del one, two; sys.exit(0)",
        "keep = two.execute('SELECT a FROM t')\n"
        "threading.Thread(target=lambda: one.execute('SELECT a FROM t').fetchall()).start()",
    ],
    ids=["open", "cycle", "thread"],
)
def test_connections_open_at_exit(path, more):
    done = run(OPEN_AT_EXIT.format(more=more), path, "-W", "error")
    assert (done.returncode, done.stderr) == (0, "")
    with herdpy.connect(path) as connection:
        assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_an_exception_at_the_end_is_shown_alone(path):
    done = run(OPEN_AT_EXIT.format(more="1/0"), path)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ZeroDivisionError: division by zero")
    assert done.stderr.count("Traceback") == 1


def test_a_daemon_thread_that_waits_does_not_hold_up_the_exit(path):
    code = """
import sys, threading, herdpy
one = herdpy.connect(sys.argv[1], autocommit=True)
one.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER)")
one.execute("INSERT INTO t VALUES (1, 0)")
one.execute("BEGIN")
one.execute("UPDATE t SET n = 1")
two = herdpy.connect(sys.argv[1], autocommit=True)
began = threading.Event()
def work():
    began.set()
    two.execute("UPDATE t SET n = 2")
threading.Thread(target=work, daemon=True).start()
began.wait()
"""
    done = run(code, path)
    assert done.returncode == 0
    with herdpy.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_no_thread_is_left(path):
    code = """
import sys, threading, herdpy
connection = herdpy.connect(sys.argv[1])
connection.execute("SELECT 1")
connection.close()
print([thread.name for thread in threading.enumerate()])
"""
    assert run(code, path).stdout == "['MainThread']\n"


def in_child(work) -> str:
    """What ``work`` returns in a forked child that leaves without cleaning up."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: there are threads
        child = os.fork()
    if child == 0:
        try:
            answer = work()
        except BaseException as error:  # noqa: BLE001 - reported to the parent
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return answer


def test_a_forked_child_must_not_use_the_connection(auto):
    auto.execute("CREATE TABLE t (a INTEGER)")
    cursor = auto.execute("SELECT 1")
    for work in (
        lambda: auto.execute("SELECT 1"),
        lambda: cursor.execute("SELECT 1"),
        cursor.fetchone,
        auto.commit,
        auto.cursor,
    ):
        assert "InterfaceError: the connection was opened before a fork" in in_child(work)
    assert in_child(lambda: str(auto.close())) == "None"
    auto.execute("INSERT INTO t VALUES (1)")
    assert auto.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_a_forked_child_cannot_open_the_directory_of_its_parent(auto, path):
    answer = in_child(lambda: repr(herdpy.connect(path)))
    assert "OperationalError" in answer
    assert str(os.getpid()) in answer
    assert auto.execute("SELECT 1").fetchone() == (1,)


def test_a_forked_child_may_open_another(auto, tmp_path):
    def work():
        with herdpy.connect(tmp_path / "child") as connection:
            return repr(connection.execute("SELECT 1").fetchone())

    assert in_child(work) == "(1,)"


def test_a_child_that_forks_and_exits_leaves_the_parent_alone(path):
    code = """
import os, sys, herdpy
connection = herdpy.connect(sys.argv[1], autocommit=True)
connection.execute("CREATE TABLE t (a INTEGER)")
child = os.fork()
if child == 0:
    sys.exit(0)  # runs what is registered for the exit
assert os.waitpid(child, 0)[1] == 0
connection.execute("INSERT INTO t VALUES (1)")
print(connection.execute("SELECT a FROM t").fetchall())
"""
    done = run(code, path, "-W", "ignore::DeprecationWarning")
    assert (done.stdout, done.stderr, done.returncode) == ("[(1,)]\n", "", 0)

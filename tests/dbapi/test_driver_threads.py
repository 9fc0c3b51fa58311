"""Threads: each with its own connection, many on one, and one that cancels another."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import herdpy

THREADS = 8


def test_threads_with_a_connection_each(auto, url):
    auto.execute("CREATE TABLE t (worker INTEGER, n INTEGER, PRIMARY KEY (worker, n))")
    start = threading.Barrier(THREADS)

    def work(worker):
        with herdpy.connect(url) as connection:
            start.wait()
            for n in range(50):
                connection.execute("INSERT INTO t VALUES (%s, %s)", (worker, n))
                found = connection.execute("SELECT count(*) FROM t WHERE worker = %s", (worker,)).fetchone()
                assert found == (n + 1,)
                if n % 5 == 0:
                    connection.commit()

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    assert auto.execute("SELECT count(*), count(DISTINCT worker) FROM t").fetchone() == (
        THREADS * 50,
        THREADS,
    )


def test_counting_up_in_threads_loses_nothing(auto, url):
    auto.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER)")
    auto.execute("INSERT INTO t VALUES (1, 0)")

    def work(_):
        with herdpy.connect(url, autocommit=True) as connection:
            for _ in range(40):
                connection.execute("UPDATE t SET n = n + 1 WHERE a = 1")

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    assert auto.execute("SELECT n FROM t").fetchone() == (THREADS * 40,)


def test_threads_on_one_connection(auto):
    auto.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")

    def work(worker):
        for n in range(50):
            number = worker * 1000 + n
            auto.execute("INSERT INTO t VALUES (%s)", (number,))
            assert auto.execute("SELECT a FROM t WHERE a = %s", (number,)).fetchone() == (number,)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    assert auto.execute("SELECT count(*) FROM t").fetchone() == (THREADS * 50,)


def test_threads_that_open_and_close(url):
    herdpy.connect(url).close()
    start = threading.Barrier(THREADS)

    def work(_):
        start.wait()
        for _ in range(10):
            with herdpy.connect(url) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))


def test_a_writer_waits_for_the_lock_of_another(auto, url):
    auto.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER)")
    auto.execute("INSERT INTO t VALUES (1, 0)")
    with herdpy.connect(url) as holder:
        holder.execute("UPDATE t SET n = 10 WHERE a = 1")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(auto.execute, "UPDATE t SET n = n + 1 WHERE a = 1")
            assert holder.execute("SELECT n FROM t").fetchone() == (10,)
            holder.commit()
            assert waiting.result(timeout=60).rowcount == 1
    assert auto.execute("SELECT n FROM t").fetchone() == (11,)


def test_cancel_of_one_that_waits_for_a_lock(auto, url):
    auto.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER)")
    auto.execute("INSERT INTO t VALUES (1, 0)")
    with herdpy.connect(url) as holder:
        holder.execute("UPDATE t SET n = 10 WHERE a = 1")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(auto.execute, "UPDATE t SET n = n + 1 WHERE a = 1")
            while not waiting.done():
                auto.cancel()
            with pytest.raises(herdpy.OperationalError) as caught:
                waiting.result()
        assert caught.value.sqlstate == "57014"
        holder.rollback()
    assert auto.execute("SELECT n FROM t").fetchone() == (0,)
    assert auto.execute("UPDATE t SET n = n + 1 WHERE a = 1").rowcount == 1


def test_cancel_of_a_long_query(auto):
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            auto.execute,
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 100000000)"
            " SELECT count(*) FROM r AS a, r AS b",
        )
        while not running.done():
            auto.cancel()
        with pytest.raises(herdpy.OperationalError) as caught:
            running.result()
    assert caught.value.sqlstate == "57014"
    assert auto.execute("SELECT 1").fetchone() == (1,)


def test_cancel_when_nothing_runs(auto):
    auto.cancel()
    assert auto.execute("SELECT 1").fetchone() == (1,)


def test_lock_timeout(auto, url):
    auto.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER)")
    auto.execute("INSERT INTO t VALUES (1, 0)")
    with herdpy.connect(url) as holder:
        holder.execute("UPDATE t SET n = 10 WHERE a = 1")
        auto.execute("SET lock_timeout = '20ms'")
        with pytest.raises(herdpy.OperationalError) as caught:
            auto.execute("DELETE FROM t WHERE a = 1")
        assert caught.value.sqlstate == "55P03"
        assert caught.value.retryable
        holder.rollback()
    assert auto.execute("DELETE FROM t WHERE a = 1").rowcount == 1


@pytest.mark.parametrize(
    "waits", ["DELETE FROM t WHERE a = 1", "DROP TABLE t", "ALTER TABLE t ADD m INTEGER"]
)
def test_lock_timeout_of_a_transaction_that_has_begun(auto, url, waits):
    auto.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER)")
    auto.execute("INSERT INTO t VALUES (1, 0)")
    with herdpy.connect(url) as holder, herdpy.connect(url) as other:
        holder.execute("UPDATE t SET n = 10 WHERE a = 1")
        other.execute("SET LOCAL lock_timeout = '20ms'")
        with pytest.raises(herdpy.OperationalError, match="lock timeout") as caught:
            other.execute(waits)
        assert caught.value.sqlstate == "55P03"
        other.rollback()
        holder.rollback()


def test_a_deadlock_ends_with_an_error_for_one(auto, url):
    auto.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER)")
    auto.execute("INSERT INTO t VALUES (1, 0), (2, 0)")
    both = threading.Barrier(2)

    def work(first, second):
        with herdpy.connect(url) as connection:
            connection.execute("UPDATE t SET n = n + 1 WHERE a = %s", (first,))
            both.wait()
            try:
                connection.execute("UPDATE t SET n = n + 1 WHERE a = %s", (second,))
            except herdpy.OperationalError as error:
                connection.rollback()
                return error.sqlstate, error.retryable
            connection.commit()
            return None

    with ThreadPoolExecutor(2) as pool:
        results = {*pool.map(work, (1, 2), (2, 1))}
    assert results == {None, ("40P01", True)}
    assert auto.execute("SELECT sum(n) FROM t").fetchone()[0] == 2


def test_ctrl_c_while_waiting_for_a_lock(auto, url):
    auto.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER)")
    auto.execute("INSERT INTO t VALUES (1, 0)")
    stop = threading.Event()

    def interrupt():
        while auto.shared_link.link.session.waits.kind is None and not stop.wait(0.001):
            pass
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with herdpy.connect(url) as holder:
        holder.execute("UPDATE t SET n = 10 WHERE a = 1")
        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                auto.execute("UPDATE t SET n = n + 1 WHERE a = 1")
        finally:
            stop.set()
            thread.join()
        assert auto.info.transaction_status is herdpy.TransactionStatus.IDLE
        assert auto.execute("SELECT n FROM t WHERE a = 1").fetchone() == (0,)
        holder.rollback()
    assert auto.execute("UPDATE t SET n = n + 1 WHERE a = 1").rowcount == 1

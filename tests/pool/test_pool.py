"""Pools for threads: lending, waiting, taking back, replacing, closing."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
import threading

import pytest

import herdpy
from herdpy.dbapi import link
from tests.dbapi.test_driver_lifetime import in_child


def until(condition) -> None:
    """Wait for something that another thread is about to do; the test's time-out is its end."""
    pause = threading.Event()
    while not condition():
        pause.wait(0.005)


def waiting(pool, count: int):
    until(lambda: pool.stats().waiting == count)


def test_a_block_commits_and_rolls_back(url):
    with herdpy.Pool(url, max_size=2) as pool:
        with pool.connection() as conn:
            conn.execute("CREATE TABLE t (a INTEGER)")
        with pool.connection() as conn:
            assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)
        with pytest.raises(ZeroDivisionError), pool.connection() as conn:
            conn.execute("INSERT INTO t VALUES (%s)", (1 / conn.execute("SELECT 0").fetchone()[0],))
        with pool.connection() as again:
            assert again is conn
            assert again.info.transaction_status == herdpy.TransactionStatus.IDLE
        stats = pool.stats()
        assert (stats.size, stats.made, stats.asked, stats.rolled_back) == (1, 1, 4, 0)
    assert conn.closed
    assert pool.closed


def test_what_comes_back_in_a_transaction_is_rolled_back(url):
    with herdpy.Pool(url, max_size=1, row_factory=herdpy.rows.dict_row) as pool:
        with pool.connection() as conn:
            conn.execute("CREATE TABLE t (a INTEGER)")
        conn = pool.getconn()
        conn.execute("INSERT INTO t VALUES (1)")
        pool.putconn(conn)
        with pytest.raises(herdpy.ProgrammingError, match="lent"):
            pool.putconn(conn)
        conn = pool.getconn()
        conn.execute("INSERT INTO t VALUES (2)")
        with pytest.raises(herdpy.DataError):
            conn.execute("INSERT INTO t VALUES (1 / 0)")
        pool.putconn(conn)
        conn = pool.getconn()
        conn.autocommit = True
        conn.row_factory = herdpy.rows.tuple_row
        pool.putconn(conn)
        with pool.connection() as conn:
            assert conn.execute("SELECT count(*) AS n FROM t").fetchone() == {"n": 0}
            assert not conn.autocommit
        assert pool.stats().rolled_back == 2
        assert pool.stats().made == 1


def test_who_asks_first_is_served_first(url):
    with herdpy.Pool(url, max_size=1) as pool:
        served: list[int] = []

        def use(n):
            with pool.connection():
                served.append(n)

        threads = [threading.Thread(target=use, args=(n,)) for n in range(6)]
        with pool.connection():
            for n, thread in enumerate(threads):
                thread.start()
                waiting(pool, n + 1)
        for thread in threads:
            thread.join()
        assert served == list(range(6))
        stats = pool.stats()
        assert (stats.waited, stats.waiting, stats.made) == (6, 0, 1)
        assert stats.waited_s > 0


def test_no_more_than_there_may_be(url):
    with herdpy.Pool(url, 0, 3, autocommit=True) as pool:
        held = [pool.getconn() for _ in range(3)]
        assert len({id(conn) for conn in held}) == 3
        with pytest.raises(herdpy.PoolTimeout) as caught:
            pool.getconn(0.01)
        assert isinstance(caught.value, herdpy.OperationalError)
        assert (caught.value.sqlstate, caught.value.outcome) == ("53300", "not done")
        assert pool.stats().timeouts == 1
        for conn in held:
            pool.putconn(conn)
        assert pool.stats().idle == 3


def test_a_broken_one_is_replaced(url):
    with herdpy.Pool(url, max_size=1) as pool:
        with pool.connection() as conn:
            conn.close()
        with pool.connection() as other:
            assert other is not conn
            other.execute("SELECT 1")
        assert (pool.stats().broken, pool.stats().made, pool.stats().size) == (1, 2, 1)
        kept = pool.getconn()
        got: list[object] = []
        thread = threading.Thread(target=lambda: got.append(pool.getconn()))
        thread.start()
        waiting(pool, 1)
        kept.close()
        pool.putconn(kept)
        thread.join()  # who was in line made another
        assert got != [kept]
        pool.putconn(got.pop())


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_forgotten_one_gives_its_place_back(url):
    with herdpy.Pool(url, max_size=1) as pool:
        pool.getconn()  # the answer is dropped at once; nobody sees the warning but who looks for it
        with pool.connection() as conn:
            conn.execute("SELECT 1")
        del conn
        lent = [pool.getconn()]
        got: list[object] = []
        thread = threading.Thread(target=lambda: got.append(pool.getconn()))
        thread.start()
        waiting(pool, 1)
        with pytest.warns(ResourceWarning):
            lent.clear()
        thread.join()
        pool.putconn(got.pop())
        assert pool.stats().broken == 2
    link.settle()


def test_a_forgotten_pool_closes_its_connections(url):
    pools = [herdpy.Pool(url)]
    with pools[0].connection() as conn:
        conn.execute("SELECT 1")
    with pytest.warns(ResourceWarning, match=r"<herdpy\.Pool .* was deleted without being closed") as told:
        until(lambda: pools.clear() or told.list)  # it goes with the keeper's look at it, if there is one
    link.settle()
    assert conn.closed


def test_check_configure_and_reset(url, caplog):
    wrong: list[object] = []
    seen: list[str] = []

    def check(conn):
        seen.append("check")
        conn.execute("SELECT 1")
        if conn in wrong:
            raise herdpy.OperationalError("no good")

    def configure(conn):
        seen.append("configure")
        conn.execute("SET statement_timeout = 1000")
        conn.commit()

    def reset(conn):
        seen.append("reset")
        if conn in wrong:
            raise ValueError("will not")

    with herdpy.Pool(url, 0, 1, check=check, configure=configure, reset=reset) as pool:
        with pool.connection() as conn:
            assert conn.execute("SHOW statement_timeout").fetchone() == ("1s",)
        assert seen == ["configure", "reset"]
        wrong.append(conn)
        with pool.connection() as other:
            assert other is not conn
            assert conn.closed
        assert seen[2:] == ["check", "configure", "reset"]
        with caplog.at_level(logging.WARNING, "herdpy.pool"), pool.connection():
            wrong.append(other)
        assert other.closed
        assert "a connection that came back is closed" in caplog.text
        assert pool.stats().broken == 2
    with (
        herdpy.Pool(url, configure=lambda conn: conn.execute("SELECT 1")) as pool,
        pytest.raises(herdpy.ProgrammingError, match="configure left") as caught,
    ):
        pool.getconn()
    assert caught.value.sqlstate == "25001"


def test_closing(url):
    pool = herdpy.Pool(url, max_size=1)
    conn = pool.getconn()
    said: list[BaseException] = []

    def ask():
        try:
            pool.getconn()
        except herdpy.PoolClosed as error:
            said.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    waiting(pool, 1)
    assert pool.close(0.01) == 1
    thread.join()
    assert len(said) == 1
    conn.execute("SELECT 1")  # it is left to who has it
    pool.putconn(conn)
    assert conn.closed
    assert pool.close() == 0
    for use in (pool.getconn, pool.__enter__, pool.open):
        with pytest.raises(herdpy.PoolClosed) as caught:
            use()
        assert caught.value.sqlstate == "08003"

    pool = herdpy.Pool(url, max_size=1)
    conn = pool.getconn()
    thread = threading.Thread(target=lambda: said.append(pool.close(60)))
    thread.start()
    until(lambda: pool.closed)
    pool.putconn(conn)  # which close() waits for
    thread.join()
    assert said[1:] == [0]


def test_what_expires_is_closed_and_what_is_missing_made(url):
    with herdpy.Pool(url, 2, 4, max_idle_s=0.05) as pool:
        pool.open()
        assert pool.stats().size == 2
        held = [pool.getconn() for _ in range(4)]
        for conn in held:
            pool.putconn(conn)
        until(lambda: pool.stats().size == 2)
        until(lambda: sum(conn.closed for conn in held) == 2)
        assert pool.stats().expired == 2
    with herdpy.Pool(url, 1, 1, max_lifetime_s=0.05) as pool:
        with pool.connection() as conn:
            pass
        until(lambda: conn.closed)
        until(lambda: pool.stats().made > 1)


def test_many_threads(url):
    with herdpy.Pool(url, 1, 4, autocommit=True) as pool:
        with pool.connection() as conn:
            conn.execute("CREATE TABLE t (a INTEGER)")

        def work():
            for n in range(10):
                with pool.connection() as conn:
                    conn.execute("INSERT INTO t VALUES (%s)", (n,))

        threads = [threading.Thread(target=work) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pool.connection() as conn:
            assert conn.execute("SELECT count(*) FROM t").fetchone() == (120,)
        assert pool.stats().size <= 4


def test_run_transaction_on_a_pool(url):
    with herdpy.Pool(url) as pool, pool.connection() as conn:
        assert herdpy.run_transaction(conn, lambda conn: conn.execute("SELECT 5").fetchone()) == (5,)


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_size": -1},
        {"min_size": 3, "max_size": 2},
        {"max_size": 0},
        {"max_size": 1.5},
        {"max_size": True},
        {"timeout_s": -1},
        {"max_idle_s": math.nan},
        {"max_lifetime_s": "long"},
    ],
)
def test_sizes_and_times_that_cannot_be(tmp_path, wrong):
    with pytest.raises(herdpy.ProgrammingError) as caught:
        herdpy.Pool(tmp_path, **wrong)
    assert caught.value.sqlstate == "22023"


def test_what_cannot_be_connected_to(tmp_path):
    with pytest.raises(herdpy.InterfaceError):
        herdpy.Pool("postgresql://localhost")
    with herdpy.Pool(tmp_path / "none", create=False) as pool:
        with pytest.raises(herdpy.OperationalError) as caught:
            pool.open()
        assert caught.value.sqlstate == "08001"
        assert pool.stats().failed == 1
        assert pool.stats().size == 0
    with herdpy.Pool("herdpy://127.0.0.1:1/none", timeout_s=0.2) as pool:
        with pytest.raises(herdpy.OperationalError) as caught:
            pool.getconn()
        assert caught.value.sqlstate == "08001"


def test_a_forked_child_must_not_use_it(tmp_path):
    with herdpy.Pool(tmp_path / "db") as pool:
        with pool.connection() as conn:
            conn.execute("SELECT 1")
        for use in (pool.getconn, pool.__enter__, lambda: pool.putconn(conn)):
            assert "InterfaceError: the pool was made before a fork" in in_child(use)
        assert in_child(lambda: str(pool.close())) == "0"
        with pool.connection() as conn:
            conn.execute("SELECT 1")


def test_forgotten_and_at_exit(tmp_path):
    code = """
import gc, sys, threading, warnings, herdpy
from herdpy.dbapi import link
pool = herdpy.Pool(sys.argv[1])
with pool.connection() as conn:
    conn.execute("CREATE TABLE t (a INTEGER)")
del conn
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    del pool
print([str(one.message).partition(" [")[0] for one in said])
link.settle()
left = herdpy.Pool(sys.argv[1])
held = left.getconn()
held.execute("INSERT INTO t VALUES (1)")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path / "db")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "['<herdpy.Pool']\n"

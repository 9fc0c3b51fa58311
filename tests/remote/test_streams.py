"""Streams of a server: no row is made before somebody wants it, and none is kept."""

from __future__ import annotations

import itertools
import threading

import pytest

import herdpy
from herdpy.dbapi.remote import wire
from herdpy.rows import scalar_row

FAILS_LATE = "SELECT 1 / (900000 - n) FROM generate_series(1, 1000000) AS s (n)"


@pytest.fixture
def auto(server):
    with herdpy.connect(f"herdpy://ann@127.0.0.1:{server.port}/test", autocommit=True) as conn:
        yield conn


@pytest.mark.soak
def test_a_stream_makes_no_more_rows_than_are_read(auto):
    """The row that fails is the 39,000,000th: who stops before never hears of it."""
    query = "SELECT 1 / (39000000 - n) FROM generate_series(1, 40000000) AS s (n)"
    with auto.stream(query, size=500) as rows:
        assert len(list(itertools.islice(rows, 2_000))) == 2_000
    assert auto.info.transaction_status == herdpy.TransactionStatus.IDLE


def test_an_error_comes_with_the_rows_or_behind_them(auto):
    with pytest.raises(herdpy.DataError) as caught, auto.stream(FAILS_LATE, size=20_000) as rows:
        rows.fetch_record_batch().read_all()
    assert caught.value.sqlstate == "22012"
    assert auto.info.transaction_status == herdpy.TransactionStatus.IDLE


@pytest.mark.soak
def test_nothing_grows_while_ten_million_rows_pass(auto):
    resident = []
    (process,) = auto.execute("SELECT pg_backend_pid()").fetchone()
    with auto.stream(
        "SELECT n FROM generate_series(1, 10000000) AS s (n)", size=50_000, row_factory=scalar_row
    ) as rows:
        total = 0
        while got := rows.fetchmany():
            total += sum(got)
            resident.append(len(rows._cursor._buffer))
    assert process
    assert total == 50_000_005_000_000
    assert max(resident) <= 50_000


def test_libpq_before_17_closes_cursors_that_are_there_and_those_that_are_not(auto, monkeypatch):
    monkeypatch.setattr(wire, "_sends_close", lambda pgconn, name: False)
    with auto.transaction():
        gone = auto.cursor('g"one').execute("SELECT generate_series(1, 3)")
    with auto.transaction():
        auto.execute("CREATE TEMPORARY TABLE kept (a INTEGER)")
        gone.close()
        cursor = auto.cursor("c").execute("SELECT generate_series(1, 3)")
        assert cursor.fetchone() == (1,)
        cursor.close()
        again = auto.cursor("c").execute("SELECT 5")  # so the name was free
        assert again.fetchall() == [(5,)]
    again.close()
    assert auto.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_cancelled_from_another_thread(auto):
    over = threading.Event()

    def cancel():
        while not over.wait(0.05):
            auto.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        with pytest.raises(herdpy.OperationalError) as caught, auto.stream("SELECT pg_sleep(60)") as rows:
            list(rows)
    finally:
        over.set()
        thread.join()
    assert caught.value.sqlstate == "57014"
    assert auto.execute("SELECT 1").fetchone() == (1,)

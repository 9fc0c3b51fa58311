"""Streams of a directory: rows are made when they are asked for, and whoever stops asking stops the query.

The answer has ten million million rows, so nothing that makes or keeps all of it comes back.
"""

from __future__ import annotations

import itertools
import threading

import pytest

import herdpy
from herdpy.rows import scalar_row

ENDLESS = "SELECT a.n FROM generate_series(1, 100000000) AS a (n), generate_series(1, 100000) AS b (m)"
FRUITLESS = f"SELECT count(*) FROM ({ENDLESS} WHERE a.n + b.m = 0) AS c"


@pytest.fixture
def auto(tmp_path):
    with herdpy.connect(tmp_path, autocommit=True) as conn:
        yield conn


def portals(conn):
    return conn.shared_link.link.session.portals


def ends(conn):
    """The connection is as if nothing had been asked."""
    assert conn.info.transaction_status == herdpy.TransactionStatus.IDLE
    assert not portals(conn)
    return conn.execute("SELECT 1").fetchone() == (1,)


def test_no_more_rows_are_made_or_kept_than_are_read(auto):
    with auto.stream(ENDLESS, size=5_000, row_factory=scalar_row) as rows:
        assert sum(1 for _ in itertools.islice(rows, 100_000)) == 100_000
        (portal,) = portals(auto).values()
        assert portal.buffer.count < 120_000
        assert sum(kept.stop - kept.start for kept in portal.buffer._kept) <= 20_000
    assert ends(auto)


def test_streams_beside_each_other_wait_for_their_readers(auto):
    with auto.transaction(), auto.stream(ENDLESS) as one, auto.stream(ENDLESS) as other:
        assert [next(one) for _ in range(3000)] == [next(other) for _ in range(3000)]
        assert auto.execute("SELECT count(*) FROM generate_series(1, 10) AS s (n)").fetchone() == (10,)
    assert ends(auto)


def test_rows_of_a_table_come_as_they_are_asked_for(auto):
    auto.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    auto.cursor().executemany("INSERT INTO t VALUES (%s)", [(n,) for n in range(3000)])
    with auto.stream("SELECT a.id FROM t AS a, t AS b, t AS c, t AS d", row_factory=scalar_row) as rows:
        assert {next(rows) for _ in range(20_000)} <= set(range(3000))
    with auto.stream("SELECT id FROM t ORDER BY id", size=7, row_factory=scalar_row) as rows:
        assert list(rows) == list(range(3000))
    assert ends(auto)


def test_an_error_of_a_later_row_comes_with_that_row(auto):
    late = "SELECT 1 / (39000000 - n) FROM generate_series(1, 40000000) AS s (n)"
    with auto.stream(late) as rows:
        assert len(list(itertools.islice(rows, 20_000))) == 20_000
    late = late.replace("000000", "0000")
    with pytest.raises(herdpy.DataError) as caught, auto.stream(late, size=50_000) as rows:
        rows.fetch_record_batch().read_all()
    assert caught.value.sqlstate == "22012"
    assert ends(auto)


@pytest.mark.parametrize("read", [0, 1, 1500])
def test_one_cancel_from_another_thread_ends_it(auto, read):
    """Wherever it comes: within a fetch or between two of them."""
    thread = threading.Thread(target=auto.cancel)
    with auto.stream(ENDLESS) as rows:
        list(itertools.islice(rows, read))
        thread.start()
        with pytest.raises(herdpy.OperationalError) as caught:
            all(rows)
    thread.join()
    assert caught.value.sqlstate == "57014"
    assert ends(auto)


def test_one_cancel_ends_a_query_that_finds_nothing(auto):
    running = threading.Event()
    session = auto.shared_link.link.session

    def cancel():
        while session.waits.kind is None:
            pass
        running.set()
        auto.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(herdpy.OperationalError) as caught:
        auto.execute(FRUITLESS)
    thread.join()
    assert running.is_set()
    assert caught.value.sqlstate == "57014"
    assert ends(auto)


def test_its_time_is_up(auto):
    with pytest.raises(herdpy.OperationalError) as caught:
        auto.execute(FRUITLESS, timeout_s=0.2)
    assert caught.value.sqlstate == "57014"
    auto.execute("SET statement_timeout = '200ms'")
    with pytest.raises(herdpy.OperationalError) as caught, auto.stream(f"{ENDLESS} WHERE a.n + b.m = 0"):
        pass
    assert caught.value.sqlstate == "57014"
    auto.execute("RESET statement_timeout")
    assert ends(auto)


def test_closing_ends_it(tmp_path):
    conn = herdpy.connect(tmp_path)
    cursor = conn.cursor("c").execute(ENDLESS)
    assert cursor.fetchone() == (1,)
    cursor.close()
    assert not portals(conn)
    other = conn.cursor("d").execute(ENDLESS)
    assert other.fetchone() == (1,)
    conn.rollback()
    assert not portals(conn)
    assert conn.cursor("e").execute(ENDLESS).fetchone() == (1,)
    conn.close()
    with pytest.raises(herdpy.InterfaceError):
        other.fetchone()

"""What a connection says besides answers, and how long a statement may take."""

from __future__ import annotations

import logging
import time

import pytest

import herdpy


def test_handlers_are_told_after_the_statement(auto):
    heard = []

    def handler(notice):
        heard.append((notice, auto.execute("SELECT 1").fetchone()))  # the connection is free

    auto.add_notice_handler(handler)
    auto.execute("DROP TABLE IF EXISTS nonesuch")
    ((notice, row),) = heard
    assert (notice.severity, notice.sqlstate) == ("NOTICE", "00000")
    assert notice.message == 'table "nonesuch" does not exist, skipping'
    assert str(notice).startswith("NOTICE: table")
    assert row == (1,)
    assert auto.notices == [notice]
    auto.remove_notice_handler(handler)
    with pytest.raises(ValueError, match="not in list"):
        auto.remove_notice_handler(handler)
    auto.execute("DROP TABLE IF EXISTS another; DROP TABLE IF EXISTS third")
    assert len(heard) == 1
    assert len(auto.notices) == 3


def test_the_newest_are_kept(auto):
    for n in range(60):
        auto.execute(f"DROP TABLE IF EXISTS t{n}")
    assert len(auto.notices) == 50
    assert 't59"' in auto.notices[-1].message


def test_what_the_client_does_not_want_is_not_told(auto):
    auto.execute("SET client_min_messages = warning")
    auto.execute("DROP TABLE IF EXISTS nonesuch")
    assert auto.notices == []
    auto.execute("COMMIT")  # WARNING: there is no transaction
    assert [notice.severity for notice in auto.notices] == ["WARNING"]


def test_an_error_of_a_handler_is_logged_and_the_statement_done(auto, caplog):
    def handler(notice):
        raise RuntimeError("no")

    auto.add_notice_handler(handler)
    with caplog.at_level(logging.ERROR, "herdpy.driver"):
        assert auto.execute("DROP TABLE IF EXISTS nonesuch").statusmessage == "DROP TABLE"
    assert "nonesuch" in caplog.text


# Time.


def test_a_statement_ends_when_its_time_is_up(auto):
    began = time.monotonic()
    with pytest.raises(herdpy.OperationalError) as caught:
        auto.execute("SELECT pg_sleep(60)", timeout_s=0.1)
    assert time.monotonic() - began < 30
    assert caught.value.sqlstate == "57014"
    assert caught.value.message == "canceling statement due to statement timeout"
    assert auto.execute("SELECT 1", timeout_s=60).fetchone() == (1,)
    assert auto.execute("SHOW statement_timeout").fetchone() == ("0",)


def test_only_that_statement_is_limited(auto):
    assert auto.execute("SELECT 1", timeout_s=60).fetchone() == (1,)
    assert auto.execute("SHOW statement_timeout").fetchone() == ("0",)
    with pytest.raises(herdpy.OperationalError):
        auto.execute("SELECT pg_sleep(60)", timeout_s=0.1)
    assert auto.execute("SELECT 2, pg_sleep(0.3)").fetchone()[0] == 2


def test_in_a_transaction_it_fails_with_the_statement(conn):
    conn.execute("CREATE TABLE t (a INTEGER)")
    conn.commit()
    conn.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(herdpy.OperationalError):
        conn.execute("SELECT pg_sleep(60)", timeout_s=0.1)
    assert conn.info.transaction_status == herdpy.TransactionStatus.INERROR
    conn.rollback()
    assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_many_rows_have_it_together(conn, url):
    conn.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    conn.execute("INSERT INTO t VALUES (1)")
    conn.commit()
    conn.execute("UPDATE t SET a = 1")  # holds the lock
    with herdpy.connect(url) as other:
        with pytest.raises(herdpy.OperationalError) as caught:
            other.cursor().executemany("UPDATE t SET a = %s", [(1,)] * 3, timeout_s=0.2)
        assert caught.value.sqlstate == "57014"
        other.rollback()
    conn.rollback()


def test_a_set_within_stays(auto):
    auto.execute("SET statement_timeout = '50s'", timeout_s=60)
    assert auto.execute("SHOW statement_timeout").fetchone() == ("50s",)
    with pytest.raises(herdpy.OperationalError):
        auto.execute("SELECT pg_sleep(60)", timeout_s=0.1)
    assert auto.execute("SHOW statement_timeout").fetchone() == ("50s",)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_what_is_no_time(auto, seconds):
    with pytest.raises(herdpy.ProgrammingError, match="timeout_s"):
        auto.execute("SELECT 1", timeout_s=seconds)

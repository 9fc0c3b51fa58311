"""Ending what a server runs: from another thread, and by its time."""

from __future__ import annotations

import threading

import pytest

import herdpy


@pytest.fixture
def conn(server):
    with herdpy.connect(f"herdpy://ann@127.0.0.1:{server.port}/test", autocommit=True) as conn:
        yield conn


def test_cancel_from_another_thread(conn):
    over = threading.Event()

    def cancel():
        while not over.wait(0.05):
            conn.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        with pytest.raises(herdpy.OperationalError) as caught:
            conn.execute("SELECT pg_sleep(60)")
    finally:
        over.set()
        thread.join()
    assert caught.value.sqlstate == "57014"
    assert conn.execute("SELECT 1").fetchone() == (1,)


def test_statement_timeout(server):
    url = f"herdpy://ann@127.0.0.1:{server.port}/test?statement_timeout=0.2"
    with herdpy.connect(url, autocommit=True) as conn:
        with pytest.raises(herdpy.OperationalError) as caught:
            conn.execute("SELECT pg_sleep(60)")
        assert caught.value.sqlstate == "57014"

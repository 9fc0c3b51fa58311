"""COMMIT AND CHAIN by the driver: the next transaction is as the one before, also when connections break."""

from __future__ import annotations

import contextlib

import pytest

import herdpy
from herdpy.dbapi.remote import commits
from herdpy.dbapi.remote import wire as wires
from tests.remote.test_cut_commits import Cutter

OPTIONS = "connect_timeout=10&failover_timeout=20&sslmode=disable&gssencmode=disable"
MODES = ("transaction_isolation", "transaction_read_only", "transaction_deferrable")
BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ WRITE, DEFERRABLE"
ALIKE = ["repeatable read", "off", "on"]


@pytest.fixture
def direct(server):
    with herdpy.connect(f"herdpy://ann@127.0.0.1:{server.port}/test", autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS chained")
        conn.execute("CREATE TABLE chained (k BIGINT)")
        yield conn


@pytest.fixture
def conn(proxy, direct, monkeypatch):
    monkeypatch.setattr(commits, "POSITION_AGE_S", 1e9)  # each commit has the same messages
    with herdpy.connect(f"herdpy://ann@127.0.0.1:{proxy.port}/test?{OPTIONS}", autocommit=True) as conn:
        conn.execute("INSERT INTO chained VALUES (0)")
        direct.execute("TRUNCATE chained")
        conn.execute("SET default_transaction_read_only = on")  # so that a plain BEGIN is seen
        yield conn


def modes(conn):
    return [conn.execute(f"SHOW {mode}").fetchone()[0] for mode in MODES]


def rows(direct):
    return direct.execute("SELECT count(*) FROM chained").fetchone()[0]


def test_characteristics_are_kept_wherever_the_connection_is_cut(conn, proxy, direct):
    proxy.watch = cutter = Cutter()
    done, lost, at = 0, 0, 0
    outcomes = set()
    while True:
        conn.execute(BEGIN)
        conn.execute("INSERT INTO chained VALUES (1)")
        cutter.arm(at, after=False)
        try:
            conn.execute("/* NO */ end work and chain -- NO")
            done += 1
            cutter.armed = False
            assert conn.info.transaction_status == herdpy.TransactionStatus.INTRANS
            assert modes(conn) == ALIKE
        except herdpy.OperationalError as error:
            cutter.armed = False
            lost += 1
            outcomes.add(error.outcome)
        assert rows(direct) == done
        conn.rollback()
        assert conn.info.transaction_status == herdpy.TransactionStatus.IDLE
        if not cutter.done:
            break
        at += 1
    assert outcomes == {"not done"}
    assert lost >= 2  # such as when the characteristics were asked for
    assert done >= 2


@pytest.mark.parametrize("after", [False, True])
def test_a_transaction_that_only_reads_stays_so_wherever_the_connection_is_cut(conn, proxy, after):
    """Either its end is reported as lost, or the next one only reads, too."""
    conn.execute("SET default_transaction_read_only = off")
    proxy.watch = cutter = Cutter()
    at = 0
    while True:
        conn.execute("BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY")
        conn.execute("SELECT count(*) FROM chained")
        cutter.arm(at, after=after)
        with contextlib.suppress(herdpy.OperationalError):
            conn.execute("COMMIT AND CHAIN")
            cutter.armed = False
            assert modes(conn) == ["serializable", "on", "off"]
        cutter.armed = False
        conn.rollback()
        if not cutter.done:
            break
        at += 1
    assert at >= 2


def test_no_chain_leaves_no_transaction(conn, proxy, direct):
    proxy.watch = cutter = Cutter()
    conn.execute(BEGIN)
    conn.execute("INSERT INTO chained VALUES (1)")
    cutter.arm(4, after=True)  # its Sync, of which the answer does not come
    conn.execute("COMMIT /* AND CHAIN */ AND NO CHAIN")
    assert cutter.done
    assert conn.info.transaction_status == herdpy.TransactionStatus.IDLE
    assert rows(direct) == 1


def test_of_a_lost_transaction_nothing_can_be_chained(conn, proxy):
    proxy.watch = cutter = Cutter()
    conn.execute(BEGIN)
    conn.execute("INSERT INTO chained VALUES (1)")
    cutter.arm(0, after=False)
    for sql in ("ROLLBACK AND CHAIN", "ROLLBACK AND CHAIN", "COMMIT AND CHAIN"):
        with pytest.raises(herdpy.OperationalError) as caught:
            conn.execute(sql)
        assert caught.value.sqlstate == "40001"
        assert conn.info.transaction_status == herdpy.TransactionStatus.INERROR
    conn.execute("ROLLBACK AND NO CHAIN")
    assert conn.info.transaction_status == herdpy.TransactionStatus.IDLE


def test_an_interrupted_commit_has_begun_no_transaction(conn, direct, monkeypatch):
    conn.execute(BEGIN)
    conn.execute("INSERT INTO chained VALUES (1)")
    whole = wires.Wire.run

    def run(self, steps, deadline=None):
        results = whole(self, steps, deadline)
        if any("CHAIN" in sql for sql, _params in steps):
            monkeypatch.undo()
            raise KeyboardInterrupt
        return results

    monkeypatch.setattr(wires.Wire, "run", run)
    with pytest.raises(KeyboardInterrupt):
        conn.execute("COMMIT AND CHAIN")
    with pytest.raises(herdpy.OperationalError) as caught:
        conn.execute("INSERT INTO chained VALUES (2)")  # in what would have been the next transaction
    assert caught.value.sqlstate == "40001"
    conn.rollback()
    assert rows(direct) == 1


def test_what_a_failed_transaction_set_is_not_kept(conn, proxy):
    conn.execute("BEGIN")
    conn.execute("SET lock_timeout = '7s'")
    with pytest.raises(herdpy.Error):
        conn.execute("SELECT 1/0")
    assert conn.execute("COMMIT").statusmessage == "ROLLBACK"
    proxy.watch = cutter = Cutter()
    cutter.arm(0, after=False)
    assert conn.execute("SHOW lock_timeout").fetchone() == ("0",)
    assert cutter.done


def test_what_select_into_makes_is_made_once(conn, proxy, direct):
    direct.execute("DROP TABLE IF EXISTS chained_copy")
    direct.execute("INSERT INTO chained VALUES (1)")
    conn.execute("SET default_transaction_read_only = off")
    proxy.watch = cutter = Cutter()
    at = 0
    while True:
        cutter.arm(at, after=False)
        with contextlib.suppress(herdpy.OperationalError):  # it is done, and its answer lost
            conn.execute("SELECT k INTO chained_copy FROM chained")
        cutter.armed = False
        assert direct.execute("SELECT count(*) FROM chained_copy").fetchone() == (1,)
        direct.execute("DROP TABLE chained_copy")
        if not cutter.done:
            break
        at += 1
    assert at > 3

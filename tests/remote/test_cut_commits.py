"""Connections cut at every message of a commit: each row is there exactly once, and answers are true."""

from __future__ import annotations

import pyarrow as pa
import pytest

import herdpy
from herdpy.dbapi.remote import link as remote
from herdpy.dbapi.remote import requests as remote_requests

PLAIN = "sslmode=disable&gssencmode=disable"  # the proxy reads messages, and nothing before them
OPTIONS = f"connect_timeout=10&failover_timeout=20&{PLAIN}"

COLUMNS = remote_requests.FEW_ROWS + 1
"""Rows of an executemany that go as one COPY."""


class Cutter:
    """Counts messages from when it is armed, and cuts once, at a given one."""

    def __init__(self) -> None:
        self.armed = False
        self.at = -1
        self.after = False
        self.seen: list[tuple[str, bytes]] = []
        self.done = False

    def arm(self, at: int, *, after: bool) -> None:
        self.armed, self.at, self.after, self.seen, self.done = True, at, after, [], False

    def __call__(self, side: str, kind: bytes) -> bool:
        from tests.remote.cutting_proxy import Cut

        if not self.armed:
            return False
        self.seen.append((side, kind))
        if self.done or len(self.seen) - 1 != self.at:
            return False
        self.done = True
        if self.after:
            return True
        raise Cut


@pytest.fixture
def cutter(proxy):
    proxy.watch = Cutter()
    return proxy.watch


@pytest.fixture
def direct(server):
    with herdpy.connect(f"herdpy://ann@127.0.0.1:{server.port}/test", autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS t")
        conn.execute("CREATE TABLE t (k BIGINT, worker INTEGER)")  # no key: what is done twice is there twice
        yield conn


def connect(proxy, **more):
    return herdpy.connect(f"herdpy://ann@127.0.0.1:{proxy.port}/test?{OPTIONS}", **more)


def rows(direct, key):
    return direct.execute("SELECT count(*) FROM t WHERE k = %s", (key,)).fetchone()[0]


def in_transaction(conn, cutter, arm, key):
    conn.execute("INSERT INTO t VALUES (%s, 1)", (key,))
    arm()
    conn.commit()


def by_autocommit(conn, cutter, arm, key):
    arm()
    conn.execute("INSERT INTO t VALUES (%s, 1)", (key,))


def prepared(conn, cutter, arm, key):
    write = "INSERT INTO t SELECT %s, 1 WHERE %s"
    for _ in range(2):
        conn.execute(write, (key, False))
    arm()
    conn.execute(write, (key, True))


def many(conn, cutter, arm, key):
    arm()
    cursor = conn.cursor()
    cursor.executemany("INSERT INTO t VALUES (%s, %s)", [(key, n) for n in range(3)])


def columns(conn, cutter, arm, key):
    arm()
    conn.cursor().executemany("INSERT INTO t VALUES (%s, %s)", [(key, n) for n in range(COLUMNS)])


def columns_in_transaction(conn, cutter, arm, key):
    conn.execute("INSERT INTO t VALUES (%s, 1)", (key,))
    columns(conn, cutter, arm, key)
    conn.commit()


def script(conn, cutter, arm, key):
    arm()
    conn.execute(f"INSERT INTO t VALUES ({key}, 1); INSERT INTO t VALUES (-{key}, 1)")


def arrow(conn, cutter, arm, key):
    arm()
    rows = pa.table({"k": pa.array([key] * 3, pa.int64()), "worker": pa.array([1] * 3, pa.int32())})
    conn.cursor().adbc_ingest("t", rows, mode="append")


def arrow_in_transaction(conn, cutter, arm, key):
    conn.execute("INSERT INTO t VALUES (%s, 1)", (key,))
    arrow(conn, cutter, arm, key)
    conn.commit()


def whole_transaction(conn, cutter, arm, key):
    def work(conn):
        arm()
        conn.execute("INSERT INTO t VALUES (%s, 1)", (key,))
        conn.execute("INSERT INTO t VALUES (%s, 1)", (-key,))

    herdpy.run_transaction(conn, work)


WAYS = {
    "transaction": (in_transaction, False, 1),
    "autocommit": (by_autocommit, True, 1),
    "prepared": (prepared, True, 1),
    "executemany": (many, True, 3),
    "columns": (columns, True, COLUMNS),
    "columns in a transaction": (columns_in_transaction, False, COLUMNS + 1),
    "script": (script, True, 1),
    "arrow": (arrow, True, 3),
    "arrow in a transaction": (arrow_in_transaction, False, 4),
    "run_transaction": (whole_transaction, False, 1),
}


def cut_everywhere(proxy, cutter, direct, way, first_key):
    """Run ``way`` with the connection cut at its first message, its second, and so on; the outcomes."""
    run, autocommit, expected = WAYS[way]
    outcomes = []
    key = first_key
    for after in (False, True):
        at = 0
        while True:
            key += 1
            cutter.armed = False
            armed = False

            def arm(at=at, after=after):
                nonlocal armed
                if not armed:  # the work of a transaction may run again
                    armed = True
                    cutter.arm(at, after=after)

            with connect(proxy, autocommit=autocommit) as conn:
                try:
                    run(conn, cutter, arm, key)
                    outcome = "returned"
                except herdpy.Error as error:
                    outcome = error.outcome
                    if not autocommit:
                        conn.rollback()
                outcomes.append(outcome)
                assert outcome != "unknown", (at, after)
                assert rows(direct, key) == (0 if outcome == "not done" else expected), (at, after, outcome)
                was_cut, cutter.armed = cutter.done, False
            if not was_cut:
                break
            at += 1
    return outcomes


@pytest.mark.parametrize("way", WAYS)
def test_each_row_is_there_once_and_outcomes_are_true(proxy, cutter, direct, way):
    outcomes = cut_everywhere(proxy, cutter, direct, way, 1000)
    assert proxy.cuts >= 8
    assert "returned" in outcomes
    if way != "script":  # its results may be lost though it is done
        assert "done" not in outcomes
    if way in ("autocommit", "prepared", "executemany", "run_transaction", "arrow"):
        assert set(outcomes) == {"returned"}
    # Nothing comes in late, when the server gets round to what is still on its way.
    once = direct.execute("SELECT k, count(*) FROM t GROUP BY k HAVING count(*) <> 1").fetchall()
    assert [count for _key, count in once] in ([], [WAYS[way][2]] * len(once))


def guessing(answer):
    def guess(self, request_id, cause, deadline):
        return answer

    return guess


@pytest.mark.parametrize("answer", ["done", "not done"])
@pytest.mark.parametrize("way", ["transaction", "autocommit"])
def test_a_driver_that_guesses_is_found_out(proxy, cutter, direct, monkeypatch, way, answer):
    monkeypatch.setattr(remote.NamedCommits, "_settled", guessing(answer))
    with pytest.raises(AssertionError):
        cut_everywhere(proxy, cutter, direct, way, 1000)


def test_a_driver_that_repeats_without_asking_is_found_out(proxy, cutter, direct, monkeypatch):
    def nameless(self, sql, kind, wanted, source):
        while True:
            try:
                return wanted.send(self._connection.connected(10**9), [])
            except remote.ConnectionLostError as lost:
                self._connection.drop(lost, in_transaction=False)

    monkeypatch.setattr(remote.RequestSender, "send", nameless)
    with pytest.raises(AssertionError):
        cut_everywhere(proxy, cutter, direct, "autocommit", 1000)


def cut_now(proxy, cutter):
    """Let the next message of the client end its connection."""
    cutter.arm(0, after=False)


def test_what_comes_first_after_begin_is_sent_again_with_it(proxy, cutter, direct):
    first = {
        "SELECT": lambda conn: conn.execute("SELECT count(*) FROM t").fetchone(),
        "INSERT": lambda conn: conn.execute("INSERT INTO t VALUES (1, 1)"),
        "DECLARE": lambda conn: conn.cursor("c").execute("SELECT * FROM t").fetchall(),
    }
    with connect(proxy, autocommit=True) as conn:
        for number, run in enumerate(first.values(), 1):
            with conn.transaction():
                cut_now(proxy, cutter)
                run(conn)
                assert proxy.cuts == number
                assert conn.info.transaction_status == herdpy.TransactionStatus.INTRANS
                conn.execute("INSERT INTO t VALUES (2, 2)")
        conn.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        cut_now(proxy, cutter)
        assert conn.execute("SHOW transaction_isolation").fetchone() == ("serializable",)
        conn.rollback()
        with conn.stream("SELECT k FROM t ORDER BY k") as rows:
            assert list(rows) == [(1,), (2,), (2,), (2,)]


@pytest.mark.parametrize(
    "before",
    [
        lambda conn: conn.execute("INSERT INTO t VALUES (1, 1)"),
        lambda conn: conn.execute("SET LOCAL lock_timeout = '5s'"),
        lambda conn: conn.execute("INSERT INTO t VALUES (1, 1); SELECT 1"),
        lambda conn: conn.cursor().executemany("INSERT INTO t VALUES (%s, 1)", [(1,), (2,)]),
        lambda conn: conn.cursor().adbc_ingest("t", pa.table({"k": [1], "worker": [1]}), "append"),
    ],
    ids=["INSERT", "SET LOCAL", "script", "executemany", "ingest"],
)
@pytest.mark.parametrize("begun", ["BEGIN", "once before"])
def test_what_comes_later_is_not(proxy, cutter, direct, before, begun):
    """Also where the transaction began by itself, after one of which nothing was done."""
    with connect(proxy) as conn:
        conn.execute("BEGIN")
        if begun == "once before":
            conn.rollback()
        before(conn)
        if conn.info.transaction_status == herdpy.TransactionStatus.IDLE:
            pytest.skip("it began none")
        cut_now(proxy, cutter)
        with pytest.raises(herdpy.OperationalError) as caught:
            conn.execute("INSERT INTO t VALUES (3, 3)")
        assert caught.value.sqlstate == "40001"
        conn.rollback()
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_reads_are_sent_again(proxy, cutter, direct):
    with connect(proxy, autocommit=True) as conn:
        for at in range(8):
            cutter.arm(at, after=False)
            assert conn.execute("SELECT 40 + %s", (2,)).fetchone() == (42,)
    assert proxy.cuts >= 4


def test_a_transaction_that_lost_its_connection_says_so_until_it_is_rolled_back(proxy, cutter, direct):
    with connect(proxy) as conn:
        conn.execute("INSERT INTO t VALUES (1, 1)")
        cutter.arm(0, after=True)
        for _ in range(2):
            with pytest.raises(herdpy.OperationalError) as caught:
                conn.execute("INSERT INTO t VALUES (2, 1)")
            assert (caught.value.sqlstate, caught.value.retryable) == ("40001", True)
            assert caught.value.outcome == "not done"
            assert conn.info.transaction_status == herdpy.TransactionStatus.INERROR
        conn.rollback()
        conn.execute("INSERT INTO t VALUES (3, 1)")
        conn.commit()
    assert direct.execute("SELECT k FROM t").fetchall() == [(3,)]


def test_settings_are_there_after_a_new_connection(proxy, cutter, direct):
    with connect(proxy, autocommit=True) as conn:
        conn.execute("SET timezone = 'Europe/Vienna'")
        conn.execute("SET app.user = 'ann'")
        conn.execute("BEGIN")
        conn.execute("SET app.lost = 'x'")
        conn.execute("ROLLBACK")
        cutter.arm(0, after=False)
        assert conn.execute("SHOW timezone").fetchone() == ("Europe/Vienna",)
        assert conn.execute("SHOW app.user").fetchone() == ("ann",)
        with pytest.raises(herdpy.ProgrammingError):
            conn.execute("SHOW app.lost")


def test_an_outcome_that_cannot_be_learnt_is_unknown(proxy, cutter, direct):
    with herdpy.connect(f"herdpy://ann@127.0.0.1:{proxy.port}/test?failover_timeout=0.5&{PLAIN}") as conn:
        conn.execute("INSERT INTO t VALUES (1, 1)")
        conn.commit()
        conn.execute("INSERT INTO t VALUES (2, 1)")
        proxy.target = 1  # no server there
        cutter.arm(0, after=True)
        with pytest.raises(herdpy.OperationalError) as caught:
            conn.commit()
        assert (caught.value.sqlstate, caught.value.outcome) in [("08007", "unknown"), ("08001", "unknown")]

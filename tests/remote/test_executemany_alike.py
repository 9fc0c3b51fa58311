"""executemany: one COPY of parameters, row by row, and embedded. All three come to the same."""

from __future__ import annotations

import sys
from typing import NamedTuple

import pytest

import herdpy
from herdpy.dbapi.remote import arrow as remote_arrow
from herdpy.dbapi.remote import requests as remote_requests
from herdpy.dbapi.remote import wire as remote_wire
from tests.remote.many_cases import ALONE, BAD, CHANGES, COLUMNS, GOOD, SEEDED, SEEDED_TOO, TYPES, VALUES


class Ways:
    """The same executemany in three ways, each time on the same rows."""

    def __init__(self, server_url: str, path: str) -> None:
        self.urls = {"copy": server_url, "rows": server_url, "embedded": f"herdpy://{path}"}
        self.hands = {way: herdpy.connect(url, autocommit=True) for way, url in self.urls.items()}
        for way in ("copy", "embedded"):
            self.hands[way].execute(f"DROP TABLE IF EXISTS t; CREATE TABLE t ({TYPES})")

    def close(self):
        for hand in self.hands.values():
            hand.close()

    def run(self, way, sql, rows, *, autocommit=True, before=()):
        """What becomes of it: the outcome, the rows that are there then, and the state of the connection."""
        hand = self.hands[way]
        hand.execute(";".join(["TRUNCATE t", *before]))
        with (
            herdpy.connect(self.urls[way], autocommit=autocommit) as conn,
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(remote_requests, "FEW_ROWS", 10**9 if way == "rows" else 0)
            outcome = outcome_of(conn, sql, rows)
            status = conn.info.transaction_status
            taken = outcome_of(conn, "UPDATE t SET i = i WHERE k = %s", [(1,)])
            if outcome[0] != "done" and not autocommit:
                conn.rollback()
                taken = (taken, outcome_of(conn, "UPDATE t SET i = i WHERE k = %s", [(1,)]))
            conn.commit()
        found = hand.execute("SELECT * FROM t ORDER BY 1, 2").fetchall()
        return Seen(outcome, (status, taken), [tuple(map(repr, row)) for row in found])


class Seen(NamedTuple):
    outcome: tuple[object, ...]
    state: tuple[object, ...]
    rows: list[tuple[str, ...]]


def outcome_of(conn, sql, rows):
    cursor = conn.cursor()
    try:
        cursor.executemany(sql, rows() if callable(rows) else rows)
    except herdpy.Error as error:
        where = {name: error.fields.get(name) for name in ("table", "column", "constraint")}
        return type(error), error.sqlstate, error.message, error.detail, error.position, where
    return "done", cursor.rowcount


@pytest.fixture(scope="module")
def ways(server, tmp_path_factory):
    ways = Ways(f"herdpy://ann@127.0.0.1:{server.port}/test", str(tmp_path_factory.mktemp("alike") / "db"))
    yield ways
    ways.close()


@pytest.fixture
def copies(monkeypatch):
    """Of each COPY that is sent, its text."""
    sent = []
    copy_in = remote_wire.Wire.copy_in

    def noted(wire, sql, pieces):
        sent.append(sql)
        return copy_in(wire, sql, pieces)

    monkeypatch.setattr(remote_wire.Wire, "copy_in", noted)
    return sent


NOT_AS_EMBEDDED = {
    "update of sizes": "there a parameter has the type of its place; servers get Python's",
    "int2 overflow": "as above",
    "two errors": "there all parameters are looked at before the first row is written",
    "time with zone": "there is no such type of parameters, which is reported in other words",
    "json for a number": "to servers a list goes without a type, since its place may be an array's",
}


@pytest.mark.parametrize("name", [*GOOD, *CHANGES, *BAD])
def test_alike(ways, copies, name):
    sql, rows = {**GOOD, **CHANGES, **BAD}[name]
    before = SEEDED if name in SEEDED_TOO else ()
    by_copy = ways.run("copy", sql, rows, before=before)
    sent, copies[:] = list(copies), []
    by_rows = ways.run("rows", sql, rows, before=before)
    assert not copies
    assert by_copy == by_rows
    assert (by_rows.outcome[0] == "done") == (name not in BAD)
    if name not in BAD:
        assert len(sent) == 2  # with the statement after it
    if name not in NOT_AS_EMBEDDED:
        embedded = ways.run("embedded", sql, rows, before=before)
        assert embedded.outcome[:2] == by_rows.outcome[:2]
        assert embedded.rows == by_rows.rows


@pytest.mark.parametrize("name", [*BAD, *list(GOOD)[::8], *CHANGES])
def test_alike_in_a_transaction(ways, name):
    sql, rows = {**GOOD, **CHANGES, **BAD}[name]
    before = SEEDED if name in SEEDED_TOO else ()
    by_copy = ways.run("copy", sql, rows, autocommit=False, before=before)
    assert by_copy == ways.run("rows", sql, rows, autocommit=False, before=before)


@pytest.mark.parametrize("kind", VALUES)
def test_every_kind_in_every_column(ways, monkeypatch, kind):
    conn = ways.hands["copy"]
    conn.execute("TRUNCATE t")
    for zone, columns in {"Europe/Rome": ["a", "h", "ts", "tz"], "UTC": COLUMNS}.items():
        conn.execute(f"SET TIME ZONE '{zone}'")
        for column in columns:
            by_copy, by_rows = undone(conn, monkeypatch, column, VALUES[kind])
            assert by_rows == by_copy, column
            if by_rows[0][0] != "done":  # then each of them alone
                for value in VALUES[kind]:
                    by_copy, by_rows = undone(conn, monkeypatch, column, [value, None])
                    assert by_rows == by_copy, (column, value)


def undone(conn, monkeypatch, column, values):
    """Insert values in both ways, and undo it: what became of it and was stored, of each way."""
    seen = []
    for few in (0, 10**9):
        monkeypatch.setattr(remote_requests, "FEW_ROWS", few)
        conn.execute("BEGIN")
        outcome = outcome_of(conn, f"INSERT INTO t (k, {column}) VALUES (%s, %s)", list(enumerate(values)))
        stored = None
        if outcome[0] == "done":
            stored = conn.execute(f"SELECT k, {column}::TEXT FROM t ORDER BY k").fetchall()
        conn.execute("ROLLBACK")
        seen.append((outcome, stored))
    return seen


@pytest.mark.parametrize("name", ALONE)
def test_what_goes_one_by_one(ways, copies, name):
    sql, rows = ALONE[name]
    by_copy = ways.run("copy", sql, rows)
    assert len(copies) == 1  # the statement after it
    assert by_copy == ways.run("rows", sql, rows)
    assert by_copy.outcome[0] == "done"


def test_none(ways, copies):
    for way in ways.urls:
        assert ways.run(way, "INSERT INTO t (k) VALUES (%s)", []).outcome == ("done", 0)


MANY = 20_000  # rows of some slices


def test_an_error_in_a_later_slice(ways):
    rows = [(k, str(k)) for k in range(MANY)]
    rows[MANY - 5] = (MANY - 5, "not a number")
    for way in ("copy", "embedded"):
        seen = ways.run(way, "INSERT INTO t (k, i) VALUES (%s, %s)", rows)
        assert seen.outcome[1:3] == ("22P02", 'invalid input syntax for type integer: "not a number"')
        assert seen.rows == []


def test_batches_that_are_too_large_are_cut(ways, monkeypatch):
    monkeypatch.setattr(remote_arrow, "MAX_BATCH_BYTES", 4096)
    rows = [(k, "x" * (k % 500), [k]) for k in range(2000)]
    seen = ways.run("copy", "INSERT INTO t (k, t, j) VALUES (%s, %s, %s)", rows)
    assert seen.outcome == ("done", 2000)
    assert seen.rows == ways.run("rows", "INSERT INTO t (k, t, j) VALUES (%s, %s, %s)", rows).rows


def test_one_commit(ways):
    before = entries(ways)
    ways.run("copy", "INSERT INTO t (k, t) VALUES (%s, %s)", [(k, "a") for k in range(MANY)])
    assert entries(ways) - before < 10  # of the 20,000 rows some entries at most, if they are large


def entries(ways):
    position = ways.hands["copy"].execute("SELECT herdpy.commit_position()").fetchone()[0]
    return int(position.rpartition(":")[2])


def test_without_pyarrow(ways, copies, monkeypatch):
    monkeypatch.setitem(sys.modules, "herdpy.dbapi.remote.arrow", None)
    monkeypatch.delattr("herdpy.dbapi.remote.arrow")
    sql, rows = GOOD["ints"]
    with pytest.raises(ModuleNotFoundError, match="arrow"):  # no other module may be missing
        ways.run("copy", sql, rows)
    monkeypatch.setattr(remote_requests, "_arrow", lambda: None)
    assert ways.run("copy", sql, rows) == ways.run("rows", sql, rows)
    assert copies == []


def test_time_is_up_in_the_middle(ways):
    hand = ways.hands["copy"]
    hand.execute("TRUNCATE t")
    rows = [(k, 1) for k in range(MANY)]
    with herdpy.connect(ways.urls["copy"], autocommit=True, statement_timeout="20ms") as conn:
        assert outcome_of(conn, "INSERT INTO t (k, i) VALUES (%s, %s + 1)", rows)[1] == "57014"
    assert hand.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_read_only_transaction(ways):
    for way in ways.urls:
        with herdpy.connect(ways.urls[way], autocommit=True) as conn:
            conn.execute("BEGIN READ ONLY")
            seen = outcome_of(conn, "INSERT INTO t (k) VALUES (%s)", [(k,) for k in range(100)])
            assert seen[1:3] == ("25006", "cannot execute INSERT in a read-only transaction")
            conn.rollback()


@pytest.mark.parametrize(
    ("kind", "wrong", "name"),
    [
        (int, lambda: remote_arrow._Maker(remote_arrow.pa.int64()), "int2 overflow"),
        (list, lambda: remote_arrow._JSON, "json for a number"),
        (str, lambda: remote_arrow._Maker(remote_arrow.pa.string()), "NUL"),
        (float, lambda: remote_arrow._Maker(remote_arrow.pa.float32()), "floats"),
    ],
)
def test_a_driver_that_declares_otherwise_is_found_out(ways, copies, monkeypatch, kind, wrong, name):
    monkeypatch.setitem(remote_arrow._MAKERS, frozenset({kind}), wrong())
    with pytest.raises(AssertionError):
        test_alike(ways, copies, name)

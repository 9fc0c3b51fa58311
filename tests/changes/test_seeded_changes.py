"""Bugs put into what changes rows: each scenario holds, and with its bug put in it would not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import herdpy
from herdpy.codec import keys
from herdpy_server.store import Workspace
from herdpy_server.store.tables import IndexOps
from herdpy_server.tablespace import LockTable
from herdpy_sql.execute.base import Rules
from herdpy_sql.execute.change import MergePlan

Patch = pytest.MonkeyPatch


def open_(directory: Path) -> Any:
    return herdpy.connect(directory, autocommit=True)


def state_of(connection: Any, sql: str) -> str:
    """The SQLSTATE of a statement; "" when it is done."""
    try:
        connection.execute(sql)
    except herdpy.Error as error:
        return error.sqlstate or "?"
    return ""


# Scenarios.


def an_upsert_waits_for_who_inserts_the_key(directory: Path) -> None:
    with open_(directory) as one, open_(directory) as other:
        one.execute("CREATE TABLE t (k int PRIMARY KEY, v text)")
        one.execute("BEGIN; INSERT INTO t VALUES (1, 'a')")
        upsert = "INSERT INTO t VALUES (1, 'b') ON CONFLICT (k) DO UPDATE SET v = t.v || excluded.v"
        other.execute("SET lock_timeout = '10ms'")
        assert state_of(other, upsert) == "55P03"
        one.execute("COMMIT")
        other.execute(upsert)
        assert one.execute("SELECT v FROM t").fetchall() == [("ab",)]


def merge_changes_a_row_once(directory: Path) -> None:
    with open_(directory) as connection:
        connection.execute("CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)")
        merge = "MERGE INTO t USING (VALUES (1, 5), (1, 7)) AS s (k, v) ON t.k = s.k WHEN MATCHED THEN"
        assert state_of(connection, f"{merge} UPDATE SET v = t.v + s.v") == "21000"
        assert connection.execute("SELECT v FROM t").fetchall() == [(0,)]


def generated_columns_follow(directory: Path) -> None:
    with open_(directory) as connection:
        connection.execute("CREATE TABLE t (k int PRIMARY KEY, g int GENERATED ALWAYS AS (k * 2) STORED)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("UPDATE t SET k = 3")
        connection.cursor().executemany("INSERT INTO t VALUES (%s)", [(k,) for k in range(10, 40)])
        connection.execute("INSERT INTO t SELECT i FROM generate_series(50, 60) i")
        assert connection.execute("SELECT count(*) FROM t WHERE g = k * 2").fetchone() == (42,)


def generated_columns_of_loads_follow(directory: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    with open_(directory) as connection:
        connection.execute("CREATE TABLE t (k int PRIMARY KEY, g int GENERATED ALWAYS AS (k * 2) STORED)")
        data = pa.table({"k": pa.array(range(20), pa.int32())})
        connection.cursor().adbc_ingest("t", data, mode="append")
        assert connection.execute("SELECT count(*) FROM t WHERE g = k * 2").fetchone() == (20,)


def a_sequence_goes_on_after_a_crash(directory: Path) -> None:
    crashed = directory.with_name("crashed")
    with open_(directory) as connection:
        connection.execute("CREATE TABLE t (id serial PRIMARY KEY, v int)")
        connection.execute("INSERT INTO t (v) VALUES (1), (2), (3)")
        shutil.copytree(directory, crashed)
    with open_(crashed) as connection:
        assert state_of(connection, "INSERT INTO t (v) VALUES (4)") == ""
        assert connection.execute("SELECT max(id) FROM t").fetchone() == (4,)
    shutil.rmtree(crashed)


def a_partial_index_lets_go(directory: Path) -> None:
    with open_(directory) as connection:
        connection.execute("CREATE TABLE t (k int PRIMARY KEY, v int, live boolean)")
        connection.execute("CREATE UNIQUE INDEX t_live ON t (v) WHERE live")
        connection.execute("INSERT INTO t VALUES (1, 7, true), (2, 8, true)")
        connection.execute("UPDATE t SET live = false WHERE k = 1")
        assert state_of(connection, "INSERT INTO t VALUES (3, 7, true)") == ""
        assert connection.execute("SELECT k FROM t WHERE v = 7 AND live").fetchall() == [(3,)]


def jsonb_is_compared_by_meaning(directory: Path) -> None:
    documents = [
        "null",
        '"b"',
        "9.0",
        "10",
        "false",
        "true",
        "[]",
        "[1]",
        '{"a": 10}',
        '{"b": 9}',
        '{"a": 1, "b": 2}',
    ]
    with open_(directory) as connection:
        connection.execute("CREATE TABLE t (d jsonb PRIMARY KEY, nth int)")
        connection.cursor().executemany(
            "INSERT INTO t VALUES (%s, %s)", list(zip(documents, range(11), strict=True))
        )
        for again in ("9.00", '{"b":2, "a":1}'):
            assert state_of(connection, f"INSERT INTO t VALUES ('{again}', 0)") == "23505"
            assert len(connection.execute(f"SELECT nth FROM t WHERE d = '{again}'").fetchall()) == 1
        rows = connection.execute("SELECT nth FROM t WHERE d > '9' ORDER BY d LIMIT 20").fetchall()
        assert [nth for (nth,) in rows if nth not in (6,)] == [3, 4, 5, 7, 8, 9, 10]


def intervals_are_in_order(directory: Path) -> None:
    spans = ["-1 mon", "-1 day", "0", "23:00", "1 day", "29 days 25:00", "1 mon 1 day", "1 year"]
    with open_(directory) as connection:
        connection.execute("CREATE TABLE t (span interval PRIMARY KEY, nth int)")
        connection.cursor().executemany(
            "INSERT INTO t VALUES (%s, %s)", list(zip(spans, range(8), strict=True))
        )
        own = connection.execute("SELECT nth FROM t ORDER BY span LIMIT 8").fetchall()
        assert own == [(nth,) for nth in range(8)]
        assert state_of(connection, "INSERT INTO t VALUES ('12 mons', 9), ('30 days 24:00', 9)") == "23505"
        found = connection.execute(
            "SELECT nth FROM t WHERE span > '1 day' AND span < '360 days' ORDER BY span"
        )
        assert found.fetchall() == [(5,), (6,)]


# Bugs.


def takes_no_lock(patch: Patch) -> None:
    patch.setattr(LockTable, "acquire", lambda *args: None)


def forgets_what_it_touched(patch: Patch) -> None:
    written = MergePlan._written
    patch.setattr(
        MergePlan,
        "_written",
        lambda self, view, nth, given, _, clock: written(self, view, nth, given, set(), clock),
    )


def generates_nothing(patch: Patch) -> None:
    patch.setattr(Rules, "generate", lambda self, row, clock: None)


def generates_nothing_for_loads(patch: Patch) -> None:
    patch.setattr(Rules, "fill_generated", lambda rules, arrays, clock: None)


def logs_no_sequences(patch: Patch) -> None:
    patch.setattr(Workspace, "log_sequences", lambda self: None)


def keeps_entries_of_rows_that_left(patch: Patch) -> None:
    entry = IndexOps.entry

    def kept(self: Any, values: Any, key: bytes) -> tuple[bytes, bool]:
        wanted, self.predicate = self.predicate, None
        try:
            return entry(self, values, key)
        finally:
            self.predicate = wanted

    patch.setattr(IndexOps, "entry", kept)


def compares_jsonb_by_its_text(patch: Patch) -> None:
    patch.setattr(keys, "jsonb_bytes", lambda text: text.encode())


def orders_intervals_by_their_parts(patch: Patch) -> None:
    def parts(value: Any) -> bytes:
        months, days, us = value
        return b"".join(
            (one + (1 << bits - 1)).to_bytes(bits // 8, "big")
            for one, bits in ((months, 32), (days, 32), (us, 64))
        )

    patch.setattr(keys, "_interval_bytes", parts)


CASES: list[tuple[Callable[[Path], None], Callable[[Patch], None]]] = [
    (an_upsert_waits_for_who_inserts_the_key, takes_no_lock),
    (merge_changes_a_row_once, forgets_what_it_touched),
    (generated_columns_follow, generates_nothing),
    (generated_columns_of_loads_follow, generates_nothing_for_loads),
    (a_sequence_goes_on_after_a_crash, logs_no_sequences),
    (a_partial_index_lets_go, keeps_entries_of_rows_that_left),
    (jsonb_is_compared_by_meaning, compares_jsonb_by_its_text),
    (intervals_are_in_order, orders_intervals_by_their_parts),
]


@pytest.mark.parametrize(("scenario", "bug"), CASES, ids=[bug.__name__ for _, bug in CASES])
def test_a_bug_is_noticed(
    scenario: Callable[[Path], None], bug: Callable[[Patch], None], tmp_path: Path, monkeypatch: Patch
) -> None:
    scenario(tmp_path / "holds")
    bug(monkeypatch)
    with pytest.raises((AssertionError, herdpy.Error)) as caught:
        scenario(tmp_path / "fails")
    assert getattr(caught.value, "sqlstate", "") != "XX000", caught.value  # the bug itself is broken

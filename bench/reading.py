"""The embedded benchmark's reads: a million rows by key, whole, grouped, and while they change."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing

from databases import SQLITE_INSERT, Databases, arrow_rows, judged, rows
from measure import Line, in_turn, rate

import herdpy

GROUP_BY = "SELECT g, count(*), sum(d) FROM t GROUP BY g"


class Reading:
    """One database with a million rows, and sqlite3's."""

    def __init__(self, made: Databases) -> None:
        self._made = made
        self._open = made.herdpy()
        self._path = made.path

    def run(self) -> list[Line]:
        """Everything."""
        count = 1_000_000 // self._made.scale
        peer = self._made.sqlite()
        self._open.cursor().adbc_ingest("t", arrow_rows(0, count), mode="append")
        self._open.execute("CHECKPOINT")
        peer.execute("BEGIN")
        peer.executemany(SQLITE_INSERT, rows(0, count))
        peer.execute("COMMIT")
        with closing(peer):
            lines = [
                self._select_by_key(peer, count),
                self._fetch_arrow(peer, count),
                *self._group_by(peer, count),
                self._stall(peer, count),
            ]
            self._open.close()
        return lines

    def _reopen(self, **settings: int) -> herdpy.Cursor:
        """The database opened anew: no column is in memory yet. DuckDB itself has been used."""
        self._open.close()
        self._open = herdpy.connect(self._path, autocommit=True, **settings)
        self._open.execute("SELECT DISTINCT id FROM t WHERE id = 1").fetchall()
        return self._open.cursor()

    def _select_by_key(self, peer: sqlite3.Connection, count: int) -> Line:
        picks = [(i * 7919) % count for i in range(40_000 // self._made.scale)]
        cursor = self._open.cursor()

        def ours() -> float:
            execute, fetchone = cursor.execute, cursor.fetchone

            def work() -> None:
                for key in picks:
                    execute("SELECT a, c FROM t WHERE id = %s", (key,))
                    fetchone()

            return rate(len(picks), work)

        def theirs() -> float:
            execute = peer.execute
            return rate(
                len(picks),
                lambda: [execute("SELECT a, c FROM t WHERE id = ?", (k,)).fetchone() for k in picks],
            )

        a, b = in_turn(self._made.rounds, ours, theirs)
        return judged("SELECT by key, 1 thread", a, b, "/s", None, at_least=40_000)

    def _fetch_arrow(self, peer: sqlite3.Connection, count: int) -> Line:
        def ours() -> float:
            cursor = self._reopen(column_segment_bytes=0)
            return rate(count, lambda: cursor.execute("SELECT * FROM t").fetch_arrow_table())

        def theirs() -> float:
            return rate(count, lambda: peer.execute("SELECT * FROM t").fetchall())

        a, b = in_turn(self._made.rounds, ours, theirs)
        name = "fetch_arrow_table of 1 M rows, first (sqlite3: fetchall)"
        return judged(name, a, b, "rows/s", None, at_least=1e6)

    def _group_by(self, peer: sqlite3.Connection, count: int) -> list[Line]:
        def ms(work: Callable[[], object]) -> float:
            return 1000 / rate(1, work)

        def first() -> float:
            cursor = self._reopen(column_segment_bytes=0)
            return ms(lambda: cursor.execute(GROUP_BY).fetchall())

        def first_again() -> float:
            cursor = self._reopen()
            return ms(lambda: cursor.execute(GROUP_BY).fetchall())

        def of_sqlite() -> float:
            return ms(lambda: peer.execute(GROUP_BY).fetchall())

        cold, theirs = in_turn(self._made.rounds, first, of_sqlite)
        first_again()  # the closing leaves columns in files
        started, beside = in_turn(self._made.rounds, first_again, of_sqlite)
        cursor = self._open.cursor()
        warm = []
        for turn in range(max(self._made.rounds, 3)):
            for i in range(20):
                cursor.execute("UPDATE t SET d = d + 1 WHERE id = %s", ((turn * 1000 + i * 37) % count,))
            warm.append(ms(lambda: cursor.execute(GROUP_BY).fetchall()))
        return [
            judged("GROUP BY over 1 M rows, first of all", cold, theirs, "ms", None, at_most=300),
            judged("GROUP BY over 1 M rows, first after a start", started, beside, "ms", None, at_most=100),
            judged("GROUP BY over 1 M rows, again after 20 changes", warm, [], "ms", None, at_most=50),
        ]

    def _stall(self, peer: sqlite3.Connection, count: int) -> Line:
        """The longest single UPDATE while changes gather and checkpoints pass, at a million rows."""
        seconds = 10 if self._made.scale == 1 else 1
        cursor = self._open.cursor()

        def longest(execute: Callable[[str, tuple[object, ...]], object], sql: str) -> float:
            worst, at, end = 0.0, 0, time.perf_counter() + seconds
            while (began := time.perf_counter()) < end:
                at = (at + 7919) % count
                execute(sql, (at,))
                worst = max(worst, time.perf_counter() - began)
            return worst * 1000

        a, b = in_turn(
            self._made.rounds,
            lambda: longest(cursor.execute, "UPDATE t SET d = d + 1 WHERE id = %s"),
            lambda: longest(peer.execute, "UPDATE t SET d = d + 1 WHERE id = ?"),
        )
        return judged("longest UPDATE under load at 1 M rows", a, b, "ms", None, at_most=50)

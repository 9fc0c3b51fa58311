"""What the parts of the embedded benchmark share: the table and its rows, new databases, verdicts.

A part gets :class:`Databases`, makes its own in there, and gives lines back to ``embedded``.
"""

from __future__ import annotations

import sqlite3
import statistics
from pathlib import Path

import numpy as np
import pyarrow as pa
from measure import Line

import herdpy

TABLE = "CREATE TABLE t (id BIGINT PRIMARY KEY, a INTEGER, b DOUBLE PRECISION, c TEXT, d BIGINT, g INTEGER)"
INSERT = "INSERT INTO t VALUES (%s, %s, %s, %s, %s, %s)"
SQLITE_INSERT = "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)"


def rows(first: int, count: int) -> list[tuple[object, ...]]:
    """Six columns: two integers, a float, a text, a big integer and a group of a hundred."""
    return [(i, i % 1000, i * 0.5, f"name of {i}", i * 7, i % 100) for i in range(first, first + count)]


def arrow_rows(first: int, count: int) -> pa.Table:
    """The same rows as :func:`rows`, as Arrow columns."""
    ids = np.arange(first, first + count, dtype=np.int64)
    return pa.table(
        {
            "id": ids,
            "a": (ids % 1000).astype(np.int32),
            "b": ids * 0.5,
            "c": pa.array([f"name of {i}" for i in ids]),
            "d": ids * 7,
            "g": (ids % 100).astype(np.int32),
        }
    )


class Databases:
    """The databases of a run, in one temporary directory."""

    def __init__(self, directory: Path, *, quick: bool) -> None:
        self.directory = directory
        self.scale = 20 if quick else 1
        self.rounds = 1 if quick else 3
        self._made = 0

    def herdpy(self) -> herdpy.Connection:
        """A new database with the table."""
        self._made += 1
        self.path = f"{self.directory}/h{self._made}"
        connection = herdpy.connect(self.path, autocommit=True)
        connection.execute(TABLE)
        return connection

    def sqlite(self) -> sqlite3.Connection:
        """A new sqlite3 database with the table, as durable as ours."""
        self._made += 1
        connection = self.reopen_sqlite(str(self.directory / f"s{self._made}"))
        connection.execute(TABLE)
        return connection

    @staticmethod
    def reopen_sqlite(path: str) -> sqlite3.Connection:
        """Another connection to a sqlite3 database."""
        connection = sqlite3.connect(path, isolation_level=None, timeout=60)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection


def judged(
    name: str,
    ours: list[float],
    peer: list[float],
    unit: str,
    ratio: float | None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Line:
    """The line of a measurement: medians, and whether it is what was wanted."""
    line = Line(name, statistics.median(ours), unit, runs=ours, peer_runs=peer)
    line.peer = statistics.median(peer) if peer else None
    if ratio is not None:
        line.wanted, line.met = f">= {ratio:g} of sqlite3", (line.ratio or 0) >= ratio
    elif at_least is not None:
        line.wanted, line.met = f">= {at_least:,.0f} {unit}", line.ours >= at_least
    elif at_most is not None:
        line.wanted, line.met = f"<= {at_most:,.0f} {unit}", line.ours <= at_most
    return line

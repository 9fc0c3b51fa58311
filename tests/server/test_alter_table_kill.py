"""A server killed while ALTER TABLE writes a table anew: the table is whole, as it was or as it was to be.

How far it has come is seen by the log, which gets the new rows in parts; kills come before the first part,
between parts, and about the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.server_process import PATIENCE_S, RunningServer

ROWS = 12_000
KILLS = (0, 1, 2 << 20)
"""Bytes of the new rows that are in the log when the server is killed; 0: the statement has begun."""
ALTER = (
    "ALTER TABLE wide ALTER COLUMN n TYPE TEXT USING 'n' || n, DROP COLUMN gone,"
    " ADD COLUMN twice INT GENERATED ALWAYS AS (k * 2) STORED, ADD COLUMN nr SERIAL UNIQUE"
)
BEFORE = (["k", "n", "pad", "gone"], (ROWS, ROWS * (ROWS - 1) // 2 * 3, ROWS, ROWS))
AFTER = (["k", "n", "pad", "twice", "nr"], (ROWS, ROWS * (ROWS - 1), ROWS * (ROWS + 1) // 2, ROWS))


def logged(data: Path) -> int:
    """Bytes of the log, whatever its files are called."""
    total = 0
    for path in data.rglob("*"):
        if path.suffix in {".mdb", ".lock"} or "ledger" not in str(path):
            continue
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # a ledger that was deleted meanwhile
            continue
    return total


def state(connection: psycopg.Connection[Any]) -> tuple[list[str], Any]:
    """The columns, and sums that tell whether all rows are there, in the one form or the other."""
    cursor = connection.execute("SELECT * FROM wide LIMIT 0")
    assert cursor.description is not None
    names = [column.name for column in cursor.description]
    if "gone" in names:
        sums = "count(*), sum(n), count(gone)"
    else:
        assert connection.execute("SELECT count(*) FROM wide WHERE n <> 'n' || k * 3").fetchone() == (0,)
        sums = "count(*), sum(twice), sum(nr)"
    found = connection.execute(
        f"SELECT {sums}, (SELECT count(*) FROM wide WHERE pad >= '') FROM wide"
    ).fetchone()
    return names, found


def alter_until(server: RunningServer, enough: Callable[[], bool]) -> bool:
    """Begin the ALTER and kill the server once ``enough``; whether it was acknowledged before."""
    connection = server.connect()
    answered: list[bool] = []

    def run() -> None:
        try:
            connection.execute(ALTER)
            answered.append(True)
        except psycopg.OperationalError:
            answered.append(False)

    thread = threading.Thread(target=run)
    thread.start()
    until = time.monotonic() + PATIENCE_S
    while not enough() and thread.is_alive():
        assert time.monotonic() < until
        time.sleep(0.001)
    server.process.kill()
    thread.join()
    server.wait()
    return answered == [True]


def come_so_far(server: RunningServer, much: int) -> Callable[[], bool]:
    """Whether so many bytes came to the log; 0: whether the statement has begun."""
    begun, watching = logged(server.data), server.connect()
    active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'ALTER TABLE wide%'"
    # A server's first question about its catalog takes as long as the ALTER.
    assert watching.execute(active).fetchone() == (0,)

    def enough() -> bool:
        if much:
            return logged(server.data) - begun >= much
        return watching.execute(active).fetchone() == (1,)

    return enough


@pytest.mark.timeout(300)
def test_a_table_is_whole_whenever_its_rewrite_is_cut_short(start: Callable[..., RunningServer]) -> None:
    server = start().ready()
    connection = server.connect()
    connection.execute("CREATE TABLE wide (k INT PRIMARY KEY, n INT NOT NULL, pad TEXT, gone INT)")
    connection.execute("CREATE INDEX ON wide (n)")
    connection.execute(
        "INSERT INTO wide SELECT k, k * 3, repeat(md5(k::text), 8), 1 FROM generate_series(0, %s) k",
        [ROWS - 1],
    )
    connection.execute("CHECKPOINT")
    assert state(connection) == BEFORE
    outcomes = []
    for much in KILLS:
        done = alter_until(server, come_so_far(server, much))
        server.close()
        server = start(data=server.data).ready()
        found = state(server.connect())
        assert found in (BEFORE, AFTER), much
        assert found == AFTER or not done, "acknowledged, and gone"
        outcomes.append("after" if found == AFTER else "before")
        if found == AFTER:
            break
    assert outcomes[0] == "before"
    connection = server.connect()
    if outcomes[-1] == "before":
        connection.execute(ALTER)
    assert state(connection) == AFTER
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("INSERT INTO wide (k, n, nr) VALUES (-1, '', 1)")
    assert connection.execute("INSERT INTO wide (k, n) VALUES (-1, 'x') RETURNING twice, nr").fetchone() == (
        -2,
        ROWS + 1,
    )

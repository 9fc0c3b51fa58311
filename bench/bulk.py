"""The server's benchmark: rows in bulk by the driver beside psycopg on PostgreSQL, four columns a row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import closing
from functools import partial
from statistics import median
from typing import Any

from measure import Line, in_turn, rate
from postgresql import DATABASE, connect

import herdpy

TABLE = "CREATE TABLE {} (id INTEGER PRIMARY KEY, c TEXT, b DOUBLE PRECISION, at TIMESTAMP)"
INSERT = "INSERT INTO bulk VALUES (%s, %s, %s, %s)"
COPY = "COPY bulk FROM STDIN"

Row = tuple[int, str, float, dt.datetime]
Connect = Callable[[], Any]


def measure_bulk(ours: int, peer: int, *, quick: bool) -> list[Line]:
    """executemany beside COPY of the same rows, INSERT ... SELECT, fetchall and a stream."""
    rounds, count = (1, 10_000) if quick else (5, 200_000)
    began = dt.datetime(2024, 1, 1)
    rows = [(n, f"name of {n}", n * 0.5, began + dt.timedelta(seconds=n)) for n in range(count)]
    herdpy_one = partial(herdpy.connect, f"herdpy://herdpy@127.0.0.1:{ours}/{DATABASE}")
    peer_one = partial(_peer, peer)
    ways: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {
        "executemany INSERT (peer: COPY of rows)": (
            partial(_timed, herdpy_one, rows, _executemany),
            partial(_timed, peer_one, rows, _copy),
        ),
        "INSERT ... SELECT": (
            partial(_filled, herdpy_one, rows, _insert_select),
            partial(_filled, peer_one, rows, _insert_select),
        ),
        "fetchall": (
            partial(_filled, herdpy_one, rows, _fetchall),
            partial(_filled, peer_one, rows, _fetchall),
        ),
        "stream (peer: named cursor)": (
            partial(_filled, herdpy_one, rows, _stream),
            partial(_filled, peer_one, rows, _named_cursor),
        ),
    }
    lines = []
    for name, (run, peer_run) in ways.items():
        runs, peer_runs = in_turn(rounds, run, peer_run)
        lines.append(Line(name, median(runs), "rows/s", median(peer_runs), runs=runs, peer_runs=peer_runs))
    return lines


def _peer(port: int) -> Any:
    connection = connect(port)
    connection.autocommit = False
    return connection


def _timed(open_one: Connect, rows: list[Row], work: Callable[[Any, list[Row]], None]) -> float:
    """Rows a second of ``work`` with an empty table."""
    with closing(open_one()) as connection:
        _fresh(connection)
        return rate(len(rows), lambda: work(connection, rows))


def _filled(open_one: Connect, rows: list[Row], work: Callable[[Any, list[Row]], None]) -> float:
    """The same with the rows in the table."""
    with closing(open_one()) as connection:
        _fresh(connection)
        if isinstance(connection, herdpy.Connection):
            _executemany(connection, rows)
        else:
            _copy(connection, rows)
        return rate(len(rows), lambda: work(connection, rows))


def _fresh(connection: Any) -> None:
    for name in ("bulk", "other"):
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(TABLE.format(name))
    connection.commit()


def _executemany(connection: Any, rows: list[Row]) -> None:
    connection.cursor().executemany(INSERT, rows)
    connection.commit()


def _copy(connection: Any, rows: list[Row]) -> None:
    with connection.cursor().copy(COPY) as copy:
        for row in rows:
            copy.write_row(row)
    connection.commit()


def _insert_select(connection: Any, rows: list[Row]) -> None:
    del rows
    connection.execute("INSERT INTO other SELECT * FROM bulk")
    connection.commit()


def _fetchall(connection: Any, rows: list[Row]) -> None:
    _check(len(connection.execute("SELECT * FROM bulk").fetchall()), rows)


def _stream(connection: Any, rows: list[Row]) -> None:
    with connection.stream("SELECT * FROM bulk", size=20_000) as came:
        _check(sum(1 for _ in came), rows)


def _named_cursor(connection: Any, rows: list[Row]) -> None:
    with connection.cursor(name="came") as came:
        came.itersize = 20_000
        _check(sum(1 for _ in came.execute("SELECT * FROM bulk")), rows)


def _check(count: int, rows: list[Row]) -> None:
    if count != len(rows):
        raise RuntimeError(f"{count} rows came, not {len(rows)}")

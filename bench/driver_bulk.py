"""The driver's benchmark: rows in bulk, as Python's objects and as Arrow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from statistics import median
from typing import Any

import pyarrow as pa
from cluster_bed import DATABASE, Bed
from measure import Line, in_turn, rate
from postgresql import connect

import herdpy

TABLE = "CREATE TABLE bulk (id BIGINT, a INTEGER, b DOUBLE PRECISION, c TEXT, PRIMARY KEY (id))"
INSERT = "INSERT INTO bulk VALUES (%s, %s, %s, %s)"
INGEST_ROWS_S, FETCH_ROWS_S = 150_000, 1_000_000
"""What is aimed at."""

Rows = list[tuple[int, int, float, str]]


def measure_many(bed: Bed) -> list[Line]:
    """executemany of an INSERT in one transaction."""
    rows = _rows(5_000 if bed.quick else 100_000)

    def run(open_one: Callable[[], Any]) -> float:
        with closing(_fresh(open_one)) as connection:

            def load() -> None:
                connection.cursor().executemany(INSERT, rows)
                connection.commit()

            return rate(len(rows), load)

    runs, peers = in_turn(bed.rounds, partial(run, _ours(bed)), partial(run, _peer(bed)))
    return [_line("executemany INSERT", runs, peers)]


def measure_ingest(bed: Bed) -> list[Line]:
    """An Arrow table into a table; psycopg by COPY of rows, text."""
    rows = _rows(50_000 if bed.quick else 1_000_000)
    table = _table(rows)

    def ours() -> float:
        with closing(_fresh(_ours(bed))) as connection:

            def load() -> None:
                connection.cursor().adbc_ingest("bulk", table, mode="append")
                connection.commit()

            return rate(len(rows), load)

    def peer() -> float:
        with closing(_fresh(_peer(bed))) as connection:

            def load() -> None:
                with connection.cursor().copy("COPY bulk FROM STDIN") as copy:
                    for row in table.to_pylist():
                        copy.write_row(tuple(row.values()))
                connection.commit()

            return rate(len(rows), load)

    line = _line("adbc_ingest (peer: COPY of rows)", *in_turn(bed.rounds, ours, peer))
    return [_wanted(line, INGEST_ROWS_S)]


def measure_fetch(bed: Bed) -> list[Line]:
    """All rows of a table as an Arrow table; psycopg's rows made into one."""
    rows = _rows(50_000 if bed.quick else 1_000_000)
    table = _table(rows)
    with closing(_fresh(_ours(bed))) as connection:
        connection.cursor().adbc_ingest("bulk", table, mode="append")
        connection.commit()
    with closing(_fresh(_peer(bed))) as connection:
        with connection.cursor().copy("COPY bulk FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        connection.commit()

    def check(count: int) -> None:
        if count != len(rows):
            raise RuntimeError(f"{count} rows came, not {len(rows)}")

    def ours(arrow: bool) -> float:
        with closing(_ours(bed)()) as connection:
            return rate(
                len(rows),
                lambda: check(
                    connection.execute("SELECT * FROM bulk", arrow=arrow).fetch_arrow_table().num_rows
                ),
            )

    def streamed() -> float:
        with (
            closing(_ours(bed)()) as connection,
            connection.stream("SELECT * FROM bulk", size=20_000) as came,
        ):
            return rate(len(rows), lambda: check(sum(1 for _ in came)))

    def peer() -> float:
        with closing(_peer(bed)()) as connection:

            def fetch() -> None:
                columns = list(zip(*connection.execute("SELECT * FROM bulk").fetchall(), strict=True))
                check(pa.table(columns, schema=table.schema).num_rows)

            return rate(len(rows), fetch)

    def peer_streamed() -> float:
        with closing(_peer(bed)()) as connection, connection.cursor(name="came") as came:
            came.itersize = 20_000
            return rate(len(rows), lambda: check(sum(1 for _ in came.execute("SELECT * FROM bulk"))))

    arrow = _line(
        "fetch as Arrow (peer: rows made into a table)", *in_turn(bed.rounds, partial(ours, True), peer)
    )
    return [
        _wanted(arrow, FETCH_ROWS_S),
        _line("fetch rows as Arrow afterwards (the same)", *in_turn(bed.rounds, partial(ours, False), peer)),
        _line("stream rows (peer: named cursor)", *in_turn(bed.rounds, streamed, peer_streamed)),
    ]


def _rows(count: int) -> Rows:
    return [(n, n % 1000, n * 0.5, f"name of {n}") for n in range(count)]


def _table(rows: Rows) -> pa.Table:
    fields = [("id", pa.int64()), ("a", pa.int32()), ("b", pa.float64()), ("c", pa.string())]
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=pa.schema(fields))


def _ours(bed: Bed) -> Callable[[], Any]:
    return partial(herdpy.connect, bed.cluster.url)


def _peer(bed: Bed) -> Callable[[], Any]:
    def open_one() -> Any:
        connection = connect(bed.peer, DATABASE)
        connection.autocommit = False
        return connection

    return open_one


def _fresh(open_one: Callable[[], Any]) -> Any:
    connection = open_one()
    connection.execute("DROP TABLE IF EXISTS bulk")
    connection.execute(TABLE)
    connection.commit()
    return connection


def _line(name: str, runs: list[float], peers: list[float]) -> Line:
    return Line(name, median(runs), "rows/s", median(peers), runs=runs, peer_runs=peers)


def _wanted(line: Line, rows_s: int) -> Line:
    line.wanted, line.met = f">= {rows_s:,} rows/s", line.ours >= rows_s
    return line

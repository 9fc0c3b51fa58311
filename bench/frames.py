"""Frames of pandas and polars through Arrow, beside the libraries' own functions on the same connection.

    python bench/frames.py [--rows N] [--quick]

One table with an INTEGER, a BIGINT, a DOUBLE PRECISION, a NUMERIC(10, 2), a TEXT and a TIMESTAMP column,
read and written whole, from a directory and from a server on this machine. The plain functions go
through SQLAlchemy (pandas) or the driver's rows (polars). Each is run three times; the best counts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import polars as pl
import sqlalchemy as sa

import herdpy
import herdpy.pandas
import herdpy.polars

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.server_process import RunningServer

COLUMNS = """
SELECT i::int AS id, i * 1000003::bigint AS big, i / 7.0::float8 AS ratio,
       (i % 100000)::numeric(10, 2) AS price, 'name ' || i AS name,
       timestamp '2024-01-01' + i * interval '1 second' AS at
FROM generate_series(1, {rows}) AS g(i)
"""


def best(run: Callable[[], object], times: int) -> float:
    """The shortest of so many runs, in seconds."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begun)
    return min(taken)


def measure(url: str, rows: int, times: int) -> list[tuple[str, float, float]]:
    """What was done, seconds through Arrow, seconds of the libraries' own functions."""
    engine = sa.create_engine(url)
    with herdpy.connect(url, autocommit=True) as conn:
        conn.execute("CREATE TABLE source AS " + COLUMNS.format(rows=rows))
        frame = herdpy.pandas.read_sql("source", conn)
        polar = herdpy.polars.read_database("source", conn)
        query = "SELECT * FROM source"
        results = [
            (
                "pandas, read",
                best(lambda: herdpy.pandas.read_sql(query, conn), times),
                best(lambda: pd.read_sql(query, engine), times),
            ),
            (
                "pandas, write",
                best(
                    lambda: herdpy.pandas.to_sql(frame, "copy", conn, index=False, if_exists="replace"), times
                ),
                best(lambda: frame.to_sql("copy", engine, index=False, if_exists="replace"), 1),
            ),
            (
                "polars, read",
                best(lambda: herdpy.polars.read_database(query, conn), times),
                best(lambda: pl.read_database(query, conn), times),
            ),
            (
                "polars, write",
                best(
                    lambda: herdpy.polars.write_database(polar, "copy", conn, if_table_exists="replace"),
                    times,
                ),
                best(
                    lambda: polar.write_database(
                        "copy", engine, engine="sqlalchemy", if_table_exists="replace"
                    ),
                    1,
                ),
            ),
        ]
    engine.dispose()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--quick", action="store_true", help="20,000 rows, once")
    asked = parser.parse_args()
    rows, times = (20_000, 1) if asked.quick else (asked.rows, 3)
    with tempfile.TemporaryDirectory() as directory:
        embedded = measure(f"herdpy:///{directory}/embedded", rows, times)
        server = RunningServer(Path(directory) / "server").ready()
        try:
            remote = measure(f"herdpy://ann@127.0.0.1:{server.port}", rows, times)
        finally:
            server.close()
    print(f"{rows:,} rows of 6 columns; rows a second through Arrow, and by the library's own function\n")
    print("| | directory | plain | ratio | server | plain | ratio |")
    print("|---|---|---|---|---|---|---|")
    for (what, fast, plain), (_, remote_fast, remote_plain) in zip(embedded, remote, strict=True):
        cells = [
            cell
            for quick, slow in ((fast, plain), (remote_fast, remote_plain))
            for cell in (f"{rows / quick:,.0f}", f"{rows / slow:,.0f}", f"{slow / quick:.1f}")
        ]
        print(f"| {what} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

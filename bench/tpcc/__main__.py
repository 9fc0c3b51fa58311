"""Run TPC-C on a database: load it if it is empty, run terminals, look whether the conditions hold."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from typing import Any

import psycopg

from bench.tpcc.conditions import broken
from bench.tpcc.population import load
from bench.tpcc.scale import Scale
from bench.tpcc.terminals import started


def main() -> int:
    """The command; its exit status is 1 when a condition does not hold or a terminal failed."""
    parser = argparse.ArgumentParser(prog="bench.tpcc", description=__doc__)
    parser.add_argument("url", help="as libpq takes it")
    parser.add_argument("--warehouses", type=int, default=1)
    parser.add_argument("--districts", type=int, default=10, help="of each warehouse")
    parser.add_argument("--customers", type=int, default=3000, help="of each district")
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--terminals", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    scale = Scale(given.warehouses, given.districts, given.customers, given.items)

    def connect() -> Any:
        return psycopg.connect(given.url)

    connection = connect()
    if connection.execute("SELECT count(*) FROM pg_tables WHERE tablename = 'new_order'").fetchone()[0] == 0:
        load(connection, scale, given.seed)
    stop = threading.Event()
    began = time.perf_counter()
    terminals = started(connect, scale, given.terminals, given.seed, stop)
    time.sleep(given.seconds)
    stop.set()
    for one in terminals:
        one.join()
    took = time.perf_counter() - began
    failed = [one.error for one in terminals if one.error is not None]
    for error in failed:
        print(f"a terminal failed: {error!r}", file=sys.stderr)
    orders = sum(one.done["new_order"] for one in terminals)
    total = sum(sum(one.done.values()) for one in terminals)
    retried = sum(one.retried for one in terminals)
    print(
        f"{total} transactions in {took:.1f} s, {orders / took * 60:.0f} New-Orders a minute, "
        f"{retried} retried"
    )
    wrong = broken(connection)
    for number, rows in wrong.items():
        print(f"condition {number} does not hold: {rows}", file=sys.stderr)
    return 1 if wrong or failed else 0


if __name__ == "__main__":
    sys.exit(main())

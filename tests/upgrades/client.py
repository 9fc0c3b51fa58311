"""One client of a cluster, with whatever driver PYTHONPATH has, until its standard input ends.

    python tests/upgrades/client.py URL NAME FILE

It inserts rows by single statements, by many at once and by transactions that move money, and reads its own
last write after each. FILE gets a line of JSON for each operation: what, when (the machine's monotonic clock)
and what became of it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import herdpy

MANY = 5
ACCOUNTS = 10


def single(conn: Any, name: str, number: int) -> None:
    conn.execute("INSERT INTO written VALUES (%s, %s, 0)", (name, number))


def many(conn: Any, name: str, number: int) -> None:
    rows = [(name, number, part) for part in range(MANY)]
    conn.cursor().executemany("INSERT INTO written VALUES (%s, %s, %s)", rows)


def moved(conn: Any, name: str, number: int) -> None:
    def work(conn: Any) -> None:
        conn.execute("UPDATE account SET money = money - 1 WHERE id = %s", (number % ACCOUNTS,))
        conn.execute("UPDATE account SET money = money + 1 WHERE id = %s", ((number + 3) % ACCOUNTS,))
        conn.execute("INSERT INTO written VALUES (%s, %s, 0)", (name, number))

    conn.autocommit = False
    try:
        herdpy.run_transaction(conn, work)
    finally:
        conn.rollback()
        conn.autocommit = True


WAYS = (single, many, moved)


def main() -> None:
    url, name, path = sys.argv[1:]
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    with open(path, "w", buffering=1) as out, herdpy.connect(url, autocommit=True) as conn:
        number = 0
        while not over.is_set():
            number += 1
            way = WAYS[number % len(WAYS)]
            began = time.monotonic()
            outcome, error, seen = "done", "", True
            try:
                way(conn, name, number)
                found = conn.execute(
                    "SELECT count(*) FROM written WHERE client = %s AND number = %s", (name, number)
                ).fetchone()
                seen = found == (MANY if way is many else 1,)
            except herdpy.Error as failure:
                outcome, error = failure.outcome, f"{failure.sqlstate} {failure}"
            out.write(
                json.dumps(
                    {
                        "number": number,
                        "way": way.__name__,
                        "began": began,
                        "ended": time.monotonic(),
                        "outcome": outcome,
                        "error": error,
                        "seen": seen,
                    }
                )
                + "\n"
            )


if __name__ == "__main__":
    main()

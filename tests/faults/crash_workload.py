"""The process that gets killed: threads that change a database and say what was acknowledged.

Run as ``python crash_workload.py DIR SEED FIRST_OP``. Every acknowledged operation is written to
standard output as one line, in one ``write``, after the driver returned: what the line says is a
promise. Operations are of every kind that claims to be atomic.
"""

from __future__ import annotations

import os
import random
import sys
import threading

import pyarrow as pa

import herdpy

THREADS = 4
ACCOUNTS = 20
START_BALANCE = 1000
SETTINGS = {
    # Everything that happens now and then happens all the time: checkpoints, rolls, trims.
    "checkpoint_interval_s": 0.02,
    "checkpoint_rows": 300,
    "max_ledger_bytes": 100_000,
    "log_retention_bytes": 300_000,
    "transaction_memory_bytes": 20_000,  # what is larger lies in files
}


def prepare(connection: herdpy.Connection) -> None:
    """The tables: operations in parts, and accounts whose sum never changes."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS op (id BIGINT, part INTEGER, parts INTEGER NOT NULL, kind TEXT,"
        " PRIMARY KEY (id, part))"
    )
    connection.execute("CREATE INDEX IF NOT EXISTS op_kind ON op (kind, part)")
    connection.execute("CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL)")
    if connection.execute("SELECT count(*) FROM account").fetchone() == (0,):
        rows = [(i, START_BALANCE) for i in range(ACCOUNTS)]
        connection.cursor().executemany("INSERT INTO account VALUES (%s, %s)", rows)


def one_statement(connection: herdpy.Connection, op: int, parts: int, random_: random.Random) -> None:
    """One INSERT of several rows."""
    del random_
    values = ", ".join(f"({op}, {part}, {parts}, 'statement')" for part in range(parts))
    connection.execute(f"INSERT INTO op VALUES {values}")


def one_transaction(connection: herdpy.Connection, op: int, parts: int, random_: random.Random) -> None:
    """Several statements in a transaction, a transfer between two accounts among them."""
    source, target = random_.sample(range(ACCOUNTS), 2)
    amount = random_.randint(1, 50)
    with connection.transaction():
        for part in range(parts):
            connection.execute("INSERT INTO op VALUES (%s, %s, %s, 'transaction')", (op, part, parts))
        for account, change in sorted([(source, -amount), (target, amount)]):
            connection.execute("UPDATE account SET balance = balance + %s WHERE id = %s", (change, account))


def many(connection: herdpy.Connection, op: int, parts: int, random_: random.Random) -> None:
    """executemany."""
    del random_
    rows = [(op, part, parts, "many") for part in range(parts)]
    connection.cursor().executemany("INSERT INTO op VALUES (%s, %s, %s, %s)", rows)


def arrow(connection: herdpy.Connection, op: int, parts: int, random_: random.Random) -> None:
    """A bulk load, larger than an entry of the log now and then."""
    parts = parts * random_.choice([1, 100, 2000])
    table = pa.table(
        {
            "id": pa.array([op] * parts, pa.int64()),
            "part": pa.array(range(parts), pa.int32()),
            "parts": pa.array([parts] * parts, pa.int32()),
            "kind": ["arrow"] * parts,
        }
    )
    connection.cursor().adbc_ingest("op", table, mode="append")


def replaced(connection: herdpy.Connection, op: int, parts: int, random_: random.Random) -> None:
    """Rows written, changed and deleted again, so that only the last form may be found."""
    one_statement(connection, op, parts + 3, random_)
    with connection.transaction():
        connection.execute("DELETE FROM op WHERE id = %s AND part >= %s", (op, parts))
        connection.execute("UPDATE op SET parts = %s, kind = 'replaced' WHERE id = %s", (parts, op))


KINDS = [one_statement, one_statement, one_transaction, one_transaction, many, arrow, replaced]


def work(path: str, seed: int, first_op: int, thread: int) -> None:
    """Operations until the end, which is not ours to choose."""
    random_ = random.Random(f"{seed}/{thread}")
    with herdpy.connect(f"herdpy://{path}", autocommit=True) as connection:
        op = first_op + thread
        while True:
            kind = random_.choice(KINDS)
            kind(connection, op, random_.randint(1, 8), random_)
            os.write(1, f"{op} {kind.__name__}\n".encode())
            op += THREADS


def main() -> None:
    """Prepare, say so, and start the threads."""
    path, seed, first_op = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with herdpy.connect(f"herdpy://{path}", autocommit=True, **SETTINGS) as connection:
        prepare(connection)
        os.write(1, b"ready\n")
        threads = [threading.Thread(target=work, args=(path, seed, first_op, i)) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()

"""Random work on one table of an embedded database, and what the table held after each commit."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa

import herdpy

TABLES = {
    "keyed": "CREATE TABLE t (id INT PRIMARY KEY, name TEXT, price NUMERIC(9,2), at TIMESTAMPTZ, ok BOOL)",
    "two columns": "CREATE TABLE t (name TEXT, id BIGINT, price NUMERIC(9,2), at TIMESTAMPTZ, ok BOOL,"
    " PRIMARY KEY (name, id))",
    "no key": "CREATE TABLE t (id INT, name TEXT, price NUMERIC(9,2), at TIMESTAMPTZ, ok BOOL)",
}


def work(directory, create, seed, steps):
    """Do it; the states of the table after each commit, None where it is not there."""
    random_ = random.Random(seed)
    states = []
    with herdpy.connect(str(directory), autocommit=True) as connection, connection.cursor() as cursor:

        def note():
            try:
                cursor.execute("SELECT * FROM t")
            except herdpy.ProgrammingError:
                state = None
            else:
                names = [one[0] for one in cursor.description]
                assert names
                state = sorted((tuple(row) for row in cursor.fetchall()), key=repr)
            if not states or states[-1] != state:
                states.append(state)

        note()
        cursor.execute("CREATE TABLE other (id INT PRIMARY KEY)")
        cursor.execute(create)
        note()
        there = True
        for step in range(steps):
            if not there:
                cursor.execute(create)
                there = True
            else:
                there = _step(connection, cursor, random_, step)
            note()
    return states


def _row(random_, ids):
    return (
        random_.choice(ids),
        random_.choice(["a", "b", "ä", "longer than the others"]),
        random_.choice([None, Decimal("1.50"), Decimal("-7.25")]),
        random_.choice([None, "2026-03-01 08:00:00+00", "1950-01-01 00:00:00.5+00"]),
        random_.choice([True, False, None]),
    )


def _step(connection, cursor, random_, step):
    """One transaction, of one statement or several; whether the table is still there."""
    ids = list(range(step * 100, step * 100 + 50))
    chance = random_.random()
    insert = "INSERT INTO t (id, name, price, at, ok) VALUES (%s, %s, %s, %s, %s)"
    if chance < 0.3:
        cursor.execute(insert, _row(random_, ids))
    elif chance < 0.4:
        rows = pa.table(
            {
                "id": pa.array(ids, pa.int32()),
                "name": [str(one) for one in ids],
                "price": pa.array([Decimal("3.10")] * len(ids), pa.decimal128(9, 2)),
                "at": pa.array([None] * len(ids), pa.timestamp("us", "UTC")),
                "ok": pa.array([True] * len(ids)),
            }
        )
        cursor.adbc_ingest("t", rows, mode="append")
    elif chance < 0.55:
        cursor.execute("UPDATE t SET name = name || %s WHERE id %% 7 = %s", ("+", random_.randrange(7)))
    elif chance < 0.65:
        cursor.execute("UPDATE t SET id = id + 20000 WHERE id %% 11 = %s", (random_.randrange(11),))
    elif chance < 0.8:
        cursor.execute("DELETE FROM t WHERE id %% 5 = %s", (random_.randrange(5),))
    elif chance < 0.93:
        cursor.execute("BEGIN")
        for one in random_.sample(ids, 3):
            cursor.execute("INSERT INTO other VALUES (%s)", (one,))
            cursor.execute(insert, _row(random_, [one]))
        cursor.execute("DELETE FROM t WHERE id = (SELECT min(id) FROM t)")
        cursor.execute("UPDATE t SET ok = NOT ok WHERE id = (SELECT max(id) FROM t)")
        cursor.execute(random_.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
    elif chance < 0.96:
        cursor.execute("TRUNCATE t")
    else:
        cursor.execute("DROP TABLE t")
        return False
    return True

"""A database that is changed at random, with what its tables held at each LSN."""

from __future__ import annotations

import random
import string
import time
import uuid
from contextlib import suppress

import pyarrow as pa

import herdpy
from herdpy_server.embedded import Database
from herdpy_server.publishing.snapshot import Moment, applied_state, write_snapshot

DEFINITIONS = {
    "t": "CREATE TABLE t (id int PRIMARY KEY, name text, price numeric(10,2), at timestamptz, ok boolean)",
    "u": "CREATE TABLE u (a double precision, b text)",
    "v": "CREATE TABLE v (k text, n bigint, u uuid, d date, raw bytea, amount numeric, PRIMARY KEY (k, n))",
}
RANGES = {"t": 60, "u": 40, "v": 15}


def plain(table):
    """Rows of a batch or table as dicts that can be compared; Python has no infinite dates."""
    for at, field in enumerate(table.schema):
        if pa.types.is_date(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.int32()))
    return table.to_pylist()


class Workload:
    """Random statements on three tables: one with a plain key, one without, one with a key of two columns.

    Attributes:
        lsns: of the commits, in order.
        held: what each table held after each LSN; None: it was not there.
        times: a moment after each and before the next one, microseconds since 1970.
    """

    def __init__(self, directory, seed, url=""):
        self.random = random.Random(seed)
        self.database = Database.acquire(directory)
        self.connection = herdpy.connect(str(directory))
        self.cursor = self.connection.cursor()
        self.url = url
        self.lsns = []
        self.held = {}
        self.times = {}
        for definition in DEFINITIONS.values():
            self.cursor.execute(definition)
        self.connection.commit()
        self.note()

    def run(self, steps):
        for _ in range(steps):
            for _ in range(self.random.choice([1, 1, 1, 3])):
                name = self.random.choice(list(DEFINITIONS))
                self.step(name)
            self.connection.commit()
            self.note()

    def note(self):
        lsn = self.database.log.end
        self.lsns.append(lsn)
        self.times[lsn] = time.time_ns() // 1000
        self.held[lsn] = {name: self.rows(name) for name in DEFINITIONS}
        self.connection.rollback()

    def rows(self, name):
        try:
            self.cursor.execute(f"SELECT * FROM {name}")
        except herdpy.ProgrammingError:
            self.connection.rollback()
            return None
        return sorted(plain(self.cursor.fetch_arrow_table()), key=repr)

    def publish(self):
        """A snapshot of what is committed now; its LSN."""
        state = applied_state(self.database.store)
        try:
            log = self.database.log
            write_snapshot(state, self.url, "herdpy", Moment(log.state.log_id, None, 0))
            return state.lsn
        finally:
            state.close()

    def close(self):
        self.connection.close()
        self.database.log.note_lac()
        self.database.release()

    # One statement.

    def step(self, name):
        kind = self.random.choices(
            ["insert", "many", "arrow", "update", "move", "delete", "truncate", "again"],
            [10, 4, 4, 8, 4, 6, 0.3, 0.3],
        )[0]
        with suppress(herdpy.IntegrityError, herdpy.ProgrammingError):  # taken, or not there
            self.cursor.execute("SAVEPOINT s")
            getattr(self, "do_" + kind)(name)
            return
        self.cursor.execute("ROLLBACK TO s")

    def values(self, name):
        r = self.random
        text = r.choice(
            [None, "", "ä" * r.randrange(5), "".join(r.choices(string.ascii_letters, k=r.choice([3, 900])))]
        )
        if name == "t":
            return [
                r.randrange(RANGES["t"]),
                text,
                r.randrange(-999, 999) / 4,
                "2026-02-03 04:05:06+00",
                r.choice([None, True]),
            ]
        if name == "u":
            return [r.choice([None, 1.5, -0.0, float("inf")]), text]
        return [
            r.choice("abc\u00e9"),
            r.randrange(-2, RANGES["v"]),
            r.choice([None, str(uuid.UUID(int=r.getrandbits(128)))]),
            r.choice(["infinity", "-infinity", "2026-02-28", None]),
            b"\0x",
            f"{r.randrange(100)}.{r.randrange(1000)}",
        ]

    def insert(self, name, rows):
        marks = ", ".join(["(" + ", ".join(["%s"] * len(rows[0])) + ")"] * len(rows))
        self.cursor.execute(f"INSERT INTO {name} VALUES {marks}", [one for row in rows for one in row])

    def do_insert(self, name):
        self.insert(name, [self.values(name)])

    def do_many(self, name):
        self.insert(name, [self.values(name) for _ in range(self.random.choice([2, 6]))])

    def do_arrow(self, name):
        base = 1000 + self.random.randrange(400)
        count = self.random.choice([1, 70])
        if name == "t":
            table = pa.table(
                {"id": range(base, base + count), "name": ["arrow"] * count, "price": [1.25] * count}
            )
        elif name == "u":
            table = pa.table({"a": [2.5] * count, "b": ["arrow"] * count})
        else:
            table = pa.table({"k": ["z"] * count, "n": range(base, base + count), "d": [None] * count})
        self.cursor.adbc_ingest(name, table, mode="append")

    def do_update(self, name):
        column = {"t": "name", "u": "b", "v": "amount"}[name]
        value = {"t": "'changed'", "u": "b || 'x'", "v": "amount + 1.50"}[name]
        self.cursor.execute(f"UPDATE {name} SET {column} = {value} WHERE {self.some(name)}")

    def do_move(self, name):
        key = {"t": "id", "u": "a", "v": "n"}[name]
        by = self.random.choice(["+ 1", "- 1", "+ 100"])
        self.cursor.execute(f"UPDATE {name} SET {key} = {key} {by} WHERE {self.some(name)}")

    def do_delete(self, name):
        self.cursor.execute(f"DELETE FROM {name} WHERE {self.some(name)}")

    def do_truncate(self, name):
        self.cursor.execute(f"TRUNCATE {name}")

    def do_again(self, name):
        self.cursor.execute(f"DROP TABLE IF EXISTS {name}")
        if self.random.random() < 0.8:
            self.cursor.execute(DEFINITIONS[name])

    def some(self, name):
        low = self.random.randrange(60)
        high = low + self.random.choice([1, 20])
        return {
            "t": f"id BETWEEN {low} AND {high}",
            "u": f"a < {low} OR b = ''",
            "v": f"n BETWEEN {low} AND {high}",
        }[name]

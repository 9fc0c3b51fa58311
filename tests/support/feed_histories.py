"""Random histories of tables that share a name, and the fold by key of a feed that must equal them.

``Histories`` gives transactions as lists of statements: rows that move to other keys, keys that are swapped,
taken over and given back, TRUNCATE, ALTER with and without a rewrite, DROP and CREATE, tables that come to
the name by RENAME and SET SCHEMA, and a temporary table of the name. ``fold`` has the rules of
docs/spark.md.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

from herdpy.log.lsn import LSN
from herdpy_spark.feed.driver import FeedDriver
from herdpy_spark.feed.table import FeedShape
from herdpy_spark.feed.tasks import read_task
from herdpy_spark.log import LogAddress, NoSuchTableError, plan_table, read_partition

NAMES = ("public.t", "app.t")
COLUMNS = "(id INT, part TEXT, v TEXT, n NUMERIC(9,2), PRIMARY KEY (id, part))"
SETUP = (
    "CREATE SCHEMA app",
    "CREATE SCHEMA aside",
    *(f"CREATE TABLE {name} {COLUMNS}" for name in NAMES),
)
_KEYS = 12


class Histories:
    """Transactions from a seed; some of their statements fail, and then nothing of them is to stay."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._kinds = [
            *[self._insert] * 4, *[self._move] * 4, self._swap, self._swap, self._take_over, self._shift,
            self._update, self._upsert, self._delete, self._again, self._arrow,
        ]  # fmt: skip
        self._rare = [self._truncate, self._check, self._rewrite, self._drop, self._rename, self._schema]

    def transaction(self) -> list[str]:
        """Its statements, about one table or several."""
        statements: list[str] = []
        for _ in range(self.random.choice([1, 1, 2, 4])):
            kinds = self._rare if self.random.random() < 0.12 else self._kinds
            statements += self.random.choice(kinds)(self.random.choice([*NAMES, *NAMES, "pg_temp.t"]))
        return statements

    def _key(self) -> int:
        return self.random.randrange(_KEYS)

    def _part(self) -> str:
        return self.random.choice(["'a'", "'b'"])

    def _row(self) -> str:
        return f"({self._key()}, {self._part()}, 'v{self.random.randrange(99)}', {self._key() / 4})"

    def _insert(self, table: str) -> list[str]:
        return [f"INSERT INTO {table} VALUES {self._row()} ON CONFLICT DO NOTHING"]

    def _arrow(self, table: str) -> list[str]:
        low = 100 * self.random.randrange(1, 50)
        rows = f"SELECT g, 'a', 'many', 1.5 FROM generate_series({low}, {low + 80}) g"
        return [f"INSERT INTO {table} {rows}", f"DELETE FROM {table} WHERE id > {low + 3}"]

    def _move(self, table: str) -> list[str]:
        change = self.random.choice(
            [f"id = {self._key()}", f"part = {self._part()}", "id = id + 1, v = v || '>'"]
        )
        return [f"UPDATE {table} SET {change} WHERE id = {self._key()} AND part = {self._part()}"]

    def _swap(self, table: str) -> list[str]:
        one, other = self.random.sample(range(_KEYS), 2)
        steps = ((one, -1), (other, one), (-1, other))
        return [f"UPDATE {table} SET id = {to} WHERE id = {at}" for at, to in steps]

    def _shift(self, table: str) -> list[str]:
        return [
            f"UPDATE {table} SET id = id + 1000 WHERE id < {_KEYS}",
            f"UPDATE {table} SET id = (id - 999) % {_KEYS} WHERE id >= 1000 AND id < {1000 + _KEYS}",
        ]

    def _take_over(self, table: str) -> list[str]:
        """A row goes, and another one moves to its key."""
        key, other = self.random.sample(range(_KEYS), 2)
        return [f"DELETE FROM {table} WHERE id = {key}", f"UPDATE {table} SET id = {key} WHERE id = {other}"]

    def _again(self, table: str) -> list[str]:
        key, part = self._key(), self._part()
        return [
            f"UPDATE {table} SET id = {key + 500} WHERE id = {key} AND part = {part}",
            f"INSERT INTO {table} VALUES ({key}, {part}, 'again', NULL)",
        ]

    def _upsert(self, table: str) -> list[str]:
        change = self.random.choice(["v = excluded.v", f"id = {self._key()}", "id = t.id + 1, n = NULL"])
        return [f"INSERT INTO {table} VALUES {self._row()} ON CONFLICT (id, part) DO UPDATE SET {change}"]

    def _update(self, table: str) -> list[str]:
        return [f"UPDATE {table} SET v = v || '+' WHERE id % 3 = {self.random.randrange(3)}"]

    def _delete(self, table: str) -> list[str]:
        return [f"DELETE FROM {table} WHERE id % 5 = {self.random.randrange(5)}"]

    def _truncate(self, table: str) -> list[str]:
        return [f"TRUNCATE {table}"]

    def _check(self, table: str) -> list[str]:
        return [f"ALTER TABLE {table} ALTER COLUMN v SET DEFAULT 'd{self._key()}'"]

    def _rewrite(self, table: str) -> list[str]:
        return [f"ALTER TABLE {table} ALTER COLUMN v TYPE TEXT USING v || '*'"]

    def _drop(self, table: str) -> list[str]:
        return [f"DROP TABLE {table}", f"CREATE TABLE {table} {COLUMNS}", *self._insert(table)]

    def _rename(self, table: str) -> list[str]:
        """Rows go away under another name, change there, and come back; or others take the name."""
        schema = table.partition(".")[0]
        away = [f"ALTER TABLE {table} RENAME TO gone", *self._insert(f"{schema}.gone")]
        if self.random.random() < 0.5:
            return [*away, f"ALTER TABLE {schema}.gone RENAME TO t"]
        return [*away, f"CREATE TABLE {table} {COLUMNS}", *self._insert(table), f"DROP TABLE {schema}.gone"]

    def _schema(self, _: str) -> list[str]:
        """The two tables change places."""
        return [
            "ALTER TABLE public.t SET SCHEMA aside",
            "ALTER TABLE app.t SET SCHEMA public",
            "ALTER TABLE aside.t SET SCHEMA app",
            *self._insert("public.t"),
        ]


def fold(rows: dict[Any, Any], changes: Iterable[dict[str, Any]]) -> None:
    """Carry changes out on rows by their keys."""
    for change in changes:
        op, key = change["op"], change["key"]
        if op in {"insert", "update"}:
            rows[tuple(key.values())] = change["after"]
        elif op == "delete":
            del rows[tuple(key.values())]
        elif op in {"truncate", "create", "drop"}:
            rows.clear()
        elif op == "alter":
            for name in json.loads(change["schema"]).get("added", ()):
                for row in rows.values():
                    row[name] = change["after"][name]


def held(cursor: Any) -> list[list[Any]]:
    """What the tables hold now."""
    tables = []
    for name in NAMES:
        cursor.execute(f"SELECT id, part, v, n FROM {name}")
        tables.append(sorted(map(tuple, cursor.fetchall()), key=repr))
    return tables


def at_position(address: LogAddress, name: str, lsn: LSN) -> list[Any]:
    """The table as the log has it at a position; nothing where there is none."""
    try:
        plan = plan_table(address, name, lsn)
    except NoSuchTableError:
        return []
    columns = ["id", "part", "v", "n"]
    batches = [batch for at in range(len(plan.ranges)) for batch in read_partition(plan, at, columns)]
    return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=repr)


def values(rows: dict[Any, Any]) -> list[Any]:
    """The rows of a fold, as ``held`` has them."""
    return sorted((tuple(row.values()) for row in rows.values()), key=repr)


def followed(
    driver: FeedDriver, shape: FeedShape, upto: LSN, random_: random.Random
) -> Iterator[tuple[LSN, list[dict[str, Any]]]]:
    """Batches of the feed, of any size, up to a position: each with where it ends."""
    at = driver.first("earliest")
    while at.lsn < upto:
        end = driver.next(at, random_.choice([1, 3, 10, None]))
        changes = [
            change
            for task in driver.tasks(at, end)
            for batch in read_task(task, shape)
            for change in batch.to_pylist()
        ]
        yield end.lsn, sorted(changes, key=lambda one: tuple(one["sequence"].values()))
        at = end

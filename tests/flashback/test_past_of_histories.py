"""Every moment of a random history is read as it was, by either engine, wherever checkpoints fell.

The model is what a plain SELECT answered at that moment. Histories have rows and definitions changed, in
transactions of one statement and of several, two schemas with tables of the same names, and checkpoints.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from herdpy.log.lsn import LSN
from herdpy_server.embedded import Database, opened
from herdpy_server.sessions import Session
from herdpy_sql.errors import SqlError

SEEDS = range(6)
STEPS = 70
TABLES = ('public."t"', 'other."t"', 'public."odd ""name"')
Rows = list[tuple[Any, ...]]
Seen = dict[str, tuple[list[str], Rows] | str]


@dataclass
class History:
    """A database that is changed at random, and what was seen of it after each commit."""

    database: Database
    seed: int
    moments: list[tuple[LSN, int, Seen]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.session: Session = self.database.session()
        self.serial = 0
        self.run("CREATE SCHEMA other")

    def run(self, sql: str) -> Any:
        return self.database.run(self.session.execute(sql), self.session)

    def attempt(self, sql: str) -> bool:
        try:
            self.run(sql)
        except SqlError as error:
            if error.sqlstate[:2] not in {"42", "23", "0A", "25"}:
                raise
            return False
        return True

    def see(self) -> Seen:
        return {table: self.answer(f"SELECT * FROM {table}") for table in TABLES}

    def answer(self, sql: str) -> tuple[list[str], Rows] | str:
        try:
            found = self.run(sql)
        except SqlError as error:
            return error.sqlstate
        return [column.name for column in found.columns], sorted(found.rows, key=repr)

    def step(self) -> None:
        rng = self.rng
        if rng.random() < 0.12:
            self.database.checkpoint()
        if rng.random() < 0.3:
            self.run("BEGIN")
            done = [self.attempt(self.change()) for _ in range(rng.randrange(1, 5))]
            self.run("COMMIT" if all(done) and rng.random() < 0.8 else "ROLLBACK")
        else:
            self.attempt(self.change())
        store = self.database.store
        self.moments.append((store.applied, store.committed_us, self.see()))

    def change(self) -> str:
        rng, table = self.rng, self.rng.choice(TABLES)
        key, self.serial = rng.randrange(12), self.serial + 1
        series = f"generate_series({key}, {key + 3}) g"
        changes = (
            (8, f"INSERT INTO {table} (id, v) SELECT g, 'v{self.serial}' FROM {series}"
                " ON CONFLICT (id) DO NOTHING"),
            (3, f"INSERT INTO {table} (id) VALUES ({key})"),
            (6, f"UPDATE {table} SET v = 'u{self.serial}' WHERE id % 3 = {key % 3}"),
            (3, f"UPDATE {table} SET id = id + 100 WHERE id = {key}"),
            (4, f"DELETE FROM {table} WHERE id > {key}"),
            (4, f"TRUNCATE {table}"),
            (6, f"CREATE TABLE {table} (id int PRIMARY KEY, v text)"),
            (0.5, f"DROP TABLE {table}"),
            (1, f"ALTER TABLE {table} ADD c{self.serial} int DEFAULT {self.serial}"),
            (1, f"ALTER TABLE {table} DROP c{max(self.serial - 5, 0)}"),
            (1, f"ALTER TABLE {table} ALTER v TYPE varchar"),
            (1, f"CREATE INDEX i{self.serial} ON {table} (v)"),
        )  # fmt: skip
        return rng.choices([sql for _, sql in changes], [weight for weight, _ in changes])[0]


@pytest.fixture(params=SEEDS)
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[History]:
    with opened(tmp_path / "db", flashback_s=3600, checkpoint_interval_s=3600) as database:
        database.store.marks._is_far = lambda *_: True  # type: ignore[method-assign]  # a mark at each
        made = History(database, request.param)
        for _ in range(STEPS):
            made.step()
        yield made


def test_every_moment_is_as_it_was_by_either_engine(history: History) -> None:
    assert history.database.store.marks.count > 3
    asked = 0
    order = list(range(len(history.moments)))
    history.rng.shuffle(order)  # states are made of others, which were made before them
    for at in order:
        lsn, committed_us, seen = history.moments[at]
        for table, expected in seen.items():
            engine = history.rng.choice(("own", "columnar", "auto"))
            history.run(f"SET herdpy.engine = '{engine}'")
            given = history.answer(f"SELECT * FROM {table} AS OF SYSTEM TIME '{lsn}'")
            assert given == expected, (lsn, table, engine)
            asked += expected != "42P01"
        if at + 1 == len(order) or history.moments[at + 1][1] > committed_us:
            zoned = f"to_timestamp({committed_us} / 1e6)"
            text = history.run(f"SELECT ({zoned})::text").rows[0][0]
            history.run(f"SET herdpy.engine = '{history.rng.choice(('own', 'columnar'))}'")
            for table, expected in seen.items():
                assert history.answer(f"SELECT * FROM {table} AS OF SYSTEM TIME '{text}'") == expected
        history.run("SET herdpy.engine = 'auto'")
    assert asked > STEPS // 2


@pytest.mark.parametrize("history", range(2), indirect=True)
def test_by_index_and_by_key_too(history: History) -> None:
    for lsn, _, seen in history.moments[:: STEPS // 10]:
        found = seen[TABLES[0]]
        if isinstance(found, str):
            continue
        columns, rows = found
        key, value = columns.index("id"), columns.index("v")
        for row in rows[:3]:
            by_key = f"SELECT id, v FROM public.t AS OF SYSTEM TIME '{lsn}' WHERE id = {row[key]}"
            assert history.answer(by_key) == (["id", "v"], [(row[key], row[value])])
            if row[value] is not None:
                same = sorted([one[key] for one in rows if one[value] == row[value]])
                by_value = f"SELECT id FROM public.t AS OF SYSTEM TIME '{lsn}' WHERE v = '{row[value]}'"
                assert history.answer(by_value) == (
                    ["id"],
                    [(one,) for one in sorted(same, key=lambda x: repr((x,)))],
                )

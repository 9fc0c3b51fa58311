"""Random changes, checkpoints and questions: a worker and the session's own process always agree."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.workers.asking import by_both, by_worker
from tests.workers.conftest import served, sql, until

TABLES = {
    "t": "(a INTEGER PRIMARY KEY, b INTEGER, c TEXT)",
    "u": "(c TEXT, a INTEGER, b INTEGER, PRIMARY KEY (c, a))",
    "v": "(a INTEGER, b INTEGER, c TEXT)",
}
QUERIES = (
    "SELECT count(*), sum(b), min(c) FROM {0}",
    "SELECT b % 3, count(*), max(c) FROM {0} GROUP BY 1",
    "SELECT DISTINCT a, c FROM {0} WHERE a BETWEEN 100 AND 300",
    "SELECT x.a, y.b FROM {0} x JOIN {1} y ON x.b = y.b "
    "WHERE x.a BETWEEN 100 AND 200 AND y.a BETWEEN 1000 AND 1300",
    "SELECT count(*) FROM {0} WHERE c IN (SELECT c FROM {1} WHERE b < 20)",
)
FILL = "INSERT INTO {0} (a, b, c) SELECT {1} + i, i % 50, 'x' || i FROM generate_series(1, {2}) i"


class Chance:
    """What happens next, by a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self._next = dict.fromkeys(TABLES, 5000)

    def table(self) -> str:
        return self.dice.choice(list(TABLES))

    def change(self) -> str:
        """A statement that cannot meet another session's locks: each has keys of its own."""
        dice, name = self.dice, self.table()
        low = dice.randrange(2000)
        kind = dice.randrange(20)
        if kind == 0:
            return f"TRUNCATE {name}"
        if kind < 10:
            return f"UPDATE {name} SET b = {dice.randrange(60)} WHERE a BETWEEN {low} AND {low + 30}"
        if kind < 14:
            return f"DELETE FROM {name} WHERE a BETWEEN {low} AND {low + 10}"
        count = dice.choice((1, 20, 400))
        start = self._next[name]
        self._next[name] += count
        return FILL.format(name, start, count)

    def query(self) -> str:
        return self.dice.choice(QUERIES).format(self.table(), self.table())


@pytest.mark.parametrize("seed", range(2))
def test_they_agree(tmp_path: Path, on_loop, seed: int) -> None:
    async def main() -> None:
        chance = Chance(seed)
        dice = chance.dice
        async with served(tmp_path, checkpoint_interval_s=3600.0, column_cache_bytes=1 << 20) as database:
            assert database.workers is not None
            if seed % 2:  # it has to forget now and then
                database.workers._journal._limit_bytes = 30_000
            for name, columns in TABLES.items():
                await sql(database, f"CREATE TABLE {name} {columns}")
                await sql(database, FILL.format(name, 0, 3000))
            ann = database.session()
            for _ in range(120):
                step = dice.random()
                session = ann if dice.random() < 0.5 else None
                if step < 0.45:
                    if session is None and ann.in_block:
                        continue  # ann's locks could be in the way
                    await sql(database, chance.change(), session=session)
                elif step < 0.55:
                    word = dice.choice(("COMMIT", "ROLLBACK")) if ann.in_block else "BEGIN"
                    await sql(database, word, session=ann)
                elif step < 0.65:
                    database.store.flush()
                elif step < 0.75:
                    flush = [database.store.flush]  # once, when the worker has LMDB open already
                    await by_worker_as_ever(database, chance.query(), session, flush)
                else:
                    await by_both(database, chance.query(), session=session)
            assert database.workers.counts.died == 0

    on_loop(main)


async def by_worker_as_ever(database, text, session, flush) -> None:
    expected = await by_both(database, text, session=session)

    def once() -> None:
        if flush:
            flush.pop()()

    assert await by_worker(database, text, session=session, before_snapshot=once) == expected


def test_sums_hold_while_others_write_and_checkpoints_are_made(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path, checkpoint_interval_s=0.02) as database:
            assert database.workers is not None
            await sql(database, "CREATE TABLE account (a INTEGER PRIMARY KEY, b INTEGER)")
            await sql(database, "INSERT INTO account SELECT i, 100 FROM generate_series(1, 3000) i")
            over = False

            async def move(seed: int) -> int:
                dice = random.Random(seed)
                session = database.session()
                moved = 0
                while not over:
                    low, high = sorted(dice.sample(range(1, 3001), 2))
                    await sql(database, "BEGIN", session=session)
                    for row, amount in ((low, -1), (high, 1)):
                        change = f"UPDATE account SET b = b + {amount} WHERE a = {row}"
                        await sql(database, change, session=session)
                    await sql(database, "COMMIT", session=session)
                    moved += 1
                    await asyncio.sleep(0)
                return moved

            movers = [asyncio.ensure_future(move(seed)) for seed in range(3)]
            try:
                own = database.session()
                await sql(database, "CREATE TABLE mark (a INTEGER PRIMARY KEY, b INTEGER)")
                await sql(database, "INSERT INTO mark SELECT i, 0 FROM generate_series(1, 10) i")
                for number in range(1, 60):
                    assert await sql(database, "SELECT count(*), sum(b) FROM account") == [(3000, 300_000)]
                    await sql(database, f"UPDATE mark SET b = {number} WHERE a = 3", session=own)
                    found = await sql(database, "SELECT max(b) FROM mark", session=own)
                    assert found == [(number,)], "it does not see its own write"
                await until(lambda: database.checkpointer.checkpoints > 5)
            finally:
                over = True
                moved = await asyncio.gather(*movers)
            assert sum(moved) > 10
            assert database.workers.counts.died == 0

    on_loop(main)

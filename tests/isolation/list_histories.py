"""Transactions on lists whose statements are mixed by a seed, on one thread: a history that can be judged.

Half of the lists are not there at the beginning, so that what a transaction did not find counts. Lists are
read by key, by ranges of keys, by an index and by the columnar engine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from herdpy.drill.history import ClientOperation, DrillHistory, OperationOutcome
from herdpy_server.tablespace.locks import LockWait
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from herdpy_server.embedded import Database
    from herdpy_server.sessions import Session

KEYS = range(6)
CLIENTS = 4
Step = list[Any]


class Between:
    """Awaited between two statements: others may have their turn."""

    def __await__(self) -> Generator[Any, None, None]:
        yield self

    def block(self) -> None:
        """Threads have their turns without being asked."""


class Client:
    """One session, and the transaction that it is in."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.session: Session = world.database.session()
        self.work: Coroutine[Any, Any, None] | None = None
        self.wait: LockWait | None = None

    def step(self) -> None:
        """Go on to the next statement, or to the next wait."""
        if self.work is None:
            self.work = self._transaction()
        self.wait = None
        try:
            while not isinstance(wait := self.work.send(None), Between):
                if isinstance(wait, LockWait):
                    wait.look()
                if isinstance(wait, LockWait) and not wait.done():
                    self.wait = wait
                    return
                wait.block()
        except StopIteration:
            self.work = None

    def go_on(self, transactions: int) -> None:
        """Make so many transactions, in a thread beside others."""
        for _ in range(transactions):
            self.world.database.run(self._transaction())

    async def _transaction(self) -> None:
        world, session = self.world, self.session
        steps = [world.choose() for _ in range(world.random.randint(1, 3))]
        asked = [["read", key, None] if kind != "append" else [kind, key, element]
                 for kind, how, element in steps for key in _keys(kind, how)]  # fmt: skip
        called = world.tick()
        told: list[Step] = []
        outcome, error = OperationOutcome.DONE, None
        try:
            await session.execute(f"BEGIN ISOLATION LEVEL {world.level}")
            for kind, how, element in steps:
                told += await self._do(kind, how, element)
                await Between()
            await session.execute("COMMIT")
        except SqlError as failure:
            if failure.sqlstate not in {"40001", "40P01"}:
                raise
            outcome, error = OperationOutcome.NOT_DONE, failure.sqlstate
            await session.rollback()
        result = told if outcome is OperationOutcome.DONE else None
        world.operations.append(
            ClientOperation(self.number, "txn", asked, result, outcome, called, world.tick(), error)
        )

    async def _do(self, kind: str, how: Any, element: int | None) -> list[Step]:
        table, session = self.world.table, self.session
        if kind == "append":
            await session.execute(
                f"INSERT INTO {table} VALUES ($1, $2, $3) ON CONFLICT (k) DO UPDATE SET v = {table}.v || $3",
                [how, how % 2, f",{element}"],
            )
            return [["append", how, element]]
        if kind == "key":
            answer = await session.execute(f"SELECT k, v FROM {table} WHERE k = $1", [how])
        elif kind == "range":
            answer = await session.execute(
                f"SELECT k, v FROM {table} WHERE k >= $1 AND k < $2 ORDER BY k", list(how)
            )
        elif kind == "index":
            answer = await session.execute(f"SELECT k, v FROM {table} WHERE g = $1 ORDER BY g LIMIT 9", [how])
        else:
            answer = await session.execute(f"SELECT k, string_agg(v, '') FROM {table} GROUP BY k")
        found = {row[0]: [int(one) for one in row[1].split(",") if one] for row in answer.rows}
        return [["read", key, found.get(key, [])] for key in _keys(kind, how)]


def _keys(kind: str, how: Any) -> list[int]:
    """The lists that a step is about."""
    if kind in {"append", "key"}:
        return [how]
    if kind == "range":
        return list(range(*how))
    return [key for key in KEYS if kind == "all" or key % 2 == how]


class World:
    """A table of lists and its clients."""

    def __init__(self, database: Database, seed: int, level: str, clock: Callable[[], float] | None = None):
        """``clock``: what tells the time; None: every moment is one after the last."""
        self._clock = clock
        self.database = database
        self.level = level
        self.random = random.Random(f"{seed} {level}")
        self.table = f"lists_{seed}_{level[0].lower()}"
        self.operations: list[ClientOperation] = []
        self._elements = 0
        self._now = 0.0
        session = database.session()
        for sql in (
            f"DROP TABLE IF EXISTS {self.table}",
            f"CREATE TABLE {self.table} (k int PRIMARY KEY, g int, v text NOT NULL)",
            f"CREATE INDEX ON {self.table} (g)",
            f"INSERT INTO {self.table} SELECT k, k % 2, '' FROM generate_series(0, 2) AS s(k)",
        ):
            database.run(session.execute(sql))
        database.run(session.close())
        self.clients = [Client(self, number) for number in range(CLIENTS)]

    def tick(self) -> float:
        """A moment after all before."""
        if self._clock is not None:
            return self._clock()
        self._now += 1.0
        return self._now

    def choose(self) -> tuple[str, Any, int | None]:
        """What a transaction does next: kind, which lists, the element to append."""
        random = self.random
        if random.random() < 0.5:
            self._elements += 1
            return "append", random.choice(KEYS), self._elements
        kind = random.choice(["key", "key", "range", "index", "all"])
        if kind == "range":
            low = random.choice(KEYS)
            return kind, (low, random.randint(low + 1, len(KEYS))), None
        return kind, random.choice(KEYS) if kind == "key" else random.randrange(2), None

    def run(self, transactions: int) -> DrillHistory:
        """The history of so many transactions."""
        while len(self.operations) < transactions:
            ready = [one for one in self.clients if one.wait is None or one.wait.done()]
            self.random.choice(ready).step()
        for one in self.clients:
            if one.work is not None:
                one.work.close()
            self.database.run(one.session.close())
        return DrillHistory(self.operations)

    def run_threads(self, transactions: int) -> DrillHistory:
        """The history of so many transactions by each client, in a thread of its own."""
        with ThreadPoolExecutor(CLIENTS) as threads:
            for done in [threads.submit(one.go_on, transactions) for one in self.clients]:
                done.result()
        for one in self.clients:
            self.database.run(one.session.close())
        return DrillHistory(self.operations)

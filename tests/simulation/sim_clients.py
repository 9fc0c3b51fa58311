"""What simulated clients do: every kind of transaction, over few rows, so that they meet."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING

import pyarrow as pa

from herdpy.log.wait import Pause
from herdpy_sql.errors import SqlError
from tests.simulation.sim_history import History, ViolationError

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

ACCOUNTS = 5
BALANCE = 100
COUNTERS = 2
SCHEMA = [
    "CREATE TABLE op (id INTEGER, part INTEGER, parts INTEGER NOT NULL, kind TEXT, PRIMARY KEY (id, part))",
    "CREATE INDEX op_kind ON op (kind, part)",
    "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)",
    "CREATE TABLE counter (id INTEGER PRIMARY KEY, n INTEGER NOT NULL)",
    "CREATE TABLE journal (tx INTEGER PRIMARY KEY, counter INTEGER NOT NULL)",
    "CREATE TABLE uniq (id INTEGER PRIMARY KEY, a INTEGER UNIQUE, b TEXT)",
    "CREATE TABLE hidden (v INTEGER)",
    "INSERT INTO account SELECT i, 100 FROM generate_series(0, 4) AS s(i)",
    "INSERT INTO counter VALUES (0, 0), (1, 0)",
]
INSERT_OP = "INSERT INTO op VALUES ($1, $2, $3, $4)"
EXPECTED = {
    "40P01", "40001", "55P03", "57014",  # another client was in the way, or the clock
    "23505", "42P01", "42P07", "42704", "0A000",  # what was asked for does not fit what is there
    "53100", "58030", "08007", "57P03",  # the log
}  # fmt: skip


class Interrupted(BaseException):
    """What KeyboardInterrupt does to a client that waits."""


class Client:
    """One session and what it is doing."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.rng: random.Random = world.rng
        self.history: History = world.history
        self.session = world.session()
        self.session.autocommit = self.rng.random() < 0.8
        if self.rng.random() < 0.3:
            self.session.settings.set("lock_timeout", "1s")
        self.number = number
        self.last = 0

    async def run(self) -> None:
        kinds = [
            self.one_statement, self.one_statement, self.transaction, self.transaction, self.many,
            self.ingest, self.unique_rows, self.unique_rows, self.look, self.look, self.probe,
            self.define, self.count,
        ]  # fmt: skip
        while True:
            await self.rng.choice(kinds)()
            with contextlib.suppress(Interrupted):
                await Pause()  # others may go on, even where nothing had to be waited for
            if self.session.transaction is not None:
                await self.session.rollback()

    async def attempt(self, number: int, work) -> None:
        """Run ``work``, which commits at its end; note what became of it."""
        session, history = self.session, self.history
        try:
            await work()
        except SqlError as error:
            if error.sqlstate not in EXPECTED:
                raise ViolationError(f"unexpected error {error.sqlstate}: {error}") from error
            if session.transaction is not None:
                await session.rollback()
            history.failed(number, error.outcome)
        except Interrupted:
            # Interrupted in an open transaction it is undone; while it commits, nobody knows.
            undone = session.transaction is not None
            if undone:
                await session.rollback()
            history.failed(number, "not done" if undone else "unknown")
        else:
            history.done(number)
            if self.rng.random() < 0.2:
                self.read_back(number)

    async def commit(self) -> None:
        if not self.session.autocommit or self.session.transaction is not None:
            await self.session.commit()

    def read_back(self, number: int) -> None:
        """What was acknowledged is visible to everybody at once: no step is in between."""
        found = [row for row in self.world.rows("op", "id") if row[0] == number]
        if len(found) != self.history.told[number].parts:
            raise ViolationError(f"transaction {number} was acknowledged and is not visible")

    # Writers.

    async def one_statement(self) -> None:
        parts = self.rng.randrange(1, 4)
        number = self.history.begin(parts)
        values = ", ".join(f"(${1}, {part}, {parts}, 'one')" for part in range(parts))

        async def work() -> None:
            await self.session.execute(f"INSERT INTO op VALUES {values}", (number,))
            await self.commit()

        await self.attempt(number, work)

    async def many(self) -> None:
        parts = self.rng.choice([1, 3, 12])
        number = self.history.begin(parts)

        async def work() -> None:
            rows = [(number, part, parts, "many") for part in range(parts)]
            await self.session.execute_many(INSERT_OP, rows)
            await self.commit()

        await self.attempt(number, work)

    async def ingest(self) -> None:
        parts = self.rng.choice([1, 5, 80])
        number = self.history.begin(parts)
        batch = pa.record_batch(
            {
                "id": pa.array([number] * parts, pa.int32()),
                "part": pa.array(range(parts), pa.int32()),
                "parts": pa.array([parts] * parts, pa.int32()),
                "kind": ["ingest"] * parts,
            }
        )
        cut = self.rng.randrange(parts)
        batches = [batch.slice(0, cut), batch.slice(cut)] if cut else [batch]

        async def work() -> None:
            await self.session.ingest("op", batches, batch.schema, "append")
            await self.commit()

        await self.attempt(number, work)

    async def transaction(self) -> None:
        rng, session = self.rng, self.session
        parts = rng.randrange(1, 4)
        counter = rng.choice([None, None, 0, 1])
        number = self.history.begin(parts, counter=counter)
        give_up = rng.random() < 0.15

        async def work() -> None:
            await session.execute("BEGIN")
            for part in range(parts):
                await session.execute(INSERT_OP, (number, part, parts, "tx"))
                if rng.random() < 0.3:
                    await self.undone(number)
            if rng.random() < 0.7:
                await self.transfer()
            if counter is not None:
                await session.execute("UPDATE counter SET n = n + 1 WHERE id = $1", (counter,))
                await session.execute("INSERT INTO journal VALUES ($1, $2)", (number, counter))
            if rng.random() < 0.3:
                await self.look_at_accounts()
            if give_up:
                await session.execute("ROLLBACK")
                raise SqlError("57014", "the client thought better of it")
            await session.execute("COMMIT")

        await self.attempt(number, work)

    async def undone(self, number: int) -> None:
        """Something behind a savepoint that must leave no trace, at times a failed statement too."""
        session, rng = self.session, self.rng
        await session.execute("SAVEPOINT s")
        try:
            await session.execute(INSERT_OP, (number, 1000 + rng.randrange(3), 7, "undone"))
            if rng.random() < 0.5:
                await session.execute("UPDATE account SET balance = balance + 1 WHERE id = 0")
            if rng.random() < 0.3:
                await session.execute(
                    f"INSERT INTO op VALUES ({number}, 2000, 1, 'x'), ($1, 0, 1, 'x')", (number,)
                )
        except SqlError as error:
            if error.sqlstate not in EXPECTED:
                raise ViolationError(f"unexpected error {error.sqlstate}: {error}") from error
        await session.execute("ROLLBACK TO SAVEPOINT s")

    async def transfer(self) -> None:
        rng, session = self.rng, self.session
        source, target = rng.sample(range(ACCOUNTS), 2)
        amount = rng.randrange(1, 20)
        if rng.random() < 0.3:  # both at once
            await session.execute(
                "UPDATE account SET balance = balance + CASE id WHEN $1 THEN -$3::integer ELSE $3 END"
                " WHERE id = $1 OR id = $2",
                (source, target, amount),
            )
            return
        await session.execute("UPDATE account SET balance = balance - $2 WHERE id = $1", (source, amount))
        if rng.random() < 0.5:
            await session.execute("UPDATE account SET balance = balance + $2 WHERE id = $1", (target, amount))
        else:  # by hand, as applications do: what was read holds while the row is locked
            await session.execute("UPDATE account SET balance = balance WHERE id = $1", (target,))
            found = await session.execute("SELECT balance FROM account WHERE id = $1", (target,))
            await session.execute(
                "UPDATE account SET balance = $2 WHERE id = $1", (target, found.rows[0][0] + amount)
            )

    async def count(self) -> None:
        """One more, in statements of their own; hidden keys beside."""
        rng, session = self.rng, self.session
        counter = rng.randrange(COUNTERS)
        number = len(self.history.told) + 1
        change = "UPDATE counter SET n = n + 1 WHERE id = $1"
        if number % 2:  # one that is not there at first
            counter += COUNTERS
            change = (
                "INSERT INTO counter VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET n = counter.n + excluded.n"
            )
        number = self.history.begin(1, counter=counter)

        async def work() -> None:
            await session.execute("BEGIN")
            try:
                await session.execute(change, (counter,))
            except SqlError as error:
                if error.sqlstate == "23505":
                    raise ViolationError(f"ON CONFLICT reported a violation: {error}") from error
                raise
            await session.execute("INSERT INTO hidden VALUES ($1), ($1)", (number,))
            await session.execute("INSERT INTO journal VALUES ($1, $2)", (number, counter))
            await session.execute(INSERT_OP, (number, 0, 1, "count"))
            await session.commit()

        await self.attempt(number, work)

    async def unique_rows(self) -> None:
        """Rows that collide by key and by unique index, that move and go."""
        rng, session = self.rng, self.session
        key, a, b = rng.randrange(8), rng.choice([None, *range(6)]), rng.choice(["x", "y" * 500, None])
        choice = rng.random()
        if choice < 0.4:
            statement, values = "INSERT INTO uniq VALUES ($1, $2, $3)", (key, a, b)
        elif choice < 0.6:
            statement, values = "UPDATE uniq SET a = $2, b = $3 WHERE id = $1", (key, a, b)
        elif choice < 0.75:
            statement, values = "UPDATE uniq SET id = $2 WHERE id = $1", (key, rng.randrange(8))
        elif choice < 0.8:
            statement, values = "UPDATE uniq SET id = id + 8 WHERE id = $1", (key,)
        else:
            statement, values = "DELETE FROM uniq WHERE id = $1 OR id = $1 + 8", (key,)
        if session.autocommit and rng.random() < 0.4:
            await self.reading(statement, values)
            return
        number = self.history.begin(1)

        async def work() -> None:
            await session.execute("BEGIN")
            await session.execute(statement, values)
            await session.execute(INSERT_OP, (number, 0, 1, "unique"))
            await self.commit()

        await self.attempt(number, work)

    async def define(self) -> None:
        rng, session = self.rng, self.session
        alive = sorted(name for name in session.catalog.by_name if name.startswith("side"))
        choice = rng.random()
        name = f"side{len(self.history.told) + 1}"
        if choice < 0.4:
            number = self.history.begin(1, creates=name)
            statement = f"CREATE TABLE {name} (k INTEGER PRIMARY KEY, v INTEGER UNIQUE)"
        elif choice < 0.55 and alive:
            name = rng.choice(alive)
            number = self.history.begin(1, drops=name)
            statement = f"DROP TABLE {name}"
        elif choice < 0.65 and alive:
            name = rng.choice(alive)
            number = self.history.begin(1)
            statement = f"TRUNCATE {name}"
        elif choice < 0.8:
            number = self.history.begin(1)
            statement = "CREATE INDEX uniq_b ON uniq (b, a)"
        elif choice < 0.9:
            number = self.history.begin(1)
            statement = "DROP INDEX uniq_b"
        else:
            number = self.history.begin(1)
            statement = "TRUNCATE hidden"

        async def work() -> None:
            await session.execute("BEGIN")
            await session.execute(statement)
            if statement.startswith("CREATE TABLE"):
                await session.execute(f"INSERT INTO {name} VALUES (1, 1), (2, $1)", (number,))
            await session.execute(INSERT_OP, (number, 0, 1, "define"))
            await session.execute("COMMIT")

        await self.attempt(number, work)

    # Readers.

    async def reading(self, sql: str, values=()):
        """The rows, or None when the statement could not be answered."""
        try:
            answer = await self.session.execute(sql, values)
        except SqlError as error:
            if error.sqlstate not in EXPECTED:
                raise ViolationError(f"unexpected error {error.sqlstate}: {error}") from error
            return None
        except Interrupted:
            return None
        return answer.rows

    async def look(self) -> None:
        choice = self.rng.random()
        newest = len(self.history.told)
        if choice < 0.6:
            rows = await self.reading("SELECT id, part, parts FROM op WHERE id >= $1", (newest - 8,))
            if rows:
                self.history.saw_rows(rows)
        elif choice < 0.92:
            rows = await self.reading("SELECT balance FROM account WHERE id >= 0")
            self.add_up(rows)
        elif choice < 0.96:
            rows = await self.reading("SELECT balance FROM account")
            self.add_up(rows)
        else:
            rows = await self.reading("SELECT count(*), max(parts), id FROM op GROUP BY id")
            for count, parts, number in rows or ():
                if count != parts:
                    raise ViolationError(f"DuckDB saw {count} of {parts} rows of transaction {number}")
                self.history.saw(number, "DuckDB")

    async def look_at_accounts(self) -> None:
        """In the transaction that moved money: both of its legs or none."""
        self.add_up((await self.session.execute("SELECT balance FROM account WHERE id >= 0")).rows)

    def add_up(self, rows) -> None:
        if rows is not None and sum(row[0] for row in rows) != ACCOUNTS * BALANCE:
            raise ViolationError(f"a statement saw accounts {rows}")

    async def probe(self) -> None:
        """An error tells something about the rows as well."""
        newest = len(self.history.told)
        other = self.rng.randrange(max(newest - 5, 1), newest + 1) if newest else 0
        if not other or not self.history.told[other].parts:
            return
        try:
            await self.session.execute("BEGIN")
            await self.session.execute("INSERT INTO op VALUES ($1, 0, 0, 'probe')", (other,))
        except SqlError as error:
            if error.sqlstate == "23505":
                self.history.saw(other, "an error")
            elif error.sqlstate not in EXPECTED:
                raise ViolationError(f"unexpected error {error.sqlstate}: {error}") from error
        except Interrupted:
            pass
        await self.session.rollback()

"""Simulated clients that write parents and children at once, and die: nobody may be left without a parent."""

from __future__ import annotations

import contextlib

from herdpy.log.wait import Pause
from herdpy_sql.errors import SqlError
from tests.simulation.sim_clients import EXPECTED, Client, Interrupted
from tests.simulation.sim_history import ViolationError
from tests.simulation.sim_world import World

CHILDREN = {
    "keeping": ("id", "p", "id", ""),
    "cascading": ("id", "p", "id", "ON DELETE CASCADE ON UPDATE CASCADE"),
    "nulling": ("id", "u", "u", "ON DELETE SET NULL ON UPDATE CASCADE"),
    "late": ("id", "p", "id", "DEFERRABLE INITIALLY DEFERRED"),
}
"""By table: its key, the column that refers, the column of the parent, the actions."""
PARENTS = 3
LEVELS = ("READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


class Family(Client):
    """One session that writes to parent and children."""

    async def run(self) -> None:
        self.session.autocommit = True
        while True:
            try:
                if self.rng.random() < 0.5:
                    await self.session.execute(self.statement())
                else:
                    await self.block()
            except SqlError as error:
                if error.sqlstate not in EXPECTED | {"23503", "25P02"}:
                    raise ViolationError(f"unexpected error {error.sqlstate}: {error}") from error
            except Interrupted:
                pass
            with contextlib.suppress(Interrupted):
                await Pause()
            if self.session.transaction is not None:
                await self.session.rollback()

    async def block(self) -> None:
        """Several statements in a transaction."""
        await self.session.execute(f"BEGIN ISOLATION LEVEL {self.rng.choice(LEVELS)}")
        for _ in range(self.rng.randint(1, 3)):
            await self.session.execute(self.statement())
            await Pause()
        await self.session.execute("COMMIT")

    def statement(self) -> str:
        rng = self.rng
        parent, other = rng.randrange(PARENTS), rng.randrange(PARENTS)
        kind = rng.random()
        if kind < 0.2:
            return f"INSERT INTO parent VALUES ({parent}, {parent}) ON CONFLICT DO NOTHING"
        if kind < 0.4:
            return f"DELETE FROM parent WHERE id = {parent}"
        if kind < 0.5:
            return f"UPDATE parent SET {rng.choice(('id', 'u'))} = {other} WHERE id = {parent}"
        table = rng.choice(list(CHILDREN))
        if kind < 0.8:
            return f"INSERT INTO {table} VALUES ({rng.randrange(6)}, {parent}) ON CONFLICT DO NOTHING"
        column = CHILDREN[table][1]
        if kind < 0.9:
            return f"UPDATE {table} SET {column} = {parent} WHERE id = {rng.randrange(6)}"
        return f"DELETE FROM {table} WHERE id = {rng.randrange(6)}"


class FamilyWorld(World):
    """A world whose clients are families."""

    def _new_clients(self) -> None:
        if "parent" not in self.store.visible_catalog[0].by_name:
            self.now(self.session().execute("CREATE TABLE parent (id INT PRIMARY KEY, u INT UNIQUE)"))
            for table, (key, column, target, actions) in CHILDREN.items():
                self.now(
                    self.session().execute(
                        f"CREATE TABLE {table} ({key} INT PRIMARY KEY, {column} INT "
                        f"REFERENCES parent ({target}) {actions})"
                    )
                )
                if self.rng.random() < 0.5:
                    self.now(self.session().execute(f"CREATE INDEX ON {table} ({column})"))
        self.running = []
        for number in range(self.clients_wanted):
            client = Family(self, number)
            self.running.append((client, client.run(), None))

    def client_step(self) -> None:
        super().client_step()
        self.look_for_orphans()

    def verify(self, *, settle: bool) -> None:
        super().verify(settle=settle)
        self.look_for_orphans()

    def look_for_orphans(self) -> None:
        """What is committed, durable or not, keeps every foreign key."""
        if "late" not in self.store.visible_catalog[0].by_name:
            return
        parents = self.rows("parent", "id", "u")
        there = {"id": {row[0] for row in parents}, "u": {row[1] for row in parents}}
        for table, (_, column, target, _) in CHILDREN.items():
            for (value,) in self.rows(table, column):
                if value is not None and value not in there[target]:
                    raise ViolationError(f"a row of {table} refers to {value}, which is not there")

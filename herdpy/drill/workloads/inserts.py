"""Inserts with known ids, and sets: what was acknowledged is there, once; what was refused is not."""

from __future__ import annotations

from herdpy.drill.checkers import members, read_levels
from herdpy.drill.clients import Client
from herdpy.drill.history import DrillHistory
from herdpy.drill.judging import Verdict
from herdpy.drill.sessions import ClientSession
from herdpy.drill.workloads.workload import Numbers, Workload


class Inserts(Workload):
    """Rows into a table without a key, where one that was inserted twice would be there twice."""

    name = "inserts"
    summary = "rows with known ids into a table without a key; each acknowledged one is there exactly once"

    def __init__(self, suffix: str = "", isolation: str = "READ COMMITTED") -> None:
        super().__init__(suffix, isolation)
        self._ids = Numbers()

    def setup(self, client: Client) -> None:
        """See `Workload.setup`."""
        client.session.execute(f"CREATE TABLE {self.table} (id BIGINT NOT NULL, process INTEGER)")

    def step(self, client: Client) -> None:
        """One row, by a statement alone or by a transaction."""
        row = next(self._ids)

        def insert() -> None:
            client.session.execute(f"INSERT INTO {self.table} VALUES (%s, %s)", row, client.process)

        if client.random.random() < 0.5:
            client.attempt("insert", [row], insert)
        else:
            client.attempt("insert", [row], lambda: client.transaction(insert))

    def finish(self, client: Client) -> None:
        """See `Workload.finish`."""
        client.read_now("rows", [], lambda session: _numbers(session, f"SELECT id FROM {self.table}"))

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """See `Workload.judge`."""
        return [members.check_inserts(history)]


class Sets(Workload):
    """Elements are added, and all of them are read now and then, at each level."""

    name = "sets"
    summary = (
        "a set that is added to and read as a whole; nothing acknowledged is missing, nothing comes and goes"
    )
    _READS, _EACH_READ = 0.02, 20

    def __init__(self, suffix: str = "", isolation: str = "READ COMMITTED") -> None:
        super().__init__(suffix, isolation)
        self._elements = Numbers()

    def setup(self, client: Client) -> None:
        """See `Workload.setup`."""
        client.session.execute(f"CREATE TABLE {self.table} (id BIGINT PRIMARY KEY)")

    def step(self, client: Client) -> None:
        """Few of them read, and fewer the more elements there are to be read."""
        element = next(self._elements)
        if client.random.random() < min(self._READS, self._EACH_READ / element):
            client.read("members", [], self._members)
            return

        def add() -> None:
            client.session.execute(f"INSERT INTO {self.table} VALUES (%s)", element)

        client.attempt("add", [element], add)

    def finish(self, client: Client) -> None:
        """See `Workload.finish`."""
        client.read_now("members", [], self._members)

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """Reads at other levels may be as old as these allow, and no older."""
        return [members.check_sets(history), read_levels.check(history)]

    def _members(self, session: ClientSession) -> list[int]:
        return _numbers(session, f"SELECT id FROM {self.table} ORDER BY id")


def _numbers(session: ClientSession, sql: str) -> list[int]:
    return [int(number) for (number,) in session.execute(sql).rows]

"""A table that is dropped and made again all the time, with its columns in another order."""

from __future__ import annotations

from typing import Any

from herdpy.drill.clients import Client
from herdpy.drill.history import History
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.drill.sessions import Session
from herdpy.drill.workloads.workload import Numbers, Workload


class Redefined(Workload):
    """Every table has one row: its number as ``a``, and minus that as ``b``. All ask with the same text."""

    name = "redefined"
    summary = "a table that is dropped and made again; each look shows the row of one of them, whole"
    _CHANGES = 0.1

    def __init__(self, suffix: str = "", isolation: str = "READ COMMITTED") -> None:
        super().__init__(suffix, isolation)
        self._numbers = Numbers()

    def setup(self, client: Client) -> None:
        """See `Workload.setup`."""
        self._make(client.session, next(self._numbers))

    def step(self, client: Client) -> None:
        """Mostly a look, at times another table."""
        if client.random.random() >= self._CHANGES:
            client.read_now("look", [], self._look)
            return
        number = next(self._numbers)

        def change() -> None:
            client.session.execute(f"DROP TABLE {self.table}")
            self._make(client.session, number)

        client.attempt("redefine", [number], lambda: client.transaction(change))

    def finish(self, client: Client) -> None:
        """See `Workload.finish`."""
        client.read_now("look", [], self._look)

    def judge(self, history: History) -> list[Verdict]:
        """One row, as one of the tables had it."""
        anomalies = []
        for look in history.of("look"):
            rows: Any = look.result
            if rows is not None and not (len(rows) == 1 and rows[0][0] > 0 and rows[0][0] == -rows[0][1]):
                anomalies.append(Anomaly("wrong rows", f"no table had these rows: {rows}", [look]))
        return [Verdict.of(self.name, anomalies, f"{len(history.of('look').operations)} looks")]

    def _make(self, session: Session, number: int) -> None:
        columns = ("a INTEGER", "b INTEGER") if number % 2 else ("b INTEGER", "a INTEGER")
        session.execute(f"CREATE TABLE {self.table} (id INTEGER PRIMARY KEY, {', '.join(columns)})")
        session.execute(f"INSERT INTO {self.table} (id, a, b) VALUES (1, {number}, {-number})")

    def _look(self, session: Session) -> list[list[int]]:
        return [list(row) for row in session.execute(f"SELECT a, b FROM {self.table}").rows]

"""A table that is dropped and made again all the time, with its columns in another order."""

from __future__ import annotations

from typing import Any

from herdpy.drill.clients import Client
from herdpy.drill.history import ClientOperation, DrillHistory, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.drill.sessions import ClientSession
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
            client.read("look", [], self._look)
            return
        number = next(self._numbers)

        def change() -> None:
            client.session.execute(f"DROP TABLE {self.table}")
            self._make(client.session, number)

        client.attempt("redefine", [number], lambda: client.transaction(change))

    def finish(self, client: Client) -> None:
        """See `Workload.finish`."""
        client.read_now("look", [], self._look)

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """One row, as one of the tables had it, and no table that another had replaced by then."""
        changes = {_number(one.arguments): one for one in history.of("redefine")}
        looks = [one for one in history.of("look") if one.outcome is OperationOutcome.DONE]
        anomalies = []
        for look in looks:
            rows: Any = look.result
            if not (len(rows) == 1 and rows[0][0] > 0 and rows[0][0] == -rows[0][1]):
                anomalies.append(Anomaly("wrong rows", f"no table had these rows: {rows}", [look]))
            elif (shown := self._unfit(rows[0][0], look, changes)) is not None:
                anomalies.append(shown)
        return [Verdict.of(self.name, anomalies, f"{len(changes)} tables, {len(looks)} looks")]

    def _unfit(
        self, number: int, look: ClientOperation, changes: dict[int, ClientOperation]
    ) -> Anomaly | None:
        """Why the look must not show that table: it never was, or another was certainly made behind it."""
        made, made_s = changes.get(number), 0.0  # the first one is there before all clients
        if made is not None and made.final is OperationOutcome.NOT_DONE:
            text = f"process {look.process} saw table {number}, which was reported as not made"
            return Anomaly("undone table", text, [made, look])
        if made is not None:
            made_s = made.ended_s  # never, when nobody knows whether it was made
        for other in changes.values():
            if (
                other.final is OperationOutcome.DONE
                and made_s < other.called_s
                and other.ended_s < look.sees_from_s
            ):
                text = f"process {look.process} saw table {number}, which {other.arguments} had replaced"
                return Anomaly("stale table", text, [other, look])
        return None

    def _make(self, session: ClientSession, number: int) -> None:
        columns = ("a INTEGER", "b INTEGER") if number % 2 else ("b INTEGER", "a INTEGER")
        session.execute(f"CREATE TABLE {self.table} (id INTEGER PRIMARY KEY, {', '.join(columns)})")
        session.execute(f"INSERT INTO {self.table} (id, a, b) VALUES (1, {number}, {-number})")

    def _look(self, session: ClientSession) -> list[list[int]]:
        return [list(row) for row in session.execute(f"SELECT a, b FROM {self.table}").rows]


def _number(arguments: Any) -> int:
    return int(arguments[0])

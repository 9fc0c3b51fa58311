"""A secondary index: rows move within it, it is dropped and made again, and must have each row once."""

from __future__ import annotations

from collections import Counter

from herdpy.drill.clients import Client
from herdpy.drill.history import DrillHistory, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.drill.sessions import ClientSession
from herdpy.drill.workloads.workload import Workload, fill

_ROWS = 40
_TAGS = 8


class Indexed(Workload):
    """Every look goes along the whole index: whatever the rows' tags are, it has each of them once."""

    name = "indexed"
    summary = "rows that move within a secondary index; each look along it finds every row exactly once"
    _REMAKES, _LOOKS = 0.02, 0.4

    def setup(self, client: Client) -> None:
        """See `Workload.setup`."""
        client.session.execute(
            f"CREATE TABLE {self.table} (id INTEGER PRIMARY KEY, tag INTEGER NOT NULL, moves BIGINT NOT NULL)"
        )
        client.session.execute(self._index)
        fill(client, self.table, (f"{row}, {row % _TAGS}, 0" for row in range(_ROWS)))

    def step(self, client: Client) -> None:
        """Mostly a row is moved; now and then the index is another one."""
        chance = client.random.random()
        if chance < self._REMAKES:
            client.attempt("remake", [], lambda: client.transaction(lambda: self._remake(client.session)))
        elif chance < self._LOOKS:
            client.read("along", [], self._along)
        else:
            row, tag = client.random.randrange(_ROWS), client.random.randrange(_TAGS)
            client.attempt("move", [row, tag], lambda: self._move(client.session, row, tag))

    def finish(self, client: Client) -> None:
        """See `Workload.finish`."""
        client.read_now("along", [], self._along)

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """At every level a look shows one state of the log, and each has every row."""
        looks = [one for one in history.of("along") if one.outcome is OperationOutcome.DONE]
        anomalies = []
        for look in looks:
            assert isinstance(look.result, list)
            found = Counter(look.result)
            for row in range(_ROWS):
                if found[row] != 1:
                    kind = "row twice in the index" if found[row] else "row missing from the index"
                    text = f"process {look.process} found row {row} {found[row]} times"
                    anomalies.append(Anomaly(kind, text, [look]))
        return [Verdict.of(self.name, anomalies, f"{len(looks)} looks along the index")]

    @property
    def _index(self) -> str:
        return f"CREATE INDEX {self.table}_tag ON {self.table} (tag)"

    def _remake(self, session: ClientSession) -> None:
        session.execute(f"DROP INDEX {self.table}_tag")
        session.execute(self._index)

    def _move(self, session: ClientSession, row: int, tag: int) -> None:
        session.execute(f"UPDATE {self.table} SET tag = %s, moves = moves + 1 WHERE id = %s", tag, row)

    def _along(self, session: ClientSession) -> list[int]:
        sql = f"SELECT id FROM {self.table} WHERE tag >= 0 ORDER BY tag LIMIT {10 * _ROWS}"
        return [int(row) for (row,) in session.execute(sql).rows]

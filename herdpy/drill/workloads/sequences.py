"""Sequences: numbers are taken by nextval and by an identity column, across failovers."""

from __future__ import annotations

from herdpy.drill.checkers import numbers
from herdpy.drill.clients import Client
from herdpy.drill.history import DrillHistory
from herdpy.drill.judging import Verdict
from herdpy.drill.sessions import ClientSession, SessionAnswer
from herdpy.drill.workloads.workload import Numbers, Workload


class SequenceNumbers(Workload):
    """Two sequences: one of its own, and that of a table's identity column."""

    name = "sequences"
    summary = "numbers of sequences and identity columns; none is given twice, and later ones are greater"

    def __init__(self, suffix: str = "", isolation: str = "READ COMMITTED") -> None:
        super().__init__(suffix, isolation)
        self._tags = Numbers()
        self._sequence = f"{self.table}_own"

    def setup(self, client: Client) -> None:
        """See `Workload.setup`."""
        client.session.execute(f"CREATE SEQUENCE {self._sequence}")
        client.session.execute(
            f"CREATE TABLE {self.table} "
            "(id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tag BIGINT NOT NULL)"
        )

    def step(self, client: Client) -> None:
        """A number alone, or one with a row, by a statement or by a transaction."""
        tag = next(self._tags)
        chance = client.random.random()

        def take() -> int | None:
            return _only(client.session.execute(f"SELECT nextval('{self._sequence}')"))

        def insert() -> int | None:
            sql = f"INSERT INTO {self.table} (tag) VALUES (%s) RETURNING id"
            return _only(client.session.execute(sql, tag))

        if chance < 0.4:
            client.attempt("number", ["sequence", tag], take)
        elif chance < 0.7:
            client.attempt("number", ["identity", tag], insert)
        else:
            client.attempt("number", ["identity", tag], lambda: client.transaction(insert))

    def finish(self, client: Client) -> None:
        """See `Workload.finish`."""
        client.read_now("rows", [], self._rows)

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """See `Workload.judge`."""
        return [numbers.check(history)]

    def clean_up(self, client: Client) -> None:
        """See `Workload.clean_up`."""
        super().clean_up(client)
        client.session.execute(f"DROP SEQUENCE IF EXISTS {self._sequence}")

    def _rows(self, session: ClientSession) -> list[list[int]]:
        rows = session.execute(f"SELECT id, tag FROM {self.table}").rows
        return [[int(number), int(tag)] for number, tag in rows]


def _only(answer: SessionAnswer) -> int | None:
    """The one value; None when it is done, and its answer was lost."""
    return int(answer.rows[0][0]) if answer.rows else None

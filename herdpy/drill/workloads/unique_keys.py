"""Races for unique keys: several clients insert the same one, and exactly one gets the acknowledgement."""

from __future__ import annotations

from herdpy.drill.checkers import unique_keys
from herdpy.drill.clients import Client
from herdpy.drill.history import DrillHistory, OperationOutcome
from herdpy.drill.judging import Verdict
from herdpy.drill.sessions import ClientSession, FailedError
from herdpy.drill.workloads.workload import Numbers, Workload

_TRIES = 3
_UNIQUE_VIOLATION = "23505"


class UniqueKeys(Workload):
    """Each key is claimed about three times, at about the same time."""

    name = "unique-keys"
    summary = "clients that race for the same unique key; one wins, and the others are refused"

    def __init__(self, suffix: str = "", isolation: str = "READ COMMITTED") -> None:
        super().__init__(suffix, isolation)
        self._claimants = Numbers(0)

    def setup(self, client: Client) -> None:
        """The key that is raced for is a UNIQUE constraint beside the primary key."""
        client.session.execute(
            f"CREATE TABLE {self.table} (claimant BIGINT PRIMARY KEY, name BIGINT NOT NULL UNIQUE)"
        )

    def step(self, client: Client) -> None:
        """One claim, by a statement alone or by a transaction."""
        claimant = next(self._claimants)
        name = claimant // _TRIES

        def insert() -> None:
            client.session.execute(f"INSERT INTO {self.table} VALUES (%s, %s)", claimant, name)

        def claim() -> bool:
            try:
                if client.random.random() < 0.5:
                    insert()
                else:
                    client.transaction(insert)
            except FailedError as failed:
                if failed.sqlstate == _UNIQUE_VIOLATION and failed.outcome is OperationOutcome.NOT_DONE:
                    return False
                raise
            return True

        client.attempt("claim", [name, claimant], claim)

    def finish(self, client: Client) -> None:
        """See `Workload.finish`."""

        def owners(session: ClientSession) -> dict[str, int]:
            rows = session.execute(f"SELECT name, claimant FROM {self.table}").rows
            return {str(name): int(claimant) for name, claimant in rows}

        client.read_now("owners", [], owners)

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """See `Workload.judge`."""
        return [unique_keys.check(history)]

"""What every workload has: tables of its own, clients that use them, a last look, and a judgement.

Layer: above clients, below the runner. The runner makes the tables (`setup`), lets each of its threads do
one step after the other (`step`) until the time is over, looks at what is there when the cluster is quiet
(`finish`), and has the history judged (`judge`): only the operations with this workload's name among their
details.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from herdpy.drill.clients import Client
from herdpy.drill.history import DrillHistory
from herdpy.drill.judging import Verdict

_AT_ONCE = 500

PROMISES = {
    "READ UNCOMMITTED": "read committed",
    "READ COMMITTED": "read committed",
    "REPEATABLE READ": "repeatable read",
    "SERIALIZABLE": "serializable",
}
"""What each isolation level that BEGIN takes is held to, as herdpy.drill.checkers.list_append names it."""


class Workload(ABC):
    """Something for clients to do whose history can be judged. One object serves all clients of a run.

    name: as in `WORKLOADS`; it stands in the details of each operation.
    suffix: of the tables' names, so that several runs on one cluster keep apart.
    has_levels: whether transactions of several statements make it depend on the isolation level.
    kinds: of `client_threads.KINDS`, the only ones that its clients can be; empty: all that a drill has.
    isolation: that of its clients' transactions, in capitals, or one that promises as much.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    has_levels: ClassVar[bool] = False
    kinds: ClassVar[tuple[str, ...]] = ()

    def __init__(self, suffix: str = "", isolation: str = "READ COMMITTED") -> None:
        self.table = f"drill_{self.name.replace('-', '_')}{suffix}"
        self.isolation = isolation

    @abstractmethod
    def setup(self, client: Client) -> None:
        """Make the tables, and what has to be in them."""

    @abstractmethod
    def step(self, client: Client) -> None:
        """One operation of one client, chosen by `client.random`, which records the answer itself."""

    @abstractmethod
    def finish(self, client: Client) -> None:
        """Read everything, on the leader, when all is quiet."""

    @abstractmethod
    def judge(self, history: DrillHistory) -> list[Verdict]:
        """What came of it; `history` has this workload's operations only."""

    def clean_up(self, client: Client) -> None:
        """Drop the tables."""
        client.session.execute(f"DROP TABLE IF EXISTS {self.table}")


def fill(client: Client, table: str, rows: Iterable[str]) -> None:
    """Insert rows, each written as SQL, such as "1, NULL"; not by a query, which would start a worker."""
    left = list(rows)
    while left:
        values = ", ".join(f"({row})" for row in left[:_AT_ONCE])
        client.session.execute(f"INSERT INTO {table} VALUES {values}")
        left = left[_AT_ONCE:]


class Numbers:
    """Counts up, for several threads: values, ids and elements that nobody else has."""

    def __init__(self, first: int = 1) -> None:
        self._numbers = itertools.count(first)
        self._lock = threading.Lock()

    def __next__(self) -> int:
        with self._lock:
            return next(self._numbers)

"""A drill client's way to the database: through HerdPy's driver, or through plain psycopg.

Layer: below `clients`. Both ways run the same statements and end in an `Answer` or in `FailedError`, which
says what became of the work: done, not done, or unknown. They differ in who finds it out:

* The driver (`DriverSession`) finds the next leader, asks what became of a commit that lost its answer, and
  sends again what was not done. It says unknown only when nobody could be asked in time.
* A program on plain psycopg (`PlainSession`) names its commits itself, is told unknown whenever a connection
  breaks, and asks with the name on its next connection: `resolve`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from herdpy.drill.history import OperationOutcome

T = TypeVar("T")

READ_LEVELS = ("linearizable", "bounded", "at_lsn", "any")
"""herdpy.read_level: the first is answered by the leader alone, the others by every replica."""


class FailedError(Exception):
    """A statement or a transaction failed; `outcome` says what became of it.

    sqlstate: None when the connection broke.
    request_id: the name of a commit whose outcome is unknown, where it has one, for `Session.resolve`.
    """

    def __init__(
        self, outcome: OperationOutcome, sqlstate: str | None, message: str, *, request_id: str | None = None
    ) -> None:
        self.message = " ".join(message.split())
        super().__init__(f"{sqlstate or 'lost'}: {self.message}")
        self.outcome = outcome
        self.sqlstate = sqlstate
        self.request_id = request_id


@dataclass(frozen=True, slots=True)
class SessionAnswer:
    """What a statement gave. count: rows changed or read; None when it is done, and its answer was lost."""

    rows: list[tuple[Any, ...]]
    count: int | None


@dataclass(frozen=True, slots=True)
class Way:
    """How a session is to be made.

    url: every server, and the tablespace.
    read_level: of `READ_LEVELS`; all but the first go to a server that follows, where there is one.
    max_staleness_s: of `bounded`.
    patience_s: how long a leader is looked for, and an outcome asked for.
    statement_s: how long a statement may be unanswered before plain psycopg's program hangs up.
    first: host and port of the one server that plain psycopg's program connects to first.
    """

    url: str
    read_level: str = "linearizable"
    max_staleness_s: float = 0.5
    patience_s: float = 30.0
    statement_s: float = 4.0
    first: tuple[str, int] | None = None

    @property
    def follows(self) -> bool:
        """Whether a server that follows may answer."""
        return self.read_level != "linearizable"


class ClientSession(Protocol):
    """One client's connection, and the next one when it breaks. For one thread."""

    @property
    def server(self) -> str | None:
        """Who answers, as ``host:port``, where that is known."""

    def execute(self, sql: str, *parameters: object) -> SessionAnswer:
        """Run one statement, in the open transaction, or else in one of its own. Raises FailedError."""

    def transaction(self, work: Callable[[], T], isolation: str | None = None) -> T:
        """Run `work`, which calls `execute`, as one transaction; what it returned, once it is committed.

        It may be called several times: each time the one before had no effect. `isolation`: in capitals, as
        BEGIN takes it. Raises FailedError.
        """

    def resolve(self, request_id: str) -> OperationOutcome | None:
        """What became of a commit of that name; from then on it cannot happen any more if it has not.

        None when it could not be learnt in time.
        """

    def close(self) -> None:
        """Give the connection up."""


class ClientSessions(Protocol):
    """Makes sessions of one kind. kind: "driver" or "psycopg", for the details of operations."""

    kind: str

    def open(self, way: Way) -> ClientSession: ...


@functools.lru_cache(256)
def only_reads(sql: str) -> bool:
    """Whether the statement has nothing to commit."""
    return sql.lstrip().upper().startswith(("SELECT", "SHOW", "SET", "BEGIN", "ROLLBACK"))

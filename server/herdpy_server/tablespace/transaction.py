"""One open transaction: its view of the store, its locks, its settings. Held by a session.

Nothing of it is in the log before it commits. Its changes lie in its workspace's own layer; its
locks are held until its commit has a place in the log, or until it rolls back.

A client gives its commit an id (``SET herdpy.request_id``). What became of applied ones is in the store;
``Requests`` has those that are pending, and decides about an id that comes.
"""

from __future__ import annotations

import time

from herdpy.log import Append, LogError
from herdpy_server.store import Store, Workspace
from herdpy_server.store.outcomes import CommitOutcome, made_after
from herdpy_server.tablespace.locks import Owner
from herdpy_server.tablespace.log_errors import sql_error
from herdpy_sql.errors import SqlError
from herdpy_sql.storage import Clock


def now_us() -> int:
    """The wall clock in microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


class Transaction:
    """An open transaction.

    Attributes:
        instant: an autocommit statement that begins and takes its place in the log within one turn
            (see ``locks``); False once it had to wait, and for BEGIN ... COMMIT.
        lock_timeout_s: how long a lock is waited for; None for ever.
        started_us: what now() says throughout.
        partner: the session's advisory locks, if it had some when the transaction began or took some in it.
        log_generation: of the tablespace when it began: see ``Tablespace.switch_log``.
        queried: whether a statement has begun that reads or writes: then the isolation level is settled.
        workspace: the view that its statements run against.
    """

    __slots__ = (
        "instant",
        "lock_timeout_s",
        "log_generation",
        "partner",
        "queried",
        "started_us",
        "workspace",
    )

    partner: Owner | None
    workspace: Workspace

    def __init__(
        self, *, instant: bool, lock_timeout_s: float | None = None, log_generation: int = 0
    ) -> None:
        self.instant = instant
        self.queried = False
        self.partner = None
        self.log_generation = log_generation
        self.lock_timeout_s = lock_timeout_s
        self.started_us = time.time_ns() // 1000

    def begin_statement(self) -> None:
        """A statement begins to read or write. SqlError 72000 when its snapshot is too old."""
        self.queried = True
        self.workspace.begin_statement()

    def clock(self, zone: str) -> Clock:
        """The time that the statement beginning now may see."""
        now = self.started_us if self.instant else now_us()
        return Clock(self.started_us, now, zone, self.workspace)


_GIVEN_UP = "the request was cancelled before its commit arrived: it is not done, and can no longer be done"


class DuplicateRequestError(SqlError):
    """A second commit under an id; ``first`` is the one before, when it is not durable yet."""

    def __init__(self, outcome: CommitOutcome | None, first: Append | None = None) -> None:
        super().__init__("HP001", "a transaction with this request id was committed already")
        self.first = first
        if outcome is not None:
            self.settle(outcome)

    def settle(self, outcome: CommitOutcome) -> None:
        """The first one is durable: say where it is."""
        if outcome.done:
            self.detail = f"It is at {outcome.lsn}."
        else:
            self.sqlstate, self.message = "HP002", _GIVEN_UP

    async def confirm(self) -> None:
        """Wait for the first one to be durable. SqlError 40001 or 08007 when it was lost."""
        first, self.first = self.first, None
        if first is None:
            return
        try:
            await first
        except LogError as error:
            raise sql_error(error) from error
        assert first.lsn is not None
        done = bool(first.transaction.records)
        self.settle(
            CommitOutcome(first.transaction.request_id, first.lsn, first.transaction.timestamp_us, done)
        )


class Requests:
    """The ids that are known, applied or pending. In the engine's turn."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: dict[bytes, Append] = {}

    def find(self, request_id: bytes) -> CommitOutcome | Append | None:
        """What is known of an id: its outcome, or the append that will be its outcome."""
        return self._store.outcomes.find(request_id) or self._pending.get(request_id)

    def would_know(self, request_id: bytes) -> bool:
        """Whether an id that is not found was certainly never committed."""
        return self._store.outcomes.would_know(request_id) and not self._is_ahead(request_id)

    def _is_ahead(self, request_id: bytes) -> bool:
        """Whether an id says that it was made after a position that there is not yet."""
        after = made_after(request_id)
        return after is not None and after > self._store.applied

    def check_new(self, request_id: bytes) -> None:
        """Raise SqlError HP001 or HP002 when nothing may be committed under this id; 22023: it is no id."""
        found = self.find(request_id)
        if isinstance(found, Append):
            raise DuplicateRequestError(None, found)
        if found is not None:
            raise DuplicateRequestError(found)
        after = made_after(request_id)
        if after is None:
            return
        if after > self._store.applied:
            raise SqlError("22023", "the request id names a position that the log does not have")
        if after < self._store.outcomes.forgotten:
            raise SqlError(
                "HP002",
                "the request id is too old: it is not known any more whether it was committed",
                hint="Take a new one for a new transaction.",
            )

    def began(self, request_id: bytes, append: Append) -> None:
        """A commit under this id has its place in the log."""
        self._pending[request_id] = append

    def ended(self, request_id: bytes) -> None:
        """It is applied."""
        self._pending.pop(request_id, None)

    def lost(self) -> None:
        """The log failed: nothing is pending any more."""
        self._pending.clear()

"""Named commits: refusing an id a second time, and telling what became of one. Below ``tablespace``.

A client gives its commit an id (``SET herdpy.request_id``). What became of applied ones is in the store;
here are those that are pending, and the decision about an id that comes.
"""

from __future__ import annotations

from herdpy.log import Append, LogError
from herdpy_server.store import Store
from herdpy_server.store.outcomes import CommitOutcome, made_after
from herdpy_server.tablespace.log_errors import sql_error
from herdpy_sql.errors import SqlError

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

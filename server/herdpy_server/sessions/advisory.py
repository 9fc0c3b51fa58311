"""Advisory locks of one session: pg_advisory_lock and its relatives. Programs agree upon the numbers.

Beside ``system_state``, which the functions call in the engine's turn. The locks themselves are in a
table of the tablespace's (``Tablespace.advisory``), apart from those of rows; here is how often a session has
each, and for how long: until it is unlocked or the session ends, or until the transaction ends. They are not
replicated: with another leader they are gone, as are the sessions that had them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from herdpy_sql.errors import SqlError
from herdpy_sql.lock_modes import SHARE, UPDATE
from herdpy_sql.storage import MustWait
from herdpy_sql.system.advisory import AdvisoryCall

if TYPE_CHECKING:
    from herdpy_server.sessions.identity import Identity
    from herdpy_server.sessions.settings import Settings
    from herdpy_server.tablespace import Tablespace, Transaction
    from herdpy_server.tablespace.locks import LockTable, Owner, Resource

MAX_LOCKS = 10_000
"""So many different ones may a session have."""
_NAMES = {UPDATE: "ExclusiveLock", SHARE: "ShareLock"}


class LockingSession(Protocol):
    """A session, as far as its advisory locks concern it; see ``TransactionBlock``."""

    tablespace: Tablespace
    settings: Settings
    identity: Identity
    transaction: Transaction | None

    def notice(self, severity: str, sqlstate: str, message: str) -> None:
        """Say something to the client."""


class AdvisoryLocks:
    """What one session has. As a lock's owner it is the session, whatever transaction it is in.

    Attributes:
        session: as given.
        counts: how often it has each lock in each mode: of the session, of its transaction.
        waiting_as: the transaction that waits for a lock now, also one of a single statement.
    """

    instant = False

    def __init__(self, session: LockingSession) -> None:
        self.session = session
        self._table = session.tablespace.advisory
        self.waiting_as: Transaction | None = None
        self.counts: dict[tuple[Resource, int], list[int]] = {}

    @property
    def partner(self) -> Owner | None:
        """The transaction that the session is in, which has its locks of rows."""
        return self.waiting_as or self.session.transaction

    def perform(self, calls: list[AdvisoryCall], call: AdvisoryCall) -> bool | None:
        """Lock or unlock; what the function gives.

        Args:
            calls: those that the statement has made already, taken back if it must wait: it begins again.

        Raises:
            MustWait: another session has the lock. SqlError 40P01, 55P03, 53200.
        """
        if call.unlocks:
            return self._unlock(call)
        mode = SHARE if call.shared else UPDATE
        resource = (call.space, call.key)
        if self.session.transaction is not None:
            self.session.transaction.partner = self
        if (resource, mode) not in self.counts and len(self.counts) >= MAX_LOCKS:
            raise SqlError("53200", f"a session can have {MAX_LOCKS} advisory locks", hint="Unlock some.")
        if call.tries:
            if not self._table.try_take(self, resource, mode):
                return False
        else:
            try:
                self._table.take(self, resource, mode)
            except MustWait:
                for done in calls:
                    self._give_back((done.space, done.key), SHARE if done.shared else UPDATE, done.scope)
                raise
        self.counts.setdefault((resource, mode), [0, 0])[call.scope] += 1
        calls.append(call)
        return True if call.tries else None

    def _unlock(self, call: AdvisoryCall) -> bool | None:
        if call.key is None:
            self._drop(0)
            return None
        mode = SHARE if call.shared else UPDATE
        if self._give_back((call.space, call.key), mode, 0):
            return True
        message = f"you don't own a lock of type {_NAMES[mode]}"
        self.session.notice("WARNING", "01000", message)
        return False

    def _give_back(self, resource: Resource, mode: int, scope: int) -> bool:
        counts = self.counts.get((resource, mode))
        if counts is None or not counts[scope]:
            return False
        counts[scope] -= 1
        self._settle(resource, mode)
        return True

    def _settle(self, resource: Resource, mode: int) -> None:
        """Let go of a lock that the session no longer has in a mode."""
        if any(self.counts[resource, mode]):
            return
        del self.counts[resource, mode]
        left = [one for one in (SHARE, UPDATE) if (resource, one) in self.counts]
        self._table.release(self, resource, sum(1 << one for one in left))

    def _drop(self, scope: int) -> None:
        for resource, mode in list(self.counts):
            self.counts[resource, mode][scope] = 0
            self._settle(resource, mode)

    def end_transaction(self) -> None:
        """Those of the transaction go."""
        self._drop(1)

    def stop_waiting(self) -> None:
        """The statement that waited has ended."""
        self._table.forget(self)

    def unlock_all(self) -> None:
        """Those of the session go."""
        self._drop(0)

    def close(self) -> None:
        """The session ends."""
        self.counts.clear()
        self._table.release_all(self)


def advisory_rows(table: LockTable) -> Iterator[Mapping[str, Any]]:
    """Rows of pg_locks: the advisory locks of all sessions, held and waited for."""
    for resource, owner, wanted, began_us in table.rows():
        assert isinstance(owner, AdvisoryLocks)
        space, key = resource
        assert key is not None
        held = [mode for mode in _NAMES if (resource, mode) in owner.counts]
        for mode in held if wanted is None else [wanted]:
            yield {
                "classid": int.from_bytes(key[:4], "big"),
                "objid": int.from_bytes(key[4:], "big"),
                "objsubid": -space,
                "pid": owner.session.identity.pid,
                "mode": _NAMES[mode],
                "granted": wanted is None,
                "waitstart": began_us,
            }

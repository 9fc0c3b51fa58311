"""Row locks of one tablespace: who may write a row until it commits or rolls back.

A lock is (database id, key): a row by its table and key, a unique index entry by its index and
entry key, a whole table by its id and no key. Locks are only ever asked for in the engine's turn,
so the table itself needs none. A request that cannot be granted raises
:class:`~herdpy_sql.storage.MustWait`; the statement is undone and run again when the lock is its
own. Locks are handed over in the order of asking. A cycle of waiting transactions is found when
its last edge is drawn: the one that draws it gets SQLSTATE 40P01.

*Instant* owners are autocommit statements: they start and take their place in the log within one
turn, so nobody can come between, and they need to look at locks but not to take them. One that
has to wait stops being instant.

A bulk load locks its keys as one set: a lock of its own is made for a key when somebody asks for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, Protocol

from herdpy.log.wait import Wait
from herdpy_sql.errors import SqlError
from herdpy_sql.storage import MustWait

_BULK = 64
"""From how many keys on a request is kept as a set."""
_FEW, _SET = 4096, 65_536
"""Requests of fewer keys share a set, until that has so many."""

Resource = tuple[int, bytes | None]
"""(database id, key); a key of None is the whole database (a table)."""
_NOTHING: dict[Resource, None] = {}


class Owner(Protocol):
    """What locks need to know of a transaction."""

    instant: bool
    lock_timeout_s: float | None


class LockWait(Wait[None]):
    """Granted when the lock is the waiter's; fails with 55P03 when its time-out passes first.

    Who waits must call :meth:`LockTable.forget` in the engine's turn when it fails.
    """

    __slots__ = ("timeout_s",)

    def __init__(self, timeout_s: float | None) -> None:
        super().__init__()
        self.timeout_s = timeout_s

    def block(self, timeout_s: float | None = None) -> bool:
        if timeout_s is not None or self.timeout_s is None:
            return super().block(timeout_s)
        if not super().block(self.timeout_s):
            self.expire()
        return True

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Any = None) -> None:
        super().add_done_callback(callback, context=context)
        if self.timeout_s is not None and not self.done():
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self.timeout_s, self.expire)
            super().add_done_callback(lambda _wait: timer.cancel())

    def expire(self) -> None:
        """The time-out has passed: whoever keeps the time calls this."""
        self.fail(SqlError("55P03", "canceling statement due to lock timeout"))


_Queued = tuple[Owner, LockWait, bool]
"""Who waits, for what, and whether it would share the lock."""


class _Lock:
    """One held lock and those who wait for it. A table may be shared by the writers of its rows."""

    __slots__ = ("holders", "queue", "shared")

    def __init__(self, owner: Owner, *, shared: bool) -> None:
        self.holders = {owner}
        self.shared = shared
        self.queue: deque[_Queued] | tuple[()] = ()  # a queue of its own once somebody waits

    def join(self, queued: _Queued) -> None:
        """Somebody waits, behind all others."""
        if isinstance(self.queue, tuple):
            self.queue = deque()
        self.queue.append(queued)


class LockTable:
    """Every lock of a tablespace.

    Attributes:
        waits, deadlocks: how often a lock had to be waited for, and how often that was refused because it
            would have been for ever.
    """

    def __init__(self) -> None:
        self._locks: dict[Resource, _Lock] = {}
        self._held: dict[Owner, dict[Resource, None]] = {}  # in the order they were taken
        self._waiting: dict[Owner, tuple[Resource, LockWait]] = {}
        self.waits = self.deadlocks = 0
        self._bulk: dict[int, list[tuple[Owner, set[bytes]]]] = {}

    def acquire(self, owner: Owner, database_id: int, key: bytes) -> None:
        """Lock one row or index entry (and share its table with other writers)."""
        if not self._locks and owner.instant:
            return
        held = self._held.get(owner, _NOTHING)
        whole, row = (database_id, None), (database_id, key)
        if whole not in held:
            self._request(owner, whole, shared=True)
        if row not in held and not (self._bulk and self._holds_in_bulk(owner, database_id, key)):
            self._request(owner, row, shared=False)

    def acquire_many(self, owner: Owner, database_id: int, keys: Collection[bytes]) -> None:
        """Lock many rows of one table, as :meth:`acquire` does for each; all of them or none."""
        if not self._locks and owner.instant:
            return
        self._request(owner, (database_id, None), shared=True)
        if len(keys) < _BULK:
            for key in keys:
                self._request(owner, (database_id, key), shared=False)
            return
        wanted = set(keys)
        for other, held in self._bulk.get(database_id, ()):
            if other is not owner and not held.isdisjoint(wanted):
                self._request(owner, (database_id, min(held & wanted)), shared=False)
        locks = self._locks
        if len(locks) < len(wanted):
            known = [one for one in locks if one[0] == database_id and one[1] in wanted]
        else:
            known = [one for key in wanted if (one := (database_id, key)) in locks]
        for resource in known:
            if owner not in locks[resource].holders:
                self._request(owner, resource, shared=False)
        if not owner.instant:
            sets = self._bulk.setdefault(database_id, [])
            if len(wanted) < _FEW and sets and sets[-1][0] is owner and len(sets[-1][1]) < _SET:
                sets[-1][1].update(wanted)  # or the sets would be many
            else:
                sets.append((owner, wanted))

    def _holds_in_bulk(self, owner: Owner, database_id: int, key: bytes) -> bool:
        """Whether ``owner`` has the key as one of many: until it ends, whoever asks for it meanwhile."""
        return any(holder is owner and key in keys for holder, keys in self._bulk.get(database_id, ()))

    def acquire_table(self, owner: Owner, database_id: int) -> None:
        """Lock a whole table against every other writer."""
        self._request(owner, (database_id, None), shared=False)

    def _request(self, owner: Owner, resource: Resource, *, shared: bool) -> None:
        lock = self._locks.get(resource)
        if lock is None and self._bulk:
            lock = self._out_of_bulk(resource)
        if lock is None:
            if not owner.instant:
                self._take(owner, resource, shared=shared)
            return
        if owner in lock.holders:
            if shared or not lock.shared:
                return
            if len(lock.holders) == 1:
                lock.shared = False
                return
        elif shared and lock.shared and not lock.queue:
            if not owner.instant:
                lock.holders.add(owner)
                self._held.setdefault(owner, {})[resource] = None
            return
        self._wait(owner, resource, lock, shared=shared)

    def _take(self, owner: Owner, resource: Resource, *, shared: bool) -> _Lock:
        lock = self._locks[resource] = _Lock(owner, shared=shared)
        self._held.setdefault(owner, {})[resource] = None
        return lock

    def _out_of_bulk(self, resource: Resource) -> _Lock | None:
        """The lock of a key that somebody holds as one of many."""
        database_id, key = resource
        for holder, keys in self._bulk.get(database_id, ()):
            if key in keys:
                return self._take(holder, resource, shared=False)
        return None

    def _wait(self, owner: Owner, resource: Resource, lock: _Lock, *, shared: bool) -> None:
        if self._would_deadlock(owner, lock):
            self.deadlocks += 1
            raise SqlError(
                "40P01",
                "deadlock detected",
                detail="The transactions that hold the lock wait, directly or not, for this one.",
                hint="Run the transaction again from its start.",
            )
        owner.instant = False  # it will be run again later, in a turn of its own: now it takes locks
        self.waits += 1
        wait = LockWait(owner.lock_timeout_s)
        lock.join((owner, wait, shared))
        self._waiting[owner] = (resource, wait)
        raise MustWait(wait)

    def _would_deadlock(self, owner: Owner, lock: _Lock) -> bool:
        locks = self._locks
        if not any(locks[resource].queue for resource in self._held.get(owner, _NOTHING)):
            return False  # nobody waits for it: it holds nothing that is wanted, and is queued nowhere yet
        seen: set[int] = set()
        frontier = [holder for holder in self._ahead(lock, owner) if holder is not owner]
        while frontier:
            holder = frontier.pop()
            if holder is owner:
                return True
            if id(holder) in seen:
                continue
            seen.add(id(holder))
            waiting = self._waiting.get(holder)
            if waiting is None or (blocker := locks.get(waiting[0])) is None:
                continue
            if blocker is not lock:
                frontier.extend(self._ahead(blocker, holder))
            elif owner in lock.holders:  # beside it only those are ahead that are in the frontier already
                return True
        return False

    @staticmethod
    def _ahead(lock: _Lock, owner: Owner) -> list[Owner]:
        """Whom ``owner`` waits for at this lock: its holders, and those queued before it."""
        ahead = [holder for holder in lock.holders if holder is not owner]
        for queued, _wait, _shared in lock.queue:
            if queued is owner:
                break
            ahead.append(queued)
        return ahead

    def release_all(self, owner: Owner) -> None:
        """Give back every lock of ``owner``: its commit has its place in the log, or it rolled back."""
        if not self._locks and not self._bulk:
            return
        if owner in self._waiting:
            self.forget(owner)
        for database_id in [d for d, held in self._bulk.items() if any(o is owner for o, _ in held)]:
            rest = [(o, keys) for o, keys in self._bulk[database_id] if o is not owner]
            self._bulk[database_id] = rest
            if not rest:
                del self._bulk[database_id]
        for resource in self._held.pop(owner, ()):
            lock = self._locks[resource]
            lock.holders.discard(owner)
            self._hand_over(resource, lock)

    def clear(self, error: SqlError) -> None:
        """Every lock is given back, and whoever waits for one gets ``error``."""
        waiting = [wait for _resource, wait in self._waiting.values()]
        for held in (self._locks, self._held, self._waiting, self._bulk):
            held.clear()
        for wait in waiting:
            wait.fail(error)

    def forget(self, owner: Owner) -> None:
        """``owner`` no longer waits: it was cancelled, timed out, or rolled back."""
        waiting = self._waiting.pop(owner, None)
        if waiting is None:
            return
        resource, wait = waiting
        lock = self._locks.get(resource)
        if lock is not None:
            lock.queue = deque(item for item in lock.queue if item[1] is not wait)
            self._hand_over(resource, lock)

    def _hand_over(self, resource: Resource, lock: _Lock) -> None:
        """Grant the lock to as many as may have it, in the order of asking."""
        while queue := lock.queue:
            owner, wait, shared = queue[0]
            others = lock.holders - {owner}
            if others and not (shared and lock.shared):
                return
            queue.popleft()
            del self._waiting[owner]
            lock.shared = shared if not lock.holders else lock.shared and shared
            lock.holders.add(owner)
            self._held.setdefault(owner, {})[resource] = None
            wait.resolve(None)
        if not lock.holders:
            del self._locks[resource]

    def held_by(self, owner: Owner) -> int:
        """How many locks ``owner`` holds."""
        return len(self._held.get(owner, ()))

    @property
    def waiting(self) -> int:
        """How many transactions wait for a lock."""
        return len(self._waiting)

    def __len__(self) -> int:
        return len(self._locks)

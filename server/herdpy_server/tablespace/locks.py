"""Row locks of one tablespace: who may write a row until it commits or rolls back.

A lock is (database id, key): a row by its table and key, a unique index entry by its index and entry key, a
whole table by its id and no key. Each is held in one of PostgreSQL's modes (``herdpy_sql.lock_modes``), so
that several may share it where their modes allow. Locks are only ever asked for in the engine's turn, so the
table itself needs none. A request that cannot be granted raises :class:`~herdpy_sql.storage.MustWait`; the
statement is undone and run again when the lock is its own. Locks are handed over in the order of asking.
A session has locks in two tables: its transaction those of rows, itself the advisory ones. Each of the two
owners is the other's *partner*: whoever waits for the one waits for both.

Nobody looks for a cycle of waiting transactions when one begins to wait, because most waits are over soon.
Each looks once, when it has waited for its ``deadlock_timeout_s``. That finds every cycle: the last of its
waits closed it, since who runs waits for nobody, and whoever began that wait looks later. The one that closed
a cycle gets SQLSTATE 40P01, whoever has found it.

*Instant* owners are autocommit statements: they start and take their place in the log within one
turn, so nobody can come between, and they need to look at locks but not to take them. One that
has to wait stops being instant.

A bulk load locks its keys as one set: a lock of its own is made for a key when somebody asks for it. The
locks of a large transaction lie in its file (``SpilledKeys``), and come back in the same way.

The ids of loads are locked here, too, in memory alone (:class:`LoadTurns`): between the look whether a load
was published and the commit that publishes it, nobody else may come.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from heapq import heapify, heappop, heappush
from itertools import islice
from types import TracebackType
from typing import Any, Final, Protocol

from herdpy.log.wait import Wait
from herdpy_server.store.physical import MAX_PLAIN
from herdpy_server.store.spilling import SpillFile
from herdpy_sql.errors import SqlError
from herdpy_sql.lock_modes import (
    ACCESS_EXCLUSIVE,
    CONFLICTS,
    COVERED_BY,
    ROW_EXCLUSIVE,
    ROW_SHARE,
    SHARE,
    UPDATE,
)
from herdpy_sql.storage import MustWait


class SpilledKeys:
    """The keys of one database that one transaction has locked, each with its mask of modes."""

    __slots__ = ("_file", "_slot")

    def __init__(self, file: SpillFile, slot: int) -> None:
        self._file = file
        self._slot = slot

    def put(self, masks: Mapping[bytes, int]) -> None:
        """Add keys, or give those that are there another mask. SqlError 53100, 58030: nothing was added."""
        self._file.write(self._slot, [(key, bytes((masks[key],))) for key in sorted(masks)])

    def mask(self, key: bytes) -> int:
        """The modes in which a key is locked; 0 when it is not."""
        found = self._file.view().get(self._slot, key)
        return 0 if found is None else found[0]

    def first_of(self, keys: Collection[bytes]) -> bytes | None:
        """One of the ``keys`` that is here; None when none is."""
        view = self._file.view()
        if max(map(len, keys)) > MAX_PLAIN:
            return next((key for key in keys if view.get(self._slot, key) is not None), None)
        return next(iter(view.existing(self._slot, sorted(keys))), None)


class Owner(Protocol):
    """What locks need to know of a transaction, or of a session with locks of its own."""

    instant: bool

    @property
    def partner(self) -> Owner | None:
        """Who waits and goes on with it: see ``locks.find_cycle``."""


DEADLOCK_TIMEOUT_S = 0.05
"""After so long a wait is looked at, unless its session says otherwise."""

_NUMBERS = itertools.count()


class LockWait(Wait[None]):
    """Granted when the lock is the waiter's; fails with 55P03 when its time-out passes first, and with 40P01
    when it closed a cycle.

    On a loop timers keep the time. A thread that blocks is woken when :meth:`look` is due, which needs
    the engine's turn: so who awaits it looks, and awaits it again, until it is done. Who waits must call
    :meth:`LockTable.forget` in the engine's turn when it fails.

    Attributes:
        number: waits that began later have higher ones.
        timeout_s: how long the lock is waited for; None: for ever.
        deadlock_timeout_s: how long before a cycle is looked for; None: that is seen to.
        began_us: when it began, microseconds since 1970 UTC.
    """

    __slots__ = (
        "_ends_s",
        "_owner",
        "_table",
        "_timer",
        "began_us",
        "deadlock_timeout_s",
        "number",
        "timeout_s",
    )

    def __init__(self, table: LockTable, owner: Owner) -> None:
        super().__init__()
        self._table = table
        self._owner = owner
        self.number = next(_NUMBERS)
        self.began_us = time.time_ns() // 1000
        self.timeout_s: float | None = None
        self.deadlock_timeout_s: float | None = DEADLOCK_TIMEOUT_S
        self._ends_s: float | None = None  # by the monotonic clock
        self._timer: asyncio.TimerHandle | None = None

    def block(self, timeout_s: float | None = None) -> bool:
        if timeout_s is not None:
            return super().block(timeout_s)
        left_s = self.timeout_s
        if left_s is not None:
            now_s = time.monotonic()
            if self._ends_s is None:
                self._ends_s = now_s + left_s
            left_s = max(self._ends_s - now_s, 0)
        look_s = self.deadlock_timeout_s
        if look_s is not None and (left_s is None or look_s < left_s):
            super().block(look_s)
        elif not super().block(left_s):
            self.expire()
        return True

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Any = None) -> None:
        super().add_done_callback(callback, context=context)
        if self._done:
            return
        loop = asyncio.get_running_loop()
        if self.timeout_s is not None:
            self._timer = loop.call_later(self.timeout_s, self.expire)
        if self.deadlock_timeout_s is not None:
            self._table.looks_on(loop).add(self, self.deadlock_timeout_s)
            self.deadlock_timeout_s = None

    def expire(self) -> None:
        """The time-out has passed: whoever keeps the time calls this."""
        self.fail(SqlError("55P03", "canceling statement due to lock timeout"))

    def look(self) -> None:
        """It has waited for long: end every cycle that it is part of. In the engine's turn."""
        self.deadlock_timeout_s = None
        if not self.done():
            self._table.end_cycles(self._owner, self)

    def close_cycle(self) -> None:
        """It was the last wait of a cycle: it fails."""
        self._table.deadlocks += 1
        self.fail(
            SqlError(
                "40P01",
                "deadlock detected",
                detail="The transactions that hold the lock wait, directly or not, for this one.",
                hint="Run the transaction again from its start.",
            )
        )

    @property
    def is_granted(self) -> bool:
        """Whether the lock is the waiter's."""
        return self._done and self._error is None

    def stop(self) -> None:
        """Nobody awaits it any more: on its loop, if it was awaited on one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Looks:
    """When which waits of one loop are to look: one timer for all, because few wait for so long."""

    __slots__ = ("_at_s", "_due", "_room", "_timer", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._due: list[tuple[float, int, LockWait]] = []  # a heap
        self._timer: asyncio.TimerHandle | None = None
        self._at_s = 0.0
        self._room = _MANY_LOOKS

    def __len__(self) -> int:
        return len(self._due)

    def add(self, wait: LockWait, seconds: float) -> None:
        """Have a wait look after so many seconds, if it is not done then."""
        due = self._due
        at_s = self.loop.time() + seconds
        heappush(due, (at_s, wait.number, wait))
        if self._timer is None or at_s < self._at_s:
            self._arm()
        if len(due) > self._room:  # most are done, where time-outs are long
            due[:] = [one for one in due if not one[2].done()]
            heapify(due)
            self._room = max(2 * len(due), _MANY_LOOKS)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at_s = self._due[0][0]
        self._timer = self.loop.call_at(self._at_s, self._look)

    def _look(self) -> None:
        self._timer = None
        due, now_s = self._due, self.loop.time()
        while due and (due[0][0] <= now_s or due[0][2].done()):
            heappop(due)[2].look()
        if due:
            self._arm()


_MANY_LOOKS = 512
_MODES = len(CONFLICTS)

Queued = tuple[Owner, LockWait, int]
"""Who waits, for what, and in which mode."""


class Lock:
    """One lock that is held, and those who wait for it.

    Modes are counted, so that neither asking for the lock nor giving it back looks at every holder.

    Attributes:
        holders: the mask of modes of each; changed by :meth:`give` alone.
        held: the mask of the modes that anybody has.
        queue: those who wait, in the order in which they get it.
    """

    __slots__ = ("_counts", "held", "holders", "queue")

    def __init__(self, owner: Owner, mask: int) -> None:
        self.holders = {owner: mask}
        self.held = mask
        self.queue: deque[Queued] | tuple[()] = ()  # a queue of its own once somebody waits
        self._counts: list[int] | None = None  # by mode, once there was a second holder

    def give(self, owner: Owner, mask: int) -> None:
        """Let ``owner`` have the modes of ``mask`` and no others; 0: it holds the lock no more."""
        holders = self.holders
        before = holders.get(owner, 0)
        if mask:
            holders[owner] = mask
        elif before:
            del holders[owner]
        else:
            return
        counts, changed = self._counts, before ^ mask
        if counts is None:
            if len(holders) <= 1:
                self.held = mask
                return
            counts = self._counts = [0] * _MODES
            for one in holders.values():
                for mode in range(_MODES):
                    counts[mode] += one >> mode & 1
            self.held |= mask
            return
        while changed:
            bit = changed & -changed
            changed ^= bit
            mode = bit.bit_length() - 1
            if mask & bit:
                counts[mode] += 1
                self.held |= bit
            else:
                counts[mode] -= 1
                if not counts[mode]:
                    self.held &= ~bit

    def join(self, queued: Queued) -> None:
        """Somebody waits: behind all others, or, who has the lock already in a weaker mode, before them."""
        if isinstance(self.queue, tuple):
            self.queue = deque()
        at = len(self.queue)
        if queued[0] in self.holders:  # behind those of its kind, which are the first
            at = next((at for at, one in enumerate(self.queue) if one[0] not in self.holders), at)
        self.queue.insert(at, queued)

    def leave(self, wait: LockWait) -> None:
        """Who waited so waits no more."""
        self.queue = deque(one for one in self.queue if one[1] is not wait)

    def admits(self, owner: Owner, mode: int) -> bool:
        """Whether no other holder excludes it."""
        against = self.held & CONFLICTS[mode]
        if not against:
            return True
        mine = self.holders.get(owner, 0)
        if against & ~mine:
            return False
        counts = self._counts
        while counts is not None and against:  # it has all of these itself: does another?
            bit = against & -against
            if counts[bit.bit_length() - 1] > 1:
                return False
            against ^= bit
        return True


_BULK = 64
"""From how many keys on a request is kept as a set."""
_FEW, _SET = 4096, 16_384
"""Requests of fewer keys share a set, until that has so many."""

Resource = tuple[int, bytes | None]
"""(database id, key); a key of None is the whole database (a table)."""
_NOTHING: Final[dict[Resource, int]] = {}
_NOBODY: dict[Owner, SpilledKeys] = {}


class LockTable:
    """Every lock of a tablespace.

    Attributes:
        waits, deadlocks: how often a lock had to be waited for, and how often that was ended because it
            would have been for ever.
        beside: another table, in which owners' partners have locks; None: nowhere.
    """

    def __init__(self) -> None:
        self._locks: dict[Resource, Lock] = {}
        self._held: dict[Owner, dict[Resource, int]] = {}  # in the order they were taken
        self._waiting: dict[Owner, tuple[Resource, LockWait]] = {}
        self.beside: LockTable | None = None
        self._looks: _Looks | None = None
        self.waits = self.deadlocks = 0
        self._bulk: dict[int, list[tuple[Owner, set[bytes]]]] = {}
        self._spilled: dict[int, dict[Owner, SpilledKeys]] = {}

    def acquire(self, owner: Owner, database_id: int, key: bytes, mode: int = UPDATE) -> None:
        """Lock one row or index entry (and share its table with other writers)."""
        if not self._locks and owner.instant:
            return
        held = self._held.get(owner, _NOTHING)
        whole, row = (database_id, None), (database_id, key)
        of_table = ROW_EXCLUSIVE if mode > SHARE else ROW_SHARE
        if not held.get(whole, 0) & COVERED_BY[of_table] and not self._granted(owner, whole, of_table):
            self._wait(owner, whole, of_table)
        if (
            not held.get(row, 0) & COVERED_BY[mode]
            and not ((self._bulk or self._spilled) and self._holds_in_bulk(owner, database_id, key, mode))
            and not self._granted(owner, row, mode)
        ):
            self._wait(owner, row, mode)

    def try_acquire(self, owner: Owner, database_id: int, key: bytes, mode: int = UPDATE) -> bool:
        """As :meth:`acquire`, but where the row's lock is not free: False, and nobody waits."""
        if not self._locks and not self._bulk and owner.instant:  # who has locks in a file has its table's
            return True
        self._request(owner, (database_id, None), ROW_EXCLUSIVE if mode > SHARE else ROW_SHARE)
        if (self._bulk or self._spilled) and self._holds_in_bulk(owner, database_id, key, mode):
            return True
        return self._granted(owner, (database_id, key), mode)

    def acquire_many(self, owner: Owner, database_id: int, keys: Collection[bytes]) -> None:
        """Lock many rows of one table, as :meth:`acquire` does for each; all of them or none."""
        if not self._locks and owner.instant:
            return
        self._request(owner, (database_id, None), ROW_EXCLUSIVE)
        if len(keys) < _BULK:
            for key in keys:
                self._request(owner, (database_id, key), UPDATE)
            return
        wanted = set(keys)
        for other, held in self._bulk.get(database_id, ()):
            if other is not owner and not held.isdisjoint(wanted):
                self._request(owner, (database_id, min(held & wanted)), UPDATE)
        for other, spilled in self._spilled.get(database_id, _NOBODY).items():
            if other is not owner and (clash := spilled.first_of(wanted)) is not None:
                self._request(owner, (database_id, clash), UPDATE)
        locks = self._locks
        if len(locks) < len(wanted):
            known = [one for one in locks if one[0] == database_id and one[1] in wanted]
        else:
            known = [one for key in wanted if (one := (database_id, key)) in locks]
        for resource in known:
            self._request(owner, resource, UPDATE)
        if not owner.instant:
            sets = self._bulk.setdefault(database_id, [])
            if len(wanted) < _FEW and sets and sets[-1][0] is owner and len(sets[-1][1]) < _SET:
                sets[-1][1].update(wanted)  # or the sets would be many
            else:
                sets.append((owner, wanted))

    def _holds_in_bulk(self, owner: Owner, database_id: int, key: bytes, mode: int) -> bool:
        """Whether ``owner`` has the key as one of many: until it ends, whoever asks for it meanwhile."""
        if any(holder is owner and key in keys for holder, keys in self._bulk.get(database_id, ())):
            return True
        spilled = self._spilled.get(database_id, _NOBODY).get(owner)
        return spilled is not None and bool(spilled.mask(key) & COVERED_BY[mode])

    def move_some(self, owner: Owner, file: SpillFile, most: int) -> None:
        """Keep the oldest of the owner's locks of keys, about ``most``, in a file from now on.

        SqlError 53100, 53400, 58030; then it still has all of them.
        """
        for database_id, sets in self._bulk.items():
            at = next((at for at, one in enumerate(sets) if one[0] is owner), None)
            if at is None:
                continue
            masks = dict.fromkeys(sets[at][1], 1 << UPDATE)
            if self._spill_keys(owner, database_id, file, masks):
                most -= len(sets.pop(at)[1])
        for database_id in [one for one, sets in self._bulk.items() if not sets]:
            del self._bulk[database_id]
        picked: dict[int, dict[bytes, int]] = {}
        for (database_id, key), mask in islice(self._held.get(owner, _NOTHING).items(), max(most, 0)):
            lock = self._locks[database_id, key]
            if key is not None and database_id > 0 and not lock.queue and len(lock.holders) == 1:
                picked.setdefault(database_id, {})[key] = mask
        for database_id, masks in picked.items():
            if self._spill_keys(owner, database_id, file, masks):
                for key in masks:
                    del self._held[owner][database_id, key], self._locks[database_id, key]

    def _spill_keys(self, owner: Owner, database_id: int, file: SpillFile, masks: dict[bytes, int]) -> bool:
        """Write locks of one database to the file; False when there is no place for them in it."""
        there = self._spilled.setdefault(database_id, {})
        spilled = there.get(owner)
        if spilled is None:
            slot = file.slot()
            if slot is None:
                return False
            spilled = there[owner] = SpilledKeys(file, slot)
        spilled.put(masks)
        return True

    def acquire_table(self, owner: Owner, database_id: int, mode: int = ACCESS_EXCLUSIVE) -> None:
        """Lock a whole table: in the default mode against every other writer."""
        self._request(owner, (database_id, None), mode)

    def try_acquire_table(self, owner: Owner, database_id: int, mode: int = ACCESS_EXCLUSIVE) -> bool:
        """As :meth:`acquire_table`, but where the lock is not free: False, and nobody waits."""
        return self._granted(owner, (database_id, None), mode)

    def take(self, owner: Owner, resource: Resource, mode: int) -> None:
        """Lock one thing that is neither a row nor a table."""
        self._request(owner, resource, mode)

    def try_take(self, owner: Owner, resource: Resource, mode: int) -> bool:
        """As :meth:`take`, but where the lock is not free: False, and nobody waits."""
        return self._granted(owner, resource, mode)

    def release(self, owner: Owner, resource: Resource, left: int) -> None:
        """Give back one lock but for the modes of the mask ``left``; nothing happens where there is none."""
        held = self._held.get(owner, {})
        if resource not in held:
            return
        lock = self._locks[resource]
        lock.give(owner, left)
        if left:
            held[resource] = left
        else:
            del held[resource]
            if not held:
                del self._held[owner]
        self._hand_over(resource, lock)

    def _request(self, owner: Owner, resource: Resource, mode: int) -> None:
        if not self._granted(owner, resource, mode):
            self._wait(owner, resource, mode)

    def _granted(self, owner: Owner, resource: Resource, mode: int) -> bool:
        """Whether the lock is, or now becomes, the owner's; one that is instant takes none."""
        lock = self._locks.get(resource)
        if lock is None and (self._bulk or self._spilled):
            lock = self._out_of_bulk(resource)
        if lock is None:
            if not owner.instant:  # as _take does, without a call
                self._locks[resource] = Lock(owner, 1 << mode)
                self._held.setdefault(owner, {})[resource] = 1 << mode
            return True
        has = lock.holders.get(owner, 0)
        if has & COVERED_BY[mode]:
            return True
        if not lock.admits(owner, mode) or (lock.queue and not has):
            return False
        if not owner.instant:
            self._grant(owner, resource, lock, mode)
        return True

    def _take(self, owner: Owner, resource: Resource, mask: int) -> Lock:
        lock = self._locks[resource] = Lock(owner, mask)
        self._held.setdefault(owner, {})[resource] = mask
        return lock

    def _grant(self, owner: Owner, resource: Resource, lock: Lock, mode: int) -> None:
        mask = lock.holders.get(owner, 0) | 1 << mode
        lock.give(owner, mask)
        self._held.setdefault(owner, {})[resource] = mask

    def _out_of_bulk(self, resource: Resource) -> Lock | None:
        """The lock of a key that somebody holds as one of many."""
        database_id, key = resource
        for holder, keys in self._bulk.get(database_id, ()):
            if key in keys:
                return self._take(holder, resource, 1 << UPDATE)
        if isinstance(key, bytes):
            for holder, spilled in self._spilled.get(database_id, _NOBODY).items():
                if mask := spilled.mask(key):
                    return self._take(holder, resource, mask)
        return None

    def _wait(self, owner: Owner, resource: Resource, mode: int) -> None:
        owner.instant = False  # it will be run again later, in a turn of its own: now it takes locks
        self.waits += 1
        wait = LockWait(self, owner)
        self._locks[resource].join((owner, wait, mode))
        self._waiting[owner] = (resource, wait)
        raise MustWait(wait)

    def count_owners(self) -> int:
        """How many have a lock: open transactions that have changed something, or are about to."""
        return len(self._held)

    def wait_of(self, owner: Owner) -> tuple[Lock, LockWait] | None:
        """The lock that ``owner`` waits for, and its wait; None when it does not wait, or no longer."""
        waiting = self._waiting.get(owner)
        if waiting is None or waiting[1].done():
            return None
        return self._locks[waiting[0]], waiting[1]

    def looks_on(self, loop: asyncio.AbstractEventLoop) -> _Looks:
        """What has waits look that are awaited on ``loop``."""
        looks = self._looks
        if looks is None or looks.loop is not loop:
            looks = self._looks = _Looks(loop)
        return looks

    def end_cycles(self, owner: Owner, wait: LockWait) -> None:
        """End every cycle of waits that ``wait``, the owner's, is part of: the last of each fails."""
        while not wait.done() and (cycle := find_cycle(self, owner)):
            max(cycle, key=_number).close_cycle()

    def locks(self) -> list[tuple[Resource, Lock]]:
        """Every lock that is held or waited for; of many keys that one owner has, none."""
        return list(self._locks.items())

    def waiters(self) -> list[Owner]:
        """The owners that wait."""
        return list(self._waiting)

    def waited_for(self, owner: Owner) -> Resource:
        """What an owner that waits waits for."""
        return self._waiting[owner][0]

    def rows(self) -> Iterator[tuple[Resource, Owner, int | None, int | None]]:
        """Every lock with its holders (None), and with the owners that wait, the mode they wait for, and the
        beginning of the wait (microseconds since 1970 UTC)."""
        for resource, lock in self._locks.items():
            for owner in lock.holders:
                yield resource, owner, None, None
            for owner, wait, mode in lock.queue:
                yield resource, owner, mode, wait.began_us

    def release_all(self, owner: Owner) -> None:
        """Give back every lock of ``owner``: its commit has its place in the log, or it rolled back."""
        if not self._locks and not self._bulk:
            return
        if owner in self._waiting:
            self.forget(owner)
        if self._bulk or self._spilled:
            self._release_bulk(owner)
        for resource in self._held.pop(owner, ()):
            lock = self._locks[resource]
            if lock.queue:
                lock.give(owner, 0)
                self._hand_over(resource, lock)
            elif len(lock.holders) > 1:
                lock.give(owner, 0)
            else:
                del self._locks[resource]

    def _release_bulk(self, owner: Owner) -> None:
        for database_id in [d for d, held in self._bulk.items() if any(o is owner for o, _ in held)]:
            rest = [(o, keys) for o, keys in self._bulk[database_id] if o is not owner]
            self._bulk[database_id] = rest
            if not rest:
                del self._bulk[database_id]
        for database_id in [one for one, there in self._spilled.items() if owner in there]:
            del self._spilled[database_id][owner]
            if not self._spilled[database_id]:
                del self._spilled[database_id]

    def clear(self, error: SqlError) -> None:
        """Every lock is given back, and whoever waits for one gets ``error``."""
        waiting = [wait for _resource, wait in self._waiting.values()]
        for held in (self._locks, self._held, self._waiting, self._bulk, self._spilled):
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
            lock.leave(wait)
            self._hand_over(resource, lock)

    def _hand_over(self, resource: Resource, lock: Lock) -> None:
        """Grant the lock to as many as may have it, in the order of asking."""
        while queue := lock.queue:
            owner, wait, mode = queue[0]
            if not lock.admits(owner, mode):
                return
            queue.popleft()
            del self._waiting[owner]
            wait.resolve(None)
            if wait.is_granted:  # else its owner, which was cancelled or timed out, is about to forget it
                self._grant(owner, resource, lock, mode)
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


def find_cycle(table: LockTable, owner: Owner) -> list[LockWait]:
    """The waits of a cycle through ``owner``, which waits in ``table``; none where there is none.

    Every wait is looked at once, and every holder and place in a queue about once, so it takes time in
    proportion to those that ``owner`` waits for.
    """
    tables = (table,) if table.beside is None else (table, table.beside)
    mine = _both(owner)
    paths: dict[Owner, tuple[Owner, LockWait]] = {}  # whom somebody waits for: who does, and by which wait
    seen: dict[Lock, _SeenOfLock] = {}
    frontier = [owner]
    while frontier:
        behind = frontier.pop()
        for face in _both(behind):
            for one in tables:
                found = one.wait_of(face)
                if found is None:
                    continue
                lock, wait = found
                if lock not in seen:
                    seen[lock] = _SeenOfLock(lock)
                for ahead, waiter, its_wait in seen[lock].ahead_of(face, wait, mine):
                    if waiter is not face:
                        paths.setdefault(waiter, (behind, wait))
                    last = behind if waiter is face else waiter
                    if ahead in mine:
                        return _path(paths, last, its_wait, mine)
                    if ahead not in paths:
                        paths[ahead] = last, its_wait
                        frontier.append(ahead)
    return []


def _path(
    paths: dict[Owner, tuple[Owner, LockWait]], last: Owner, wait: LockWait, mine: tuple[Owner, ...]
) -> list[LockWait]:
    """The waits from ``mine`` to ``wait``, which is that of ``last``."""
    waits = [wait]
    while last not in mine:
        last, wait = paths[last]
        waits.append(wait)
    return waits


class _SeenOfLock:
    """What one search has seen of a lock: its queue up to a place, and holders by what they exclude.

    Who is in the queue waits for nothing else. So of those ahead of somebody only the holders are given that
    keep them, or itself, waiting.
    """

    def __init__(self, lock: Lock) -> None:
        self._holders = lock.holders
        self._queue = list(lock.queue)
        self._places = {queued[0]: at for at, queued in enumerate(self._queue)}
        self._seen = 0
        self._excluded = 0

    def ahead_of(
        self, owner: Owner, wait: LockWait, mine: tuple[Owner, ...]
    ) -> list[tuple[Owner, Owner, LockWait]]:
        """For whom ``owner`` waits here: holders, and any of ``mine`` that is queued before it.

        Each with who waits for it, ``owner`` itself or one queued before it, and by which wait. What was seen
        before is left out.
        """
        at = self._places[owner]
        for one in mine:
            if self._places.get(one, at) < at:
                return [(one, owner, wait)]
        ahead: list[tuple[Owner, Owner, LockWait]] = []
        for waiter, its_wait, mode in self._queue[self._seen : at + 1]:
            if its_wait.done():
                continue  # it has failed, and its owner is about to forget it
            fresh = CONFLICTS[mode] & ~self._excluded
            if fresh:
                self._excluded |= fresh
                ahead += [
                    (one, waiter, its_wait)
                    for one, mask in self._holders.items()
                    if mask & fresh and one is not waiter
                ]
        self._seen = max(self._seen, at + 1)
        return ahead


def _number(wait: LockWait) -> int:
    return wait.number


def _both(owner: Owner) -> tuple[Owner, ...]:
    partner = owner.partner
    return (owner,) if partner is None else (owner, partner)


async def _just(wait: Wait[None]) -> None:
    await wait


class LoadTurns:
    """The ids that somebody is busy with. In the engine's turn.

    Attributes:
        ledgers: those with rows that are being published now.
    """

    def __init__(self) -> None:
        self.ledgers: set[int] = set()
        self._busy: dict[str, deque[Wait[None]]] = {}

    def turn(
        self, load_id: str, waiting: Callable[[Wait[None]], Awaitable[None]] = _just
    ) -> AbstractAsyncContextManager[None]:
        """Within the block nobody else is busy with the id.

        Args:
            waiting: awaits; what it raises ends the waiting.
        """
        return _LoadTurn(self, load_id, waiting)

    async def begin(self, load_id: str, waiting: Callable[[Wait[None]], Awaitable[None]]) -> None:
        """Wait until nobody else is busy with the id; then :meth:`end` is owed."""
        queue = self._busy.get(load_id)
        if queue is None:
            self._busy[load_id] = deque()
            return
        wait: Wait[None] = Wait()
        queue.append(wait)
        try:
            await waiting(wait)
        except BaseException:
            if wait in queue:
                queue.remove(wait)
            else:
                self.end(load_id)  # it was granted already
            raise

    def end(self, load_id: str) -> None:
        """Let the next one have its turn."""
        queue = self._busy[load_id]
        if queue:
            queue.popleft().resolve(None)
        else:
            del self._busy[load_id]


class _LoadTurn:
    """See :meth:`LoadTurns.turn`."""

    def __init__(
        self, turns: LoadTurns, load_id: str, waiting: Callable[[Wait[None]], Awaitable[None]]
    ) -> None:
        self._turns, self._load_id, self._waiting = turns, load_id, waiting

    async def __aenter__(self) -> None:
        await self._turns.begin(self._load_id, self._waiting)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turns.end(self._load_id)

"""The lock table does what a plain model of it does, whatever both are asked, and ends every cycle of waits.

The model looks at every holder and at everybody who waits, each time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from herdpy_server.tablespace.locks import LockTable, LockWait, Resource
from herdpy_sql.errors import SqlError
from herdpy_sql.lock_modes import (
    ACCESS_EXCLUSIVE,
    ACCESS_SHARE,
    CONFLICTS,
    COVERED_BY,
    KEY_SHARE,
    NO_KEY_UPDATE,
    ROW_EXCLUSIVE,
    ROW_SHARE,
    SHARE,
    UPDATE,
)
from herdpy_sql.storage import MustWait

RESOURCES: tuple[Resource, ...] = ((1, b"x"), (1, b"y"), (1, None), (2, b"x"))
WORD = SqlError("57014", "canceling statement due to user request")


class Owner:
    partner = None

    def __init__(self, number: int) -> None:
        self.number = number
        self.instant = False


class Model:
    """Who holds and who waits, by resource; a wait is an owner's number with its mode."""

    def __init__(self) -> None:
        self.holders: dict[Resource, dict[int, int]] = {}
        self.queues: dict[Resource, list[tuple[int, int]]] = {}

    def request(self, owner: int, resource: Resource, mode: int, *, waits: bool) -> bool:
        """Whether it is granted; else it waits, if it does."""
        holders = self.holders.setdefault(resource, {})
        queue = self.queues.setdefault(resource, [])
        mine = holders.get(owner, 0)
        if mine & COVERED_BY[mode]:
            return True
        if self._admits(resource, owner, mode) and (mine or not queue):
            holders[owner] = mine | 1 << mode
            return True
        if waits:
            ahead = [one for one, _ in queue if one in holders] if mine else queue
            queue.insert(len(ahead), (owner, mode))
        return False

    def _admits(self, resource: Resource, owner: int, mode: int) -> bool:
        holders = self.holders[resource].items()
        return all(one == owner or not mask & CONFLICTS[mode] for one, mask in holders)

    def forget(self, owner: int) -> None:
        for queue in self.queues.values():
            queue[:] = [one for one in queue if one[0] != owner]
        self._hand_over()

    def give_back(self, owner: int, resource: Resource, left: int) -> None:
        self.holders[resource][owner] &= left
        if not self.holders[resource][owner]:
            del self.holders[resource][owner]
        self._hand_over()

    def end(self, owner: int) -> None:
        for holders in self.holders.values():
            holders.pop(owner, None)
        self.forget(owner)

    def _hand_over(self) -> None:
        for resource, queue in self.queues.items():
            while queue and self._admits(resource, *queue[0]):
                owner, mode = queue.pop(0)
                holders = self.holders[resource]
                holders[owner] = holders.get(owner, 0) | 1 << mode

    def waits_for(self, owner: int) -> set[int]:
        """Whom it waits for now."""
        found: set[int] = set()
        for resource, queue in self.queues.items():
            at = next((at for at, one in enumerate(queue) if one[0] == owner), None)
            if at is not None:
                found |= {one for one, _ in queue[:at]}
                excluded = CONFLICTS[queue[at][1]]
                found |= {one for one, mask in self.holders[resource].items() if mask & excluded}
        return found - {owner}

    def in_cycles(self) -> set[int]:
        """Who waits, directly or not, for itself."""
        found = set()
        for owner in {one for queue in self.queues.values() for one, _ in queue}:
            seen: set[int] = set()
            frontier = self.waits_for(owner)
            while frontier - seen:
                seen |= frontier
                frontier = {one for ahead in frontier for one in self.waits_for(ahead)}
            if owner in seen:
                found.add(owner)
        return found


class Both:
    """The table and the model, asked the same."""

    def __init__(self, owners: int) -> None:
        self.table, self.model = LockTable(), Model()
        self.owners = [Owner(number) for number in range(owners)]
        self.waits: dict[int, LockWait] = {}

    def ask(self, owner: int, resource: Resource, mode: int, how: str) -> None:
        """One statement locks: it waits, or says NOWAIT or SKIP LOCKED, which ask alike."""
        if owner in self.waits:
            return
        database_id, key = resource
        of_table = ROW_EXCLUSIVE if mode > SHARE else ROW_SHARE
        steps = [(resource, mode)] if key is None else [((database_id, None), of_table), (resource, mode)]
        waits = [how == "waits" or (key is not None and step[0][1] is None) for step in steps]
        granted = all(
            self.model.request(owner, *step, waits=may_wait)
            for step, may_wait in zip(steps, waits, strict=True)
        )
        try:
            assert self._of_table(owner, resource, mode, how) is granted
            return
        except MustWait as conflict:
            wait = conflict.wait
        assert not granted
        assert isinstance(wait, LockWait)
        self.waits[owner] = wait

    def _of_table(self, owner: int, resource: Resource, mode: int, how: str) -> bool:
        table, who, (database_id, key) = self.table, self.owners[owner], resource
        if how == "tries":
            if key is None:
                return table.try_acquire_table(who, database_id, mode)
            return table.try_acquire(who, database_id, key, mode)
        if key is None:
            table.acquire_table(who, database_id, mode)
        else:
            table.acquire(who, database_id, key, mode)
        return True

    def give_back(self, owner: int, resource: Resource, left: int) -> None:
        """As advisory locks are given back, one by one."""
        if owner in self.waits or not self.model.holders.get(resource, {}).get(owner):
            return
        mask = self.model.holders[resource][owner] & left
        self.model.give_back(owner, resource, mask)
        self.table.release(self.owners[owner], resource, mask)

    def end(self, owner: int) -> None:
        """Its transaction commits, or rolls back while it waits."""
        self.waits.pop(owner, None)
        self.model.end(owner)
        self.table.release_all(self.owners[owner])

    def give_up(self, owner: int, *, times_out: bool, forgets: bool) -> None:
        """A wait is cancelled, or its time is up; whoever waited may come to know it only when it ends."""
        wait = self.waits.get(owner)
        if wait is None:
            return
        if times_out:
            wait.expire()
        else:
            wait.fail(WORD)
        if forgets:
            del self.waits[owner]
            self.model.forget(owner)
            self.table.forget(self.owners[owner])
        else:
            self.end(owner)

    def holds(self, owner: int) -> bool:
        """Whether anything is the owner's."""
        return any(owner in holders for holders in self.model.holders.values())

    def look(self, owner: int) -> None:
        """It has waited for long. Whoever closed a cycle through it rolls back."""
        wait = self.waits.get(owner)
        if wait is None:
            return
        cyclic = self.model.in_cycles()
        wait.look()
        ended = [one for one, other in self.waits.items() if other.done()]
        assert (ended != []) is (owner in cyclic)
        for one in ended:
            assert one in cyclic
            self.end(one)
        assert owner not in self.model.in_cycles()

    def check(self) -> None:
        """Both have granted the same, in the same order."""
        model, table = self.model, self.table
        waiting = {owner for queue in model.queues.values() for owner, _ in queue}
        assert {owner for owner, wait in self.waits.items() if not wait.done()} == waiting
        for owner in [one for one in self.waits if one not in waiting]:
            self.waits.pop(owner).result()
        held = {one: holders for one, holders in model.holders.items() if holders}
        queued = {one: [owner for owner, _ in queue] for one, queue in model.queues.items() if queue}
        rows = list(_rows(table))
        assert len(table) == len(held)
        assert {(one, owner) for one, owner, mode in rows if mode is None} == {
            (one, owner) for one, holders in held.items() for owner in holders
        }
        assert {
            one: [owner for at, owner, mode in rows if at == one and mode is not None] for one in queued
        } == (queued)


def _rows(table: LockTable) -> Iterator[tuple[Resource, int, int | None]]:
    for resource, owner, mode, _began in table.rows():
        assert isinstance(owner, Owner)
        yield resource, owner.number, mode


OWNERS = 6
STEPS = 120
SEEDS = range(400)


def take_step(both: Both, rng: random.Random, resources: Sequence[Resource], modes: Sequence[int]) -> None:
    """One of the things that can happen. Seeds differ in how much they lock, and how strongly."""
    owner, choice = rng.randrange(OWNERS), rng.random()
    if choice < 0.7:
        resource = rng.choice(resources)
        mode = rng.choice(modes) if resource[1] is not None else rng.randint(ACCESS_SHARE, ACCESS_EXCLUSIVE)
        both.ask(owner, resource, mode, "tries" if rng.random() < 0.2 else "waits")
    elif choice < 0.78:
        both.give_back(owner, rng.choice(resources), rng.choice((0, 1 << KEY_SHARE, 1 << SHARE, 1 << UPDATE)))
    elif choice < 0.86:
        both.give_up(owner, times_out=rng.random() < 0.5, forgets=rng.random() < 0.5)
    elif choice < 0.93:
        both.look(owner)
    else:
        both.end(owner)


def played(seed: int) -> Both:
    rng = random.Random(seed)
    both = Both(OWNERS)
    resources = rng.sample(RESOURCES, rng.randint(1, len(RESOURCES)))
    modes = rng.sample((KEY_SHARE, SHARE, NO_KEY_UPDATE, UPDATE), rng.randint(1, 4))
    for _ in range(STEPS):
        take_step(both, rng, resources, modes)
        both.check()
    return both


def test_the_table_does_what_the_model_does() -> None:
    for seed in SEEDS:
        try:
            both = played(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        for owner in range(OWNERS):
            both.end(owner)
        assert len(both.table) == 0


def test_nobody_waits_for_ever() -> None:
    """Once everybody who waits has looked, those who do not wait can end, and then all others."""
    waited = 0
    for seed in SEEDS:
        both = played(seed)
        for owner in range(OWNERS):
            both.look(owner)
            both.check()
        assert not both.model.in_cycles()
        waited += len(both.waits)
        while both.waits:
            ready = [owner for owner in range(OWNERS) if owner not in both.waits and both.holds(owner)]
            assert ready, f"seed {seed}: all wait"
            both.end(ready[0])
            both.check()
    assert waited > len(SEEDS)

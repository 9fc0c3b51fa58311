"""Row locks: who gets them, in which order, and which wait ends with a deadlock."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from herdpy.testing.model.loop import VirtualLoop
from herdpy_server.tablespace.locks import Lock, LockTable, LockWait
from herdpy_sql.errors import SqlError
from herdpy_sql.lock_modes import KEY_SHARE, NO_KEY_UPDATE, SHARE, UPDATE
from herdpy_sql.storage import MustWait


class Owner:
    def __init__(self, name: str, *, instant: bool = False) -> None:
        self.name = name
        self.partner: Owner | None = None
        self.instant = instant


def blocked(table: LockTable, owner: Owner, key: bytes, database_id: int = 1, mode: int = UPDATE) -> LockWait:
    with pytest.raises(MustWait) as caught:
        table.acquire(owner, database_id, key, mode)
    assert isinstance(caught.value.wait, LockWait)
    return caught.value.wait


def blocked_of_table(table: LockTable, owner: Owner) -> LockWait:
    with pytest.raises(MustWait) as caught:
        table.acquire_table(owner, 1)
    assert isinstance(caught.value.wait, LockWait)
    return caught.value.wait


def closed_a_cycle(wait: LockWait) -> bool:
    """Whether the wait ended with 40P01; else it goes on."""
    if not wait.done():
        return False
    with pytest.raises(SqlError) as caught:
        wait.result()
    assert caught.value.retryable
    return caught.value.sqlstate == "40P01"


@pytest.fixture
def table() -> LockTable:
    return LockTable()


def test_who_has_no_lock_gives_none_back() -> None:
    lock = Lock(Owner("a"), 1 << UPDATE)
    lock.give(Owner("b"), 0)
    assert lock.held == 1 << UPDATE


def test_a_lock_is_its_owners_until_it_is_released(table: LockTable) -> None:
    a, b = Owner("a"), Owner("b")
    table.acquire(a, 1, b"x")
    table.acquire(a, 1, b"x")
    table.acquire(b, 1, b"y")
    wait = blocked(table, b, b"x")
    assert not wait.done()
    table.release_all(a)
    assert wait.done()
    table.acquire(b, 1, b"x")
    table.release_all(b)
    assert len(table) == 0


def test_owners_are_counted_while_they_have_a_lock(table: LockTable) -> None:
    a, b, c = Owner("a"), Owner("b"), Owner("c", instant=True)
    table.acquire(a, 1, b"x")
    table.acquire(a, 1, b"y")
    table.acquire(c, 1, b"z")
    assert table.count_owners() == 1
    blocked(table, b, b"x")
    assert table.count_owners() == 2  # it has a share of the table
    table.release_all(a)
    assert table.count_owners() == 1
    table.release_all(b)
    assert table.count_owners() == 0


def test_locks_are_granted_in_the_order_of_asking(table: LockTable) -> None:
    a, b, c = Owner("a"), Owner("b"), Owner("c")
    table.acquire(a, 1, b"x")
    first, second = blocked(table, b, b"x"), blocked(table, c, b"x")
    table.release_all(a)
    assert (first.done(), second.done()) == (True, False)
    table.release_all(b)
    assert second.done()


def test_an_instant_owner_takes_no_lock_until_it_has_to_wait(table: LockTable) -> None:
    a, instant = Owner("a"), Owner("instant", instant=True)
    table.acquire(instant, 1, b"x")
    assert len(table) == 0
    table.acquire(a, 1, b"x")
    wait = blocked(table, instant, b"x")
    assert not instant.instant
    table.release_all(a)
    assert wait.done()
    assert table.held_by(instant) == 1
    blocked(table, a, b"x")


@pytest.mark.parametrize("who_looks", range(3))
def test_the_wait_that_closed_a_cycle_ends_whoever_looks(table: LockTable, who_looks: int) -> None:
    a, b, c = Owner("a"), Owner("b"), Owner("c")
    for owner, key in ((a, b"1"), (b, b"2"), (c, b"3")):
        table.acquire(owner, 1, key)
    waits = [blocked(table, a, b"2"), blocked(table, b, b"3")]
    for wait in waits:
        wait.look()
    waits.append(blocked(table, c, b"1"))
    waits[who_looks].look()
    assert [closed_a_cycle(wait) for wait in waits] == [False, False, True]
    assert table.deadlocks == 1
    table.release_all(c)
    table.acquire(b, 1, b"3")


def test_every_cycle_through_a_wait_is_ended(table: LockTable) -> None:
    """A waits for two who share a row, and both wait for A."""
    a, b, c = Owner("a"), Owner("b"), Owner("c")
    table.acquire(a, 1, b"x")
    table.acquire(b, 1, b"y", SHARE)
    table.acquire(c, 1, b"y", SHARE)
    waits = [blocked(table, a, b"y"), blocked(table, b, b"x"), blocked(table, c, b"x")]
    waits[0].look()
    assert [closed_a_cycle(wait) for wait in waits] == [False, True, True]


def test_a_wait_that_is_given_up_is_not_granted(table: LockTable) -> None:
    """Its owner has not yet come to forget it when the lock is given back."""
    a, b, c = Owner("a"), Owner("b"), Owner("c")
    table.acquire(a, 1, b"x")
    given_up, behind = blocked(table, b, b"x"), blocked(table, c, b"x")
    given_up.expire()
    table.release_all(a)
    assert behind.done()
    assert table.held_by(b) == 1  # its table
    table.forget(b)
    blocked(table, b, b"x")


def test_waiting_behind_somebody_queued_counts_as_an_edge(table: LockTable) -> None:
    reader, ddl, writer = Owner("reader"), Owner("ddl"), Owner("writer")
    table.acquire(reader, 1, b"x")
    table.acquire(writer, 1, b"y")
    with pytest.raises(MustWait):
        table.acquire_table(ddl, 1)
    newcomer = Owner("newcomer")
    wait = blocked(table, newcomer, b"z")
    table.release_all(reader)
    assert not wait.done()
    table.release_all(writer)
    assert not wait.done()
    table.release_all(ddl)
    assert wait.done()


def test_two_writers_that_both_want_the_whole_table_deadlock(table: LockTable) -> None:
    a, b = Owner("a"), Owner("b")
    table.acquire(a, 1, b"x")
    table.acquire(b, 1, b"y")
    blocked_of_table(table, a)
    wait = blocked_of_table(table, b)
    wait.look()
    assert closed_a_cycle(wait)


def test_writers_share_a_table_and_a_definition_excludes_them(table: LockTable) -> None:
    ddl, writer = Owner("ddl"), Owner("writer")
    table.acquire_table(ddl, 1)
    blocked(table, writer, b"x")
    table.acquire(writer, 2, b"x")
    table.release_all(ddl)
    table.acquire(writer, 1, b"x")


def test_a_lock_timeout_fails_the_wait_and_forgetting_lets_the_next_in(table: LockTable) -> None:
    a, b, c = Owner("a"), Owner("b"), Owner("c")
    table.acquire(a, 1, b"x")
    wait = blocked(table, b, b"x")
    wait.timeout_s, wait.deadlock_timeout_s = 0.001, None
    behind = blocked(table, c, b"x")
    assert wait.block()
    with pytest.raises(SqlError) as caught:
        wait.result()
    assert caught.value.sqlstate == "55P03"
    table.forget(b)
    table.release_all(a)
    assert behind.done()


def test_a_thread_is_woken_to_look_and_its_time_out_goes_on(table: LockTable) -> None:
    a, b = Owner("a"), Owner("b")
    table.acquire(a, 1, b"x")
    wait = blocked(table, b, b"x")
    wait.timeout_s, wait.deadlock_timeout_s = 0.02, 0.01
    assert wait.block()
    assert not wait.done()
    wait.look()
    assert wait.block()
    with pytest.raises(SqlError, match="lock timeout"):
        wait.result()


def test_time_of_a_loop_is_kept_to_the_moment(table: LockTable) -> None:
    """A look where no deadlock is changes nothing; the last wait of one ends when its time comes."""
    a, b, c = Owner("a"), Owner("b"), Owner("c")
    table.acquire(a, 1, b"x")
    table.acquire(b, 1, b"y")
    table.acquire(c, 1, b"z")
    ended: list[tuple[str, str, float]] = []

    async def end_of(owner: Owner, wait: LockWait, timeout_s: float | None = None) -> None:
        wait.timeout_s = timeout_s
        try:
            await wait
        except SqlError as error:
            ended.append((owner.name, error.sqlstate, round(loop.time(), 6)))
            table.release_all(owner)

    async def program() -> None:
        first = asyncio.create_task(end_of(b, blocked(table, b, b"x")))
        late = asyncio.create_task(end_of(c, blocked(table, c, b"x"), 0.3))
        await asyncio.sleep(1)
        table.release_all(c)
        closing = asyncio.create_task(end_of(a, blocked(table, a, b"y")))
        await asyncio.gather(first, late, closing)

    loop = VirtualLoop(1)
    loop.run(program())
    assert ended == [("c", "55P03", 0.3), ("a", "40P01", 1.05)]


def test_each_wait_looks_when_its_own_time_has_come(table: LockTable) -> None:
    """Five pairs of transactions, each in a deadlock that is found by the later wait; one is over before."""
    ended: dict[float, float] = {}

    async def end_of(owner: Owner, seconds: float, wait: LockWait) -> None:
        wait.deadlock_timeout_s = seconds
        with suppress(SqlError):
            await wait
            return
        ended[seconds] = round(loop.time(), 6)
        table.release_all(owner)

    async def program() -> None:
        tasks = []
        for number, seconds in enumerate((3600.0, 0.06, 0.2, 0.05, 0.01)):
            a, b = Owner("a"), Owner("b")
            table.acquire(a, 1, b"%d" % number)
            table.acquire(b, 2, b"%d" % number)
            waits = blocked(table, a, b"%d" % number, 2), blocked(table, b, b"%d" % number)
            tasks.append(asyncio.create_task(end_of(a, 9999.0, waits[0])))
            tasks.append(asyncio.create_task(end_of(b, seconds, waits[1])))
            await asyncio.sleep(0.001)
            if seconds == 0.2:
                for wait in waits:
                    wait.resolve(None)
        await asyncio.gather(*tasks)

    loop = VirtualLoop(1)
    loop.run(program())
    assert ended == {0.01: 0.014, 0.05: 0.053, 0.06: 0.061, 3600.0: 3600.0}


def test_waits_that_are_over_are_not_kept_until_they_would_look(table: LockTable) -> None:
    async def program() -> None:
        looks = table.looks_on(asyncio.get_running_loop())
        most = 0
        for _ in range(5000):
            wait = LockWait(table, Owner("waiter"))
            looks.add(wait, 3600)
            wait.resolve(None)
            most = max(most, len(looks))
        assert most <= 1024
        last = LockWait(table, Owner("waiter"))
        looks.add(last, 1)
        await asyncio.sleep(2)
        assert len(looks) == 0

    VirtualLoop(1).run(program())


def test_a_single_sharer_may_take_the_whole_table(table: LockTable) -> None:
    a, b = Owner("a"), Owner("b")
    table.acquire(a, 1, b"x")
    table.acquire_table(a, 1)
    blocked(table, b, b"y")


def test_many_keys_are_locked_as_one_by_one(table: LockTable) -> None:
    a, b, instant = Owner("a"), Owner("b"), Owner("i", instant=True)
    table.acquire_many(a, 1, [b"x", b"y"])
    blocked(table, b, b"y")
    with pytest.raises(MustWait):
        table.acquire_many(instant, 1, [b"w", b"x"])


def test_a_bulk_load_holds_every_one_of_its_keys(table: LockTable) -> None:
    a, b, instant = Owner("a"), Owner("b"), Owner("i", instant=True)
    keys = [b"%d" % i for i in range(1000)]
    table.acquire_many(a, 1, keys)
    wait = blocked(table, b, b"500")
    blocked(table, instant, b"501")
    table.acquire(a, 1, b"500")
    with pytest.raises(MustWait):
        table.acquire_many(Owner("c"), 1, [b"x%d" % i for i in range(100)] + [b"7"])
    table.release_all(a)
    assert wait.done()
    table.acquire_many(Owner("d"), 1, [b"y%d" % i for i in range(100)])


def test_a_bulk_load_waits_for_single_locks(table: LockTable) -> None:
    a, b = Owner("a"), Owner("b")
    table.acquire(a, 1, b"7")
    with pytest.raises(MustWait):
        table.acquire_many(b, 1, [b"%d" % i for i in range(100)])
    table.release_all(a)
    table.acquire_many(b, 1, [b"%d" % i for i in range(100)])
    blocked(table, a, b"99")


def test_keys_that_are_locked_by_and_by_are_one_set(table: LockTable) -> None:
    a, b = Owner("a"), Owner("b")
    for start in range(0, 6400, 64):
        table.acquire_many(a, 1, [b"%d" % i for i in range(start, start + 64)])
    table.acquire(a, 1, b"5000")
    assert len(table) == 1  # that of the table
    assert len(table._bulk[1]) == 1
    wait = blocked(table, b, b"5000")
    assert blocked(table, Owner("c"), b"0")
    table.release_all(a)
    assert wait.done()
    assert table.held_by(b) == 2
    table.acquire(Owner("d"), 1, b"1")


def test_keys_of_two_tables_and_owners_stay_apart(table: LockTable) -> None:
    a, b = Owner("a"), Owner("b")
    keys = [b"%d" % i for i in range(100)]
    table.acquire_many(a, 1, keys)
    table.acquire_many(b, 2, keys)
    table.acquire_many(b, 1, [b"x" + key for key in keys])
    blocked(table, Owner("d"), b"7", database_id=2)
    blocked(table, b, b"7")
    table.acquire_many(a, 1, keys)
    with pytest.raises(MustWait):
        table.acquire_many(Owner("c"), 1, [b"x7", *(b"y" + key for key in keys)])


def test_modes_of_rows_exclude_one_another_as_postgresqls_do() -> None:
    modes = (KEY_SHARE, SHARE, NO_KEY_UPDATE, UPDATE)
    excluded = {(held, asked) for held in modes for asked in modes if not _admits(held, asked)}
    assert excluded == {
        (UPDATE, KEY_SHARE),
        (NO_KEY_UPDATE, SHARE),
        (UPDATE, SHARE),
        (SHARE, NO_KEY_UPDATE),
        (NO_KEY_UPDATE, NO_KEY_UPDATE),
        (UPDATE, NO_KEY_UPDATE),
        *((held, UPDATE) for held in modes),
    }


def _admits(held: int, asked: int) -> bool:
    table, other, instant = LockTable(), Owner("b"), Owner("i", instant=True)
    table.acquire(Owner("a"), 1, b"x", held)
    admits = table.try_acquire(other, 1, b"x", asked)
    if admits:
        table.release_all(other)
        table.acquire(instant, 1, b"x", asked)
    else:
        with pytest.raises(MustWait):
            table.acquire(instant, 1, b"x", asked)
    return admits


def test_those_who_share_a_row_are_all_waited_for(table: LockTable) -> None:
    a, b, c = Owner("a"), Owner("b"), Owner("c")
    table.acquire(a, 1, b"x", KEY_SHARE)
    table.acquire(b, 1, b"x", SHARE)
    wait = blocked(table, c, b"x")
    table.release_all(a)
    assert not wait.done()
    table.release_all(b)
    assert wait.done()


def test_who_has_a_lock_gets_a_stronger_one_before_those_who_wait(table: LockTable) -> None:
    a, b, c = Owner("a"), Owner("b"), Owner("c")
    table.acquire(a, 1, b"x", KEY_SHARE)
    table.acquire(b, 1, b"x", KEY_SHARE)
    behind = blocked(table, c, b"x")
    upgrade = blocked(table, a, b"x")
    table.release_all(b)
    assert (upgrade.done(), behind.done()) == (True, False)
    table.release_all(a)
    assert behind.done()


def test_two_sharers_that_both_want_to_write_deadlock(table: LockTable) -> None:
    a, b = Owner("a"), Owner("b")
    table.acquire(a, 1, b"x", KEY_SHARE)
    table.acquire(b, 1, b"x", KEY_SHARE)
    upgrade = blocked(table, a, b"x")
    wait = blocked(table, b, b"x")
    upgrade.look()
    assert closed_a_cycle(wait)
    table.release_all(b)
    assert upgrade.done()


def test_a_sharer_that_does_not_exclude_is_not_waited_for(table: LockTable) -> None:
    """A holds what B does not mind, and waits for B: no deadlock when B waits for C alone."""
    a, b, c = Owner("a"), Owner("b"), Owner("c")
    table.acquire(a, 1, b"x", KEY_SHARE)
    table.acquire(c, 1, b"x", NO_KEY_UPDATE)
    table.acquire(b, 1, b"y")
    waits = [blocked(table, a, b"y"), blocked(table, b, b"x", mode=NO_KEY_UPDATE)]
    for wait in waits:
        wait.look()
    assert not any(wait.done() for wait in waits)
    table.release_all(c)
    table.acquire(b, 1, b"x", NO_KEY_UPDATE)


def test_an_upgrade_past_a_queue_finds_the_cycle_that_it_closes(table: LockTable) -> None:
    a, b, c = Owner("a"), Owner("b"), Owner("c")
    table.acquire(a, 1, b"x", SHARE)
    table.acquire(b, 1, b"x", KEY_SHARE)
    table.acquire(c, 1, b"y")
    with pytest.raises(MustWait):
        table.acquire(c, 1, b"x", NO_KEY_UPDATE)  # for a alone
    blocked(table, b, b"y")  # b waits for c
    wait = blocked(table, a, b"x")  # a waits for b, b for c, c for a
    wait.look()
    assert closed_a_cycle(wait)


def test_a_lock_that_is_not_free_can_be_passed_over(table: LockTable) -> None:
    a, b = Owner("a"), Owner("b")
    table.acquire(a, 1, b"x")
    assert not table.try_acquire(b, 1, b"x", KEY_SHARE)
    assert table.try_acquire(b, 1, b"y")
    assert not table.try_acquire_table(b, 1)
    table.acquire_many(a, 2, [b"%d" % i for i in range(1000)])
    assert not table.try_acquire(b, 2, b"7")
    table.release_all(a)
    assert table.try_acquire(b, 1, b"x")
    assert (table.waits, table.waiting) == (0, 0)


def test_a_cycle_through_two_tables_is_found(table: LockTable) -> None:
    """Sessions with locks in both tables: whoever waits for one owner of a session waits for its partner."""
    other = table.beside = LockTable()
    other.beside = table
    (a, a_too), (b, b_too) = [(Owner(name), Owner(f"{name} too")) for name in "ab"]
    table.acquire(a, 1, b"x")
    other.acquire(b_too, 1, b"y")
    blocked(other, a_too, b"y")
    wait = blocked(table, b, b"x")  # nobody knows that they belong together: no cycle
    wait.look()
    assert not wait.done()
    table.forget(b)
    for one, partner in ((a, a_too), (b, b_too)):
        one.partner, partner.partner = partner, one
    wait = blocked(table, b, b"x")
    wait.look()
    assert closed_a_cycle(wait)
    table.forget(b)
    wait = blocked(table, c := Owner("c"), b"x")
    wait.look()
    assert not wait.done()  # who holds nothing may wait
    assert table.waiting == 1
    table.forget(c)
    other.forget(a_too)
    wait = blocked(table, b, b"x")
    last = blocked(other, a_too, b"y")
    wait.look()
    assert closed_a_cycle(last)
    assert (table.deadlocks, other.deadlocks) == (1, 1)

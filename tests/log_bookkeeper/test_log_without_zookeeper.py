"""A leader's log while ZooKeeper is silent: entries prove that it is its own, and confirm reads."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.bookkeeper.errors import ZooKeeperUnavailableError
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.log import START, LogError
from herdpy.log.bookkeeper.own_ledgers import OwnLedgers
from herdpy.log.bookkeeper.sender import Sender
from herdpy.log.bookkeeper.succession import Succession
from herdpy.log.errors import LogClosedError
from herdpy.log.wait import Wait
from tests.log_bookkeeper.kit import Place, numbers, transaction

OWNERSHIP_S = 6.0


@pytest.mark.parametrize("idle", [True, False])
def test_the_log_is_kept_for_as_long_as_zookeeper_is_silent(idle: bool) -> None:
    place = Place(ownership_s=OWNERSHIP_S)

    async def program() -> None:
        a, b = await place.node("a"), await place.node("b")
        log = await a.lead(1)
        place.cluster.network.partition("a", "zookeeper")
        written = 0
        for _ in range(60):
            await asyncio.sleep(OWNERSHIP_S / 3)
            if not idle:
                written += 1
                await log.append(transaction(written))
        await log.append(transaction(written + 1))
        place.cluster.network.heal("a", "zookeeper")
        await log.aroll()  # the list is written, too
        assert await numbers(log.read(START), START) == list(range(1, written + 2))
        other = await b.lead(2)
        assert await numbers(other.read(START), START) == list(range(1, written + 2))

    place.run(program)


async def _asleep(_self: Succession) -> None:
    await asyncio.Event().wait()


def _sleeps_through_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A leader sleeps until its ledger is fenced, trimmed and deleted; what it acknowledges then."""
    monkeypatch.setattr(Succession, "_keep", _asleep)
    acknowledged: list[str] = []

    async def program() -> None:
        a, b = await place.node("a"), await place.node("b")
        clock_s = [0.0]
        log = await (await a.take_over(1)).lead(clock=lambda: clock_s[0])
        a.logs.append(log)
        await log.append(transaction(1))
        place.cluster.network.partition("a", "zookeeper")
        other = await b.lead(2)
        last = await other.append(transaction(2))
        await other.aroll()
        await other.atrim(last)
        await asyncio.sleep(4 * OWNERSHIP_S)
        clock_s[0] += 4 * OWNERSHIP_S
        await other._ledgers.sweep_unlisted()
        kept = set(await b.bk.list_ledgers())
        for node in place.cluster.bookies.values():
            ledgers = node.bookie.storage.ledgers
            for ledger_id in set(ledgers) - kept:  # the garbage is collected, and the fence with it
                del ledgers[ledger_id]
        late = [log.append(transaction(3)), log.confirm()]
        await asyncio.sleep(2)
        for one in late:
            if not one.done():
                continue
            try:
                one.result()
                acknowledged.append(repr(one))
            except LogError:
                pass
        place.cluster.network.heal("a", "zookeeper")

    place.run(program)
    return acknowledged


def test_a_leader_that_slept_through_its_ledgers_deletion_acknowledges_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _sleeps_through_it(Place(ownership_s=OWNERSHIP_S), monkeypatch) == []


def test_ownership_that_is_kept_across_a_gap_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnLedgers, "is_proven", lambda _self: True)
    assert len(_sleeps_through_it(Place(ownership_s=OWNERSHIP_S), monkeypatch)) == 2


def _confirmed_by(place: Place) -> list[bool]:
    """Whether a confirmation came with an entry that had been sent before it was called for."""
    found: list[bool] = []

    async def program() -> None:
        a = await place.node("a")
        log = await a.lead(1)
        append = log.append(transaction(1))
        while log.end == log.lac:
            await asyncio.sleep(0)  # it is sent now
        sent = log.end
        wait = log.confirm()
        await append
        await wait
        found.append(log.lac <= sent)

    place.run(program)
    return found


def test_an_entry_confirms_only_reads_that_came_before_it_was_sent() -> None:
    assert _confirmed_by(Place()) == [False]


def test_a_read_that_an_earlier_entry_confirms_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    confirm = Sender.confirm

    def early(self: Sender) -> Wait[None]:
        if not self.flights:
            return confirm(self)
        wait: Wait[None] = Wait()
        self.flights[-1].confirms += (wait,)
        return wait

    monkeypatch.setattr(Sender, "confirm", early)
    assert _confirmed_by(Place()) == [True]


def test_all_waiters_share_an_entry() -> None:
    place = Place()

    async def program() -> None:
        a = await place.node("a")
        log = await a.lead(1)
        before = log.lac.entry_id
        for wait in [log.confirm() for _ in range(100)]:
            await wait
        assert log.lac.entry_id == before + 1

    place.run(program)


def test_a_fenced_log_confirms_nothing() -> None:
    place = Place()

    async def program() -> None:
        a, b = await place.node("a"), await place.node("b")
        log = await a.lead(1)
        place.cluster.network.partition("a", "zookeeper")
        await b.take_over(2)
        with pytest.raises(LogClosedError):
            await log.confirm()
        with pytest.raises(LogClosedError):
            await log.confirm()
        place.cluster.network.heal("a", "zookeeper")

    place.run(program)


async def _cannot_be_made(_self: OwnLedgers, _spare: LedgerWriter | None = None) -> LedgerWriter:
    raise ZooKeeperUnavailableError("ZooKeeper is away")


def test_a_next_ledger_that_cannot_be_made_is_warned_of_ever_less(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(ownership_s=OWNERSHIP_S)

    async def program() -> None:
        a = await place.node("a")
        log = await a.lead(1)
        for one in (1, 2):  # a success in between has the count begin anew
            await log.append(transaction(one))
            caplog.clear()
            with monkeypatch.context() as patch:
                patch.setattr(OwnLedgers, "add", _cannot_be_made)
                rolling = asyncio.ensure_future(log.aroll())
                await asyncio.sleep(60)
            await rolling
            warned = [r for r in caplog.records if r.message == "the next ledger could not be made"]
            assert len(warned) == 6  # after 0, 1, 3, 7, 15 and 31 s, though it is tried every 0.2 s
            assert [r.__dict__["failures"] for r in warned][:2] == [1, 6]

    place.run(program)

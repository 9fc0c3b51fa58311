"""A spare ledger's life: made for the next term, used in that one only, deleted or swept otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from herdpy.log.bookkeeper import LeaderLog, SpareLedger
from herdpy.log.errors import LogError
from herdpy.log.ledger_list import LedgerListState
from herdpy.log.lsn import START
from tests.log_bookkeeper.kit import Node, Place, numbers, transaction

OWNERSHIP_S = 6.0


async def _listed(node: Node) -> LedgerListState:
    state = await node.list.read()
    assert state is not None
    return state


async def _spare(node: Node, epoch: int) -> SpareLedger:
    spare = SpareLedger(node.bk, node.name)
    await spare.make(await _listed(node), epoch, node.settings)
    return spare


async def _lead(node: Node, epoch: int, spare: SpareLedger) -> LeaderLog:
    log = await (await node.take_over(epoch)).lead(clock=asyncio.get_running_loop().time, spare=spare)
    node.logs.append(log)
    return log


async def _ids(node: Node) -> set[int]:
    return set(await node.bk.list_ledgers())


def _run(program: Callable[[Node, Node, LeaderLog], Awaitable[None]], **settings: Any) -> Place:
    """Node ``a`` leads in epoch 1, and ``b`` is there."""
    place = Place(**{"ownership_s": OWNERSHIP_S, **settings})

    async def main() -> None:
        a, b = [await place.node(name) for name in "ab"]
        await program(a, b, await a.lead(1))

    place.run(main)
    return place


def test_it_is_the_first_ledger_of_the_next_term() -> None:
    async def program(a: Node, b: Node, old: LeaderLog) -> None:
        await old.append(transaction(0))
        spare = await _spare(b, 2)
        made = await _ids(b)
        assert {info.ledger_id for info in (await _listed(b)).ledgers} < made, "it is in the list already"
        new = await _lead(b, 2, spare)
        await new.append(transaction(1))
        assert await _ids(b) == made, "another ledger was made"
        assert {info.ledger_id for info in new.ledgers()} == made
        assert not spare.is_there
        assert await b.contents() == [0, 1]

    _run(program)


def test_it_is_made_once_as_long_as_it_fits() -> None:
    async def program(a: Node, b: Node, old: LeaderLog) -> None:
        spare = await _spare(b, 2)
        made = await _ids(b)
        await spare.make(await _listed(b), 2, b.settings)
        assert await _ids(b) == made

    _run(program)


def test_one_that_is_of_no_use_is_replaced() -> None:
    async def program(a: Node, b: Node, old: LeaderLog) -> None:
        spare = await _spare(b, 2)
        (first,) = await _ids(b) - {info.ledger_id for info in old.ledgers()}
        await spare.make(await _listed(b), 3, b.settings)  # the leader has changed
        (second,) = await _ids(b) - {info.ledger_id for info in old.ledgers()}
        await old.append(transaction(0))
        await old.aroll()  # a higher ledger is listed
        await spare.make(await _listed(b), 3, b.settings)
        (third,) = await _ids(b) - {info.ledger_id for info in old.ledgers()}
        assert first < second < old.ledgers()[-1].ledger_id < third
        await spare.drop()
        assert await _ids(b) == {info.ledger_id for info in old.ledgers()}

    _run(program)


@pytest.mark.parametrize("why", ["epoch", "id", "bookie"])
def test_one_that_does_not_fit_is_not_used(why: str) -> None:
    async def program(a: Node, b: Node, old: LeaderLog) -> None:
        spare = await _spare(b, 3 if why == "epoch" else 2)
        (unfit,) = await _ids(b) - {info.ledger_id for info in old.ledgers()}
        if why == "id":
            await old.append(transaction(0))
            await old.aroll()
        if why == "bookie":
            member = (await b.bk.ledger_metadata(unfit)).last_segment.members[0]
            b.bk._open_parts().placement.quarantine(member)
        new = await _lead(b, 2, spare)
        assert unfit not in {info.ledger_id for info in new.ledgers()}
        await new.append(transaction(1))
        await spare.drop()
        assert await _ids(b) == {info.ledger_id for info in new.ledgers()}

    _run(program)


def test_a_sweep_leaves_one_that_may_be_used_and_finds_one_that_cannot() -> None:
    async def program(a: Node, b: Node, old: LeaderLog) -> None:
        await _spare(b, 2)  # its maker is killed
        listed = {info.ledger_id for info in old.ledgers()}
        (left,) = await _ids(b) - listed
        await asyncio.sleep(OWNERSHIP_S + 1)
        assert await old.asweep() == []
        await old.append(transaction(0))
        await old.aroll()
        assert await old.asweep() == [left]

    _run(program)


def test_the_next_leader_sweeps_what_another_ones_maker_left() -> None:
    async def program(a: Node, b: Node, old: LeaderLog) -> None:
        await _spare(a, 2)  # its maker is killed
        new = await _lead(b, 3, await _spare(b, 3))
        await asyncio.sleep(OWNERSHIP_S + 1)
        assert len(await new.asweep()) == 1
        assert await _ids(b) == {info.ledger_id for info in new.ledgers()}

    _run(program)


def test_one_whose_listing_fails_is_left_to_the_next_sweep() -> None:
    """Who lost the list may not know what is in it: the ledger is given up, and writes nothing."""

    async def program(a: Node, b: Node, old: LeaderLog) -> None:
        takeover = await b.take_over(2)
        spare = await _spare(b, 2)
        (unlisted,) = await _ids(b) - {info.ledger_id for info in old.ledgers()}
        newer = await a.lead(3)
        with pytest.raises(LogError):
            await takeover.lead(clock=asyncio.get_running_loop().time, spare=spare)
        assert not spare.is_there
        await newer.append(transaction(0))
        await asyncio.sleep(OWNERSHIP_S + 1)
        assert unlisted in await newer.asweep()

    _run(program)


def _used_in_another_term() -> None:
    """Leader 3 sweeps a spare ledger of term 2, whose id is above those listed; then b leads in term 4."""

    async def program(a: Node, b: Node, old: LeaderLog) -> None:
        first = await _spare(a, 3)
        spare = await _spare(b, 2)
        third = await _lead(a, 3, first)
        await third.append(transaction(0))
        await asyncio.sleep(OWNERSHIP_S + 1)
        assert len(await third.asweep()) == 1
        fourth = await _lead(b, 4, spare)
        await fourth.append(transaction(1))
        fourth.abandon()
        fifth = await a.lead(5)
        assert await numbers(fifth.read(START)) == [0, 1]

    _run(program)


def test_one_of_another_term_may_be_swept_and_is_not_used() -> None:
    _used_in_another_term()


def test_its_use_in_another_term_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = SpareLedger.fits

    def of_any_epoch(self: SpareLedger, state: LedgerListState, epoch: int, settings: Any) -> bool:
        self._epoch = epoch
        return fits(self, state, epoch, settings)

    monkeypatch.setattr(SpareLedger, "fits", of_any_epoch)
    with pytest.raises((LogError, AssertionError)):
        _used_in_another_term()

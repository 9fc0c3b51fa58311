"""What a leader's sweep deletes: ledgers in nobody's list, and never one that somebody lists or is making."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from herdpy.log.bookkeeper import LeaderLog
from herdpy.log.bookkeeper.own_ledgers import OwnLedgers, create_ledger
from herdpy.log.bookkeeper.settings import EPOCH, LOG
from herdpy_server.replica import placed
from herdpy_server.replica.host import Host
from herdpy_server.replica.placed import Removal
from tests.log_bookkeeper.kit import PATH, Node, Place, transaction

OWNERSHIP_S = 6.0
Custom = Mapping[str, bytes]


async def _made(log: LeaderLog, node: Node) -> int:
    """A ledger that this leader has made, and not listed yet."""
    state = log.state
    return (await create_ledger(node.bk, node.settings, state.log_id, state.node, state.epoch)).ledger_id


async def _swept(place: Place) -> None:
    """Sweeps of an old leader, a new one, and one of another tablespace, in the worst order."""
    a, b, c = [await place.node(name) for name in "abc"]
    c.list = type(c.list)(c.bk.znodes, PATH.replace("/t/", "/u/"))
    other, old = await c.lead(1), await a.lead(1)
    for number in range(20):
        await old.append(transaction(number))
        await other.append(transaction(number))
    left = await _made(old, a)
    for number in (20, 21):  # one may have been made ahead
        await old.append(transaction(number))
        await old.aroll()  # a higher one is listed: that one will never be
    making = await _made(old, a)
    others_making = await _made(other, c)

    async def there(*logs: LeaderLog, but: tuple[int, ...] = ()) -> None:
        ledgers = set(await a.bk.list_ledgers())
        listed = {info.ledger_id for log in logs for info in log.ledgers()}
        assert listed <= ledgers, "a ledger is gone that is listed"
        assert ledgers - listed == set(but), "a ledger is gone that is being made, or an orphan is left"

    assert await old.asweep() == [left]
    await there(old, other, but=(making, others_making))
    place.cluster.network.partition("a", "zookeeper")  # it does not hear that another leads
    new = await b.lead(2)
    for number in range(22, 40):
        await new.append(transaction(number))
    new_making = await _made(new, b)
    assert await new.asweep() == []  # a write of the old leader may still be acknowledged
    await asyncio.sleep(OWNERSHIP_S + 1)
    place.cluster.network.heal("a", "zookeeper")
    assert await old.asweep() == []
    await there(new, other, but=(making, others_making, new_making))
    assert await new.asweep() == [making]
    assert await other.asweep() == []
    await there(new, other, but=(others_making, new_making))
    assert await b.contents() == list(range(40))


def _sweep() -> None:
    place = Place(max_ledger_bytes=400, ownership_s=OWNERSHIP_S)
    place.run(lambda: _swept(place))


def test_a_sweep_deletes_what_nobody_lists_or_makes() -> None:
    _sweep()


def _of_any_log(self: OwnLedgers, ledger_id: int, custom: Custom) -> bool:
    """Ledgers of other tablespaces are taken for this one's."""
    return _IS_ORPHAN(self, ledger_id, {**custom, LOG: self.state.log_id.encode()})


def _of_any_epoch(self: OwnLedgers, ledger_id: int, custom: Custom) -> bool:
    """Whatever is not in the list as this leader knows it is swept: another may lead, and list it."""
    epoch = b"0" if int(custom[EPOCH]) != self.state.epoch else custom[EPOCH]
    return _IS_ORPHAN(self, ledger_id, {**custom, EPOCH: epoch})


def _while_it_is_made(self: OwnLedgers, ledger_id: int, custom: Custom) -> bool:
    """A ledger that this leader is making is taken for one that was left."""
    epoch = str(self.state.epoch - 1).encode() if int(custom[EPOCH]) == self.state.epoch else custom[EPOCH]
    return _IS_ORPHAN(self, ledger_id, {**custom, EPOCH: epoch})


def _at_once(self: OwnLedgers, ledger_id: int, custom: Custom) -> bool:
    """An earlier leader's ledgers are deleted while its writes to them may still be acknowledged."""
    self._began_s = -float("inf")
    return _IS_ORPHAN(self, ledger_id, custom)


_IS_ORPHAN = OwnLedgers._is_orphan


@pytest.mark.parametrize(
    "bug", [_of_any_log, _of_any_epoch, _while_it_is_made, _at_once], ids=lambda bug: bug.__name__[1:]
)
def test_a_sweep_that_deletes_too_much_is_noticed(
    bug: Callable[[OwnLedgers, int, Custom], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OwnLedgers, "_is_orphan", bug)
    with pytest.raises(AssertionError):
        _sweep()


def _dropped() -> None:
    """One tablespace is dropped while another is written, and makes a ledger at that moment."""
    place = Place(max_ledger_bytes=400)

    async def program() -> None:
        a, b = await place.node("a"), await place.node("b")
        b.list = type(b.list)(b.bk.znodes, PATH.replace("/t/", "/u/"))
        dropped, kept = await a.lead(1), await b.lead(1)
        for number in range(20):
            await dropped.append(transaction(number))
            await kept.append(transaction(number))
        await _made(dropped, a)
        making = await _made(kept, b)
        await dropped.aclose()
        state = await a.list.read()
        assert state is not None
        await Removal(cast(Host, SimpleNamespace(bk=b.bk)))._delete_ledgers(state)
        listed = {info.ledger_id for info in kept.ledgers()}
        assert set(await b.bk.list_ledgers()) == listed | {making}
        assert await b.contents() == list(range(20))

    place.run(program)


def test_a_dropped_tablespace_takes_its_own_ledgers_with_it() -> None:
    _dropped()


def test_a_removal_that_takes_all_of_the_application_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any ledger of this application that is not in a list is deleted with it."""
    assert placed.LOG == LOG
    original = Removal._delete_ledgers

    async def all_of_them(self: Removal, state: Any) -> None:
        await original(self, state)
        bk = self._host.bk
        for ledger_id in await bk.list_ledgers():
            if LOG in (await bk.ledger_metadata(ledger_id)).custom_metadata:
                await bk.delete_ledger(ledger_id)

    monkeypatch.setattr(Removal, "_delete_ledgers", all_of_them)
    with pytest.raises(AssertionError):
        _dropped()


def test_sweeps_of_all_tablespaces_read_the_metadata_of_each_ledger_once() -> None:
    place = Place(max_ledger_bytes=400)

    async def program() -> None:
        a, other = await place.node("a"), await place.node("b")
        logs = []
        for name in ("t", "u", "v"):
            a.list = type(a.list)(a.bk.znodes, PATH.replace("/t/", f"/{name}/"))
            logs.append(await a.lead(1))
        for number in range(20):
            for log in logs:
                await log.append(transaction(number))
        strangers = [await other.bk.create_ledger() for _ in range(10)]
        for _ in range(3):
            for log in logs:
                assert await log.asweep() == []
        there = len(await a.bk.list_ledgers())
        assert a.bk._labels.reads == there > 20
        await other.bk.create_ledger()
        await other.bk.delete_ledger(strangers[0].ledger_id)
        for log in logs:
            await log.asweep()
        assert a.bk._labels.reads == there + 1
        assert sorted(await a.bk.custom_metadata()) == await a.bk.list_ledgers()

    place.run(program)


def test_an_id_that_was_given_again_by_hand_is_not_swept_for_its_former_ledger() -> None:
    place = Place()

    async def program() -> None:
        a, b = await place.node("a"), await place.node("b")
        log = await a.lead(1)
        left = await _made(log, a)
        assert left in await a.bk.custom_metadata()
        await b.bk.delete_ledger(left)
        await b.bk.create_ledger(ledger_id=left)
        for number in range(2):
            await log.append(transaction(number))
            await log.aroll()
        assert await log.asweep() == []
        assert left in await b.bk.list_ledgers()

    place.run(program)

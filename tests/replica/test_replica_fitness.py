"""Whether a replica should lead: by the bookies that say something, and by takeovers that failed."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import lmdb
import msgspec
import pytest

from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.errors import ClosedClientError, MetadataError
from herdpy.log import LSN, LedgerInfo, LogUnavailableError
from herdpy.testing.model.loop import VirtualLoop
from herdpy_server.cluster.election import Election
from herdpy_server.cluster.layout import Layout, ReplicaRecord
from herdpy_server.cluster.positions import Needs
from herdpy_server.replica import fitness
from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.fitness import GIVE_UP_S, SILENT_S, Fitness
from herdpy_server.replica.guard import ReplicaState
from herdpy_server.replica.host import LOOK_S, BookieReach

NEAR = LSN(9, 4900)
BOOKIES = ("b1", "b2", "b3")


class Bookies:
    """A client of BookKeeper: bookies that answer at once, or never."""

    def __init__(self, *names: str) -> None:
        self.registered = set(names)
        self.deaf: set[str] = set()
        self.is_closed = False
        self._heard_s: dict[str, float] = {}

    def writable_bookies(self) -> frozenset[str]:
        if self.is_closed:
            raise ClosedClientError
        return frozenset(self.registered)

    def heard_s(self, name: str) -> float:
        return self._heard_s.setdefault(name, _now_s())

    def says(self, name: str) -> None:
        self._heard_s[name] = _now_s()

    async def answers(self, name: str) -> bool:
        if self.is_closed:
            raise ClosedClientError
        if name in self.deaf:
            await asyncio.sleep(5.0)
            return False
        self.says(name)
        return True


class World:
    """A replica as its fitness sees it. ``others``: what other replicas say of themselves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, strict: bool = False) -> None:
        self.bk = Bookies(*BOOKIES)
        self.reach = BookieReach(cast(BookKeeper, self.bk))
        self.told: list[str | None] = []
        self.gave_up = 0
        self.others = [_other()]
        self.handed_over = 0
        self.free_bytes = 2000 << 20
        monkeypatch.setattr(fitness, "free_bytes", lambda _path: self.free_bytes)
        host = SimpleNamespace(
            node="a",
            least_free_bytes=100 << 20,
            reach=self.reach,
            bk=SimpleNamespace(znodes=None),
            coordination=SimpleNamespace(layout=Layout("/herdpy")),
        )
        self.replica = SimpleNamespace(
            host=host,
            paths=Layout("/herdpy").tablespace("t"),
            info=SimpleNamespace(name="t", strict=strict, ack_quorum=2, write_quorum=3),
            state=ReplicaState.LEADING,
            unfit=None,
            report=lambda: self.told.append(self.replica.unfit),
            opened=SimpleNamespace(path=Path("/"), checkpointer=SimpleNamespace(failure=None)),
            log=SimpleNamespace(ledgers=lambda: (LedgerInfo(9, 0),), lac=LSN(9, 5000)),
        )
        election = SimpleNamespace(leader=None, reconsider=lambda: None)
        self.fitness = Fitness(
            cast(ReplicaBase, self.replica), cast(Election, election), self._hand_over, self._give_up
        )

        async def needs(*_: object) -> Needs:
            return Needs(replicas={one.node: one for one in self.others})

        monkeypatch.setattr(fitness, "read_needs", needs)

    def _give_up(self) -> None:
        self.gave_up += 1
        self.replica.state = ReplicaState.FOLLOWING

    def _hand_over(self) -> None:
        self.handed_over += 1
        self.replica.state = ReplicaState.FOLLOWING

    async def close(self) -> None:
        await self.fitness.close()
        await self.reach.close()


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _other(state: str = "following", unfit: str = "", applied: LSN = NEAR) -> ReplicaRecord:
    return ReplicaRecord(node="b", instance="1", state=state, unfit=unfit, applied=applied)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a script in virtual time, with a replica whose fitness is looked at."""

    def played(script: Callable[[World], Coroutine[Any, Any, None]], **options: bool) -> None:
        async def run() -> None:
            world = World(monkeypatch, **options)
            world.fitness.start()
            try:
                await asyncio.sleep(1.0)
                assert world.replica.unfit is None
                await script(world)
            finally:
                await world.close()

        VirtualLoop(1).run(run())

    return played


Play = Callable[..., None]


def test_a_leader_gives_up_when_too_few_bookies_answer(play: Play) -> None:
    async def script(world: World) -> None:
        world.bk.deaf.update(BOOKIES[1:])
        await asyncio.sleep(SILENT_S + 0.1)
        assert world.replica.unfit
        assert world.replica.unfit.startswith("it cannot reach the log since ")
        assert world.told == [world.replica.unfit]
        assert not world.gave_up
        await asyncio.sleep(GIVE_UP_S - SILENT_S + LOOK_S)
        assert world.gave_up == 1
        assert await world.fitness.lacks() == world.replica.unfit

    play(script)


def test_one_bookie_that_is_silent_is_one_that_can_be_done_without(play: Play) -> None:
    async def script(world: World) -> None:
        world.bk.deaf.add("b2")
        await asyncio.sleep(10.0)
        assert world.told == []

    play(script)


def test_not_where_the_tablespace_is_strict(play: Play) -> None:
    async def script(world: World) -> None:
        world.bk.deaf.add("b2")
        await asyncio.sleep(3.0)
        assert world.gave_up == 1

    play(script, strict=True)


def test_bookies_that_are_gone_are_gone_for_everybody(play: Play) -> None:
    async def script(world: World) -> None:
        world.bk.registered -= {"b2", "b3"}
        await asyncio.sleep(10.0)
        assert world.told == []

    play(script)


def test_whatever_a_bookie_says_is_a_sign_of_life(play: Play) -> None:
    async def script(world: World) -> None:
        world.bk.deaf.update(BOOKIES)  # they answer no question, as those that have much else to answer
        for _ in range(100):
            await asyncio.sleep(0.1)
            world.bk.says("b1")
            world.bk.says("b3")
        assert world.told == []

    play(script)


@pytest.mark.parametrize("other", [_other("seeding"), _other(unfit="it cannot reach the log"), None])
def test_a_leader_stays_where_nobody_can_do_better(play: Play, other: ReplicaRecord | None) -> None:
    async def script(world: World) -> None:
        world.others = [] if other is None else [other]
        world.bk.deaf.update(BOOKIES)
        await asyncio.sleep(10.0)
        assert world.replica.unfit
        assert not world.gave_up
        assert await world.fitness.lacks() == world.replica.unfit  # it could not take the log over, either
        world.bk.deaf.clear()
        await asyncio.sleep(6.0)
        assert world.replica.unfit is None
        assert world.told[-1] is None
        assert await world.fitness.lacks() is None

    play(script)


def test_a_process_that_stood_still_does_not_blame_the_bookies(play: Play) -> None:
    async def script(world: World) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        for number in range(20):
            loop.call_later(0.05 * number, _stands_still, loop, 3.0)
        await asyncio.sleep(30.0)
        assert world.told == []

    play(script)


def _stands_still(loop: VirtualLoop, seconds: float) -> None:
    loop._clock.now_s += seconds


def test_after_a_failed_takeover_others_go_first(play: Play) -> None:
    async def script(world: World) -> None:
        world.replica.state = ReplicaState.FOLLOWING
        world.fitness.takeover_failed(LogUnavailableError("no quorum"))
        assert world.replica.unfit is not None
        assert "no quorum" in world.replica.unfit
        assert await world.fitness.lacks() == world.replica.unfit
        own = msgspec.structs.replace(_other(), node="a")  # as it was reported before
        world.others = [own, _other(unfit="it could not, either")]
        assert await world.fitness.lacks() is None

    play(script)


def test_a_leader_is_not_deposed_for_a_takeover_that_failed_before(play: Play) -> None:
    async def script(world: World) -> None:
        world.fitness.takeover_failed(LogUnavailableError("no quorum"))
        await asyncio.sleep(10.0)
        assert not world.gave_up

    play(script)


def test_each_failure_counts_for_twice_as_long(play: Play) -> None:
    async def script(world: World) -> None:
        waited_s = []
        for _ in range(9):
            world.fitness.takeover_failed(LogUnavailableError("no quorum"))
            since_s = _now_s()
            while world.replica.unfit is not None:
                await asyncio.sleep(0.1)
            waited_s.append(round(_now_s() - since_s))
        assert waited_s == [2, 4, 8, 16, 32, 64, 128, 256, 300]
        await asyncio.sleep(601.0)
        world.fitness.takeover_failed(LogUnavailableError("no quorum"))
        await asyncio.sleep(2.2)
        assert world.replica.unfit is None

    play(script)


def test_a_bookie_that_is_back_makes_a_failed_takeover_a_thing_of_the_past(play: Play) -> None:
    async def script(world: World) -> None:
        world.bk.deaf.add("b3")
        await asyncio.sleep(5.0)
        for _ in range(6):
            world.fitness.takeover_failed(LogUnavailableError("no quorum"))
        await asyncio.sleep(6.0)
        assert world.replica.unfit is not None
        world.bk.deaf.clear()
        await asyncio.sleep(6.0)
        assert world.replica.unfit is None

    play(script)


def test_a_leader_whose_disk_is_full_hands_over_in_order(play: Play) -> None:
    async def script(world: World) -> None:
        world.free_bytes = 99 << 20
        await asyncio.sleep(1.0)
        assert world.replica.unfit is not None
        assert world.replica.unfit.startswith("its disk has less than 100 MiB free since ")
        assert not world.handed_over  # others with the same disk may not have said so yet
        assert await world.fitness.lacks() == world.replica.unfit
        await asyncio.sleep(2.5)
        assert (world.handed_over, world.gave_up) == (1, 0)

    play(script)


def test_a_leader_whose_server_ends_hands_over_at_once(play: Play) -> None:
    async def script(world: World) -> None:
        began_s = _now_s()
        await world.fitness.leave()
        assert (world.handed_over, world.gave_up, _now_s()) == (1, 0, pytest.approx(began_s))
        assert world.told == ["its server ends"]
        assert await world.fitness.lacks() == "its server ends"  # it is not elected again
        world.others = [_other(unfit="its server ends")]
        assert await world.fitness.lacks() is None  # but where nobody else is left

    play(script)


@pytest.mark.parametrize("other", [_other(applied=LSN(9, 1)), _other(unfit="its server ends"), None])
def test_a_leader_whose_server_ends_leads_on_until_another_can(
    play: Play, other: ReplicaRecord | None
) -> None:
    async def script(world: World) -> None:
        world.others = [] if other is None else [other]
        await world.fitness.leave()
        await asyncio.sleep(5.0)
        assert not world.handed_over
        world.others = [_other()]
        await asyncio.sleep(1.0)
        assert world.handed_over == 1

    play(script)


def test_zookeeper_that_is_silent_ends_no_leadership(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(*_: object) -> Needs:
        await asyncio.sleep(60.0)
        raise MetadataError("no answer")

    async def script(world: World) -> None:
        monkeypatch.setattr(fitness, "read_needs", silent)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5.0):
                await world.fitness.leave()
        await asyncio.sleep(100.0)
        assert not world.handed_over

    play(script)


def test_room_is_back_when_there_is_more_than_just_enough(play: Play) -> None:
    async def script(world: World) -> None:
        world.replica.state = ReplicaState.FOLLOWING
        for mib, is_unfit in ((100, False), (99, True), (101, True), (149, True), (150, False), (101, False)):
            world.free_bytes = mib << 20
            await asyncio.sleep(1.0)
            assert (world.replica.unfit is not None) == is_unfit, mib

    play(script)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError(errno.EIO, os.strerror(errno.EIO)),
        lmdb.DiskError("mdb_txn_commit: No space left on device"),
    ],
)
def test_a_leader_whose_store_cannot_be_written_hands_over(play: Play, error: Exception) -> None:
    async def script(world: World) -> None:
        world.replica.opened.checkpointer.failure = error
        await asyncio.sleep(1.0)
        assert world.replica.unfit is not None
        assert "its store cannot be written" in world.replica.unfit
        assert str(error) in world.replica.unfit
        await asyncio.sleep(2.5)
        assert (world.handed_over, world.gave_up) == (1, 0)
        world.replica.opened.checkpointer.failure = None
        await asyncio.sleep(1.0)
        assert world.replica.unfit is None

    play(script)


def test_readers_that_are_too_many_are_no_fault_of_the_disk(play: Play) -> None:
    async def script(world: World) -> None:
        world.replica.opened.checkpointer.failure = lmdb.ReadersFullError("MDB_READERS_FULL")
        await asyncio.sleep(3.0)
        assert world.told == []

    play(script)


@pytest.mark.parametrize("other", [_other(applied=LSN(9, 1)), _other(unfit="its disk is full"), None])
def test_a_full_disk_is_no_reason_to_keep_everybody_waiting(play: Play, other: ReplicaRecord | None) -> None:
    """As they would wait for one that is far behind, or for one whose disk is no better."""

    async def script(world: World) -> None:
        world.others = [] if other is None else [other]
        world.free_bytes = 0
        await asyncio.sleep(10.0)
        assert not world.handed_over
        assert not world.gave_up

    play(script)


def test_a_disk_that_does_not_answer_is_told(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_path: Path) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def script(world: World) -> None:
        monkeypatch.setattr(fitness, "free_bytes", broken)
        await asyncio.sleep(1.0)
        assert world.replica.unfit is not None
        assert "does not answer (Input/output error)" in world.replica.unfit

    play(script)

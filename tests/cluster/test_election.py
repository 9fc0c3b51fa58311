"""One election step by step, on the model and on a real ZooKeeper."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from herdpy.bookkeeper.metadata.znodes import NodeExistsError, NoNodeError, Znodes
from herdpy.log.lsn import LSN
from herdpy_server.cluster.coordination import Coordination
from herdpy_server.cluster.election import Candidate, Election
from herdpy_server.cluster.errors import NodeIdInUseError, PositionTrimmedError, TermLostError
from herdpy_server.cluster.layout import Address, Layout, LeaderRecord, NodeRecord, TermRecord, decode, encode
from herdpy_server.cluster.lease import Loss, Term, boottime
from herdpy_server.cluster.readers import lease_reader
from herdpy_server.cluster.tablespaces import TablespaceInfo
from tests.support.znode_worlds import Meddler, ModelWorld, World

INFO = TablespaceInfo(name="t", uuid="1")


async def make_parent(znodes: Znodes, path: str) -> None:
    """The tablespace's own znode, as CREATE TABLESPACE makes it."""
    with contextlib.suppress(NodeExistsError):
        if await znodes.exists(path) is None:
            await znodes.create(path, make_parents=True)


class Node:
    """A candidate whose terms can be awaited."""

    def __init__(self, world: World, znodes: Znodes, node: str, lease_s: float = 0.5, **options: Any) -> None:
        own = NodeRecord(node=node, instance=node, sql=Address(node, 5432))
        self.world = world
        clock = asyncio.get_running_loop().time if isinstance(world, ModelWorld) else boottime
        self.parts = Coordination(
            znodes, world.root, own, lease_s=lease_s, refused=self._refused, clock=clock
        )
        self.paths = self.parts.layout.tablespace("t")
        self.znodes = znodes
        self._making = asyncio.get_running_loop().create_task(make_parent(znodes, self.paths.info))
        self.lack: str | None = None
        self.lack_later: str | None = None
        self.won: asyncio.Queue[Term] = asyncio.Queue()
        self.lost: asyncio.Queue[Term] = asyncio.Queue()
        self.leaders: asyncio.Queue[LeaderRecord | None] = asyncio.Queue()
        candidate = Candidate(
            lambda: LSN(3, 4), self._lacks, self.won.put_nowait, self.lost.put_nowait, self.leaders.put_nowait
        )
        info = msgspec.structs.replace(INFO, replicas=("a", "b"), leader=options.pop("preferred", None))
        self.election: Election = self.parts.election(info, candidate, **options)
        self._making.add_done_callback(lambda _: self.election.start())

    async def _lacks(self) -> str | None:
        lack, self.lack = self.lack, self.lack_later if self.lack is None else self.lack
        return lack

    def _refused(self, error: NodeIdInUseError) -> None:
        raise error

    async def leads(self) -> Term:
        term = await self.won.get()
        await term.alone()
        assert term.lease.valid()
        return term

    async def sees(self, wanted: Callable[[LeaderRecord | None], bool]) -> None:
        while not wanted(await self.leaders.get()):
            pass

    async def term_record(self) -> TermRecord:
        return decode(TermRecord, self.paths.term, (await self.znodes.get(self.paths.term)).data)

    async def close(self) -> None:
        await self.election.close()
        await self.parts.close()


def test_the_first_leads_and_the_next_follows_when_it_closes(world: World) -> None:
    async def program() -> None:
        one = Node(world, await world.client(), "a")
        first = await one.leads()
        other = Node(world, await world.client(), "b")
        await other.sees(
            lambda leader: (
                leader is not None
                and (leader.node, leader.epoch, leader.sql, leader.position)
                == ("a", first.epoch, Address("a", 5432), LSN(3, 4))
            )
        )
        assert other.election.term is None
        await one.close()
        assert (first.loss, first.lease.valid()) == (Loss.RESIGNED, False)
        assert one.lost.empty()
        second = await other.leads()
        assert second.epoch == first.epoch + 1
        await other.close()
        assert await other.znodes.exists(other.paths.leader) is None

    world.run(program)


def test_a_term_given_back_is_not_waited_out(world: World) -> None:
    async def program() -> None:
        one = Node(world, await world.client(), "a", lease_s=3600.0)
        await one.leads()
        other = Node(world, await world.client(), "b")
        await one.election.resign()
        assert (await one.term_record()).released or (await one.term_record()).node == "b"
        await other.leads()
        assert (await other.term_record()).lease_s == 0.5
        await other.close()
        await one.close()

    world.run(program)


def test_a_term_that_was_not_alone_yet_does_not_release_its_predecessors_lease(world: World) -> None:
    async def program() -> None:
        znodes = await world.client()
        path = Layout(world.root).tablespace("t").term
        dead = TermRecord(epoch=7, node="dead", tag="x", lease_s=3600.0)
        await znodes.create(path, encode(dead), make_parents=True)
        one = Node(world, znodes, "a")
        term = await one.won.get()
        assert (term.epoch, term.is_alone) == (8, False)
        waiting = asyncio.create_task(term.alone())
        await one.election.resign()
        with pytest.raises(TermLostError):
            await waiting
        await one.close()
        record = await one.term_record()
        assert (record.lease_s, record.released) == (3600.0, False)

    world.run(program)


def test_a_longer_lease_is_forgotten_once_it_is_waited_out(world: World) -> None:
    async def program() -> None:
        znodes = await world.client()
        path = Layout(world.root).tablespace("t").term
        dead = TermRecord(epoch=7, node="dead", tag="x", lease_s=1.0)
        await znodes.create(path, encode(dead), make_parents=True)
        one = Node(world, znodes, "a")
        term = await one.won.get()
        assert (await one.term_record()).lease_s == 1.0
        await term.alone()
        while (await one.term_record()).lease_s != 0.5:
            await asyncio.sleep(0.01)
        await one.close()

    world.run(program)


def test_the_preferred_one_goes_first_and_others_do_not_wait_for_ever(world: World) -> None:
    async def program() -> None:
        one = Node(world, await world.client(), "a", preferred="b")
        first = await one.leads()  # b is not there: a leads all the same
        other = Node(world, await world.client(), "b", preferred="b")
        third = Node(world, await world.client(), "c", preferred="b", grace_s=60.0)
        await other.sees(lambda leader: leader is not None)
        await third.sees(lambda leader: leader is not None)
        await one.election.resign()
        assert (await other.leads()).epoch == first.epoch + 1
        for node in (third, other, one):
            await node.close()

    world.run(program)


def test_who_lacks_part_of_the_log_is_no_candidate(world: World) -> None:
    async def program() -> None:
        one = Node(world, await world.client(), "a")
        one.lack = "quarantined"
        await one.sees(lambda leader: leader is None)
        while one.election.refusal is None:
            await asyncio.sleep(0.01)
        assert one.election.refusal == "quarantined"
        assert await one.znodes.exists(one.paths.leader) is None
        one.lack = None
        one.election.reconsider()
        assert (await one.leads()).epoch == 1
        await one.close()

    world.run(program)


def test_who_lacks_it_only_after_winning_gives_it_back(world: World) -> None:
    async def program() -> None:
        one = Node(world, await world.client(), "a")
        one.lack_later = "the log was trimmed meanwhile"
        while one.election.refusal is None:
            await asyncio.sleep(0.01)
        assert one.won.empty()
        assert await one.znodes.exists(one.paths.leader) is None
        assert (await one.term_record()).released
        one.lack = one.lack_later = None
        one.election.reconsider()
        assert (await one.leads()).epoch == 2
        await one.close()

    world.run(program)


@pytest.mark.parametrize("lost", ["lose_requests", "lose_replies"])
@pytest.mark.parametrize("operations", [["create"], ["create", "set"], ["set"], ["create"] * 3])
def test_winning_in_doubt(world: World, lost: str, operations: list[str]) -> None:
    async def program() -> None:
        meddler = Meddler(await world.client())
        await make_parent(meddler, Layout(world.root).tablespace("t").info)  # type: ignore[arg-type]
        setattr(meddler, lost, list(operations))
        one = Node(world, meddler, "a")  # type: ignore[arg-type]
        assert (await one.leads()).epoch == 1
        setattr(meddler, lost, ["set", "delete"])
        await one.election.resign()
        assert one.election.term is None
        assert (await one.leads()).epoch == 2
        await one.close()

    world.run(program)


def test_a_leader_whose_znode_was_removed_steps_down(world: World) -> None:
    async def program() -> None:
        one = Node(world, await world.client(), "a")
        first = await one.leads()
        operator = await world.client()
        await operator.delete(one.paths.leader)
        assert (await one.lost.get()).loss is Loss.REMOVED
        assert not first.lease.valid()
        assert (await one.leads()).epoch == 2
        await one.close()

    world.run(program)


def test_what_an_earlier_attempt_left_is_removed(world: World) -> None:
    async def program() -> None:
        one = Node(world, await world.client(), "a")
        first = await one.leads()
        # As if the term had ended without the znode being removed.
        one.election._end(first, Loss.SESSION)
        assert (await one.leads()).epoch == 2
        await one.close()

    world.run(program)


def test_one_write_renews_many_leases_and_none_is_made_without_terms(world: World) -> None:
    async def program() -> None:
        meddler = Meddler(await world.client())
        one = Node(world, meddler, "a")  # type: ignore[arg-type]
        await one.leads()
        written: list[str] = []
        original = meddler.set

        async def count(path: str, data: bytes, version: int) -> int:
            written.append(path)
            return await original(path, data, version)

        meddler.set = count  # type: ignore[method-assign]
        others = []
        for number in range(20):
            info = TablespaceInfo(name=f"t{number}", uuid="1")
            await one.znodes.create(one.parts.layout.tablespace(info.name).info)
            won: asyncio.Queue[Term] = asyncio.Queue()
            candidate = Candidate(lambda: LSN(0, 0), one._lacks, won.put_nowait, one.lost.put_nowait)
            election = one.parts.election(info, candidate)
            election.start()
            others.append((election, await won.get()))
        for _, term in others:
            await term.alone()
        while one.parts.renewal._proofs:  # an answer of one that was sent before would renew them as well
            await asyncio.sleep(0.01)
        written.clear()
        for _ in range(3):
            until_s = [term.lease.until_s for _, term in others]
            while not all(term.lease.until_s > then for (_, term), then in zip(others, until_s, strict=True)):
                await asyncio.sleep(0.01)
        assert 2 <= len(written) <= 9
        assert all(path.startswith(f"{world.root}/beats/a-") for path in written)
        for election, _ in others:
            await election.close()
        await one.election.close()
        written.clear()
        await asyncio.sleep(1.0)  # two leases' time: in it nothing is to happen
        assert written == []
        await one.parts.close()

    world.run(program)


def test_a_tablespace_that_was_removed_does_not_come_back(world: World) -> None:
    async def program() -> None:
        znodes = await world.client()
        one = Node(world, znodes, "a")
        await one.leads()
        for path in (one.paths.term, one.paths.leader, one.paths.info):
            await znodes.delete(path)
        assert (await one.lost.get()).loss is Loss.REMOVED
        while one.election.refusal is None:
            await asyncio.sleep(0.01)
        assert one.election.refusal == "the tablespace is gone"
        reports = one.parts.reports("t")
        reports.start()
        reports.report("following", LSN(1, 1), LSN(1, 1))
        with pytest.raises(NoNodeError):
            await reports.keep_now()
        with pytest.raises(PositionTrimmedError, match="no tablespace"):
            await lease_reader(znodes, one.paths, LSN(1, 1), "backup", lease_s=60)
        await reports.close()
        await one.close()
        assert await znodes.exists(one.paths.info) is None

    world.run(program)

"""Replicas that have applied what the bookies have lost: evidence, until an operator decides."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import cast

import msgspec
import pytest

from herdpy.log import LSN
from herdpy_server.cluster.layout import KeepRecord, decode, encode
from herdpy_server.cluster.positions import read_needs
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica.files import kept, position_of
from herdpy_server.replica.guard import ReplicaState
from herdpy_server.replica.host import Seed
from herdpy_server.replica.replica import Replica
from herdpy_server.replica.seeding import NoDonorError, Seeded
from herdpy_server.tablespace_host import DatabaseSettings
from herdpy_sql.errors import SqlError
from tests.replica.simulation.run import arranged, make_tables
from tests.replica.simulation.steps import followers_have, leader_of, leads, write
from tests.replica.simulation.world import NAME, Node, World

Scenario = Callable[[World], Awaitable[None]]


def play(directory: Path, scenario: Scenario, patience_s: float = 120) -> None:
    """Run a scenario on three nodes that are there, in virtual time; one ledger is enough for it."""
    world = World(1, directory)
    world.settings = DatabaseSettings()

    async def program() -> None:
        try:
            for name in world.names:
                await world.start(name)
            await make_tables(world)
            async with asyncio.timeout(patience_s):
                await scenario(world)
        finally:
            for node in world.nodes.values():
                if not node.is_dead:
                    node.resume()
                    await asyncio.wait([node.begin(node.close(), "close")], timeout=30)

    with arranged(world.seed):
        world.cluster.run(program)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.05)


def checkpoint(node: Node) -> None:
    """Bring what the node has applied to its disk."""
    assert node.replica is not None
    assert node.replica.opened is not None
    node.replica.opened.checkpointer.checkpoint(trim=False)


def applied(node: Node) -> LSN:
    assert node.replica is not None
    return node.replica.applied


def state(node: Node) -> ReplicaState:
    assert node.replica is not None
    return node.replica.state


async def lose_the_end(world: World) -> tuple[Node, Node, LSN]:
    """The bookies lose the log's end, which one replica has: who is behind, who is ahead, and to where."""
    leader = leader_of(world)
    behind, ahead = (one for one in world.nodes.values() if one is not leader)
    await write(world, leader)
    await followers_have(world, leader)
    end = applied(behind)
    checkpoint(behind)
    await behind.kill()
    for _ in range(5):
        await write(world, leader)
    await until(lambda: applied(ahead) >= applied(leader))
    evidence = applied(ahead)
    checkpoint(ahead)
    await leader.kill()
    await forget_after(world, end)
    behind = await world.start(behind.name)  # whichever of the two is elected
    return behind, ahead, evidence


async def forget_after(
    world: World, end: LSN, *, until_entry: int | None = None
) -> list[Callable[[], object]]:
    """Every bookie loses what came after ``end`` in its ledger, and its cookie does not tell; what gives
    it back.
    """
    undo: list[Callable[[], object]] = []
    for node in world.cluster.bookies.values():
        node.crash()
        storage = node.bookie.storage
        for ledgers in (storage.ledgers, storage._durable):
            if (ledger := ledgers.get(end.ledger_id)) is None:
                continue
            if until_entry is None:
                ledger.explicit_lac, ledger.max_lac = None, min(ledger.max_lac, end.entry_id)
            for entry_id in [one for one in ledger.entries if one > end.entry_id]:
                if until_entry is None or entry_id <= until_entry:
                    gone = ledger.entries.pop(entry_id)
                    undo.append(partial(ledger.entries.__setitem__, entry_id, gone))
        await node.start()
    return undo


async def accept_the_loss(node: Node, ledger_id: int) -> None:
    """As ``herdpy ledgers recover --accept-loss``."""

    async def recover() -> None:
        await (await node.bk.open_ledger(ledger_id, recover=True, accept_loss=True)).close()

    await node.begin(recover(), "operator")


async def go_on(world: World) -> tuple[Node, Node, LSN]:
    """As ``lose_the_end``, and the loss is accepted: the log goes on with less than one replica has."""
    behind, ahead, evidence = await lose_the_end(world)
    await asyncio.sleep(12.0)
    await accept_the_loss(ahead, evidence.ledger_id)
    await until(lambda: leads(behind))
    await until(lambda: state(ahead) is ReplicaState.AHEAD)
    await asyncio.sleep(1.0)  # what is reported of it is written
    return behind, ahead, evidence


async def problems(node: Node) -> list[str]:
    """What the replicas have reported of themselves."""
    paths = node.coordination.layout.tablespace(NAME)
    found = await node.begin(read_needs(node.znodes, paths), "needs")
    return [one.problem for one in found.replicas.values() if one.problem]


async def read_anything(replica: Replica) -> None:
    session = replica.session()
    await session.execute("SET herdpy.read_level = 'any'")
    await session.execute("SELECT v FROM r WHERE k = 1")


async def refused(node: Node, what: str) -> None:
    """Nobody reads there, at any level."""
    assert node.replica is not None
    with pytest.raises(SqlError, match=what) as told:
        await read_anything(node.replica)
    assert told.value.sqlstate == "57P03"


def test_what_replicas_have_and_bookies_have_lost_is_an_operators_to_decide(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        behind, ahead, evidence = await lose_the_end(world)
        await asyncio.sleep(12.0)
        assert not any(map(leads, (behind, ahead)))
        said = await problems(ahead)
        assert any(f"entry {evidence.entry_id} was confirmed" in one for one in said), said
        assert any("herdpy ledgers recover" in one for one in said), said

        await accept_the_loss(ahead, evidence.ledger_id)
        await until(lambda: leads(behind))
        assert (await write(world, behind)).outcome == "done"
        await asyncio.sleep(10.0)
        assert state(ahead) is ReplicaState.AHEAD
        assert applied(ahead) == evidence
        await refused(ahead, "it is ahead of the log")
        assert any(f"{evidence} is not in the log" in one for one in await problems(ahead))

    play(tmp_path, scenario)


def test_what_is_ahead_is_kept_when_the_log_is_trimmed_past_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        leader, ahead, evidence = await go_on(world)
        assert leader.replica is not None

        def without_retention(now: TablespaceInfo) -> TablespaceInfo:
            return msgspec.structs.replace(now, retention_bytes=0, retention_s=0.0)

        info = await leader.begin(leader.coordination.tablespaces.alter(NAME, without_retention), "alter")
        leader.replica.altered(info)
        log = leader.replica.log
        assert log is not None
        while log.state.base.ledger_id <= evidence.ledger_id:
            await write(world, leader)
            await leader.begin(log.aroll(), "roll")
            checkpoint(leader)
            leader.replica.leader_tasks.look()
            await asyncio.sleep(0.5)
        await asyncio.sleep(5.0)
        assert (state(ahead), applied(ahead)) == (ReplicaState.AHEAD, evidence)
        assert ahead.replica is not None
        ahead.replica.differs("a check of before says so")
        assert state(ahead) is ReplicaState.AHEAD

        await ahead.kill()  # and its next life knows
        ahead = await world.start(ahead.name)
        await until(lambda: state(ahead) is ReplicaState.AHEAD)
        await asyncio.sleep(5.0)
        assert (state(ahead), applied(ahead)) == (ReplicaState.AHEAD, evidence)
        await refused(ahead, "it is ahead of the log")

    play(tmp_path, scenario)


def test_what_is_ahead_is_not_replaced_while_its_node_is_away(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        leader, ahead, _evidence = await go_on(world)
        assert leader.replica is not None
        lost = next(name for name in world.names if name not in (leader.name, ahead.name))
        await ahead.kill()
        for spare in ("n4", "n5"):
            world._lives[spare] = 0
            await world.start(spare)
        leader.replica.host.replace_after_s = 5.0

        def placed() -> tuple[str, ...]:
            return leader.coordination.tablespaces.known[NAME].replicas

        stop = await leader.begin(
            leader.coordination.tablespaces.watch(
                lambda _name, info: leader.replica and info and leader.replica.altered(info)
            ),
            "watch",
        )
        await until(lambda: lost not in placed())  # the other one that is away is
        await asyncio.sleep(10.0)
        stop()
        assert ahead.name in placed()

    play(tmp_path, scenario)


async def no_donor(*_arguments: object) -> Seeded:
    raise NoDonorError("57P03", "no other replica can give its state now")


def test_a_follower_whose_next_entry_is_gone_keeps_what_it_has(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        leader = leader_of(world)
        alone, other = (one for one in world.nodes.values() if one is not leader)
        await write(world, leader)
        await followers_have(world, leader)
        checkpoint(alone)
        end = applied(alone)
        await alone.kill()
        for _ in range(5):
            await write(world, leader)
        await other.kill()
        await leader.kill()
        give_back = await forget_after(world, end, until_entry=end.entry_id + 2)

        alone = await world.start(alone.name)
        assert alone.replica is not None
        alone.replica.host.seed = no_donor
        await until(lambda: state(alone) is ReplicaState.QUARANTINED)
        await asyncio.sleep(15.0)
        assert alone.replica.problem is not None
        path = world.directory / alone.name / NAME
        assert position_of(path / "store") == end
        assert state(alone) is ReplicaState.QUARANTINED
        assert any(f"entry {end.entry_id + 1}" in one for one in await problems(alone)), await problems(alone)
        await refused(alone, "it is quarantined")
        assert kept(path) is None

        await alone.kill()  # its next life knows
        alone = await world.start(alone.name)
        assert alone.replica is not None
        alone.replica.host.seed = no_donor
        await until(lambda: state(alone) is ReplicaState.QUARANTINED)
        await asyncio.sleep(5.0)
        assert position_of(path / "store") == end
        for give in give_back:
            give()
        await until(lambda: leads(alone))  # by itself
        assert (await write(world, alone)).outcome == "done"

    play(tmp_path, scenario)


async def keep(world: World, node: Node, *, accept_loss: bool = False) -> KeepRecord | None:
    """As ``herdpy ledgers keep-replica``; the refusal, or None when it leads and has said so in the log."""
    path = node.coordination.layout.tablespace(NAME).keep
    word = KeepRecord(node=node.name, tag=f"{world.now()}", accept_loss=accept_loss)

    async def say() -> KeepRecord | None:
        await node.znodes.create(path, encode(word))
        while (znode := await node.znodes.exists(path)) is not None:
            if (said := decode(KeepRecord, path, znode.data)).refusal:
                await node.znodes.delete(path)
                return said
            await asyncio.sleep(0.1)
        return None

    return await node.begin(say(), "operator")


@pytest.mark.parametrize("recovered", [False, True])
def test_when_all_replicas_are_ahead_one_of_them_is_kept(tmp_path: Path, recovered: bool) -> None:
    async def scenario(world: World) -> None:
        leader = leader_of(world)
        behind, most = (one for one in world.nodes.values() if one is not leader)
        await write(world, leader)
        await followers_have(world, leader)
        end = applied(behind)
        checkpoint(behind)
        await behind.kill()
        written = [await write(world, leader) for _ in range(3)]
        await until(lambda: applied(most) >= applied(leader))
        checkpoint(leader)  # it does not come back with the rest
        written += [await write(world, leader) for _ in range(3)]
        await until(lambda: applied(most) >= applied(leader))
        evidence = applied(most)
        checkpoint(most)
        await leader.kill()
        await forget_after(world, end)
        less = await world.start(leader.name)
        await asyncio.sleep(10.0)
        if recovered:
            await accept_the_loss(most, evidence.ledger_id)
            await until(lambda: state(most) is state(less) is ReplicaState.AHEAD)
        assert end < applied(less) < evidence
        assert not any(map(leads, (less, most)))

        assert await keep(world, most) is None
        assert leads(most)
        assert most.replica is not None
        assert most.replica.log is not None
        assert most.replica.log.state.base == evidence
        for one in written:
            if one.outcome == "done":
                assert await outcome_of(most, one.number) == "done"
        assert (await write(world, most)).outcome == "done"

        assert less.replica is not None
        less.replica.host.seed = seeded_from(most)
        await until(lambda: state(less) is ReplicaState.FOLLOWING)
        await until(lambda: applied(less) == applied(most))
        assert less.replica.seedings == 1

    play(tmp_path, scenario, 300)


def test_a_replica_is_not_kept_where_the_log_has_more(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        behind, ahead, evidence = await go_on(world)
        assert (await write(world, behind)).outcome == "done"
        newer = applied(behind)
        checkpoint(behind)
        await behind.kill()
        await asyncio.sleep(3.0)
        refusal = await keep(world, ahead)
        assert refusal is not None
        assert f"the log does not end at {evidence}" in refusal.refusal
        assert f"ledger {newer.ledger_id} has transactions" in refusal.refusal
        await asyncio.sleep(5.0)
        assert (state(ahead), applied(ahead)) == (ReplicaState.AHEAD, evidence)

        assert await keep(world, ahead, accept_loss=True) is None
        assert (await write(world, ahead)).outcome == "done"
        behind = await world.start(behind.name)
        await until(lambda: state(behind) is ReplicaState.AHEAD)
        assert applied(behind) == newer  # now this is evidence

    play(tmp_path, scenario, 300)


async def outcome_of(node: Node, number: int) -> str:
    assert node.replica is not None
    found = await node.replica.session().execute(f"SELECT herdpy.commit_outcome('w{number}')")
    return str(found.rows[0][0]).split(maxsplit=1)[0]


class _Copied:
    """A snapshot of another node's store, as ``Seeded``."""

    def __init__(self, data: Path) -> None:
        self.data = data

    async def release(self) -> None:
        pass


def seeded_from(donor: Node) -> Seed:
    async def seed(_info: TablespaceInfo, directory: Path, _tell: object, least: LSN) -> Seeded:
        checkpoint(donor)
        assert donor.replica is not None
        assert donor.replica.opened is not None
        assert donor.replica.opened.store.durable >= least
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copy(donor.replica.opened.path / "store" / "data.mdb", directory / "data.mdb")
        return cast(Seeded, _Copied(directory / "data.mdb"))

    return seed


def test_when_a_ledger_is_gone_all_replicas_wait_with_what_they_have(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        leader = leader_of(world)
        written = [await write(world, leader) for _ in range(3)]
        await followers_have(world, leader)
        end = applied(leader)
        for node in world.nodes.values():
            checkpoint(node)
        await leader.begin(leader.bk.delete_ledger(end.ledger_id), "somebody")
        for node in list(world.nodes.values()):
            await node.kill()
        for name in world.names:
            replica = (await world.start(name)).replica
            assert replica is not None
            replica.host.seed = no_donor
        await until(lambda: all(state(one) is ReplicaState.QUARANTINED for one in world.nodes.values()))
        for _ in range(100):
            await asyncio.sleep(0.1)
            assert not any(state(one) is ReplicaState.FOLLOWING for one in world.nodes.values())
        for node in world.nodes.values():
            assert position_of(world.directory / node.name / NAME / "store") >= end
        kept_one = world.nodes["n2"]
        paths = kept_one.coordination.layout.tablespace(NAME)
        needs = await kept_one.begin(read_needs(kept_one.znodes, paths), "needs")
        assert all(one.applied >= end for one in needs.replicas.values())  # what an operator goes by
        refusal = await keep(world, kept_one)
        assert refusal is not None
        assert f"ledger {end.ledger_id} is gone" in refusal.refusal
        assert await keep(world, kept_one, accept_loss=True) is None
        for one in written:
            assert one.outcome != "done" or await outcome_of(kept_one, one.number) == "done"
        assert (await write(world, kept_one)).outcome == "done"

    play(tmp_path, scenario, 300)

"""What may happen to replicas at the worst moment, one thing a scenario: short scripts for the world.

Each goes well with replicas that are right; with the bug that it is about, what it notes breaks a promise.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Awaitable, Callable, Iterator
from unittest.mock import patch

import msgspec

from herdpy.log.bookkeeper import FollowedLog
from herdpy.log.bookkeeper.own_ledgers import OwnLedgers
from herdpy.log.bookkeeper.succession import Succession
from herdpy.log.staging import StagedLabel
from herdpy_server.cluster.positions import read_needs
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_sql.errors import SqlError
from tests.replica.simulation.history import Read
from tests.replica.simulation.loading import load_id
from tests.replica.simulation.steps import (
    another,
    cut_from_zookeeper,
    deposed,
    disks,
    followers_have,
    leader_of,
    leads,
    outcome,
    prefers,
    read,
    write,
)
from tests.replica.simulation.world import NAME, Node, World

Scenario = Callable[[World], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}


def _scenario(script: Scenario) -> Scenario:
    SCENARIOS[script.__name__] = script
    return script


@_scenario
async def the_leader_sleeps(world: World) -> None:
    """It is asked while it sleeps, and wakes when another has led for a while."""
    old = leader_of(world)
    await write(world, old)
    old.pause()
    asked = asyncio.create_task(_late(world, old))
    new = await another(world, old)
    assert (await write(world, new)).outcome == "done"
    asleep_from_s = world.now()
    old.resume()
    found = await asked
    if found is not None:
        found.asked_s = asleep_from_s  # it was answered after that, and could not have been before
    old.resume()


async def _late(world: World, node: Node) -> Read | None:
    await asyncio.sleep(0.1)
    return await read(world, node)


@_scenario
async def the_leader_writes_when_it_wakes(world: World) -> None:
    """The write was asked for while it slept."""
    old = leader_of(world)
    await write(world, old)
    old.pause()
    asked = asyncio.create_task(write(world, old))
    await asyncio.sleep(0.1)
    new = await another(world, old)
    await write(world, new)
    old.resume()
    await asked


@_scenario
async def the_session_ends_within_the_lease(world: World) -> None:
    """Another is elected at once, while the old leader may still answer."""
    await _goes_on(world, read)


@_scenario
async def zookeeper_is_away(world: World) -> None:
    """For all nodes, and it ends their sessions: the leader writes, answers, and keeps its term."""
    leader = leader_of(world)
    assert leader.replica is not None
    takeovers = leader.replica.takeovers
    for node in world.nodes.values():
        world.cluster.network.partition(node.host, "zookeeper")
    for _ in range(12):
        if (await write(world, leader)).outcome != "done" or await read(world, leader) is None:
            world.history.broken("the leader does not go on without ZooKeeper")
        await asyncio.sleep(0.5)
    for node in world.nodes.values():
        world.cluster.network.heal(node.host, "zookeeper")
    await asyncio.sleep(1.5)
    if (await write(world, leader)).outcome != "done" or leader.replica.takeovers != takeovers:
        world.history.broken("the leader did not keep its term")


@_scenario
async def the_old_leader_writes_on(world: World) -> None:
    """It does not know yet that its session is over, and another has been elected."""
    await _goes_on(world, write)


async def _goes_on(world: World, what: Callable[[World, Node], Awaitable[object]]) -> None:
    old = leader_of(world)
    await write(world, old)
    await followers_have(world, old)
    cut_from_zookeeper(world, old)

    async def go_on() -> None:
        while True:
            await what(world, old)
            await asyncio.sleep(0.002)

    task = asyncio.create_task(go_on())
    new = await another(world, old)
    await write(world, new)
    await asyncio.sleep(0.2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@_scenario
async def a_transaction_is_open_while_another_leads(world: World) -> None:
    """It began under the old leader, which leads again when it commits."""
    old = leader_of(world)
    await write(world, old)
    await followers_have(world, old)  # or it might lead again before another does
    assert old.replica is not None
    session = old.replica.session()
    late = world.history.asked(old.host)

    async def begin() -> None:
        await session.execute(f"SET herdpy.request_id = 'w{late.number}'")
        await session.execute("BEGIN")
        await session.execute(f"UPDATE r SET v = {late.number}, c = c + 1 WHERE k = 1")
        await session.execute(f"INSERT INTO w VALUES ({late.number})")

    await old.begin(begin(), "transaction")
    new = await deposed(world, old)
    await write(world, new)
    await followers_have(world, new)
    others = [one for one in world.nodes.values() if one is not old]
    for node in others:
        node.pause()
    while not leads(old):
        await asyncio.sleep(0.01)
    try:
        await old.begin(session.execute("COMMIT"), "commit")
        world.history.ended(late, "done")
    except SqlError as error:
        world.history.ended(late, "not done", str(error))
    for node in others:
        node.resume()


@_scenario
async def the_leader_dies_before_it_tells_what_is_confirmed(world: World) -> None:
    """The client has its answer, the bookies do not know it."""
    old = leader_of(world)
    await write(world, old)
    await asyncio.sleep(1.0)
    await write(world, old)
    old.pause()
    follower = next(one for one in world.nodes.values() if one is not old)
    await read(world, follower, "bounded")
    old.resume()


@_scenario
async def a_follower_is_cut_from_the_log(world: World) -> None:
    """It was fresh once."""
    leader = leader_of(world)
    await write(world, leader)
    follower = next(one for one in world.nodes.values() if one is not leader)
    await read(world, follower, "bounded", 0.5)
    for host in world.bookie_hosts:
        world.cluster.network.partition(follower.host, host)
    await write(world, leader)
    await asyncio.sleep(1.0)
    await read(world, follower, "bounded", 0.5)


@_scenario
async def a_follower_hears_nothing_of_its_leader(world: World) -> None:
    """It had heard from it before, and reaches the bookies: it comes along in bounded time."""
    leader = leader_of(world)
    await write(world, leader)
    await followers_have(world, leader)
    follower = next(one for one in world.nodes.values() if one is not leader)
    with patch.object(Succession, "look", lambda _self: False):  # another ledger has no reports yet
        await write(world, leader)
        await asyncio.sleep(0.5)
        world.cluster.network.cut(leader.host, follower.host)
        for _ in range(8):  # the first ones by polls that were under way
            await write(world, leader)
            await _comes_along(world, follower, leader)


async def _comes_along(world: World, follower: Node, leader: Node) -> None:
    assert leader.replica is not None
    assert follower.replica is not None
    written_s = world.now()
    while follower.replica.applied < leader.replica.applied:
        if world.now() > written_s + 3.0:
            world.history.broken(f"{follower.host} waits for a leader that it does not hear")
            return
        await asyncio.sleep(0.01)


@_scenario
async def followers_of_a_leader_that_reports_need_no_news_of_bookies(world: World) -> None:
    """Each write is applied by them soon, although nothing of it is told by later entries."""
    leader = leader_of(world)
    assert leader.replica is not None
    for _ in range(5):
        await write(world, leader)
        await followers_have(world, leader)
        await asyncio.sleep(0.7)


@_scenario
async def the_answer_of_the_bookies_is_lost(world: World) -> None:
    """They have the entry, the leader does not know it and loses its session."""
    old = leader_of(world)
    await write(world, old)
    for host in world.bookie_hosts:
        world.cluster.network.cut(host, old.host)
    asked = asyncio.create_task(write(world, old))
    await asyncio.sleep(0.1)
    old.model.expire()
    await asked
    world.cluster.heal()
    await write(world, await another(world, old))


@_scenario
async def the_leader_is_cut_from_the_bookies(world: World) -> None:
    """Nothing of its last write is anywhere when it loses its session."""
    old = leader_of(world)
    await write(world, old)
    for host in world.bookie_hosts:
        world.cluster.network.partition(old.host, host)
        world.cluster.network.reset_connections(old.host, host)  # and what is under way is lost
    asked = asyncio.create_task(write(world, old))
    await asyncio.sleep(0.1)
    old.model.expire()
    await asked
    await write(world, await another(world, old))


@_scenario
async def one_bookie_alone_has_the_last_entry(world: World) -> None:
    """It is not confirmed, the leader dies, and the next one does not see that bookie.

    Where two must have each entry, and no other bookie is there, that is more than can be lost at once.
    """
    if world.info.write_quorum == 2:
        return
    old = leader_of(world)
    await write(world, old)
    await followers_have(world, old)
    network, (first, *rest) = world.cluster.network, world.bookie_hosts
    for host in rest:
        network.cut(old.host, host)
    asked = asyncio.create_task(write(world, old))
    await asyncio.sleep(0.3)
    await old.kill()
    bookie = next(one for one in world.cluster.bookies.values() if one.host == first)
    bookie.crash()
    await asked
    await write(world, await another(world, old))
    await bookie.start()


@_scenario
async def ledgers_roll(world: World) -> None:
    """Under a steady leader."""
    for _ in range(8):
        await write(world, leader_of(world))
        await asyncio.sleep(0.4)


@_scenario
async def the_log_is_trimmed_while_a_follower_sleeps(world: World) -> None:
    """Nobody else needs what it has not read yet."""
    leader = leader_of(world)
    assert leader.replica is not None
    follower = next(one for one in world.nodes.values() if one is not leader)
    paths = leader.coordination.layout.tablespace(NAME)
    while follower.name not in (await read_needs(leader.znodes, paths)).positions:
        await write(world, leader)
        await asyncio.sleep(0.1)
    follower.pause()
    info = msgspec.structs.replace(leader.replica.info, retention_bytes=0)
    await leader.begin(_written_and_trimmed(world, leader, info), "trimming")
    follower.resume()
    while follower.replica is not None and follower.replica.applied < leader.replica.applied:
        if follower.replica.problem is not None:
            world.history.broken(f"{follower.host} was there before: {follower.replica.problem}")
            return
        await asyncio.sleep(0.05)


async def _written_and_trimmed(world: World, leader: Node, info: TablespaceInfo) -> None:
    """Ledgers are closed and in the leader's checkpoint, and its duties have looked at them."""
    replica = leader.replica
    assert replica is not None
    assert replica.log is not None
    assert replica.opened is not None
    replica.altered(info)
    for _ in range(3):
        await write(world, leader)
        await replica.log.aroll()
        await write(world, leader)
    replica.opened.checkpointer.checkpoint(trim=False)
    await asyncio.sleep(5.0)  # more than one round of its duties


@_scenario
async def a_load_is_followed_and_taken_over(world: World) -> None:
    """By those who have to read its rows from its ledger."""
    old = leader_of(world)
    loaded = [await write(world, old, loads=True) for _ in range(3)]
    await followers_have(world, old)
    new = await deposed(world, old)
    loaded.append(await write(world, new, loads=True))
    await followers_have(world, new)
    for node in world.nodes.values():
        known = [
            node.replica and node.replica.opened and node.replica.opened.store.load(load_id(one.number))
            for one in loaded
        ]
        if None in known:
            world.history.broken(f"{node.host} knows the loads {known}")


@_scenario
async def a_follower_sleeps_during_a_load(world: World) -> None:
    """It has not read the load's ledger when the leader's duties look which of them may go."""
    leader = leader_of(world)
    follower = next(one for one in world.nodes.values() if one is not leader)
    await write(world, leader)
    await followers_have(world, leader)
    assert leader.replica is not None
    paths = leader.coordination.layout.tablespace(NAME)
    while follower.name not in (await read_needs(leader.znodes, paths)).positions:
        await write(world, leader)
        await asyncio.sleep(0.1)
    follower.pause()
    await leader.begin(write(world, leader, loads=True), "loading")
    info = msgspec.structs.replace(leader.replica.info, retention_bytes=0)
    await leader.begin(_written_and_trimmed(world, leader, info), "trimming")
    follower.resume()


@_scenario
async def staged_ledgers_go_with_the_log(world: World) -> None:
    """Those of loads that are trimmed, and no other."""
    leader = leader_of(world)
    assert leader.replica is not None
    assert leader.replica.opened is not None
    assert leader.replica.log is not None
    gone = await write(world, leader, loads=True)
    outcome = leader.replica.opened.store.load(load_id(gone.number))
    assert outcome is not None
    info = msgspec.structs.replace(leader.replica.info, retention_bytes=0)
    while leader.replica.log.state.base < outcome.lsn:
        await followers_have(world, leader)
        for node in world.nodes.values():
            if node.replica is not None and node.replica.opened is not None:
                node.replica.opened.checkpointer.checkpoint(trim=False)
        await leader.begin(_written_and_trimmed(world, leader, info), "trimming")
    kept = await write(world, leader, loads=True)
    left = set()
    for custom in (await leader.bk.custom_metadata()).values():  # spare ledgers may go meanwhile
        label = StagedLabel.of(custom)
        if label is not None:
            left.add(label.load_id)
    if left != {load_id(kept.number)}:
        world.history.broken(f"{left} is left of the loads {gone.number} and {kept.number}")


@_scenario
async def a_follower_is_asked_for_an_outcome(world: World) -> None:
    """It has not read so far."""
    leader = leader_of(world)
    await write(world, leader)
    await followers_have(world, leader)
    follower = next(one for one in world.nodes.values() if one is not leader)
    for host in world.bookie_hosts:
        world.cluster.network.partition(follower.host, host)
    await outcome(world, follower, await write(world, leader))


@_scenario
async def a_sleeping_leader_is_asked_for_an_outcome(world: World) -> None:
    """Another has taken the write when it wakes, and it does not know."""
    old = leader_of(world)
    await write(world, old)
    await followers_have(world, old)
    old.pause()
    new = await another(world, old)
    written = await write(world, new)
    asked = asyncio.create_task(outcome(world, old, written))
    await asyncio.sleep(0.1)
    old.resume()
    await asked


@_scenario
async def a_disk_is_lost_with_the_servers_while_a_bookie_is_away(world: World) -> None:
    """The log has shrunk to two bookies; one of them comes back empty under its name, the other one late."""
    leader = leader_of(world)
    *away, kept, lost = world.cluster.bookies.values()
    for bookie in away:
        bookie.crash()
    written = [await write(world, leader) for _ in range(8)]
    if not any(one.outcome == "done" for one in written):
        world.history.broken("nothing is written with two bookies")
    for node in list(world.nodes.values()):
        await node.kill()
    kept.crash()
    lost.crash()
    lost.wipe()
    await lost.start()
    for name in world.names:
        await world.start(name)
    await asyncio.sleep(6.0)
    if any(leads(node) for node in world.nodes.values()):
        world.history.broken("somebody leads on the word of a bookie that lost its disk")
    await kept.start()
    # A ledger that was made ahead may have those that are away in its ensemble: then they are needed, too.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(6.0):
            await write(world, await _new_leader(world))
    for bookie in away:
        await bookie.start()
    await write(world, await _new_leader(world))


async def _new_leader(world: World) -> Node:
    while True:
        for node in world.nodes.values():
            if leads(node):
                return node
        await asyncio.sleep(0.05)


_FAST_S = 3.0
"""Nobody may be kept from writing for longer by one replica that cannot reach what others reach."""
_SOON_S = 5.0
"""A leader that can write is in less of a hurry."""
_WATCHED_S = 12.0


@_scenario
async def the_preferred_leader_is_cut_from_all_bookies(world: World) -> None:
    """It reaches ZooKeeper, and would be given the leadership back again and again."""
    await _is_cut_off(world, world.bookie_hosts)


@_scenario
async def the_preferred_leader_reaches_one_bookie_only(world: World) -> None:
    """It can read, and write nothing."""
    await _is_cut_off(world, world.bookie_hosts[1:])


@_scenario
async def what_the_preferred_leader_sends_to_bookies_is_lost(world: World) -> None:
    """It hears them, as far as they have something to say."""
    await _is_cut_off(world, world.bookie_hosts, sent=True)


@_scenario
async def what_bookies_send_to_the_preferred_leader_is_lost(world: World) -> None:
    """They have its entries, and it does not know."""
    await _is_cut_off(world, world.bookie_hosts, received=True)


async def _is_cut_off(world: World, hosts: list[str], *, sent: bool = False, received: bool = False) -> None:
    """Another leads soon, for as long as the preferred leader is cut off; then that one leads again."""
    old = leader_of(world)
    await prefers(world, old)
    await write(world, old)
    await followers_have(world, old)
    cut_s = world.now()
    for host in hosts:
        if sent or not received:
            world.cluster.network.cut(old.host, host)
        if received or not sent:
            world.cluster.network.cut(host, old.host)
    asked = asyncio.create_task(write(world, old))
    new = await another(world, old)
    while (await write(world, new)).outcome != "done":
        await asyncio.sleep(0.05)
    if world.now() - cut_s > _FAST_S:
        world.history.broken(f"nothing was written for {world.now() - cut_s:.1f} s")
    await _leads_all_the_time(world, new, _WATCHED_S)
    await asked
    world.cluster.heal()
    while not leads(old):
        await asyncio.sleep(0.05)
    await write(world, old)


@_scenario
async def nobody_reaches_the_bookies(world: World) -> None:
    """The leader can write nothing, and neither can another: it stays, and reads go on."""
    await _stays(world, [node.host for node in world.nodes.values()])


@_scenario
async def a_lone_leader_is_cut_from_the_bookies(world: World) -> None:
    """There is nobody to give way to."""
    leader = leader_of(world)
    for node in world.nodes.values():
        if node is not leader:
            await node.kill()
    await asyncio.sleep(2 * world.session_s)  # their reports are gone
    await _stays(world, [leader.host])


async def _stays(world: World, cut_off: list[str]) -> None:
    leader = leader_of(world)
    await write(world, leader)
    assert leader.replica is not None
    for host in cut_off:
        for bookie in world.bookie_hosts:
            world.cluster.network.partition(host, bookie)
    await _leads_all_the_time(world, leader, 6.0)
    if await read(world, leader) is None:
        world.history.broken("a leader that stays does not answer")
    world.cluster.heal()
    while (await write(world, leader)).outcome != "done":
        await asyncio.sleep(0.1)
    if leader.replica.takeovers != 1:
        world.history.broken(f"it came to lead {leader.replica.takeovers} times")


async def _leads_all_the_time(world: World, leader: Node, seconds: float) -> None:
    until_s = world.now() + seconds
    while world.now() < until_s:
        if not leads(leader):
            world.history.broken(f"{leader.host} leads no more")
            return
        await asyncio.sleep(0.05)


@_scenario
async def the_disk_of_the_preferred_leader_is_full(world: World) -> None:
    """It could go on, until its memory is full, too."""
    old = leader_of(world)
    with disks(world, full=[old]):
        new = await _is_relieved(world, old)
    await _is_back(world, old, new)


@_scenario
async def the_store_of_the_preferred_leader_cannot_be_written(world: World) -> None:
    """Its disk says so, whatever room there is."""
    old = leader_of(world)
    assert old.replica is not None
    assert old.replica.opened is not None
    old.replica.opened.checkpointer.failure = OSError(errno.EIO, os.strerror(errno.EIO))
    new = await _is_relieved(world, old)
    old.replica.opened.checkpointer.failure = None
    await _is_back(world, old, new)


@_scenario
async def no_disk_has_room(world: World) -> None:
    """Whoever led would be no better."""
    leader = leader_of(world)
    with disks(world, full=list(world.nodes.values())):
        await _leads_all_the_time(world, leader, 6.0)
        if (await write(world, leader)).outcome != "done":
            world.history.broken("nothing is written although the bookies have room")


async def _is_relieved(world: World, old: Node) -> Node:
    """Another leads soon, and nothing that was under way is lost or unknown."""
    await prefers(world, old)
    began_s = world.now()
    asked = []
    while leads(old):
        asked.append(asyncio.create_task(write(world, old)))
        await asyncio.sleep(0.05)
    new = await another(world, old)
    while (await write(world, new)).outcome != "done":
        await asyncio.sleep(0.05)
    if world.now() - began_s > _SOON_S:
        world.history.broken(f"it led on for {world.now() - began_s:.1f} s")
    if any(one.outcome == "unknown" for one in await asyncio.gather(*asked)):
        world.history.broken("a leader that hands over finishes what it has begun")
    await _leads_all_the_time(world, new, _WATCHED_S)
    return new


async def _is_back(world: World, old: Node, new: Node) -> None:
    while not leads(old):
        await asyncio.sleep(0.05)
    await write(world, old)
    if leads(new):
        world.history.broken("two lead")


# Reads on followers.


def _followers(world: World, leader: Node) -> list[Node]:
    return [one for one in world.nodes.values() if one is not leader]


@contextlib.contextmanager
def _gets_no_entries(world: World, node: Node) -> Iterator[None]:
    """Neither of the bookies nor with reports; questions and answers pass."""
    for host in world.bookie_hosts:
        world.cluster.network.partition(node.host, host)
    with patch.object(FollowedLog, "report", lambda *_arguments, **_options: None):
        yield
    world.cluster.heal()


async def _connected(world: World, follower: Node, leader: Node) -> None:
    """The follower has had an answer of this leader, and waits for none."""
    assert follower.replica is not None
    if follower.replica.host.reports is None:
        return
    guard = follower.replica.guard
    while guard.leader is None or guard.leader.node != leader.name or not guard.questions.is_connected:
        await asyncio.sleep(0.01)
    await read(world, follower)


@_scenario
async def a_follower_is_read_while_others_write(world: World) -> None:
    """It answers at the level of leaders, each time with what was acknowledged before."""
    leader = leader_of(world)
    for follower in _followers(world, leader) * 3:
        await _connected(world, follower, leader)
        await write(world, leader)
        found = await read(world, follower)
        if found is None and world.seed % 3:
            world.history.broken(f"{follower.host} did not answer")


@_scenario
async def a_sleeping_leader_has_a_followers_question(world: World) -> None:
    """It wakes when another has led for a while, of which the follower has not heard."""
    old = leader_of(world)
    follower = _followers(world, old)[0]
    await write(world, old)
    await followers_have(world, old)
    await _connected(world, follower, old)
    world.cluster.network.partition(follower.host, "zookeeper")
    with _gets_no_entries(world, follower):
        old.pause()
        new = await another(world, old)
        await write(world, new)
        reading = asyncio.create_task(read(world, follower))
        await asyncio.sleep(0.5)
        old.resume()
        await reading


@_scenario
async def a_leaders_answer_is_late(world: World) -> None:
    """What it says of the log is no longer so when it arrives."""
    leader = leader_of(world)
    follower = _followers(world, leader)[0]
    await write(world, leader)
    await followers_have(world, leader)
    await _connected(world, follower, leader)
    await asyncio.sleep(0.1)
    with _gets_no_entries(world, follower):
        world.cluster.network.cut(leader.host, follower.host)
        await follower.begin(_asked(follower), "question")
        await asyncio.sleep(0.5)
        await write(world, leader)
        await asyncio.sleep(0.5)
        world.cluster.network.heal(leader.host, follower.host)
        await asyncio.sleep(0.2)
        await read(world, follower, "bounded", 0.5)


@_scenario
async def the_old_leaders_answer_comes_after_the_question_to_the_new_one(world: World) -> None:
    """It was to another question, and is of no use now."""
    old = leader_of(world)
    network = world.cluster.network
    await write(world, old)
    await followers_have(world, old)
    for follower in _followers(world, old):
        await _connected(world, follower, old)
        network.cut(old.host, follower.host)
        await _send_questions(follower)
    new = await deposed(world, old)
    (follower,) = [one for one in world.nodes.values() if one not in (old, new)]
    await _connected(world, follower, new)
    with _gets_no_entries(world, follower):
        await write(world, new)
        network.cut(new.host, follower.host)
        reading = asyncio.create_task(read(world, follower))
        await asyncio.sleep(0.1)
        network.heal(old.host, follower.host)
        await reading


async def _send_questions(node: Node) -> None:
    """Some that are never answered; one of them may have the number of a later one."""
    assert node.replica is not None
    questions = node.replica.guard.questions
    for _ in range(4 if questions.is_connected else 0):
        await asyncio.sleep(0.01)
        questions._is_under_way = False
        node.begin(_asked(node), "question")


async def _asked(node: Node) -> None:
    assert node.replica is not None
    node.replica.guard.questions.refresh()


@_scenario
async def the_leader_has_acknowledged_more_than_when_the_follower_came(world: World) -> None:
    """The follower gets no entries meanwhile: it must notice by the answer alone."""
    leader = leader_of(world)
    follower = _followers(world, leader)[0]
    await write(world, leader)
    await followers_have(world, leader)
    await _connected(world, follower, leader)
    with _gets_no_entries(world, follower):
        await write(world, leader)
        await asyncio.gather(read(world, follower), read(world, follower, "bounded"))


@_scenario
async def bookies_confirm_what_the_leader_has_not_acknowledged(world: World) -> None:
    """One follower has it from them and shows it; the other has it not."""
    leader = leader_of(world)
    first, second = _followers(world, leader)
    await write(world, leader)
    await followers_have(world, leader)
    for follower in (first, second):
        await _connected(world, follower, leader)
    assert first.replica is not None
    applied = first.replica.applied
    with _gets_no_entries(world, second), patch.object(OwnLedgers, "is_proven", lambda _self: False):
        writing = asyncio.create_task(write(world, leader))
        until_s = world.now() + 5.0
        while first.replica.applied == applied and world.now() < until_s:
            await asyncio.sleep(0.05)
            first.begin(_hurry(first), "hurry")
        await read(world, first)
        await read(world, second)
    await writing


async def _hurry(node: Node) -> None:
    assert node.replica is not None
    node.replica.guard.hurry()

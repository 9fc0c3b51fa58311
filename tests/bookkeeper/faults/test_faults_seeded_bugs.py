"""Faults that a client with a bug does not survive: each is played with the client as it is, and as it must
not be, and the judge tells the two apart.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from unittest.mock import patch

import pytest

from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.read import quorum
from herdpy.bookkeeper.wire import messages
from herdpy.bookkeeper.wire.entries import encode_read
from herdpy.bookkeeper.write.pipeline import Pipeline, Resent
from tests.bookkeeper.faults.workload import IN_FLIGHT, Tailing, appending
from tests.bookkeeper.faults.world import LOUD, reaches, run
from tests.support.relay import relay_to

pytestmark = pytest.mark.soak  # real processes for minutes: not with every commit


def without_fence():
    """Recovery reads and does not fence."""

    def fence_read(txn, ledger_id, master_key, entry_id=-1):
        return encode_read(txn, ledger_id, entry_id)

    return patch.object(messages, "fence_read", fence_read)


def with_old_acknowledgements():
    """What a bookie acknowledged counts for the one that replaced it, which is sent only the rest."""

    def use(self, bookies, deadline_s):
        changed = [index for index, old in enumerate(self.bookies) if old is not bookies[index]]
        self._adopt(bookies)
        for add in self.pending:
            for index in changed:
                if (add.targets & ~add.acked) >> index & 1:
                    bookies[index].send_add(add.txn, add.frame, Resent(add, deadline_s))
        self.changing = False
        self.confirm()

    return patch.object(Pipeline, "use", use)


def without_lac():
    """What a bookie has stored is taken for confirmed."""
    correct = quorum.proven_lac

    def proven_lac(reply, ledger_id, digest):
        lac = correct(reply, ledger_id, digest)
        if reply.last_entry_body:
            lac = max(lac, digest.open(reply.last_entry_body, ledger_id, None).entry_id)
        return lac

    return patch.object(quorum, "proven_lac", proven_lac)


@asynccontextmanager
async def written_through(relay):
    """A striped ledger of two bookies, written by a client that reaches ZooKeeper through the relay."""
    settings = replace(LOUD, zookeeper_timeout_s=30.0)
    bk = BookKeeper(f"zk://{relay.address}/ledgers", settings=settings)
    async with bk, appending(bk, 2, 2, 2) as work:
        yield work


async def recovered_behind_its_back(world):
    """The writer cannot hear from ZooKeeper that another client recovers its ledger."""
    async with (
        relay_to(world.cluster.zookeeper.hostport) as relay,
        world.client() as other,
        written_through(relay) as work,
    ):
        relay.cut()
        await other.open_ledger(work.writer.ledger_id, recover=True)
        goal = work.acknowledged_to + 50
        await work.signal.until(lambda: work.has_failed or work.acknowledged_to >= goal)
        await work.stop()
        relay.heal()
        await world.judged(work.history)


async def replaced_after_it_acknowledged(world):
    """A bookie has entries that its neighbour is late to store, and is lost before that has them, too."""
    async with world.client(LOUD) as bk, appending(bk, 3, 2, 2) as work:
        late, lost, _ = work.writer.metadata.last_segment.members
        pipeline = work.writer._pipeline
        both, second = 0b011, 0b010
        world.hurt("pause", world.bookie(late))
        await work.until(lambda: any((add.targets, add.acked) == (both, second) for add in pipeline.pending))
        world.hurt("kill", world.bookie(lost))
        await work.without(lost)
        world.bookie(late).resume()
        await work.more(50)
        await work.close()
        await world.judged(work.history)


async def stored_and_not_confirmed(world):
    """Entries are on one bookie of the two that must have them; recovery can ask only the other one."""
    async with (
        relay_to(world.cluster.zookeeper.hostport) as relay,
        world.client() as other,
        written_through(relay) as work,
    ):
        reader = await other.open_ledger(work.writer.ledger_id)
        tail = Tailing(reader, work.history, "tail")
        holder, other_one = work.writer.metadata.last_segment.members
        pending = work.writer._pipeline.pending
        relay.cut()  # so that no other bookie can take the lost one's place
        world.hurt("kill", world.bookie(other_one))
        await work.until(lambda: len(pending) == IN_FLIGHT and all(add.acked for add in pending))
        await work.give_up()
        work.history.saw_lac(await reader.read_last_add_confirmed())
        await tail.caught_up(work.history.highest_lac)
        world.hurt("pause", world.bookie(holder))
        await asyncio.to_thread(world.restore, world.bookie(other_one))
        await reaches(other, other_one)
        await other.open_ledger(work.writer.ledger_id, recover=True)
        await tail.finished()
        relay.heal()
        await world.judged(work.history)


@pytest.mark.parametrize("is_buggy", [False, True], ids=["correct", "buggy"])
@pytest.mark.parametrize(
    ("fault", "bug", "objection"),
    [
        (recovered_behind_its_back, without_fence, "was acknowledged, the ledger ends at"),
        (replaced_after_it_acknowledged, with_old_acknowledgements, r"is on \['.*'\] alone"),
        (stored_and_not_confirmed, without_lac, "a reader was answered that .* is confirmed, the end is"),
    ],
    ids=["fence", "acknowledgements", "last_add_confirmed"],
)
def test_the_judge_tells_a_correct_client_from_a_buggy_one(world, fault, bug, objection, is_buggy):
    with bug() if is_buggy else nullcontext():
        if is_buggy:
            with pytest.raises(AssertionError, match=objection):
                run(fault(world))
        else:
            run(fault(world))

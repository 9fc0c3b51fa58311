"""Writers, bookies and ZooKeeper fail while a ledger is recovered."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace

import pytest

from herdpy.bookkeeper import BookKeeper, LedgerFencedError, LedgerState, Outcome, RecoveryError
from herdpy.bookkeeper.metadata.ledger_store import Versioned
from tests.bookkeeper.faults.child_writer import child_writer
from tests.bookkeeper.faults.workload import PATIENCE_S, appending
from tests.bookkeeper.faults.world import QUICK, all_but, lost_zookeeper, run
from tests.support.relay import relay_to


async def recover(bk, history, name):
    """Recover a ledger, and put the end it then has into its history."""
    reader = await bk.open_ledger(history.ledger_id, recover=True)
    history.ended(name, reader.last_add_confirmed, reader.length_bytes)
    return reader


async def in_recovery(bk, ledger_id):
    """Return at the moment when the metadata say that the ledger is being recovered."""
    begun = asyncio.Event()

    def changed(versioned: Versioned | None) -> None:
        if versioned is not None and versioned.metadata.state is LedgerState.IN_RECOVERY:
            begun.set()

    watch = bk._open_parts().store.watch(ledger_id, changed)
    async with asyncio.timeout(PATIENCE_S):
        await begun.wait()
    watch.cancel()


async def leave_open(world, tail_of_unconfirmed=400):
    """A ledger whose writer is gone, with a tail of entries that nobody knows of."""
    async with world.client() as bk, appending(bk) as work:
        await work.more(50)
        for _ in range(tail_of_unconfirmed):
            work.append()
        await asyncio.sleep(0)  # the appends leave in this turn of the loop
    return work.history


def test_a_writer_is_killed_with_appends_in_flight(world):
    async def program():
        async with child_writer(world.uri) as child, world.client() as bk:
            await child.hear(500)
            child.signal(signal.SIGKILL)
            await child.hear_all()
            await recover(bk, child.history, "recoverer")
            await world.judged(child.history)

    run(program())


def test_a_writer_is_paused_while_its_ledger_is_recovered(world):
    async def program():
        async with child_writer(world.uri) as child, world.client() as bk:
            await child.hear(500)
            child.signal(signal.SIGSTOP)
            await recover(bk, child.history, "recoverer")
            child.signal(signal.SIGCONT)
            await child.hear_all()
            assert child.ended_with == LedgerFencedError.__name__
            await world.judged(child.history)

    run(program())


def test_several_recoverers_while_the_old_writer_appends(world):
    async def program():
        async with (
            world.client() as bk,
            world.client() as one,
            world.client() as two,
            appending(bk) as work,
        ):
            recoverers = [
                recover(client, work.history, f"recoverer {number}")
                for number, client in enumerate((one, two, one))
            ]
            await asyncio.gather(*recoverers)
            assert isinstance(await work.failed(), LedgerFencedError)
            await work.stop()
            assert all(isinstance(error, LedgerFencedError) for error in work.history.errors)
            with pytest.raises(LedgerFencedError) as refused:
                await work.writer.append(b"too late")
            assert refused.value.outcome is Outcome.NOT_DONE
            await world.judged(work.history)

    run(program())


def test_a_writer_cut_off_from_zookeeper_is_fenced_by_the_bookies(world):
    async def program():
        async with relay_to(world.cluster.zookeeper.hostport) as relay:
            settings = replace(QUICK, zookeeper_timeout_s=30.0)
            async with (
                BookKeeper(f"zk://{relay.address}/ledgers", settings=settings) as bk,
                world.client() as other,
                appending(bk) as work,
            ):
                relay.cut()
                await work.more(50)
                await recover(other, work.history, "recoverer")
                error = await work.failed()
                assert isinstance(error, LedgerFencedError)
                assert error.bookie in work.writer.metadata.last_segment.members
                await work.stop()
                relay.heal()
                await world.judged(work.history)

    run(program())


@pytest.mark.parametrize("fault", all_but("kill"))
def test_a_bookie_fails_while_a_ledger_is_recovered(world, fault):
    async def program():
        history = await leave_open(world)
        async with world.client() as bk, world.client() as other:
            members = (await bk.ledger_metadata(history.ledger_id)).last_segment.members
            recovering = asyncio.create_task(recover(bk, history, "recoverer"))
            await in_recovery(other, history.ledger_id)
            world.hurt(fault, world.bookie(members[1]))
            await recovering
            await world.judged(history)

    run(program())


def test_a_recovery_fails_without_a_quorum_and_is_done_later(world):
    async def program():
        history = await leave_open(world)
        async with world.client() as bk:
            members = (await bk.ledger_metadata(history.ledger_id)).last_segment.members
            world.hurt("pause", world.bookie(members[0]))
            world.hurt("kill", world.bookie(members[2]))
            with pytest.raises(RecoveryError):
                await bk.open_ledger(history.ledger_id, recover=True)
            assert (await bk.ledger_metadata(history.ledger_id)).state is LedgerState.IN_RECOVERY
            await asyncio.to_thread(world.heal)
            await recover(bk, history, "recoverer")
            await world.judged(history)

    run(program())


@pytest.mark.parametrize("fault", all_but("cut", "kill"))
def test_zookeeper_is_away_while_a_ledger_is_recovered(world, fault):
    async def program():
        history = await leave_open(world)
        async with world.client() as bk, world.client() as other:
            recovering = asyncio.create_task(recover(bk, history, "recoverer"))
            await in_recovery(other, history.ledger_id)
            world.hurt(fault, world.cluster.zookeeper)
            await lost_zookeeper(other)
            await asyncio.to_thread(world.restore, world.cluster.zookeeper)
            await recovering
            await world.judged(history)

    run(program())


def test_a_recoverer_dies_and_another_takes_over(world):
    async def program():
        history = await leave_open(world)
        async with world.client() as bk:
            async with world.client() as dying:
                recovering = asyncio.create_task(recover(dying, history, "dying"))
                await in_recovery(bk, history.ledger_id)
                recovering.cancel()
                await asyncio.wait([recovering])
            await recover(bk, history, "recoverer")
            await world.judged(history)

    run(program())

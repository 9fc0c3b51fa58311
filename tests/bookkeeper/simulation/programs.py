"""The programs of a simulated run: a writer, readers, tailing readers and recoverers of one ledger.

Each has a client of its own on a host of its own. They meet every error that the client may raise, and go on
or give up; an error of another kind ends the run.
"""

from __future__ import annotations

import asyncio
import random

from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.errors import BackPressureError, BookKeeperError, NoSuchEntryError, NoSuchLedgerError
from herdpy.bookkeeper.write import LedgerWriter
from tests.bookkeeper.simulation.history import Append, LedgerHistory
from tests.bookkeeper.simulation.world import World


async def open_client(world: World, host: str) -> BookKeeper:
    """A client, however long it takes until ZooKeeper lets it in."""
    while True:
        client = world.client(host)
        try:
            await client.open()
        except BookKeeperError as error:
            world.tell(f"{host}: can not open: {error!r}")
            await client.close()
            await asyncio.sleep(0.5)
        else:
            return client


async def write(world: World, rng: random.Random, host: str) -> None:
    """Create a ledger, announce it, append to it, and maybe close it."""
    client = await open_client(world, host)
    try:
        writer = await _create(world, client)
        history = world.announce(writer.ledger_id, writer.metadata)
        pending: dict[asyncio.Future[int], Append] = {}
        await _append_all(world, rng, writer, history, pending)
        ending = rng.random()
        if ending < 0.7:
            if ending < 0.5 and pending:
                await asyncio.wait(pending)
            await _close(world, writer, history, pending)
    finally:
        await client.close()
    await asyncio.sleep(0)
    if pending:
        history.break_promise(f"{len(pending)} appends have no outcome though the client is closed")


async def _create(world: World, client: BookKeeper) -> LedgerWriter:
    while True:
        try:
            return await client.create_ledger(
                world.ensemble_size,
                world.write_quorum,
                world.ack_quorum,
                world.digest,
                b"secret",
                {},
                deferred_sync=world.is_deferred,
            )
        except BookKeeperError as error:
            world.tell(f"can not create: {error!r}")
            await asyncio.sleep(0.5)


async def _append_all(
    world: World,
    rng: random.Random,
    writer: LedgerWriter,
    history: LedgerHistory,
    pending: dict[asyncio.Future[int], Append],
) -> None:
    window = rng.choice((1, 2, 5, 20))
    pause_s = rng.choice((0.0, 0.02, 0.3, world.trouble_s / 6))
    if world.is_storm:
        window, pause_s = 20, 0.3
    if world.is_coup:
        pause_s = world.trouble_s / 4
    for number in range(rng.randint(1, world.most_appends)):
        data = b"%d/%d " % (writer.ledger_id, number) + rng.randbytes(rng.choice((0, 0, 10, 700)))
        append = history.submitted(data, writer.last_add_confirmed)
        try:
            future = writer.append_nowait(data)
        except BackPressureError as error:
            history.failed(append, error, error.outcome)
            await writer.room()
            continue
        except BookKeeperError as error:
            history.failed(append, error, error.outcome)
            if rng.random() < 0.5:
                return
            await asyncio.sleep(0.2)
            continue
        pending[future] = append
        future.add_done_callback(lambda done: _appended(world, history, pending.pop(done), done))
        while len(pending) >= window:
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        if pause_s and rng.random() < 0.3:
            await asyncio.sleep(rng.uniform(0, pause_s))
        if world.is_deferred and rng.random() < 0.2:
            await _force(writer, history)


def _appended(world: World, history: LedgerHistory, append: Append, done: asyncio.Future[int]) -> None:
    error = done.exception()
    if error is None:
        history.acknowledged(append, done.result())
        world.check_durable(history, done.result())
    elif isinstance(error, BookKeeperError):
        history.failed(append, error, error.outcome)
    else:
        history.break_promise(f"append {append.number} raised {error!r}")


async def _force(writer: LedgerWriter, history: LedgerHistory) -> None:
    pushed = writer.last_add_pushed
    try:
        await writer.force()
    except BookKeeperError as error:
        history.tell(f"force failed: {error!r}")
    else:
        history.forced(pushed, writer.last_add_confirmed)


async def _close(
    world: World,
    writer: LedgerWriter,
    history: LedgerHistory,
    pending: dict[asyncio.Future[int], Append],
) -> None:
    for _ in range(3):
        try:
            await writer.close()
        except BookKeeperError as error:
            history.tell(f"close failed: {error!r}")
            await asyncio.sleep(0.5)
            continue
        history.ended("writer", writer.last_add_confirmed, writer.length_bytes)
        await asyncio.sleep(0)  # callbacks of the last appends
        if pending:
            history.break_promise(f"closed with {len(pending)} appends still in flight")
        return


async def recover(world: World, rng: random.Random, host: str) -> None:
    """Recover a ledger at some moment, and read it."""
    history = await world.some_ledger(rng)
    await asyncio.sleep(world.moment_of_recovery(rng))
    client = await open_client(world, host)
    try:
        for _ in range(rng.randint(1, 4)):
            history.recovery_began_s = history.recovery_began_s or world.now()
            world.tell(f"{host}: recovers ledger {history.ledger_id}")
            try:
                reader = await client.open_ledger(history.ledger_id, b"secret", recover=True)
            except BookKeeperError as error:
                world.tell(f"{host}: recovery failed: {error!r}")
                await asyncio.sleep(rng.uniform(0, 1))
                continue
            metadata = reader.metadata
            if not metadata.is_closed:
                history.break_promise(f"{host} recovered it and it is {metadata.state}")
            history.ended(host, metadata.last_entry_id, metadata.length_bytes)
            await _read(history, host, reader, 0, metadata.last_entry_id)
            return
    finally:
        await client.close()


async def _read(history: LedgerHistory, host: str, reader: object, first: int, last: int) -> None:
    try:
        async for entry in reader.read(first, last):  # type: ignore[attr-defined]
            history.saw_entry(host, entry)
    except NoSuchEntryError as error:
        history.break_promise(f"{host} found no entry where one is confirmed: {error!r}")
    except BookKeeperError as error:
        history.tell(f"{host}: reading failed: {error!r}")


async def read(world: World, rng: random.Random, host: str) -> None:
    """Look at the ledger from time to time: its LAC, and some entries up to there."""
    history = await world.some_ledger(rng)
    client = await open_client(world, host)
    try:
        for _ in range(rng.randint(1, 6)):
            await asyncio.sleep(rng.uniform(0, world.trouble_s / 4))
            told = history.told_to
            try:
                reader = await client.open_ledger(history.ledger_id, b"secret")
                lac = await reader.read_last_add_confirmed()
            except BookKeeperError as error:
                world.tell(f"{host}: no LAC: {error!r}")
                continue
            history.asked_for_lac(host, told, lac)
            if lac >= 0:
                first = rng.randint(0, lac)
                await _read(history, host, reader, first, rng.randint(first, lac))
            await reader.close()
    finally:
        await client.close()


async def tail(world: World, rng: random.Random, host: str) -> None:
    """Follow the ledger to its end, opening it anew after an error."""
    history = await world.some_ledger(rng)
    client = await open_client(world, host)
    history.tails[host] = []
    try:
        while True:
            try:
                reader = await client.open_ledger(history.ledger_id, b"secret")
                async for entry in reader.tail(len(history.tails[host])):
                    history.tailed(host, entry)
            except (NoSuchEntryError, NoSuchLedgerError) as error:
                history.break_promise(f"{host} tailed into nothing: {error!r}")
                return
            except BookKeeperError as error:
                world.tell(f"{host}: tailing failed: {error!r}")
                await asyncio.sleep(0.3)
                continue
            history.finished_tails.append(host)
            await reader.close()
            return
    finally:
        await client.close()

"""The programs of a simulated run: nodes that lead when they can, nodes that follow, and one that sees all.

A life of a leading node: open a client, take an epoch, take over, read to the end, lead, append, and end by
being fenced, by resigning, or by crashing, then live again. The archivist has a host that nothing
happens to; what it has read in the end is the log.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from herdpy.bookkeeper.errors import BookKeeperError
from herdpy.log import LSN, START, Append, Insert, LogError, LoggedTransaction, LogTrimmedError
from herdpy.log.bookkeeper import FollowedLog, LeaderLog, take_over
from tests.log_bookkeeper.simulation.history import Seen
from tests.log_bookkeeper.simulation.world import CrashingZnodes, World


class Candidate:
    """One node that would lead."""

    def __init__(self, world: World, name: str, rng: random.Random) -> None:
        self.world = world
        self.name = name
        self.rng = rng
        self.log: LeaderLog | None = None
        self.life: asyncio.Task[None] | None = None
        self.stopping = False
        self.archive: Seen | None = None
        self._znodes: CrashingZnodes | None = None

    async def run(self) -> None:
        """Live again and again, until there has been enough trouble."""
        lives = 0
        while not self.stopping:
            lives += 1
            self.life = asyncio.create_task(self._live(lives), name=f"{self.name} life {lives}")
            await asyncio.wait([self.life])
            if not self.life.cancelled() and (error := self.life.exception()) is not None:
                raise error
            await asyncio.sleep(self.rng.uniform(0.05, 1.0))

    def crash(self) -> None:
        """The process is killed: nobody hears of it but by what it does not do any more."""
        if self.life is None or self.life.done():
            return
        self.world.tell(f"{self.name} crashes")
        if self._znodes is not None:
            self._znodes.abandon()
        self.life.cancel()

    async def _live(self, life: int) -> None:
        world, rng = self.world, self.rng
        bk, znodes = world.client(self.name, life)
        znodes.on_crash = self.crash
        if rng.random() < 0.4:
            znodes.crash_in = rng.randint(1, 25)
            znodes.crash_after = rng.random() < 0.5
        self._znodes = znodes
        closing: list[FollowedLog] = []
        try:
            await bk.open()
            await asyncio.sleep(rng.expovariate(1.0))
            ledger_list = world.ledger_list(bk)
            known = await ledger_list.read() if rng.random() < 0.6 else None  # which is old when it is used
            world.epoch += 1
            epoch = world.epoch
            if rng.random() < 0.3:
                await asyncio.sleep(rng.uniform(0, 0.5))  # another may have been elected meanwhile
            world.tell(f"{self.name} takes over in epoch {epoch}")
            takeover = await take_over(bk, ledger_list, world.settings, self.name, epoch, known=known)
            closing.append(takeover.log)
            world.history.taken_over(epoch, takeover.end)
            await self._replay(takeover.log, takeover.end, takeover.state.base, epoch)
            leader = f"{self.name}/{epoch}"
            open_rng = random.Random(f"{world.seed} {leader} open")
            self.log = await takeover.lead(
                lambda appends, error: world.history.told(leader, epoch, appends, error),
                on_lost=lambda error: world.tell(f"{leader} lost the log: {error}"),
                clock=world.now,
                open_transactions=lambda: open_rng.choice((0, 1, 40)),
            )
            world.leaders.append(self.log)
            world.tell(f"{leader} leads")
            await self._append(self.log, leader)
            if rng.random() < 0.4:
                world.tell(f"{leader} resigns")
                await self.log.aclose()
        except (LogError, BookKeeperError) as error:
            world.tell(f"{self.name}: {error!r}")
        finally:
            if self.log is not None:
                self.log.abandon()
                self.log = None
            for log in closing:
                await log.close()
            await bk.close()

    async def _replay(self, log: FollowedLog, end: LSN, base: LSN, epoch: int) -> None:
        seen = Seen(f"{self.name} taking over in epoch {epoch}", base)
        self.world.history.seen.append(seen)
        async for lsn, entry in log.read(base, end):
            seen.take(lsn, entry)
        if (seen.entries[-1][0] if seen.entries else base) != end:
            self.world.history.broken(f"{seen.name} ends before {end}")

    async def _append(self, log: LeaderLog, leader: str) -> None:
        world, rng = self.world, self.rng
        pause_s = rng.choice((0.0, 0.002, 0.02, 0.2))
        until_s = world.now() + rng.choice((0.5, 2.0, 6.0))
        last: Append | None = None
        while log.failure is None and world.now() < until_s and not self.stopping:
            for _ in range(rng.choice((1, 1, 3, 10))):
                written = world.history.appended(leader)
                size = rng.choice((0, 20, 20, 100, 1000))
                try:
                    last = log.append(LoggedTransaction(written.number, [Insert(1, b"key", bytes(size))]))
                except LogError as error:
                    world.history.refused(written, error)
            if last is not None and rng.random() < 0.5:
                try:
                    await last
                except LogError:
                    return
            await asyncio.sleep(rng.uniform(0, pause_s) if pause_s else 0.0005)
            await self._upkeep(log)

    async def _upkeep(self, log: LeaderLog) -> None:
        chance = self.rng.random()
        if chance < 0.02:
            await log.aroll()
        elif chance < 0.06 and self.archive is not None:
            gone = await log.atrim(self.archive.assembler.safe)
            if gone:
                self.world.tell(f"{self.name} trimmed ledgers {gone}")
        elif chance < 0.065:
            await log.asweep()


async def archive(world: World, seen: Seen, log_made: Callable[[FollowedLog], None]) -> None:
    """Read everything there ever is."""
    bk, _ = world.client("archive")
    await bk.open()
    log = FollowedLog(bk, world.ledger_list(bk), world.settings)
    log_made(log)
    try:
        async for lsn, entry in log.tail(START):
            seen.take(lsn, entry)
    finally:
        await log.close()
        await bk.close()


class Follower:
    """A node that follows; it pauses, restarts where it was, and begins anew when it came too late."""

    def __init__(self, world: World, name: str, rng: random.Random, archived: Seen) -> None:
        self.world, self.name, self.rng = world, name, rng
        self.archived = archived
        self.seen = Seen(name)
        self.calm = False
        world.history.seen.append(self.seen)
        self._reports = random.Random(f"{world.seed} {name} reports")
        self._listens = self._reports.random() < 0.5

    async def run(self) -> None:
        """Follow for ever; cancelled in the end."""
        lives = 0
        while True:
            lives += 1
            bk, _ = self.world.client(self.name, lives)
            try:
                await bk.open()
                await self._follow(FollowedLog(bk, self.world.ledger_list(bk), self.world.settings))
            except LogTrimmedError as error:
                self.world.tell(f"{self.name}: {error}")
                self.seen = Seen(f"{self.name} again", self.archived.assembler.safe)
                self.world.history.seen.append(self.seen)
            except (LogError, BookKeeperError) as error:
                if not isinstance(error, BookKeeperError) and type(error).__name__ in _DAMAGE:
                    self.world.history.broken(f"{self.name}: {error!r}")
                    return
                self.world.tell(f"{self.name}: {error!r}")
            finally:
                await bk.close()
            await asyncio.sleep(self.rng.uniform(0.01, 0.5))

    async def _follow(self, log: FollowedLog) -> None:
        rng = self.rng
        until_s = self.world.now() + rng.choice((0.3, 2.0, 1e6))
        slow = rng.random() < 0.3
        hearing = asyncio.create_task(self._hear(log), name=f"{self.name} hears")
        try:
            reading = log.read if rng.random() < 0.2 and not self.calm else log.tail
            async for lsn, entry in reading(self.seen.assembler.position):
                self.seen.take(lsn, entry)
                if self.world.now() > until_s and not self.calm:
                    return
                if slow and not self.calm:
                    await asyncio.sleep(rng.uniform(0, 0.2))
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
            await log.close()

    async def _hear(self, log: FollowedLog) -> None:
        """Reports of the leader and of the one before it, which overtake one another."""
        rng, world, loop = self._reports, self.world, asyncio.get_running_loop()
        while self._listens:
            await asyncio.sleep(rng.expovariate(1 / 0.02))
            if not world.leaders or rng.random() < 0.01:
                await asyncio.sleep(rng.uniform(0, 3.0))
                continue
            reported = world.reported(rng.choice(world.leaders[-2:]))
            delay_s = rng.choice((0.001, 0.05, 2.0)) * rng.random()
            loop.call_later(delay_s, log.report, reported, rng.choice((0.05, 0.5, 2.0)))


_DAMAGE = {"ChainError", "CorruptLedgerError"}

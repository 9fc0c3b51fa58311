"""Random histories of one writer, and what must hold in each of them; a seed is a history.

The world is the fakes' (``writer_fakes``): bookies that answer late, not, or with an error, metadata that
others change meanwhile, sometimes a fence. The checks know nothing of how the writer works: they look at what
callers were answered, at what bookies stored, and at what the metadata says.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from herdpy.bookkeeper.errors import (
    TIMED_OUT,
    UNAVAILABLE,
    BackPressureError,
    BookKeeperError,
    LedgerFencedError,
    NotEnoughBookiesError,
)
from herdpy.bookkeeper.placement import write_set
from herdpy.bookkeeper.wire.protocol import ReplyStatus
from tests.bookkeeper.writer_fakes import FENCED, OK, Bench, FakeBookie, Sent, settle

FAILURES = (
    TIMED_OUT,
    UNAVAILABLE,
    int(ReplyStatus.EREADONLY),
    int(ReplyStatus.ETOOMANYREQUESTS),
    int(ReplyStatus.EIO),
)


class WatchedBookie(FakeBookie):
    """Checks each add against the writer's state at the moment it is sent."""

    history: History

    def send_add(self, txn: int, frame: bytes, op: Any) -> None:
        assert txn not in {sent.request.header.txn for sent in self.sent}, "a transaction id used twice"
        super().send_add(txn, frame, op)
        self.history.sent(self.sent[-1])


class History:
    """One run: steps until the writer has appended enough or has failed, then an end and last checks."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        ensemble = rng.randint(1, 5)
        write_quorum = rng.randint(1, ensemble)
        ack_quorum = rng.randint(1, write_quorum)
        self.bench = Bench(
            ensemble,
            write_quorum,
            ack_quorum,
            bookies=ensemble + rng.choice((1, 3, 8)),
            seed=seed,
            max_in_flight_entries=rng.choice((1, 3, 20)),
        )
        for bookie in self.bench.bookies:
            bookie.__class__ = WatchedBookie
            bookie.history = self
        self.quorums = ensemble, write_quorum, ack_quorum
        self.entries = rng.randint(5, 60)
        self.failing = rng.choice((0.0, 0.02, 0.1, 0.3))
        self.fence_at = rng.randint(0, 400) if rng.random() < 0.3 else None
        self.fenced = False
        self.told: list[int] = []
        self.futures: list[asyncio.Future[int]] = []
        self.lengths: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.bench.store.before_write = self.before_write

    async def before_write(self) -> None:
        await self.gate.wait()
        if self.rng.random() < 0.2:
            self.bench.store.set(self.bench.store.now.metadata)

    async def run(self) -> None:
        for step in range(10_000):
            if len(self.futures) >= self.entries or self.bench.writer.failure is not None:
                break
            self.step(step)
            for _ in range(self.rng.choice((0, 0, 1, 3))):
                await asyncio.sleep(0)
            self.check()
        await self.finish()

    def step(self, step: int) -> None:
        rng = self.rng
        outstanding = [sent for bookie in self.bench.bookies for sent in bookie.sent]
        if step == self.fence_at:
            self.fence()
        elif rng.random() < 0.05:
            self.gate.clear() if self.gate.is_set() else self.gate.set()
        elif rng.random() < 0.4 or not outstanding:
            self.append()
        elif rng.random() < self.failing:
            rng.choice(outstanding).reply(rng.choice(FAILURES))
        elif rng.random() < self.failing / 4:
            # All that one bookie has, in any order.
            victims = list(rng.choice(outstanding).bookie.sent)
            rng.shuffle(victims)
            for sent in victims:
                sent.reply(UNAVAILABLE)
        else:
            self.answer(rng.choice(outstanding))

    def fence(self) -> None:
        """A recoverer marks the metadata and fences some bookies; the watch tells of it some other time."""
        store = self.bench.store
        told, store.callback = store.callback, None
        store.set(store.now.metadata.in_recovery())
        store.callback = told
        self.fenced = True

    def answer(self, sent: Sent) -> None:
        sent.reply(FENCED if self.fenced and self.rng.random() < 0.5 else OK)

    def append(self) -> None:
        data = bytes(self.rng.randint(0, 20))
        try:
            future = self.bench.writer.append_nowait(data)
        except BackPressureError:
            return
        except BookKeeperError:
            assert self.bench.writer.failure is not None
            return
        entry_id = len(self.futures)
        self.futures.append(future)
        self.lengths.append(len(data) + (self.lengths[-1] if self.lengths else 0))
        future.add_done_callback(lambda done: self.done(entry_id, done))

    def done(self, entry_id: int, future: asyncio.Future[int]) -> None:
        if future.exception() is None:
            assert future.result() == entry_id, "told another id"
            self.told.append(entry_id)

    def sent(self, sent: Sent) -> None:
        assert sent.entry.lac <= self.bench.writer.last_add_confirmed, "an add carries more than is confirmed"
        entry_id = sent.entry_id
        ensemble, write_quorum, _ = self.quorums
        if entry_id < len(self.lengths):
            assert sent.entry.length == self.lengths[entry_id], "the length is not cumulative"
        members = [one.id for one in self.bench.writer._pipeline.bookies]
        assert members.index(sent.bookie.id) in write_set(entry_id, ensemble, write_quorum), (
            "not its write set"
        )

    def check(self) -> None:
        """What must hold at any time."""
        writer, metadata = self.bench.writer, self.bench.store.now.metadata
        ensemble, write_quorum, ack_quorum = self.quorums
        done = [future.done() and future.exception() is None for future in self.futures]
        count = sum(done)
        assert done == [True] * count + [False] * (len(done) - count), "confirmed out of order"
        assert writer.last_add_confirmed == count - 1, "the last add confirmed is not the last one confirmed"
        for entry_id in range(count):
            members = metadata.ensemble_at(entry_id).members
            holders = [
                index
                for index in write_set(entry_id, ensemble, write_quorum)
                if entry_id in self.bench.pool.get(members[index]).stored
            ]
            assert len(holders) >= ack_quorum, (
                f"entry {entry_id} is confirmed and too few of its bookies have it"
            )

    async def finish(self) -> None:
        """Let what is still open end well: then every entry is confirmed, or the writer has failed."""
        self.gate.set()
        for _ in range(500):
            await settle()
            outstanding = [sent for bookie in self.bench.bookies for sent in bookie.sent]
            if not outstanding:
                break
            self.answer(self.rng.choice(outstanding))
            self.check()
        await settle()
        failure = self.bench.writer.failure
        confirmed_before = list(self.told)
        if failure is None:
            assert all(future.done() for future in self.futures), "an entry is stuck"
            assert self.told == list(range(len(self.futures))), "reported in another order"
        elif self.fenced:
            assert isinstance(failure, LedgerFencedError | NotEnoughBookiesError)
        else:
            assert isinstance(failure, NotEnoughBookiesError), f"failed for no reason: {failure}"
        for bookie in self.bench.bookies:
            bookie.reply_all()
        await settle()
        self.check()
        assert self.told == confirmed_before, "confirmed after the end"
        assert all(future.done() for future in self.futures)


class FencedHistory(History):
    """A recovery for certain: from the moment the writer has heard of the fence nothing may be confirmed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.fence_at = self.rng.randint(0, 40)
        self.heard_at: int | None = None

    def answer(self, sent: Sent) -> None:
        status = FENCED if self.fenced and self.rng.random() < 0.5 else OK
        if status == FENCED and self.heard_at is None:
            self.heard_at = self.bench.writer.last_add_confirmed
        sent.reply(status)
        if self.heard_at is not None:
            assert self.bench.writer.failure is not None, "goes on although fenced"
            assert self.bench.writer.last_add_confirmed == self.heard_at, "confirmed after the fence"


def play(kind: type[History], seed: int) -> History:
    """Run one history; an assertion that fails names the seed."""

    async def main() -> History:
        history = kind(seed)
        await history.run()
        history.bench.writer.abandon(BookKeeperError("the history is over"))
        return history

    try:
        return asyncio.run(main())
    except AssertionError as failed:
        failed.add_note(f"{kind.__name__}, seed {seed}")
        raise

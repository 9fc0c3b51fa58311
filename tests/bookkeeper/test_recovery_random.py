"""Recovery by chance: random placement, a writer that goes on, bookies out of reach, rival recoverers.

Whatever was confirmed to a writer is in the recovered ledger, and everybody who recovers sees one end.
Each seed is a run of its own that repeats exactly.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from herdpy.bookkeeper.errors import RecoveryError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerState
from tests.bookkeeper.reader_fakes import (
    DIGEST,
    LEDGER,
    FakeBookie,
    Ledger,
    length_at,
    run,
    sealed,
)

SEEDS = 250


class Writer:
    """A writer without any defence of its own: it adds until bookies refuse, and counts acknowledgements."""

    def __init__(self, ledger: Ledger, rng: random.Random, next_id: int, confirmed: int) -> None:
        self.confirmed = confirmed
        self._ledger = ledger
        self._rng = rng
        self._next = next_id
        self._acks: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Add entries, several at a time, to their whole write sets."""
        for entry_id in range(self._next, self._next + self._rng.randint(0, 30)):
            body = sealed(entry_id, self.confirmed)
            for bookie in self._ledger.holders(entry_id):
                self._tasks.add(asyncio.ensure_future(self._add(bookie, entry_id, body)))
            await asyncio.sleep(self._rng.uniform(0, 0.004))
        await asyncio.gather(*self._tasks)

    async def _add(self, bookie: FakeBookie, entry_id: int, body: bytes) -> None:
        await asyncio.sleep(self._rng.uniform(0, 0.02))
        if bookie.fenced or bookie.down or bookie.silent:
            return
        bookie.store(entry_id, body)
        await asyncio.sleep(self._rng.uniform(0, 0.005))
        self._acks[entry_id] = self._acks.get(entry_id, 0) + 1
        while self._acks.get(self.confirmed + 1, 0) >= self._ledger.metadata.ack_quorum:
            self.confirmed += 1


def prepare(rng: random.Random) -> tuple[Ledger, Writer]:
    """A ledger in the middle of its life: everything sent, a random part of it stored and acknowledged."""
    ensemble_size = rng.randint(1, 6)
    write_quorum = rng.randint(1, ensemble_size)
    ack_quorum = rng.randint(1, write_quorum)
    spares = [f"s{number}" for number in range(rng.randint(0, 3))]
    ledger = Ledger(ensemble_size, write_quorum, ack_quorum, *spares)
    first = 0
    if rng.random() < 0.4:  # an earlier ensemble, all confirmed
        first = rng.randint(1, 10)
        ledger.write(0, first - 1)
        ledger.replace(first, tuple(f"n{number}" for number in range(ensemble_size)))
    confirmed, unbroken = first - 1, True
    next_id = first + rng.randint(0, 15)
    thoroughness = rng.random()
    for entry_id in range(first, next_id):
        known = rng.randint(max(-1, confirmed - 3), confirmed)
        stored = [bookie for bookie in ledger.holders(entry_id) if rng.random() < thoroughness]
        for bookie in stored:
            bookie.store(entry_id, sealed(entry_id, known))
        unbroken = unbroken and len(stored) >= ack_quorum
        if unbroken:
            confirmed = entry_id
    return ledger, Writer(ledger, rng, next_id, confirmed)


def break_something(ledger: Ledger, rng: random.Random) -> None:
    for member in ledger.store.metadata.last_segment.members:
        bookie = ledger.pool.get(member)
        bookie.delay_s = rng.choice([0.001, rng.uniform(0.001, 0.03), rng.uniform(0, 1)])
        match rng.randrange(14):
            case 0:
                bookie.down = True
            case 1:
                bookie.silent = True
            case 2:
                bookie.failing_adds = 501
            case 3 if bookie.entries and ledger.metadata.write_quorum > 2:
                # One replica of the last entries is damaged; only a crowd of them could make one unreadable.
                last = max(bookie.entries)
                if rng.random() < 0.3:
                    bookie.entries[last] = bookie.entries[last][:-1] + b"?"
    for name in ledger.placement.spares:
        ledger.pool.get(name).down = rng.random() < 0.2


async def recover(ledger: Ledger, rng: random.Random) -> Any:
    await asyncio.sleep(rng.choice([0, rng.uniform(0, 0.05), rng.uniform(0, 2)]))
    try:
        return await ledger.recover()
    except RecoveryError as error:
        return error


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_confirmed_is_lost_and_all_see_one_end(seed: int) -> None:
    rng = random.Random(seed)

    async def program() -> None:
        ledger, writer = prepare(rng)
        writing = asyncio.ensure_future(writer.run())
        await asyncio.sleep(rng.uniform(0, 0.03))
        break_something(ledger, rng)
        ends = await asyncio.gather(*(recover(ledger, rng) for _ in range(rng.randint(1, 3))))
        await writing
        metadata = ledger.store.metadata
        for end in ends:
            if isinstance(end, RecoveryError):
                assert "below" not in str(end)
            else:
                assert end.metadata is metadata
        if metadata.state is not LedgerState.CLOSED:
            assert all(isinstance(end, RecoveryError) for end in ends)
            assert metadata.state is LedgerState.IN_RECOVERY
            for bookie in ledger.pool.bookies.values():  # they come back, and it is tried again
                bookie.down = bookie.silent = False
                bookie.failing_adds = 0
            # What is damaged beyond repair may stay unreadable; then the recovery has to say so.
            end = await recover(ledger, rng)
            if isinstance(end, RecoveryError):
                assert "digest" in str(end)
                return
            metadata = ledger.store.metadata
        last = metadata.last_entry_id
        assert last >= writer.confirmed
        assert metadata.length_bytes == (length_at(last) if last >= 0 else 0)
        for entry_id in range(last + 1):
            holders = ledger.holders(entry_id)
            assert any(is_good(bookie, entry_id) for bookie in holders), f"{entry_id} of {last} is nowhere"

    run(program, seed)


def is_good(bookie: FakeBookie, entry_id: int) -> bool:
    """Whether a bookie has an entry that a reader would take."""
    body = bookie.entries.get(entry_id)
    if body is None or DIGEST.checksum(body[:32], body[36:]) != body[32:36]:
        return False
    assert DIGEST.open(body, LEDGER, entry_id).length == length_at(entry_id)
    return True

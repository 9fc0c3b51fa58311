"""Following a ledger while bookies fail, lag, lie or do not know of it yet."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from herdpy.bookkeeper.errors import TooManyRequestsError
from herdpy.bookkeeper.wire.messages import LacReply
from tests.bookkeeper.reader_fakes import DIGEST, LEDGER, SETTINGS, Ledger, run, sealed
from tests.bookkeeper.tail_follower import Follower, now


def test_a_bookie_that_claims_too_much_is_not_believed() -> None:
    """One flipped bit in a number no digest covers must not deliver what may be gone after a recovery."""

    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        for bookie in ledger.bookies:
            bookie.hint = 9
        reader = ledger.reader()
        follower = Follower(reader)
        await asyncio.sleep(30)
        assert follower.ids == list(range(9))
        # Nor is it asked as fast as it answers.
        assert sum(bookie.polls for bookie in ledger.bookies) < 600
        ledger.close(8)
        await asyncio.wait_for(follower.task, 1)
        assert follower.ids == list(range(9))
        await reader.close()

    run(program)


def test_a_falsified_entry_sent_along_is_not_delivered() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        reader = ledger.reader()
        follower = Follower(reader)
        await asyncio.sleep(0.1)
        # The bookie polled first (that of the entry after the next one) holds another entry 0.
        ledger.bookies[1].entries[0] = sealed(0)[:-1] + b"?"
        ledger.write(1, 1)
        await follower.until(1)
        assert follower.entries[0] == DIGEST.open(sealed(0), LEDGER, 0)
        await follower.stop()
        await reader.close()

    run(program)


@pytest.mark.parametrize("fault", ["down", "silent"])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_bookie_lost_in_the_middle_does_not_stop_it(fault: str, victim: int) -> None:
    async def program() -> None:
        ledger = Ledger()
        reader = ledger.reader()
        follower = Follower(reader)
        delays = []
        for entry_id in range(60):
            ledger.write(entry_id, entry_id)
            written = now()
            if entry_id:
                await follower.until(entry_id)
            delays.append(now() - written)
            if entry_id == 20:
                setattr(ledger.bookies[victim], fault, True)
            await asyncio.sleep(0.02)
        assert follower.ids == list(range(59))
        # It is found out once, within the time after which another one is asked as well.
        assert sum(delay > 0.05 for delay in delays) <= 3
        assert max(delays) < 1.5
        await follower.stop()
        await reader.close()

    run(program)


@pytest.mark.parametrize("lagging", [0, 1, 2])
def test_a_replica_that_lags_behind_does_not_delay_the_news(lagging: int) -> None:
    """W=3 A=2: what two have is confirmed, and one of any two polled is among them."""

    async def program() -> None:
        ledger = Ledger(3, 3, 2)
        ledger.write(0, 0)
        reader = ledger.reader()
        follower = Follower(reader)
        await asyncio.sleep(0.3)
        for entry_id in range(1, 30):
            for bookie in ledger.bookies:
                if bookie is not ledger.bookies[lagging]:
                    bookie.store(entry_id, sealed(entry_id))
            written = now()
            await follower.until(entry_id)
            assert now() - written < 0.01
            await asyncio.sleep(0.07)
        await follower.stop()
        await reader.close()

    run(program)


def test_bookies_that_hear_of_the_ledger_later_are_asked_again() -> None:
    """Only the one that lags behind knows the ledger when it is asked first."""

    async def program() -> None:
        ledger = Ledger(3, 3, 2)
        ledger.bookies[2].store(0, sealed(0))
        reader = ledger.reader()
        follower = Follower(reader)
        await asyncio.sleep(0.02)
        for entry_id in range(3):
            for bookie in ledger.bookies[:2]:
                bookie.store(entry_id, sealed(entry_id))
        written = now()
        await follower.until(2)
        assert now() - written < 0.3
        await follower.stop()
        await reader.close()

    run(program)


def test_all_bookies_gone_for_a_while() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        reader = ledger.reader()
        follower = Follower(reader)
        await follower.until(9)
        for bookie in ledger.bookies:
            bookie.down = True
            bookie.tell()
        await asyncio.sleep(20)
        assert not follower.task.done()
        for bookie in ledger.bookies:
            bookie.down = False
        ledger.write(10, 10)
        back = now()
        await follower.until(10)
        assert now() - back < 1
        await follower.stop()
        await reader.close()

    run(program)


@pytest.mark.parametrize("interval_s", [None, 0.05])
@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_every_entry_comes_once_and_in_order(seed: int, interval_s: float | None) -> None:
    async def program() -> None:
        rng = random.Random(seed)
        ensemble_size = rng.randint(2, 5)
        write_quorum = rng.randint(2, ensemble_size)
        ledger = Ledger(ensemble_size, write_quorum, rng.randint(2, write_quorum))
        ahead = rng.choice([1, 3, 128])
        reader = ledger.reader(replace(SETTINGS, read_ahead_entries=ahead, tail_interval_s=interval_s))
        follower = Follower(reader)
        confirmed = -1
        faulty = rng.choice(ledger.bookies)  # one at a time: another replica always has the entry
        for entry_id in range(80):
            depth = rng.randint(1, 4)
            confirmed = max(confirmed, entry_id - depth)
            holders = ledger.holders(entry_id)
            for bookie in holders:
                bookie.store(entry_id, sealed(entry_id, confirmed))
            if rng.random() < 0.1:
                for bookie in ledger.bookies:
                    bookie.explicit_lac = DIGEST.seal_lac(LEDGER, confirmed)
                    bookie.tell()
            if rng.random() < 0.15:
                faulty.down = faulty.silent = False
                faulty.hint = None
                faulty.delay_s = 0.001
                faulty = rng.choice(ledger.bookies)
                match rng.randrange(5):
                    case 0:
                        faulty.down = True
                    case 1:
                        faulty.silent = True
                    case 2:
                        faulty.hint = entry_id + rng.randint(0, 5)
                    case 3:
                        faulty.delay_s = rng.uniform(0, 2)
            await asyncio.sleep(rng.choice([0, 0.001, 0.01, 0.3]))
            assert follower.ids == list(range(len(follower.ids)))
            assert len(follower.ids) <= confirmed + 1
        ledger.close(79)
        await asyncio.wait_for(follower.task, 60)
        assert follower.ids == list(range(80))
        await reader.close()

    run(program, seed)


def test_who_cannot_prove_its_news_is_passed_over() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        reader = ledger.reader()
        follower = Follower(reader)
        await asyncio.sleep(0.1)
        for bookie in ledger.bookies[:2]:
            bookie.read_lac = refuse  # type: ignore[method-assign]
        ledger.write(1, 3)
        written = now()
        await follower.until(3)
        assert now() - written < 0.1
        await follower.stop()
        await reader.close()

    async def refuse(ledger_id: int) -> LacReply:
        raise TooManyRequestsError

    run(program)

"""Following a ledger: as entries are confirmed, through faults, to the end of the ledger and not beyond."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from herdpy.bookkeeper.digest import Entry
from herdpy.bookkeeper.errors import ClosedClientError, NoSuchLedgerError, TooManyRequestsError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerState
from herdpy.bookkeeper.read import LedgerReader
from herdpy.bookkeeper.wire.replies import LacReply
from tests.bookkeeper.reader_fakes import DIGEST, LEDGER, SETTINGS, Ledger, data_of, run, sealed


class Follower:
    """Collects what a tail gives, with the time of each."""

    def __init__(self, reader: LedgerReader, from_entry: int = 0) -> None:
        self.entries: list[Entry] = []
        self.at: list[float] = []
        self._reader = reader
        self._from = from_entry
        self._came = asyncio.Event()
        self.task = asyncio.ensure_future(self._follow())

    @property
    def ids(self) -> list[int]:
        return [entry.entry_id for entry in self.entries]

    async def _follow(self) -> None:
        async for entry in self._reader.tail(self._from):
            self.entries.append(entry)
            self.at.append(asyncio.get_running_loop().time())
            self._came.set()

    async def until(self, count: int) -> None:
        while len(self.entries) < count:
            self._came.clear()
            await asyncio.wait_for(self._came.wait(), 60)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize(("ensemble_size", "write_quorum", "ack_quorum"), [(3, 3, 2), (5, 2, 2), (3, 1, 1)])
def test_each_entry_comes_once_it_is_confirmed_and_not_before(
    ensemble_size: int, write_quorum: int, ack_quorum: int
) -> None:
    async def program() -> None:
        ledger = Ledger(ensemble_size, write_quorum, ack_quorum)
        reader = ledger.reader()
        follower = Follower(reader)
        await asyncio.sleep(1)
        for entry_id in range(20):
            ledger.write(entry_id, entry_id)
            if entry_id:
                await follower.until(entry_id)
            await asyncio.sleep(0.2)
            assert follower.ids == list(range(entry_id))  # the last one is not known to be confirmed
        ledger.close(19)
        await asyncio.wait_for(follower.task, 1)
        assert follower.ids == list(range(20))
        await reader.close()

    run(program)


def test_news_come_at_once() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        reader = ledger.reader()
        follower = Follower(reader)
        await asyncio.sleep(0.3)
        for entry_id in range(1, 30):
            written = now()
            ledger.write(entry_id, entry_id)
            await follower.until(entry_id)
            assert now() - written < 0.01
            await asyncio.sleep(0.07)
        await follower.stop()
        await reader.close()

    run(program)


def test_an_explicit_lac_brings_the_last_entry() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 5)
        reader = ledger.reader()
        follower = Follower(reader)
        await follower.until(5)
        for bookie in ledger.bookies:
            bookie.explicit_lac = DIGEST.seal_lac(LEDGER, 5)
            bookie.tell()
        told = now()
        await follower.until(6)
        assert now() - told < 0.01
        await follower.stop()
        await reader.close()

    run(program)


def test_a_tail_catches_up_from_where_it_is_told_to_start() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 499)
        reader = ledger.reader()
        follower = Follower(reader, 400)
        await follower.until(99)
        assert follower.ids == list(range(400, 499))
        await follower.stop()
        with pytest.raises(ValueError, match="no entry has the id -1"):
            reader.tail(-1)
        await reader.close()

    run(program)


def test_a_start_beyond_the_end_waits_for_its_entry_and_ends_with_the_ledger() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 2)
        reader = ledger.reader()
        follower = Follower(reader, 5)
        beyond = Follower(reader, 100)
        await asyncio.sleep(3)
        ledger.write(3, 8)
        await follower.until(3)
        ledger.close(8)
        await asyncio.wait_for(follower.task, 1)
        await asyncio.wait_for(beyond.task, 1)
        assert (follower.ids, beyond.ids) == ([5, 6, 7, 8], [])
        await reader.close()

    run(program)


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


def test_new_ensembles_are_followed() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        reader = ledger.reader()
        follower = Follower(reader)
        await follower.until(9)
        for bookie in ledger.bookies:
            bookie.silent = True
        ledger.replace(10, ("b3", "b4", "b5"))
        ledger.bookies[0].silent = False
        ledger.write(10, 20)
        await follower.until(20)
        for bookie in ledger.bookies:
            bookie.silent = False
        ledger.replace(21, ("b6", "b7", "b8"))
        ledger.write(21, 30)
        await follower.until(30)
        ledger.close(30)
        await asyncio.wait_for(follower.task, 1)
        assert follower.ids == list(range(31))
        await reader.close()

    run(program)


def test_in_recovery_it_waits_for_the_end() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        reader = ledger.reader()
        follower = Follower(reader)
        await follower.until(9)
        ledger.set_state(LedgerState.IN_RECOVERY)
        await asyncio.sleep(0.01)
        polls = sum(bookie.polls for bookie in ledger.bookies)
        # A recoverer (Java's) seals anew with a higher last add confirmed, and then another one wins.
        for bookie in ledger.bookies:
            bookie.store(10, sealed(10, lac=9))
        await asyncio.sleep(20)
        assert follower.ids == list(range(9))
        assert sum(bookie.polls for bookie in ledger.bookies) == polls
        ledger.close(8)
        await asyncio.wait_for(follower.task, 1)
        assert follower.ids == list(range(9))
        await reader.close()

    run(program)


def test_deletion_and_closing_the_reader_end_it() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        reader = ledger.reader()
        follower = Follower(reader)
        await follower.until(9)
        ledger.store.change(None)
        with pytest.raises(NoSuchLedgerError):
            await asyncio.wait_for(follower.task, 1)
        await reader.close()

        ledger = Ledger()
        ledger.write(0, 9)
        reader = ledger.reader()
        follower = Follower(reader)
        await follower.until(9)
        await reader.close()
        with pytest.raises(ClosedClientError):
            await asyncio.wait_for(follower.task, 1)

    run(program)


def test_a_loop_that_stops_early_leaves_nothing_running() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 99)
        reader = ledger.reader()
        async for entry in reader.tail(0):
            if entry.entry_id == 98:
                break
        await asyncio.sleep(1)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        polls = sum(bookie.polls for bookie in ledger.bookies)
        follower = Follower(reader, 98)
        await asyncio.sleep(0.2)
        await follower.stop()  # while it waits for news
        await asyncio.sleep(10)
        assert sum(bookie.polls for bookie in ledger.bookies) <= polls + 2  # W - A + 1
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await reader.close()

    run(program)


def test_waiting_costs_little() -> None:
    async def program() -> None:
        ledger = Ledger()
        empty = Ledger()
        ledger.write(0, 9)
        readers = [ledger.reader(), empty.reader()]
        followers = [Follower(reader) for reader in readers]
        await asyncio.sleep(100)
        assert sum(bookie.polls for bookie in ledger.bookies) <= 350
        assert sum(bookie.polls for bookie in empty.bookies) <= 3 * 450
        for follower in followers:
            await follower.stop()
        for reader in readers:
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


def test_news_of_many_entries_take_as_long_as_those_of_one() -> None:
    """The poll is answered; then proof, entries and the next poll are asked for at once."""

    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        for bookie in ledger.bookies:
            bookie.delay_s = 0.1
        reader = ledger.reader()
        follower = Follower(reader)
        await asyncio.sleep(0.5)
        for first in range(1, 200, 20):
            ledger.write(first, first + 19)
            written = now()
            await follower.until(first + 19)
            assert now() - written < 0.1 + 0.01
            await asyncio.sleep(0.37)
        await follower.stop()
        await reader.close()

    run(program)


def test_a_follower_that_rests_asks_nothing() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        reader = ledger.reader()
        entries = reader.tail(0)
        taking = asyncio.ensure_future(anext(entries))
        await asyncio.sleep(0.1)
        ledger.write(1, 1)
        assert (await taking).entry_id == 0
        polls = sum(bookie.polls for bookie in ledger.bookies)
        for entry_id in range(2, 30):
            ledger.write(entry_id, entry_id)
            await asyncio.sleep(0.1)
        # Each of two had one poll under way, and may have been polled once more before the entry was taken.
        assert sum(bookie.polls for bookie in ledger.bookies) <= polls + 2
        assert [(await anext(entries)).entry_id for _ in range(28)] == list(range(1, 29))
        await entries.aclose()
        await reader.close()

    run(program)


def test_news_that_come_all_the_time_are_asked_for_at_intervals() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        reader = ledger.reader(replace(SETTINGS, tail_interval_s=0.1))
        follower = Follower(reader)
        await asyncio.sleep(0.5)
        polls = sum(bookie.polls for bookie in ledger.bookies)
        written = [now()]
        for entry_id in range(1, 501):
            ledger.write(entry_id, entry_id)
            written.append(now())
            await asyncio.sleep(0.01)
        await follower.until(500)
        # One question each time, and the polls that were under way at first, as it had waited.
        assert sum(bookie.polls for bookie in ledger.bookies) <= polls + 4
        assert 40 <= sum(bookie.lac_requests for bookie in ledger.bookies) <= 60
        # What is written at one moment is confirmed with the entry after it.
        late = [seen - at for seen, at in zip(follower.at, written[1:], strict=False)]
        assert max(late) < 0.1 + 0.02
        assert late[0] < 0.01  # the first after a silence comes at once
        await follower.stop()
        await reader.close()

    run(program)


def test_who_waits_for_news_has_a_follower_that_rests_look_at_once() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        reader = ledger.reader(replace(SETTINGS, tail_interval_s=10.0))
        follower = Follower(reader)
        await asyncio.sleep(0.1)
        ledger.write(1, 1)
        await follower.until(1)
        for entry_id in range(2, 20):
            ledger.write(entry_id, entry_id)
            await asyncio.sleep(0.1)
            assert len(follower.ids) < entry_id  # what is confirmed is not asked for yet
            reader.hurry()
            written = now()
            await follower.until(entry_id)
            assert now() - written < 0.05
        await follower.stop()
        await reader.close()

    run(program)


@pytest.mark.parametrize("fault", ["down", "silent", "behind"])
def test_a_bookie_that_is_no_help_is_not_looked_at_again_and_again(fault: str) -> None:
    async def program() -> None:
        ledger = Ledger()
        reader = ledger.reader(replace(SETTINGS, tail_interval_s=0.1))
        follower = Follower(reader)
        for entry_id in range(100):
            for bookie in ledger.bookies:
                if entry_id < 20 or fault != "behind" or bookie is not ledger.bookies[0]:
                    bookie.store(entry_id, sealed(entry_id, entry_id - 1))
            if entry_id == 20:
                ledger.bookies[0].down, ledger.bookies[0].silent = fault == "down", fault == "silent"
            await asyncio.sleep(0.02)
            late_s = 0.2 + (SETTINGS.speculative_read_s if fault == "silent" else 0.0)
            assert len(follower.ids) >= entry_id - 1 - late_s / 0.02
        assert len(follower.ids) >= 98 - 0.2 / 0.02
        await follower.stop()
        await reader.close()

    run(program)


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


def test_large_entries_are_not_fetched_beyond_the_bound() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0, size_bytes=1000)
        for bookie in ledger.bookies:
            bookie.delay_s = 0.1
        reader = ledger.reader(replace(SETTINGS, read_ahead_bytes=10_000))
        follower = Follower(reader)
        await asyncio.sleep(0.5)
        ledger.write(1, 59, size_bytes=1000)
        await asyncio.sleep(0.05)
        assert sum(len(bookie.asked) for bookie in ledger.bookies) <= 10_000 // len(data_of(0, 1000)) + 1
        await follower.until(59)
        await follower.stop()
        await reader.close()

    run(program)


def test_who_keeps_silent_while_others_have_news_is_not_counted_on() -> None:
    """Two are polled; when one has been silent for a while, losing the other must not be noticed late."""

    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 0)
        reader = ledger.reader()
        follower = Follower(reader)
        delays = []
        for entry_id in range(1, 80):
            await asyncio.sleep(0.02)
            ledger.write(entry_id, entry_id)
            written = now()
            await follower.until(entry_id)
            delays.append(now() - written)
            if entry_id == 10:
                ledger.bookies[1].silent = True
            if entry_id == 60:
                ledger.bookies[1].silent = False
                ledger.bookies[2].silent = True
        assert max(delays) < 0.1
        await follower.stop()
        await reader.close()

    run(program)

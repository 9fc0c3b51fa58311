"""When commits become an entry: at once when alone, gathered when many come, never later than the delay."""

from __future__ import annotations

import asyncio
import random

import pytest

from herdpy.log import LogError
from herdpy.log.bookkeeper import LedgerLogSettings
from herdpy.log.bookkeeper.pacing import Pacing
from herdpy.testing.model.loop import TimeLimitError
from tests.log_bookkeeper.kit import Node, Place, numbers, transaction

DELAY_S = 0.05
"""Long beside an entry's flight in the model."""
EARLY_S = 1e-6


class Open:
    """How many transactions are open and do not wait for the log."""

    def __init__(self, count: int = 1) -> None:
        self.count = count

    def __call__(self) -> int:
        return self.count


async def passes() -> None:
    """Let the loop do what is due."""
    for _ in range(3):
        await asyncio.sleep(0)


async def crowd(log):
    """Have commits come while another's entry is on its way, so that the log knows that there are several
    clients. All of them are answered."""
    appends = [log.append(transaction(0))]
    await passes()
    end = log.end
    appends += [log.append(transaction(1)), log.append(transaction(1))]
    await appends[0]
    assert log.end == end
    for append in appends:
        await append


def shares(lsns):
    """How many transactions each entry has."""
    return [lsns.count(lsn) for lsn in sorted(set(lsns))]


def paced(**settings):
    return Place(**{"commit_delay_s": DELAY_S, "commit_siblings": 1, **settings})


def test_one_client_never_waits_though_others_have_transactions_open():
    place = paced()

    async def program():
        loop = asyncio.get_running_loop()
        log = await (await place.node("a")).lead(1, open_transactions=Open(30))
        for number in range(200):
            end, began_s = log.end, loop.time()
            append = log.append(transaction(number))
            await passes()
            assert log.end > end
            assert loop.time() < began_s + EARLY_S
            await append

    place.run(program)


def test_commits_gather_for_the_delay_while_others_commit():
    place = paced()

    async def program():
        loop = asyncio.get_running_loop()
        log = await (await place.node("a")).lead(1, open_transactions=Open())
        await crowd(log)
        end, began_s = log.end, loop.time()
        appends = [log.append(transaction(2))]
        for number in (3, 4):
            await asyncio.sleep(DELAY_S / 3)
            appends.append(log.append(transaction(number)))
        await asyncio.sleep(began_s + DELAY_S - EARLY_S - loop.time())
        assert log.end == end
        await asyncio.sleep(2 * EARLY_S)
        assert log.end > end
        assert shares([await one for one in appends]) == [3]

    place.run(program)


def test_the_gathering_ends_when_it_is_of_no_use():
    place = paced()

    async def program():
        log = await (await place.node("a")).lead(1, open_transactions=Open())
        await crowd(log)
        await log.append(transaction(2))  # gathers, and nobody comes
        end = log.end
        append = log.append(transaction(3))
        await passes()
        assert log.end > end
        await append

    place.run(program)


@pytest.mark.parametrize("siblings", [1, 3])
def test_commits_go_at_once_when_all_open_transactions_wait(siblings):
    place = paced(commit_siblings=siblings)

    async def program():
        is_open = Open(siblings)
        log = await (await place.node("a")).lead(1, open_transactions=is_open)
        await crowd(log)
        end, appends = log.end, [log.append(transaction(number)) for number in (2, 3)]
        await passes()
        assert log.end == end
        is_open.count -= 1
        appends.append(log.append(transaction(4)))
        await passes()
        assert log.end > end
        assert shares([await one for one in appends]) == [3]

    place.run(program)


@pytest.mark.parametrize("sizes", [[8] * 5, [8, 1 << 16]], ids=["enough", "bytes"])
def test_enough_transactions_and_many_bytes_do_not_wait(sizes):
    place = paced(enough_transactions=5)

    async def program():
        log = await (await place.node("a")).lead(1, open_transactions=Open())
        await crowd(log)
        end, appends = log.end, [log.append(transaction(2, size)) for size in sizes]
        await passes()
        assert log.end > end
        assert shares([await one for one in appends]) == [len(sizes)]

    place.run(program)


def test_an_entry_that_is_not_answered_holds_others_back_for_the_delay_only():
    place = paced(bookies=3, max_in_flight=3)

    async def program():
        loop = asyncio.get_running_loop()
        log = await (await place.node("a")).lead(1)
        await log.append(transaction(0))
        for bookie in place.cluster.bookies.values():
            bookie.pause()
        appends, began_s, ends = [log.append(transaction(1))], loop.time(), []
        await passes()
        for number in range(2, 8):
            ends.append(log.end.entry_id)
            appends.append(log.append(transaction(number)))
            await asyncio.sleep(DELAY_S / 2)
        ends.append(log.end.entry_id)
        assert [end - ends[0] for end in ends] == [0, 0, 1, 1, 2, 2, 2]  # then three are on their way
        assert loop.time() > began_s
        assert not any(one.done() for one in appends)
        for bookie in place.cluster.bookies.values():
            bookie.resume()
        assert shares([await one for one in appends]) == [1, 2, 2, 2]

    place.run(program)


def test_what_somebody_waits_for_goes_when_nothing_is_on_its_way():
    place = paced()

    async def program():
        log = await (await place.node("a")).lead(1, open_transactions=Open())
        await crowd(log)
        end, append = log.end, log.append(transaction(2))
        await passes()
        assert log.end == end
        log.hurry()
        assert log.end > end
        end, behind = log.end, log.append(transaction(3))
        await passes()
        log.hurry()
        await passes()
        assert log.end == end  # the entry before is on its way
        await append
        assert log.end > end
        await behind
        log.hurry()  # nothing waits: the next ones gather as ever
        await crowd(log)
        end, append = log.end, log.append(transaction(4))
        await passes()
        assert log.end == end
        await append

    place.run(program)


def test_without_a_delay_commits_wait_for_the_answer_to_an_entry_alone():
    place = Place(commit_delay_s=0.0)

    async def program():
        log = await (await place.node("a")).lead(1, open_transactions=Open(30))
        appends = []
        for number in range(3):
            appends.append(log.append(transaction(number)))
            await passes()
        await appends[0]
        end = log.end
        await appends[2]
        assert log.end == end == appends[1].result() == appends[2].result()
        append = log.append(transaction(3))
        await passes()
        assert log.end > end
        await append

    place.run(program)


def test_closing_and_flushing_wait_for_nobody_else():
    place = paced()

    async def program():
        loop = asyncio.get_running_loop()
        a, b = await place.node("a"), await place.node("b")
        log = await a.lead(1, open_transactions=Open())
        await crowd(log)
        append, began_s = log.append(transaction(2)), loop.time()
        await log.aflush()
        assert append.done()
        assert loop.time() - began_s < DELAY_S / 2
        await crowd(log)
        append, began_s = log.append(transaction(3)), loop.time()
        await log.aclose()
        assert append.result() == log.lac
        assert loop.time() - began_s < DELAY_S
        assert await b.contents() == [0, 1, 1, 2, 0, 1, 1, 3]

    place.run(program)


async def crowded_pair(place) -> tuple[Node, Node, object]:
    a, b = await place.node("a"), await place.node("b")
    log = await a.lead(1, open_transactions=Open())
    await crowd(log)
    return a, b, log


def test_what_waits_when_the_log_is_given_up_is_not_done_and_nothing_is_sent_afterwards():
    place = paced()

    async def program():
        _a, b, log = await crowded_pair(place)
        append, end = log.append(transaction(2)), log.end
        await passes()
        log.abandon()
        with pytest.raises(LogError) as caught:
            await append
        assert caught.value.outcome == "not done"
        await asyncio.sleep(2 * DELAY_S)
        assert log.end == end
        takeover = await b.take_over(2)
        assert await numbers(takeover.log.read(takeover.state.base, takeover.end)) == [0, 1, 1]

    place.run(program)


def test_what_waits_when_another_takes_over_fails_and_is_not_in_the_log():
    place = paced()

    async def program():
        _a, b, log = await crowded_pair(place)
        append = log.append(transaction(2))
        await passes()
        other = await b.lead(2)
        with pytest.raises(LogError):
            await append
        await other.append(transaction(3))
        assert await b.contents() == [0, 1, 1, 3]

    place.run(program)


def test_what_waits_goes_to_the_next_ledger_when_the_bookies_of_one_are_gone():
    place = paced(bookies=3)

    async def program():
        _a, b, log = await crowded_pair(place)
        end = log.end
        append = log.append(transaction(2))
        await passes()
        next(iter(place.cluster.bookies.values())).crash()
        assert await append > end
        assert await b.contents() == [0, 1, 1, 2]

    place.run(program)


@pytest.mark.parametrize("seed", range(20))
def test_the_order_is_kept_and_none_is_sent_later_than_the_delay(seed, monkeypatch):
    rng = random.Random(seed)
    place = Place(
        seed,
        commit_delay_s=rng.choice((0.002, 0.01)),
        enough_transactions=rng.choice((3, 32)),
        commit_siblings=rng.choice((1, 4)),
        max_entry_bytes=rng.choice((400, 1 << 20)),
        max_in_flight=1000,
    )
    delay_s = place.settings.commit_delay_s

    async def program():
        loop, appends, late = asyncio.get_running_loop(), [], []
        log = await (await place.node("a")).lead(1, open_transactions=lambda: rng.randrange(6))

        async def client(number: int) -> None:
            for _ in range(30):
                await asyncio.sleep(rng.choice((0.0, rng.uniform(0, 0.002))))
                append, queued_s = log.append(transaction(number, rng.choice((8, 8, 900)))), loop.time()
                appends.append(append)
                await append
                flight = next(one for one in sent if append in one[1])
                late.append(flight[0] - queued_s)

        sent = watched(log, monkeypatch)
        await asyncio.gather(*(client(number) for number in range(rng.choice((1, 4, 12)))))
        lsns = [one.result() for one in appends]
        assert lsns == sorted(lsns)
        assert max(late) <= delay_s + EARLY_S
        assert await numbers(log.read(log.state.base)) == [one.transaction.timestamp_us for one in appends]

    place.run(program)


def watched(log, monkeypatch):
    """When each entry is sent from now on, with its appends."""
    sent, send, loop = [], log._sender._send, asyncio.get_running_loop()

    def watch(writer, entry):
        sent.append((loop.time(), entry.appends))
        send(writer, entry)

    monkeypatch.setattr(log._sender, "_send", watch)
    return sent


def test_a_pacing_that_forgets_its_timer_is_noticed(monkeypatch):
    monkeypatch.setattr(Pacing, "hurry", lambda self: None)
    with pytest.raises(TimeLimitError):
        test_commits_gather_for_the_delay_while_others_commit()


def test_a_pacing_that_always_gathers_is_noticed(monkeypatch):
    monkeypatch.setattr(Pacing, "_is_crowded", lambda self: True)
    with pytest.raises(AssertionError):
        test_one_client_never_waits_though_others_have_transactions_open()


@pytest.mark.parametrize("delay_s", [-0.001, 0.101])
def test_a_delay_out_of_bounds_is_refused(delay_s):
    with pytest.raises(ValueError, match=r"commit_delay_s must be from 0 to 0\.1"):
        LedgerLogSettings(commit_delay_s=delay_s)


def test_siblings_are_at_least_one():
    with pytest.raises(ValueError, match="commit_siblings must be positive"):
        LedgerLogSettings(commit_siblings=0)

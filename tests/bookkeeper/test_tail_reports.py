"""Following a ledger whose writer reports how far it is confirmed: bookies are asked for entries only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from herdpy.bookkeeper.errors import NoSuchEntryError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerState
from herdpy.bookkeeper.read import LedgerReader
from herdpy.bookkeeper.read.polls import MAX_AHEAD
from herdpy.bookkeeper.read.reader import HURRIED_LOOKS, Tail
from herdpy.bookkeeper.read.view import LedgerView
from tests.bookkeeper.reader_fakes import SETTINGS, Ledger, run, sealed
from tests.bookkeeper.tail_follower import Follower, now

SILENT_S = 1.0
PACES = (None, 0.015)


@dataclass
class Followed:
    """A ledger with one confirmed entry, and who follows it and has heard of that from its writer."""

    ledger: Ledger
    reader: LedgerReader
    follower: Follower

    @property
    def questions(self) -> int:
        """How often bookies were asked for news."""
        return sum(bookie.polls + bookie.lac_requests for bookie in self.ledger.bookies)


@asynccontextmanager
async def followed(pace_s: float | None = None) -> AsyncIterator[Followed]:
    ledger = Ledger()
    ledger.write(0, 0)
    reader = ledger.reader(replace(SETTINGS, tail_interval_s=pace_s))
    reader.report(0, SILENT_S)
    follower = Follower(reader)
    await follower.until(1)
    yield Followed(ledger, reader, follower)
    await follower.stop()
    await reader.close()


@pytest.mark.parametrize("pace_s", PACES)
def test_what_is_reported_comes_at_once_and_no_bookie_is_asked_for_news(pace_s: float | None) -> None:
    async def program() -> None:
        async with followed(pace_s) as it:
            for entry_id in range(1, 200):
                it.ledger.write(entry_id, entry_id)
                await asyncio.sleep(0.05)
                assert it.follower.ids[-1] == entry_id - 1
                reported = now()
                it.reader.report(entry_id, SILENT_S)
                await it.follower.until(entry_id + 1)
                assert now() - reported < 0.01
            assert it.questions == 0
            assert sum(len(bookie.asked) for bookie in it.ledger.bookies) == 200  # each entry once

    run(program)


def test_many_entries_are_fetched_at_once() -> None:
    async def program() -> None:
        async with followed() as it:
            for bookie in it.ledger.bookies:
                bookie.delay_s = 0.1
            it.ledger.write(1, 40)
            reported = now()
            it.reader.report(40, SILENT_S)
            await it.follower.until(41)
            assert now() - reported < 0.1 + 0.01

    run(program)


# Entries that come with a report.


def read_from_bookies(it: Followed) -> int:
    return sum(len(bookie.asked) for bookie in it.ledger.bookies)


def given_to(it: Followed) -> list[bytes]:
    return [entry.data for entry in it.follower.entries]


@pytest.mark.parametrize("pace_s", PACES)
def test_entries_that_come_with_a_report_are_read_from_no_bookie(pace_s: float | None) -> None:
    async def program() -> None:
        async with followed(pace_s) as it:
            asked = read_from_bookies(it)
            for last in range(3, 200, 3):
                it.reader.give(last - 2, [b"given %d" % one for one in range(last - 2, last + 1)])
                await asyncio.sleep(0.05)
                assert it.follower.ids[-1] == last - 3  # they are not confirmed yet
                it.reader.report(last, SILENT_S)
                await it.follower.until(last + 1)
            assert it.follower.ids == list(range(199))
            assert given_to(it)[1:] == [b"given %d" % one for one in range(1, 199)]
            assert read_from_bookies(it) == asked
            assert it.questions == 0

    run(program)


def test_what_did_not_come_along_is_read_up_to_what_did() -> None:
    async def program() -> None:
        async with followed() as it:
            it.ledger.write(1, 299)
            asked = read_from_bookies(it)
            for last in range(99, 300, 100):
                it.reader.give(last - 9, [b"given"] * 10)
                it.reader.report(last, SILENT_S)
                await it.follower.until(last + 1)
            assert it.follower.ids == list(range(300))
            given = [at for at, data in enumerate(given_to(it)) if data == b"given"]
            assert given == [*range(90, 100), *range(190, 200), *range(290, 300)]
            assert read_from_bookies(it) == asked + 299 - 30

    run(program)


def test_more_than_there_is_room_for_and_what_was_taken_before_change_nothing() -> None:
    async def program() -> None:
        async with followed() as it:
            it.ledger.write(1, 500)
            it.reader.give(0, [b"late"])
            it.reader.give(1, [b"given"] * 500)
            it.reader.report(500, SILENT_S)
            await it.follower.until(501)
            assert it.follower.ids == list(range(501))
            assert given_to(it).count(b"given") == MAX_AHEAD
            it.reader.give(1, [b"late"] * 500)
            it.reader.give(501, [b"given"])
            it.reader.report(501, SILENT_S)
            await it.follower.until(502)
            assert given_to(it)[-1] == b"given"
            assert b"late" not in given_to(it)

    run(program)


@pytest.mark.parametrize("pace_s", PACES)
def test_when_the_writer_falls_silent_bookies_are_asked(pace_s: float | None) -> None:
    async def program() -> None:
        async with followed(pace_s) as it:
            it.ledger.write(1, 5)
            fell_silent = now()
            await it.follower.until(5)  # the last one's confirmation comes with the one after it
            assert now() - fell_silent < SILENT_S + 0.01
            for entry_id in range(6, 50):
                it.ledger.write(entry_id, entry_id)
                written = now()
                await it.follower.until(entry_id)
                assert now() - written < 0.05
            asked = it.questions
            it.reader.report(49, SILENT_S)  # it reports again
            await it.follower.until(50)
            for entry_id in range(50, 100):
                it.ledger.write(entry_id, entry_id)
                it.reader.report(entry_id, SILENT_S)
                await it.follower.until(entry_id + 1)
                await asyncio.sleep(0.1)
            assert it.questions <= asked + 3  # polls that were under way

    run(program)


@pytest.mark.parametrize("pace_s", PACES)
def test_when_no_report_will_come_bookies_are_asked_at_once(pace_s: float | None) -> None:
    async def program() -> None:
        async with followed(pace_s) as it:
            it.ledger.write(1, 5)
            await asyncio.sleep(0.1)
            ended = now()
            it.reader.report(-1, 0.0)
            await it.follower.until(5)
            assert now() - ended < 0.05
            it.reader.report(-1, 0.0)  # again, to nobody

    run(program)


def test_who_waits_in_a_hurry_looks_at_bookies_for_a_while_and_polls_none() -> None:
    async def program() -> None:
        async with followed() as it:
            it.reader.hurry()
            for _ in range(100):
                await asyncio.sleep(SILENT_S / 2)
                it.reader.report(0, SILENT_S)
            assert sum(bookie.polls for bookie in it.ledger.bookies) == 0
            assert it.questions == HURRIED_LOOKS

    run(program)


def test_the_same_report_again_keeps_bookies_from_being_asked_and_wakes_nobody() -> None:
    async def program() -> None:
        async with followed() as it:
            changed = it.reader._view.next_change()
            for _ in range(100):
                await asyncio.sleep(SILENT_S * 0.9)
                it.reader.report(0, SILENT_S)
            assert not changed.is_set()
            assert it.questions == 0

    run(program)


@pytest.mark.parametrize("pace_s", PACES)
def test_who_waits_for_news_has_bookies_asked_although_the_writer_reports(pace_s: float | None) -> None:
    async def program() -> None:
        async with followed(pace_s) as it:
            it.ledger.write(1, 1)
            for entry_id in range(2, 20):
                it.ledger.write(entry_id, entry_id)
                await asyncio.sleep(0.1)
                it.reader.report(0, SILENT_S)
                assert entry_id > 2 or it.questions == 0
                it.reader.hurry()
                hurried = now()
                await it.follower.until(entry_id)
                assert now() - hurried < 0.05

    run(program)


def test_an_old_report_changes_nothing() -> None:
    async def program() -> None:
        async with followed() as it:
            it.ledger.write(1, 9)
            it.reader.report(9, SILENT_S)
            await it.follower.until(10)
            it.reader.report(3, SILENT_S)
            assert it.reader.last_add_confirmed == 9
            it.ledger.write(10, 10)
            it.reader.report(10, SILENT_S)
            await it.follower.until(11)
            assert it.follower.ids == list(range(11))

    run(program)


@pytest.mark.parametrize("state", [LedgerState.IN_RECOVERY, LedgerState.CLOSED])
def test_once_another_recovers_the_ledger_its_metadata_alone_say_where_it_ends(state: LedgerState) -> None:
    async def program() -> None:
        async with followed() as it:
            it.ledger.write(1, 9)
            if state is LedgerState.CLOSED:
                it.ledger.close(4)
            else:
                it.ledger.set_state(state)
            await asyncio.sleep(0.01)
            it.reader.report(9, SILENT_S)  # of a writer that has not heard of it
            await asyncio.sleep(0.1)
            if state is LedgerState.IN_RECOVERY:
                assert it.follower.ids == [0]
                it.ledger.close(4)
            await asyncio.wait_for(it.follower.task, 5)
            assert it.follower.ids == [0, 1, 2, 3, 4]
            assert it.reader.last_add_confirmed == 4

    run(program)


def test_a_report_of_entries_on_bookies_that_the_metadata_here_do_not_name_yet() -> None:
    """All members were replaced, and the server of ZooKeeper that is asked here lags behind."""

    async def program() -> None:
        async with followed() as it:
            others = ("b3", "b4", "b5")
            for entry_id in range(1, 6):
                for member in others:
                    it.ledger.pool.get(member).store(entry_id, sealed(entry_id))
            it.reader.report(5, SILENT_S)
            await asyncio.sleep(20)
            assert it.follower.ids == [0]
            assert not it.follower.task.done()
            it.ledger.replace(1, others)
            await it.follower.until(6)

    run(program)


def test_an_entry_that_is_proven_to_be_confirmed_and_gone_is_damage() -> None:
    async def program() -> None:
        async with followed() as it:
            it.ledger.write(1, 9)
            for bookie in it.ledger.bookies:
                del bookie.entries[5]
            it.reader.report(9, SILENT_S)
            with pytest.raises(NoSuchEntryError):
                await asyncio.wait_for(it.follower.task, 100)
            assert it.follower.ids == [0, 1, 2, 3, 4]

    run(program)


# The tests themselves.


def believes_a_silent_writer(self: LedgerView, last_add_confirmed: int, silent_s: float) -> None:
    """A report holds for ever."""
    report(self, last_add_confirmed, 1e9)


def believes_it_of_a_recovered_ledger(self: LedgerView, last_add_confirmed: int, _silent_s: float) -> None:
    """The state of the ledger is not looked at."""
    self.last_add_confirmed = max(self.last_add_confirmed, last_add_confirmed)
    self._notify()


def goes_back(self: LedgerView, last_add_confirmed: int, silent_s: float) -> None:
    """The newest report is taken, whatever it says."""
    self.last_add_confirmed = min(self.last_add_confirmed, last_add_confirmed)
    report(self, last_add_confirmed, silent_s)


report = LedgerView.report


@pytest.mark.parametrize(
    ("bug", "noticed"),
    [
        (believes_a_silent_writer, lambda: test_when_the_writer_falls_silent_bookies_are_asked(None)),
        (
            believes_it_of_a_recovered_ledger,
            lambda: test_once_another_recovers_the_ledger_its_metadata_alone_say_where_it_ends(
                LedgerState.CLOSED
            ),
        ),
        (goes_back, test_an_old_report_changes_nothing),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_bug_is_noticed(
    bug: Callable[..., None], noticed: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LedgerView, "report", bug)
    with pytest.raises(Exception):  # noqa: B017 - whichever promise is broken
        noticed()


def test_a_tail_that_takes_old_metadata_for_damage_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def gives_up(_self: Tail, error: Exception) -> None:
        raise error

    monkeypatch.setattr(Tail, "_no_replica", gives_up)
    with pytest.raises((AssertionError, NoSuchEntryError)):
        test_a_report_of_entries_on_bookies_that_the_metadata_here_do_not_name_yet()

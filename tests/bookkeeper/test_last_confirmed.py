"""How far a ledger is confirmed: coverage of every write set, proofs only, and ensembles that change."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.bookkeeper.errors import BookieUnavailableError, NoSuchLedgerError, UnauthorizedError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerState
from tests.bookkeeper.reader_fakes import DIGEST, LEDGER, Ledger, length_at, run, sealed


def test_the_greater_of_explicit_and_stored_counts() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        reader = ledger.reader()
        assert await reader.read_last_add_confirmed() == 8
        ledger.bookies[1].explicit_lac = DIGEST.seal_lac(LEDGER, 9)
        for bookie in ledger.bookies:
            bookie.delay_s = 1.0
        ledger.bookies[1].delay_s = 0.001
        assert await reader.read_last_add_confirmed() == 9
        assert reader.last_add_confirmed == 9
        await reader.close()

    run(program)


def test_a_lac_with_a_wrong_digest_is_no_answer() -> None:
    async def program() -> None:
        ledger = Ledger(3, 3, 3)
        ledger.write(0, 4)
        for bookie in ledger.bookies:
            bookie.explicit_lac = DIGEST.seal_lac(LEDGER, 50)[:-1] + b"?"
        reader = ledger.reader()
        with pytest.raises(BookieUnavailableError, match="digest does not match"):
            await reader.read_last_add_confirmed()
        assert reader.last_add_confirmed == -1
        for bookie in ledger.bookies:
            bookie.explicit_lac = None
        for bookie in ledger.bookies:
            bookie.entries[4] = bookie.entries[4][:-1] + b"?"
        with pytest.raises(BookieUnavailableError, match="digest does not match"):
            await reader.read_last_add_confirmed()
        await reader.close()

    run(program)


def test_a_hint_is_not_a_proof() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 4)
        for bookie in ledger.bookies:
            bookie.hint = 77
        reader = ledger.reader()
        assert await reader.read_last_add_confirmed() == 3
        await reader.close()

    run(program)


def test_an_empty_ledger_has_nothing_confirmed() -> None:
    async def program() -> None:
        ledger = Ledger()
        reader = ledger.reader()
        assert await reader.read_last_add_confirmed() == -1
        await reader.close()

    run(program)


def test_answers_are_needed_from_every_write_set() -> None:
    """Striped, E=5 W=2 A=2: the two silent ones may not be neighbours, however many others answer."""

    async def program() -> None:
        ledger = Ledger(5, 2, 2)
        ledger.write(0, 9)
        reader = ledger.reader()
        ledger.bookies[1].down = ledger.bookies[3].down = True
        assert await reader.read_last_add_confirmed() == 8
        ledger.bookies[3].down = False
        ledger.bookies[2].down = True
        with pytest.raises(BookieUnavailableError) as caught:
            await reader.read_last_add_confirmed()
        assert "b1: " in str(caught.value)
        assert "b2: " in str(caught.value)
        await reader.close()

    run(program)


def test_silent_bookies_are_not_waited_for_once_the_rest_covers() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        ledger.bookies[2].silent = True
        reader = ledger.reader()
        started = asyncio.get_running_loop().time()
        assert await reader.read_last_add_confirmed() == 8
        assert asyncio.get_running_loop().time() - started < 0.1
        await reader.close()

    run(program)


def test_the_segments_prove_what_lies_before_the_last_one() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.replace(100, ("b3", "b4", "b5"))
        reader = ledger.reader()
        assert reader.last_add_confirmed == 99
        assert await reader.read_last_add_confirmed() == 99  # the new ensemble has nothing yet
        await reader.close()

    run(program)


def test_a_new_ensemble_is_asked_when_the_old_one_is_gone() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        reader = ledger.reader()
        await asyncio.sleep(0.1)
        ledger.store.callbacks.clear()  # the watch is late
        ledger.replace(9, ("b3", "b4", "b5"))
        ledger.write(9, 12)
        for bookie in ledger.bookies:
            bookie.down = True
        assert await reader.read_last_add_confirmed() == 11
        await reader.close()

    run(program)


def test_a_closed_ledger_ends_where_its_metadata_say() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 9)
        reader = ledger.reader()
        assert await reader.read_last_add_confirmed() == 8
        ledger.close(9)
        await asyncio.sleep(0.1)
        assert reader.is_closed
        assert reader.metadata.state is LedgerState.CLOSED
        requests = sum(bookie.lac_requests for bookie in ledger.bookies)
        assert await reader.read_last_add_confirmed() == 9
        assert reader.length_bytes == length_at(9)
        assert sum(bookie.lac_requests for bookie in ledger.bookies) == requests
        assert ledger.store.callbacks == []  # nothing is watched any more
        await reader.close()

    run(program)


def test_refusals_and_deletion_are_told_as_what_they_are() -> None:
    async def program() -> None:
        ledger = Ledger()
        ledger.write(0, 3)
        reader = ledger.reader()
        ledger.bookies[0].refusing = UnauthorizedError()
        for bookie in ledger.bookies[1:]:
            bookie.silent = True
        with pytest.raises(UnauthorizedError):
            await reader.read_last_add_confirmed()
        for bookie in ledger.bookies:
            bookie.refusing, bookie.down = None, True
        ledger.store.change(None)
        with pytest.raises(NoSuchLedgerError):
            await reader.read_last_add_confirmed()
        await reader.close()

    run(program)


def test_an_older_version_of_the_metadata_changes_nothing() -> None:
    async def program() -> None:
        ledger = Ledger()
        old = ledger.store.versioned
        ledger.write(0, 4)
        ledger.bookies[0].store(5, sealed(5))
        ledger.close(4)
        reader = ledger.reader()
        ledger.store.versioned = old
        for bookie in ledger.bookies:
            bookie.down = True
        with pytest.raises(BookieUnavailableError):
            await reader.get(0)
        assert reader.is_closed
        await reader.close()

    run(program)


def test_a_bookie_that_lost_its_disk_does_not_say_that_nothing_is_confirmed() -> None:
    """W=2 A=2: its answer would be enough."""

    async def program() -> None:
        ledger = Ledger(2, 2, 2)
        ledger.write(0, 9)
        ledger.lose_disk(1)
        ledger.bookies[0].down = True
        reader = ledger.reader()
        with pytest.raises(BookieUnavailableError, match="b1: its disks are newer than the ledger"):
            await reader.read_last_add_confirmed()
        ledger.bookies[0].down = False
        assert await reader.read_last_add_confirmed() == 8
        await reader.close()

    run(program)

"""What any commit log does, the one in a directory and the one in BookKeeper: the same steps for both."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.log import (
    START,
    FileLog,
    LogClosedError,
    LoggedTransaction,
    LogSettings,
    LogTrimmedError,
    RecordError,
    TransactionAssembler,
)
from tests.log_bookkeeper.kit import Place, numbers, transaction


class OnFiles:
    """A log in a directory."""

    def __init__(self, directory):
        self._directory = directory

    def run(self, program):
        async def main():
            def make(acknowledge=None):
                settings = LogSettings(max_entry_bytes=400)
                loop = asyncio.get_running_loop()
                return FileLog(self._directory, acknowledge, settings=settings, loop=loop)

            async def calling(method, *arguments):
                return await asyncio.to_thread(method, *arguments)

            await program(make, calling)

        asyncio.run(main())


class OnLedgers:
    """A log in a model of BookKeeper; the methods that block have twins that are awaited."""

    def run(self, program):
        place = Place(max_entry_bytes=400)

        async def main():
            node = await place.node("a")
            logs = []

            class Made:
                def __init__(self, acknowledge):
                    self.acknowledge = acknowledge

                def __await__(self):
                    return self._lead().__await__()

                async def _lead(self):
                    logs.append(await node.lead(len(logs) + 1, self.acknowledge))
                    return logs[-1]

            async def calling(method, *arguments):
                return await getattr(method.__self__, "a" + method.__name__)(*arguments)

            await program(lambda acknowledge=None: Made(acknowledge), calling)

        place.run(main)


@pytest.fixture(params=["files", "ledgers"])
def kind(request, tmp_path):
    return OnFiles(str(tmp_path)) if request.param == "files" else OnLedgers()


async def opened(made):
    return await made if hasattr(made, "__await__") else made


def test_reading_on_after_any_entry(kind):
    async def program(make, calling):
        log = await opened(make())
        sizes = [10, 10, 1000, 5, 3000, 10]
        appends = [log.append(transaction(number, size)) for number, size in enumerate(sizes)]
        for append in appends:
            await append
        await calling(log.roll)
        await log.append(transaction(6))
        whole = [(lsn, entry) async for lsn, entry in log.read(START)]
        assembler = TransactionAssembler()
        for place, (_, entry) in enumerate(whole):
            done = {one.timestamp_us for _, one in assembler.feed(entry)}
            assert done <= set(range(7))
            rest = [lsn async for lsn, _ in log.read(assembler.position)]
            assert rest == [lsn for lsn, _ in whole[place + 1 :]]
            bounded = [lsn async for lsn, _ in log.read(START, assembler.position)]
            assert bounded == [lsn for lsn, _ in whole[: place + 1]]
        assert await numbers(log.read(START)) == list(range(7))
        await calling(log.close)

    kind.run(program)


def test_the_hook_sees_appends_in_order_before_they_are_resolved(kind):
    async def program(make, calling):
        told = []

        def hook(appends, error):
            assert error is None
            for append in appends:
                assert append.lsn is not None
                assert not append.done()
                told.append(append.lsn)

        log = await opened(make(hook))
        appends = [log.append(transaction(number)) for number in range(50)]
        await calling(log.flush)
        assert told == [append.result() for append in appends]
        assert told == sorted(told)
        assert log.counts.transactions == 50
        await calling(log.close)

    kind.run(program)


def test_a_tail_goes_along_and_ends_when_the_log_is_closed(kind):
    async def program(make, calling):
        log = await opened(make())
        tailing = asyncio.create_task(numbers(log.tail(START)))
        for number in range(5):
            await log.append(transaction(number))
        await calling(log.roll)
        await log.append(transaction(5))
        await calling(log.close)
        assert await tailing == list(range(6))

    kind.run(program)


def test_what_is_trimmed_cannot_be_read(kind):
    async def program(make, calling):
        log = await opened(make())
        first = await log.append(transaction(0))
        await calling(log.roll)
        second = await log.append(transaction(1))
        await calling(log.roll)
        await log.append(transaction(2))
        ids = [info.ledger_id for info in log.ledgers()]
        assert await calling(log.trim, START) == []
        assert await calling(log.trim, second) == ids[:2]
        with pytest.raises(LogTrimmedError):
            await numbers(log.read(first))
        assert await numbers(log.read(second), second) == [2]
        assert await calling(log.trim, log.lac) == []  # the open ledger stays
        await calling(log.close)

    kind.run(program)


def test_rolling_a_ledger_without_transactions_does_nothing(kind):
    async def program(make, calling):
        log = await opened(make())
        await log.append(transaction(0))
        await calling(log.roll)
        before = [info.ledger_id for info in log.ledgers()]
        await calling(log.roll)
        assert [info.ledger_id for info in log.ledgers()] == before
        await calling(log.close)

    kind.run(program)


def test_what_cannot_be_encoded_is_refused_and_a_closed_log_takes_nothing(kind):
    async def program(make, calling):
        log = await opened(make())
        with pytest.raises(RecordError):
            log.append(LoggedTransaction(1 << 70))
        await log.append(transaction(0))
        await calling(log.close)
        assert isinstance(log.failure, LogClosedError)
        with pytest.raises(LogClosedError):
            log.append(transaction(1))
        again = await opened(make())
        assert await numbers(again.read(START)) == [0]
        await again.append(transaction(1))
        assert await numbers(again.read(START)) == [0, 1]
        await calling(again.close)

    kind.run(program)

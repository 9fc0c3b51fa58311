"""LedgerWriter: order, quorums, what is sent, refusals, and the ways a writer ends."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.bookkeeper.digest import Digest, DigestType
from herdpy.bookkeeper.errors import (
    TIMED_OUT,
    BookKeeperError,
    ClosedClientError,
    EntryTooLargeError,
    LedgerFencedError,
    NoSuchLedgerError,
    Outcome,
    UnauthorizedError,
)
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.protocol import ReplyStatus
from herdpy.bookkeeper.write import LedgerWriter
from tests.bookkeeper.writer_fakes import (
    FENCED,
    LEDGER,
    PASSWORD,
    Bench,
    error_in,
    run,
    settle,
)


def test_entries_are_confirmed_in_order_whatever_the_order_of_the_acks():
    async def main():
        bench = Bench()
        futures = bench.append(3)
        order = []
        for future in futures:
            future.add_done_callback(lambda done: order.append(done.result()))
        for entry in (2, 1):
            for number in (0, 1, 2):
                bench[number].reply(entry)
        await settle()
        assert order == []
        assert bench.writer.last_add_confirmed == -1
        bench[2].reply(0)
        assert bench.writer.last_add_confirmed == -1
        bench[0].reply(0)
        await settle()
        assert order == [0, 1, 2]
        assert (bench.writer.last_add_confirmed, bench.writer.last_add_pushed) == (2, 2)

    run(main)


def test_the_ack_quorum_decides_not_the_write_quorum():
    async def main():
        for ack_quorum in (1, 2, 3):
            bench = Bench(ack_quorum=ack_quorum)
            (future,) = bench.append(1)
            for number in range(3):
                assert future.done() is (number >= ack_quorum)
                bench[number].reply(0)
            assert await future == 0

    run(main)


def test_entries_are_striped_and_only_their_write_set_counts():
    async def main():
        bench = Bench(4, 2, 2)
        bench.append(5)
        assert [bookie.seen for bookie in bench.bookies] == [[0, 3, 4], [0, 1, 4], [1, 2], [2, 3], []]

    run(main)


def test_each_add_carries_length_and_the_lac_of_its_moment():
    async def main():
        bench = Bench(ack_quorum=3)
        bench.append(2, b"abc")
        for number in range(3):
            bench[number].reply(0)
        bench.append(1, b"")
        bench.append(1, b"defgh")
        bodies = [sent.entry for sent in bench[0].sent]
        assert [(one.entry_id, one.lac, one.length, one.data) for one in bodies] == [
            (1, -1, 6, b"abc"),
            (2, 0, 6, b""),
            (3, 0, 11, b"defgh"),
        ]
        assert bench.writer.length_bytes == 11
        assert {sent.frame for sent in bench[1].sent} == {sent.frame for sent in bench[0].sent}

    run(main)


@pytest.mark.parametrize("kind", list(DigestType))
def test_every_digest_type_is_written(kind):
    async def main():
        bench = Bench()
        sealer = Digest.of(kind, PASSWORD)
        parts = (bench.store, bench.pool, bench.placement)
        writer = LedgerWriter(LEDGER, bench.store.now, *parts, ClientSettings(), sealer)
        writer.append_nowait(b"data")
        assert sealer.open(bench[1].sent[0].request.add.body, LEDGER, 0).data == b"data"
        writer.abandon(ClosedClientError())

    run(main)


def test_append_awaits_its_confirmation():
    async def main():
        bench = Bench()
        bench.answer_all()
        assert [await bench.writer.append(b"%d" % number) for number in range(20)] == list(range(20))
        assert bench.writer.last_add_confirmed == 19

    run(main)


class Sink:
    """Notes what is reported, and appends another entry when one is confirmed."""

    def __init__(self, bench: Bench, told: list[object], left: int) -> None:
        self.bench, self.told, self.left = bench, told, left

    def done(self) -> bool:
        return False

    def set_result(self, entry_id: int, /) -> None:
        self.told.append((entry_id, self.bench.writer.last_add_confirmed))
        if self.left:
            self.bench.writer.send(b"next", Sink(self.bench, self.told, self.left - 1))

    def set_exception(self, error: BaseException, /) -> None:
        self.told.append(error)


def test_a_sink_is_told_at_once_and_may_append():
    async def main():
        bench, told = Bench(), []
        for _ in range(2):
            bench.writer.send(b"first", Sink(bench, told, 1))
        for number in (0, 1):
            bench[number].reply(1)
        assert told == []
        bench[0].reply(0)
        bench[1].reply(0)
        assert told == [(0, 1), (1, 1)]  # everything is as it is to be before the first one is reported
        assert bench.writer.last_add_pushed == 3
        bench[0].reply(2)
        bench[1].reply(2)
        bench[2].reply(3, FENCED)
        assert told[2] == (2, 2)
        assert isinstance(told[3], LedgerFencedError)
        assert told[3].outcome is Outcome.UNKNOWN
        assert len(told) == 4

    run(main)


def test_an_entry_that_does_not_fit_is_refused_before_anything_is_sent():
    async def main():
        bench = Bench(max_frame_bytes=4096)
        for size in (3073, 100_000):
            with pytest.raises(EntryTooLargeError, match=str(size)) as refused:
                bench.writer.append_nowait(bytes(size))
            assert refused.value.outcome is Outcome.NOT_DONE
            with pytest.raises(EntryTooLargeError):
                await bench.writer.append(bytes(size))
        for wrong in ("text", bytearray(b"x"), memoryview(b"x")):
            with pytest.raises(TypeError):
                bench.writer.append_nowait(wrong)
        assert bench[0].sent == []
        assert (bench.writer.last_add_pushed, bench.writer.length_bytes) == (-1, 0)
        bench.append(1, bytes(3072))
        assert bench[0].seen == [0]

    run(main)


def test_a_cancelled_append_leaves_the_order_as_it_is():
    async def main():
        bench = Bench()
        futures = bench.append(3)
        futures[1].cancel()
        for number in (0, 1):
            bench[number].reply_all()
        assert [await futures[0], await futures[2]] == [0, 2]
        assert bench.writer.last_add_confirmed == 2

    run(main)


@pytest.mark.parametrize(
    ("status", "kind"), [(FENCED, LedgerFencedError), (int(ReplyStatus.EUA), UnauthorizedError)]
)
def test_a_fatal_answer_ends_the_writer(status, kind):
    async def main():
        bench = Bench()
        futures = bench.append(3)
        bench[0].reply(0)
        bench[1].reply(0)
        bench[0].reply(1)
        bench[2].reply(1, status)
        # What would have been enough comes too late.
        bench[1].reply(1)
        bench[1].reply(2)
        bench[0].reply(2)
        assert await futures[0] == 0
        for number, future in enumerate(futures[1:], start=1):
            error = error_in(future)
            assert isinstance(error, kind)
            assert (error.outcome, error.entry_id, error.ledger_id) == (Outcome.UNKNOWN, number, LEDGER)
            assert error.bookie == "b2"
        with pytest.raises(kind) as refused:
            bench.writer.append_nowait(b"more")
        assert (refused.value.outcome, refused.value.entry_id) == (Outcome.NOT_DONE, None)
        with pytest.raises(kind):
            await bench.writer.append(b"more")
        with pytest.raises(kind):
            await bench.writer.force()
        assert bench.writer.last_add_confirmed == 0
        assert isinstance(bench.writer.failure, kind)
        assert bench[0].seen == [0, 1, 2]
        assert bench.store.writes == 0
        assert bench.store.callback is None

    run(main)


def test_a_bookie_that_was_replaced_can_still_tell_of_the_fence():
    async def main():
        bench = Bench()
        futures = bench.append(2)
        bench[0].reply(0, TIMED_OUT)
        await settle()
        assert "b0" not in bench.members()
        bench[0].reply(1, FENCED)
        assert isinstance(error_in(futures[1]), LedgerFencedError)

    run(main)


@pytest.mark.parametrize("state", ["in recovery", "closed"])
def test_an_idle_writer_notices_that_its_ledger_was_taken(state):
    async def main():
        bench = Bench()
        bench.answer_all()
        await bench.writer.append(b"x")
        await settle()
        assert bench.writer.failure is None
        metadata = bench.store.now.metadata
        bench.store.set(metadata.in_recovery() if state == "in recovery" else metadata.closed(0, 1))
        await settle()
        assert isinstance(bench.writer.failure, LedgerFencedError)
        with pytest.raises(LedgerFencedError) as refused:
            bench.writer.append_nowait(b"x")
        assert refused.value.outcome is Outcome.NOT_DONE

    run(main)


def test_an_idle_writer_notices_that_its_ledger_was_deleted():
    async def main():
        bench = Bench()
        (future,) = bench.append(1)
        await settle()
        bench.store.callback(None)
        assert isinstance(error_in(future), NoSuchLedgerError)
        assert future.exception().outcome is Outcome.UNKNOWN
        with pytest.raises(NoSuchLedgerError):
            await bench.writer.append(b"x")

    run(main)


def test_a_change_of_metadata_by_others_that_keeps_it_open_is_no_concern():
    async def main():
        bench = Bench()
        bench.store.set(bench.store.now.metadata)
        await settle()
        bench.answer_all()
        assert await bench.writer.append(b"x") == 0
        assert bench.writer.failure is None

    run(main)


def test_an_abandoned_writer_leaves_the_ledger_open():
    async def main():
        bench = Bench()
        futures = bench.append(2)
        waiting = asyncio.ensure_future(bench.writer.close())
        await settle()
        bench.writer.abandon(ClosedClientError())
        assert [error_in(future).outcome for future in futures] == [Outcome.UNKNOWN] * 2
        for call in (bench.writer.append(b"x"), bench.writer.close(), bench.writer.force(), waiting):
            with pytest.raises(ClosedClientError):
                await call
        assert not bench.writer.is_closed
        assert bench.store.writes == 0

    run(main)


def test_a_late_answer_to_an_ended_writer_changes_nothing():
    async def main():
        bench = Bench()
        futures = bench.append(2)
        bench[0].reply(0, FENCED)
        failure = bench.writer.failure
        bench[1].reply(0, int(ReplyStatus.EUA))
        bench[2].reply(0, TIMED_OUT)
        bench[1].reply(1)
        await settle()
        assert bench.writer.failure is failure
        assert bench.store.writes == 0
        assert all(isinstance(error_in(future), BookKeeperError) for future in futures)

    run(main)

"""A transaction whose first records lie in a file is cut into entries as one in memory is."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from herdpy.log import LogError, LogWriteError
from herdpy.log.bookkeeper.sender import AppendQueue, LeaderAppend
from herdpy.log.entry import FIRST, LAST, WHOLE, LoggedTransaction, decode_parts, encode_records
from herdpy.log.records import Insert, Record
from herdpy_server.store.spilling import Spool
from tests.log_bookkeeper.kit import Place, transaction


def transactions(directory: Path, spooled: int) -> tuple[LoggedTransaction, LoggedTransaction]:
    """The same records, the first of them in a file, and all in memory."""
    records: list[Record] = [Insert(1, b"%04d" % number, b"row" * 9) for number in range(200)]
    spool = Spool(directory)
    for start in range(0, spooled, 30):
        some = records[start : min(start + 30, spooled)]
        spool.push(encode_records(some), len(some))
    return LoggedTransaction(5, records[spooled:], b"id", before=spool), LoggedTransaction(5, records, b"id")


@pytest.mark.parametrize("spooled", [1, 30, 100, 199])
def test_a_stored_body_is_that_of_the_same_records_in_memory(tmp_path: Path, spooled: int) -> None:
    stored, whole = transactions(tmp_path, spooled)
    body, wanted = stored.body(), whole.encode()
    assert stored.encode() == wanted
    assert len(body) == len(wanted)
    for start in range(0, len(wanted), 7):
        for size in (1, 6, 40, 3000):
            assert body[start : start + size] == wanted[start : start + size]


def test_it_goes_out_in_parts_and_others_behind_it(tmp_path: Path) -> None:
    stored, whole = transactions(tmp_path, 150)
    queue = AppendQueue(1000, 100)
    small = LoggedTransaction(6, [Insert(1, b"k", b"v")])
    appends = [LeaderAppend(one, one.body()) for one in (stored, small)]
    for append in appends:
        queue.put(append)
    assert queue.last() is appends[1]
    parts, taken = [], []
    while (entry := queue.take()) is not None:
        parts += decode_parts(b"".join(entry.parts), len(entry.parts))
        taken.append(entry)
    assert queue.size_bytes == 0
    flags = [(FIRST if one.first else 0) | (LAST if one.last else 0) for one in parts]
    assert flags == [FIRST, *[0] * (len(flags) - 3), LAST, WHOLE]
    assert b"".join(one.data for one in parts[:-1]) == whole.encode()
    assert [one for entry in taken for one in entry.appends] == appends
    queue.put_back(taken[2:])
    assert queue.last() is appends[1]
    assert queue.drain() == appends
    for append in appends:
        queue.put(append)
    queue.take()
    assert queue.drain() == appends
    assert queue.last() is None


class Unreadable:
    """Stored records whose file gives an error where another entry begins."""

    def __init__(self, good_bytes: int) -> None:
        self.count, self.size_bytes = 1, 5000
        self._good_bytes = good_bytes
        self._data = encode_records([Insert(1, b"key", b"x" * 4980)])[:5000].ljust(5000, b"x")

    def read(self, offset: int, size: int) -> bytes:
        if offset + size > self._good_bytes:
            raise OSError(errno.EIO, "a disk is gone")
        return self._data[offset : offset + size]


@pytest.mark.parametrize("good_bytes", [0, 2000])
def test_what_cannot_be_read_ends_the_log_and_leaves_nobody_waiting(good_bytes: int) -> None:
    place = Place(max_entry_bytes=900)

    async def program() -> None:
        lost: list[LogError] = []
        node, successor = await place.node("a"), await place.node("b")
        log = await node.lead(1, on_lost=lost.append)
        await log.append(transaction(1))
        whole = LoggedTransaction(2, [Insert(1, b"k", b"v")], before=Unreadable(good_bytes))
        appends = [log.append(one) for one in (transaction(3), whole, transaction(4))]
        for append in appends[1:]:
            with pytest.raises(LogWriteError, match="a disk is gone") as told:
                await append
            assert told.value.outcome == "not done"
        assert isinstance(log.failure, LogWriteError)
        await asyncio.sleep(0)
        assert lost == [log.failure]
        await successor.lead(2)
        assert await successor.contents() in ([1], [1, 3])  # the one before may be on its way

    place.run(program)


@pytest.mark.parametrize("large", [False, True])
def test_the_queue_keeps_what_it_could_not_read(tmp_path: Path, large: bool) -> None:
    queue = AppendQueue(900 if large else 100_000, 100)
    appends = [
        LeaderAppend(one, one.body())
        for one in (
            transaction(1),
            LoggedTransaction(2, [Insert(1, b"k", b"v")], before=Unreadable(0)),
            transaction(3),
        )
    ]
    for append in appends:
        queue.put(append)
    before = queue.size_bytes
    if large:
        assert queue.take() is not None
        before = queue.size_bytes
    with pytest.raises(OSError, match="a disk is gone"):
        queue.take()
    assert queue.size_bytes == before
    assert queue.drain() == (appends[1:] if large else appends)

"""Positions and entries of a log in files: where transactions end, what is confirmed, what was trimmed."""

import random
from dataclasses import replace

import pytest

from herdpy.log import (
    LSN,
    START,
    ChainError,
    FileLog,
    Insert,
    LogClosedError,
    LoggedTransaction,
    LogSettings,
    LogTrimmedError,
    RecordError,
)
from herdpy.log.detached import opened
from herdpy.log.entry import encode_entry, encode_part
from herdpy.log.file_ledger import frame
from herdpy_spark.log import LogAddress, advance, bounds, end, entries, position_at
from herdpy_spark.log.entries import read


def transaction(number, size=8):
    return LoggedTransaction(number * 1000, [Insert(1, b"key", b"x" * size)])


def written(directory, sizes, settings=None):
    """A log with a transaction of each size, closed; the position that each took effect at."""
    settings = settings or LogSettings(max_entry_bytes=1000, max_ledger_bytes=6000, preallocate_bytes=4096)
    log = FileLog(str(directory / "log"), settings=settings)
    random_ = random.Random(len(sizes))
    ends, waiting = [], []
    for number, size in enumerate(sizes):
        waiting.append(log.append(transaction(number, size)))
        if random_.random() < 0.5:
            log.flush()
            ends += [append.lsn for append in waiting]
            waiting = []
    log.flush()
    ends += [append.lsn for append in waiting]
    return log, ends


def address_of(directory):
    return LogAddress.of_database(directory)


def taken(address, after=START, upto=None):
    return [
        (entry.lsn, one.timestamp_us // 1000)
        for entry in entries(address, after, upto)
        for one in entry.transactions()
    ]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A closed log over several ledgers, with small transactions and some in many parts."""
    directory = tmp_path_factory.mktemp("mixed")
    random_ = random.Random(5)
    sizes = [random_.choice([8, 8, 100, 700, 3000, 9000]) for _ in range(60)]
    log, ends = written(directory, sizes)
    log.close()
    assert len(log.ledgers()) > 5
    return address_of(directory), ends


def test_every_transaction_end_is_a_place_to_stop_and_to_read_on(mixed):
    address, ends = mixed
    everything = list(enumerate(ends))
    assert taken(address) == [(lsn, number) for number, lsn in everything]
    assert end(address) == ends[-1]
    for stop in sorted(set(ends))[::3]:
        before, behind = taken(address, START, stop), taken(address, stop)
        assert [number for _, number in before + behind] == list(range(len(ends)))
        assert all(lsn <= stop for lsn, _ in before)
    whole = {entry.lsn for entry in entries(address, START) if entry.complete}
    assert whole == set(ends)


def test_reading_cannot_begin_in_the_middle_of_a_transaction(mixed):
    address, _ = mixed
    inside = next(entry.lsn for entry in entries(address, START) if not entry.complete)
    with pytest.raises(RecordError, match="not begun"):
        list(entries(address, inside))


def test_another_history_at_the_position_is_refused(mixed):
    address, ends = mixed
    crcs = {entry.lsn: entry.crc for entry in entries(address, START)}
    stop = ends[20]
    assert list(entries(address, stop, crc=crcs[stop]))
    with pytest.raises(ChainError, match="another history"):
        list(entries(address, stop, crc=crcs[stop] ^ 1))


def test_advancing_by_entries_stops_at_the_next_end(mixed):
    address, ends = mixed
    positions = [entry.lsn for entry in entries(address, START)]
    for begun in [START, ends[3], ends[17]]:
        at = 0 if begun == START else positions.index(begun) + 1
        for count in (1, 2, 7, 23, len(positions)):
            reached = positions[min(at + count, len(positions)) - 1]
            expected = next((one for one in ends if one >= reached), ends[-1])
            assert advance(address, begun, count) == expected, (begun, count)


def test_the_position_at_a_time_is_behind_all_that_was_committed_until_then(mixed):
    address, ends = mixed
    for number in range(len(ends)):
        within = [lsn for lsn in ends if all(n <= number for n, one in enumerate(ends) if one == lsn)]
        assert position_at(address, number * 1000) == max(within, default=START), number
    assert position_at(address, -1) == START
    assert position_at(address, 10**15) == ends[-1]


def test_what_is_not_witnessed_as_confirmed_is_not_read(tmp_path):
    log, ends = written(tmp_path, [8] * 5, LogSettings())
    address = address_of(tmp_path)
    assert end(address) == START
    log.note_lac()
    assert end(address) == ends[-1]
    log.append(transaction(5)).block()
    assert len(taken(address)) == 5
    log.close()
    assert len(taken(address)) == 6


def test_a_transaction_whose_last_part_never_came_is_not_part_of_the_log(tmp_path):
    log, ends = written(tmp_path, [8] * 3, LogSettings())
    log.close()
    whole = next(iter(entries(address_of(tmp_path), START)))
    assert whole.complete
    # The writer's own way of cutting, with the last part left out.
    log = FileLog(str(tmp_path / "log"), settings=LogSettings(max_entry_bytes=1000))
    real = log._encode

    def without_last(ledger, group):
        before, crc = ledger.last, ledger.crc
        frames = []
        for flags in (1, 0, 0):
            lsn = LSN(ledger.ledger_id, len(frames))
            data, crc = encode_entry(lsn, before, crc, -1, [encode_part(b"\0" * 100, flags)])
            frames.append(frame(data))
            before = lsn
        group[0].lsn = before
        return b"".join(frames), before, crc

    log._encode = without_last
    log.append(transaction(9)).block()
    log.close()
    assert end(address_of(tmp_path)) == ends[-1]
    log = FileLog(str(tmp_path / "log"))
    assert log._encode is not real
    log.append(transaction(3)).block()
    log.close()
    assert [number for _, number in taken(address_of(tmp_path))] == [0, 1, 2, 3]


def test_trimmed_entries_are_an_error_and_the_base_a_place_to_begin(tmp_path):
    settings = LogSettings(max_entry_bytes=1000, max_ledger_bytes=4000, preallocate_bytes=4096)
    log, ends = written(tmp_path, [8, 600] * 20, settings)
    address = address_of(tmp_path)
    log.trim(ends[25])
    log.close()
    limits = bounds(address)
    assert START < limits.base <= ends[25]
    assert limits.end == ends[-1]
    with pytest.raises(LogTrimmedError, match="begins after"):
        list(entries(address, START))
    with pytest.raises(LogTrimmedError, match="begins after"):
        advance(address, START, 1)
    with pytest.raises(LogTrimmedError, match="no longer reaches back"):
        position_at(address, 0)
    kept = taken(address, limits.base)
    assert kept[-1] == (ends[-1], 39)
    assert [number for _, number in kept] == list(range(kept[0][1], 40))


class Trimmed:
    """A log as if all before ``base`` was gone."""

    def __init__(self, ledgers, base):
        self._ledgers, self._base = ledgers, base
        self.confirmed, self.read = ledgers.confirmed, ledgers.read

    def state(self):
        return replace(self._ledgers.state(), base=self._base)


def test_the_rest_of_a_transaction_that_began_before_the_base_is_left_out(mixed):
    address, ends = mixed
    inside = [entry.lsn for entry in entries(address, START) if not entry.complete]
    with opened(address) as ledgers:
        for base in inside[::5]:
            found = [
                one.timestamp_us // 1000
                for entry in read(Trimmed(ledgers, base), base)
                for one in entry.transactions()
            ]
            cut = next(number for number, lsn in enumerate(ends) if lsn > base)
            assert found == list(range(cut + 1, len(ends)))


def test_a_log_that_is_not_there_or_another_one_is_named(tmp_path):
    with pytest.raises(LogClosedError, match="is not there"):
        end(address_of(tmp_path))
    log, _ = written(tmp_path, [8])
    log.close()
    with pytest.raises(LogClosedError, match="dropped and made again"):
        end(replace(address_of(tmp_path), log_id="00" * 16))
    with pytest.raises(ValueError, match="either"):
        LogAddress("t")

"""The file log as the state machine uses it: append, read, tail, roll, trim, close, reopen."""

import asyncio
import os
import threading

import pytest

from herdpy.log import (
    LSN,
    START,
    FileLog,
    LedgerListConflictError,
    LogClosedError,
    LogTrimmedError,
    TransactionAssembler,
)
from herdpy.log.ledger_list import FileLedgerList


def test_an_empty_log(disk, kit):
    log = kit.open(disk)
    assert (log.lac, log.end, log.ledgers(), log.recovered) == (START, START, (), [])
    assert kit.numbers(log) == []
    log.close()
    assert kit.open(disk).ledgers() == ()


def test_what_was_appended_is_read_after_reopening(disk, kit):
    log = kit.open(disk)
    assert kit.put(log, 1, 2, 3) == [LSN(1, 0)] * 3  # one group, one entry
    assert kit.put(log, 4) == [LSN(1, 1)]
    assert kit.numbers(log) == [1, 2, 3, 4]
    log.close()
    log.close()
    log = kit.open(disk)
    assert log.lac == LSN(1, 1)
    assert kit.numbers(log) == [1, 2, 3, 4]
    assert kit.numbers(log, LSN(1, 0)) == [4]
    assert kit.put(log, 5) == [LSN(2, 0)]
    assert kit.numbers(log) == [1, 2, 3, 4, 5]
    assert kit.numbers(log, LSN(1, 1)) == [5]
    assert [(ledger.ledger_id, ledger.closed) for ledger in log.ledgers()] == [(1, True), (2, False)]


def test_it_works_in_a_real_directory(tmp_path, kit):
    path = str(tmp_path / "log")
    with_files = FileLog(path)
    kit.put(with_files, *range(100))
    with_files.roll()
    kit.put(with_files, 100)
    with_files.note_lac()
    with_files.close()
    assert sorted(os.listdir(path)) == ["0000000001.ledger", "0000000002.ledger", "ledgers"]
    again = FileLog(path)
    assert kit.numbers(again) == [*range(101)]
    assert again.trim(LSN(1, 0)) == [1]
    assert sorted(os.listdir(path)) == ["0000000002.ledger", "ledgers"]
    again.close()


def test_a_ledger_is_in_the_list_before_its_first_entry_is_written(disk, kit):
    log = kit.open(disk)
    seen = []

    def look(path):
        if path.endswith(".ledger") and disk.names_now[path].data:
            listed = FileLedgerList("/log", disk.power_cut()).read()
            seen.append((os.path.basename(path), [ledger.ledger_id for ledger in listed.ledgers]))

    disk.fail["pwrite"] = look
    kit.put(log, 1)
    log.roll()
    kit.put(log, 2)
    assert seen == [("0000000001.ledger", [1]), ("0000000002.ledger", [1, 2])]


def test_the_hook_sees_appends_in_order_before_they_are_resolved(disk, kit):
    seen = []

    def acknowledge(appends, error):
        assert error is None
        assert not any(append.done() for append in appends)
        seen.extend((append.lsn, append.transaction.timestamp_us) for append in appends)

    log = kit.open(disk, acknowledge)
    kit.put(log, 1, 2)
    kit.put(log, 3)
    base = kit.transaction(0).timestamp_us
    assert seen == [(LSN(1, 0), base + 1), (LSN(1, 0), base + 2), (LSN(1, 1), base + 3)]


def test_rolls_by_size_and_age(disk, kit):
    now = [1_000_000]
    log = kit.open(disk, settings={"max_ledger_bytes": 6000, "max_ledger_age_s": 10}, now_us=lambda: now[0])
    kit.put(log, 1, size=1500)
    assert not log.roll_if_due()
    kit.put(log, 2, size=1500)
    assert kit.put(log, 3) == [LSN(2, 0)]
    now[0] += 9_999_999
    assert kit.put(log, 4) == [LSN(2, 1)]
    now[0] += 1
    assert log.roll_if_due()
    assert not log.roll_if_due()
    assert [ledger.closed for ledger in log.ledgers()] == [True, True]
    assert kit.put(log, 5) == [LSN(3, 0)]
    assert log.ledgers()[2].created_us == now[0]
    assert kit.numbers(log) == [1, 2, 3, 4, 5]


def test_an_empty_ledger_is_not_rolled(disk, kit):
    log = kit.open(disk)
    log.roll()
    kit.put(log, 1)
    log.roll()
    log.roll()
    assert [ledger.ledger_id for ledger in log.ledgers()] == [1]


def test_trim_removes_whole_closed_ledgers_only(disk, kit):
    log = kit.open(disk)
    for number in range(1, 5):
        kit.put(log, number)
        kit.put(log, number * 10)
        if number < 4:
            log.roll()
    assert log.trim(LSN(1, 0)) == []
    assert log.trim(LSN(2, 1)) == [1, 2]
    assert log.trim(LSN(9, 9)) == [3]
    assert disk.names("/log") == ["0000000004.ledger", "ledgers"]
    with pytest.raises(LogTrimmedError, match="begins after 3:1"):
        kit.numbers(log)
    assert kit.numbers(log, LSN(3, 1)) == [4, 40]
    log.close()
    log = kit.open(disk)
    assert log.trim(log.lac) == [4]
    log.close()
    log = kit.open(disk)
    assert log.lac == LSN(4, 1)
    assert kit.put(log, 5) == [LSN(5, 0)]
    assert kit.numbers(log, LSN(4, 1)) == [5]  # the chain goes on over the trimmed ledgers


def test_a_crash_between_trimming_the_list_and_the_files(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    log.roll()
    kit.put(log, 2)
    disk.fail["remove"] = 5
    with pytest.raises(OSError, match="put/output"):
        log.trim(LSN(1, 0))
    disk.fail.clear()
    disk = disk.copy()
    assert "0000000001.ledger" in disk.names("/log")
    log = kit.open(disk)
    assert "0000000001.ledger" not in disk.names("/log")
    assert kit.numbers(log, LSN(1, 0)) == [2]


def test_a_reader_goes_on_in_a_ledger_that_is_trimmed_under_it(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    kit.put(log, 2)
    cursor = log.cursor(START)
    assert cursor.next(log.lac).lsn == LSN(1, 0)
    log.roll()
    kit.put(log, 3)
    log.trim(LSN(1, 1))
    assert cursor.next(log.lac).lsn == LSN(1, 1)
    assert cursor.next(log.lac).lsn == LSN(2, 0)
    assert cursor.next(log.lac) is None
    kit.put(log, 4)
    assert cursor.next(log.lac).lsn == LSN(2, 1)
    cursor.close()


def test_reading_stops_where_it_was_told(disk, kit):
    log = kit.open(disk)
    for number in range(6):
        kit.put(log, number)
        if number % 2:
            log.roll()
    cursor = log.cursor(LSN(1, 0))
    found = []
    while (entry := cursor.next(LSN(3, 0))) is not None:
        found.append(entry.lsn)
    cursor.close()
    assert found == [LSN(1, 1), LSN(2, 0), LSN(2, 1), LSN(3, 0)]


def test_a_large_transaction_takes_effect_at_its_last_part(disk, kit):
    log = kit.open(disk, settings={"max_entry_bytes": 300})
    small, large, after = (log.append(kit.transaction(*spec)) for spec in ((1,), (2, 1000), (3,)))
    log.flush()
    assert [a.result() for a in (small, large, after)] == [LSN(1, 0), LSN(1, 5), LSN(1, 5)]
    assert log.lac == LSN(1, 5)
    assert kit.numbers(log) == [1, 2, 3]
    assembler, safe = TransactionAssembler(), []
    cursor = log.cursor(START)
    while (entry := cursor.next(log.lac)) is not None:
        assembler.feed(entry)
        safe.append(assembler.safe)
    assert safe == [LSN(1, 0)] * 5 + [LSN(1, 5)]


def test_a_crash_between_the_parts_of_a_transaction_leaves_no_effect(disk, kit):
    log = kit.open(disk, settings={"max_entry_bytes": 300})
    kit.put(log, 1)
    before = len(disk.content("0000000001.ledger").rstrip(b"\0"))
    kit.put(log, 2, size=1000)
    entry = 300 + 8  # and its trailer
    for parts in range(1, 5):
        crashed = disk.copy()
        node = crashed.content("0000000001.ledger")
        end = before + parts * entry
        node[end:] = bytes(len(node) - end)
        log = kit.open(crashed, settings={"max_entry_bytes": 300})
        assert log.recovered == []
        assert log.lac == LSN(1, parts)
        assert kit.numbers(log) == [1]
        kit.put(log, 3)
        assert kit.numbers(log) == [1, 3]


def test_read_only_changes_nothing(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    before = {name: bytes(node.data) for name, node in disk.names_now.items()}
    disk.log.clear()
    reader = kit.open(disk, read_only=True)
    assert kit.numbers(reader) == [1]
    with pytest.raises(LogClosedError, match="reading only"):
        reader.append(kit.transaction(2))
    with pytest.raises(LogClosedError):
        reader.trim(LSN(1, 0))
    reader.close()
    assert {name: bytes(node.data) for name, node in disk.names_now.items()} == before
    assert {operation for operation, _ in disk.log} == {"open"}
    assert kit.open(kit.Disk(), read_only=True).lac == START


def test_a_second_writer_makes_the_first_step_down(disk, kit):
    first = kit.open(disk)
    kit.put(first, 1)
    second = kit.open(disk)
    kit.put(second, 2)
    with pytest.raises(LedgerListConflictError) as caught:
        first.roll()
    assert caught.value.outcome == "not done"
    with pytest.raises(LogClosedError, match="another process"):
        first.append(kit.transaction(3))
    assert kit.numbers(second) == [1, 2]


def test_a_closed_log_refuses_appends(disk, kit):
    log = kit.open(disk)
    queued = log.append(kit.transaction(1))
    log.close()
    assert queued.result() == LSN(1, 0)  # close flushed it
    with pytest.raises(LogClosedError) as caught:
        log.append(kit.transaction(2))
    assert caught.value.outcome == "not done"
    assert log.ledgers()[0].closed


# Tailing.


def test_a_tail_follows_a_writer_across_ledgers(disk, kit):
    log = kit.open(disk)
    kit.put(log, 0)
    started = threading.Event()

    def write():
        started.wait()
        for number in range(1, 60):
            kit.put(log, number)
            if number % 7 == 0:
                log.roll()
        log.close()

    thread = threading.Thread(target=write)
    thread.start()

    async def follow():
        found, assembler = [], TransactionAssembler()
        async for _, entry in log.tail(START):
            started.set()
            found += [int(t.records[0].row.strip(b"_")) for _, t in assembler.feed(entry)]
        return found

    assert asyncio.run(follow()) == [*range(60)]  # ends because the log was closed
    thread.join()


def test_a_tail_that_waits_can_be_cancelled(disk, kit):
    log = kit.open(disk)

    async def main():
        async def follow():
            async for _ in log.tail(START):
                pass

        task = asyncio.ensure_future(follow())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert log._reader.waiting == []

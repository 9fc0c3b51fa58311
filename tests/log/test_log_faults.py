"""A disk that fails: what each append reports is true, reads go on, and writing works again."""

import errno

import pytest

from herdpy.log import LSN, LogError, LogFullError, LogWriteError

FILE = "0000000001.ledger"


def _fails(append, kind, outcome):
    append.block()
    with pytest.raises(kind) as caught:
        append.result()
    assert caught.value.outcome == outcome
    return caught.value


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("operation", ["allocate", "pwrite", "create", "replace"])
def test_a_full_disk_fails_the_group_and_all_behind_it(disk, kit, operation, number):
    seen = []
    log = kit.open(disk, lambda appends, error: seen.append((len(appends), error)))
    if operation in ("allocate", "pwrite"):
        kit.put(log, 1)
        size = 9000  # more than is reserved
    else:
        size = 20
    disk.fail[operation] = number
    first = log.append(kit.transaction(2, size))
    second = log.append(kit.transaction(3))
    _fails(first, LogFullError, "not done")
    _fails(second, LogFullError, "not done")
    before = kit.numbers(log)
    assert kit.numbers(kit.open(disk.copy(), read_only=True)) == before  # nothing of it is to be found
    disk.fail.clear()
    assert kit.numbers(kit.open(disk.power_cut(), read_only=True)) == before
    kit.put(log, 4)
    assert kit.numbers(log) == [*before, 4]
    assert [count for count, error in seen if error] == [2]
    log.close()
    assert kit.numbers(kit.open(disk.power_cut())) == [*before, 4]


def test_what_queued_up_while_the_disk_was_found_full_fails_too(disk, kit):
    late = []

    def acknowledge(appends, error):
        if error is not None and not late:
            late.append(log.append(kit.transaction(3)))

    log = kit.open(disk, acknowledge)
    disk.fail["create"] = errno.ENOSPC
    _fails(log.append(kit.transaction(2)), LogFullError, "not done")
    assert "earlier transaction" in str(_fails(late[0], LogFullError, "not done"))


def test_a_smaller_reservation_is_tried_before_the_disk_is_called_full(disk, kit):
    log = kit.open(disk, settings={"preallocate_bytes": 1 << 20})
    sizes = []

    def allocate(path):
        sizes.append(path)
        if len(sizes) == 1:
            raise OSError(errno.ENOSPC, "full")

    disk.fail["allocate"] = allocate
    kit.put(log, 1)
    assert len(sizes) == 2
    assert len(disk.content(FILE)) < 5000


def test_half_a_write_is_cut_off_again(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    calls = []

    def pwrite(path):
        calls.append(path)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "full")
        return 50

    disk.fail["pwrite"] = pwrite
    _fails(log.append(kit.transaction(2)), LogFullError, "not done")
    disk.fail.clear()
    for after in (disk.copy(), disk.power_cut()):
        opened = kit.open(after)
        assert opened.recovered == []
        assert kit.numbers(opened) == [1]
    assert kit.put(log, 3) == [LSN(1, 1)]  # the same ledger goes on


def test_short_writes_are_completed(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    disk.fail["pwrite"] = lambda path: 7
    kit.put(log, 2)
    assert kit.numbers(log) == [1, 2]


def test_a_failed_sync_is_not_tried_again_and_ends_the_ledger(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    disk.fail["fdatasync"] = errno.EIO
    disk.log.clear()
    _fails(log.append(kit.transaction(2)), LogWriteError, "not done")
    assert disk.log.count(("fdatasync", FILE)) == 1
    disk.fail.clear()
    assert [ledger.closed for ledger in log.ledgers()] == [True]
    assert kit.put(log, 3) == [LSN(2, 0)]
    assert kit.numbers(log) == [1, 3]
    for after in (disk.copy(), disk.power_cut()):
        assert kit.numbers(kit.open(after)) == [1, 3]


def test_a_first_sync_that_fails_leaves_no_ledger(disk, kit):
    log = kit.open(disk)
    disk.fail["fdatasync"] = errno.EIO
    _fails(log.append(kit.transaction(1)), LogWriteError, "not done")
    assert log.ledgers() == ()
    disk.fail.clear()
    assert kit.put(log, 2) == [LSN(2, 0)]
    assert kit.numbers(kit.open(disk.copy())) == [2]


def test_a_ledger_that_was_taken_out_of_the_list_may_come_back_after_a_power_cut(disk, kit):
    """Its removal was not synced; whatever is in it was never acknowledged."""
    log = kit.open(disk)
    disk.fail["fdatasync"] = errno.EIO
    disk.fail["truncate"] = errno.EIO
    _fails(log.append(kit.transaction(1)), LogWriteError, "not done")
    after = disk.power_cut(lambda path, pending: pending)
    assert FILE in after.names("/log")
    log = kit.open(after)
    assert kit.numbers(log) == []
    assert kit.put(log, 2) == [LSN(2, 0)]
    assert kit.numbers(kit.open(after.copy())) == [2]


def test_a_list_that_cannot_be_read_back_stops_the_log(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    disk.content("ledgers")[30] ^= 1
    log.append(kit.transaction(2)).block()  # the list is not needed for it
    with pytest.raises(LogError, match="damaged: ledger list"):
        log.roll()
    with pytest.raises(LogError, match="damaged: ledger list"):
        log.append(kit.transaction(3))
    assert kit.numbers(log) == [1, 2]


def test_what_cannot_be_encoded_is_refused_at_once(disk, kit):
    from herdpy.log import DropTable, LoggedTransaction, RecordError

    log = kit.open(disk)
    for number in (-1, 2**32):
        with pytest.raises(RecordError, match="cannot be encoded"):
            log.append(LoggedTransaction(0, [DropTable(number)]))
    kit.put(log, 1)
    assert kit.numbers(log) == [1]


def test_when_nothing_can_be_settled_the_outcome_is_unknown(disk, kit):
    """The sync failed, the file cannot be cut and the list cannot be changed."""
    log = kit.open(disk)
    kit.put(log, 1)
    disk.fail |= {"fdatasync": errno.EIO, "truncate": errno.EIO, "create": errno.EIO}
    _fails(log.append(kit.transaction(2)), LogWriteError, "unknown")
    assert kit.numbers(kit.open(disk.copy())) == [1, 2]  # it may be found,
    assert kit.numbers(kit.open(disk.power_cut())) == [1]  # or not
    _fails(log.append(kit.transaction(3)), LogWriteError, "not done")
    assert kit.numbers(log) == [1]  # reads go on
    disk.fail.clear()
    kit.put(log, 4)
    assert kit.numbers(log) == [1, 4]
    assert kit.numbers(kit.open(disk.copy())) == [1, 4]  # now it is settled


def test_a_list_of_which_nobody_knows_whether_it_lasts_stops_the_log(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    log.roll()
    calls = []

    def sync_directory(path):
        calls.append(path)
        if len(calls) == 2:  # the first is the new ledger's, the second the list's
            raise OSError(errno.EIO, "bad")

    disk.fail["sync_directory"] = sync_directory
    _fails(log.append(kit.transaction(2)), LogWriteError, "not done")
    with pytest.raises(LogError, match="perhaps not for good"):
        log.append(kit.transaction(3))
    assert kit.numbers(log) == [1]
    log.close()
    for after in (disk.copy(), disk.power_cut()):
        opened = kit.open(after)
        assert kit.numbers(opened) == [1]
        kit.put(opened, 4)


def test_an_interrupt_during_a_flush_leaves_no_trace_of_the_group(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)

    def interrupt(path):
        raise KeyboardInterrupt

    for operation in ("pwrite", "fdatasync"):
        disk.fail[operation] = interrupt
        append = log.append(kit.transaction(2))
        with pytest.raises(KeyboardInterrupt):
            append.block()
        disk.fail.clear()
        _fails(append, LogWriteError, "not done")
    kit.put(log, 3)
    assert kit.numbers(log) == [1, 3]
    assert kit.numbers(kit.open(disk.copy())) == [1, 3]


def test_a_hook_that_fails_stops_the_log_and_leaves_nobody_waiting(disk, kit):
    def acknowledge(appends, error):
        raise ZeroDivisionError

    log = kit.open(disk, acknowledge)
    append = log.append(kit.transaction(1))
    append.block()
    _fails(append, LogError, "unknown")
    with pytest.raises(LogError, match="ZeroDivisionError"):
        log.append(kit.transaction(2))
    log.close()
    assert kit.numbers(kit.open(disk.copy())) == [1]


def test_closing_on_a_disk_that_fails_loses_nothing(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    disk.fail["create"] = errno.ENOSPC
    with pytest.raises(LogFullError) as caught:
        log.close()
    assert caught.value.outcome == "done"
    assert disk.fds == {}
    disk.fail.clear()
    assert kit.numbers(kit.open(disk.copy())) == [1]


def test_recovery_on_a_full_disk_fails_cleanly_and_works_later(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    crashed = disk.copy()
    crashed.fail["create"] = errno.ENOSPC
    with pytest.raises(OSError, match="No space"):
        kit.open(crashed)
    assert kit.numbers(kit.open(crashed, read_only=True)) == [1]
    crashed.fail.clear()
    assert kit.numbers(kit.open(crashed)) == [1]

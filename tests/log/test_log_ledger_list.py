"""The ledger list: compare-and-set, atomic replacement, refusal of what it did not write."""

import errno
from dataclasses import replace

import pytest
from google_crc32c import value as crc32c

from herdpy.log import LSN, CorruptLedgerError, LedgerListConflictError, LogFencedError
from herdpy.log.ledger_list import FileLedgerList, LedgerInfo, LedgerListState

STATE = LedgerListState(
    0,
    "ab" * 16,
    next_ledger_id=9,
    base=LSN(2, 7),
    base_crc=5,
    ledgers=(LedgerInfo(3, 10, True, 4, 4500, 2**32 - 1), LedgerInfo(8, 11)),
)


def test_a_list_survives_its_file(disk):
    ledger_list = FileLedgerList("/log", disk)
    assert ledger_list.read() is None
    written = ledger_list.write(STATE, 0)
    assert written == replace(STATE, version=1)
    assert ledger_list.read() == written
    assert FileLedgerList("/log", disk.power_cut()).read() == written
    assert written.settled_end == (LSN(3, 4), 2**32 - 1)
    assert replace(written, ledgers=written.ledgers[1:]).settled_end == (LSN(2, 7), 5)


def test_only_the_version_that_was_read_can_be_replaced(disk):
    one, two = FileLedgerList("/log", disk), FileLedgerList("/log", disk)
    first = one.write(STATE, 0)
    second = two.write(replace(first, next_ledger_id=10), first.version)
    with pytest.raises(LedgerListConflictError) as caught:
        one.write(replace(first, next_ledger_id=11), first.version)
    assert isinstance(caught.value, LogFencedError)
    with pytest.raises(LedgerListConflictError):
        one.write(STATE, 0)
    assert one.read() == second


@pytest.mark.parametrize("operation", ["create", "pwrite", "fsync", "replace"])
def test_a_failed_replacement_leaves_the_list_as_it_was(disk, operation):
    ledger_list = FileLedgerList("/log", disk)
    first = ledger_list.write(STATE, 0)
    disk.fail[operation] = errno.ENOSPC
    with pytest.raises(OSError, match="No space"):
        ledger_list.write(replace(first, next_ledger_id=20), first.version)
    disk.fail.clear()
    for after in (disk, disk.copy(), disk.power_cut()):
        assert FileLedgerList("/log", after).read() == first
    assert ledger_list.write(first, first.version).version == 2


@pytest.mark.parametrize("operation", ["create", "pwrite", "fsync", "replace", "sync_directory"])
def test_the_power_may_fail_at_any_step(disk, operation):
    ledger_list = FileLedgerList("/log", disk)
    first = ledger_list.write(STATE, 0)
    images = []
    disk.fail[operation] = lambda path: images.append(disk.power_cut())
    second = ledger_list.write(replace(first, next_ledger_id=20), first.version)
    assert [FileLedgerList("/log", image).read() for image in images] == [first] * len(images)
    assert len(images) == 1
    assert FileLedgerList("/log", disk.power_cut()).read() == second


def _text(body):
    return f"herdpy-ledger-list 1 {crc32c(body):08x}\n".encode() + body


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "first line"),
        (b"herdpy-ledger-list 2 00000000\n{}", "checksum"),
        (_text(b"{}").replace(b"list 1", b"list 0"), "format 0"),
        (b"herdpy-ledger-list 1 00000000\n{}", "checksum"),
        (_text(b"{}"), "ledgers"),
        (_text(b"no json"), "Expecting value"),
        (
            _text(b'{"version":1,"log":"","next_ledger":1,"base":[0,0],"base_crc":0,"ledgers":'
                  b'[{"id":1,"created_us":0,"state":"open"},{"id":2,"created_us":0,"state":"open"}]}'),
            "out of order",
        ),
    ],
)  # fmt: skip
def test_what_is_no_list_is_refused(disk, data, reason):
    fd = disk.open("/log/ledgers", write=True, create=True)
    disk.pwrite(fd, data, 0)
    with pytest.raises(CorruptLedgerError, match=reason) as caught:
        FileLedgerList("/log", disk).read()
    assert (caught.value.ledger_id, caught.value.file) == (None, "/log/ledgers")

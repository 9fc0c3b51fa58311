"""What a crash may leave is cut off and reported; everything else is refused, naming the place."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from herdpy.log import LSN, START, CorruptLedgerError, TornTail
from herdpy.log.file_ledger import BLOCK_BYTES

FILE = "0000000001.ledger"


def _three(disk, kit, *, note=False, size=20):
    """A killed log of three entries, and where each ends."""
    log = kit.open(disk)
    ends = []
    for number in (1, 2, 3):
        kit.put(log, number, size=size)
        ends.append(len(bytes(disk.content(FILE)).rstrip(b"\0")))
        if note:
            log.note_lac()
    return disk.copy(), ends


def _refused(disk, kit, **where):
    with pytest.raises(CorruptLedgerError) as caught:
        kit.numbers(kit.open(disk))
    for name, value in where.items():
        assert getattr(caught.value, name) == value, str(caught.value)
    assert caught.value.file in str(caught.value)
    return caught.value


def test_a_killed_process_loses_nothing_it_wrote(disk, kit):
    crashed, _ = _three(disk, kit)
    log = kit.open(crashed)
    assert log.recovered == []
    assert kit.numbers(log) == [1, 2, 3]
    assert log.ledgers()[0].closed
    kit.put(log, 4)
    assert kit.numbers(kit.open(crashed.copy())) == [1, 2, 3, 4]


def test_the_last_write_torn_at_every_byte_is_cut_off_and_reported(disk, kit):
    crashed, ends = _three(disk, kit)
    for cut in range(ends[1], ends[2]):
        torn = crashed.copy()
        node = torn.content(FILE)
        node[cut:] = bytes(len(node) - cut)
        log = kit.open(torn)
        if cut == ends[1]:
            assert log.recovered == []
        else:
            written = len(bytes(crashed.content(FILE)[ends[1] : cut]).rstrip(b"\0"))
            assert log.recovered == [TornTail(1, 2, "/log/" + FILE, written)]
            assert "entry 2" in str(log.recovered[0])
        assert kit.numbers(log) == [1, 2]
        assert kit.put(log, 4) == [LSN(2, 0)]
        again = kit.open(torn.copy())
        assert again.recovered == []
        assert kit.numbers(again) == [1, 2, 4]


def test_a_file_that_ends_in_the_torn_write_is_cut_too(disk, kit):
    crashed, ends = _three(disk, kit)
    for cut in (ends[1], ends[1] + 1, ends[2] - 1):
        short = crashed.copy()
        del short.content(FILE)[cut:]
        log = kit.open(short)
        assert [torn.entry_id for torn in log.recovered] == ([2] if cut > ends[1] else [])
        assert kit.numbers(log) == [1, 2]


def test_a_torn_tail_is_reported_but_left_by_a_reader(disk, kit):
    crashed, ends = _three(disk, kit)
    crashed.content(FILE)[ends[2] - 1] = 0
    before = bytes(crashed.content(FILE))
    log = kit.open(crashed, read_only=True)
    assert [torn.entry_id for torn in log.recovered] == [2]
    assert kit.numbers(log) == [1, 2]
    assert crashed.content(FILE) == before


@pytest.mark.parametrize("note", [False, True])
def test_a_flipped_bit_anywhere_is_refused_or_harmless(disk, kit, note):
    """Every byte of an open ledger's file, each with one bit flipped: nothing is lost silently."""
    crashed, ends = _three(disk, kit, note=note)
    flips = [*range(256), *range(2040, 2090), *range(3064, 3110), *range(BLOCK_BYTES, ends[2] + 40)]
    refused = 0
    for at in flips:
        flipped = crashed.copy()
        flipped.content(FILE)[at] ^= 1 << at % 8
        found = error = None
        try:
            found = kit.numbers(kit.open(flipped))
        except CorruptLedgerError as raised:
            error = raised
        if error is not None:
            entry = None if at < BLOCK_BYTES else next((i for i, end in enumerate(ends) if at < end), 3)
            assert (error.file, error.entry_id) == ("/log/" + FILE, entry)
            refused += 1
            continue
        assert found == [1, 2, 3], f"byte {at} lost an acknowledged entry"
        assert at < BLOCK_BYTES or at >= ends[2], f"byte {at} of an entry is altered and was not seen"
    assert refused >= ends[2] - BLOCK_BYTES


def test_a_flipped_bit_in_a_closed_ledger_is_refused_when_it_is_read(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    kit.put(log, 2)
    log.close()
    end = len(disk.content(FILE))
    for at in range(BLOCK_BYTES, end):
        flipped = disk.copy()
        flipped.content(FILE)[at] ^= 0x10
        _refused(flipped, kit, ledger_id=1, file="/log/" + FILE)


def test_a_flipped_bit_in_the_ledger_list_is_refused(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    log.close()
    for at in range(len(disk.content("ledgers"))):
        flipped = disk.copy()
        flipped.content("ledgers")[at] ^= 1
        _refused(flipped, kit, ledger_id=None, file="/log/ledgers")


def test_damage_before_the_last_write_is_refused_even_when_bytes_are_missing(disk, kit):
    crashed, ends = _three(disk, kit)
    crashed.content(FILE)[ends[0] : ends[1]] = bytes(ends[1] - ends[0])
    error = _refused(crashed, kit, ledger_id=1, entry_id=1)
    assert "confirmed" in error.reason


def test_a_confirmed_entry_that_is_missing_is_refused(disk, kit):
    """The slot in the header block is the witness: without it this would pass for a torn write."""
    for note in (True, False):
        crashed, ends = _three(kit.Disk(), kit, note=note)
        crashed.content(FILE)[ends[1] :] = bytes(len(crashed.content(FILE)) - ends[1])
        if note:
            assert "entry 2 was confirmed" in _refused(crashed, kit, entry_id=2).reason
        else:
            assert kit.numbers(kit.open(crashed)) == [1, 2]


def test_an_entry_of_zeros_that_was_witnessed_is_refused_when_damaged(disk, kit):
    """Its zeros look like missing bytes; the witness knows better."""
    from herdpy.log import Insert, LoggedTransaction

    log = kit.open(disk)
    log.append(LoggedTransaction(1, [Insert(1, b"k", bytes(3000))])).block()
    end = len(bytes(disk.content(FILE)).rstrip(b"\0"))
    unwitnessed = disk.copy()
    log.note_lac()
    witnessed = disk.copy()
    for crashed in (unwitnessed, witnessed):
        crashed.content(FILE)[end - 1500] ^= 1
    assert [torn.entry_id for torn in kit.open(unwitnessed).recovered] == [0]
    _refused(witnessed, kit, entry_id=0)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_sectors_of_the_unsynced_write_may_be_missing(kit, data):
    """The power fails in the middle of a group's write: each sector is there or not."""
    disk = kit.Disk()
    log = kit.open(disk, settings={"max_entry_bytes": 700})
    kit.put(log, 1, 2)
    sizes = data.draw(st.lists(st.integers(10, 1500), min_size=1, max_size=6))
    disk.fail["fdatasync"] = 5
    disk.fail["truncate"] = 5
    disk.fail["replace"] = 5
    appends = [log.append(kit.transaction(3 + i, size)) for i, size in enumerate(sizes)]
    appends[0].block()
    keep_sectors = data.draw(st.lists(st.booleans(), min_size=40, max_size=40))

    def keep(path, pending):
        kept = []
        for at, what in pending:
            if at == "size":
                kept.append((at, what))
                continue
            place = 0
            while place < len(what):
                step = 512 - (at + place) % 512
                if keep_sectors[(at + place) // 512 % 40]:
                    kept.append((at + place, what[place : place + step]))
                place += step
        return kept

    after = kit.open(disk.power_cut(keep))
    found = kit.numbers(after)
    assert found[:2] == [1, 2]
    assert found[2:] == [3 + i for i in range(len(found) - 2)]


def test_what_nobody_synced_is_gone_after_a_power_cut_and_nothing_more(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    kit.put(log, 2)
    assert kit.numbers(kit.open(disk.power_cut())) == [1, 2]
    disk.lie = True  # a log that forgot fdatasync
    kit.put(log, 3)
    assert kit.numbers(kit.open(disk.power_cut())) == [1, 2], "the fake disk kept what was not synced"


def test_a_power_cut_after_every_file_operation_keeps_what_was_acknowledged(disk, kit):
    """Append, roll, trim and close with the power failing after each call to the disk in turn."""
    acknowledged, images = [], []

    def image(_path):
        images.append((list(acknowledged), disk.power_cut(), trimmed[0]))

    trimmed = [START]
    for operation in (
        "pwrite",
        "fdatasync",
        "fsync",
        "replace",
        "sync_directory",
        "remove",
        "truncate",
        "create",
    ):
        disk.fail[operation] = image
    log = kit.open(disk, lambda appends, _: acknowledged.extend(a.transaction for a in appends))
    for number in range(8):
        kit.put(log, number)
        if number % 3 == 2:
            log.roll()
        if number == 6:
            trimmed[0] = LSN(1, 2)
            log.trim(LSN(1, 2))
    log.close()
    image(None)
    assert len(images) > 40
    for known, after, low in images:
        log = kit.open(after)
        start = max(low, log.state.base)
        found = kit.numbers(log, start)
        want = [int(t.records[0].row.strip(b"_")) for t in known]
        if start != START:
            want = want[3:]
        assert found[: len(want)] == want
        assert len(found) <= len(want) + 1


# Files that are missing, foreign or short.


def test_a_missing_ledger_is_refused(disk, kit):
    crashed, _ = _three(disk, kit)
    del crashed.names_now["/log/" + FILE]
    assert "missing" in _refused(crashed, kit, ledger_id=1, entry_id=None).reason


def test_a_missing_ledger_list_is_refused(disk, kit):
    crashed, _ = _three(disk, kit)
    del crashed.names_now["/log/ledgers"]
    assert "list is missing" in _refused(crashed, kit, ledger_id=1).reason


def test_a_closed_ledger_that_is_too_short_is_refused(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    log.close()
    del disk.content(FILE)[-1]
    assert "the ledger list says" in _refused(disk, kit, ledger_id=1, entry_id=0).reason


def test_a_ledger_of_another_log_is_refused(disk, kit):
    crashed, _ = _three(disk, kit)
    other, _ = _three(kit.Disk(), kit)
    crashed.names_now["/log/" + FILE] = other.names_now["/log/" + FILE]
    assert "another" in _refused(crashed, kit, ledger_id=1).reason


def test_a_ledger_with_entries_that_the_list_does_not_name_is_refused(disk, kit):
    crashed, _ = _three(disk, kit)
    crashed.names_now["/log/0000000007.ledger"] = crashed.copy().names_now["/log/" + FILE]
    assert "does not name it" in _refused(crashed, kit, ledger_id=7).reason
    before = bytes(crashed.content("0000000007.ledger"))
    del crashed.content("0000000007.ledger")[BLOCK_BYTES:]
    assert kit.numbers(kit.open(crashed)) == [1, 2, 3]  # one without entries is cleared away
    assert "0000000007.ledger" not in crashed.names("/log")
    assert before


def test_two_histories_do_not_join(disk, kit):
    """Ledger 2 of a copy that went another way does not fit behind ledger 1."""
    log = kit.open(disk)
    kit.put(log, 1)
    fork = disk.copy()
    kit.put(log, 2)
    log.roll()
    kit.put(log, 3)
    other = kit.open(fork)
    kit.put(other, 9)
    other.roll()
    disk.names_now["/log/0000000002.ledger"] = fork.names_now["/log/0000000002.ledger"]
    crashed = disk.copy()
    assert "continues" in _refused(crashed, kit, ledger_id=2).reason

"""Logs taken apart for people, and checked."""

from herdpy.log import (
    LSN,
    START,
    Before,
    Insert,
    InsertBatch,
    LoadBatch,
    LoadDone,
    LoadOp,
    LoggedTransaction,
    Notify,
    StagedPart,
    TablesChecksum,
    Truncate,
    inspect,
)
from herdpy.log.inspect import report_record


def _log(disk, kit):
    log = kit.open(disk, settings={"max_entry_bytes": 400})
    records = [Insert(3, b"k", b"row"), Truncate(4), InsertBatch(5, b"arrow", 9), TablesChecksum([(3, 1, 2)])]
    log.append(LoggedTransaction(77, records, b"id")).block()
    log.roll()
    kit.put(log, 1)
    kit.put(log, 2, size=1000)
    return log


def test_entries_are_taken_apart(disk, kit):
    _log(disk, kit)
    reports = list(inspect.entries("/log", files=disk))
    first = reports[0]
    assert (first.lsn, first.predecessor, first.lac, first.parts) == (LSN(1, 0), START, -1, 1)
    assert (first.file, first.offset, first.incomplete) == ("/log/0000000001.ledger", 4096, False)
    transaction = first.transactions[0]
    assert (transaction.timestamp_us, transaction.request_id) == (77, b"id")
    assert [(r.name, r.table_id, r.rows) for r in transaction.records] == [
        ("Insert", 3, 1),
        ("Truncate", 4, 0),
        ("InsertBatch", 5, 9),
        ("TablesChecksum", None, 1),
    ]
    assert all(r.bytes == len(r.record.encode()) for r in transaction.records)
    assert [entry.incomplete for entry in reports[1:]] == [False, True, True, True, False]
    for report in reports:
        data = bytes(disk.names_now[report.file].data[report.offset :])
        assert data.startswith(b"HPEN")
        assert data[report.bytes + 4 :].startswith(b"DONE")


def test_entries_can_be_had_from_a_place_on(disk, kit):
    log = _log(disk, kit)
    assert [r.lsn for r in inspect.entries("/log", LSN(1, 0), LSN(2, 1), files=disk)] == [
        LSN(2, 0),
        LSN(2, 1),
    ]
    middle = list(inspect.entries("/log", LSN(2, 2), files=disk))
    assert [(r.lsn, len(r.transactions)) for r in middle] == [(LSN(2, 3), 0), (LSN(2, 4), 0)]
    log.trim(LSN(1, 0))
    assert next(inspect.entries("/log", files=disk)).lsn == LSN(2, 0)


def test_ledgers_are_listed_with_what_their_files_say(disk, kit):
    log = _log(disk, kit)
    log.note_lac()
    first, second = inspect.ledgers("/log", disk)
    assert (first.info.closed, first.slot, first.problem) == (True, None, None)
    assert second.header.predecessor == LSN(1, 0)
    assert second.slot.entry_id == log.lac.entry_id
    disk.content("0000000001.ledger")[0] ^= 1
    assert "does not begin" in str(inspect.ledgers("/log", disk)[0].problem)
    assert inspect.ledgers("/log", kit.Disk()) == []


def test_a_whole_log_checks(disk, kit):
    _log(disk, kit)
    result = inspect.check("/log", disk)
    assert result.problems == result.torn == []
    assert (result.ledgers, result.entries, result.transactions, result.records) == (2, 6, 3, 6)
    assert result.last == LSN(2, 4)
    sizes = [len(bytes(disk.content(f"000000000{i}.ledger")).rstrip(b"\0")) - 4096 for i in (1, 2)]
    assert result.bytes == sum(sizes)


def test_every_damaged_ledger_is_named(disk, kit):
    log = kit.open(disk)
    for number in range(4):
        kit.put(log, number)
        log.roll()
    disk.content("0000000001.ledger")[4200] ^= 1
    disk.content("0000000003.ledger")[4100] ^= 1
    result = inspect.check("/log", disk)
    assert [(p.ledger_id, p.entry_id) for p in result.problems] == [(1, 0), (3, 0)]
    assert result.entries == 2
    disk.content("ledgers")[40] ^= 1
    assert [p.file for p in inspect.check("/log", disk).problems] == ["/log/ledgers"]


def test_a_list_that_is_gone_and_a_list_that_lies_are_problems(disk, kit):
    log = kit.open(disk)
    kit.put(log, 1)
    kit.put(log, 2)
    log.close()
    good = disk.copy()
    del disk.names_now["/log/ledgers"]
    assert "missing" in inspect.check("/log", disk).problems[0].reason
    from dataclasses import replace

    from herdpy.log.ledger_list import FileLedgerList

    ledger_list = FileLedgerList("/log", good)
    state = ledger_list.read()
    ledger_list.write(replace(state, ledgers=(replace(state.ledgers[0], last_entry_id=4),)), state.version)
    assert "ends at 1:4" in inspect.check("/log", good).problems[0].reason


def test_torn_tails_and_unfinished_transactions_are_no_damage(disk, kit):
    log = kit.open(disk, settings={"max_entry_bytes": 400})
    kit.put(log, 1)
    kit.put(log, 2, size=1000)
    crashed = disk.copy()
    node = crashed.content("0000000001.ledger")
    end = len(bytes(node).rstrip(b"\0"))
    node[end - 3 :] = bytes(len(node) - end + 3)
    result = inspect.check("/log", crashed)
    assert result.problems == []
    assert [torn.entry_id for torn in result.torn] == [4]
    assert (result.transactions, result.unfinished) == (1, 1)


def test_loads_say_where_their_rows_stand_and_what_became_of_them():
    parts = (StagedPart(9, 0, 10, 0, 5), StagedPart(12, 0, 10, 0, 2))
    batch = report_record(LoadBatch(7, LoadOp.UPSERT, -1, parts))
    assert (batch.name, batch.table_id, batch.rows) == ("LoadBatch", 7, 7)
    assert batch.detail == "upsert, staged in 9, 12"
    done = report_record(LoadDone("nightly", 7, 1200, 0, 0, 3))
    assert (done.table_id, done.rows, done.detail) == (7, 0, "load 'nightly': 1,200 inserted, 3 skipped")
    assert report_record(LoadDone("none", 7, 0, 0, 0, 0)).detail == "load 'none': no rows"


def test_a_notification_is_shown_with_its_channel():
    shown = report_record(Notify(7, "nöws".encode(), b"xyz"))
    assert shown.detail == "channel 'nöws', payload of 3 bytes, from process 7"
    assert report_record(Before(7, b"k", b"row")).rows == 1

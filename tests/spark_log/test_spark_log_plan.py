"""What a read from the log stands on: errors that say what to do, ranges of like size, no needless look."""

import random
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import herdpy
from herdpy.log import (
    LSN,
    START,
    ChainError,
    FileLog,
    Insert,
    LoggedTransaction,
    LogSettings,
    LogTrimmedError,
    LogUnavailableError,
    RecordError,
    Truncate,
    detached,
)
from herdpy.log.published import DamagedSnapshotError, load, newest
from herdpy.log.published import tables as writer_module
from herdpy_server.embedded import Database
from herdpy_server.publishing.snapshot import Moment, applied_state, write_snapshot
from herdpy_spark.log import (
    LogAddress,
    NoSuchPositionError,
    end,
    history,
    partition,
    plan_table,
    read_partition,
)
from herdpy_spark.log.history import Sample, cut
from herdpy_spark.log.partition import SnapshotRows

ROWS = 3000


def numbers(plan):
    return sorted(
        row["id"]
        for number in range(len(plan.ranges))
        for batch in read_partition(plan, number, ["id"])
        for row in batch.to_pylist()
    )


def publish(database, url, crc=None, time_us=0, log_id=None):
    database.log.note_lac()
    state = applied_state(database.store)
    try:
        write_snapshot(state, url, "herdpy", Moment(log_id or database.log.state.log_id, crc, time_us))
    finally:
        state.close()


@pytest.fixture(autouse=True)
def nothing_kept():
    partition._kept.clear()


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A table of 3000 rows in row groups of 100, published; then some rows changed."""
    monkeypatch.setattr(writer_module, "MAX_ROW_GROUP", 100)
    database = Database.acquire(tmp_path / "db", max_ledger_bytes=20_000)
    connection = herdpy.connect(str(tmp_path / "db"))
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
    cursor.executemany("INSERT INTO t VALUES (%s, %s)", [(n, f"name {n}") for n in range(ROWS)])
    connection.commit()
    yield database, cursor, LogAddress.of_database(tmp_path / "db", snapshot_url=str(tmp_path / "out"))
    connection.close()
    database.release()


def commit(database, cursor, *statements):
    for statement in statements:
        cursor.execute(statement)
    cursor.connection.commit()
    database.log.note_lac()
    return database.log.end


def test_row_groups_that_nothing_changed_pass_without_a_look_at_keys(place, monkeypatch):
    database, cursor, address = place
    publish(database, address.snapshot_url)
    commit(database, cursor, "UPDATE t SET name = 'x' WHERE id = 250", "DELETE FROM t WHERE id = 251")
    commit(database, cursor, "INSERT INTO t VALUES (5000, 'new')")
    looked = []
    real = SnapshotRows._group

    def counted(self, parquet, group, names, changed):
        looked.append((group, len(changed)))
        return real(self, parquet, group, names, changed)

    monkeypatch.setattr(SnapshotRows, "_group", counted)
    plan = plan_table(address, "t")
    assert numbers(plan) == [n for n in range(ROWS) if n != 251] + [5000]
    assert looked == [(2, 2)]
    assert len(plan.spans) == 1
    looked.clear()
    plan = plan_table(address, "t", partitions=3)
    assert numbers(plan) == [n for n in range(ROWS) if n != 251] + [5000]
    assert len(looked) <= 2 + 4  # the ends of ranges, too


def test_only_entries_that_change_the_table_are_read(place):
    database, cursor, address = place
    commit(database, cursor, "CREATE TABLE other (id int PRIMARY KEY)")
    publish(database, address.snapshot_url)
    for number in range(40):
        commit(database, cursor, f"INSERT INTO other VALUES ({number})")
    assert plan_table(address, "t").spans == ()
    first = commit(database, cursor, "DELETE FROM t WHERE id = 1")
    for number in range(40, 80):
        commit(database, cursor, f"INSERT INTO other VALUES ({number})")
    last = commit(database, cursor, "DELETE FROM t WHERE id = 2")
    plan = plan_table(address, "t")
    assert [span.upto for span in plan.spans] == [first, last]
    assert numbers(plan) == [0, *range(3, ROWS)]
    assert numbers(plan_table(address, "other")) == list(range(80))


def test_what_is_kept_for_other_partitions_is_whole(place, monkeypatch):
    database, cursor, address = place
    publish(database, address.snapshot_url)
    for number in range(30):
        cursor.execute(f"UPDATE t SET name = '{number}{'x' * 50}' WHERE id IN (3, {ROWS - 3})")
    commit(database, cursor)
    monkeypatch.setattr(partition, "KEPT_BYTES", 2000)  # less than was logged, more than what became of it
    plan = plan_table(address, "t", partitions=2)
    found = [row for n in range(2) for batch in read_partition(plan, n) for row in batch.to_pylist()]
    assert len(found) == ROWS
    assert {row["id"] for row in found if row["name"] == "29" + "x" * 50} == {3, ROWS - 3}


def test_partitions_hold_about_the_same_number_of_rows(place):
    database, cursor, address = place
    publish(database, address.snapshot_url)
    rows = [(n, "") for n in range(10_000, 10_000 + 2 * ROWS)]  # most rows are behind those of the snapshot
    cursor.executemany("INSERT INTO t VALUES (%s, %s)", rows)
    commit(database, cursor)
    for partitions in (2, 5):
        plan = plan_table(address, "t", partitions=partitions)
        counts = [sum(b.num_rows for b in read_partition(plan, n)) for n in range(len(plan.ranges))]
        assert sum(counts) == 3 * ROWS
        assert len(counts) == partitions
        assert max(counts) < 1.2 * 3 * ROWS / partitions


def test_a_truncated_table_has_nothing_of_its_snapshot(place):
    database, cursor, address = place
    publish(database, address.snapshot_url)
    commit(database, cursor, "TRUNCATE t", "INSERT INTO t VALUES (7, 'x')")
    plan = plan_table(address, "t", partitions=4)
    assert (plan.snapshot, plan.files) == (None, ())
    assert numbers(plan) == [7]
    again = ("INSERT INTO t VALUES (8, 'x')", "TRUNCATE t", "INSERT INTO t VALUES (9, 'x')")
    commit(database, cursor, *again)
    assert numbers(plan_table(address, "t")) == [9]


def test_an_lsn_that_is_published_is_read_without_the_log(place):
    database, cursor, address = place
    lsn = commit(database, cursor)
    publish(database, address.snapshot_url)
    nowhere = replace(address, directory="/nowhere")
    assert numbers(plan_table(nowhere, "t", lsn)) == list(range(ROWS))


def test_a_damaged_snapshot_is_named(place):
    database, _, address = place
    publish(database, address.snapshot_url)
    plan = plan_table(address, "t", partitions=2)
    part = Path(str(plan.snapshot)) / plan.files[0].path
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    with pytest.raises(DamagedSnapshotError, match=part.name):
        numbers(plan)
    part.unlink()
    with pytest.raises(DamagedSnapshotError, match="is not there"):
        numbers(plan)
    manifest = Path(str(plan.snapshot)) / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"rows": 3000', b'"rows": 3001'))
    with pytest.raises(DamagedSnapshotError, match=r"manifest\.json"):
        plan_table(address, "t")


def test_positions_that_the_log_does_not_have(place):
    database, cursor, address = place
    lsn = commit(database, cursor)
    with pytest.raises(NoSuchPositionError, match=f"confirmed up to {lsn}"):
        plan_table(address, "t", LSN(lsn.ledger_id, lsn.entry_id + 1))
    database.log.roll()
    later = commit(database, cursor, "DELETE FROM t WHERE id = 0")
    assert later.ledger_id > lsn.ledger_id
    with pytest.raises(NoSuchPositionError, match="no entry"):
        plan_table(address, "t", LSN(lsn.ledger_id, lsn.entry_id + 1))
    assert numbers(plan_table(address, "t", lsn)) == list(range(ROWS))


def test_a_log_that_was_trimmed_says_what_to_do(place):
    database, cursor, address = place
    lsn = commit(database, cursor)
    database.log.roll()
    commit(database, cursor, "DELETE FROM t WHERE id = 0")
    plan = plan_table(address, "t", lsn)
    before = end(address)
    database.log.trim(before)
    assert database.log.state.base > START
    with pytest.raises(LogTrimmedError, match="herdpy snapshot publish"):
        plan_table(address, "t")
    with pytest.raises(LogTrimmedError, match="name a later one"):
        plan_table(address, "t", START)
    with pytest.raises(LogTrimmedError, match="make the DataFrame again"):
        numbers(plan)
    publish(database, address.snapshot_url, time_us=1000)
    assert numbers(plan_table(address, "t")) == list(range(1, ROWS))


def test_a_snapshot_that_the_log_does_not_go_on_from_is_refused(place):
    database, cursor, address = place
    publish(database, address.snapshot_url, crc=5)
    commit(database, cursor, "DELETE FROM t WHERE id = 0")
    with pytest.raises(ChainError, match="another history"):
        plan_table(address, "t")
    shutil.rmtree(address.snapshot_url)
    publish(database, address.snapshot_url, log_id="00" * 16)
    commit(database, cursor, "DELETE FROM t WHERE id = 1")
    assert numbers(plan_table(address, "t")) == list(range(2, ROWS))  # one of another log takes no place


def test_a_gap_between_the_snapshot_and_the_log_is_an_error(place):
    database, cursor, address = place
    publish(database, address.snapshot_url)
    commit(database, cursor, "DELETE FROM t WHERE id = 0")
    database.log.roll()
    commit(database, cursor, "DELETE FROM t WHERE id = 1")
    database.log.trim(end(address))
    with pytest.raises(LogTrimmedError, match="entries between them are gone"):
        plan_table(address, "t")


def test_the_time_of_a_snapshot_at_the_base_is_known_though_the_log_is_not(place):
    database, cursor, address = place
    database.log.roll()
    publish(database, address.snapshot_url, time_us=1000)
    commit(database, cursor, "DELETE FROM t WHERE id = 1")
    database.log.trim(newest(address.snapshot_url, "herdpy").lsn)
    assert load(newest(address.snapshot_url, "herdpy")).lsn == database.log.state.base
    assert numbers(plan_table(address, "t", 2000)) == list(range(ROWS))
    with pytest.raises(LogTrimmedError, match="no longer reaches back"):
        plan_table(address, "t", 999)


def test_records_of_a_later_version_are_refused(tmp_path, monkeypatch):
    log = FileLog(str(tmp_path / "log"), settings=LogSettings())
    log.append(LoggedTransaction(0, [Truncate(1)])).block()
    log.close()
    monkeypatch.setattr(history, "_KNOWN", frozenset())
    with pytest.raises(RecordError, match="type 6"):
        plan_table(LogAddress.of_database(tmp_path), "t")


def test_changes_of_a_table_that_is_not_there_are_damage(tmp_path):
    log = FileLog(str(tmp_path / "log"))
    log.append(LoggedTransaction(0, [Insert(5, b"k", b"v")])).block()
    log.close()
    with pytest.raises(RecordError, match="table 5"):
        plan_table(LogAddress.of_database(tmp_path), "t")


@pytest.mark.parametrize("seed", range(5))
def test_ranges_cover_everything_once_and_evenly(seed):
    random_ = random.Random(seed)
    keys = sorted({random_.randbytes(random_.randrange(1, 4)) for _ in range(500)})
    points = [(key, 1.0) for key in keys]
    random_.shuffle(points)
    for partitions in (1, 2, 9, 2000):
        low, high = sorted(random_.sample([*keys, b""], 2))
        for bounds in [(None, None), (low, None), (None, high), (low, high), (low, low)]:
            ranges = cut(points, partitions, *bounds)
            if bounds == (low, low):
                assert ranges == ()
                continue
            assert len(ranges) <= partitions
            assert (ranges[0][0], ranges[-1][1]) == bounds
            assert all(one[1] == two[0] for one, two in pairwise(ranges))
            held = [
                sum((one is None or key >= one) and (two is None or key < two) for key in keys)
                for one, two in ranges
            ]
            wanted = sum(held) / partitions
            assert max(held) <= wanted + 1 or partitions > sum(held)


def test_a_sample_stays_small_and_keeps_its_weight():
    sample = Sample(100)
    for number in range(10_000):
        sample.add([number.to_bytes(4)], 1)
    assert len(sample.points) <= 100
    assert sum(rows for _, rows in sample.points) == 10_000
    assert len(cut(sample.points, 4)) == 4


def test_what_a_server_has_applied_is_waited_for(place, monkeypatch):
    """An idle leader notes on a cadence how far readers may go: a client has its answer before that."""
    database, cursor, address = place
    commit(database, cursor, "DELETE FROM t WHERE id > 10")
    note = FileLog.note_lac
    monkeypatch.setattr(FileLog, "note_lac", lambda _log: None)
    cursor.execute("DELETE FROM t WHERE id = 5")
    cursor.connection.commit()
    applied = database.log.end
    assert len(numbers(plan_table(address, "t"))) == 11  # readers are not notified yet
    waits = []

    def sleep(_wait_s):
        waits.append(1)
        if len(waits) == 3:
            note(database.log)

    monkeypatch.setattr(detached.time, "sleep", sleep)
    plan = plan_table(address, "t", least=applied)
    assert (plan.upto, len(waits), len(numbers(plan))) == (applied, 3, 10)

    cursor.execute("DELETE FROM t WHERE id = 6")
    cursor.connection.commit()
    monkeypatch.setattr(detached, "_CONFIRM_PATIENCE_S", 0)
    with pytest.raises(LogUnavailableError, match="has applied"):
        plan_table(address, "t", least=database.log.end)

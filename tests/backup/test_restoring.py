"""Restores: every position, time and commit of a history gives the state that a client saw there."""

from __future__ import annotations

import fcntl
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

import herdpy
from herdpy.backup.archive import entries_directory, segments
from herdpy.backup.errors import BackupError, DamagedPartError
from herdpy.backup.manifest import LogRecord, backup_directory, read_catalog, write_manifest
from herdpy.backup.repository import Repository
from herdpy.log.entry import LoggedTransaction
from herdpy.log.ledger_list import FileLedgerList
from herdpy.log.lsn import LSN
from herdpy.log.records import PutRole
from herdpy_server.backup import fetching, restoring
from herdpy_server.backup.restoring import SCRATCH, RestoreOptions, RestoreReport, restore, set_aside
from herdpy_server.backup.targets import RestoreTarget, TargetError, make_plan, parse_time
from herdpy_server.backup.timeline import read_restored, timeline_of
from herdpy_server.roles.role import Role, RoleFile
from herdpy_server.store import Store
from herdpy_server.tablespace import directory as directory_module
from herdpy_sql.errors import SqlError
from tests.backup.restore_histories import (
    BackupMaker,
    History,
    commit_times,
    dump,
    history_of,
    repack,
    run_history,
)

FIRST_US, STEP_US = 1_760_000_000_000_000, 1_000_000


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    found = run_history(tmp_path_factory.mktemp("origin") / "db", 1)
    commit_times(found, FIRST_US, STEP_US, same=3)
    repack(found, 1)
    return found


@pytest.fixture
def maker(tmp_path: Path, history: History) -> BackupMaker:
    repository = Repository.create(str(tmp_path / "repository"))
    return BackupMaker(repository, history, tmp_path)


def restored(repository: Repository, directory: Path, target: RestoreTarget, **more: Any) -> RestoreReport:
    plan = make_plan(repository, read_catalog(repository), target, **more)
    return restore(repository, plan, directory, RestoreOptions(indexes=True))


def check(directory: Path, history: History, count: int) -> None:
    """The directory has the first ``count`` commits, and knows of no other."""
    with herdpy.connect(str(directory)) as connection:
        assert dump(connection) == history.dumps[count]
        for number in {1, count, count + 1, len(history.transactions)} - {0}:
            row = connection.execute(f"SELECT herdpy.commit_outcome('commit-{number}')").fetchone()
            assert row[0].startswith("done ") == (number <= count)


def back_up_all(maker: BackupMaker, images: int = 3, seed: int = 3) -> list[LSN]:
    """Some backups, and the whole log; returns the positions that can be restored."""
    chance = random.Random(seed)
    positions = [one.lsn for one in maker.history.entries]
    for at in sorted(chance.sample(range(len(positions) * 2 // 3), images)):
        maker.back_up(positions[at], positions[min(at + 3, len(positions) - 1)])
    maker.archive(positions[-1])
    oldest = min(one.image_lsn for one in read_catalog(maker.repository).backups)
    return [lsn for lsn in positions if lsn >= oldest]


def test_every_position_is_restored(maker: BackupMaker, history: History, tmp_path: Path) -> None:
    assert any(not part.last for one in history.entries for part in one.parts)
    assert any(len(one.parts) > 1 for one in history.entries)
    check_positions(maker, tmp_path, back_up_all(maker)[::2])


def check_positions(maker: BackupMaker, tmp_path: Path, positions: list[LSN]) -> None:
    """Restore each of them."""
    for lsn in positions:
        directory = tmp_path / f"at-{lsn.ledger_id}-{lsn.entry_id}"
        report = restored(maker.repository, directory, RestoreTarget(lsn=lsn))
        check(directory, maker.history, maker.history.count_at(lsn))
        assert report.lsn <= lsn
        assert not (directory / SCRATCH).exists()
        shutil.rmtree(directory)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 8))
def test_every_position_and_commit_of_random_histories_is_restored(seed: int, tmp_path: Path) -> None:
    history = run_history(tmp_path / "origin", seed, commits=30)
    commit_times(history, FIRST_US, STEP_US, same=2)
    repack(history, seed)
    maker = BackupMaker(Repository.create(str(tmp_path / "repository")), history, tmp_path)
    positions = back_up_all(maker, images=5, seed=seed)
    check_positions(maker, tmp_path, positions)
    for number in range(history.count_at(positions[0]) + 1, len(history.transactions) + 1):
        directory = tmp_path / f"before-{number}"
        restored(maker.repository, directory, RestoreTarget(before=f"commit-{number}"))
        check(directory, history, number - 1)
        shutil.rmtree(directory)


def test_a_restored_database_goes_on_with_a_log_of_its_own(
    maker: BackupMaker, history: History, tmp_path: Path
) -> None:
    lsn = back_up_all(maker)[-3]
    directory = tmp_path / "restored"
    report = restored(maker.repository, directory, RestoreTarget(lsn=lsn))
    assert (report.parent, report.log_id) != (report.log_id, maker.log_id)
    assert timeline_of(directory) == (maker.log_id, str(report.lsn))
    with herdpy.connect(str(directory), autocommit=True) as connection:
        connection.execute("SET herdpy.request_id = 'new'")
        connection.execute("CREATE TABLE later AS SELECT 1 AS x")
        outcome = connection.execute("SELECT herdpy.commit_outcome('new')").fetchone()[0]
        assert LSN.parse(outcome.removeprefix("done ")) > report.lsn
    found = read_restored(directory)
    assert found is not None
    assert (found.backup, found.repository) == (report.backup, maker.repository.id)
    assert read_restored(tmp_path / "nowhere") is None
    ledgers = FileLedgerList(str(directory / "log"))
    state = ledgers.read()
    assert state is not None
    ledgers.write(replace(state, log_id="00" * 16), state.version)
    assert timeline_of(directory) == (None, None)


ZONES = [timezone(timedelta(minutes=minutes)) for minutes in (0, 330, -180)]


def test_every_time_is_restored(maker: BackupMaker, history: History, tmp_path: Path) -> None:
    back_up_all(maker)
    oldest = min(one.image_lsn for one in read_catalog(maker.repository).backups)
    first = history.count_at(oldest)
    times = [one.timestamp_us for one in history.transactions]
    last = times[-1]
    moments = sorted({*times[first:], *(one + STEP_US // 2 for one in times[first::4])})
    for number, time_us in enumerate(one for one in moments if times[first] <= one < last):
        count = max(n for n, one in enumerate(times, 1) if one <= time_us)
        local = datetime.fromtimestamp(time_us / 1e6, ZONES[number % 3])
        directory = tmp_path / f"at-{time_us}"
        restored(maker.repository, directory, RestoreTarget(time_us=parse_time(local.isoformat())[0]))
        check(directory, history, count)
    with pytest.raises(TargetError, match=r"beyond what is archived .* committed at 2025-"):
        restored(maker.repository, tmp_path / "late", RestoreTarget(time_us=last + 1))
    with pytest.raises(TargetError, match=r"the oldest backup of log .* after 2025-"):
        restored(maker.repository, tmp_path / "early", RestoreTarget(time_us=FIRST_US - 1))


def test_times_are_read_as_iso_8601_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_time("2026-03-01T10:00:00.000001+05:30") == (1_772_339_400_000_001, "+05:30")
    assert parse_time("2026-03-01 04:30Z") == (1_772_339_400_000_000, "+00:00")
    monkeypatch.setenv("TZ", "America/Lima")
    time.tzset()
    try:
        assert parse_time("2026-02-28 23:30:00") == (1_772_339_400_000_000, "-05:00")
    finally:
        monkeypatch.undo()
        time.tzset()
    for text in ("2026-03-01", "yesterday at noon", ""):
        with pytest.raises(ValueError, match=r"time|isoformat"):
            parse_time(text)


def test_a_time_up_to_which_a_backup_knows_the_log_is_no_error(
    maker: BackupMaker, history: History, tmp_path: Path
) -> None:
    end = history.entries[-1].lsn
    maker.back_up(history.entries[4].lsn, end, created_us=FIRST_US + 10**12)
    restored(maker.repository, tmp_path / "db", RestoreTarget(time_us=FIRST_US + 10**11))
    check(tmp_path / "db", history, len(history.transactions))


def test_every_commit_is_left_out(maker: BackupMaker, history: History, tmp_path: Path) -> None:
    back_up_all(maker)
    oldest = min(one.image_lsn for one in read_catalog(maker.repository).backups)
    within = 0
    for number in range(history.count_at(oldest) + 1, len(history.transactions) + 1, 2):
        directory = tmp_path / f"before-{number}"
        report = restored(maker.repository, directory, RestoreTarget(before=f"commit-{number}"))
        check(directory, history, number - 1)
        within += report.transactions is not None
    assert within
    with pytest.raises(TargetError, match="no commit 'commit-99' is archived"):
        restored(maker.repository, tmp_path / "none", RestoreTarget(before="commit-99"))
    for at in (-1, -4):
        lsn = history.entries[at].lsn
        directory = tmp_path / f"before{at}"
        restored(maker.repository, directory, RestoreTarget(before=str(lsn)))
        check(directory, history, history.count_at(history.entries[at - 1].lsn))


def test_what_is_archived_in_stretches_is_found_in_each(
    maker: BackupMaker, history: History, tmp_path: Path
) -> None:
    """Between two backups the log may have been trimmed: what was archived before and after is there."""
    whole = [one.lsn for one in history.entries if one.parts[-1].last]
    first, second = whole[4], next(one for one in whole[9:] if one.ledger_id > whole[6].ledger_id)
    maker.back_up(first, whole[6])
    maker._archived = second
    maker.back_up(second, history.entries[-1].lsn)
    times = [one.timestamp_us for one in history.transactions]
    stretches = [range(history.count_at(a) + 1, history.count_at(b) + 1)
                 for a, b in ((first, whole[6]), (second, history.entries[-1].lsn))]  # fmt: skip
    for number in (number for numbers in stretches for number in numbers[:: len(numbers) // 2]):
        directory = tmp_path / f"before-{number}"
        restored(maker.repository, directory, RestoreTarget(before=f"commit-{number}"))
        check(directory, history, number - 1)
    for at in (whole[6], second):
        directory = tmp_path / f"position-{at.ledger_id}-{at.entry_id}"
        restored(maker.repository, directory, RestoreTarget(lsn=at))
        check(directory, history, history.count_at(at))
    with pytest.raises(BackupError, match=f"leads to {whole[7]}|the archive ends at {whole[6]}"):
        restored(maker.repository, tmp_path / "within", RestoreTarget(lsn=whole[7]))
    inside = times[stretches[0][0] - 1]
    restored(maker.repository, tmp_path / "at", RestoreTarget(time_us=inside))
    check(tmp_path / "at", history, max(n for n, one in enumerate(times, 1) if one <= inside))
    gap_us = times[stretches[1][0] - 2] - 1
    with pytest.raises(TargetError, match=f"between {whole[6]} and {second}, of which nothing is archived"):
        restored(maker.repository, tmp_path / "gap", RestoreTarget(time_us=gap_us))
    with pytest.raises(TargetError, match="no commit 'commit-1' is archived"):
        restored(maker.repository, tmp_path / "none", RestoreTarget(before="commit-1"))


def test_an_image_that_was_copied_late_leads_to_the_commits_behind_it(
    maker: BackupMaker, history: History, tmp_path: Path
) -> None:
    """An image is that of a checkpoint, and may be copied when commits behind it are done."""
    whole = [one.lsn for one in history.entries if one.parts[-1].last]
    second = next(one for one in whole[9:] if one.ledger_id > whole[6].ledger_id)
    maker.back_up(whole[4], whole[6])
    maker._archived = second
    times = [one.timestamp_us for one in history.transactions]
    maker.back_up(second, history.entries[-1].lsn, copied_us=times[-1] + 1)
    behind_us = times[history.count_at(second)]
    restored(maker.repository, tmp_path / "at", RestoreTarget(time_us=behind_us))
    check(tmp_path / "at", history, max(n for n, one in enumerate(times, 1) if one <= behind_us))
    with pytest.raises(TargetError, match=f"between {whole[6]} and {second}, of which nothing is archived"):
        restored(maker.repository, tmp_path / "before", RestoreTarget(time_us=behind_us - 1))


def test_targets_beyond_the_archive_name_its_end(
    maker: BackupMaker, history: History, tmp_path: Path
) -> None:
    positions = back_up_all(maker)
    end = positions[-1]
    beyond = LSN(end.ledger_id, end.entry_id + 1)
    with pytest.raises(TargetError, match=f"the last position is {end}, committed at 2025-"):
        restored(maker.repository, tmp_path / "db", RestoreTarget(lsn=beyond))
    with pytest.raises(TargetError, match="is before the oldest backup"):
        restored(maker.repository, tmp_path / "db", RestoreTarget(lsn=LSN(1, 0)))
    with pytest.raises(TargetError, match="beyond what is archived"):
        restored(maker.repository, tmp_path / "db", RestoreTarget(before=str(LSN(99, 0))))
    with pytest.raises(TargetError, match="no complete backup of tablespace other"):
        restored(maker.repository, tmp_path / "db", RestoreTarget(), tablespace="other")
    assert not (tmp_path / "db").exists()
    report = restored(maker.repository, tmp_path / "db", RestoreTarget())
    assert report.lsn == end
    assert report.time_us == history.transactions[-1].timestamp_us


def test_an_older_backup_stands_in_for_a_damaged_one(
    maker: BackupMaker, history: History, tmp_path: Path
) -> None:
    back_up_all(maker)
    backups = read_catalog(maker.repository).backups
    oldest, *_rest, newest = sorted(backups, key=lambda one: one.image_lsn)
    name = f"{backup_directory(maker.log_id, newest.id)}/pages-0"
    whole = maker.repository.place.read(name)
    maker.repository.place.put(name, whole[:-1] + bytes([whole[-1] ^ 1]))
    report = restored(maker.repository, tmp_path / "db", RestoreTarget())
    check(tmp_path / "db", history, len(history.transactions))
    assert report.backup != newest.id
    assert any(name in note and "older backup" in note for note in report.notes)
    with pytest.raises(DamagedPartError, match=name):
        restored(maker.repository, tmp_path / "other", RestoreTarget(), backup_id=newest.id)
    first = f"{backup_directory(maker.log_id, oldest.id)}/pages-0"
    kept = maker.repository.place.read(first)
    maker.repository.delete(first)
    with pytest.raises(DamagedPartError, match="it is not there"):
        restored(maker.repository, tmp_path / "third", RestoreTarget())
    assert not (tmp_path / "third" / "HERDPY").exists()
    maker.repository.place.put(name, whole)
    maker.repository.place.put(first, kept)
    restored(maker.repository, tmp_path / "third", RestoreTarget())
    check(tmp_path / "third", history, len(history.transactions))


def test_a_part_of_the_log_that_is_missing_is_named(
    maker: BackupMaker, history: History, tmp_path: Path
) -> None:
    positions = back_up_all(maker)
    segment = segments(maker.repository, maker.log_id)[-1]
    name = f"{entries_directory(maker.log_id)}/{segment.name}"
    maker.repository.place.put(name, b"nothing")
    with pytest.raises(DamagedPartError, match=name):
        restored(maker.repository, tmp_path / "db", RestoreTarget(lsn=positions[-1]))
    assert not (tmp_path / "db" / "HERDPY").exists()


def test_an_image_that_is_of_another_history_than_the_log_is_found(
    maker: BackupMaker, history: History, tmp_path: Path
) -> None:
    made = maker.back_up(history.entries[6].lsn, history.entries[-1].lsn)
    for number, (image, error) in enumerate(
        (
            (structs.replace(made.image, crc=1), "continues another history"),
            (structs.replace(made.image, store_uuid="another"), "is of store"),
            (structs.replace(made.image, lsn=str(history.entries[7].lsn), crc=None), "is of store"),
            (structs.replace(made.image, pages=made.image.pages + 1), "its map has"),
        )
    ):
        write_manifest(maker.repository, structs.replace(made, image=image))
        with pytest.raises(BackupError, match=error):
            restored(maker.repository, tmp_path / f"db{number}", RestoreTarget())
        assert not (tmp_path / f"db{number}" / "HERDPY").exists()


def test_a_restore_refuses_what_is_in_the_way(maker: BackupMaker, history: History, tmp_path: Path) -> None:
    back_up_all(maker)
    directory = tmp_path / "db"
    directory.mkdir()
    (directory / "mine").write_text("keep")
    with pytest.raises(SqlError, match="is not empty") as caught:
        restored(maker.repository, directory, RestoreTarget())
    assert caught.value.sqlstate == "55000"
    aside = set_aside(directory)
    assert aside is not None
    assert (aside / "mine").read_text() == "keep"
    restored(maker.repository, directory, RestoreTarget())
    with pytest.raises(SqlError, match="there is a database in"):
        restored(maker.repository, directory, RestoreTarget())
    with herdpy.connect(str(directory)), pytest.raises(SqlError, match="another process has"):
        set_aside(directory)
    with lock_of(directory), pytest.raises(SqlError, match="open"):
        set_aside(directory)
    again = set_aside(directory)
    assert again not in (None, aside)
    assert set_aside(directory) is None
    restored(maker.repository, directory, RestoreTarget())
    check(directory, history, len(history.transactions))


@contextmanager
def lock_of(directory: Path) -> Iterator[None]:
    """A server has the directory, whether it has a database or replicas."""
    marker = (directory / "HERDPY").read_bytes()
    (directory / "HERDPY").unlink()
    with (directory / "LOCK").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    (directory / "HERDPY").write_bytes(marker)


def test_roles_of_a_server_alone_come_back(maker: BackupMaker, history: History, tmp_path: Path) -> None:
    files = {"users.json": b"{}", "../evil": b"no"}
    maker.back_up(history.entries[6].lsn, history.entries[-1].lsn, files=files)
    restored(maker.repository, tmp_path / "db", RestoreTarget())
    assert (tmp_path / "db" / "users.json").read_bytes() == b"{}"
    assert (tmp_path / "db" / "users.json").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "evil").exists()


def test_roles_of_a_cluster_become_those_of_a_server_alone(tmp_path: Path) -> None:
    history = history_of(tmp_path / "db", ["CREATE TABLE t (id int PRIMARY KEY)"])
    role = Role("clerk", verifier="SCRAM", can_login=True)
    history.transactions.append(LoggedTransaction(9, [PutRole(b"clerk", msgspec.json.encode(role))]))
    history.entries, history.counts = [], []
    repack(history, 0)
    maker = BackupMaker(Repository.create(str(tmp_path / "repo")), history, tmp_path)
    maker.back_up(history.entries[0].lsn, history.entries[-1].lsn)
    restored(maker.repository, tmp_path / "restored", RestoreTarget())
    assert list(RoleFile(tmp_path / "restored")) == [role]
    assert (tmp_path / "restored" / "users.json").stat().st_mode & 0o777 == 0o600


def test_timelines_are_kept_apart(maker: BackupMaker, history: History, tmp_path: Path) -> None:
    positions = back_up_all(maker)
    branch = maker_of_branch(maker, history, tmp_path, positions[-3])
    catalog = read_catalog(maker.repository)
    assert make_plan(maker.repository, catalog, RestoreTarget()).log.log_id == branch.log_id
    with pytest.raises(TargetError, match="is in several logs") as caught:
        make_plan(maker.repository, catalog, RestoreTarget(lsn=positions[-1]))
    assert maker.log_id in str(caught.value)
    assert branch.log_id in str(caught.value)
    for log_id in (maker.log_id, branch.log_id):
        plan = make_plan(maker.repository, catalog, RestoreTarget(lsn=positions[-1]), log_id=log_id)
        assert plan.log.log_id == log_id
    assert make_plan(maker.repository, catalog, RestoreTarget(lsn=positions[0])).log.log_id == maker.log_id
    other = BackupMaker(maker.repository, history, tmp_path / "other", "ef" * 16)
    other.back_up(positions[-1], positions[-1])
    with pytest.raises(TargetError, match="none of them continues the others"):
        make_plan(maker.repository, read_catalog(maker.repository), RestoreTarget())


def maker_of_branch(maker: BackupMaker, history: History, tmp_path: Path, lsn: LSN) -> BackupMaker:
    """Another log, whose database was restored from a position of the first."""
    record = LogRecord("default", "cd" * 16, FIRST_US, maker.log_id, str(lsn))
    branch = BackupMaker(maker.repository, history, tmp_path / "branch", record.log_id, record)
    branch.back_up(lsn, history.entries[-1].lsn)
    return branch


class Killed(BaseException):
    """In place of kill -9, at a point that the test chooses."""


def test_a_restore_that_was_broken_off_anywhere_goes_on(
    maker: BackupMaker, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herdpy.backup.pages.PACK_BYTES", 4 << 10)
    monkeypatch.setattr("herdpy_server.backup.fetching._SYNC_PACKS", 8)
    monkeypatch.setattr("herdpy_server.backup.applying.FLUSH_ROWS", 1)
    back_up_all(maker)
    calls: list[int] = [0]
    points = (
        (fetching, "read_pack"), (fetching.os, "fdatasync"), (restoring, "replace_file"),
        (Store, "flush"), (restoring, "verify_store"), (restoring, "seed"), (restoring.shutil, "rmtree"),
        (directory_module.os, "link"), (directory_module, "replace_file"),
    )  # fmt: skip
    for number, (owner, name) in enumerate(points):
        for nth in (1, 2):
            target = tmp_path / f"db-{number}-{nth}"
            real, calls[0] = getattr(owner, name), 0

            def dies(*args: Any, real: Any = real, nth: int = nth, **more: Any) -> Any:
                calls[0] += 1
                if calls[0] == nth:
                    raise Killed
                return real(*args, **more)

            with monkeypatch.context() as patch:
                patch.setattr(owner, name, dies)
                try:
                    restored(maker.repository, target, RestoreTarget())
                except Killed:
                    is_made = (target / "HERDPY").exists()
                    assert is_made == (owner is restoring.shutil and name == "rmtree")
            restored_again(maker.repository, target)
            check(target, history, len(history.transactions))
            assert not (target / SCRATCH).exists()


def restored_again(repository: Repository, directory: Path) -> None:
    """The same command once more, unless the database is there."""
    if not (directory / "HERDPY").exists() or (directory / SCRATCH).exists():
        restored(repository, directory, RestoreTarget())


def test_a_restore_goes_on_with_the_backup_that_it_had_come_to(
    maker: BackupMaker, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up_all(maker)
    newest = max(read_catalog(maker.repository).backups, key=lambda one: one.image_lsn)
    maker.repository.delete(f"{backup_directory(maker.log_id, newest.id)}/pages-0")

    def dies(*_arguments: Any, **_more: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(restoring, "verify_store", dies)
        with pytest.raises(Killed):
            restored(maker.repository, tmp_path / "db", RestoreTarget())
    monkeypatch.setattr(restoring, "fetch_image", dies)
    report = restored(maker.repository, tmp_path / "db", RestoreTarget())
    assert report.backup != newest.id
    assert report.resumed_bytes == report.image_bytes
    check(tmp_path / "db", history, len(history.transactions))


def test_what_was_fetched_is_not_fetched_again(
    maker: BackupMaker, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herdpy.backup.pages.PACK_BYTES", 4 << 10)
    monkeypatch.setattr(fetching, "_SYNC_PACKS", 1)
    maker.back_up(history.entries[-1].lsn, history.entries[-1].lsn)
    read: list[str] = []
    real = fetching.read_pack

    def some(repository: Repository, pages: Any, use: Any, size: int) -> Any:
        if len(read) == 5:
            raise OSError("the network is gone")
        read.append(use.name)
        return real(repository, pages, use, size)

    monkeypatch.setattr(fetching, "read_pack", some)
    plan = make_plan(maker.repository, read_catalog(maker.repository), RestoreTarget())
    with pytest.raises(OSError, match="the network is gone"):
        restore(maker.repository, plan, tmp_path / "db", RestoreOptions(jobs=1))
    first = [*read]
    read[:] = ["counted"] * 100
    report = restore(maker.repository, plan, tmp_path / "db", RestoreOptions(jobs=1))
    assert report.resumed_bytes > 0
    again = set(read) & set(first)
    assert len(again) <= 1  # the one that was not in the journal yet
    check(tmp_path / "db", history, len(history.transactions))

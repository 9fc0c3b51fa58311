"""Verification names every file that is missing, damaged, exchanged with another, or another repository's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from herdpy.backup import checking
from herdpy.backup.archive import LogSegment, entries_directory, segment_of, segments
from herdpy.backup.checking import RepositoryFinding, verify
from herdpy.backup.errors import BackupError
from herdpy.backup.expiry import UNFINISHED_AFTER_S, read_state
from herdpy.backup.manifest import (
    ClusterManifest,
    ClusterMember,
    backup_directory,
    remove_backup_manifest,
    write_cluster,
)
from herdpy.backup.merging import merge_ledger
from herdpy.backup.overview import overview
from herdpy.backup.repository import Repository, new_key_file, read_key
from herdpy.log.lsn import LSN
from tests.backup.small_repositories import DAY_US, SmallDatabase, make_small

A, B = "aa" * 16, "bb" * 16
NOW_US = 4_000_000_000_000_000


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    make_small(monkeypatch)
    yield
    fs = fsspec.filesystem("memory")
    if fs.exists(f"/checking{tmp_path}"):
        fs.rm(f"/checking{tmp_path}", recursive=True)


def _repository(tmp_path: Path, name: str = "one", *, encrypted: bool = False) -> Repository:
    key = None
    if encrypted:
        new_key_file(tmp_path / name)
        key = read_key(tmp_path / name)
    return Repository.create(f"memory://checking{tmp_path}/{name}", key)


def _fill(repository: Repository) -> tuple[SmallDatabase, SmallDatabase]:
    """Two databases whose tables have the same names, each with every kind of backup, and a set of both."""
    made = []
    for log, tablespace in ((A, "default"), (B, "a b")):
        database = SmallDatabase(repository, log, tablespace)
        database.us += 1000 * len(made)  # ids of backups of one microsecond may be the same
        database.write(12, load=True)
        database.back_up("full")
        for kind in ("pages", "log"):
            database.write(8, load=kind == "log")
            database.archive()
            database.back_up(kind)  # type: ignore[arg-type]
        database.write(4)
        database.archive()
        made.append(database)
    members = tuple(ClusterMember(one.tablespace, one.log_id, max(one.manifests)) for one in made)
    write_cluster(repository, ClusterManifest("20260101T000000Z-abcdef", made[0].us, members))
    return made[0], made[1]


def _problems(repository: Repository) -> list[RepositoryFinding]:
    return verify(repository, now_us=NOW_US).problems


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_repository_without_fault_has_every_file_read(tmp_path: Path, encrypted: bool) -> None:
    repository = _repository(tmp_path, encrypted=encrypted)
    for database in _fill(repository):
        database.check_all()
    reports: list[tuple[int, int]] = []
    found = verify(repository, jobs=3, now_us=NOW_US, report=lambda *one: reports.append(one))
    assert found.findings == []
    assert (found.backups, found.files) == (6, len(repository.sizes()))
    assert found.read_bytes == sum(repository.sizes().values())
    assert reports[-1] == (found.read_bytes, found.read_bytes)


@pytest.mark.parametrize("encrypted", [False, True])
def test_every_file_that_is_gone_is_named(tmp_path: Path, encrypted: bool) -> None:
    repository = _repository(tmp_path, encrypted=encrypted)
    database, _other = _fill(repository)
    first = database.manifests[min(database.manifests)].image_lsn  # what was before it nobody needs
    for name in repository.sizes():
        if name == "herdpy-repository.json" or name.startswith((f"logs/{B}", "clusters/")):
            continue
        data = repository.place.read(name)
        repository.delete(name)
        found = verify(repository, now_us=NOW_US)
        if name.endswith("/manifest"):
            # The backup is not there: what says so is what it is a part of, or what it leaves.
            newest = max(database.manifests)
            assert [one.file for one in found.problems] == (
                ["clusters/20260101T000000Z-abcdef"] if newest in name else []
            )
        elif segment := segment_of(name) if "/entries/" in name else None:
            later = [one for one in segments(repository, A) if one.end > segment.end]
            # Where a backup ended, and the next one began after the gap, nobody knows that there was more.
            named = [one for one in found.findings if one.kind == "gap"]
            assert {one.kind for one in found.findings} <= {"gap", "stray"}, name
            assert {one for one in found.problems if one.kind != "gap"} == set()
            if later and segment.end > first:
                assert [one.file for one in named] == [f"{entries_directory(A)}/{later[0].name}"]
        elif f"/staged/{min(database.staged):020d}" in name:
            assert found.findings == []
        else:
            assert [(one.file, one.kind) for one in found.problems] in (
                [(name, "missing")],
                [(name, "damaged")],  # a staged ledger's later file: its rows are too few
            ), name
        repository.place.put(name, data)
    assert _problems(repository) == []


def test_every_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    repository = _repository(tmp_path)
    _fill(repository)
    chance = random.Random(5)
    for name in repository.sizes():
        if name == "herdpy-repository.json":
            continue
        data = repository.place.read(name)
        at = chance.randrange(len(data))
        repository.place.put(name, data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        found = _problems(repository)
        assert ("damaged", name) in [(one.kind, one.file) for one in found], name
        repository.place.put(name, data[: len(data) // 2])
        assert ("damaged", name) in [(one.kind, one.file) for one in _problems(repository)], name
        repository.place.put(name, data)


def test_files_that_changed_places_or_come_from_elsewhere_are_named(tmp_path: Path) -> None:
    repository, foreign = _repository(tmp_path), _repository(tmp_path, "other")
    _fill(repository)
    _fill(foreign)
    names = [one for one in sorted(repository.sizes()) if one != "herdpy-repository.json"]
    chance = random.Random(3)
    for one, two in zip(names[::3], chance.sample(names, len(names[::3])), strict=True):
        first, second = repository.place.read(one), repository.place.read(two)
        if one == two:
            continue
        repository.place.put(one, second)
        repository.place.put(two, first)
        found = {(it.kind, it.file) for it in _problems(repository)}
        assert {("misplaced", one), ("misplaced", two)} <= found
        repository.place.put(one, first)
        repository.place.put(two, second)
    shared = sorted(set(names) & set(foreign.sizes()))
    assert any("/staged/" in one for one in shared)
    for one in [*shared[::4], names[5]]:
        data = repository.place.read(one)
        repository.place.put(one, foreign.place.read(one if one in shared else sorted(foreign.sizes())[6]))
        assert ("foreign", one) in {(it.kind, it.file) for it in _problems(repository)}
        repository.place.put(one, data)
    assert _problems(repository) == []


def test_parts_that_are_whole_and_hold_other_contents_are_named(tmp_path: Path) -> None:
    """A writer that is wrong, or somebody with the key."""
    repository = _repository(tmp_path)
    database, other = _fill(repository)
    newest = sorted(database.manifests)[1]  # of pages
    directory = backup_directory(A, newest)
    for name, text in ((f"{directory}/pages-0", "page"), (f"{directory}/map-0", "")):
        contents = repository.read(name)
        repository.write(name, contents[:-1] + bytes([contents[-1] ^ 1]))
        (found,) = [one for one in _problems(repository) if one.kind == "damaged"][:1]
        assert text in found.text
        repository.write(name, contents)
    last = segments(repository, A)[-1]
    theirs = segments(repository, B)[-1]
    name = f"{entries_directory(A)}/{last.name}"
    contents = repository.read(name)
    repository.write(name, repository.read(f"{entries_directory(B)}/{theirs.name}"))
    assert [one.file for one in _problems(repository)] == [name]
    repository.write(name, contents)
    # An overlapping segment of another history, and one that follows nothing.
    foreign = SmallDatabase(_repository(tmp_path, "other"), A, seed=9)
    foreign.write(40)
    entries = [one for one in foreign.entries if one.lsn.ledger_id == 1]
    made = LogSegment(1, 0, len(entries) - 1)
    from herdpy.log.entry import entry_bytes

    repository.write(f"{entries_directory(A)}/{made.name}", b"".join(map(entry_bytes, entries)))
    found = _problems(repository)
    assert found
    assert {one.kind for one in found} <= {"damaged", "gap"}
    assert other.check_all()


def test_what_nothing_needs_is_named_and_no_problem(tmp_path: Path) -> None:
    repository = _repository(tmp_path)
    database, _other = _fill(repository)
    name = database.break_off(60_000_000)
    stray = {
        "notes.txt",
        f"logs/{A}/staged/{999:020d}-{0:06d}",
        f"{backup_directory(A, min(database.manifests))}/pages-77",
        f"logs/{A}/backups/not-an-id/manifest",
    }
    for one in sorted(stray):
        repository.write(one, b"x")
    found = verify(repository, now_us=database.us)
    assert found.problems == []
    assert {one.file for one in found.findings if one.kind == "stray"} == stray
    (unfinished,) = [one for one in found.findings if one.kind == "unfinished"]
    assert unfinished.file == backup_directory(A, name)
    assert "being made" in unfinished.text
    later = verify(repository, now_us=database.us + UNFINISHED_AFTER_S * 1_000_000 * 2)
    assert "broken off" in next(one for one in later.findings if one.kind == "unfinished").text
    assert _problems(repository) == []


def test_a_gap_that_backups_do_not_need_is_no_problem(tmp_path: Path) -> None:
    """Backups now and then without a continuous archive: the log between them is not there."""
    repository = _repository(tmp_path)
    database = SmallDatabase(repository, A)
    database.write(9)
    database.back_up("full")
    database.write(9)
    database._archived = database.lsn  # the log was trimmed up to here
    database.write(5)
    database._archived = database.lsn
    database.back_up("full")
    database.write(9)
    database.archive()
    found = verify(repository, now_us=NOW_US)
    assert [one.kind for one in found.findings] == ["gap"]
    assert found.problems == []
    # Without a newer image it is one: positions after it cannot be reached.
    database._archived = database.lsn
    database.write(9)
    database._archived = LSN(database.lsn.ledger_id, database.lsn.entry_id - 2)
    database.archive()
    assert [one.kind for one in verify(repository, now_us=NOW_US).problems] == ["gap"]


def test_segments_that_are_merged_meanwhile_are_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = _repository(tmp_path)
    database = SmallDatabase(repository, A)
    database.write(3)
    database.back_up("full")
    for _ in range(12):
        database.write(1)
        database.archive()
    real = checking.read_state

    def look(it: Repository) -> object:
        state = real(it)
        for ledger_id in {one.ledger_id for one in segments(it, A)}:
            merge_ledger(it, A, ledger_id)
        return state

    monkeypatch.setattr(checking, "read_state", look)
    before = len(segments(repository, A))
    assert verify(repository, now_us=NOW_US).problems == []
    assert len(segments(repository, A)) < before


def test_one_backup_alone_is_verified(tmp_path: Path) -> None:
    repository = _repository(tmp_path)
    database, _other = _fill(repository)
    first, _second, third = sorted(database.manifests)
    found = verify(repository, first, now_us=NOW_US)
    assert (found.backups, found.findings) == (1, [])
    assert found.files < len(repository.sizes())
    repository.delete(f"{backup_directory(A, _second)}/pages-0")
    assert verify(repository, first, now_us=NOW_US).problems == []
    assert [one.kind for one in verify(repository, third, now_us=NOW_US).problems] == ["missing"]
    with pytest.raises(BackupError, match="no backup nix"):
        verify(repository, "nix")


def test_a_set_whose_backup_is_gone_is_named(tmp_path: Path) -> None:
    repository = _repository(tmp_path)
    _database, other = _fill(repository)
    remove_backup_manifest(repository, B, max(other.manifests))
    (found,) = _problems(repository)
    assert (found.file, found.kind) == ("clusters/20260101T000000Z-abcdef", "missing")
    assert "tablespace a b" in found.text


def test_the_overview_says_what_is_needed_and_how_far_archives_go(tmp_path: Path) -> None:
    repository = _repository(tmp_path)
    database, other = _fill(repository)
    broken = database.break_off(DAY_US)
    found = overview(repository, read_state(repository))
    mine = [one for one in found.backups if one.manifest.log_id == A]
    first, second, third = mine
    assert [one.manifest.kind for one in mine] == ["full", "pages", "log"]
    assert first.needed_by == (second.manifest.id, third.manifest.id)
    assert second.needed_by == (third.manifest.id,)
    assert third.needed_by == ()
    assert {one.archived for one in mine} == {str(database.lsn)}
    logs = {one.log_id: one for one in found.logs}
    assert set(logs) == {A, B}
    assert logs[B].record is not None
    assert logs[B].record.tablespace == "a b"
    assert (logs[A].end, logs[A].end_time_us) == (str(database.lsn), database.us - DAY_US)
    assert all(one.is_continuous for one in logs.values())
    assert [(one.backup, one.is_expired) for one in found.unfinished] == [(broken, False)]
    image = other.manifests[min(other.manifests)].image_lsn
    pairs = zip(segments(repository, B), segments(repository, B)[1:], strict=False)
    one = next(it for it, later in pairs if it.ledger_id == later.ledger_id and it.end > image)
    repository.delete(f"{entries_directory(B)}/{one.name}")
    again = overview(repository, read_state(repository))
    assert [one.is_continuous for one in again.logs] == [True, False]
    assert other.lsn > LSN.parse(next(one for one in again.backups if one.manifest.log_id == B).archived)

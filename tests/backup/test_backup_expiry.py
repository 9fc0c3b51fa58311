"""Expiry: what a policy keeps, that nothing goes which is needed, and that a run may end anywhere."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import fsspec
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy.backup import expiry
from herdpy.backup.archive import segments
from herdpy.backup.checking import verify
from herdpy.backup.errors import BackupError
from herdpy.backup.expiry import Choice, RepositoryState, expire, plan_expiry, planned
from herdpy.backup.manifest import (
    MARKS,
    BackupCatalog,
    BackupManifest,
    ClusterManifest,
    ClusterMember,
    Image,
    LogRecord,
    backup_directory,
    needed_by,
    read_catalog,
    stays,
    write_cluster,
)
from herdpy.backup.policy import KeepPolicy, kept
from herdpy.backup.repository import Repository, new_key_file, read_key
from tests.backup.small_repositories import BEGIN_US, DAY_US, SmallDatabase, make_small, small_history

A, B = "aa" * 16, "bb" * 16
LATER_US = BEGIN_US + 100 * DAY_US
PLACES = ("directory", "memory", "encrypted")


def new_repository(kind: str, tmp_path: Path) -> Repository:
    if kind == "memory":
        return Repository.create(f"memory://expiry{tmp_path}")
    if kind == "directory":
        return Repository.create(str(tmp_path / "repository"))
    key_file = tmp_path / "key"
    new_key_file(key_file)
    return Repository.create(f"memory://expiry{tmp_path}", read_key(key_file))


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    make_small(monkeypatch)
    return new_repository("memory", tmp_path)


# The policy.


@given(
    times=st.lists(st.integers(0, 5 * 365 * 86400), max_size=40, unique=True),
    last=st.integers(0, 5),
    daily=st.integers(0, 5),
    weekly=st.integers(0, 5),
    monthly=st.integers(0, 5),
)
def test_a_policy_keeps_the_newest_of_each_span(
    times: list[int], last: int, daily: int, weekly: int, monthly: int
) -> None:
    dated = [(second, second * 1_000_000) for second in times]
    found = kept(dated, KeepPolicy(last, daily, weekly, monthly))
    newest = sorted(times, reverse=True)
    expected = set(newest[:last])
    for count, span in (
        (daily, lambda at: at.date()),
        (weekly, lambda at: at.isocalendar()[:2]),
        (monthly, lambda at: (at.year, at.month)),
    ):
        seen: list[object] = []
        for second in newest:
            name = span(datetime.fromtimestamp(second, UTC))
            if name not in seen and len(seen) < count:
                seen.append(name)
                expected.add(second)
    assert found == expected
    assert kept([one for one in dated if one[0] in found], KeepPolicy(last, daily, weekly, monthly)) == found


def test_a_policy_that_keeps_nothing_is_refused(plain: Repository) -> None:
    with pytest.raises(BackupError, match="which backups to keep"):
        expire(plain, Choice(KeepPolicy()))
    with pytest.raises(ValueError, match="negative"):
        KeepPolicy(last=-1)


# The plan, on repositories that are made up.


def _made_up(chance: random.Random) -> RepositoryState:
    """Backups of random kinds and needs in two logs, with their files, and what was broken off."""
    files: dict[str, int] = {}
    catalog = BackupCatalog([], [], [], {}, [])
    for log in (A, B):
        catalog.logs[log] = LogRecord("default", log, BEGIN_US)
        mine: list[BackupManifest] = []
        us, entry = BEGIN_US, 0
        for number in range(chance.randrange(8)):
            us += chance.randrange(1, 3 * DAY_US)
            moment = datetime.fromtimestamp(us // 1_000_000, UTC)
            name = f"{moment:%Y%m%dT%H%M%SZ}-{number:06x}"
            entry += chance.randrange(1, 9)
            directory = backup_directory(log, name)
            state = chance.choice(["whole"] * 4 + ["unfinished", "expired"])
            if state != "whole":
                files |= {
                    f"{directory}/pages-0": 5,
                    f"{directory}/{'index-1' if state == 'unfinished' else 'expired'}": 1,
                }
                catalog.unfinished.append((log, name))
                continue
            kind = chance.choice(["full", "pages", "log"]) if mine else "full"
            earlier = [one for one in catalog.unfinished if one[0] == log]
            image = Image(name, f"1:{entry}", None, "s", 64, 1, 1)
            sources: set[str] = {name}
            if kind == "log":
                image, sources = mine[-1].image, set(mine[-1].sources)
            elif kind == "pages":
                some = [*mine[-1].sources, *(one[1] for one in earlier)]
                sources |= set(chance.sample(some, chance.randrange(len(some) + 1)))
            if kind != "log":
                files |= {f"{directory}/pages-0": 5, f"{directory}/map-0": 2}
            files[f"{directory}/manifest"] = 1
            mine.append(
                BackupManifest(
                    id=name,
                    tablespace="default",
                    log_id=log,
                    kind=kind,
                    parent=None,
                    image=image,
                    sources=tuple(sorted(sources)),
                    end=f"1:{entry + 1}",
                    end_time_us=us,
                    created_us=us,
                    finished_us=us + 1,
                    tables=(),
                    raw_bytes=0,
                    stored_bytes=0,
                )
            )
        catalog.backups.extend(mine)
        files |= {f"logs/{log}/entries/{1:020d}-{at:020d}-{at + 2:020d}": 9 for at in range(0, 60, 3)}
        files[f"logs/{log}/log"] = 1
    catalog.backups.sort(key=lambda one: one.id)
    clusters = []
    both = [[one for one in catalog.backups if one.log_id == log] for log in (A, B)]
    for one, two in zip(*both, strict=False):
        members = tuple(ClusterMember("default", it.log_id, it.id) for it in (one, two))
        clusters.append(ClusterManifest(one.id, one.created_us, members))
    return RepositoryState(files, catalog, clusters)


@given(seed=st.integers(0, 1 << 32), last=st.integers(0, 3), daily=st.integers(0, 3), days=st.integers(0, 40))
@settings(max_examples=300, deadline=None)
def test_a_plan_leaves_what_is_needed(seed: int, last: int, daily: int, days: int) -> None:
    policy = KeepPolicy(last=last, daily=daily, monthly=0 if last or daily else 1)
    state = _made_up(random.Random(seed))
    now_us = BEGIN_US + days * DAY_US
    plan = plan_expiry(state, Choice(policy), now_us)
    backups = state.catalog.backups
    needed = needed_by(plan.kept)
    staying = {(one.log_id, one.id) for one in plan.kept}
    # Every backup stays or goes, and what stays has all that it needs.
    assert staying | set(plan.backups) == {(one.log_id, one.id) for one in backups}
    assert not staying & set(plan.backups)
    assert not needed & set(plan.emptied)
    images = {(one.log_id, one.image.backup) for one in plan.kept}
    for name in images & set(plan.stripped):
        assert not expiry._stripped(["map-0", "pages-0"], name[1], plan.kept)
    for log in (A, B):
        mine = [one for one in backups if one.log_id == log]
        expected = kept([(one.id, one.created_us) for one in mine], policy)
        ids = {one.id for one in plan.kept if one.log_id == log}
        assert expected <= ids
        assert not mine or max(mine, key=lambda one: one.finished_us).id in ids
        gone = [segment for of, segment in plan.segments if of == log]
        floor = min((one.image_lsn for one in plan.kept if one.log_id == log), default=None)
        assert all(floor is not None and one.end <= floor for one in gone)
        # What may be under way stays, and so does all that it may build on.
        for of, name in state.catalog.unfinished:
            names = [one.rpartition("/")[2] for one in state.files if f"/{of}/backups/{name}/" in one]
            if of == log and expiry.is_running(name, names, now_us):
                assert (of, name) not in plan.emptied
                assert not gone
                before = [one for one in mine if one.finished_us < expiry.begun_us(name) - expiry._SLACK_US]
                assert not before or before[-1].id in ids
    # A set is recorded as long as all of it is there; the policy counts sets, too.
    whole = {one.id for one in state.clusters if all((it.log_id, it.backup) in staying for it in one.members)}
    assert {one.id for one in state.clusters} - set(plan.clusters) == whole
    assert kept([(one.id, one.created_us) for one in state.clusters], policy) <= whole


def test_names_that_are_not_there_are_refused() -> None:
    state = _made_up(random.Random(1))
    with pytest.raises(ValueError, match="no backup nix"):
        plan_expiry(state, Choice(None, backups=["nix"]), LATER_US)
    with pytest.raises(ValueError, match="no log nix"):
        plan_expiry(state, Choice(None, log="nix"), LATER_US)


# Repositories with bytes.


@pytest.mark.parametrize(("place", "seed"), list(zip(PLACES, range(3), strict=True)))
def test_backups_that_are_kept_are_whole(
    place: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small(monkeypatch)
    repository = new_repository(place, tmp_path)
    one = small_history(repository, A, seed)
    other = small_history(repository, B, seed + 10, "other")  # the same tables, in another log
    before = repository.sizes()
    choice = Choice(KeepPolicy(last=2, daily=3, weekly=2))
    plan = planned(repository, choice, LATER_US)
    assert repository.sizes() == before
    done = expire(repository, choice, now_us=LATER_US)
    assert done.backups == plan.backups != []
    assert done.segments == plan.segments != []
    gone = [before[name] for name in before.keys() - repository.sizes().keys() if "/staged/" not in name]
    assert plan.freed_bytes == sum(gone) > 0
    for database in (one, other):
        there = database.check_all()
        newest = sorted(database.manifests)[-2:]
        assert set(newest) <= set(there) < set(database.manifests)
    found = verify(repository, now_us=LATER_US)
    assert found.findings == []
    # The next run finds nothing to do, and a smaller policy goes on from there.
    assert expire(repository, choice, now_us=LATER_US).freed_bytes == 0
    expire(repository, Choice(KeepPolicy(last=1)), now_us=LATER_US)
    assert [len(it.check_all()) for it in (one, other)] == [1, 1]
    assert verify(repository, now_us=LATER_US).findings == []
    assert not [name for name in repository.sizes() if name.rpartition("/")[2].startswith(MARKS)]


def test_rows_of_loads_go_with_the_log_that_names_them(plain: Repository) -> None:
    database = SmallDatabase(plain, A)
    database.write(load=True)
    database.back_up("full")
    database.write(load=True)
    database.back_up("full")
    database.write(load=True)
    database.archive()
    first, second, third = sorted(database.staged)
    expire(plain, Choice(KeepPolicy(last=1)), now_us=LATER_US)
    left = {int(name.rpartition("/")[2].partition("-")[0]) for name in plain.sizes(f"logs/{A}/staged")}
    assert left == {third}
    assert first < second
    assert verify(plain, now_us=LATER_US).findings == []


class _Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("seed", range(2))
def test_a_run_may_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    make_small(monkeypatch)
    choice = Choice(KeepPolicy(last=1, weekly=2))
    at = -7
    while True:
        at += 7
        repository = Repository.create(f"memory://expiry{tmp_path}/{at}")
        database = small_history(repository, A, seed)
        for number, one in enumerate(sorted(database.manifests)[-3::2]):
            members = (ClusterMember("default", A, one),)
            write_cluster(repository, ClusterManifest(f"set{number}", database.us + number, members))
        was_killed = _is_broken_off(repository, choice, at, monkeypatch)
        if was_killed:
            assert verify(repository, now_us=LATER_US).problems == []
            database.check_all()
            expire(repository, choice, now_us=LATER_US + 2 * 3600_000_000)
        found = verify(repository, now_us=LATER_US)
        assert found.findings == []
        assert not [name for name in repository.sizes() if name.rpartition("/")[2].startswith(MARKS)]
        ids = database.check_all()
        assert len(ids) == 2
        assert read_catalog(repository).clusters == ["set1"]
        assert segments(repository, A)[0].end > min(database.manifests[one].image_lsn for one in ids)
        if not was_killed:
            return


def _is_broken_off(repository: Repository, choice: Choice, at: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Let the process end after so many changes; False: it was done before."""
    left = at
    with monkeypatch.context() as patch:
        for name in ("write", "delete"):
            real = getattr(Repository, name)

            def change(self: Repository, *arguments: object, real: object = real) -> object:
                nonlocal left
                if left <= 0:
                    raise _Killed
                left -= 1
                return real(self, *arguments)  # type: ignore[operator]

            patch.setattr(Repository, name, change)
        try:
            expire(repository, choice, now_us=LATER_US)
        except _Killed:
            return True
    return False


_KILLED = """
import os, signal, sys
from herdpy.backup.expiry import Choice, expire
from herdpy.backup.policy import KeepPolicy
from herdpy.backup.repository import Repository
url, count, now_us = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
real = Repository.delete
def delete(self, name):
    global count
    count -= 1
    if count < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, name)
Repository.delete = delete
expire(Repository.open(url), Choice(KeepPolicy(last=1)), now_us=now_us)
"""


@pytest.mark.parametrize("count", [1, 40])
def test_a_run_that_is_killed_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    make_small(monkeypatch)
    plain = new_repository("directory", tmp_path)
    database = small_history(plain, A, 4)
    arguments = [sys.executable, "-c", _KILLED, plain.url, str(count), str(LATER_US)]
    assert subprocess.run(arguments, check=False).returncode == -signal.SIGKILL
    assert verify(plain, now_us=LATER_US).problems == []
    database.check_all()
    expire(plain, Choice(KeepPolicy(last=1)), now_us=LATER_US)
    assert len(database.check_all()) == 1
    assert verify(plain, now_us=LATER_US).findings == []


# While backups are made.


@pytest.mark.parametrize("early", [True, False])
def test_a_backup_that_is_made_meanwhile_is_noticed_by_one_of_the_two(
    plain: Repository, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    """Its manifest comes right before or right after the second look at all manifests."""
    database = SmallDatabase(plain, A)
    database.write()
    first = database.back_up("full")
    database.write()
    database.back_up("full")
    real = expiry.read_state
    calls = 0
    made: list[BackupManifest] = []

    def look(repository: Repository) -> RepositoryState:
        nonlocal calls
        calls += 1
        if calls == 2 and early:
            made.append(_of_first(database, first))
        state = real(repository)
        if calls == 2 and not early:
            made.append(_of_first(database, first))
        return state

    monkeypatch.setattr(expiry, "read_state", look)
    expire(plain, Choice(KeepPolicy(last=1)), now_us=LATER_US)
    if early:
        assert stays(plain, made[0])
        database.check(made[0])
    else:
        assert not stays(plain, made[0])


def _of_first(database: SmallDatabase, first: BackupManifest) -> BackupManifest:
    """A backup of the log whose image is that of the first one."""
    others = {name: one for name, one in database.manifests.items() if name != first.id}
    database.manifests = {first.id: first}
    made = database.back_up("log")
    assert not stays(database.repository, made)  # the first one's directory is marked
    database.manifests |= others
    return made


def test_a_backup_under_way_keeps_what_it_builds_on(plain: Repository) -> None:
    database = SmallDatabase(plain, A)
    database.write()
    parent = database.back_up("full")
    name = database.break_off(3600_000_000)
    for _ in range(2):
        database.write()
        database.back_up("full", 3600_000_000)
    soon_us = database.us + 3600_000_000
    plan = expire(plain, Choice(KeepPolicy(last=1)), now_us=soon_us)
    assert (plan.backups, plan.segments) == ([], [])
    assert backup_directory(A, name) + "/pages-0" in plain.sizes()
    database.check(parent)
    later_us = soon_us + expiry.UNFINISHED_AFTER_S * 1_000_000
    expire(plain, Choice(KeepPolicy(last=1)), now_us=later_us)
    assert len(database.check_all()) == 1
    assert not plain.sizes(backup_directory(A, name))


# What is named.


def test_a_damaged_manifest_holds_its_log_until_it_is_dropped(plain: Repository) -> None:
    database, other = small_history(plain, A, 1), small_history(plain, B, 2)
    bad = sorted(database.manifests)[3]
    file = f"{backup_directory(A, bad)}/manifest"
    plain.place.put(file, b"x" + plain.place.read(file)[1:])
    plan = expire(plain, Choice(KeepPolicy(last=1)), now_us=LATER_US)
    assert [log for log, _why in plan.skipped] == [A]
    assert len(database.check_all()) == len(database.manifests) - 1
    assert len(other.check_all()) == 1
    plan = expire(plain, Choice(KeepPolicy(last=1), backups=[bad]), now_us=LATER_US)
    assert plan.skipped == []
    assert (A, bad) in plan.backups
    assert len(database.check_all()) == 1
    assert verify(plain, now_us=LATER_US).findings == []


def test_a_log_goes_with_all_that_it_has(plain: Repository) -> None:
    database, other = small_history(plain, A, 1), small_history(plain, B, 2)
    ids = other.check_all()
    database.break_off()
    with pytest.raises(BackupError, match="may be under way"):
        expire(plain, Choice(None, log=A), now_us=database.us + 60_000_000)
    expire(plain, Choice(None, log=A), now_us=LATER_US)
    assert not plain.sizes(f"logs/{A}")
    assert other.check_all() == ids
    assert database.check_all() == []


def test_the_newest_backup_goes_only_by_its_name(plain: Repository) -> None:
    database = SmallDatabase(plain, A)
    database.write()
    first = database.back_up("full")
    database.write()
    second = database.back_up("log")
    expire(plain, Choice(None, backups=[first.id]), now_us=LATER_US)
    assert database.check_all() == [second.id]  # with the image of the first
    expire(plain, Choice(None, backups=[second.id]), now_us=LATER_US)
    assert not plain.sizes(f"logs/{A}/backups")
    assert segments(plain, A)  # a log without a backup keeps its entries


@pytest.fixture(autouse=True)
def _no_left(tmp_path: Path) -> Iterator[None]:
    yield
    fs = fsspec.filesystem("memory")
    if fs.exists(f"/expiry{tmp_path}"):
        fs.rm(f"/expiry{tmp_path}", recursive=True)


def test_a_run_that_was_killed_keeps_no_backup_from_being_made(plain: Repository) -> None:
    """Its marks stay for an hour; pages of the directories that they are in are built on meanwhile."""
    database = SmallDatabase(plain, A)
    database.write()
    first = database.back_up("full")
    for _ in range(2):
        database.write()
        last = database.back_up("pages")
    assert first.id in last.sources
    plain.write(f"{backup_directory(A, first.id)}/thinning-{first.id}", b"")
    assert stays(plain, last)
    assert not stays(plain, msgspec.structs.replace(last, image=first.image))
    plain.write(f"{backup_directory(A, first.id)}/removing-{first.id}", b"")
    assert not stays(plain, last)
    expire(plain, Choice(KeepPolicy(last=1)), now_us=LATER_US)
    assert not [name for name in plain.sizes() if name.rpartition("/")[2].startswith(MARKS)]
    assert stays(plain, last)

"""The schedule of a server's backups: what is due, on which node, what expires, and what is said of it."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from herdpy.backup.expiry import read_state
from herdpy.backup.policy import KeepPolicy
from herdpy.backup.repository import Repository, new_key_file, read_key
from herdpy.log.lsn import LSN
from herdpy_server.backup import upkeep
from herdpy_server.backup.upkeep import look
from herdpy_server.backup.upkeep_messages import KnownBackup, ListedBackups, UpkeepOrder
from herdpy_server.serving import backup_schedule as module
from herdpy_server.serving.backup_schedule import COLUMNS, BackupSchedule, BackupScheduleSettings
from herdpy_server.serving.backups import BackupDefaults, BackupRequest
from herdpy_sql.errors import SqlError
from herdpy_sql.system_relations import relations
from tests.backup.small_repositories import SmallDatabase, make_small
from tests.support.server_process import RunningServer

A, B = "aa" * 16, "bb" * 16
HOUR_US = 3_600_000_000
DAY_S = 86_400.0


@dataclass
class Lock:
    """See ``PublishingMutex``."""

    holder: str | None = None
    taken: int = 0

    async def take(self) -> str | None:
        self.taken += self.holder is None
        return self.holder

    async def release(self) -> None:
        pass


@dataclass
class World:
    """A tablespace, its repository and its clock, all made up."""

    us: int = 1_800_000_000_000_000
    backups: list[KnownBackup] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    orders: list[UpkeepOrder] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)
    is_ours_after_s: float = 0.0
    gap: LSN | None = None
    refusal: SqlError | None = None
    before_look: Callable[[], None] = lambda: None
    tablespace: str = "a b"

    # The backend.

    async def place(self) -> Any:
        class Place:
            log_id = A

        return Place()

    async def is_ours(self, late_s: float) -> bool:
        return late_s >= self.is_ours_after_s

    def backup_lock(self) -> Lock:
        return self.lock

    # The repository.

    def back_up(self, kind: str) -> None:
        lsn = f"1:{len(self.backups)}"
        name = f"backup {len(self.backups)}"
        full_us = self.us if kind == "full" else self.backups[-1].full_us
        self.backups.append(
            KnownBackup(name, kind, "n1", self.us, full_us, self.us + 1, lsn, lsn, self.us, None, 2, 3, 4, 5)
        )

    async def make(self, request: BackupRequest, defaults: BackupDefaults) -> None:
        if self.refusal is not None:
            raise self.refusal
        assert defaults.url
        self.made.append(request.scope)
        self.back_up("full" if request.scope == "full" or not self.backups else "log")

    async def look(self, order: UpkeepOrder, niceness: int) -> ListedBackups:
        assert niceness == 7
        self.before_look()
        self.orders.append(order)
        return ListedBackups(list(self.backups), [], [], 0)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(module, "now_us", lambda: made.us)
    monkeypatch.setattr(module, "look", made.look)
    return made


def schedule_of(world: World, full_s: float = 0.0, any_s: float = 0.0, **keep: int) -> BackupSchedule:
    settings = BackupScheduleSettings(
        making=BackupDefaults(url="s3://user:secret@host/bucket", niceness=7),
        full_interval_s=full_s,
        incremental_interval_s=any_s,
        keep=KeepPolicy(**keep),
    )
    return BackupSchedule(world, settings, world.make, "n1", lambda: world.gap)  # type: ignore[arg-type]


def rounds(schedule: BackupSchedule, world: World, hours: int) -> list[str]:
    """One an hour; what was made."""

    async def run() -> None:
        for _ in range(hours):
            await schedule._round()
            await schedule._round()
            world.us += HOUR_US

    before = len(world.made)
    asyncio.run(run())
    return world.made[before:]


def test_full_backups_and_increments_are_made_when_they_are_due(world: World) -> None:
    schedule = schedule_of(world, 6 * 3600, 2 * 3600)
    assert rounds(schedule, world, 13) == ["full", "any", "any", "full", "any", "any", "full"]
    assert rounds(schedule_of(world), world, 3) == []  # nothing is scheduled
    increments = schedule_of(world, any_s=3600)
    assert rounds(increments, world, 3) == ["any"] * 3
    kept = schedule_of(world, 6 * 3600, 3600)
    assert rounds(kept, world, 2) == ["full", "any"]
    world.backups = [one for one in world.backups if one.kind != "full"]
    assert rounds(kept, world, 2) == ["any"] * 2  # the full one is expired, and its pages are there


def test_increments_alone_begin_with_a_full_one(world: World) -> None:
    assert rounds(schedule_of(world, any_s=3600), world, 2) == ["any", "any"]
    assert [one.kind for one in world.backups] == ["full", "log"]


def test_a_gap_of_the_archive_makes_one_due(world: World) -> None:
    schedule = schedule_of(world, any_s=100 * 3600)
    assert rounds(schedule, world, 2) == ["any"]
    world.gap = LSN(1, 1)
    world.is_ours_after_s = 30.0  # this node leads, and followers do not know of the gap
    assert rounds(schedule, world, 2) == ["any"]  # its image is after the gap


def test_a_leader_makes_what_no_follower_makes(world: World) -> None:
    schedule = schedule_of(world, any_s=3600)
    world.is_ours_after_s = 30.0
    assert rounds(schedule, world, 1) == []
    assert rounds(schedule, world, 1) == ["any"]  # there is none, and it has been so for an hour


def test_one_node_makes_it(world: World) -> None:
    schedule = schedule_of(world, 3600)
    world.lock.holder = "n2"
    assert rounds(schedule, world, 1) == []
    world.lock.holder = None
    world.is_ours_after_s = 1e9  # a follower is to do it
    assert rounds(schedule, world, 1) == []
    world.is_ours_after_s = 0.0

    def another() -> None:
        if world.lock.taken:
            world.back_up("full")
            world.before_look = lambda: None

    world.before_look = another  # it has just been made when the lock is taken
    assert rounds(schedule, world, 1) == []
    assert world.lock.taken == 1


def test_the_node_that_made_the_last_one_is_waited_for(world: World) -> None:
    schedule = schedule_of(world, any_s=3600)
    rounds(schedule, world, 1)
    (newest,) = world.backups
    world.backups[0] = msgspec.structs.replace(newest, node="n2")
    schedule.look()
    assert rounds(schedule, world, 1) == []
    world.us -= HOUR_US - 30_000_000
    assert rounds(schedule, world, 1) == ["any"]


def test_what_is_made_is_followed_by_expiry(world: World) -> None:
    schedule = schedule_of(world, 3600, last=2, weekly=3)
    rounds(schedule, world, 1)
    assert [one.policy for one in world.orders] == [None, None, KeepPolicy(last=2, weekly=3)]
    assert {one.log_id for one in world.orders} == {A}
    world.orders.clear()
    rounds(schedule_of(world, 1800), world, 1)
    assert {one.policy for one in world.orders} == {None}


def test_failures_and_lateness_are_logged_once_and_shown(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_S", 0.0)
    caplog.set_level(logging.WARNING, "herdpy.backup")
    schedule = schedule_of(world, DAY_S, 3600)
    world.refusal = SqlError("58030", "the place is full")

    async def run() -> None:
        schedule.start()
        await until(lambda: schedule.status().failures > 3)
        assert schedule.status().failure == "the place is full"
        (failed,) = schedule.rows()
        assert (failed["state"], failed["problem"], failed["id"]) == ("failed", "the place is full", None)
        world.us += 3 * HOUR_US
        await until(lambda: schedule.status().is_late)
        world.refusal = None
        await until(lambda: not schedule.status().is_late and schedule.status().failure is None)
        await schedule.close()

    asyncio.run(run())
    messages = [record.message for record in caplog.records]
    assert messages == [
        "backups failed, and are tried again",
        "the newest backup is too old",
        "backups work again",
        "there is a new backup again",
    ]
    assert "secret" not in str([record.__dict__ for record in caplog.records])
    (row,) = schedule.rows()
    assert tuple(row) == COLUMNS
    assert [name for name, _type in relations()["herdpy", "backups"].columns] == list(COLUMNS)
    assert (row["state"], row["kind"], row["image_lsn"], row["tables"]) == ("whole", "full", "1:0", 2)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.001)


# The process that looks.


def done(coroutine: Coroutine[Any, Any, ListedBackups]) -> ListedBackups:
    return asyncio.run(coroutine)


def test_a_process_lists_and_expires_the_backups_of_one_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small(monkeypatch)
    new_key_file(tmp_path / "key")
    key = read_key(tmp_path / "key")
    url = str(tmp_path / "repository")
    order = UpkeepOrder(url=url, key=key, log_id=A)
    assert done(look(order, 0)) == ListedBackups([], [], [], 0)
    repository = Repository.create(url, key)
    one, other = SmallDatabase(repository, A, "t"), SmallDatabase(repository, B, "t")
    for database in (one, other):
        for _ in range(3):
            database.write()
            database.back_up("full")
    listed = done(look(order, 0))
    assert [it.id for it in listed.backups] == sorted(one.manifests)
    assert listed.backups[0].rows == 7
    policy = KeepPolicy(last=1)
    listed = done(look(UpkeepOrder(url=url, key=key, log_id=A, policy=policy), 0))
    assert listed.removed == sorted(one.manifests, reverse=True)[1:]
    assert listed.freed_bytes > 0
    assert [it.id for it in listed.backups] == [max(one.manifests)]
    assert len([it for it in read_state(repository).catalog.backups if it.log_id == B]) == 3
    bad = f"logs/{A}/backups/{max(one.manifests)}/manifest"
    repository.place.put(bad, repository.place.read(bad)[:-1])
    listed = done(look(UpkeepOrder(url=url, key=key, log_id=A, policy=policy), 0))
    assert [backup for backup, _why in listed.damaged] == [max(one.manifests)]
    assert "its manifest is damaged" in (listed.kept_back or "")
    for refused, state in ((UpkeepOrder(url=url, key=None, log_id=A), "55000"),):
        with pytest.raises(SqlError) as caught:
            done(look(refused, 0))
        assert caught.value.sqlstate == state
    with pytest.raises(SqlError) as caught:
        done(look(UpkeepOrder(url="nowhere://x", key=None, log_id=A), 0))
    assert caught.value.sqlstate == "58030"


def test_a_repository_that_does_not_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while, or when the server ends; many tablespaces have two processes at a time."""
    started: list[subprocess.Popen[bytes]] = []

    class Silent(subprocess.Popen[bytes]):
        def __init__(self, _command: list[str], **options: Any) -> None:
            super().__init__([sys.executable, "-c", "import signal; signal.pause()"], **options)
            started.append(self)
            assert sum(one.returncode is None for one in started) <= 2

    monkeypatch.setattr(subprocess, "Popen", Silent)
    order = UpkeepOrder(url=str(tmp_path), key=None, log_id=A)

    async def many() -> None:
        looks = [asyncio.ensure_future(look(order, 0)) for _ in range(6)]
        await until(lambda: len(started) == 2)
        for one in looks:
            one.cancel()
        await asyncio.gather(*looks, return_exceptions=True)

    asyncio.run(many())
    assert [one.returncode for one in started] == [-signal.SIGKILL] * 2
    monkeypatch.setattr(upkeep, "PATIENCE_S", 0.1)
    with pytest.raises(SqlError, match="did not answer") as caught:
        done(look(order, 0))
    assert caught.value.sqlstate == "58030"
    assert started[-1].returncode == -signal.SIGKILL


# A server.


def test_a_server_makes_backups_on_schedule(tmp_path: Path) -> None:
    new_key_file(tmp_path / "key")
    url = tmp_path / "repository"
    server = RunningServer(
        tmp_path / "data",
        *("--set", f"backup.url={url}", "--set", f"backup.key_file={tmp_path / 'key'}"),
        *("--set", "backup.full_interval_s=3600", "--set", "backup.incremental_interval_s=0.5"),
        *("--set", "backup.keep_last=2", "--set", "backup.archive_interval_s=0"),
    )
    try:
        server.ready()
        with server.connect(user="herdpy", autocommit=True) as connection:
            connection.execute("CREATE TABLE t (x int PRIMARY KEY)")
            connection.execute("INSERT INTO t VALUES (1)")

            def rows() -> list[Any]:
                text = "SELECT state, kind, id, problem, rows, as_of FROM herdpy.backups ORDER BY begun"
                return connection.execute(text).fetchall()

            server.wait_for("backups expired")
            found = rows()
            assert {row[0] for row in found} <= {"whole", "making"}
            assert len([row for row in found if row[0] == "whole"]) >= 1
            assert all(row[5] is not None for row in found)
            metrics = server.get("/metrics")[1].splitlines()
            (tablespace,) = {line.partition("{")[2] for line in metrics if line.startswith("herdpy_backups{")}
            tablespace = tablespace.partition("}")[0]
            assert f"herdpy_backup_failing{{{tablespace}}} 0.0" in metrics
            assert any(line.startswith(f"herdpy_backup_full_age_seconds{{{tablespace}}}") for line in metrics)

            # The key is taken away: it is said, and is well again when it is there.
            (tmp_path / "key").rename(tmp_path / "away")
            failed = server.wait_for("backups failed, and are tried again")
            assert "key file" in failed["reason"]
            assert any(row[0] == "failed" for row in rows())
            assert f"herdpy_backup_failing{{{tablespace}}} 1.0" in server.get("/metrics")[1].splitlines()
    finally:
        server.close()
    key = read_key(tmp_path / "away")
    catalog = read_state(Repository.open(str(url), key)).catalog
    assert 2 <= len(catalog.backups) <= 3
    assert catalog.damaged == []

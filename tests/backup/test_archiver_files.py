"""The archive of a log in files, by a process of its own, beside a database that goes on whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from herdpy.backup.archive import archive_end_of, entries_directory, read_entries, segments
from herdpy.backup.errors import MissingLogError
from herdpy.backup.manifest import read_log_record
from herdpy.backup.merging import FEW
from herdpy.backup.repository import Repository, new_key_file, read_key
from herdpy.log.entry import entry_bytes
from herdpy.log.lsn import START
from herdpy_server.backup import archiver as module
from herdpy_server.backup.archived_files import ArchivedFiles
from herdpy_server.backup.archiver import ArchiveSettings, ArchiveStatus, LogArchiver
from herdpy_server.embedded import Database
from tests.support.held_place import HeldPlace, held_place

PATIENCE_S = 60.0
INTERVAL_S = 0.05


class Archived:
    """A database with little ledgers, and its archive."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = str(directory / "repository")
        self.database = Database.open(
            directory / "database",
            checkpoint_interval_s=3600.0,
            log_retention_bytes=0,
            max_ledger_bytes=1 << 20,
        )
        self._session = self.database.session()
        self.run("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
        self.rows = 0

    @property
    def log(self) -> Any:
        return self.database.log

    @property
    def log_id(self) -> str:
        return str(self.log.state.log_id)

    def run(self, text: str) -> None:
        self.database.run(self._session.execute(text))

    def insert(self, count: int = 1, size: int = 100) -> None:
        """So many transactions."""
        for _ in range(count):
            self.rows += 1
            self.run(f"INSERT INTO t VALUES ({self.rows}, repeat('{self.rows % 10}', {size}))")

    def roll(self) -> None:
        self.log.roll()

    def trim(self) -> None:
        """What CHECKPOINT does: whatever nobody needs is gone."""
        self.database.checkpointer.checkpoint(trim=True)

    @asynccontextmanager
    async def archiver(self, **settings: Any) -> AsyncIterator[LogArchiver]:
        """One that archives within the block."""
        given = {"url": self.url, "archive_interval_s": INTERVAL_S, **settings}
        archiver = LogArchiver(ArchiveSettings(**given), "t")
        self.database.checkpointer.floor = archiver.floor
        archiver.start(ArchivedFiles("t", self.log, self.directory / "database" / "log"))
        try:
            yield archiver
        finally:
            await archiver.close()

    async def level(self, archiver: LogArchiver) -> ArchiveStatus:
        """Once everything is archived."""
        return await until(archiver, lambda status: status.archived == self.log.lac)

    def repository(self, key: bytes | None = None) -> Repository:
        return Repository.open(self.url, key)

    def assert_whole(self, key: bytes | None = None, after: Any = START) -> None:
        """The archive has what the log has, byte for byte, and all before that."""
        repository = self.repository(key)
        found = [entry_bytes(one) for one in read_entries(repository, self.log_id, after, upto=self.log.lac)]
        cursor = self.log.cursor(max(self.log.base, after))
        try:
            there = []
            while (entry := cursor.next_bytes(self.log.lac)) is not None:
                there.append(entry[1])
        finally:
            cursor.close()
        assert there
        assert found[len(found) - len(there) :] == there


@pytest.fixture
def archived(tmp_path: Path) -> Iterator[Archived]:
    made = Archived(tmp_path)
    yield made
    made.database.close()


@pytest.fixture
def held(archived: Archived, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldPlace]:
    """A place whose moods the test decides, as the repository."""
    with held_place(tmp_path / "repository", tmp_path, monkeypatch) as place:
        yield place


async def until(archiver: LogArchiver, wanted: Callable[[ArchiveStatus], bool]) -> ArchiveStatus:
    """The status, once it is so."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not wanted(status := archiver.status()):
                await asyncio.sleep(0.005)
            return status
    except TimeoutError:
        raise AssertionError(f"it stays {archiver.status()}") from None


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


def messages(caplog: pytest.LogCaptureFixture, text: str) -> list[logging.LogRecord]:
    return [one for one in caplog.records if one.getMessage().startswith(text)]


@on_a_loop
async def test_everything_is_archived_and_another_archiver_goes_on(archived: Archived) -> None:
    archived.insert(20)
    async with archived.archiver() as archiver:
        await archived.level(archiver)
        status = await until(archiver, lambda status: not status.is_late)
        assert (status.state, status.lag_s, status.lag_bytes, status.gaps) == ("archiving", 0.0, 0, 0)
        archived.insert(5)
        assert archiver.status().lag_bytes > 0
        status = await archived.level(archiver)
        assert status.raw_bytes > status.stored_bytes > 0
        written = status.segments
        archived.roll()
        archived.insert(3)
        await archived.level(archiver)
    archived.assert_whole()
    archived.insert(4)
    async with archived.archiver() as archiver:
        status = await archived.level(archiver)
        assert status.segments == 1  # nothing is written twice
    archived.assert_whole()
    assert written >= 2
    lsn, time_us = archive_end_of(archived.repository(), archived.log_id)
    assert lsn == archived.log.lac
    assert time_us > 1_700_000_000_000_000


@on_a_loop
async def test_nothing_is_trimmed_before_it_is_archived(archived: Archived, held: HeldPlace) -> None:
    archived.url = held.url
    held.say("hold")
    archived.insert(10)
    archived.roll()
    base = archived.log.base
    async with archived.archiver() as archiver:
        archived.trim()  # before anything is known of the archive
        assert archived.log.base == base
        archived.insert(10)
        archived.trim()
        assert archived.log.base == base
        held.say("ok")
        await archived.level(archiver)
        archived.trim()
        assert archived.log.base > base
    archived.trim()  # ended, and still nothing is let go of that it does not have
    archived.insert(5)
    end = archived.log.lac
    archived.roll()
    archived.trim()
    assert archived.log.base < end


@on_a_loop
async def test_the_repository_may_be_full_or_away_and_come_back(
    archived: Archived, held: HeldPlace, caplog: pytest.LogCaptureFixture
) -> None:
    archived.url = held.url
    async with archived.archiver() as archiver:
        for mood, told in (("full", "No space left"), ("away", "nobody answers")):
            caplog.clear()
            held.say(mood)
            archived.insert(10)
            status = await until(archiver, lambda status: status.failure is not None and status.is_late)
            assert status.failure is not None
            assert told in status.failure
            assert status.state == "failing"
            archived.insert(10)
            assert len(messages(caplog, "the archive falls behind")) == 1
            assert len(messages(caplog, "the log is not archived")) == 1
            held.say("ok")
            await archived.level(archiver)
            await until(archiver, lambda status: not status.is_late and status.failure is None)
            assert len(messages(caplog, "the archive has caught up")) == 1
            assert len(messages(caplog, "the log is archived again")) == 1
            assert len(messages(caplog, "the archive falls behind")) == 1
    archived.url = archived.url.removeprefix("held://")
    archived.assert_whole()


@on_a_loop
async def test_a_repository_that_holds_its_writer_holds_nobody_else(
    archived: Archived, held: HeldPlace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    archived.url = held.url
    async with archived.archiver() as archiver:
        archived.insert(5)
        await archived.level(archiver)
        held.say("hold")
        archived.insert(5)
        await until(archiver, lambda status: status.is_late)
        archived.insert(50)  # they are answered
        monkeypatch.setattr(module, "STALLED_AFTER_S", 0.2)
    async with archived.archiver() as archiver:
        first = await until(archiver, lambda status: status.failure is not None)
        assert first.failure == "nothing was written for 0.2 s"
        held.say("ok")
        monkeypatch.setattr(module, "STALLED_AFTER_S", PATIENCE_S)
        await archived.level(archiver)
    archived.url = archived.url.removeprefix("held://")
    archived.assert_whole()


@on_a_loop
async def test_beyond_its_bound_the_log_is_trimmed_and_the_gap_is_told(
    archived: Archived, held: HeldPlace, caplog: pytest.LogCaptureFixture
) -> None:
    archived.url = held.url
    async with archived.archiver(archive_wait_bytes=20_000) as archiver:
        archived.insert(5)
        before = await archived.level(archiver)
        assert before.archived is not None
        held.say("away")
        archived.insert(10)
        archived.roll()
        archived.trim()
        assert archived.log.base <= before.archived  # so much may wait
        archived.insert(300)
        archived.roll()
        archived.trim()
        archived.trim()
        base = archived.log.base
        assert base > before.archived
        status = await until(archiver, lambda status: status.gaps == 1)
        assert (status.gap_after, status.gap_upto) == (before.archived, base)
        assert len(messages(caplog, "the archive is too far behind")) == 1
        assert len(messages(caplog, "the archive has a gap")) == 1
        archived.insert(5)
        held.say("ok")
        status = await archived.level(archiver)
        assert status.gaps == 1
        archived.insert(5)
        await archived.level(archiver)
    archived.url = archived.url.removeprefix("held://")
    archived.assert_whole(after=base)
    with pytest.raises(MissingLogError):
        list(read_entries(archived.repository(), archived.log_id, START, upto=archived.log.lac))


@on_a_loop
async def test_a_gap_that_came_while_nothing_ran_is_told(
    archived: Archived, caplog: pytest.LogCaptureFixture
) -> None:
    archived.insert(5)
    async with archived.archiver() as archiver:
        last = (await archived.level(archiver)).archived
    archived.database.checkpointer.floor = lambda: None
    archived.insert(5)
    archived.roll()
    archived.trim()
    base = archived.log.base
    archived.insert(5)
    async with archived.archiver() as archiver:
        status = await archived.level(archiver)
        assert (status.gaps, status.gap_after, status.gap_upto) == (1, last, base)
    assert len(messages(caplog, "the archive has a gap")) == 1
    archived.assert_whole(after=base)
    async with archived.archiver() as archiver:
        assert (await archived.level(archiver)).gaps == 0  # it is told once


@on_a_loop
async def test_so_long_the_log_waits_and_no_longer(archived: Archived, held: HeldPlace) -> None:
    archived.url = held.url
    held.say("away")
    archived.insert(5)
    archived.roll()
    async with archived.archiver(archive_wait_s=0.3) as archiver:
        archived.trim()
        assert archived.log.base == START
        async with asyncio.timeout(PATIENCE_S):
            while archiver.floor() is not None:
                await asyncio.sleep(0.01)
        archived.trim()
        assert archived.log.base > START


@pytest.mark.soak
@on_a_loop
async def test_a_process_that_dies_is_followed_by_another(archived: Archived) -> None:
    async with archived.archiver() as archiver:
        for _ in range(3):
            archived.insert(5)
            await archived.level(archiver)
            assert archiver._child is not None
            os.kill(archiver._child._process.pid, signal.SIGKILL)
            archived.insert(5)
        await archived.level(archiver)
    archived.assert_whole()


@on_a_loop
async def test_two_may_archive_one_log_at_once(archived: Archived) -> None:
    async with archived.archiver() as one, archived.archiver(archive_interval_s=0.03) as other:
        for _ in range(30):
            archived.insert(4)
            await asyncio.sleep(0.01)
        archived.roll()
        archived.insert(4)
        await archived.level(one)
        await archived.level(other)
    archived.assert_whole()


@pytest.mark.soak
@on_a_loop
async def test_segments_of_ledgers_that_are_closed_are_merged(archived: Archived) -> None:
    async with archived.archiver() as archiver:
        closed = set()
        for _ in range(3):
            for _ in range(FEW + 4):
                archived.insert(2)
                await archived.level(archiver)
            closed.add(archived.log.lac.ledger_id)
            archived.roll()
        archived.insert(1)
        await archived.level(archiver)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = segments(archived.repository(), archived.log_id)
                counts = [sum(1 for one in found if one.ledger_id == ledger) for ledger in closed]
                if counts == [1, 1, 1]:
                    break
                archived.insert(1)  # one ledger is merged after each round that has something to archive
                await archived.level(archiver)
    archived.assert_whole()


@on_a_loop
async def test_a_ledger_is_never_longer_than_its_segments_say(archived: Archived) -> None:
    """An open ledger's file has reserved space, and perhaps entries that are not confirmed yet."""
    async with archived.archiver() as archiver:
        for size in (1, 5000, 100_000, 3):
            archived.insert(3, size)
            await archived.level(archiver)
            archived.assert_whole()


@on_a_loop
async def test_an_encrypted_archive_shows_nothing(archived: Archived, tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    new_key_file(key_file)
    archived.run("INSERT INTO t VALUES (-1, 'nobody is to read this')")
    async with archived.archiver(key_file=str(key_file)) as archiver:
        await archived.level(archiver)
    archived.assert_whole(read_key(key_file))
    for path in Path(archived.url).rglob("*"):
        assert path.is_dir() or b"nobody is to read" not in path.read_bytes()
    async with archived.archiver() as archiver:
        status = await until(archiver, lambda status: status.failure is not None)
        assert status.failure is not None
        assert "is encrypted" in status.failure


@on_a_loop
async def test_secrets_are_in_no_command_line_and_no_status(archived: Archived, tmp_path: Path) -> None:
    archived.url = f"file://ann:hush@{tmp_path}/repository"
    async with archived.archiver() as archiver:
        archived.insert()
        status = await until(archiver, lambda status: archiver._child is not None)
        assert archiver._child is not None
        command = Path(f"/proc/{archiver._child._process.pid}/cmdline").read_bytes()
        assert b"hush" not in command
        assert "hush" not in str(status)


@on_a_loop
async def test_a_log_that_was_restored_names_its_parent(archived: Archived) -> None:
    archiver = LogArchiver(ArchiveSettings(url=archived.url, archive_interval_s=INTERVAL_S), "t")
    archived.insert()
    log = ArchivedFiles("t", archived.log, archived.directory / "database" / "log")
    archiver.start(log, parent_log="ab" * 16, branched="3:7")
    await archived.level(archiver)
    await archiver.close()
    record = read_log_record(archived.repository(), archived.log_id)
    assert (record.tablespace, record.parent, record.branched) == ("t", "ab" * 16, "3:7")


@on_a_loop
async def test_the_end_waits_for_what_was_written_last(archived: Archived) -> None:
    async with archived.archiver(archive_interval_s=3600.0) as archiver:
        await until(archiver, lambda status: status.archived is not None)
        archived.insert(7)
        await archiver.close(PATIENCE_S)
    archived.assert_whole()


@pytest.mark.soak
@on_a_loop
async def test_a_damaged_repository_is_told_and_nothing_is_lost(archived: Archived) -> None:
    async with archived.archiver() as archiver:
        for _ in range(FEW + 4):
            archived.insert(2)
            await archived.level(archiver)
        first = segments(archived.repository(), archived.log_id)[0]
        file = Path(archived.url) / entries_directory(archived.log_id) / first.name
        kept = file.read_bytes()
        file.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
        archived.roll()
        archived.insert(2)
        await archived.level(archiver)
        archived.insert(2)
        await archived.level(archiver)
    file.write_bytes(kept)
    archived.assert_whole()
    with contextlib.suppress(FileNotFoundError):
        assert len(segments(archived.repository(), archived.log_id)) > FEW


@on_a_loop
async def test_no_more_is_written_in_a_second_than_may_be(archived: Archived) -> None:
    archived.insert(400)
    loop = asyncio.get_running_loop()
    async with archived.archiver(rate_bytes=10_000) as archiver:
        began_s = loop.time()
        first = await archived.level(archiver)
        archived.insert()
        await archived.level(archiver)
        assert loop.time() - began_s >= first.stored_bytes / 10_000
    archived.assert_whole()


@on_a_loop
async def test_a_directory_whose_disk_is_gone_is_not_archived_to(archived: Archived) -> None:
    place = Path(archived.url)
    aside = place.with_name("unmounted")
    async with archived.archiver() as archiver:
        archived.insert(5)
        before = (await archived.level(archiver)).archived
        place.rename(aside)
        place.mkdir()
        archived.insert(5)
        status = await until(archiver, lambda status: status.failure is not None)
        assert status.failure is not None
        assert "is its disk there?" in status.failure
        await archiver._end_child()  # another process refuses it as well
        archived.insert(5)
        await until(archiver, lambda status: archiver._child is not None)
        status = await until(archiver, lambda status: status.failure is not None)
        assert (status.archived, list(place.iterdir())) == (before, [])
        archived.roll()
        archived.trim()
        assert archived.log.base == START
        place.rmdir()
        aside.rename(place)
        await archived.level(archiver)
    archived.assert_whole()

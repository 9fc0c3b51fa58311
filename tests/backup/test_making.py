"""Backups of databases in directories: closed, or open and under way; whole, and what changed since."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import herdpy
from herdpy.backup import pages
from herdpy.backup.archive import entries_directory
from herdpy.backup.errors import BackupError, RepositoryError
from herdpy.backup.manifest import BackupManifest, backup_directory, read_catalog, remove_backup_manifest
from herdpy.backup.repository import Repository
from herdpy.log import detached
from herdpy.log.lsn import LSN
from herdpy_server.backup import directory_log
from herdpy_server.backup import making as module
from herdpy_server.backup.making import directory_order, make_backup
from herdpy_server.backup.messages import Scope
from herdpy_server.backup.restoring import RestoreOptions, restore
from herdpy_server.backup.targets import RestoreTarget, make_plan
from tests.support.backups import put_together

_ROWS = 20_000
KEY = bytes(range(32))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(str(tmp_path / "repository"))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with a few megabytes, closed."""
    path = tmp_path / "db"
    with herdpy.connect(str(path), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, v TEXT)")
        connection.execute(
            f"INSERT INTO t SELECT g, g % 100, md5(g::text) FROM generate_series(1, {_ROWS}) g"
        )
    return path


def made(path: Path, repository: Repository, scope: Scope = "any", **options: Any) -> BackupManifest:
    """A backup of the database in a directory."""
    return make_backup(directory_order(path, "default", scope=scope, **options), repository)


def contents(path: Path) -> dict[str, list[Any]]:
    """All rows of all tables of a database in a directory."""
    with herdpy.connect(str(path)) as connection:
        tables = connection.execute("SELECT name FROM herdpy.tables ORDER BY name").fetchall()
        return {name: sorted(connection.execute(f'SELECT * FROM "{name}"').fetchall()) for (name,) in tables}


def run(path: Path, *statements: str) -> None:
    with herdpy.connect(str(path), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def stored(repository: Repository, directory: str = "") -> int:
    return sum(repository.sizes(directory).values())


def test_a_closed_database_and_what_changed_since(
    database: Path, repository: Repository, tmp_path: Path
) -> None:
    first = made(database, repository)
    whole = contents(database)
    assert (first.kind, first.parent, first.sources) == ("full", None, (first.id,))
    assert [(one.schema, one.name, one.rows) for one in first.tables] == [("public", "t", _ROWS)]
    assert contents(put_together(repository, first, tmp_path / "first")) == whole
    assert first.stored_bytes == stored(repository) - _small(repository, first)

    run(database, "UPDATE t SET a = a + 1 WHERE id % 100 = 7", "CREATE TABLE u (x INT)")
    second = made(database, repository)
    assert (second.kind, second.parent, second.image) == ("log", first.id, first.image)
    assert second.stored_bytes < first.stored_bytes / 20
    assert second.end_time_us > first.end_time_us
    assert contents(put_together(repository, second, tmp_path / "second")) == contents(database)

    run(database, "INSERT INTO u VALUES (1)", "CHECKPOINT")  # which trims the log
    third = made(database, repository)
    assert (third.kind, third.parent) == ("pages", second.id)
    assert set(third.sources) == {first.id, third.id}
    assert contents(put_together(repository, third, tmp_path / "third")) == contents(database)
    assert contents(put_together(repository, first, tmp_path / "still")) == whole


def test_partitions_come_back_as_partitions(database: Path, repository: Repository, tmp_path: Path) -> None:
    run(
        database,
        "CREATE SCHEMA old",
        "CREATE TABLE p (id INT PRIMARY KEY, v TEXT) PARTITION BY RANGE (id)",
        "CREATE INDEX ON p (v)",
        "CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE old.p1 PARTITION OF p FOR VALUES FROM (100) TO (200)",
        "INSERT INTO p VALUES (1, 'a'), (101, 'b')",
    )
    first = made(database, repository)
    run(
        database,
        "DROP TABLE p0",
        "CREATE TABLE p2 PARTITION OF p DEFAULT",
        "UPDATE p SET id = 500 WHERE v = 'b'",
        "INSERT INTO p VALUES (102, 'b')",
    )
    later = made(database, repository)
    assert later.kind == "log"  # definitions come by records, too
    for backup, rows in ((first, [(1, "a"), (101, "b")]), (later, [(102, "b"), (500, "b")])):
        plan = make_plan(repository, read_catalog(repository), RestoreTarget(lsn=backup.end_lsn))
        path = tmp_path / backup.kind
        restore(repository, plan, path, RestoreOptions())
        with herdpy.connect(str(path), autocommit=True) as connection:
            assert connection.execute("SELECT * FROM p ORDER BY id").fetchall() == rows
            assert connection.execute("SELECT * FROM p WHERE v = 'b' ORDER BY id").fetchall() == [
                row for row in rows if row[1] == "b"
            ]
            connection.execute("INSERT INTO p VALUES (199, 'new')")
            assert connection.execute("SELECT id FROM old.p1 WHERE v = 'new'").fetchall() == [(199,)]


def _small(repository: Repository, manifest: BackupManifest) -> int:
    """What a repository has beside pages, maps and entries."""
    sizes = repository.sizes()
    manifests = sizes[f"{backup_directory(manifest.log_id, manifest.id)}/manifest"]
    return manifests + sizes["herdpy-repository.json"] + sizes[f"logs/{manifest.log_id}/log"]


def test_increments_of_the_log_end_when_it_is_large_beside_the_image(
    database: Path, repository: Repository, tmp_path: Path
) -> None:
    kinds = [made(database, repository).kind]
    for _ in range(6):
        run(database, "UPDATE t SET a = a + 1 WHERE id % 10 = 7")
        last = made(database, repository)
        kinds.append(last.kind)
    assert kinds[:3] == ["full", "log", "log"]
    assert "pages" in kinds
    assert contents(put_together(repository, last, tmp_path / "last")) == contents(database)


def test_nothing_new_adds_nothing(database: Path, repository: Repository) -> None:
    first = made(database, repository)
    again = made(database, repository)
    assert (again.kind, again.raw_bytes, again.stored_bytes) == ("log", 0, 0)
    assert (again.end, again.end_time_us) == (first.end, first.end_time_us)


def test_what_is_requested_is_made_or_refused(database: Path, repository: Repository) -> None:
    with pytest.raises(BackupError, match="no backup of this log to continue") as caught:
        made(database, repository, "increment")
    assert caught.value.hint
    first = made(database, repository)
    second = made(database, repository, "full")
    assert (second.kind, second.parent, second.sources) == ("full", None, (second.id,))
    assert second.stored_bytes == pytest.approx(first.stored_bytes, rel=0.05)
    assert made(database, repository, "increment").parent == second.id


# Databases that are used meanwhile.

_WRITER = """
import random, sys, herdpy
connection = herdpy.connect(
    sys.argv[1], autocommit=True, max_ledger_bytes=1 << 16, log_retention_bytes=1 << 18,
    checkpoint_interval_s=0.05
)
connection.execute("CREATE TABLE IF NOT EXISTS w (id INT PRIMARY KEY, v TEXT)")
chance = random.Random(1)
number = 0
while True:
    number += 1
    connection.execute("INSERT INTO w VALUES ($1, $2)", (number, "x" * chance.randrange(2000)))
    if number % 50 == 0:
        connection.execute(f"CREATE TABLE d{number} AS SELECT {number} AS n")
        connection.execute(f"ALTER TABLE w ADD COLUMN c{number} INT DEFAULT {number}")
    if number % 120 == 0:
        connection.execute(f"DROP TABLE d{number - number % 50}")
        connection.execute("DELETE FROM w WHERE id % 3 = 0")
    print(number, flush=True)
"""


class Writer:
    """A process that has a database open and writes; ``done``: the newest number that it was answered."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", _WRITER, str(path)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.done = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.done = int(line)
                self._changed.notify_all()

    def wait(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.done >= number or not self._thread.is_alive(), 60)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._thread.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def writing() -> Iterator[Callable[[Path], Writer]]:
    writers: list[Writer] = []

    def start(path: Path) -> Writer:
        writers.append(Writer(path))
        return writers[-1]

    yield start
    for one in writers:
        one.stop()


def _numbers(path: Path) -> list[int]:
    with herdpy.connect(str(path)) as connection:
        return [number for (number,) in connection.execute("SELECT id FROM w ORDER BY id").fetchall()]


def _is_a_prefix(numbers: list[int], least: int) -> bool:
    """Whether the rows are those of a moment at or after that in which ``least`` was answered."""

    def after(last: int, deleted: int) -> list[int]:
        return [n for n in range(1, last + 1) if n % 3 or n > deleted]

    moments = range(least, numbers[-1] + 2)
    before_deletion = [after(last, (last - 1) // 120 * 120) for last in moments]
    # What was answered is wholly done: only one that is under way may be before its deletion.
    return numbers in before_deletion[1 if least % 120 == 0 else 0 :] + [
        after(last, last) for last in moments if last % 120 == 0
    ]


def test_a_database_that_another_process_writes_and_alters(
    tmp_path: Path, repository: Repository, writing: Callable[[Path], Writer]
) -> None:
    path = tmp_path / "db"
    writer = writing(path)
    writer.wait(60)
    found = []
    for number in range(5):
        least = writer.done
        found.append((least, made(path, repository, "any" if number % 2 else "full")))
        writer.wait(least + 100)
    for number, (least, manifest) in enumerate(found):
        copy = _numbers(put_together(repository, manifest, tmp_path / f"copy{number}"))
        assert _is_a_prefix(copy, least), (least, copy)


def test_every_answered_commit_of_a_killed_process_is_in_the_backup(
    tmp_path: Path, repository: Repository, writing: Callable[[Path], Writer]
) -> None:
    path = tmp_path / "db"
    writer = writing(path)
    writer.wait(70)
    writer.stop()
    manifest = made(path, repository)
    found = _numbers(put_together(repository, manifest, tmp_path / "copy"))
    assert _is_a_prefix(found, writer.done), (writer.done, found)
    assert found == _numbers(path)  # as recovery finds it


_IDLE = """
import sys, herdpy
connection = herdpy.connect(sys.argv[1], autocommit=True, checkpoint_interval_s=600)
connection.execute("CREATE TABLE w (id INT PRIMARY KEY)")
connection.execute("INSERT INTO w VALUES (1)")
print(1, flush=True)
sys.stdin.read()
"""


def test_an_idle_process_that_says_nothing_of_its_last_commit(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_log, "_CONFIRM_PATIENCE_S", 0.1)
    path = tmp_path / "db"
    command = [sys.executable, "-c", _IDLE, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        first = made(path, repository)
        again = made(path, repository)
        process.communicate(b"")
    assert (first.end, again.parent, again.raw_bytes) == (again.end, first.id, 0)
    assert _numbers(put_together(repository, first, tmp_path / "copy")) == [1]


@pytest.mark.soak
def test_two_backups_at_once(
    database: Path, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one begins when half of the pages are written, in a process of its own."""
    monkeypatch.setattr(pages, "PACK_BYTES", 1 << 16)
    other: list[bytes] = []
    code = (
        "import sys; from pathlib import Path; from herdpy.backup.repository import Repository\n"
        "from herdpy_server.backup.making import *\n"
        "made = make_backup(directory_order(Path(sys.argv[1]), 'default'), Repository.open(sys.argv[2]))\n"
        "print(made.id)"
    )

    def report(progress: module.BackupProgress) -> None:
        if progress.read_bytes > progress.total_bytes / 2 and not other:
            command = [sys.executable, "-c", code, str(database), repository.url]
            other.append(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)

    mine = make_backup(directory_order(database, "default"), repository, report)
    catalog = read_catalog(repository)
    assert {one.id for one in catalog.backups} == {mine.id, other[0].decode().strip()}
    assert (catalog.unfinished, catalog.damaged) == ([], [])
    for one in catalog.backups:
        assert contents(put_together(repository, one, tmp_path / one.id)) == contents(database)


@pytest.mark.soak
def test_an_image_that_the_log_does_not_continue_is_taken_again(
    database: Path, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the image and the log somebody trims: a newer image continues the first one's pages."""
    images, notes = [], []
    archive = module.archive

    def late(*arguments: Any, **options: Any) -> Any:
        images.append(arguments[3])
        if len(images) <= 2:
            changes = f"UPDATE t SET a = {len(images)} WHERE id < 50"
            subprocess.run(
                [sys.executable, "-m", "herdpy.cli", "sql", str(database), "-c", changes, "-c", "CHECKPOINT"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        return archive(*arguments, **options)

    monkeypatch.setattr(module, "archive", late)
    order = directory_order(database, "default")
    manifest = make_backup(order, repository, note=notes.append)
    assert images == sorted(set(images))
    assert len(images) == 3
    assert [one for one in notes if "newer image" in one] == notes
    assert len(manifest.sources) == 3
    assert contents(put_together(repository, manifest, tmp_path / "copy")) == contents(database)
    monkeypatch.setattr(module, "_TRIES", 0)
    with pytest.raises(BackupError, match="trimmed faster") as caught:
        made(database, repository, "full")
    assert caught.value.hint


# Backups that are broken off.

_KILLED = """
import os, signal, sys, threading
from pathlib import Path
from herdpy.backup import pages
from herdpy.backup.repository import Repository
from herdpy_server.backup.making import *
pages.PACK_BYTES, pages._INDEX_EVERY = 1 << 15, 2
left = int(sys.argv[3])
put = Repository.write
def counted(place, name, data, put=type(Repository.open(sys.argv[2]).place).put):
    global left
    left -= 1
    if left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
    put(place, name, data)
type(Repository.open(sys.argv[2]).place).put = counted
make_backup(directory_order(Path(sys.argv[1]), "default", jobs=1), Repository.open(sys.argv[2]))
"""


def test_a_killed_backup_is_gone_on_with(
    database: Path, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PACK_BYTES", 1 << 15)
    chance = random.Random(5)
    whole = made(database, repository, "full").raw_bytes
    for name in repository.sizes():  # begin anew
        if name.startswith("logs/"):
            repository.delete(name)
    total = whole // (1 << 15)
    for _ in range(4):
        steps = chance.randrange(2, max(total // 4, 3))
        command = [sys.executable, "-c", _KILLED, str(database), repository.url, str(steps)]
        ended = subprocess.run(command, check=False)
        assert ended.returncode == -signal.SIGKILL
    assert len(read_catalog(repository).unfinished) == 4
    manifest = made(database, repository)
    assert manifest.kind == "full"
    assert manifest.raw_bytes < whole
    assert len(manifest.sources) > 1
    assert contents(put_together(repository, manifest, tmp_path / "copy")) == contents(database)


def test_damaged_leftovers_and_parents_are_passed_over(
    database: Path, repository: Repository, tmp_path: Path
) -> None:
    first = made(database, repository)
    run(database, "UPDATE t SET a = 1 WHERE id < 50", "CHECKPOINT")
    left = backup_directory(first.log_id, "20991231T000000Z-aaaaaa")
    repository.place.put(f"{left}/index-1", b"nothing of ours")
    repository.place.put(f"{backup_directory(first.log_id, first.id)}/map-0", b"nothing of ours")
    notes: list[str] = []
    manifest = make_backup(directory_order(database, "default"), repository, note=notes.append)
    assert [one.split(":")[2].strip().rpartition("/")[2] for one in notes] == ["map-0", "index-1"]
    assert manifest.sources == (manifest.id,)
    assert contents(put_together(repository, manifest, tmp_path / "copy")) == contents(database)
    for name in repository.sizes(entries_directory(first.log_id)):
        repository.place.put(name, b"nothing of ours")
    repository.place.put(f"{backup_directory(first.log_id, manifest.id)}/manifest", b"nothing of ours")
    again = make_backup(directory_order(database, "default"), repository, note=notes.append)
    assert again.parent == first.id


def test_a_copy_that_goes_on_by_itself_is_not_mixed_with_the_first(
    database: Path, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have the same log up to where the files were copied, and the same positions after that."""
    monkeypatch.setattr(detached, "_CONFIRM_PATIENCE_S", 0.1)
    made(database, repository)
    copy, behind = tmp_path / "copy", tmp_path / "behind"
    shutil.copytree(database, copy)
    shutil.copytree(database, behind)
    run(database, "INSERT INTO t VALUES (-1, 1, 'here')")
    run(copy, "INSERT INTO t VALUES (-1, 1, 'there')")
    last = made(database, repository)
    for scope in ("any", "full"):
        with pytest.raises(BackupError, match="another history of this log: the log and the repo") as caught:
            made(copy, repository, scope)
        assert caught.value.hint
        with pytest.raises(BackupError, match="another history of this log: the log ends at"):
            made(behind, repository, scope)
    assert [one.id for one in read_catalog(repository).backups][-1] == last.id
    assert made(database, repository).parent == last.id
    other = Repository.create(str(tmp_path / "other"))
    assert contents(put_together(other, made(copy, other), tmp_path / "restored")) == contents(copy)


# Encryption.


def test_an_encrypted_repository_shows_nothing_and_refuses_another_key(
    database: Path, tmp_path: Path
) -> None:
    run(database, "CREATE TABLE secret (v TEXT)", "INSERT INTO secret VALUES ('Zebrafish and quagga')")
    url = str(tmp_path / "vault")
    repository = Repository.create(url, KEY)
    manifest = made(database, repository)
    run(database, "INSERT INTO secret VALUES ('Axolotl and narwhal')")
    second = made(database, repository)
    for file in Path(url).rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            for word in (b"Zebrafish", b"Axolotl", b"secret"):
                assert word not in data, file
    assert contents(put_together(repository, second, tmp_path / "copy")) == contents(database)
    assert (manifest.kind, second.kind) == ("full", "log")
    with pytest.raises(RepositoryError, match="the key is not the one"):
        Repository.create(url, bytes(32))
    with pytest.raises(RepositoryError, match="is encrypted"):
        Repository.create(url)


# Small things.


def test_rates_hold_and_roles_are_kept(
    database: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PACK_BYTES", 1 << 16)
    (database / "users.json").write_bytes(b'{"roles": {}}')
    manifest = made(database, repository, rate_bytes=1 << 20)
    took_s = (manifest.finished_us - manifest.created_us) / 1e6
    assert manifest.stored_bytes > 1 << 19
    assert took_s > 0.2  # the first part costs nothing
    assert manifest.files == {"users.json": b'{"roles": {}}'}


def test_nothing_is_left_open(database: Path, repository: Repository) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    made(database, repository)
    assert len(os.listdir("/proc/self/fd")) <= len(before)
    assert not [one for one in threading.enumerate() if "backup" in one.name]
    assert LSN.parse(read_catalog(repository).backups[0].end) >= LSN(1, 0)


def test_what_is_expired_meanwhile_is_noticed(database: Path, repository: Repository) -> None:
    first = made(database, repository)
    run(database, "INSERT INTO t VALUES (100001, 1, 'x')")
    mark = f"{backup_directory(first.log_id, first.id)}/removing-{first.id}"
    repository.write(mark, b"")
    with pytest.raises(BackupError, match="expired meanwhile"):
        made(database, repository)
    assert [one.id for one in read_catalog(repository).backups] == [first.id]
    repository.delete(mark)
    assert made(database, repository).parent == first.id


def test_what_was_broken_off_long_ago_is_not_built_on(
    database: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expiry may remove it meanwhile."""
    monkeypatch.setattr(pages, "PACK_BYTES", 1 << 15)
    manifest = made(database, repository, "full")
    remove_backup_manifest(repository, manifest.log_id, manifest.id)
    monkeypatch.setattr(pages, "_INDEX_EVERY", 2)
    command = [sys.executable, "-c", _KILLED, str(database), repository.url, "20"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    monkeypatch.setattr(module, "LEFTOVERS_UNTIL_S", -3600)
    again = made(database, repository)
    assert again.sources == (again.id,)
    monkeypatch.undo()
    remove_backup_manifest(repository, again.log_id, again.id)
    assert len(made(database, repository).sources) > 1

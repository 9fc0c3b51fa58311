"""Repositories in a store of objects: the same parts as in a directory, over S3's protocol."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import herdpy
from herdpy.backup import pages as pages_module
from herdpy.backup.archive import ArchiveWriter, read_entries, segments
from herdpy.backup.checking import verify
from herdpy.backup.errors import DamagedPartError, RepositoryError
from herdpy.backup.expiry import Choice, expire
from herdpy.backup.manifest import (
    BackupManifest,
    Image,
    LogRecord,
    backup_directory,
    new_backup_id,
    read_catalog,
    read_log_record,
    write_log_record,
    write_manifest,
)
from herdpy.backup.pages import PageMap, PageWriter, packs_of, read_map, read_pack, write_map
from herdpy.backup.policy import KeepPolicy
from herdpy.backup.repository import Repository
from herdpy.log.entry import START_CRC, LogEntry, decode_entry, encode_entry, encode_part
from herdpy.log.lsn import LSN, START
from herdpy_server.backup.log_part import continuous_end
from herdpy_server.backup.making import directory_order, make_backup
from tests.backup.small_repositories import DAY_US, SmallDatabase, make_small
from tests.support.backups import put_together
from tests.support.object_store import SECRET, s3_store, store_files

BUCKET = "vault"
LOG = "ef" * 16
KEY = bytes(range(32))
PAGE = 64


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with s3_store(BUCKET):
        yield f"s3://{BUCKET}"


@pytest.fixture(params=[None, KEY], ids=["plain", "encrypted"])
def repository(bucket: str, request: pytest.FixtureRequest) -> Repository:
    return Repository.create(f"{bucket}/backups-{random.randrange(1 << 40)}/deep", request.param)


def _image(repository: Repository, name: str, image: bytes, known: PageMap | None = None) -> int:
    writer = PageWriter(repository, LOG, name, PAGE, known)
    writer.feed(image)
    parts, _size = write_map(repository, backup_directory(LOG, name), writer.finish(name))
    return parts


def _entries(count: int) -> list[LogEntry]:
    made, before, crc = [], START, START_CRC
    for number in range(count):
        data, crc = encode_entry(LSN(1, number), before, crc, number - 1, [encode_part(b"x" * number)])
        before = LSN(1, number)
        made.append(decode_entry(data))
    return made


def test_images_and_increments(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_module, "PACK_BYTES", 5 * PAGE)
    image = bytearray(random.Random(1).randbytes(PAGE * 30))
    known = read_map(repository, LOG, "first", _image(repository, "first", bytes(image)))
    image[0] ^= 1
    parts = _image(repository, "second", bytes(image), known)
    found = bytearray(len(image))
    pages = read_map(repository, LOG, "second", parts)
    for use in packs_of(pages, LOG):
        for first, data in read_pack(repository, pages, use, PAGE):
            found[first * PAGE : first * PAGE + len(data)] = data
    assert found == image
    packs = [name for name in repository.sizes() if "/second/pages-" in name]
    assert len(packs) == 1
    repository.delete(packs[0])
    with pytest.raises(DamagedPartError, match="second/pages-0: it is not there"):
        read_pack(repository, pages, packs_of(pages, LOG)[0], PAGE)


def test_the_log_and_what_is_there(repository: Repository) -> None:
    entries = _entries(20)
    writer = ArchiveWriter(repository, LOG, START)
    for number, entry in enumerate(entries):
        writer.add(entry)
        if number % 6 == 5:
            writer.flush()
    writer.flush()
    assert list(read_entries(repository, LOG, START)) == entries
    assert continuous_end(repository, LOG, START) == entries[-1].lsn
    repository.delete(f"logs/{LOG}/entries/{segments(repository, LOG)[1].name}")
    assert continuous_end(repository, LOG, START) == LSN(1, 5)
    write_log_record(repository, LogRecord("sales", LOG, 1))
    backup = new_backup_id()
    image = Image(backup, "1:5", None, "u", PAGE, 0, 0)
    manifest = BackupManifest(
        backup, "sales", LOG, "full", None, image, (backup,), "1:5", 0, 1, 2, (), 0, 0
    )  # fmt: skip
    write_manifest(repository, manifest)
    later = new_backup_id()
    repository.write(f"{backup_directory(LOG, later)}/pages-0", b"unfinished")
    catalog = read_catalog(repository)
    assert catalog.backups == [manifest]
    assert catalog.unfinished == [(LOG, later)]
    assert not catalog.damaged
    name = repository.place.path(f"{backup_directory(LOG, backup)}/manifest")
    store_files().pipe(name, store_files().cat(name)[:-1])
    (damaged,) = read_catalog(repository).damaged
    assert damaged.file.endswith(f"{backup}/manifest")
    assert "does not match its checksum" in damaged.reason


def test_one_of_many_at_once_makes_it(bucket: str) -> None:
    url = f"{bucket}/contended-{random.randrange(1 << 40)}"
    with ThreadPoolExecutor(8) as threads:
        assert len({one.id for one in threads.map(Repository.create, [url] * 8)}) == 1
        repository = Repository.open(url)
        records = [LogRecord(f"t{number}", LOG, number) for number in range(8)]
        list(threads.map(lambda record: write_log_record(repository, record), records))
    assert read_log_record(repository, LOG) in records


def test_a_bucket_that_is_not_there_is_named_without_secrets(bucket: str) -> None:
    with pytest.raises(Exception) as caught:
        Repository.open("s3://no-such-bucket/x")
    assert isinstance(caught.value, RepositoryError)
    with pytest.raises(Exception) as caught:
        Repository.create("s3://no-such-bucket/x").write("part", b"")
    assert "no-such-bucket" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_database_is_backed_up_into_a_store_and_what_changed_since(
    repository: Repository, tmp_path: Path
) -> None:
    path = tmp_path / "db"
    found = []
    for statements in (
        ["CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'one')"],
        ["INSERT INTO t VALUES (2, 'two')"],
        ["INSERT INTO t VALUES (3, 'three')", "CHECKPOINT"],
    ):
        with herdpy.connect(str(path), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)
        found.append(make_backup(directory_order(path, "default"), repository))
    assert [one.parent for one in found] == [None, found[0].id, found[1].id]
    for number, manifest in enumerate(found, 1):
        with herdpy.connect(str(put_together(repository, manifest, tmp_path / str(number)))) as connection:
            assert connection.execute("SELECT count(*) FROM t").fetchall() == [(number,)]


def test_a_repository_is_verified_and_expired(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small(monkeypatch)
    database = SmallDatabase(repository, LOG)
    for kind in ("full", "pages", "full"):
        database.write(load=True)
        database.back_up(kind)  # type: ignore[arg-type]
    later_us = database.us + 10 * DAY_US
    assert verify(repository, now_us=later_us).findings == []
    plan = expire(repository, Choice(KeepPolicy(last=1)), now_us=later_us)
    assert len(plan.backups) == 2
    assert len(database.check_all()) == 1
    assert verify(repository, now_us=later_us).findings == []
    assert len({name.split("/")[3] for name in repository.sizes(f"logs/{LOG}/backups")}) == 1
    (pack, *_rest) = [name for name in repository.sizes() if "/pages-" in name]
    repository.delete(pack)
    assert [(one.file, one.kind) for one in verify(repository, now_us=later_us).problems] == [
        (pack, "missing")
    ]

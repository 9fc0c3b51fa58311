"""Small databases of random bytes, whose backups are made as real ones are: images, the log, rows of loads.

A ``SmallDatabase`` has an image that changes, and a log whose entries go on; ``back_up`` makes a backup of
any kind. What each backup has to give is known, so a repository can be damaged or expired, and judged.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from google_crc32c import value as crc32c

from herdpy.backup import archive, pages
from herdpy.backup.archive import ArchiveWriter, read_entries, read_staged
from herdpy.backup.manifest import (
    BackupManifest,
    Image,
    Kind,
    LogRecord,
    TableCount,
    backup_directory,
    needed_by,
    new_backup_id,
    read_catalog,
    write_log_record,
    write_manifest,
)
from herdpy.backup.pages import PageWriter, packs_of, read_map, read_pack, remove_indexes, write_map
from herdpy.backup.repository import Repository
from herdpy.log.entry import START_CRC, LogEntry, LoggedTransaction, decode_entry, encode_entry, encode_part
from herdpy.log.lsn import LSN, START
from herdpy.log.records import LoadBatch, LoadOp, Record, SequenceAdvance, StagedPart
from herdpy_server.backup.log_part import continuous_end

PAGE = 64
DAY_US = 86_400_000_000
BEGIN_US = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp()) * 1_000_000


def make_small(patch: pytest.MonkeyPatch) -> None:
    """Let packs, maps and segments have a few hundred bytes."""
    patch.setattr(pages, "PACK_BYTES", 5 * PAGE)
    patch.setattr(pages, "_INDEX_EVERY", 2)
    patch.setattr(pages, "_MAP_PAGES", 50)
    patch.setattr(archive, "SEGMENT_BYTES", 600)
    patch.setattr(archive, "_STAGED_BYTES", 100)


@dataclass
class SmallDatabase:
    """One of random bytes.

    Attributes:
        us: its clock.
        images: of each backup with an image of its own, by id.
        manifests: of all backups that were made, by id.
    """

    repository: Repository
    log_id: str
    tablespace: str = "default"
    seed: int = 0
    us: int = BEGIN_US
    entries: list[LogEntry] = field(default_factory=list)
    staged: dict[int, bytes] = field(default_factory=dict)
    images: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, BackupManifest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(f"{self.log_id}/{self.seed}")
        self.image = bytearray(self.chance.randbytes(PAGE * 40))
        self._ledger, self._next = 1, 0
        self._archived = START
        self._parts: dict[int, StagedPart] = {}
        write_log_record(self.repository, LogRecord(self.tablespace, self.log_id, self.us))

    @property
    def lsn(self) -> LSN:
        return self.entries[-1].lsn if self.entries else START

    @property
    def crc(self) -> int:
        return self.entries[-1].header.crc if self.entries else START_CRC

    def write(self, count: int = 6, *, load: bool = False) -> None:
        """So many entries; another ledger begins now and then. A load names a staged ledger."""
        for number in range(count):
            records: list[Record] = [SequenceAdvance(1, self.chance.randbytes(8))] * 5
            if load and not number:
                records = [LoadBatch(7, LoadOp.INSERT, -1, (self._stage(),))]
            data = bytes(LoggedTransaction(self.us, records).encode())
            if self._next and self.chance.random() < 0.1:
                self._ledger, self._next = self._ledger + self.chance.randrange(1, 4), 0
            lsn = LSN(self._ledger, self._next)
            encoded, _crc = encode_entry(lsn, self.lsn, self.crc, self._next - 1, [encode_part(data)])
            self.entries.append(decode_entry(encoded))
            self._next += 1
        for _ in range(3):
            self.image[self.chance.randrange(len(self.image))] ^= 255

    def _stage(self) -> StagedPart:
        self._ledger, self._next = self._ledger + 2, 0
        data = self.chance.randbytes(250)
        part = StagedPart(self._ledger - 1, 0, len(data), crc32c(data), 3)
        self.staged[part.ledger_id] = data
        self._parts[part.ledger_id] = part
        return part

    def archive(self) -> None:
        """Everything that is not archived yet."""
        writer = ArchiveWriter(self.repository, self.log_id, self._archived)
        for ledger_id, part in self._parts.items():
            writer.add_staged(part, [self.staged[ledger_id]])
        self._parts = {}
        for entry in self.entries:
            if entry.lsn > self._archived:
                writer.add(entry)
        self._archived = writer.flush()

    def back_up(self, kind: Kind, after_us: int = DAY_US, *, archive: bool = True) -> BackupManifest:
        """After so much time; the parent is the newest backup."""
        self.us += after_us
        moment = datetime.fromtimestamp(self.us / 1e6, UTC)
        name = new_backup_id(moment)
        parent = max(self.manifests.values(), key=lambda one: one.id, default=None)
        if parent is None:
            kind = "full"
        if kind == "log":
            assert parent is not None
            image, sources = parent.image, parent.sources
        else:
            image, sources = self._image(name, None if kind == "full" else parent)
        if archive:
            self.archive()
        manifest = BackupManifest(
            id=name,
            tablespace=self.tablespace,
            log_id=self.log_id,
            kind=kind,
            parent=parent.id if parent and kind != "full" else None,
            image=image,
            sources=sources,
            end=str(self._archived),
            end_time_us=self.us,
            created_us=self.us,
            finished_us=self.us + 60_000_000,
            tables=(TableCount("public", "t", 3), TableCount("a b", "t", 4)),
            raw_bytes=1000,
            stored_bytes=500,
        )
        write_manifest(self.repository, manifest)
        remove_indexes(self.repository, self.log_id, name)
        self.manifests[name] = manifest
        return manifest

    def _image(self, name: str, parent: BackupManifest | None) -> tuple[Image, tuple[str, ...]]:
        known = None
        if parent is not None:
            known = read_map(self.repository, self.log_id, parent.image.backup, parent.image.maps)
        writer = PageWriter(self.repository, self.log_id, name, PAGE, known)
        writer.feed(bytes(self.image))
        made = writer.finish(name)
        parts, _size = write_map(self.repository, backup_directory(self.log_id, name), made)
        self.images[name] = bytes(self.image)
        image = Image(name, str(self.lsn), self.crc, "store", PAGE, len(made), parts)
        return image, tuple(sorted({name, *made.used_sources()}))

    def break_off(self, after_us: int = DAY_US) -> str:
        """A backup that ends before its manifest; its id."""
        self.us += after_us
        name = new_backup_id(datetime.fromtimestamp(self.us / 1e6, UTC))
        writer = PageWriter(self.repository, self.log_id, name, PAGE)
        writer.feed(self.chance.randbytes(PAGE * 12))
        writer.abandon()
        return name

    # What a backup has to give.

    def check(self, manifest: BackupManifest) -> None:
        """Restore a backup, and all of the archive after its image."""
        image = manifest.image
        found = bytearray(image.pages * PAGE)
        made = read_map(self.repository, self.log_id, image.backup, image.maps)
        for use in packs_of(made, self.log_id):
            for first, data in read_pack(self.repository, made, use, PAGE):
                found[first * PAGE : first * PAGE + len(data)] = data
        assert found == self.images[image.backup]
        after = manifest.image_lsn
        assert continuous_end(self.repository, self.log_id, after) >= manifest.end_lsn
        expected = [one for one in self.entries if one.lsn > after]
        entries = list(read_entries(self.repository, self.log_id, after, image.crc, manifest.end_lsn))
        assert entries == expected[: len(entries)]
        for entry in entries:
            for part in entry.parts:
                for record in LoggedTransaction.decode(part.data).records:
                    if isinstance(record, LoadBatch):
                        rows = b"".join(read_staged(self.repository, self.log_id, record.parts[0]))
                        assert rows == self.staged[record.parts[0].ledger_id]

    def check_all(self) -> list[str]:
        """Every backup that the repository has; their ids."""
        there = [one for one in read_catalog(self.repository).backups if one.log_id == self.log_id]
        for one in there:
            assert one == self.manifests[one.id]
            self.check(one)
        assert needed_by(there) <= {(self.log_id, one) for one in self.manifests}
        return [one.id for one in there]


def small_history(
    repository: Repository, log_id: str, seed: int, tablespace: str = "default"
) -> SmallDatabase:
    """Two weeks of backups: a full one every five days, others between."""
    made = SmallDatabase(repository, log_id, tablespace, seed)
    for day in range(14):
        made.write(made.chance.randrange(3, 9), load=made.chance.random() < 0.4)
        if made.chance.random() < 0.5:
            made.archive()
            made.write(3)
        if day in (3, 9):
            made.break_off(3600_000_000)
        kind: Kind = "full" if day % 5 == 0 else made.chance.choice(["pages", "log"])
        made.back_up(kind)
    made.write(4)
    made.archive()
    return made

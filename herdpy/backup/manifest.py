"""What a backup says of itself, and which backups a repository has.

Above ``repository``; below whoever makes, lists, verifies, expires or restores backups. A manifest is a part,
so it is checked and may be encrypted; a directory without one is a backup that is being made or was broken
off. A backup has an image of the store (its own, or that of an earlier backup) and the archived log from
there to its end, so any position from the image's to the end, and beyond it as far as the archive goes, can
be restored.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar

import msgspec

from herdpy.backup.errors import DamagedPartError
from herdpy.backup.repository import Repository
from herdpy.log.lsn import LSN

FORMAT: Final = 1
MANIFEST: Final = "manifest"
EXPIRED: Final = "expired"
"""A file in the directory of a backup that is gone, whose pages others need."""
REMOVING: Final = "removing-"
"""How a file in a directory begins that says: all of it is being removed. The id of that run follows."""
THINNING: Final = "thinning-"
"""The same, of a directory whose pages stay: its manifest and its map are being removed."""
MARKS: Final = (REMOVING, THINNING)
Kind = Literal["full", "pages", "log"]
"""``full``: an image of its own; ``pages``: an image whose unchanged pages are those of earlier backups;
``log``: the image of an earlier backup, and the log since."""

_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")


class Image(msgspec.Struct, frozen=True):
    """An image of a store: the pages of LMDB's file, in one state.

    Attributes:
        backup: the id of the backup whose map (``pages.PageMap``) names the pages.
        lsn: the position of the state: the log goes on after it.
        crc: running CRC of the entry there; None if it was not known.
        store_uuid: of the store.
        page_bytes, pages: size of a page, and how many there are.
        maps: how many parts the map has.
        time_us: by the clock of who made it, just before the state was taken; 0: not known.
    """

    backup: str
    lsn: str
    crc: int | None
    store_uuid: str
    page_bytes: int
    pages: int
    maps: int
    time_us: int = 0


class TableCount(msgspec.Struct, frozen=True):
    """A table, as of the image."""

    schema: str
    name: str
    rows: int


class BackupManifest(msgspec.Struct, frozen=True):
    """A backup.

    Attributes:
        id: sorts by the time when it began.
        tablespace, log_id: whose it is, and which log its positions are of.
        kind: see ``Kind``.
        parent: the id of the backup that an incremental one continues.
        image: where a restore begins.
        sources: ids of all directories of this log's backups whose pages the image has: they must stay.
        end: up to which position the log was archived when it was made, at least ``image.lsn``.
        end_time_us: commit time of the last transaction up to ``end``; 0 when there is none after the image.
        created_us, finished_us: microseconds since 1970-01-01 UTC.
        tables: as of the image.
        raw_bytes: of the pages and the log that it added, before compression.
        stored_bytes: of the files that it added.
        settings: of the tablespace: options as ALTER TABLESPACE has them, in a cluster.
        files: small files beside the store (roles of a server alone), by their names.
        node: which server made it; empty for a directory.
        herdpy: the version that made it.
    """

    id: str
    tablespace: str
    log_id: str
    kind: Kind
    parent: str | None
    image: Image
    sources: tuple[str, ...]
    end: str
    end_time_us: int
    created_us: int
    finished_us: int
    tables: tuple[TableCount, ...]
    raw_bytes: int
    stored_bytes: int
    settings: dict[str, Any] = {}
    files: dict[str, bytes] = {}
    node: str = ""
    herdpy: str = ""
    format: int = FORMAT

    @property
    def image_lsn(self) -> LSN:
        """The position of the image."""
        return LSN.parse(self.image.lsn)

    @property
    def end_lsn(self) -> LSN:
        """The position up to which the log was archived."""
        return LSN.parse(self.end)


class LogRecord(msgspec.Struct, frozen=True):
    """A log in a repository: a timeline.

    Attributes:
        parent, branched: the log that this one's database was restored from, and the position; None: none.
    """

    tablespace: str
    log_id: str
    created_us: int
    parent: str | None = None
    branched: str | None = None
    format: int = FORMAT


class ClusterMember(msgspec.Struct, frozen=True):
    """A tablespace's backup within a cluster's."""

    tablespace: str
    log_id: str
    backup: str


class ClusterManifest(msgspec.Struct, frozen=True):
    """Backups of all tablespaces of a cluster, made by one command."""

    id: str
    created_us: int
    members: tuple[ClusterMember, ...]
    herdpy: str = ""
    format: int = FORMAT


def new_backup_id(now: datetime | None = None) -> str:
    """An id that sorts after those of earlier microseconds."""
    moment = now or datetime.now(UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}-{moment.microsecond:05x}{secrets.randbelow(16):x}"


def is_backup_id(text: str) -> bool:
    """Whether ``new_backup_id`` may have made it."""
    return _ID.fullmatch(text) is not None


def begun_us(backup_id: str) -> int:
    """When a backup with this id began, in microseconds since 1970-01-01 UTC. ValueError: it is no id."""
    moment = datetime.strptime(backup_id[:16], "%Y%m%dT%H%M%SZ")
    return int(moment.replace(tzinfo=UTC).timestamp()) * 1_000_000


def needed_by(backups: Iterable[BackupManifest]) -> set[tuple[str, str]]:
    """Log and id of every directory that these backups need, their own too."""
    found = set()
    for one in backups:
        found |= {(one.log_id, backup) for backup in (one.id, one.image.backup, *one.sources)}
    return found


def log_directory(log_id: str) -> str:
    """A log's directory in a repository."""
    return f"logs/{log_id}"


def backup_directory(log_id: str, backup_id: str) -> str:
    """A backup's directory in a repository."""
    return f"{log_directory(log_id)}/backups/{backup_id}"


def write_manifest(repository: Repository, manifest: BackupManifest) -> None:
    """The last step of a backup. PlaceError."""
    name = f"{backup_directory(manifest.log_id, manifest.id)}/{MANIFEST}"
    repository.write(name, msgspec.json.encode(manifest))


def remove_backup_manifest(repository: Repository, log_id: str, backup_id: str) -> None:
    """There is no such backup any more; files of its directory are left. PlaceError."""
    repository.delete(f"{backup_directory(log_id, backup_id)}/{MANIFEST}")


def stays(repository: Repository, manifest: BackupManifest) -> bool:
    """Whether everything that a backup needs of others is there, and nobody is removing it.

    Whoever makes a backup looks right after it has written the manifest, and removes the manifest again when
    this is False. Whoever removes backups says so in their directories first, and reads all manifests
    after that: one of the two sees the other. PlaceError.
    """
    for log_id, backup in needed_by([manifest]) - {(manifest.log_id, manifest.id)}:
        names = {name.rpartition("/")[2] for name in repository.sizes(backup_directory(log_id, backup))}
        is_image = backup == manifest.image.backup
        if not names or any(name.startswith(MARKS if is_image else REMOVING) for name in names):
            return False
        if is_image and not {f"map-{at}" for at in range(manifest.image.maps)} <= names:
            return False
    return True


def read_manifest(repository: Repository, log_id: str, backup_id: str) -> BackupManifest:
    """A backup's manifest. DamagedPartError: it is gone, damaged or another's; PlaceError."""
    name = f"{backup_directory(log_id, backup_id)}/{MANIFEST}"
    manifest = _decoded(repository, name, BackupManifest, lambda found: found.format)
    if (manifest.log_id, manifest.id) != (log_id, backup_id):
        raise DamagedPartError(name, f"it is of backup {manifest.id} of log {manifest.log_id}", "misplaced")
    return manifest


def write_cluster(repository: Repository, manifest: ClusterManifest) -> None:
    """Record which backups belong together. PlaceError."""
    repository.write(f"clusters/{manifest.id}", msgspec.json.encode(manifest))


def read_cluster(repository: Repository, cluster_id: str) -> ClusterManifest:
    """DamagedPartError: it is gone or damaged; PlaceError."""
    return _decoded(repository, f"clusters/{cluster_id}", ClusterManifest, lambda found: found.format)


def write_log_record(repository: Repository, record: LogRecord) -> None:
    """Name a log, once; a second call for the same log changes nothing. PlaceError."""
    name = f"{log_directory(record.log_id)}/log"
    if not repository.place.exists(name):
        repository.place.put_new(name, repository.codec.encode(name, msgspec.json.encode(record)))


def read_log_record(repository: Repository, log_id: str) -> LogRecord:
    """DamagedPartError: it is gone or damaged; PlaceError."""
    return _decoded(repository, f"{log_directory(log_id)}/log", LogRecord, lambda found: found.format)


M = TypeVar("M")


def _decoded(repository: Repository, name: str, kind: type[M], format_of: Callable[[M], int]) -> M:
    try:
        found = msgspec.json.decode(repository.read(name), type=kind)
    except msgspec.MsgspecError as error:
        raise DamagedPartError(name, str(error)) from error
    if format_of(found) != FORMAT:
        raise DamagedPartError(name, f"its format is {format_of(found)}, not known here")
    return found


# What a repository has.


class BackupCatalog(msgspec.Struct, frozen=True):
    """Everything that a listing of a repository finds.

    Attributes:
        backups: complete ones, oldest first, of all logs.
        unfinished: (log id, backup id) of directories without a manifest: a backup is being made there, was
            broken off, or is gone while others need its pages.
        damaged: manifests and records that cannot be read.
        logs: by their ids.
        clusters: ids, oldest first.
    """

    backups: list[BackupManifest]
    unfinished: list[tuple[str, str]]
    damaged: list[DamagedPartError]
    logs: dict[str, LogRecord]
    clusters: list[str]


def read_catalog(repository: Repository, files: Mapping[str, int] | None = None) -> BackupCatalog:
    """List a repository and read every manifest. PlaceError.

    Args:
        files: what ``repository.sizes()`` gave, where it is known.
    """
    logs: set[str] = set()
    directories: set[tuple[str, str]] = set()
    complete: set[tuple[str, str]] = set()
    clusters = []
    for name in repository.sizes() if files is None else files:
        match name.split("/"):
            case ["clusters", cluster]:
                clusters.append(cluster)
            case ["logs", log, *rest]:
                logs.add(log)
                if len(rest) == 3 and rest[0] == "backups" and is_backup_id(rest[1]):
                    directories.add((log, rest[1]))
                    if rest[2] == MANIFEST:
                        complete.add((log, rest[1]))
    catalog = BackupCatalog([], sorted(directories - complete), [], {}, sorted(clusters))
    for log in sorted(logs):
        try:
            catalog.logs[log] = read_log_record(repository, log)
        except DamagedPartError as error:
            catalog.damaged.append(error)
    for log, backup in sorted(complete, key=lambda one: (one[1], one[0])):
        try:
            catalog.backups.append(read_manifest(repository, log, backup))
        except DamagedPartError as error:
            catalog.damaged.append(error)
    return catalog

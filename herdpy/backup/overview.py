"""What a repository has, for people: logs, how far their archives go, and what each backup is needed by.

Above ``expiry``; below the command line and servers. Names of files and the manifests say most of it; of each
log the last segment is read for the time up to which the archive goes.
"""

from __future__ import annotations

import msgspec

from herdpy.backup.archive import LogSegment, archive_end_of, entries_directory, reached, segment_of
from herdpy.backup.errors import DamagedPartError
from herdpy.backup.expiry import RepositoryState, has_ended
from herdpy.backup.manifest import BackupManifest, LogRecord, backup_directory, log_directory, needed_by
from herdpy.backup.repository import Repository


class ListedBackup(msgspec.Struct, frozen=True):
    """A backup.

    Attributes:
        needed_by: ids of other backups that need its directory.
        archived: up to which position the log is archived from its image on.
        stored_bytes: of all files in its directory now.
    """

    manifest: BackupManifest
    needed_by: tuple[str, ...]
    archived: str
    stored_bytes: int


class ListedLog(msgspec.Struct, frozen=True):
    """A log.

    Attributes:
        record: None: it is gone or damaged.
        backups: how many there are.
        end: up to which position entries are archived; None: none are.
        end_time_us: commit time of the last transaction there; 0: not known.
        is_continuous: whether the archive goes from every image there is to its end; by names, ``herdpy
            backups verify`` reads it.
        archive_bytes: of segments and of staged rows.
    """

    log_id: str
    record: LogRecord | None
    backups: int
    end: str | None
    end_time_us: int
    is_continuous: bool
    archive_bytes: int


class ListedDirectory(msgspec.Struct, frozen=True):
    """A directory without a manifest.

    Attributes:
        is_expired: its backup is gone; otherwise one is being made there, or was broken off.
        needed_by: ids of backups that have pages of it.
    """

    log_id: str
    backup: str
    is_expired: bool
    needed_by: tuple[str, ...]
    stored_bytes: int


class Overview(msgspec.Struct, frozen=True):
    """Everything; backups and directories oldest first."""

    backups: list[ListedBackup]
    unfinished: list[ListedDirectory]
    logs: list[ListedLog]


def overview(repository: Repository, state: RepositoryState) -> Overview:
    """From what ``expiry.read_state`` found. PlaceError."""
    catalog = state.catalog
    ids = sorted({*catalog.logs, *(one.log_id for one in catalog.backups), *_logs(state)})
    segments = {log: _segments(state, log) for log in ids}
    users: dict[tuple[str, str], list[str]] = {}
    for one in catalog.backups:
        for name in needed_by([one]) - {(one.log_id, one.id)}:
            users.setdefault(name, []).append(one.id)
    backups = [
        ListedBackup(
            one,
            tuple(users.get((one.log_id, one.id), ())),
            str(reached(segments[one.log_id], one.image_lsn)),
            _bytes_in(state, backup_directory(one.log_id, one.id)),
        )
        for one in catalog.backups
    ]
    unfinished = [_directory(state, name, users) for name in catalog.unfinished]
    return Overview(backups, unfinished, [_log(repository, state, one, segments[one]) for one in ids])


def _logs(state: RepositoryState) -> set[str]:
    return {name.split("/")[1] for name in state.files if name.startswith("logs/")}


def _segments(state: RepositoryState, log: str) -> list[LogSegment]:
    directory = entries_directory(log) + "/"
    found = [segment_of(name, size) for name, size in state.files.items() if name.startswith(directory)]
    return sorted(one for one in found if one is not None)


def _bytes_in(state: RepositoryState, directory: str) -> int:
    return sum(size for name, size in state.files.items() if name.startswith(directory + "/"))


def _directory(
    state: RepositoryState, name: tuple[str, str], users: dict[tuple[str, str], list[str]]
) -> ListedDirectory:
    directory = backup_directory(*name)
    names = [one.rpartition("/")[2] for one in state.files if one.startswith(directory + "/")]
    return ListedDirectory(*name, has_ended(names), tuple(users.get(name, ())), _bytes_in(state, directory))


def _log(repository: Repository, state: RepositoryState, log: str, found: list[LogSegment]) -> ListedLog:
    end = max((one.end for one in found), default=None)
    mine = [one for one in state.catalog.backups if one.log_id == log]
    ends = {reached(found, one.image_lsn) for one in mine}
    archive = [entries_directory(log), f"{log_directory(log)}/staged"]
    return ListedLog(
        log_id=log,
        record=state.catalog.logs.get(log),
        backups=len(mine),
        end=None if end is None else str(end),
        end_time_us=0 if end is None else _time(repository, log),
        is_continuous=all(end is None or one >= end for one in ends),
        archive_bytes=sum(_bytes_in(state, one) for one in archive),
    )


def _time(repository: Repository, log: str) -> int:
    try:
        return archive_end_of(repository, log)[1]
    except DamagedPartError:
        return 0

"""Makes a database in a directory of a backup and the archived log: image, log, checks, then its marker.

The roof of restores into directories; ``targets`` has found what is meant. Everything happens in
``DIR/restore`` until it is whole::

    DIR/restore/LOCK        held by the process that restores
    DIR/restore/STATE       which backup it is and up to where, and whether the image is whole; JSON
    DIR/restore/store/      the image, then the store as the log is applied to it; the journal of packs

A restore that was broken off goes on there if it is of the same backup and target; otherwise it begins anew.
The database gets a log of its own, which begins after the restored position, so nothing that it archives can
be taken for a part of its parent's history.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from herdpy.backup.archive import read_entries
from herdpy.backup.errors import BackupError, DamagedPartError
from herdpy.backup.manifest import BackupManifest
from herdpy.backup.repository import Repository
from herdpy.log.files import replace_file, sync_directory
from herdpy.log.lsn import LSN
from herdpy_server.backup.applying import AppliedLog, apply_entries
from herdpy_server.backup.fetching import fetch_image
from herdpy_server.backup.targets import RestorePlan
from herdpy_server.backup.timeline import Restored, read_restored
from herdpy_server.backup.verifying import LoggedSums, RestoredWrongError, verify_store
from herdpy_server.roles.role import file_of
from herdpy_server.store import Store, StoreDamagedError, probe
from herdpy_server.store.spilling import SpillSettings
from herdpy_server.tablespace.directory import OF_THE_FILE_SYSTEM, RESTORED, Directory, check_room, seed
from herdpy_sql.errors import SqlError

SCRATCH = "restore"
USERS = "users.json"
_STATE = "STATE"
_SPILL_BYTES = 64 << 20
_CACHE_BYTES = 1 << 20

RestoreProgress = Callable[[str, int, int | None], object]
"""Called with what is being done (``image``, ``log`` or ``check``), bytes done, and bytes in all if known."""


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """How a restore is run.

    Attributes:
        jobs: threads that read packs.
        indexes: see ``verify_store``.
        progress: see ``RestoreProgress``.
    """

    jobs: int = 4
    indexes: bool = False
    progress: RestoreProgress = lambda _what, _done, _total: None


@dataclass(slots=True)
class RestoreReport:
    """What a restore came to.

    Attributes:
        log_id: of the database's own log.
        parent, lsn, transactions: from which log it was restored, up to where, and how many transactions of
            that entry count (None: all).
        time_us: commit time of the last transaction after the image; 0: there was none.
        backup: the id of the one that it began with.
        image_bytes, resumed_bytes: size of the image; what of it an earlier run had brought.
        entries, log_bytes: of the log that was applied by this run.
        tables, rows: in the database.
        compared: positions where the log says what the tables were, and they were that.
        notes: what went otherwise than planned.
        target: where it was to stop, as ``StopPosition`` says it.
        files: small files beside the store.
        settings: of the tablespace, as the backup has them.
    """

    directory: Path
    log_id: str
    parent: str
    lsn: LSN
    backup: str
    transactions: int | None = None
    time_us: int = 0
    image_bytes: int = 0
    resumed_bytes: int = 0
    entries: int = 0
    log_bytes: int = 0
    tables: int = 0
    rows: int = 0
    compared: list[LSN] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    target: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


class _State(msgspec.Struct, frozen=True):
    """What ``STATE`` says."""

    repository: str
    log_id: str
    backup: str
    stop: str
    applying: bool = False
    format: int = 1


def set_aside(directory: Path) -> Path | None:
    """Rename what is in the way of a restore; where it is now, or None: nothing was.

    Raises:
        SqlError: 55006, another process has the database there open.
        OSError: it cannot be renamed.
    """
    if not directory.exists() or _is_free(directory):
        return None
    aside = directory.with_name(f"{directory.name}.before-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    while aside.exists():
        aside = aside.with_name(f"{aside.name}-{secrets.token_hex(2)}")
    with _unused(directory):
        directory.rename(aside)
    sync_directory(directory.parent)
    return aside


@contextlib.contextmanager
def _unused(directory: Path) -> Iterator[None]:
    """Nobody opens what is in a directory meanwhile. SqlError 55006: somebody has it open."""
    try:
        descriptor = os.open(directory / "LOCK", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise SqlError("55006", f"another process has {directory} open", hint="End it first.") from None
    finally:
        os.close(descriptor)


def _is_free(directory: Path) -> bool:
    """Whether nothing is there but what a restore has left."""
    if Directory(directory).exists():
        return (directory / SCRATCH).exists()
    left = {SCRATCH, "LOCK", "log", "store", "HERDPY.new", RESTORED, USERS}
    return (
        not set(os.listdir(directory))
        - (left if (directory / SCRATCH).exists() else set())
        - set(OF_THE_FILE_SYSTEM)
    )


def restore(
    repository: Repository, plan: RestorePlan, directory: Path, options: RestoreOptions
) -> RestoreReport:
    """Make the database in ``directory``, which is empty, new, or has an unfinished restore.

    Raises:
        SqlError: 55000, something else is in the directory.
        DamagedPartError, MissingLogError: the repository lacks something, and no other backup replaces it.
        BackupError: the restored state is not what it must be; another restore goes on there now.
        PlaceError, OSError: the repository cannot be read, or the directory not be written.
    """
    scratch = directory / SCRATCH
    if Directory(directory).exists() and scratch.exists():
        return _finished(directory, scratch)
    check_room(directory, frozenset({SCRATCH, RESTORED, USERS}))
    with restored_store(repository, plan, scratch, options) as (report, store):
        seed(
            directory,
            store / "data.mdb",
            report.lsn,
            log_id=report.log_id,
            files={RESTORED: restored_as(repository, report).encode(), **report.files},
            checked=True,
        )
    return report


@contextlib.contextmanager
def restored_store(
    repository: Repository, plan: RestorePlan, scratch: Path, options: RestoreOptions
) -> Iterator[tuple[RestoreReport, Path]]:
    """A store that is whole and closed, in directory ``scratch``, which goes when the block ends well.

    Raises: as ``restore``.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with _locked(scratch):
        report = _Restore(repository, plan, scratch, options).run()
        yield report, scratch / "store"
        shutil.rmtree(scratch)


def restored_as(repository: Repository, report: RestoreReport) -> Restored:
    """What the file ``RESTORED`` says of it."""
    return Restored(
        report.log_id,
        report.parent,
        str(report.lsn),
        report.transactions,
        repository.id,
        report.backup,
        time.time_ns() // 1000,
        report.target,
    )


def _finished(directory: Path, scratch: Path) -> RestoreReport:
    """An earlier run made the database, and was ended before it had removed what it did not need any more."""
    found = read_restored(directory)
    if found is None:
        check_room(directory)  # refuses: the database there is no restored one
    assert found is not None
    shutil.rmtree(scratch)
    lsn = LSN.parse(found.branched)
    return RestoreReport(directory, found.log_id, found.parent, lsn, found.backup, found.transactions)


@contextlib.contextmanager
def _locked(scratch: Path) -> Iterator[None]:
    descriptor = os.open(scratch / "LOCK", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(f"another process restores into {scratch.parent}") from None
        yield
    finally:
        os.close(descriptor)


class _Restore:
    def __init__(
        self, repository: Repository, plan: RestorePlan, scratch: Path, options: RestoreOptions
    ) -> None:
        self._repository = repository
        self._plan = plan
        self._options = options
        self._scratch = scratch
        self._store = self._scratch / "store"
        self._notes = list(plan.notes)
        self._resumed = 0

    def run(self) -> RestoreReport:
        try:
            manifest = self._image()
            report = self._logged(manifest)
            self._options.progress("check", 0, None)
            verify_store(self._store, indexes=self._options.indexes)
        except lmdb.Error as error:
            raise BackupError(f"{self._store} cannot be written: {error}") from error
        return report

    # The image.

    def _image(self) -> BackupManifest:
        """See to it that the image of the best candidate is whole; older ones stand in for damaged ones."""
        failure: DamagedPartError | None = None
        found = self._read_state()
        begun = {one.id for one in self._plan.candidates if found in self._states(one)}
        # What an earlier run has begun with comes first: it had its reason.
        for manifest in sorted(self._plan.candidates, key=lambda one: one.id not in begun):
            if failure is not None:
                self._notes.append(f"{failure}; an older backup is restored instead, {manifest.id}")
            try:
                self._fetch(manifest)
            except DamagedPartError as error:
                failure = error
            else:
                return manifest
        assert failure is not None
        raise failure

    def _states(self, manifest: BackupManifest) -> tuple[_State, _State]:
        sought = self._state(manifest)
        return sought, _with_image(sought)

    def _state(self, manifest: BackupManifest) -> _State:
        plan = self._plan
        return _State(self._repository.id, plan.log.log_id, manifest.image.backup, str(plan.stop))

    def _fetch(self, manifest: BackupManifest) -> None:
        sought = self._state(manifest)
        found = self._read_state()
        if found == _with_image(sought):
            self._resumed = manifest.image.pages * manifest.image.page_bytes
            return
        if found != sought:
            for left in (self._store, self._scratch / _STATE):
                shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
            self._store.mkdir()
            self._write_state(sought)
        progress = self._options.progress
        self._resumed = fetch_image(
            self._repository,
            manifest,
            self._store / "data.mdb",
            jobs=self._options.jobs,
            progress=lambda done, total: progress("image", done, total),
        )
        (self._store / probe.CLOSED).touch()  # every page was compared with its hash
        self._write_state(_with_image(sought))

    def _read_state(self) -> _State | None:
        try:
            return msgspec.json.decode((self._scratch / _STATE).read_bytes(), type=_State)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def _write_state(self, state: _State) -> None:
        replace_file(self._scratch / _STATE, msgspec.json.encode(state))
        sync_directory(self._scratch)

    # The log.

    def _logged(self, manifest: BackupManifest) -> RestoreReport:
        """Apply the log to the image."""
        try:
            store = Store.open(self._store, column_cache_bytes=_CACHE_BYTES)
        except StoreDamagedError as error:
            (self._scratch / _STATE).unlink()  # the next run fetches the image anew
            raise RestoredWrongError(
                f"the image of backup {manifest.id} is no store: {error}",
                hint="The same command begins anew; --backup names another one.",
            ) from error
        store.spilling = SpillSettings.of(self._scratch / "spill", _SPILL_BYTES)
        sums = LoggedSums(store)
        try:
            if store.uuid != manifest.image.store_uuid or store.durable < manifest.image_lsn:
                raise RestoredWrongError(
                    f"the image of backup {manifest.id} is of store {store.uuid} at {store.durable}, "
                    f"not of {manifest.image.store_uuid} at {manifest.image_lsn}"
                )
            sums.attach()
            applied = self._apply(store, manifest)
            rows, files = store.table_checksums(), _files(manifest, store)
        finally:
            sums.close()
            store.close()
        return RestoreReport(
            self._scratch.parent,
            secrets.token_hex(16),
            self._plan.log.log_id,
            applied.lsn,
            manifest.id,
            transactions=self._plan.stop.take,
            target=str(self._plan.stop),
            time_us=applied.time_us or self._plan.time_us,
            image_bytes=manifest.image.pages * manifest.image.page_bytes,
            resumed_bytes=self._resumed,
            entries=applied.entries,
            log_bytes=applied.raw_bytes,
            tables=len(rows),
            rows=sum(count for count, _checksum in rows.values()),
            compared=sums.compared,
            files=files,
            settings=manifest.settings,
            notes=self._notes,
        )

    def _apply(self, store: Store, manifest: BackupManifest) -> AppliedLog:
        plan, progress = self._plan, self._options.progress
        total = sum(one.size_bytes for one in plan.segments) or None
        upto = None if plan.stop.open_end else plan.stop.lsn
        entries = read_entries(
            self._repository, plan.log.log_id, manifest.image_lsn, manifest.image.crc, upto
        )
        with contextlib.closing(entries):
            return apply_entries(
                store,
                self._repository,
                plan.log.log_id,
                entries,
                plan.stop,
                lambda applied: progress("log", applied.raw_bytes, total),
            )


def _files(manifest: BackupManifest, store: Store) -> dict[str, bytes]:
    """The roles, as a server that is alone keeps them; a cluster has them in its state."""
    if USERS in manifest.files:
        return {USERS: manifest.files[USERS]}
    return {} if store.catalog.roles is None else {USERS: file_of(store.catalog.roles.values())}


def _with_image(state: _State) -> _State:
    """The same, with its image whole."""
    return msgspec.structs.replace(state, applying=True)


__all__ = ["RestoreOptions", "RestoreReport", "restore", "restored_as", "restored_store", "set_aside"]

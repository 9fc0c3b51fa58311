"""One backup: an image or what changed since another one, the log from there on, and the manifest, last.

Above ``image`` and ``log_part``; ``child`` and the command line call it. It needs the store's directory and
the log's address, and no server. Nothing is locked: several backups of one tablespace may be made at once.
What a backup that was broken off has written is found by its indexes, and is not written again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from herdpy._version import __version__
from herdpy.backup.archive import segments
from herdpy.backup.errors import BackupError, DamagedPartError
from herdpy.backup.expiry import LEFTOVERS_UNTIL_S
from herdpy.backup.manifest import (
    MANIFEST,
    BackupManifest,
    Image,
    Kind,
    LogRecord,
    TableCount,
    backup_directory,
    begun_us,
    is_backup_id,
    log_directory,
    new_backup_id,
    read_manifest,
    remove_backup_manifest,
    stays,
    write_log_record,
    write_manifest,
)
from herdpy.backup.pages import (
    PageMap,
    PageWriter,
    RateLimit,
    read_map,
    remove_indexes,
    with_leftovers,
    write_map,
)
from herdpy.backup.repository import Repository
from herdpy.log import LSN, START, LogTrimmedError
from herdpy.log.detached import LogAddress, LogLedgers
from herdpy_server.backup import image as images
from herdpy_server.backup.beside import small_files
from herdpy_server.backup.directory_log import opened_log
from herdpy_server.backup.log_part import ArchivedLog, archive, continuous_end, crc_at
from herdpy_server.backup.messages import Scope
from herdpy_server.backup.timeline import timeline_of
from herdpy_server.tablespace import Directory

_TRIES = 10
_LOOKED_BACK = 30
_LOG_SHARE = 0.25
"""An increment is the log alone while the log since the image is no larger than that share of the image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOrder:
    """What is to be backed up, and how.

    Attributes:
        store: the directory of LMDB's environment.
        log: where the log is; its ``log_id`` may be empty.
        scope: a ``full`` one, an ``increment`` to the newest one of this log, or ``any``: an increment
            where there is one to continue.
        least: everything up to there is to be in it; what the log says is confirmed is in it anyway.
        parent, branched: of the log, if its database was restored from a position of another.
        jobs: how many parts are compressed and written at a time.
        rate_bytes: written in a second at most; 0: no limit.
        settings, files, node: see ``BackupManifest``.
    """

    store: Path
    log: LogAddress
    tablespace: str
    scope: Scope = "any"
    least: LSN = START
    parent: str | None = None
    branched: str | None = None
    jobs: int = 2
    rate_bytes: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    node: str = ""


@dataclass(frozen=True, slots=True)
class BackupProgress:
    """How far a backup is: bytes of the image that were read, of how many, and bytes that were written."""

    read_bytes: int
    total_bytes: int
    stored_bytes: int


Report = Callable[[BackupProgress], object]
Note = Callable[[str], object]
"""Called with what a person should know, though the backup goes on."""


def make_backup(
    order: BackupOrder,
    repository: Repository,
    report: Report = lambda _progress: None,
    note: Note = lambda _text: None,
) -> BackupManifest:
    """Make a backup; when this returns it is there, and everything that was committed before is in it.

    Raises:
        StoreDamagedError: the store cannot be read.
        LogError: the log cannot be read.
        BackupError: the repository is damaged, or the log is trimmed faster than it can be copied.
        PlaceError: the place of the repository refused something.
        SqlError: 53200, 53400: the machine does not allow the store to be opened now.
    """
    with opened_log(order.log) as (log, least):
        log_id = log.state().log_id
        write_log_record(
            repository,
            LogRecord(order.tablespace, log_id, _now_us(), order.parent, order.branched),
        )
        made = _Making(order, repository, log, max(least, order.least), log_id, report, note)
        manifest = made.run()
    remove_indexes(repository, log_id, manifest.id)
    return manifest


def nothing_to_continue() -> BackupError:
    """The error for an increment to nothing."""
    return BackupError("the repository has no backup of this log to continue", hint="Make a full one first.")


@dataclass(frozen=True, slots=True)
class BackupPlan:
    """What a backup would be, as far as is known before: the log may turn out to be too large after all.

    Attributes:
        kind, parent: see ``BackupManifest``.
        read_bytes: of the store.
    """

    kind: Kind
    parent: str | None
    read_bytes: int


def plan_backup(order: BackupOrder, repository: Repository, note: Note = lambda _text: None) -> BackupPlan:
    """What :func:`make_backup` would make; nothing is written. Raises as that."""
    with opened_log(order.log) as (log, least):
        made = _Making(order, repository, log, least, log.state().log_id, lambda _progress: None, note)
        return made.plan()


@dataclass(frozen=True, slots=True)
class _Earlier:
    """What a repository has of a log: ids of complete backups and of others, oldest first."""

    complete: list[str]
    unfinished: list[str]


def _earlier(repository: Repository, log_id: str) -> _Earlier:
    complete, found = set(), set()
    for name in repository.sizes(f"{log_directory(log_id)}/backups"):
        backup, _, file = name.partition("/backups/")[2].partition("/")
        found.add(backup)
        if file == MANIFEST:
            complete.add(backup)
    return _Earlier(sorted(complete), sorted(found - complete))


class _Making:
    """One backup while it is made."""

    def __init__(
        self,
        order: BackupOrder,
        repository: Repository,
        log: LogLedgers,
        least: LSN,
        log_id: str,
        report: Report,
        note: Note,
    ) -> None:
        self._order, self._repository, self._log = order, repository, log
        self._least, self._log_id = least, log_id
        self._report, self._note = report, note
        self._limit = RateLimit(order.rate_bytes)
        self._began_us = _now_us()
        self._read = self._raw = self._stored = 0

    def plan(self) -> BackupPlan:
        """What :meth:`run` would make."""
        before = self._before(_earlier(self._repository, self._log_id))
        kind: Kind = "full" if before is None else "pages"
        with contextlib.suppress(DamagedPartError):
            if before is not None and self._may_be_enough(before):
                kind = "log"
        with images.opened(self._order.store) as image:
            size = image.state.size_bytes
        return BackupPlan(kind, None if before is None else before.id, 0 if kind == "log" else size)

    def _before(self, earlier: _Earlier) -> BackupManifest | None:
        """The backup to continue; None: it is to be a full one. BackupError: there is none."""
        before = None if self._order.scope == "full" else self._newest(earlier)
        if before is None and self._order.scope == "increment":
            raise nothing_to_continue()
        return before

    def run(self) -> BackupManifest:
        """The backup; its manifest is written."""
        earlier = _earlier(self._repository, self._log_id)
        before = self._before(earlier)
        manifest = None if before is None else self._log_alone(before)
        manifest = manifest or self._with_image(earlier, before)
        write_manifest(self._repository, manifest)
        if not stays(self._repository, manifest):
            remove_backup_manifest(self._repository, self._log_id, manifest.id)
            raise BackupError(
                "earlier backups that this one needs were expired meanwhile",
                hint="The same command makes one that does not need them.",
            )
        return manifest

    def _newest(self, earlier: _Earlier) -> BackupManifest | None:
        """The newest backup that can be continued."""
        for backup in reversed(earlier.complete):
            try:
                return read_manifest(self._repository, self._log_id, backup)
            except DamagedPartError as error:
                self._note(f"warning: {error}")
        return None

    # The log alone.

    def _log_alone(self, before: BackupManifest) -> BackupManifest | None:
        """The log since another backup; None when it is not there, or is not small beside the image."""
        try:
            if not self._may_be_enough(before):
                return None
            found = self._archived(before.image_lsn)
        except DamagedPartError as error:
            self._note(f"warning: {error}")
            return None
        except LogTrimmedError:
            return None
        if found.end < before.end_lsn or self._share(before) > _LOG_SHARE:
            return None
        image, sources = before.image, before.sources
        return self._manifest(new_backup_id(), "log", before, image, sources, before.tables, found)

    def _may_be_enough(self, before: BackupManifest) -> bool:
        """Whether the log since the image may be there, and small: ledgers that are closed are counted."""
        state = self._log.state()
        end = continuous_end(self._repository, self._log_id, before.image_lsn)
        coming = sum(one.length for one in state.ledgers if one.closed and one.last > end)
        return max(end, before.end_lsn) >= state.base and self._share(before, coming) <= _LOG_SHARE

    def _share(self, before: BackupManifest, coming: int = 0) -> float:
        """How large the log since the image is beside the image, both compressed; ``coming`` is not yet."""
        archived = sum(
            one.size_bytes
            for one in segments(self._repository, self._log_id)
            if LSN(one.ledger_id, one.last) > before.image_lsn
        )
        squeezed = self._squeezed(before)
        return (archived + coming * squeezed) / (before.image.page_bytes * before.image.pages * squeezed)

    def _squeezed(self, before: BackupManifest) -> float:
        """What part compression leaves of pages, as the backup with the image has it."""
        made = before
        if made.image.backup != made.id:
            made = read_manifest(self._repository, self._log_id, made.image.backup)
        return min(max(made.stored_bytes / made.raw_bytes, 0.05), 1.0) if made.raw_bytes else 0.5

    def _archived(self, after: LSN) -> ArchivedLog:
        """Archive the log from there on; raises as ``archive``."""
        total, stored = self._read, self._stored

        def progress(_raw: int) -> None:
            self._report(BackupProgress(total, total, stored))

        found = archive(
            self._repository,
            self._log_id,
            self._log,
            after,
            least=self._least,
            limit=self._limit,
            progress=progress,
        )
        self._raw += found.raw_bytes
        self._stored += found.stored_bytes
        return found

    # With an image.

    def _with_image(self, earlier: _Earlier, before: BackupManifest | None) -> BackupManifest:
        known: PageMap | None = None
        for _ in range(_TRIES):
            backup, taken_us = new_backup_id(), _now_us()
            with images.opened(self._order.store) as image:
                state = image.state
                known = self._known(earlier, before, state.store_uuid) if known is None else known
                known = self._written(backup, image, known)
            maps, size = write_map(self._repository, self._directory(backup), known)
            self._stored += size
            try:
                found = self._archived(state.lsn)
            except LogTrimmedError:
                self._note("The log was trimmed while the image was copied: taking a newer image.")
                continue
            crc = crc_at(self._repository, self._log_id, self._log, state.lsn, found.end)
            made = Image(
                backup, str(state.lsn), crc, state.store_uuid, state.page_bytes, state.pages, maps, taken_us
            )
            sources = tuple(sorted({*known.used_sources(), backup}))
            kind: Kind = "full" if before is None else "pages"
            return self._manifest(backup, kind, before, made, sources, state.tables, found)
        raise BackupError(
            "the log is trimmed faster than the store can be copied",
            hint="Let the database keep more of its log, and make fewer checkpoints meanwhile.",
        )

    def _directory(self, backup: str) -> str:
        return backup_directory(self._log_id, backup)

    def _written(self, backup: str, image: images.StoreImage, known: PageMap) -> PageMap:
        """Write what is not known of an image; where each page of it is."""
        total = image.state.size_bytes

        def progress(read: int, _written: int) -> None:
            self._report(BackupProgress(read, total, self._stored + writer.stored_bytes))

        writer = PageWriter(
            self._repository,
            self._log_id,
            backup,
            image.state.page_bytes,
            known,
            jobs=self._order.jobs,
            limit=self._limit,
            progress=progress,
        )
        try:
            for chunk in image.chunks():
                writer.feed(chunk)
            pages = writer.finish(backup)
            self._limit.spend(0)  # wait for what the last parts have taken of the rate
        except BaseException:
            writer.abandon()
            raise
        self._read = total
        self._raw += writer.new_bytes
        self._stored += writer.stored_bytes
        return pages

    def _known(self, earlier: _Earlier, before: BackupManifest | None, store_uuid: str) -> PageMap:
        """The pages that need not be written again: those of a backup of this store, and of runs that were
        broken off since.
        """
        known, since = PageMap(), ""
        like = None if before is None else self._like(earlier, before, store_uuid)
        if like is not None:
            try:
                known = read_map(self._repository, self._log_id, like.image.backup, like.image.maps)
                since = like.image.backup
            except DamagedPartError as error:
                self._note(f"warning: {error}")
        least_us = self._began_us - LEFTOVERS_UNTIL_S * 1_000_000  # what is older may be removed meanwhile
        for backup in earlier.unfinished:
            if backup > since and is_backup_id(backup) and begun_us(backup) > least_us:
                try:
                    known = with_leftovers(self._repository, self._log_id, known, backup)
                except DamagedPartError as error:
                    self._note(f"warning: {error}")
        return known

    def _like(self, earlier: _Earlier, before: BackupManifest, store_uuid: str) -> BackupManifest:
        """The newest backup whose image is of the same store: another replica has other pages."""
        at = before
        for backup in reversed(earlier.complete[-_LOOKED_BACK:]):
            if at.image.store_uuid == store_uuid:
                return at
            with contextlib.suppress(DamagedPartError):
                at = read_manifest(self._repository, self._log_id, backup)
        return at if at.image.store_uuid == store_uuid else before

    # Both.

    def _manifest(
        self,
        backup: str,
        kind: Kind,
        before: BackupManifest | None,
        image: Image,
        sources: tuple[str, ...],
        tables: tuple[TableCount, ...],
        log: ArchivedLog,
    ) -> BackupManifest:
        order = self._order
        return BackupManifest(
            id=backup,
            tablespace=order.tablespace,
            log_id=self._log_id,
            kind=kind,
            parent=None if before is None else before.id,
            image=image,
            sources=sources,
            end=str(log.end),
            end_time_us=log.end_time_us,
            created_us=self._began_us,
            finished_us=_now_us(),
            tables=tables,
            raw_bytes=self._raw,
            stored_bytes=self._stored,
            settings=order.settings,
            files=order.files,
            node=order.node,
            herdpy=__version__,
        )


def _now_us() -> int:
    return time.time_ns() // 1000


# A database in a directory.


def directory_order(
    path: Path, tablespace: str, *, scope: Scope = "any", jobs: int = 2, rate_bytes: int = 0
) -> BackupOrder:
    """The order for the database in directory ``path``."""
    directory = Directory(path)
    parent, branched = timeline_of(path)
    return BackupOrder(
        store=directory.store,
        log=LogAddress(tablespace, directory=str(directory.log)),
        tablespace=tablespace,
        scope=scope,
        jobs=jobs,
        rate_bytes=rate_bytes,
        parent=parent,
        branched=branched,
        files=small_files(path),
    )

"""Verification: every file of a repository is read, and compared with what needs it.

Above all other modules of ``backup``; below the command line. How data passes through: the listing and the
manifests say what there must be; threads read every file, and reduce packs to the hashes of their pages and
segments to running CRCs (``chains``); these are compared with the maps of images and with one another. Each
fault is a ``RepositoryFinding`` with the file's name, and checking goes on.

What nothing needs (``stray``), and what a backup that was broken off has left (``unfinished``), are findings,
but no problems.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Literal, TypeVar

import msgspec
import numpy as np
from xxhash import xxh3_128_digest

from herdpy.backup.archive import (
    LogSegment,
    entries_directory,
    read_staged,
    segment_of,
    staged_of,
)
from herdpy.backup.chains import ChainWalk, SegmentSummary, summary_of
from herdpy.backup.errors import BackupError, DamagedPartError
from herdpy.backup.expiry import RepositoryState, has_ended, is_running, read_state
from herdpy.backup.manifest import (
    EXPIRED,
    MANIFEST,
    MARKS,
    BackupManifest,
    Image,
    backup_directory,
    is_backup_id,
    log_directory,
    needed_by,
)
from herdpy.backup.pages import PackUse, PageMap, packs_of, read_map
from herdpy.backup.repository import IDENTITY, Repository
from herdpy.backup.staged_parts import StagedPartsInOrder
from herdpy.log.lsn import LSN
from herdpy.log.records import StagedPart

Kind = Literal["missing", "damaged", "foreign", "misplaced", "gap", "stray", "unfinished"]
Report = Callable[[int, int], object]
"""Called with bytes of files that are read, and of how many."""

_TRIES: Final = 3
_HASH_BYTES = 16
_Array = Any
T = TypeVar("T")
R = TypeVar("R")


class RepositoryFinding(msgspec.Struct, frozen=True):
    """Something that is not as it should be.

    Attributes:
        file: its name in the repository.
        kind: as ``errors.Fault``; or ``gap``: entries of the log are missing before this file, or after all
            files of that directory; ``stray``: nothing needs it; ``unfinished``: of a backup or a removal
            that is under way, or was broken off.
        text: for people.
        is_problem: whether a backup cannot be restored, or not to every position since.
    """

    file: str
    kind: Kind
    text: str
    is_problem: bool


class Verification(msgspec.Struct):
    """What was found.

    Attributes:
        backups: how many were checked.
        files, read_bytes: that were read.
        findings: problems first.
    """

    backups: int
    files: int
    read_bytes: int
    findings: list[RepositoryFinding]

    @property
    def problems(self) -> list[RepositoryFinding]:
        """The findings that are problems."""
        return [one for one in self.findings if one.is_problem]


def verify(
    repository: Repository,
    backup: str | None = None,
    *,
    jobs: int = 4,
    now_us: int | None = None,
    report: Report = lambda _done, _total: None,
) -> Verification:
    """Read a repository, or all that one backup needs.

    Args:
        backup: its id; None: everything that is there.
        jobs: how many files are read at a time.

    Raises:
        BackupError: there is no such backup.
        PlaceError: the repository cannot be read.
    """
    moment_us = time.time_ns() // 1000 if now_us is None else now_us
    for left in reversed(range(_TRIES)):
        state = read_state(repository)
        found = _verify(repository, state, backup, jobs, moment_us, report)
        if not left or not any(one.kind == "missing" for one in found.problems):
            break
        there = read_state(repository).catalog.backups
        if {(one.log_id, one.id) for one in state.catalog.backups} <= {(one.log_id, one.id) for one in there}:
            break  # nobody has removed backups meanwhile
    return found


def _verify(
    repository: Repository,
    state: RepositoryState,
    backup: str | None,
    jobs: int,
    now_us: int,
    report: Report,
) -> Verification:
    chosen = [one for one in state.catalog.backups if backup in (None, one.id)]
    damaged = [one for one in state.catalog.damaged if backup is None or f"/{backup}/" in one.file]
    if backup is not None and not chosen and not damaged:
        raise BackupError(f"there is no backup {backup}", hint="herdpy backups list shows what there is.")
    with ThreadPoolExecutor(jobs, thread_name_prefix="herdpy-verify") as threads:
        run = _Run(repository, state, threads, jobs, report)
        for one in damaged:
            run.damage(one)
        _Images(run).check(chosen)
        logs = {*(one.log_id for one in chosen), *(_logs_of(state) if backup is None else ())}
        for log in sorted(logs):
            _Log(run, log, chosen, everything=backup is None).check()
        if backup is None:
            _check_clusters(run)
            _check_rest(run, now_us)
    run.findings.sort(key=lambda one: (not one.is_problem, one.file))
    return Verification(len(chosen), len(run.read_names), run.read_bytes, run.findings)


def _logs_of(state: RepositoryState) -> set[str]:
    """Ids of all logs that have files."""
    return {name.split("/")[1] for name in state.files if name.startswith("logs/")}


class _Run:
    """What the steps share. Findings and counts are for the main thread alone."""

    def __init__(
        self,
        repository: Repository,
        state: RepositoryState,
        threads: ThreadPoolExecutor,
        jobs: int,
        report: Report,
    ) -> None:
        self.repository = repository
        self.state = state
        self.findings: list[RepositoryFinding] = []
        self.read_names: set[str] = set()
        self.read_bytes = 0
        self._threads = threads
        self._window = jobs * 2
        self._report = report
        self._total = sum(state.files.values())
        for name in state.files:
            match name.split("/"):
                case ["clusters", _] | ["logs", _, "log"]:
                    self.was_read(name)  # with the listing
                case ["logs", _, "backups", backup, "manifest"] if is_backup_id(backup):
                    self.was_read(name)
        self.was_read(IDENTITY)

    def found(self, file: str, kind: Kind, text: str, *, is_problem: bool = True) -> None:
        """Once for a file and a text."""
        finding = RepositoryFinding(file, kind, text, is_problem)
        if finding not in self.findings:
            self.findings.append(finding)

    def damage(self, error: DamagedPartError) -> None:
        self.found(error.file, error.fault, error.reason)

    def was_read(self, name: str) -> None:
        if name not in self.read_names:
            self.read_names.add(name)
            self.read_bytes += self.state.files.get(name, 0)
            self._report(min(self.read_bytes, self._total), self._total)

    def each(
        self, work: Callable[[T], R], items: Iterable[T], name_of: Callable[[T], str]
    ) -> Iterator[tuple[T, R | DamagedPartError]]:
        """Results in order, a few worked on at a time."""
        coming: list[tuple[T, Future[R]]] = []
        left = iter(items)
        try:
            while True:
                for item in left:
                    coming.append((item, self._threads.submit(work, item)))
                    if len(coming) >= self._window:
                        break
                if not coming:
                    return
                item, future = coming.pop(0)
                try:
                    result: R | DamagedPartError = future.result()
                except DamagedPartError as error:
                    result = error
                self.was_read(name_of(item))
                yield item, result
        finally:
            for _item, future in coming:
                future.cancel()


# Images.


class _Images:
    """Compares the packs with the maps: each pack is read once, whatever number of images has pages of it."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._packs: dict[str, _Array | None] = {}  # the hashes of its pages; None: it cannot be read

    def check(self, chosen: list[BackupManifest]) -> None:
        checked: set[tuple[str, str]] = set()
        for one in chosen:
            key = (one.log_id, one.image.backup)
            if key not in checked:
                checked.add(key)
                self._check_image(one, one.image)

    def _check_image(self, backup: BackupManifest, image: Image) -> None:
        run = self._run
        directory = backup_directory(backup.log_id, image.backup)
        try:
            pages = read_map(run.repository, backup.log_id, image.backup, image.maps)
            for number in range(image.maps):
                run.was_read(f"{directory}/map-{number}")
            uses = packs_of(pages, backup.log_id)
        except DamagedPartError as error:
            run.damage(error)
            return
        except ValueError as error:
            run.found(f"{directory}/map-0", "damaged", str(error))
            return
        manifest = f"{backup_directory(backup.log_id, backup.id)}/{MANIFEST}"
        if len(pages) != image.pages:
            run.found(manifest, "damaged", f"it says {image.pages} pages, and the map has {len(pages)}")
        if not set(pages.used_sources()) <= {*backup.sources, backup.id}:
            run.found(manifest, "damaged", "it does not name all backups whose pages its image has")
        self._read(uses, image.page_bytes)
        for use in uses:
            self._compare(image.backup, pages, use)

    def _read(self, uses: list[PackUse], page_bytes: int) -> None:
        def hashes(use: PackUse) -> _Array:
            contents = memoryview(self._run.repository.read(use.name))
            found = [
                xxh3_128_digest(contents[at : at + page_bytes]) for at in range(0, len(contents), page_bytes)
            ]
            return np.frombuffer(b"".join(found), np.uint8).reshape(-1, _HASH_BYTES)

        new = [use for use in uses if use.name not in self._packs]
        for use, result in self._run.each(hashes, new, lambda use: use.name):
            if isinstance(result, DamagedPartError):
                self._run.damage(result)
                self._packs[use.name] = None
            else:
                self._packs[use.name] = result

    def _compare(self, image: str, pages: PageMap, use: PackUse) -> None:
        there = self._packs[use.name]
        if there is None:
            return
        inside = use.slots < len(there)
        same = np.zeros(len(use.slots), bool)
        same[inside] = (there[use.slots[inside]] == pages.hashes[use.pages[inside]]).all(axis=1)
        if not same.all():
            page = int(use.pages[np.flatnonzero(~same)[0]])
            self._run.found(use.name, "damaged", f"page {page} is not in it as the map of {image} says")


# Logs.


class _ChangedError(Exception):
    """A segment that was listed is there no more: small ones were made one large one, or it was removed."""


class _Log:
    """One log: its segments, the rows that they name, and what backups need of both."""

    def __init__(self, run: _Run, log: str, chosen: list[BackupManifest], *, everything: bool) -> None:
        self._run = run
        self._log = log
        self._backups = [one for one in chosen if one.log_id == log]
        self._everything = everything
        self._named: set[int] = set()  # staged ledgers of entries before every image
        self._floor = min((one.image_lsn for one in self._backups), default=None)

    def check(self) -> None:
        files: Collection[str] = self._run.state.files
        for left in reversed(range(_TRIES)):
            segments = self._segments(files)
            try:
                walk, faults, parts = self._walk(segments)
                break
            except _ChangedError:
                if not left:
                    raise BackupError("the repository changes faster than it can be read") from None
                files = self._run.repository.sizes(entries_directory(self._log))
        for file, fault in faults:
            self._run.found(file, "damaged", fault) if isinstance(fault, str) else self._run.damage(fault)
        self._check_backups(walk)
        if self._everything:
            self._check_gaps(walk, segments)
        self._check_staged(parts)

    def _segments(self, files: Iterable[str]) -> list[LogSegment]:
        directory = entries_directory(self._log) + "/"
        found = [segment_of(name) for name in files if name.startswith(directory)]
        there = sorted(one for one in found if one is not None)
        if self._everything or self._floor is None:
            return there
        end = max(one.end_lsn for one in self._backups)
        return [one for one in there if one.end > self._floor and LSN(one.ledger_id, one.first) <= end]

    def _name(self, segment: LogSegment) -> str:
        return f"{entries_directory(self._log)}/{segment.name}"

    def _walk(
        self, segments: list[LogSegment]
    ) -> tuple[ChainWalk, list[tuple[str, str | DamagedPartError]], dict[int, StagedPart]]:
        """Read all: what there is, what is wrong with files, and the staged rows that are needed."""

        def read(segment: LogSegment) -> SegmentSummary:
            name = self._name(segment)
            return summary_of(name, segment, self._run.repository.read(name))

        walk = ChainWalk(noted={one.image_lsn for one in self._backups})
        names, parts = StagedPartsInOrder(), dict[int, StagedPart]()
        faults: list[tuple[str, str | DamagedPartError]] = []
        for segment, result in self._run.each(read, segments, self._name):
            name = self._name(segment)
            if isinstance(result, DamagedPartError):
                if result.fault == "missing":
                    raise _ChangedError
                faults.append((name, result))
            elif (reason := walk.feed(result)) is not None:
                faults.append((name, reason))
            else:
                if walk.has_gap_before(segment):
                    names.gap()
                for entry in result.loads:
                    found = names.of(entry)
                    if self._floor is not None and entry.lsn > self._floor:
                        parts |= {one.ledger_id: one for one in found}
                    else:
                        self._named |= {one.ledger_id for one in found}
        return walk, faults, parts

    def _check_backups(self, walk: ChainWalk) -> None:
        for one in self._backups:
            manifest = f"{backup_directory(one.log_id, one.id)}/{MANIFEST}"
            end = walk.covers(one.image_lsn, one.end_lsn)
            if end < one.end_lsn:
                text = f"backup {one.id} needs the log up to {one.end}, and after {end} it is not there"
                self._run.found(self._after(end), "gap", text)
            crc = walk.crcs.get(one.image_lsn)
            if None not in (crc, one.image.crc) and crc != one.image.crc:
                text = f"the log at {one.image.lsn} is of another history than the image"
                self._run.found(manifest, "damaged", text)

    def _after(self, lsn: LSN) -> str:
        """The first segment after a position, or the directory of all."""
        later = [one for one in self._segments(self._run.state.files) if one.end > lsn]
        return self._name(min(later)) if later else entries_directory(self._log)

    def _check_gaps(self, walk: ChainWalk, segments: list[LogSegment]) -> None:
        """Between stretches: no problem where a backup ended, and nothing was archived until another."""
        ends = {one.end_lsn for one in self._backups}
        images = [one.image_lsn for one in self._backups]
        for before, after in zip(walk.stretches, walk.stretches[1:], strict=False):
            if self._floor is None or after.after <= self._floor:
                continue  # what was before every image is being removed
            is_problem = before.end not in ends or not any(one >= after.after for one in images)
            file = self._name(min(one for one in segments if one.end > after.after))
            if any((one.file, one.kind) == (file, "gap") for one in self._run.findings):
                continue
            text = f"the log after {before.end} up to {after.after} is not there"
            self._run.found(file, "gap", text, is_problem=is_problem)

    def _check_staged(self, parts: dict[int, StagedPart]) -> None:
        run = self._run

        def read(part: StagedPart) -> int:
            return sum(map(len, read_staged(run.repository, self._log, part)))

        prefix = f"{log_directory(self._log)}/staged/"
        files: dict[int, list[str]] = {}
        for name in run.state.files:
            if name.startswith(prefix) and (ledger_id := staged_of(name)) is not None:
                files.setdefault(ledger_id, []).append(name)
        some = [parts[one] for one in sorted(parts)]
        for part, result in run.each(read, some, lambda one: f"{prefix}{one.ledger_id:020d}-{0:06d}"):
            for name in files.get(part.ledger_id, ()):
                run.was_read(name)
            if isinstance(result, DamagedPartError):
                run.damage(result)
        if self._everything:
            others = sorted((name, one) for one, names in files.items() if one not in parts for name in names)
            _read_plain(run, [name for name, _ledger_id in others])
            for name, ledger_id in others:
                if ledger_id not in self._named:
                    run.found(name, "stray", "no load in the log names these rows", is_problem=False)


# What is left.


def _check_clusters(run: _Run) -> None:
    there = {(one.log_id, one.id) for one in run.state.catalog.backups}
    for cluster in run.state.clusters:
        for one in cluster.members:
            if (one.log_id, one.backup) not in there:
                text = f"backup {one.backup} of tablespace {one.tablespace} is not there"
                run.found(f"clusters/{cluster.id}", "missing", text)


def _read_plain(run: _Run, names: Iterable[str]) -> None:
    """Read files that nothing is compared with. One that is gone by now is no fault."""
    for _name, result in run.each(run.repository.read, names, lambda name: name):
        if isinstance(result, DamagedPartError) and result.fault != "missing":
            run.damage(result)


def _check_rest(run: _Run, now_us: int) -> None:
    """Files that no backup needs."""
    files = run.state.files
    directories: dict[tuple[str, str], list[str]] = {}
    plain = []
    for name in sorted(set(files) - run.read_names):
        match name.split("/"):
            case ["logs", log, "backups", backup, file] if is_backup_id(backup) and _belongs(file):
                directories.setdefault((log, backup), []).append(file)
                plain.append(name)
            case _:
                run.found(name, "stray", "it is no file of a repository", is_problem=False)
    _read_plain(run, plain)
    needed = needed_by(run.state.catalog.backups)
    complete = {(one.log_id, one.id) for one in run.state.catalog.backups}
    damaged = {tuple(one.file.split("/")[1:4:2]) for one in run.state.catalog.damaged}
    for key, names in directories.items():
        directory = backup_directory(*key)
        if key in complete:
            for file in names:
                if file.startswith(("pages-", "map-")):
                    run.found(f"{directory}/{file}", "stray", "its backup does not need it", is_problem=False)
        elif key not in needed and key not in damaged:
            run.found(directory, "unfinished", _unfinished(key[1], names, now_us), is_problem=False)


def _belongs(file: str) -> bool:
    """Whether a file may be in a backup's directory."""
    kind, _dash, number = file.partition("-")
    return (
        file == EXPIRED or file.startswith(MARKS) or (kind in ("pages", "map", "index") and number.isdigit())
    )


def _unfinished(backup: str, names: list[str], now_us: int) -> str:
    if has_ended(names):
        return "its removal is not finished: herdpy backups expire goes on with it"
    if is_running(backup, names, now_us):
        return "a backup is being made, or was broken off: the next one goes on with its pages"
    return "a backup was broken off: herdpy backups expire removes it"

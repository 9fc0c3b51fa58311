"""Expiry: backups that a policy does not keep go, with what nobody needs any more.

Above ``manifest`` and ``archive``; below the command line and servers' schedules. ``plan_expiry`` is pure:
from a listing, all manifests and a policy to what goes. ``expire`` carries it out, in an order that leaves a
repository without fault wherever it ends, and that the next run goes on with: records of what belongs
together, then manifests (``expired`` is left in their place), then pages, staged rows, segments of the log.

Nothing here locks. Before anything goes, each directory gets a file ``removing-<run>`` (``thinning-<run>``
where its pages stay); then manifests are read again. A backup that was made meanwhile is seen then, or its
maker sees that file (``manifest.stays``).

Of a log stay: the newest backup; every directory whose pages a backup that is kept has; what a backup that
is under way may build on; entries after the oldest image that is kept.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from herdpy.backup.archive import LogSegment, entries_directory, segment_entries, segment_of
from herdpy.backup.errors import BackupError, DamagedPartError
from herdpy.backup.manifest import (
    EXPIRED,
    MANIFEST,
    MARKS,
    REMOVING,
    THINNING,
    BackupCatalog,
    BackupManifest,
    ClusterManifest,
    backup_directory,
    begun_us,
    is_backup_id,
    log_directory,
    needed_by,
    new_backup_id,
    read_catalog,
    read_cluster,
)
from herdpy.backup.policy import KeepPolicy, kept
from herdpy.backup.repository import Repository
from herdpy.backup.staged_parts import StagedPartsInOrder

UNFINISHED_AFTER_S: Final = 2 * 86400
"""A directory without a manifest that began so long ago is no backup under way any more."""
LEFTOVERS_UNTIL_S: Final = 86400
"""Backups go on with what younger ones that were broken off have written: nobody removes that meanwhile."""
_SLACK_US = 600_000_000  # clocks of makers and removers differ
_STALE_US = 3_600_000_000  # a run that says so long that it removes something has ended
_THREADS = 8

BackupName = tuple[str, str]
"""A log's id and a backup's."""
Report = Callable[[int, int], object]
"""Called with files that are removed, and of how many."""


@dataclass(frozen=True, slots=True)
class RepositoryState:
    """What a plan is made of. Files are listed first: every directory is as old as its manifest, or older.

    Attributes:
        files: sizes by name.
        clusters: those that can be read.
    """

    files: Mapping[str, int]
    catalog: BackupCatalog
    clusters: list[ClusterManifest]


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to go.

    Attributes:
        policy: None: nothing but what is named.
        logs: whose backups are looked at; None: all.
        backups: ids that go whatever the policy says.
        log: a log that goes with all that it has; None: none.
    """

    policy: KeepPolicy | None
    logs: Collection[str] | None = None
    backups: Collection[str] = ()
    log: str | None = None


@dataclass(slots=True)
class ExpiryPlan:
    """What goes, in order.

    Attributes:
        kept: backups that stay.
        clusters: ids of records of which a backup goes.
        backups: whose manifests go, newest first.
        stripped: directories that others need the pages of: the rest of them goes.
        emptied: directories that go; some have no manifest.
        segments: of logs, oldest first, before every image that stays.
        files: of a log that goes, at the end.
        stale: what runs that have ended left in directories that stay.
        skipped: logs that are left as they are, and why.
        freed_bytes: of all files that go.
    """

    kept: list[BackupManifest] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    backups: list[BackupName] = field(default_factory=list)
    stripped: list[BackupName] = field(default_factory=list)
    emptied: list[BackupName] = field(default_factory=list)
    segments: list[tuple[str, LogSegment]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    freed_bytes: int = 0


def read_state(repository: Repository) -> RepositoryState:
    """What there is now. PlaceError."""
    files = repository.sizes()
    catalog = read_catalog(repository, files)
    clusters = []
    for one in catalog.clusters:
        try:
            clusters.append(read_cluster(repository, one))
        except DamagedPartError as error:
            catalog.damaged.append(error)
    return RepositoryState(files, catalog, clusters)


# The plan: pure.


def plan_expiry(
    state: RepositoryState, choice: Choice, now_us: int, may_go: Collection[BackupName] | None = None
) -> ExpiryPlan:
    """What goes. ValueError: a log or a backup is named that is not there, or cannot go now.

    Args:
        may_go: no other backups than these; None: all.
    """
    directories = _directories(state.files)
    _check_names(state, choice, directories, now_us)
    plan = ExpiryPlan()
    in_sets = _in_kept_sets(state.clusters, choice.policy)
    stays = _Staying(choice, in_sets, may_go)
    logs = sorted({log for log, _backup in directories} | {one.log_id for one in state.catalog.backups})
    for log in logs:
        mine = [one for one in state.catalog.backups if one.log_id == log]
        if choice.log == log:
            plan.backups += [(log, one.id) for one in mine]
            plan.emptied += [name for name in directories if name[0] == log]
        elif choice.logs is not None and log not in choice.logs:
            plan.kept += mine
        elif (damage := _damage(state.catalog, choice, log)) is not None:
            plan.skipped.append((log, damage))
            plan.kept += mine
        else:
            own = {backup: names for (of, backup), names in directories.items() if of == log}
            running = [backup for backup, names in own.items() if is_running(backup, names, now_us)]
            staying = stays.of(log, mine, running)
            plan.kept += staying
            _plan_directories(plan, log, own, staying, running, choice, now_us)
            if staying and not running:
                _plan_segments(plan, log, state.files, staying)
    staying_names = {(one.log_id, one.id) for one in plan.kept}
    plan.clusters = [
        one.id
        for one in state.clusters
        if any((it.log_id, it.backup) not in staying_names for it in one.members)
    ]
    plan.backups.sort(key=lambda name: name[1], reverse=True)
    _plan_dropped(plan, state.files, choice.log)
    going = {name for name in _all_files(plan, state) if not _is_mark(name.rpartition("/")[2])}
    plan.freed_bytes = sum(state.files.get(name, 0) for name in going)
    return plan


def _directories(files: Iterable[str]) -> dict[BackupName, list[str]]:
    """Names in the directory of each backup."""
    found: dict[BackupName, list[str]] = {}
    for name in files:
        match name.split("/"):
            case ["logs", log, "backups", backup, file] if is_backup_id(backup):
                found.setdefault((log, backup), []).append(file)
    return found


def _check_names(
    state: RepositoryState, choice: Choice, directories: Mapping[BackupName, list[str]], now_us: int
) -> None:
    ids = {backup for _log, backup in directories}
    if absent := sorted(set(choice.backups) - ids):
        raise ValueError(f"there is no backup {absent[0]}")
    if choice.log is None:
        return
    if not any(name.startswith(f"{log_directory(choice.log)}/") for name in state.files):
        raise ValueError(f"there is no log {choice.log}")
    for (log, backup), names in directories.items():
        if log == choice.log and is_running(backup, names, now_us):
            raise ValueError(f"backup {backup} of log {log} may be under way")


def _in_kept_sets(clusters: list[ClusterManifest], policy: KeepPolicy | None) -> set[BackupName]:
    """Backups of the sets that the policy keeps: of each cluster, which is known by the logs in its sets."""
    groups: list[tuple[set[str], list[ClusterManifest]]] = []
    for one in clusters:
        logs, members = {it.log_id for it in one.members}, [one]
        for other in [it for it in groups if it[0] & logs]:
            logs, members = logs | other[0], members + other[1]
            groups.remove(other)
        groups.append((logs, members))
    found: set[BackupName] = set()
    for _logs, members in groups if policy is not None else ():
        assert policy is not None
        ids = kept([(one.id, one.created_us) for one in members], policy)
        found |= {(it.log_id, it.backup) for one in members if one.id in ids for it in one.members}
    return found


def _damage(catalog: BackupCatalog, choice: Choice, log: str) -> str | None:
    """Why nothing of a log goes; None: no reason."""
    prefix = f"{log_directory(log)}/backups/"
    for one in catalog.damaged:
        if one.file.startswith(prefix) and (backup := one.file.split("/")[3]) not in choice.backups:
            return f"what backup {backup} needs is not known, its manifest is damaged: {one.reason}"
    return None


def _plan_directories(
    plan: ExpiryPlan,
    log: str,
    own: Mapping[str, list[str]],
    staying: list[BackupManifest],
    running: list[str],
    choice: Choice,
    now_us: int,
) -> None:
    needed = {backup for _log, backup in needed_by(staying)}
    ids = {one.id for one in staying}
    for backup, names in sorted(own.items()):
        if backup in needed:  # its own id is among what a backup needs
            marks = [one for one in names if _is_mark(one) and _is_stale(one, now_us)]
            plan.stale += [f"{backup_directory(log, backup)}/{one}" for one in marks]
        if backup in ids:
            continue
        if not has_ended(names) and (running or backup in needed) and backup not in choice.backups:
            continue
        if MANIFEST in names:
            plan.backups.append((log, backup))
        if backup not in needed:
            plan.emptied.append((log, backup))
        elif _stripped(names, backup, staying):
            plan.stripped.append((log, backup))


def _plan_segments(plan: ExpiryPlan, log: str, files: Iterable[str], staying: list[BackupManifest]) -> None:
    floor = min(one.image_lsn for one in staying)
    directory = entries_directory(log) + "/"
    found = sorted(
        one for name in files if name.startswith(directory) and (one := segment_of(name)) is not None
    )
    plan.segments += [(log, one) for one in found if one.end <= floor]


def has_ended(names: Collection[str]) -> bool:
    """Whether a directory is that of a backup that was whole, or is being removed."""
    return MANIFEST in names or EXPIRED in names or any(_is_mark(one) for one in names)


def is_running(backup: str, names: Collection[str], now_us: int) -> bool:
    """Whether a backup may be under way there."""
    return not has_ended(names) and now_us - begun_us(backup) < UNFINISHED_AFTER_S * 1_000_000


def _is_mark(name: str) -> bool:
    return name.startswith(MARKS)


def _is_stale(mark: str, now_us: int) -> bool:
    run = mark.partition("-")[2]
    return not is_backup_id(run) or now_us - begun_us(run) > _STALE_US


@dataclass(frozen=True, slots=True)
class _Staying:
    """Says which backups of a log are kept."""

    choice: Choice
    in_sets: set[BackupName]
    may_go: Collection[BackupName] | None

    def of(self, log: str, mine: list[BackupManifest], running: list[str]) -> list[BackupManifest]:
        """Of its backups these; ``running``: ids of those that may be under way."""
        others = [one for one in mine if one.id not in self.choice.backups or not self._may(log, one)]
        if self.choice.policy is None:
            return others
        ids = kept([(one.id, one.created_us) for one in others], self.choice.policy)
        newest = sorted(others, key=lambda one: (one.finished_us, one.id))
        ids |= {one.id for one in newest[-1:]}
        if running:
            began_us = min(map(begun_us, running)) - _SLACK_US
            before = [one for one in newest if one.finished_us < began_us]
            ids |= {one.id for one in [*before[-1:], *newest[len(before) :]]}
        return [
            one for one in others if one.id in ids or (log, one.id) in self.in_sets or not self._may(log, one)
        ]

    def _may(self, log: str, one: BackupManifest) -> bool:
        return self.may_go is None or (log, one.id) in self.may_go


def _stripped(names: Iterable[str], backup: str, staying: Iterable[BackupManifest]) -> list[str]:
    """What goes of a directory whose pages stay: its map too, unless a backup has this one's image."""
    is_image = any(one.image.backup == backup for one in staying)
    goes = ("index-",) if is_image else ("index-", "map-")
    return [name for name in names if name == MANIFEST or name.startswith(goes)]


def _plan_dropped(plan: ExpiryPlan, files: Iterable[str], log: str | None) -> None:
    """The rest of a log that goes: its record last."""
    if log is None:
        return
    record = f"{log_directory(log)}/log"
    own = [name for name in files if name.startswith(f"{log_directory(log)}/") and "/backups/" not in name]
    plan.files = sorted(own, key=lambda name: (name == record, "/staged/" not in name, name))


def _all_files(plan: ExpiryPlan, state: RepositoryState) -> Iterator[str]:
    """Every file that goes, but for staged rows, which segments name."""
    own = _directories(state.files)
    yield from (f"clusters/{one}" for one in plan.clusters)
    for name in plan.backups:
        yield f"{backup_directory(*name)}/{MANIFEST}"
    for name in plan.emptied:
        yield from (f"{backup_directory(*name)}/{file}" for file in own.get(name, ()))
    for name in plan.stripped:
        goes = _stripped(own.get(name, ()), name[1], plan.kept)
        yield from (f"{backup_directory(*name)}/{file}" for file in goes)
    yield from (f"{entries_directory(log)}/{one.name}" for log, one in plan.segments)
    yield from plan.files


# Carrying it out.


def expire(
    repository: Repository,
    choice: Choice,
    *,
    now_us: int | None = None,
    report: Report = lambda _done, _total: None,
) -> ExpiryPlan:
    """Remove what the choice does not keep; what was removed.

    Raises:
        BackupError: nothing is kept, or what is named is not there.
        PlaceError: the repository refuses something; another run goes on.
    """
    moment_us = time.time_ns() // 1000 if now_us is None else now_us
    plan = planned(repository, choice, moment_us)
    run = new_backup_id(datetime.fromtimestamp(moment_us / 1e6, UTC))
    marks = [f"{backup_directory(*name)}/{REMOVING}{run}" for name in plan.emptied]
    marks += [f"{backup_directory(*name)}/{THINNING}{run}" for name in plan.stripped]
    for one in marks:
        repository.write(one, b"")
    state = read_state(repository)
    agreed = plan_expiry(state, choice, moment_us, may_go=plan.backups)
    agreed.emptied = [one for one in agreed.emptied if one in plan.emptied]
    agreed.stripped = [one for one in agreed.stripped if one in (*plan.emptied, *plan.stripped)]
    agreed.segments = [one for one in agreed.segments if one in plan.segments]
    _carry_out(repository, agreed, state, report)
    for one in marks:
        repository.delete(one)
    return agreed


def planned(repository: Repository, choice: Choice, now_us: int | None = None) -> ExpiryPlan:
    """What :func:`expire` would remove now. Raises as it."""
    if choice.policy is not None and not choice.policy.keeps_any:
        raise BackupError("nothing says which backups to keep", hint="Keep at least the last: --keep-last 1.")
    try:
        moment_us = time.time_ns() // 1000 if now_us is None else now_us
        return plan_expiry(read_state(repository), choice, moment_us)
    except ValueError as error:
        raise BackupError(str(error), hint="herdpy backups list shows what there is.") from error


def _carry_out(repository: Repository, plan: ExpiryPlan, state: RepositoryState, report: Report) -> None:
    own = _directories(state.files)
    total = len(set(_all_files(plan, state)))
    done = 0

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="herdpy-expiry") as threads:

        def remove(names: Iterable[str]) -> None:
            nonlocal done
            for _ in threads.map(repository.delete, names):
                done += 1
                report(min(done, total), total)

        remove([f"clusters/{one}" for one in plan.clusters])
        for name in plan.backups:
            repository.write(f"{backup_directory(*name)}/{EXPIRED}", b"")
            remove([f"{backup_directory(*name)}/{MANIFEST}"])
        for name in plan.stripped:
            goes = _stripped(own.get(name, ()), name[1], plan.kept)
            remove([f"{backup_directory(*name)}/{file}" for file in goes])
        for name in plan.emptied:
            _empty(repository, name, own.get(name, ()), remove)
        remove(plan.stale)
        _remove_log(repository, plan, state, remove)


def _empty(
    repository: Repository, name: BackupName, files: Iterable[str], remove: Callable[[Iterable[str]], None]
) -> None:
    """Pages first; what says that the backup is gone last."""
    directory = backup_directory(*name)
    marks = [one for one in files if _is_mark(one)]
    remove([f"{directory}/{one}" for one in files if one not in {*marks, EXPIRED}])
    remove([f"{directory}/{one}" for one in marks])
    remove([f"{directory}/{EXPIRED}"])
    repository.clear(directory)


def _remove_log(
    repository: Repository,
    plan: ExpiryPlan,
    state: RepositoryState,
    remove: Callable[[Iterable[str]], None],
) -> None:
    """Segments, the rows that they name before them."""
    staged = sorted(name for name in state.files if "/staged/" in name)
    names: dict[str, StagedPartsInOrder] = {}
    for log, segment in plan.segments:
        if staged:
            mine = _staged_by(repository, log, segment, names.setdefault(log, StagedPartsInOrder()))
            starts = tuple(f"{log_directory(log)}/staged/{ledger_id:020d}-" for ledger_id in mine)
            remove([one for one in staged if one.startswith(starts)])
        remove([f"{entries_directory(log)}/{segment.name}"])
    for file in plan.files:
        remove([file])


def _staged_by(repository: Repository, log: str, segment: LogSegment, names: StagedPartsInOrder) -> set[int]:
    """Staged ledgers that transactions of a segment name."""
    found: set[int] = set()
    with contextlib.suppress(DamagedPartError):  # one that nobody can read goes as well
        for entry in segment_entries(repository, log, segment):
            if entry.header.predecessor > names.last:
                names.gap()
            found |= {one.ledger_id for one in names.of(entry)}
    return found

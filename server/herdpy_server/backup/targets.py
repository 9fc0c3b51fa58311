"""Where a restore stops, and which backup it begins with: found in a repository before anything is written.

Above ``herdpy.backup``; below ``restoring``. A target (the end, a position, a time, a commit) becomes a
``StopPosition`` in one log; the backups whose image is at or before it, and from whose image the archived log
leads there, are the plan's candidates, newest first. A time and a commit are found by reading the archived
log, of which only the heads of transactions are decoded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from herdpy.backup.archive import (
    LogSegment,
    chain,
    newest_commit_us,
    newest_of,
    reached,
    read_entries,
    segments,
)
from herdpy.backup.errors import BackupError, MissingLogError
from herdpy.backup.manifest import BackupCatalog, BackupManifest, LogRecord
from herdpy.backup.repository import Repository
from herdpy.log.entry import LogEntry, TransactionAssembler, transaction_head
from herdpy.log.lsn import LSN, START


class TargetError(BackupError):
    """A target that the repository does not lead to, or that may mean several things."""


@dataclass(frozen=True, slots=True)
class RestoreTarget:
    """What is to be restored; with nothing given, all that there is.

    Attributes:
        lsn: up to this entry, with it.
        time_us: all transactions up to the first that was committed later; since 1970-01-01 UTC.
        before: up to before this commit: a request id, or a position (``ledger:entry``).
    """

    lsn: LSN | None = None
    time_us: int | None = None
    before: str | None = None

    @property
    def before_lsn(self) -> LSN | None:
        """The position, where ``before`` is one."""
        try:
            return None if self.before is None else LSN.parse(self.before)
        except ValueError:
            return None

    def __str__(self) -> str:
        if self.lsn is not None:
            return f"position {self.lsn}"
        if self.time_us is not None:
            return f"time {moment(self.time_us)}"
        return "the end" if self.before is None else f"before commit {self.before}"


@dataclass(frozen=True, slots=True)
class StopPosition:
    """The last entry that counts, and how many of its transactions do (None: all).

    Attributes:
        open_end: the end of the archive was the target: what was archived since counts too.
    """

    lsn: LSN
    take: int | None = None
    open_end: bool = False

    def __str__(self) -> str:
        if self.open_end:
            return "end"
        return str(self.lsn) if self.take is None else f"{self.lsn}+{self.take}"


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What a restore will do.

    Attributes:
        log: whose history it is.
        stop: where it stops.
        time_us: of the last transaction up to there, as far as planning knows it; 0: it does not.
        candidates: backups to begin with, the best first.
        segments: of the archived log, after the first candidate's image, up to the stop.
        notes: what is worth saying: backups that are damaged.
    """

    log: LogRecord
    stop: StopPosition
    time_us: int
    candidates: tuple[BackupManifest, ...]
    segments: tuple[LogSegment, ...]
    notes: tuple[str, ...] = ()


def moment(time_us: int) -> str:
    """A time for people, in UTC."""
    found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)
    return found.isoformat(sep=" ", timespec="microseconds")


def parse_time(text: str) -> tuple[int, str]:
    """Microseconds since 1970-01-01 UTC of a time as ISO 8601 has it, and its zone as an offset.

    Without a zone it is of the machine's. ValueError: it is no time, or has a date alone.
    """
    if len(text) <= len("2026-01-02"):
        raise ValueError(f"{text!r} has no time of day")
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        found = found.astimezone()
    since = found - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1), found.isoformat(timespec="seconds")[-6:]


def make_plan(
    repository: Repository,
    catalog: BackupCatalog,
    target: RestoreTarget,
    *,
    tablespace: str = "",
    log_id: str = "",
    backup_id: str = "",
) -> RestorePlan:
    """Find the log, the backup and the position that are meant.

    Args:
        tablespace, log_id, backup_id: which one; empty: the only one that it can be.

    Raises:
        TargetError: there is none, or there are several, or the archive does not go that far.
        MissingLogError: the log cannot be read where a time or a commit is looked for.
        PlaceError: the repository cannot be read.
    """
    views = _views(repository, catalog, tablespace, log_id, backup_id)
    notes = tuple(f"{one.file}: {one.reason}" for one in catalog.damaged)
    if target == RestoreTarget():
        views = _leaves(views)
    if len(views) == 1:
        stop, time_us = views[0].find(target)
        return views[0].plan(stop, time_us, notes)
    found: list[tuple[_LogView, StopPosition, int]] = []
    refusals: list[BackupError] = []
    for view in views:
        try:
            found.append((view, *view.find(target)))
        except (TargetError, MissingLogError) as error:
            refusals.append(error)
    if not found:
        raise TargetError("; ".join(dict.fromkeys(map(str, refusals))), hint=refusals[0].hint)
    if len(found) > 1:
        raise _ambiguous([view for view, _stop, _time in found], f"{target} is in several logs")
    view, stop, time_us = found[0]
    return view.plan(stop, time_us, notes)


def _views(
    repository: Repository, catalog: BackupCatalog, tablespace: str, log_id: str, backup_id: str
) -> list[_LogView]:
    """The logs that can be meant, each with its backups."""
    backups = [
        one
        for one in catalog.backups
        if (not tablespace or one.tablespace == tablespace)
        and (not log_id or one.log_id == log_id)
        and (not backup_id or one.id == backup_id)
    ]
    if not backups:
        narrowed = (("of tablespace", tablespace), ("of log", log_id), ("with id", backup_id))
        said = [f"{what} {text}" for what, text in narrowed if text]
        damaged = "".join(f"; {one.file}: {one.reason}" for one in catalog.damaged)
        raise TargetError(
            " ".join([f"{repository.url} has no complete backup", *said]) + damaged,
            hint="herdpy backups list shows what it has.",
        )
    names = sorted({one.tablespace for one in backups})
    if len(names) > 1:
        raise TargetError(
            f"{repository.url} has backups of tablespaces {', '.join(names)}",
            hint="Name one: --tablespace NAME.",
        )
    return [
        _LogView(repository, _record(catalog, log, names[0]), [one for one in backups if one.log_id == log])
        for log in dict.fromkeys(one.log_id for one in backups)
    ]


def _record(catalog: BackupCatalog, log_id: str, tablespace: str) -> LogRecord:
    return catalog.logs.get(log_id) or LogRecord(tablespace, log_id, 0)


def _leaves(views: list[_LogView]) -> list[_LogView]:
    """The log that no other one continues."""
    parents = {view.record.parent for view in views}
    found = [view for view in views if view.record.log_id not in parents]
    if len(found) > 1:
        raise _ambiguous(found, "there are several logs, and none of them continues the others")
    return found or views[-1:]


def _ambiguous(views: Sequence[_LogView], what: str) -> TargetError:
    names = " and ".join(view.name for view in views)
    return TargetError(f"{what}: {names}", hint="Name one: --log ID.")


@dataclass(slots=True)
class _LogView:
    """A log of a repository, with backups of it."""

    repository: Repository
    record: LogRecord
    backups: list[BackupManifest]
    _segments: list[LogSegment] | None = field(default=None)
    _ends: dict[LSN, LSN] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For people."""
        made = moment(self.record.created_us) if self.record.created_us else "an unknown time"
        return f"{self.record.log_id} (since {made})"

    def segments(self) -> list[LogSegment]:
        """Of the archive, listed once."""
        if self._segments is None:
            self._segments = segments(self.repository, self.record.log_id)
        return self._segments

    def end(self, manifest: BackupManifest) -> LSN:
        """How far the archive leads on from an image."""
        lsn = manifest.image_lsn
        if lsn not in self._ends:
            self._ends[lsn] = reached(self.segments(), lsn)
        return self._ends[lsn]

    def images(self) -> list[BackupManifest]:
        """A backup for each image, the oldest image first."""
        found: dict[str, BackupManifest] = {}
        for one in sorted(self.backups, key=lambda one: (one.image_lsn, one.end_lsn)):
            found[one.image.backup] = one
        return list(found.values())

    def entries(self, after: LSN) -> Iterator[LogEntry]:
        """The archived entries after a position."""
        return read_entries(self.repository, self.record.log_id, after)

    def stretch(self, after: LSN) -> Iterator[LogEntry]:
        """The archived entries after a position, up to where some are missing."""
        with suppress(MissingLogError):
            yield from self.entries(after)

    # Targets.

    def find(self, target: RestoreTarget) -> tuple[StopPosition, int]:
        """The position that is meant, and the commit time there if that was found on the way.

        Raises: as ``make_plan``.
        """
        if target.time_us is not None:
            return self._find_time(target.time_us)
        if target.before is not None:
            before = target.before_lsn
            return self._find_commit(target.before) if before is None else self._find_before(before)
        end = max(map(self.end, self.images()))
        if target.lsn is None:
            return StopPosition(end, open_end=True), 0
        return self._within(target.lsn, end), 0

    def _within(self, lsn: LSN, end: LSN) -> StopPosition:
        oldest = self.images()[0].image_lsn
        if lsn > end:
            raise self._beyond(f"position {lsn}")
        if lsn < oldest:
            raise TargetError(f"position {lsn} is before the oldest backup of log {self.name}: {oldest}")
        return StopPosition(lsn)

    def _beyond(self, what: str) -> TargetError:
        """The error for what comes after the archive's end."""
        end, time_us = archive_end(self.repository, self.record.log_id, self.segments(), self.images())
        at = f"{end}, committed at {moment(time_us)}" if time_us else str(end)
        return TargetError(
            f"{what} is beyond what is archived of log {self.name}: the last position is {at}",
            hint="Leave out the target to restore up to there.",
        )

    def _find_time(self, time_us: int) -> tuple[StopPosition, int]:
        image = self._image_before(time_us)
        if image is None:
            first = image_time(self.images()[0], self.backups)
            known = f"of {moment(first)}" if first else "of an unknown time"
            raise TargetError(f"the oldest backup of log {self.name} is {known}, after {moment(time_us)}")
        last, last_us = image.image_lsn, 0
        for lsn, heads in _heads(self.stretch(last), last):
            for number, (committed_us, _id, _has_records) in enumerate(heads):
                if committed_us > time_us:
                    return (StopPosition(lsn, number) if number else StopPosition(last)), last_us
                last_us = committed_us
            last = lsn
        if not any(one.created_us >= time_us and one.end_lsn <= last for one in self.backups):
            raise self._not_known(time_us, last)
        return StopPosition(last), last_us

    def _image_before(self, time_us: int) -> BackupManifest | None:
        """The newest image of before a time. An image's own time says when it was copied; it has the state of
        a checkpoint, so that commits behind it may be earlier than that."""
        found = None
        for one in self.images():
            copied_us = image_time(one, self.backups)
            if 0 < copied_us <= time_us or self._first_commit_us(one) <= time_us:
                found = one
            elif copied_us:
                break
        return found

    def _first_commit_us(self, one: BackupManifest) -> float:
        """When the first archived commit behind an image was; infinite where there is none."""
        after = _heads(self.stretch(one.image_lsn), one.image_lsn)
        return next((heads[0][0] for _lsn, heads in after if heads), math.inf)

    def _not_known(self, time_us: int, last: LSN) -> TargetError:
        """The error for a time after the last entry of a stretch."""
        later = min((one.image_lsn for one in self.images() if one.image_lsn > last), default=None)
        if later is None:
            return self._beyond(f"time {moment(time_us)}")
        return TargetError(
            f"at {moment(time_us)} log {self.name} was between {last} and {later}, of which nothing is"
            " archived",
            hint=f"Restore what was before (--to-lsn {last}) or after (--to-lsn {later}).",
        )

    def _find_before(self, before: LSN) -> tuple[StopPosition, int]:
        last = max((one.image_lsn for one in self.images() if one.image_lsn < before), default=None)
        if last is None:
            raise TargetError(f"position {before} is not after any backup of log {self.name}")
        if before > self.end(self._image_at(last)):
            raise self._beyond(f"position {before}")
        return self._last_before(last, before)

    def _last_before(self, last: LSN, before: LSN) -> tuple[StopPosition, int]:
        last_us = 0
        for lsn, heads in _heads(self.entries(last), last):
            if lsn >= before:
                break
            last, last_us = lsn, heads[-1][0] if heads else last_us
        return StopPosition(last), last_us

    def _image_at(self, lsn: LSN) -> BackupManifest:
        return next(one for one in self.images() if one.image_lsn == lsn)

    def _find_commit(self, request: str) -> tuple[StopPosition, int]:
        sought, upto = request.encode(), None
        for one in reversed(self.images()):  # the newest stretch of the log first
            found = self._search(sought, one.image_lsn, upto)
            if found is not None:
                return found
            upto = one.image_lsn
        first, end = self.images()[0].image_lsn, max(map(self.end, self.images()))
        raise TargetError(
            f"no commit {request!r} is archived of log {self.name}, from {first} to {end}",
            hint="A commit is named by its request id, or by its position, ledger:entry.",
        )

    def _search(self, sought: bytes, after: LSN, upto: LSN | None) -> tuple[StopPosition, int] | None:
        last, last_us = after, 0
        for lsn, heads in _heads(self.stretch(after), after):
            if upto is not None and lsn > upto:
                return None
            for number, (committed_us, name, has_records) in enumerate(heads):
                if name == sought and has_records:
                    return (StopPosition(lsn, number) if number else StopPosition(last)), last_us
                last_us = committed_us
            last = lsn
        return None

    # Plans.

    def plan(self, stop: StopPosition, time_us: int, notes: tuple[str, ...]) -> RestorePlan:
        """The backups from which the stop is reached, the newest image first."""
        able = [
            one
            for one in self.backups
            if one.image_lsn <= stop.lsn and self.end(one) >= stop.lsn
            and not (stop.take is not None and one.image_lsn == stop.lsn)  # it has more of the entry
        ]  # fmt: skip
        able.sort(key=lambda one: (one.image_lsn, one.end_lsn <= stop.lsn, one.end_lsn), reverse=True)
        first: dict[str, BackupManifest] = {}
        for one in able:
            first.setdefault(one.image.backup, one)
        if not first:
            raise TargetError(f"no backup of log {self.name} leads to {stop.lsn}")
        candidates = tuple(first.values())
        led = chain(self.segments(), candidates[0].image_lsn)
        some = tuple(one for one in led if LSN(one.ledger_id, one.first) <= stop.lsn)
        return RestorePlan(self.record, stop, time_us, candidates, some, notes)


def image_time(manifest: BackupManifest, backups: Sequence[BackupManifest]) -> int:
    """When a backup's image was taken, at the latest; 0 when nothing says it."""
    if manifest.image.time_us:
        return manifest.image.time_us
    return next((one.finished_us for one in backups if one.id == manifest.image.backup), 0)


_Head = tuple[int, bytes, bool]


def _heads(entries: Iterator[LogEntry], after: LSN) -> Iterator[tuple[LSN, list[_Head]]]:
    """Of each entry with which transactions take effect, their heads."""
    assembler = TransactionAssembler(after)
    for entry in entries:
        heads = [transaction_head(data) for data in assembler.take(entry)]
        if heads or assembler.safe == entry.lsn:
            yield entry.lsn, heads


def archive_end(
    repository: Repository, log_id: str, found: Sequence[LogSegment], images: Sequence[BackupManifest]
) -> tuple[LSN, int]:
    """How far the archive leads from any image, and the commit time of the last transaction there.

    The time is 0 when no transaction after the images is archived. DamagedPartError; PlaceError.
    """
    led = max((chain(found, one.image_lsn) for one in images), key=_end, default=[])
    end = max([_end(led), *(one.image_lsn for one in images)])
    return end, newest_commit_us(repository, log_id, led)


def _end(led: Sequence[LogSegment]) -> LSN:
    return newest_of(led) or START


__all__ = [
    "RestorePlan",
    "RestoreTarget",
    "StopPosition",
    "TargetError",
    "archive_end",
    "image_time",
    "make_plan",
    "moment",
    "parse_time",
]

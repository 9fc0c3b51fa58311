"""The archive of a tablespace's log, as the server that leads it sees it.

Above ``archiver_messages``; ``serving`` and ``replica`` have one archiver for each tablespace, which runs
while they lead. All of it is for the loop's thread but :meth:`LogArchiver.floor`, which the checkpointer's
thread calls. A process of its own (``archiver_child``) reads the log and writes to the repository: a
repository that is slow, full or away keeps that process waiting, and nobody else. It is started when there is
something to archive, and ends when there was nothing for a while.

Trimming the log waits for the archive, within bounds; beyond them the archive gets a gap, which is logged and
counted, and can be restored over by no backup that was made before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final, Protocol

from herdpy.log.ledger_list import LedgerInfo
from herdpy.log.lsn import LSN, START
from herdpy.log.place import without_userinfo
from herdpy_server.backup.archiver_messages import (
    Archived,
    ArchivedPlace,
    ArchiveFailed,
    ArchiveOpened,
    Busy,
    Done,
    FailureKind,
    FromArchiver,
    Remarked,
    StartArchive,
    Upto,
    encode,
    from_archiver,
)
from herdpy_server.child_process import ChildEndedError, Line, SilentChildError, heard_line, line_to

logger = logging.getLogger("herdpy.archive")

STALLED_AFTER_S = 300.0
"""A process that says nothing for so long is killed: a place that does not answer may hold it for ever."""
_IDLE_S = 60.0
_LATE_INTERVALS: Final = 3
_LATE_LEAST_S: Final = 1.0
"""The start of a process takes about so long; an archive with a shorter interval is not late for that."""
_LINE_BYTES = 1 << 20
_MODULE = "herdpy_server.backup.archiver_child"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings:
    """The section ``backup`` of a server's configuration, as far as it is about the archive."""

    url: str = ""
    key_file: str = ""
    archive_interval_s: float = 10.0
    archive_wait_bytes: int = 4 << 30
    archive_wait_s: float = 86_400.0
    rate_bytes: int = 0
    niceness: int = 10

    @property
    def is_on(self) -> bool:
        """Whether there is an archive."""
        return bool(self.url) and self.archive_interval_s > 0


class LogToArchive(Protocol):
    """The log that is led here."""

    @property
    def place(self) -> ArchivedPlace:
        """Where it is, for the process."""

    @property
    def base(self) -> LSN:
        """The last entry that was trimmed. From any thread."""

    def ledgers(self) -> Sequence[LedgerInfo]:
        """The ledger list. From any thread."""

    def confirmed(self) -> Upto:
        """How far it may be archived now."""

    def written_bytes(self) -> int:
        """Bytes that were made durable since some time. From any thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveStatus:
    """How the archive stands.

    Attributes:
        url: of the repository, without a user's name and password.
        archived: the newest entry that is archived; None: not known yet.
        archived_us: everything that was confirmed then is archived; 0: not known yet.
        lag_s: for how long the oldest entry that is not archived has waited.
        lag_bytes: how much of the log is not archived, about.
        is_late: whether operators have been alarmed that it falls behind.
        failure: why the last try failed; None when it did not.
        gaps: how often entries were trimmed that were not archived, since this process began.
        gap_after, gap_upto: the newest of these gaps.
        segments, raw_bytes, stored_bytes: what was written, since this process began.
    """

    url: str
    archived: LSN | None
    archived_us: int
    lag_s: float
    lag_bytes: int
    is_late: bool
    failure: str | None
    gaps: int
    gap_after: LSN | None
    gap_upto: LSN | None
    segments: int
    raw_bytes: int
    stored_bytes: int

    @property
    def state(self) -> str:
        """In a word."""
        if self.failure is not None:
            return "failing"
        if self.archived is None:
            return "starting"
        return "late" if self.is_late else "archiving"

    def row(self, tablespace: str, node: str | None) -> dict[str, Any]:
        """Of herdpy.archive."""
        return {
            "tablespace": tablespace,
            "node": node,
            "state": self.state,
            "url": self.url,
            "archived": None if self.archived is None else str(self.archived),
            "archived_time": self.archived_us or None,
            "lag_s": round(self.lag_s, 3),
            "lag_bytes": self.lag_bytes,
            "gaps": self.gaps,
            "gap_after": None if self.gap_after is None else str(self.gap_after),
            "gap_upto": None if self.gap_upto is None else str(self.gap_upto),
            "segments": self.segments,
            "raw_bytes": self.raw_bytes,
            "stored_bytes": self.stored_bytes,
            "problem": self.failure,
        }


class _ArchiveFailedError(Exception):
    def __init__(self, kind: FailureKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class LogArchiver:
    """Of one tablespace; between :meth:`start` and :meth:`close` it archives, as often as one likes.

    Args:
        tablespace: its name, for the log.
    """

    def __init__(self, settings: ArchiveSettings, tablespace: str) -> None:
        self.settings = settings
        self._tablespace = tablespace
        self._url = without_userinfo(settings.url)
        self._log: LogToArchive | None = None
        self._timeline: tuple[str | None, str | None] = (None, None)
        self._child: _Child | None = None
        self._repository = ""  # its id, once something was archived there
        self._tasks: list[asyncio.Task[None]] = []
        self._wanted = asyncio.Event()
        self._archived: LSN | None = None
        self._archived_us = 0
        self._waits_since_s: float | None = None  # the oldest entry that is not archived, about
        self._progress_s = 0.0
        self._owed_bytes = self._mark_bytes = 0
        self._lets_go = self._is_late = False
        self._failure: _ArchiveFailedError | None = None
        self._gaps = self._segments = self._raw_bytes = self._stored_bytes = 0
        self._gap: tuple[LSN, LSN] | None = None

    # Its life.

    def start(self, log: LogToArchive, parent_log: str | None = None, branched: str | None = None) -> None:
        """Archive that log from now on.

        Args:
            parent_log, branched: the log that this one's database was restored from, and the position.
        """
        if not self.settings.is_on:
            return
        now_s = time.monotonic()
        self._archived, self._log, self._timeline = None, log, (parent_log, branched)
        self._waits_since_s = self._progress_s = now_s
        self._mark_bytes = log.written_bytes()
        self._owed_bytes = sum(one.length for one in log.ledgers() if one.closed)
        self._lets_go = False
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._run(log), name=f"archive {self._tablespace}"),
            loop.create_task(self._watch(log), name=f"archive's lag {self._tablespace}"),
        ]

    async def close(self, patience_s: float = 0.0) -> None:
        """Archive no more. May be repeated.

        Args:
            patience_s: how long to archive what is not yet.
        """
        log = self._log
        if log is not None and patience_s and self._failure is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    while self._archived is None or self._archived < log.confirmed().lac:
                        self._wanted.set()
                        await asyncio.sleep(0.02)
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._end_child()
        self._log = None

    # What others see.

    @property
    def is_running(self) -> bool:
        """Whether the log is archived here."""
        return self._log is not None

    def status(self) -> ArchiveStatus:
        """How it stands now."""
        gap_after, gap_upto = self._gap or (None, None)
        return ArchiveStatus(
            url=self._url,
            archived=self._archived,
            archived_us=self._archived_us,
            lag_s=self.lag_s,
            lag_bytes=self.lag_bytes,
            is_late=self._is_late,
            failure=None if self._failure is None else str(self._failure),
            gaps=self._gaps,
            gap_after=gap_after,
            gap_upto=gap_upto,
            segments=self._segments,
            raw_bytes=self._raw_bytes,
            stored_bytes=self._stored_bytes,
        )

    @property
    def lag_s(self) -> float:
        """For how long the oldest entry that is not archived has waited; 0: there is none."""
        log = self._log
        if log is None or self._waits_since_s is None or self._is_level(log):
            return 0.0
        return time.monotonic() - self._waits_since_s

    @property
    def lag_bytes(self) -> int:
        """How much of the log is not archived, about."""
        log = self._log
        if log is None or self._is_level(log):
            return 0
        return max(self._owed_bytes + log.written_bytes() - self._mark_bytes, 0)

    def _is_level(self, log: LogToArchive) -> bool:
        return self._archived is not None and self._archived >= log.confirmed().lac

    def floor(self) -> LSN | None:
        """The log's entries after it are to be kept; None: none are. From any thread."""
        log, settings = self._log, self.settings
        if log is None:  # not yet, or no longer: nothing is let go of meanwhile
            return (self._archived or START) if settings.is_on else None
        lag_bytes, waited_s = self.lag_bytes, time.monotonic() - self._progress_s
        if self._is_level(log) or (
            lag_bytes <= settings.archive_wait_bytes and waited_s <= settings.archive_wait_s
        ):
            self._lets_go = False
            return START if self._archived is None else self._archived
        if not self._lets_go:
            self._lets_go = True
            logger.error(
                "the archive is too far behind: the log is no longer kept for it",
                extra=self._extra(lag_bytes=lag_bytes, waited_s=round(waited_s)),
            )
        return None

    # Archiving.

    async def _run(self, log: LogToArchive) -> None:
        loop = asyncio.get_running_loop()
        interval_s = self.settings.archive_interval_s
        idle_s = 0.0
        while True:
            began_s = loop.time()
            self._wanted.clear()
            try:
                if not self._is_level(log):
                    await self._round(log)
                    idle_s = 0.0
                elif idle_s > _IDLE_S:
                    await self._end_child()
                self._failed(None)
            except _ArchiveFailedError as failure:
                if failure.kind == "trimmed":
                    self._wanted.set()  # it begins anew, after the gap
                else:
                    self._failed(failure)
            except Exception as error:
                logger.exception("archiving failed, and is tried again", extra=self._extra())
                self._failed(_ArchiveFailedError("other", repr(error)))
                await self._end_child()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(interval_s - (loop.time() - began_s), 0.01)):
                    await self._wanted.wait()
            idle_s += loop.time() - began_s

    def _failed(self, failure: _ArchiveFailedError | None) -> None:
        if failure is None:
            if self._failure is not None:
                logger.warning("the log is archived again", extra=self._extra())
        elif self._failure is None or failure.kind != self._failure.kind:
            logger.error(
                "the log is not archived, and is tried again", extra=self._extra(reason=str(failure))
            )
        self._failure = failure

    async def _round(self, log: LogToArchive) -> None:
        """Archive what is confirmed now. _ArchiveFailedError: it is to be tried again."""
        if self._child is None:
            self._child = await _Child.started(self._start_message(log))
        child = self._child
        upto, at_s, at_us = log.confirmed(), time.monotonic(), time.time_ns() // 1000
        written = log.written_bytes()
        try:
            child.say(upto)
            while True:
                match await child.hear():
                    case ArchiveOpened(repository, archived, gap_after):
                        self._repository = repository
                        self._opened(log, archived, gap_after)
                    case Archived() as step:
                        self._took(log, step)
                    case Remarked(text):
                        logger.warning("%s", text, extra=self._extra())
                    case Busy():
                        pass
                    case ArchiveFailed(kind, text):
                        raise _ArchiveFailedError(kind, text)
                    case Done(lsn):
                        self._archived = max(lsn, self._archived or START)
                        self._archived_us, self._waits_since_s = at_us, at_s
                        self._progress_s = time.monotonic()
                        self._owed_bytes, self._mark_bytes = 0, written
                        return
        except _ChildEndedError as error:
            await self._end_child()
            raise _ArchiveFailedError("other", str(error)) from error

    def _start_message(self, log: LogToArchive) -> StartArchive:
        parent_log, branched = self._timeline
        return StartArchive(
            url=self.settings.url,
            key_file=self.settings.key_file,
            repository=self._repository,
            place=log.place,
            parent_log=parent_log,
            branched=branched,
            rate_bytes=self.settings.rate_bytes,
            niceness=self.settings.niceness,
            server=os.getpid(),
        )

    def _opened(self, log: LogToArchive, archived: LSN, gap_after: LSN | None) -> None:
        if gap_after is not None:
            self._note_gap(gap_after, log.base)
        if self._archived is None:
            logger.info("the log is archived", extra=self._extra(archived=str(archived), url=self._url))
        self._archived = max(archived, log.base)
        closed = [one for one in log.ledgers() if one.closed and one.last > self._archived]
        self._owed_bytes = min(self._owed_bytes, sum(one.length for one in closed))

    def _took(self, log: LogToArchive, step: Archived) -> None:
        written = log.written_bytes()
        self._archived = max(step.lsn, self._archived or START)
        self._owed_bytes = max(self._owed_bytes + written - self._mark_bytes - step.log_bytes, 0)
        self._mark_bytes = written
        self._progress_s = time.monotonic()
        self._segments += 1
        self._raw_bytes += step.raw_bytes
        self._stored_bytes += step.stored_bytes

    async def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.end()

    # What operators are alarmed of.

    async def _watch(self, log: LogToArchive) -> None:
        interval_s = self.settings.archive_interval_s
        while True:
            await asyncio.sleep(min(interval_s / 4, 1.0))
            self._look(log)

    def _look(self, log: LogToArchive) -> None:
        if self._is_level(log):
            self._waits_since_s = self._progress_s = time.monotonic()
            self._archived_us = time.time_ns() // 1000
        base = log.base
        if self._archived is not None and base > self._archived:
            self._note_gap(self._archived, base)
            self._archived = base
        lag_s = self.lag_s
        is_late = lag_s > max(_LATE_INTERVALS * self.settings.archive_interval_s, _LATE_LEAST_S)
        if is_late and not self._is_late:
            logger.error(
                "the archive falls behind",
                extra=self._extra(
                    lag_s=round(lag_s, 1), lag_bytes=self.lag_bytes, reason=str(self._failure or "")
                ),
            )
        elif self._is_late and not is_late:
            logger.warning("the archive has caught up", extra=self._extra(archived=str(self._archived)))
        self._is_late = is_late

    def _note_gap(self, after: LSN, upto: LSN) -> None:
        if self._gap is not None and after in self._gap:  # the same one, which has grown
            self._gap = (self._gap[0], upto)
            return
        self._gaps += 1
        self._gap = (after, upto)
        logger.error(
            "the archive has a gap: entries were trimmed that are not archived; a full backup is needed",
            extra=self._extra(after=str(after), upto=str(upto)),
        )

    def _extra(self, **more: Any) -> dict[str, Any]:
        return {"tablespace": self._tablespace, **more}


class _ChildEndedError(Exception):
    pass


class _Child:
    """The process, and the line to it, which is open until ``close``."""

    def __init__(self, process: subprocess.Popen[bytes], line: Line, close: AsyncExitStack) -> None:
        self._process, self._close = process, close
        self._output, self._answers = line

    @classmethod
    async def started(cls, start: StartArchive) -> _Child:
        # By subprocess, which uses vfork: see ``publishing.publisher``.
        command = [sys.executable, "-m", _MODULE]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        close = AsyncExitStack()
        try:
            line = await close.enter_async_context(line_to(process, _LINE_BYTES))
        except BaseException:
            process.kill()
            raise
        child = cls(process, line, close)
        child._write(encode(start))
        return child

    def say(self, message: Upto) -> None:
        self._write(encode(message))

    def _write(self, line: bytes) -> None:
        self._answers.write(line + b"\n")  # a few bytes at a time, each answered before the next

    async def hear(self) -> FromArchiver:
        try:
            line = await heard_line(self._process, self._output, STALLED_AFTER_S)
        except SilentChildError:
            raise _ChildEndedError(f"nothing was written for {STALLED_AFTER_S:g} s") from None
        except ChildEndedError as error:
            raise _ChildEndedError(f"the archiving process ended ({error})") from None
        message: FromArchiver = from_archiver.decode(line)
        return message

    async def end(self) -> None:
        await self._close.aclose()
        self._process.kill()
        await asyncio.shield(asyncio.to_thread(self._process.wait))

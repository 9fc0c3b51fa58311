"""From one ledger to the next: made ahead, switched to, closed behind, replaced when its bookies are gone.

Beside ``leader_log``, above ``own_ledgers``, and ``sender``; everything here happens in tasks,
while appends go on. A ledger ends in one of two ways:

- It is large or old, or bookies are back that it lacks: the next one is made and listed; when nothing is
  in flight the sender goes on there (no write of metadata is waited for); then the old one is closed in
  BookKeeper, and after that in the list, where followers see that they may go on to the next.
- Its writer fails because bookies are missing: it is closed in BookKeeper where it is confirmed. What was
  in flight behind that is certainly not in the log, so it is sent again, to a ledger of the bookies that
  are left. Nobody who appends notices, unless that takes longer than ``write_patience_s``.

Ledgers are made and closed however long that takes: while bookies or ZooKeeper are away it is tried again
(``make``, ``close``). What no trying can mend is a ``LogError``. LogTasks has the tasks by name, and
says what becomes of the log when one fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from herdpy.backoff import Backoff
from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.errors import (
    BookKeeperError,
    ClosedClientError,
    LedgerClosedError,
    LedgerFencedError,
    NoSuchLedgerError,
    UnauthorizedError,
)
from herdpy.bookkeeper.metadata.znodes import Watch
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.log.bookkeeper.own_ledgers import OwnLedgers
from herdpy.log.bookkeeper.sender import Pauses, Sender
from herdpy.log.bookkeeper.settings import LedgerLogSettings, Quorums, quorums_for, wanted
from herdpy.log.errors import LogError, LogFencedError, LogUnavailableError, LogWriteError, Outcome
from herdpy.log.lsn import LSN


class LogTasks:
    """The tasks of one leader, on its loop; at most one of each name matters.

    Args:
        on_failed: the log cannot go on, because a task failed.
        on_done: a task came to its end.
    """

    def __init__(self, on_failed: Callable[[LogError], None], on_done: Callable[[], object]) -> None:
        self._on_failed = on_failed
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopped = False

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task."""
        task = self._loop.create_task(work, name=f"herdpy-log-{name}")
        self._tasks[name] = task
        task.add_done_callback(lambda task: self._ended(name, task))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
        if task.cancelled():
            if not self._stopped:  # what it was to bring to memory may be in ZooKeeper already
                self._on_failed(LogError(f"the log failed: {name} was cancelled", outcome="unknown"))
            return
        error = task.exception()
        if isinstance(error, LogError):
            self._on_failed(error)
        elif isinstance(error, BookKeeperError):
            self._on_failed(LogWriteError(f"the log cannot be written: {error}"))
        elif error is not None:
            self._on_failed(LogError(f"the log failed: {error!r}", outcome="unknown"))
            raise error
        else:
            self._on_done()

    def under_way(self, *names: str) -> bool:
        """Whether any of these tasks is."""
        return any(name in self._tasks for name in names)

    async def wait(self, *names: str) -> None:
        """Wait until those of these tasks that are under way have ended, however they do."""
        tasks = [self._tasks[name] for name in names if name in self._tasks]
        if tasks:
            await asyncio.wait(tasks)

    def stop(self) -> None:
        """Cancel every task but the one that calls."""
        self._stopped = True
        current = asyncio.current_task()
        for task in self._tasks.values():
            if task is not current:
                task.cancel()


PAUSE_S = 0.2
_WARN_FIRST_S, _WARN_MAX_S = 1.0, 60.0

_log = logging.getLogger("herdpy.log.succession")
_TAKEN = (LedgerFencedError, LedgerClosedError, NoSuchLedgerError, UnauthorizedError)


def final(error: BookKeeperError) -> LogError | None:
    """What it means for the log when a ledger cannot be written to or closed for good; None: try again."""
    if isinstance(error, _TAKEN):
        return LogFencedError(f"another node has taken the log: {error}")
    if isinstance(error, ClosedClientError):
        return LogWriteError(f"the BookKeeper client is gone: {error}")
    return None


class RepeatedWarning:
    """A warning of what is tried again and again: at the first failure, and then after pauses that double.

    Args:
        message: what the log says.
        clock: seconds, from any moment.
    """

    def __init__(self, message: str, clock: Callable[[], float]) -> None:
        self._message = message
        self._clock = clock
        self._failures = 0
        self._due_s = 0.0
        self._backoff = Backoff(_WARN_FIRST_S, _WARN_MAX_S, spread=0.0)

    def failed(self, error: Exception) -> None:
        """An attempt failed: warn of it, if it is time."""
        self._failures += 1
        if self._failures > 1 and self._clock() < self._due_s:
            return
        self._due_s = self._clock() + self._backoff.pause_s()
        _log.warning(self._message, extra={"error": str(error), "failures": self._failures})

    def succeeded(self) -> None:
        """The next failure is a first one."""
        self._failures = 0
        self._backoff.reset()


async def make(ledgers: OwnLedgers, spare: LedgerWriter | None = None) -> LedgerWriter:
    """A ledger that is made and listed; tries until there are bookies for one.

    Args:
        spare: the one to begin with, which was made already.

    Raises:
        LogError: another node owns the log, or the client is closed.
    """
    warning = RepeatedWarning("a ledger could not be made", asyncio.get_running_loop().time)
    while True:
        try:
            return await ledgers.add(spare)
        except ClosedClientError as error:
            raise LogWriteError(f"the BookKeeper client is gone: {error}") from error
        except BookKeeperError as error:
            spare = None
            warning.failed(error)
            await asyncio.sleep(PAUSE_S)


async def close(writer: LedgerWriter) -> None:
    """Close a ledger in BookKeeper.

    Raises:
        LogFencedError: another node has taken it.
        LogWriteError: the client is closed.
    """
    warning = RepeatedWarning("a ledger could not be closed", asyncio.get_running_loop().time)
    while True:
        try:
            await writer.close()
            return
        except BookKeeperError as error:
            failure = final(error)
            if failure is not None:
                raise failure from error
            warning.failed(error)
            await asyncio.sleep(PAUSE_S)


_KEEP_S = 10.0


class SucceedingLog(Protocol):
    """What is asked of the log."""

    def lose(self, error: LogError, outcome: Outcome = "unknown") -> None: ...

    def ledger_ended(self, ledger_id: int, last_entry_id: int) -> tuple[LSN, int]: ...

    def deliver(self) -> None: ...


class Succession:
    """The tasks of one leader."""

    def __init__(
        self,
        bk: BookKeeper,
        ledgers: OwnLedgers,
        sender: Sender,
        pauses: Pauses,
        settings: LedgerLogSettings,
        owner: SucceedingLog,
    ) -> None:
        self._bk = bk
        self._ledgers = ledgers
        self._sender = sender
        self._pauses = pauses
        self._settings = settings
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._tasks = LogTasks(lambda error: self._owner.lose(error), self.look)
        self._stopped = False
        self._bookies: Watch | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._asked = False
        self._closing = False
        self._trouble_s: float | None = None  # since when nothing could be written
        self._settled = asyncio.Event()
        self._not_made = RepeatedWarning("the next ledger could not be made", self._loop.time)

    # Life.

    def start(self) -> None:
        """Begin to look after the ledgers."""
        if not self._stopped:
            self._bookies = self._bk.on_bookies_change(self._bookies_changed)
            self._tasks.spawn("keep", self._keep())

    def stop(self) -> None:
        """End every task but the one that calls."""
        self._stopped = True
        if self._bookies is not None:
            self._bookies.cancel()
        if self._looking is not None:
            self._looking.cancel()
        self._tasks.stop()
        self._settled.set()

    async def _keep(self) -> None:
        """Now and then: proof of ownership, deletions that are due, bookies whose quarantine is over."""
        ownership_s = self._settings.ownership_s
        while True:
            await asyncio.sleep(min(_KEEP_S, ownership_s / 6))
            self._bookies_changed()
            if self._tasks.under_way("prove") and self._ledgers.unproven_s > ownership_s / 6:
                self._sender.confirm()  # ZooKeeper is silent: an entry proves as much
            self.prove(ownership_s / 3)
            await self._ledgers.sweep_unlisted()

    # Ownership.

    def prove(self, age_s: float = 0.0) -> None:
        """Make sure that the list is still this leader's, then acknowledge what waited for that."""
        if not self._stopped and not self._tasks.under_way("prove"):
            self._tasks.spawn("prove", self._prove(age_s))

    async def _prove(self, age_s: float) -> None:
        """However long ZooKeeper is silent, as long as entries prove the same; a write of the list is never
        given up before the log is, since nobody else would know whether it was made."""
        patience_s = max(self._settings.ownership_s, self._settings.write_patience_s)
        proving = self._loop.create_task(self._ledgers.prove(age_s), name="herdpy-log-proof")
        try:
            while not (await asyncio.wait([proving], timeout=patience_s))[0]:
                if self._ledgers.unproven_s > self._settings.ownership_s + patience_s:
                    raise LogUnavailableError(
                        "ZooKeeper does not name the owner of the log", outcome="unknown"
                    )
        finally:
            proving.cancel()
        proving.result()
        self._owner.deliver()

    # The next ledger, while this one is written to.

    def went_well(self) -> None:
        """Something was written."""
        self._trouble_s = None

    def look(self) -> bool:
        """Make the next ledger if this one is past its size or age, or was asked to end; True if so."""
        writer = self._sender.writer
        if writer is None or self._stopped or self._closing:
            return False
        pushed = writer.last_add_pushed
        if not self._asked and (
            pushed <= 0
            or (writer.length_bytes < self._settings.max_ledger_bytes and self._loop.time() < self._due_s)
        ):
            return False
        busy = self._tasks.under_way("prepare", "retire", "replace")
        if self._sender.following is None and not busy and self._looking is None:
            self._tasks.spawn("prepare", self._prepare())
        return True

    async def _prepare(self) -> None:
        try:
            following = await self._ledgers.add()
        except BookKeeperError as error:
            self._not_made.failed(error)
            self._looking = self._loop.call_later(PAUSE_S, self._look_again)
            return
        if self._stopped:
            following.abandon(ClosedClientError("the log was abandoned"))
            return
        self._asked = False
        self._not_made.succeeded()
        self._sender.following = following
        self._sender.schedule()

    def _look_again(self) -> None:
        self._looking = None
        self.look()

    def begun(self) -> None:
        """A ledger was begun: its age counts from now."""
        self._due_s = self._loop.time() + self._settings.max_ledger_age_s

    def retire(self, writer: LedgerWriter, last: LSN, crc: int) -> None:
        """Close a ledger that was left, in BookKeeper and then in the list."""
        self.begun()
        self._tasks.spawn("retire", self._retire(writer, last, crc))

    async def _retire(self, writer: LedgerWriter, last: LSN, crc: int) -> None:
        await close(writer)
        end = writer.metadata.last_entry_id
        if end != last.entry_id:
            raise LogError(f"ledger {last.ledger_id} was closed at entry {end}, but {last} is confirmed")
        await self._ledgers.settle(writer.ledger_id, end, writer.metadata.length_bytes, crc)
        self._wake_settled()
        await self._ledgers.sweep_unlisted()

    async def roll(self) -> None:
        """See ``LeaderLog.aroll``."""
        writer = self._sender.writer
        if writer is not None and writer.last_add_pushed <= 0:
            return
        ledger_id = writer.ledger_id if writer is not None else self._ledgers.state.ledgers[-1].ledger_id
        self._asked = self._asked or self._sender.following is None
        self.look()
        while not self._stopped and any(
            info.ledger_id == ledger_id and not info.closed for info in self._ledgers.state.ledgers
        ):
            await self._settled.wait()
        if self._stopped:
            raise LogWriteError("the log ended before the ledger was closed")

    def _wake_settled(self) -> None:
        settled, self._settled = self._settled, asyncio.Event()
        settled.set()

    # Bookies that come and go.

    @property
    def quorums(self) -> Quorums | None:
        """Those of the ledger that is written to; None: there is none now."""
        writer = self._sender.writer
        if writer is None:
            return None
        metadata = writer.metadata
        return Quorums(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)

    def _bookies_changed(self) -> None:
        now = self.quorums
        if now is None:
            return
        if now != wanted(self._settings):
            try:
                possible = quorums_for(self._settings, len(self._bk.usable_bookies()))
            except ClosedClientError:
                return  # the writer hears of it, too
            if possible is not None and possible > now:
                self._asked = True
                self.look()

    def replace(self, writer: LedgerWriter, error: BookKeeperError) -> None:
        """The ledger cannot be written to any more; go on in another one, unless it was taken from us."""
        failure = final(error)
        if failure is not None:
            self._owner.lose(failure)
        else:
            _log.warning("the ledger is replaced", extra={"ledger_id": writer.ledger_id, "error": str(error)})
            self._tasks.spawn("replace", self._replace(writer, error))

    async def _replace(self, writer: LedgerWriter, error: BookKeeperError) -> None:
        outcome: Outcome = "unknown"
        again = self._trouble_s is not None
        if self._trouble_s is None:
            self._trouble_s = self._loop.time()
        try:
            # Even when patience is at its end: whoever waits then learns what became of it.
            async with asyncio.timeout(self._settings.write_patience_s):
                await self._tasks.wait("prepare", "retire")
                await close(writer)
                # Behind this end there is nothing, for good.
                end, length = writer.metadata.last_entry_id, writer.metadata.length_bytes
                last, crc = self._owner.ledger_ended(writer.ledger_id, end)
                outcome = "not done"
            async with asyncio.timeout_at(self._trouble_s + self._settings.write_patience_s):
                if again:  # a new ledger failed before anything was written to it
                    await asyncio.sleep(PAUSE_S)
                await self._ledgers.settle(writer.ledger_id, end, length, crc)
                self._wake_settled()
                following = self._sender.following or await make(self._ledgers)
                self._sender.following = None
        except TimeoutError:
            self._owner.lose(LogUnavailableError(f"the log cannot be written: {error}"), outcome)
        except LogError as failure:
            self._owner.lose(failure, outcome)
        else:
            self.begun()
            self._sender.begin(following, last, crc)
            self._sender.pump()

    # The end, and trimming.

    async def trim(self, before: LSN) -> list[int]:
        """See ``LeaderLog.atrim``."""
        try:
            gone = await self._ledgers.trim(before)
        except LogError as error:
            self._owner.lose(error)
            raise
        await self._ledgers.sweep_unlisted()
        return gone

    async def close(self) -> None:
        """Let everything come to its end, then close what is open, in BookKeeper and in the list."""
        self._closing = True
        last = self._sender.last
        try:
            async with asyncio.timeout(self._settings.write_patience_s):
                while self._tasks.under_way("prepare", "retire", "replace") or self._pauses.is_busy:
                    await self._tasks.wait("prepare", "retire", "replace")
                    await self._pauses.quiet()
                writer, following = self._sender.writer, self._sender.following
                last, crc = self._sender.last, self._sender.crc
                self._sender.stop()
                if writer is not None:
                    await close(writer)
                    end, length = writer.metadata.last_entry_id, writer.metadata.length_bytes
                    await self._ledgers.settle(writer.ledger_id, end, length, crc)
                if following is not None:
                    await close(following)
                    await self._ledgers.settle(following.ledger_id, -1, 0, 0)
                await self._ledgers.sweep_unlisted()
        except (TimeoutError, BookKeeperError) as error:
            raise LogUnavailableError(
                f"the log's last ledger, at {last}, could not be closed: {error}", outcome="done"
            ) from error

"""Reports of how far the log is confirmed: a leader's, and the followers that listen to them.

Beside ``following``; DESIGN.md says why a follower may believe them. A leader reports when entries were
confirmed, at most every ``REPORT_S``, and otherwise every ``HEARTBEAT_S``; the entries go along as far as
they are at hand. A follower passes what it hears to the log that it tails (``FollowedLog.report``). When no
report comes for ``SILENT_S``, whatever the reason, its tail asks the bookies, as it would without reports.
The follower's questions (``read_index``) go the other way on the same connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol

from herdpy.backoff import Backoff
from herdpy.log import LSN, START, LogError
from herdpy.log.bookkeeper import FollowedLog
from herdpy.rpc.address import RemoteError
from herdpy.rpc.lac_reports import LacReport, lac_reports
from herdpy.rpc.read_index import ReadIndexAsker
from herdpy_server.cluster.layout import LeaderRecord
from herdpy_server.cluster.lease import Clock, boottime
from herdpy_server.replica.read_index import LeaderQuestions
from herdpy_server.replica.seeding import Credentials

logger = logging.getLogger("herdpy.replica")

REPORT_S = 0.010
"""What is confirmed within that time is one report: most of what a follower costs is waking up for one."""
QUICK_S = 0.003
"""So little while a read of the follower waits for what is not yet reported."""
HEARTBEAT_S = 0.5
SILENT_S = 1.5
_SLACK_S = 0.1
"""So much later silence may be noticed: a timer is not set anew for each report."""
_HEARD_S = HEARTBEAT_S + 2 * _SLACK_S
_CONNECT_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_SOON_S = 0.05
"""So long after a failure another attempt, while reads wait for the leader's answer."""


class ConfirmingLog(Protocol):
    """What reports are made of: ``LeaderLog``."""

    @property
    def lac(self) -> LSN: ...

    @property
    def failure(self) -> LogError | None: ...

    async def lac_after(self, position: LSN) -> LSN: ...

    def recent_entries(self, after: LSN, upto: LSN) -> tuple[bytes, ...]: ...


class ReportPace:
    """When one follower gets its next report: soon, where it waits for something."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wanted = self._reported = START
        self._rest: asyncio.Future[None] | None = None
        self._began_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def want(self, position: LSN) -> None:
        """Report up to there as soon as it is confirmed."""
        self._wanted = max(self._wanted, position)
        if self._rest is not None and self._is_wanted and self._timer is not None:
            self._timer.cancel()
            self._set_timer()

    async def rest(self, reported: LSN) -> None:
        """Return when the next report is due; the last one, which has just gone, was up to ``reported``."""
        self._reported = reported
        self._began_s = self._loop.time()
        self._rest = self._loop.create_future()
        self._set_timer()
        try:
            await self._rest
        finally:
            self._rest = None
            if self._timer is not None:
                self._timer.cancel()

    @property
    def _is_wanted(self) -> bool:
        return self._wanted > self._reported

    def _set_timer(self) -> None:
        due_s = self._began_s + (QUICK_S if self._is_wanted else REPORT_S)
        self._timer = self._loop.call_at(due_s, self._is_over)

    def _is_over(self) -> None:
        if self._rest is not None and not self._rest.done():
            self._rest.set_result(None)


async def reports_of(
    log: ConfirmingLog, epoch: int, pace: ReportPace | None = None
) -> AsyncGenerator[LacReport, None]:
    """What the leader of a log reports, until it can write the log no more.

    Only what the log has acknowledged is reported: an entry that bookies have, while the leader could not
    make sure that the log is still its own, is not.

    Args:
        pace: knows what the follower waits for; None: for nothing.
    """
    pace = pace or ReportPace()
    confirmed = log.lac
    yield LacReport(epoch, confirmed)
    while log.failure is None:
        await pace.rest(confirmed)
        before = confirmed
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT_S):
                confirmed = await log.lac_after(confirmed)
        yield LacReport(epoch, confirmed, log.recent_entries(before, confirmed))


Reports = Callable[[LeaderRecord, str, str, ReadIndexAsker], AsyncGenerator[LacReport, None]]
"""The reports of a leader, of a tablespace, of the log with an id; and the asker of questions meanwhile.

Raises:
    RemoteError: it cannot be reached, does not lead, or what comes is damaged.
    OSError: a file of passwords or certificates cannot be read.
"""


def remote_reports(credentials: Credentials, proof: Callable[[], str | None]) -> Reports:
    """The reports that come over gRPC, or the connection that is taken in its place."""

    async def reports(
        leader: LeaderRecord, tablespace: str, log_id: str, asker: ReadIndexAsker
    ) -> AsyncGenerator[LacReport, None]:
        assert leader.grpc is not None
        place = await asyncio.to_thread(credentials.place, leader.grpc, proof)
        sql = None if leader.sql is None else (leader.sql.host, leader.sql.port)
        async with aclosing(lac_reports(place, tablespace, log_id, sql, asker)) as coming:
            async for report in coming:
                yield report

    return reports


class LacListener:
    """Listens to whoever leads, while a replica follows.

    Args:
        reports: opens a leader's reports; None: nobody is listened to.
        node: this one, which does not listen to itself.
        leader: who leads, as far as is known.
        questions: go to the one that is listened to.
        clock: that of leases.
        lost: called when a leader is heard no more.
    """

    def __init__(
        self,
        reports: Reports | None,
        node: str,
        tablespace: str,
        leader: Callable[[], LeaderRecord | None],
        questions: LeaderQuestions,
        *,
        clock: Clock = boottime,
        lost: Callable[[], object] = lambda: None,
    ) -> None:
        self._reports = reports
        self._node = node
        self._tablespace = tablespace
        self._leader = leader
        self._questions = questions
        self._clock = clock
        self._lost = lost
        self._changed = asyncio.Event()
        self._hearing = ("", 0)  # the node and the epoch of whom it listens to
        self._heard_until_s = -math.inf

    def look(self) -> None:
        """Another may lead. The last leader is listened to until then, whatever has become of its znode."""
        leader = self._leader()
        if leader is not None and (leader.node, leader.epoch) != self._hearing:
            self._changed.set()

    def heard_until_s(self, leader: LeaderRecord) -> float:
        """Until when, by the clock, this leader counts as heard, which it is every ``HEARTBEAT_S``."""
        return self._heard_until_s if (leader.node, leader.epoch) == self._hearing else -math.inf

    @asynccontextmanager
    async def listening(self, log: FollowedLog) -> AsyncIterator[None]:
        """Pass what is heard to the log, during the block."""
        task = None
        if self._reports is not None:
            task = asyncio.get_running_loop().create_task(self._listen(log, self._reports), name="reports")
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _listen(self, log: FollowedLog, reports: Reports) -> None:
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            self._changed.clear()
            leader = self._leader()
            pause_s: float | None = None
            if leader is not None and leader.grpc is not None and leader.node != self._node:
                await self._until_changed(self._hear(leader, log, reports, backoff))
                pause_s = backoff.pause_s()
            await self._pause(pause_s)

    async def _pause(self, pause_s: float | None) -> None:
        """Before another attempt: until another leads, or that time has passed; less where reads wait."""
        if pause_s is None:
            await self._changed.wait()
            return
        soon_s = min(pause_s, _SOON_S)
        await self._woken(soon_s, self._changed.wait())
        if pause_s > soon_s and not self._changed.is_set():
            await self._woken(pause_s - soon_s, self._changed.wait(), self._questions.called_for())

    async def _woken(self, pause_s: float, *by: Coroutine[Any, Any, object]) -> None:
        """Until the first of these returns, or that time has passed."""
        tasks: list[asyncio.Future[object]] = [asyncio.ensure_future(one) for one in by]
        try:
            await asyncio.wait(tasks, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_changed(self, work: Coroutine[Any, Any, None]) -> None:
        """Let it go on until it ends, or another leads."""
        hearing: asyncio.Future[object] = asyncio.ensure_future(work)
        changed: asyncio.Future[object] = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({hearing, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            hearing.cancel()
            error, _ = await asyncio.gather(hearing, changed, return_exceptions=True)
            if isinstance(error, Exception):
                logger.error("listening to the leader failed", exc_info=error)

    async def _hear(self, leader: LeaderRecord, log: FollowedLog, reports: Reports, backoff: Backoff) -> None:
        """Pass on what one leader reports, until it does so no more."""
        loop = asyncio.get_running_loop()
        set_s = -math.inf
        self._hearing = leader.node, leader.epoch
        try:
            async with (
                asyncio.timeout(_CONNECT_S) as deadline,
                aclosing(
                    reports(leader, self._tablespace, (await log.state()).log_id, self._questions)
                ) as coming,
            ):
                async for report in coming:
                    if report.epoch < leader.epoch:
                        self._note(leader, f"it still reports for epoch {report.epoch}")
                        return
                    log.report(report.confirmed, SILENT_S, report.entries)
                    backoff.reset()
                    if (now_s := loop.time()) - set_s > _SLACK_S:
                        deadline.reschedule(now_s + SILENT_S + _SLACK_S)
                        self._heard_until_s = self._clock() + _HEARD_S
                        set_s = now_s
        except (RemoteError, LogError, OSError) as error:  # TimeoutError among them
            self._note(leader, repr(error))
        finally:
            self._questions.disconnected()
            self._hearing, self._heard_until_s = ("", 0), -math.inf
            log.report(START, 0.0)
            self._lost()

    def _note(self, leader: LeaderRecord, reason: str) -> None:
        logger.debug(
            "the leader does not report",
            extra={"tablespace": self._tablespace, "leader": leader.node, "reason": reason},
        )

"""Reports of how far the log is confirmed: a leader's, and the followers that listen to them.

Beside ``following``; DESIGN.md says why a follower may believe them. A leader reports when entries were
confirmed, at most every ``REPORT_S``, and otherwise every ``HEARTBEAT_S``; the entries go along as far as
they are at hand. A follower passes what it hears to the log that it tails (``FollowedLog.report``). When no
report comes for ``SILENT_S``, whatever the reason, its tail asks the bookies, as it would without reports.
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
from herdpy_server.cluster.layout import LeaderRecord
from herdpy_server.replica.seeding import Credentials

logger = logging.getLogger("herdpy.replica")

REPORT_S = 0.003
"""What is confirmed within that time is one report."""
HEARTBEAT_S = 0.5
SILENT_S = 1.5
_SLACK_S = 0.1
"""So much later silence may be noticed: a timer is not set anew for each report."""
_CONNECT_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


class ConfirmingLog(Protocol):
    """What reports are made of: ``LeaderLog``."""

    @property
    def lac(self) -> LSN: ...

    @property
    def failure(self) -> LogError | None: ...

    async def lac_after(self, position: LSN) -> LSN: ...

    def recent_entries(self, after: LSN, upto: LSN) -> tuple[bytes, ...]: ...


async def reports_of(log: ConfirmingLog, epoch: int) -> AsyncGenerator[LacReport, None]:
    """What the leader of a log reports, until it can write the log no more.

    Only what the log has acknowledged is reported: an entry that bookies have, while the leader could not
    make sure that the log is still its own, is not.
    """
    confirmed = log.lac
    yield LacReport(epoch, confirmed)
    while log.failure is None:
        await asyncio.sleep(REPORT_S)
        before = confirmed
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT_S):
                confirmed = await log.lac_after(confirmed)
        yield LacReport(epoch, confirmed, log.recent_entries(before, confirmed))


Reports = Callable[[LeaderRecord, str, str], AsyncGenerator[LacReport, None]]
"""The reports of a leader, of a tablespace, of the log with an id.

Raises:
    RemoteError: it cannot be reached, does not lead, or what comes is damaged.
    OSError: a file of passwords or certificates cannot be read.
"""


def remote_reports(credentials: Credentials, proof: Callable[[], str | None]) -> Reports:
    """The reports that come over gRPC, or the connection that is taken in its place."""

    async def reports(leader: LeaderRecord, tablespace: str, log_id: str) -> AsyncGenerator[LacReport, None]:
        assert leader.grpc is not None
        place = await asyncio.to_thread(credentials.place, leader.grpc, proof)
        sql = None if leader.sql is None else (leader.sql.host, leader.sql.port)
        async with aclosing(lac_reports(place, tablespace, log_id, sql)) as coming:
            async for report in coming:
                yield report

    return reports


class LacListener:
    """Listens to whoever leads, while a replica follows.

    Args:
        reports: opens a leader's reports; None: nobody is listened to.
        node: this one, which does not listen to itself.
        leader: who leads, as far as is known.
    """

    def __init__(
        self,
        reports: Reports | None,
        node: str,
        tablespace: str,
        leader: Callable[[], LeaderRecord | None],
    ) -> None:
        self._reports = reports
        self._node = node
        self._tablespace = tablespace
        self._leader = leader
        self._changed = asyncio.Event()

    def look(self) -> None:
        """Another may lead."""
        self._changed.set()

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
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()

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
        try:
            async with (
                asyncio.timeout(_CONNECT_S) as deadline,
                aclosing(reports(leader, self._tablespace, (await log.state()).log_id)) as coming,
            ):
                async for report in coming:
                    if report.epoch < leader.epoch:
                        self._note(leader, f"it still reports for epoch {report.epoch}")
                        return
                    log.report(report.confirmed, SILENT_S, report.entries)
                    backoff.reset()
                    if (now_s := loop.time()) - set_s > _SLACK_S:
                        deadline.reschedule(now_s + SILENT_S + _SLACK_S)
                        set_s = now_s
        except (RemoteError, LogError, OSError) as error:  # TimeoutError among them
            self._note(leader, repr(error))
        finally:
            log.report(START, 0.0)

    def _note(self, leader: LeaderRecord, reason: str) -> None:
        logger.debug(
            "the leader does not report",
            extra={"tablespace": self._tablespace, "leader": leader.node, "reason": reason},
        )

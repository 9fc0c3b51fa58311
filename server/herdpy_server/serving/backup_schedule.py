"""The backups of a tablespace in the server's repository: made when they are due, expired, and known of.

Above ``backups``, which makes one; ``alone`` and replicas have a schedule each. Any replica makes what is
due: a follower where there is one, one node at a time (``LogBackend.backup_lock``). What there is, a process
of its own looks up now and then (``backup.upkeep``), so herdpy.backups and metrics answer from memory,
whatever the repository does. All of it is for the loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from herdpy.backup.policy import KeepPolicy
from herdpy.bookkeeper import BookKeeperError
from herdpy.log import LogError
from herdpy.log.lsn import LSN
from herdpy.log.place import without_userinfo
from herdpy_server.backup.messages import Scope
from herdpy_server.backup.upkeep import look
from herdpy_server.backup.upkeep_messages import KnownBackup, ListedBackups, UpkeepOrder
from herdpy_server.cluster.certain import GivenUpError
from herdpy_server.cluster.errors import ClusterError
from herdpy_server.cluster.positions import now_us
from herdpy_server.serving.backups import BackupDefaults, BackupRequest, backup_key
from herdpy_server.serving.logs import LogBackend
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.backup")

_LOOK_S: Final = 15.0
LISTED_EVERY_S: Final = 300.0
"""How often a node looks into the repository for what others have made."""
_RETRY_S = 60.0
_LATE_INTERVALS = 2
_ONLY_HERE_S = 3600.0
"""How late a backup counts as that no other node knows to be due."""
_OTHERS_WAIT_S = 20.0
"""How long after a backup was due the node that made the last one is waited for."""
_EXPECTED = (BookKeeperError, ClusterError, LogError, GivenUpError, SqlError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupScheduleSettings:
    """The section ``backup`` of a server's configuration, as far as it is about what is made when.

    Attributes:
        making: how backups are made, and in which repository; without a URL nothing is done.
        full_interval_s, incremental_interval_s: 0: only on request.
        keep: what stays; one that keeps nothing: everything stays.
    """

    making: BackupDefaults = field(default_factory=BackupDefaults)
    full_interval_s: float = 0.0
    incremental_interval_s: float = 0.0
    keep: KeepPolicy = field(default_factory=KeepPolicy)

    @property
    def shortest_s(self) -> float:
        """How old the newest backup may become; 0: nothing is scheduled."""
        given = (self.full_interval_s, self.incremental_interval_s)
        return min((one for one in given if one > 0), default=0.0)


class MakesBackups(Protocol):
    """Makes one backup (``BackupMaking.make``)."""

    async def __call__(self, request: BackupRequest, defaults: BackupDefaults) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupsStatus:
    """What is known of a tablespace's backups.

    Attributes:
        backups: how many there are; None: not known yet.
        newest_us: when the newest one began; 0: there is none.
        newest_full_us: when the newest full one began, which may be expired when others have its pages.
        failures: how often making, expiring or listing them failed since the server's start.
        failure: why, the last time; None: it did not.
        is_late: whether operators have been alarmed that none was made for too long.
    """

    backups: int | None
    newest_us: int
    newest_full_us: int
    failures: int
    failure: str | None
    is_late: bool


class BackupSchedule:
    """Of one tablespace; :meth:`start` and :meth:`close` are its life.

    Args:
        node: this server's, for others to know; empty: it is alone.
        gap_upto: up to where the archive lacks entries that were trimmed; None: nowhere.
    """

    def __init__(
        self,
        backend: LogBackend,
        settings: BackupScheduleSettings,
        make: MakesBackups,
        node: str = "",
        gap_upto: Callable[[], LSN | None] = lambda: None,
    ) -> None:
        self._backend = backend
        self.settings = settings
        self._make = make
        self._node = node
        self._gap_upto = gap_upto
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._began_us = now_us()
        self._listed: ListedBackups | None = None
        self._listed_us = 0
        self._makes_since_us = 0
        self._failures = self._failed_us = 0
        self._failure: str | None = None
        self._is_late = False

    def start(self) -> None:
        """Look after the backups from now on."""
        if self.settings.making.url:
            self._began_us = now_us()
            self._running = asyncio.get_running_loop().create_task(self._run(), name="backups")

    async def close(self) -> None:
        """Give up what is under way."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def look(self) -> None:
        """A backup was made on request, or the tablespace is led by another."""
        self._changed.set()
        self._listed_us = 0

    @property
    def is_on(self) -> bool:
        """Whether there is a repository."""
        return bool(self.settings.making.url)

    # When.

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                wait_s = await self._round()
                self._worked()
            except _EXPECTED as error:
                wait_s = self._failed(str(error))
            except Exception as error:
                logger.exception("backups failed, and are tried again", extra=self._extra())
                wait_s = self._failed(repr(error))
            self._watch()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    async def _round(self) -> float:
        """Make what is due if it is to be done here; returns after how many seconds to look again."""
        if self._listed is None or now_us() - self._listed_us > LISTED_EVERY_S * 1e6:
            await self._look()
        _scope, due_s = self._due()
        if due_s > 0:
            return min(due_s, _LOOK_S)
        if not await self._backend.is_ours(-due_s):
            return _LOOK_S
        if -due_s < _OTHERS_WAIT_S and self._is_made_by_another():
            return 1.0
        lock = self._backend.backup_lock()
        if await lock.take() is not None:
            return _LOOK_S
        try:
            await self._look()
            scope, due_s = self._due()
            if due_s <= 0:  # another might just have done it
                await self._make_one(scope)
        finally:
            await asyncio.shield(lock.release())
        return 1.0

    def _is_made_by_another(self) -> bool:
        """Whether another node made the newest backup: its pages are known, those of this replica are not."""
        found = [] if self._listed is None else self._listed.backups
        newest = max(found, key=lambda one: one.begun_us, default=None)
        return newest is not None and newest.node not in ("", self._node)

    def _due(self) -> tuple[Scope, float]:
        """What is to be made next, and in how many seconds; negative: it was."""
        settings, found = self.settings, [] if self._listed is None else self._listed.backups
        dues: list[tuple[float, Scope]] = [(_LOOK_S, "any")]
        if settings.full_interval_s:
            full_us = max((one.full_us for one in found), default=0)
            dues.append((self._due_s(full_us, settings.full_interval_s), "full"))
        if settings.incremental_interval_s:
            newest_us = max((one.begun_us for one in found), default=0)
            dues.append((self._due_s(newest_us, settings.incremental_interval_s), "any"))
        gap = self._gap_upto()
        if gap is not None and settings.shortest_s and all(LSN.parse(one.image) < gap for one in found):
            dues.append((-_ONLY_HERE_S, "any"))
        due = [one for one in dues if one[0] <= 0]
        due_s, scope = next((one for one in due if one[1] == "full"), None) or min(due or dues)
        return scope, due_s

    def _due_s(self, begun_us: int, interval_s: float) -> float:
        """When the next is due, if the newest one began then; 0: there is none, since this server's start."""
        return (begun_us - now_us()) / 1e6 + interval_s if begun_us else (self._began_us - now_us()) / 1e6

    # What.

    async def _make_one(self, scope: Scope) -> None:
        self._makes_since_us = now_us()
        try:
            await self._make(BackupRequest(scope=scope), self.settings.making)
        finally:
            self._makes_since_us = 0
        await self._look(self.settings.keep)

    async def _look(self, policy: KeepPolicy | None = None) -> None:
        """Look up which backups there are; expired by the policy first."""
        making = self.settings.making
        place = await self._backend.place()
        order = UpkeepOrder(
            url=making.url,
            key=await asyncio.to_thread(backup_key, making.key_file),
            log_id=place.log_id,
            policy=policy if policy is not None and policy.keeps_any else None,
        )
        listed = await look(order, making.niceness)
        self._listed, self._listed_us = listed, now_us()
        if listed.removed:
            logger.info("backups expired", extra=self._extra(ids=listed.removed, bytes=listed.freed_bytes))
        if listed.kept_back is not None:
            raise SqlError("55000", listed.kept_back)

    # How it went.

    def _worked(self) -> None:
        if self._failure is not None:
            logger.warning("backups work again", extra=self._extra())
        self._failure = None

    def _failed(self, reason: str) -> float:
        """Returns after how many seconds to try again."""
        self._failures += 1
        self._failed_us = now_us()
        if reason != self._failure:
            logger.error("backups failed, and are tried again", extra=self._extra(reason=reason))
        self._failure = reason
        return _RETRY_S

    def _watch(self) -> None:
        """Alarm operators once when the newest backup is too old, and once when there is another."""
        settings, status = self.settings, self.status()
        if not settings.shortest_s:
            return
        age_s = (now_us() - (status.newest_us or self._began_us)) / 1e6
        full_s = (now_us() - (status.newest_full_us or self._began_us)) / 1e6
        is_late = age_s > _LATE_INTERVALS * settings.shortest_s or (
            settings.full_interval_s > 0 and full_s > _LATE_INTERVALS * settings.full_interval_s
        )
        if is_late and not self._is_late:
            logger.error(
                "the newest backup is too old",
                extra=self._extra(age_s=round(age_s), full_age_s=round(full_s), reason=self._failure),
            )
        elif self._is_late and not is_late:
            logger.warning("there is a new backup again", extra=self._extra())
        self._is_late = is_late

    def _extra(self, **more: object) -> dict[str, object]:
        return {
            "tablespace": self._backend.tablespace,
            "url": without_userinfo(self.settings.making.url),
            **more,
        }

    # What others see.

    def status(self) -> BackupsStatus:
        """What is known now."""
        found = [] if self._listed is None else self._listed.backups
        return BackupsStatus(
            backups=None if self._listed is None else len(found),
            newest_us=max((one.begun_us for one in found), default=0),
            newest_full_us=max((one.full_us for one in found), default=0),
            failures=self._failures,
            failure=self._failure,
            is_late=self._is_late,
        )

    def rows(self) -> list[dict[str, Any]]:
        """Of herdpy.backups, oldest first."""
        rows = []
        if self._listed is not None:
            rows += [self._row("whole", one) for one in self._listed.backups]
            rows += [
                self._row("damaged") | {"id": backup, "problem": reason}
                for backup, reason in self._listed.damaged
            ]
        if self._makes_since_us:
            rows.append(self._row("making") | {"begun": self._makes_since_us, "made_by": self._node or None})
        if self._failure is not None:
            failed = {"finished": self._failed_us, "problem": self._failure, "made_by": self._node or None}
            rows.append(self._row("failed") | failed)
        return rows

    def _row(self, state: str, one: KnownBackup | None = None) -> dict[str, Any]:
        row: dict[str, Any] = dict.fromkeys(COLUMNS)
        row |= {"tablespace": self._backend.tablespace, "node": self._node or None, "state": state}
        row["as_of"] = self._listed_us or None
        if one is None:
            return row
        return row | {
            "id": one.id,
            "kind": one.kind,
            "begun": one.begun_us,
            "finished": one.finished_us,
            "image_lsn": one.image,
            "end_lsn": one.end,
            "end_time": one.time_us or None,
            "parent": one.parent,
            "tables": one.tables,
            "rows": one.rows,
            "raw_bytes": one.raw_bytes,
            "stored_bytes": one.stored_bytes,
            "made_by": one.node or None,
        }


COLUMNS = (
    "tablespace",
    "node",
    "id",
    "state",
    "kind",
    "begun",
    "finished",
    "image_lsn",
    "end_lsn",
    "end_time",
    "parent",
    "tables",
    "rows",
    "raw_bytes",
    "stored_bytes",
    "made_by",
    "as_of",
    "problem",
)
"""Of herdpy.backups."""

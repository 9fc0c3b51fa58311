"""What a leader does besides answering: it trims the log, replaces replicas, hands over to the preferred one.

Between ``base`` and ``replica``, for as long as a term lasts. On a cadence, and when something it looks at
has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from herdpy.bookkeeper import BookKeeperError
from herdpy.bookkeeper.metadata.znodes import Watch
from herdpy.log import LedgerInfo, LogError
from herdpy.log.bookkeeper import LeaderLog, is_ahead
from herdpy.log.lsn import LSN
from herdpy.log.staging import delete_staged
from herdpy_server.cluster.errors import MalformedMetadataError
from herdpy_server.cluster.placement import choose_replicas, hands_over_to, loads_of
from herdpy_server.cluster.positions import claim_trim, force_trim, read_needs
from herdpy_server.cluster.readers import published_of, sweep_readers
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.guard import ReplicaState
from herdpy_server.tablespace.cluster import retained
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.replica")

_CADENCE_S = 2.0
_SWEEP_S = 600.0
_LIST_CROWDED = 0.9
"""Of what ZooKeeper takes: a list of ledgers that is larger is shortened, whoever needs them."""
CLOSE_ENTRIES = 1000
"""A replica that is no further behind may lead without anybody waiting long for it."""


class LeaderTasks:
    """Of one replica, when it leads.

    Args:
        archived: the log's entries after that are kept for the archive; None: none are.
        hand_over: has another replica lead, after what is under way is finished. fulfil_word: does what an
            operator said of this replica; SqlError, BookKeeperError: it is not done yet.
    """

    def __init__(
        self,
        replica: ReplicaBase,
        hand_over: Callable[[], object],
        archived: Callable[[], LSN | None],
        fulfil_word: Callable[[], Awaitable[object]],
    ) -> None:
        self._replica = replica
        self._hand_over = hand_over
        self._archived = archived
        self._fulfil_word = fulfil_word
        self._host = replica.host
        self._paths = replica.host.coordination.layout.tablespace(replica.info.name)
        self._wanted = asyncio.Event()
        self._swept_s = 0.0
        self._preferred: tuple[str, Watch] | None = None  # who is to lead, and what its replica reports

    def look(self) -> None:
        """Something changed that they depend on."""
        self._wanted.set()

    async def perform(self, log: LeaderLog) -> None:
        """Until cancelled, or until another is to lead."""
        stop = self._host.coordination.membership.on_change(lambda _node, _record: self.look())
        try:
            while True:
                self._wanted.clear()
                try:
                    await self._round(log)
                except (BookKeeperError, LogError, SqlError, MalformedMetadataError) as error:
                    logger.warning(
                        "a leader's tasks are tried again",
                        extra={"tablespace": self._replica.info.name, "reason": str(error)},
                    )
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CADENCE_S):
                        await self._wanted.wait()
        finally:
            stop()
            self._watch(None)

    def _watch(self, preferred: str | None) -> None:
        """Look again whenever the replica of the node that is to lead reports; None: nobody else is to."""
        if self._preferred is not None:
            if self._preferred[0] == preferred:
                return
            self._preferred[1].cancel()
            self._preferred = None
        if preferred is not None:
            path = f"{self._paths.replicas}/{preferred}"
            watch = self._host.bk.znodes.watch_data(path, lambda _znode: self.look())
            self._preferred = (preferred, watch)

    async def _round(self, log: LeaderLog) -> None:
        self._replica.report()
        await self._fulfil_word()
        if await self.hands_over_to_preferred(log):
            return
        await self._place(log)
        await self._trim(log)
        await self._sweep(log)

    async def hands_over_to_preferred(self, log: LeaderLog) -> bool:
        """Whether the preferred leader is there, fit and close: then it leads.

        How close it is follows from the position that it tells. It knows itself of as much of the log only
        as it has heard of, so right after it began to follow it is behind nothing that it knows.
        """
        info, own = self._replica.info, self._host.node
        preferred = None if info.leader == own else info.leader
        self._watch(preferred)
        if preferred is None:
            return False
        needs = await read_needs(self._host.bk.znodes, self._paths)
        able = [
            record.node
            for record in needs.replicas.values()
            if record.state == ReplicaState.FOLLOWING.value
            and not record.unfit
            and entries_after(log.ledgers(), record.applied, log.lac) <= CLOSE_ENTRIES
        ]
        if hands_over_to(info, own, able) is None:
            return False
        logger.info("hands over", extra={"tablespace": info.name, "for": info.leader})
        self._hand_over()
        return True

    async def _evidence(self, log: LeaderLog) -> set[str]:
        """The nodes whose replicas have what the log has not, away or not: an operator decides about them."""
        needs = await read_needs(self._host.bk.znodes, self._paths)
        ahead = {
            record.node for record in needs.replicas.values() if record.state == ReplicaState.AHEAD.value
        }
        return ahead | {
            node
            for node, position in needs.positions.items()
            if position.kept or is_ahead(log.state, position.durable)
        }

    async def _place(self, log: LeaderLog) -> None:
        """Replace replicas whose nodes have been away for too long; add and remove to the number wanted."""
        coordination, own = self._host.coordination, self._host.node
        info = self._replica.info
        nodes = set(coordination.membership.nodes) | set(info.replicas)
        away_s = {node: coordination.membership.away_s(node) for node in nodes}
        loads = dict.fromkeys(nodes, 0) | loads_of(coordination.tablespaces.known.values())

        keep = {own}

        def chosen(now: TablespaceInfo) -> tuple[str, ...]:
            return choose_replicas(
                now.replicas,
                now.expected_replicas,
                away_s,
                loads,
                replace_after_s=self._host.replace_after_s,
                keep=keep,
            )

        def changed(now: TablespaceInfo) -> TablespaceInfo:
            replicas = chosen(now)
            leader = now.leader if now.leader in replicas else None
            return msgspec.structs.replace(now, replicas=replicas, leader=leader)

        if chosen(info) != info.replicas:
            keep |= await self._evidence(log)
        if chosen(info) != info.replicas:
            altered = await coordination.tablespaces.alter(info.name, changed, uuid=info.uuid)
            logger.info("replicas placed", extra={"tablespace": info.name, "nodes": altered.replicas})

    async def _trim(self, log: LeaderLog) -> None:
        """Let ledgers go that nobody needs, but for as many as are to be kept in any case."""
        info, opened = self._replica.info, self._replica.opened
        if opened is None:
            return
        if log.list_share > _LIST_CROWDED:
            await self._let_go(log, opened.store.durable)
        beyond = retained(log.ledgers(), info.retention_bytes)
        if beyond is None:
            return
        published = await published_of(self._host.bk.znodes, self._paths, info)
        archived = self._archived()
        floor = await claim_trim(
            self._host.bk.znodes,
            self._paths,
            checkpoint=min(
                opened.store.floor,
                beyond,
                beyond if published is None else published.floor,
                beyond if archived is None else archived,
            ),
            replicas=info.replicas,
            retention_s=info.retention_s,
        )
        trimmed = await log.atrim(floor)
        if trimmed:
            logger.info("ledgers trimmed", extra={"tablespace": info.name, "ledgers": trimmed})
        unneeded = opened.store.log_trimmed(log.state.base)
        if unneeded:
            await delete_staged(self._host.bk, unneeded)

    async def _let_go(self, log: LeaderLog, durable: LSN) -> None:
        """The ledger list is nearly full: rather than writing, the slowest replicas and readers stop. They
        are seeded, or learn that what they need is gone."""
        closed = [one for one in log.ledgers() if one.closed]
        floor = min(durable, closed[len(closed) // 2].last) if closed else durable
        await force_trim(self._host.bk.znodes, self._paths, floor)
        trimmed = await log.atrim(floor)
        logger.error(
            "the ledger list was nearly full: the log is trimmed past the slowest readers",
            extra={"tablespace": self._replica.info.name, "floor": str(floor), "ledgers": len(trimmed)},
        )

    async def _sweep(self, log: LeaderLog) -> None:
        """Now and then, delete the ledgers that somebody made for this log and that are part of nothing."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._swept_s > _SWEEP_S:
            self._swept_s = now_s
            await log.asweep()
            await sweep_readers(self._host.bk.znodes, self._paths)
            if (place := self._replica.load_ledgers()) is not None:
                await place.sweep()


def entries_after(ledgers: Sequence[LedgerInfo], position: LSN, end: LSN) -> float:
    """How many entries a log has after ``position``, to ``end``; infinity while that is not known.

    Those that were trimmed are not counted: who lacks them is seeded first.
    """
    count = 0
    for ledger in ledgers:
        if not position.ledger_id <= ledger.ledger_id <= end.ledger_id:
            continue
        if ledger.ledger_id == end.ledger_id:
            last = end.entry_id
        elif ledger.closed:
            last = ledger.last_entry_id
        else:
            return math.inf
        count += max(last - (position.entry_id if ledger.ledger_id == position.ledger_id else -1), 0)
    return count

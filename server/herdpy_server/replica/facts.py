"""What the system tables say of the cluster: nodes, tablespaces, replicas, ledgers, and the log here.

Beside ``administration``, from ZooKeeper and this node's own replicas. It is read when somebody asks, several
who ask at the same time share one reading, and ``as_of`` says from when it is. Replicas report once a second
what they have applied (at once when their state changes); ``reported`` says when.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from herdpy.bookkeeper import BookKeeperError
from herdpy.bookkeeper.metadata.znodes import NoNodeError
from herdpy.log.bookkeeper import ZnodeLedgerList
from herdpy.log.errors import LogError
from herdpy.log.ledger_list import LedgerListState
from herdpy_server.cluster.errors import MalformedMetadataError
from herdpy_server.cluster.layout import LeaderRecord, PublishedRecord, decode
from herdpy_server.cluster.positions import Needs, read_needs
from herdpy_server.cluster.readers import published_of
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica.host import Host
from herdpy_server.tablespace.cluster import (
    Facts,
    LogNeed,
    Remark,
    flashback_row,
    ledger_rows,
    limit_rows,
    retention_need,
)
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.replica.replica import Replica

_PATIENCE_S = 2.0
_AT_A_TIME = 16

Row = dict[str, Any]
Ensembles = Mapping[int, Sequence[str]]


class ClusterFacts:
    """The cluster, as one node sees it.

    Args:
        replicas: this node's, by tablespace.
    """

    def __init__(self, host: Host, replicas: Mapping[str, Replica]) -> None:
        self._host = host
        self._replicas = replicas
        self._reading: asyncio.Task[Facts] | None = None
        self._last: Facts | None = None
        self._as_of_us = 0

    async def read(self) -> tuple[Facts, Remark | None]:
        """All of it. SqlError 08001 when ZooKeeper does not answer, and never did."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().create_task(self._read(), name="facts")
            self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await asyncio.shield(self._reading), None
        except (TimeoutError, BookKeeperError, LogError, MalformedMetadataError) as error:
            reason = str(error) or "it does not answer"
            if self._last is None:
                raise SqlError("08001", "ZooKeeper cannot be reached", detail=reason) from error
            age_s = (time.time_ns() // 1000 - self._as_of_us) / 1e6
            text = f"ZooKeeper cannot be reached ({reason}): this is as of {age_s:.1f} s ago"
            return {**self._last, **self._here()}, Remark("WARNING", "01000", text)

    async def close(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def leaders(self) -> dict[str, str]:
        """The node that leads each tablespace that has a leader; BookKeeperError."""
        infos = self._infos()
        found = await asyncio.gather(*(self._leader(info.name) for info in infos))
        return {
            info.name: record.node for info, record in zip(infos, found, strict=True) if record is not None
        }

    def _infos(self) -> list[TablespaceInfo]:
        return sorted(self._host.coordination.tablespaces.known.values(), key=lambda info: info.name)

    async def _infos_now(self) -> list[TablespaceInfo]:
        """As ZooKeeper has them: what was altered a moment ago has not been heard of yet, perhaps."""
        layout, znodes = self._host.coordination.layout, self._host.bk.znodes
        try:
            names = sorted(await znodes.children(layout.tablespaces))
        except NoNodeError:
            return []
        paths = [layout.tablespace(name).info for name in names]
        found = await asyncio.gather(*(znodes.exists(path) for path in paths))
        return [
            decode(TablespaceInfo, path, znode.data)
            for path, znode in zip(paths, found, strict=True)
            if znode is not None
        ]

    async def _read(self) -> Facts:
        as_of_us = time.time_ns() // 1000
        limit = asyncio.Semaphore(_AT_A_TIME)

        async def one(
            info: TablespaceInfo,
        ) -> tuple[Needs, LeaderRecord | None, LedgerListState | None, PublishedRecord | None, Ensembles]:
            paths, znodes = self._host.coordination.layout.tablespace(info.name), self._host.bk.znodes
            async with limit:
                needs, leader, ledgers, published = await asyncio.gather(
                    read_needs(znodes, paths),
                    self._leader(info.name),
                    ZnodeLedgerList(znodes, paths.ledgers).read(),
                    published_of(znodes, paths, info),
                )
                return needs, leader, ledgers, published, await self._ensembles(ledgers)

        infos = await self._infos_now()
        seen = dict(zip(infos, await asyncio.gather(*map(one, infos)), strict=True))
        leads = [leader.node for _, leader, _, _, _ in seen.values() if leader is not None]
        made: dict[str, list[Row]] = {
            "nodes": self._nodes(infos, leads),
            "tablespaces": [
                _tablespace(info, leader, ledgers, published)
                for info, (_, leader, ledgers, published, _) in seen.items()
            ],
            "replicas": [
                row
                for info, (needs, leader, _, _, _) in seen.items()
                for row in self._placed(info, needs, leader)
            ],
            "ledgers": [
                row
                for info, (needs, _, ledgers, published, ensembles) in seen.items()
                if ledgers is not None
                for row in ledger_rows(
                    info.name, ledgers.ledgers, self._log_needs(info, needs, ledgers, published), ensembles
                )
            ],
            "bookies": self._bookies([ensembles for _, _, _, _, ensembles in seen.values()]),
        }
        for rows in made.values():
            for row in rows:
                row["as_of"] = as_of_us
        made |= self._here()
        self._last, self._as_of_us = made, as_of_us
        return made

    async def _ensembles(self, ledgers: LedgerListState | None) -> Ensembles:
        """The bookies that get a log's entries now, by its open ledger."""
        found = {}
        for one in () if ledgers is None else ledgers.ledgers:
            if not one.closed:
                with contextlib.suppress(BookKeeperError):  # it was made, or goes, at this moment
                    metadata = await self._host.bk.ledger_metadata(one.ledger_id)
                    found[one.ledger_id] = metadata.segments[-1].members
        return found

    def _bookies(self, ensembles: list[Ensembles]) -> list[Row]:
        bk = self._host.bk
        usable, writable = bk.usable_bookies(), bk.writable_bookies()
        used = [bookie for one in ensembles for bookies in one.values() for bookie in bookies]
        return [
            {
                "bookie": bookie,
                "state": "writable" if bookie in usable else "failing" if bookie in writable else "away",
                "open_ledgers": used.count(bookie),
            }
            for bookie in sorted(writable.union(used))
        ]

    def _log_needs(
        self, info: TablespaceInfo, needs: Needs, ledgers: LedgerListState, published: PublishedRecord | None
    ) -> list[LogNeed]:
        """What the log of a tablespace is kept for; see ``positions.trim_floor``."""
        now_us, nodes = time.time_ns() // 1000, self._host.coordination.membership.nodes
        found = [retention_need(ledgers.ledgers, info.retention_bytes)]
        for node, position in sorted(needs.positions.items()):
            is_late = now_us - position.seen_us > info.retention_s * 1e6 and node not in needs.replicas
            if node not in info.replicas or position.kept or is_late:
                continue
            found.append(LogNeed(position.durable, f"replica {node}{'' if node in nodes else ' (away)'}"))
            if position.floor is not None and position.floor < position.durable:
                found.append(LogNeed(position.floor, f"the past on {node}"))
        if published is not None:
            found.append(LogNeed(published.floor, "snapshot"))
        replica = self._replicas.get(info.name)
        archived = None if replica is None else replica.archiver.floor()
        if archived is not None:
            found.append(LogNeed(archived, "archive"))
        return found + [
            LogNeed(one.lsn, f"reader: {one.purpose or 'unnamed'}")
            for one in needs.readers.values()
            if one.entries and one.expires_us > now_us
        ]

    def _here(self) -> dict[str, list[Row]]:
        """What this node knows by itself, as it is now."""
        return {
            "log_status": self._log_status(),
            "limits": self._limits(),
            "flashback": self._flashback(),
            "archive": self._archive(),
            "backups": self._backups(),
        }

    def _flashback(self) -> list[Row]:
        return [
            flashback_row(name, self._host.node, replica.opened.store.kept_past())
            for name, replica in sorted(self._replicas.items())
            if replica.opened is not None
        ]

    def _archive(self) -> list[Row]:
        """Of what is led here."""
        return [
            replica.archiver.status().row(name, self._host.node)
            for name, replica in sorted(self._replicas.items())
            if replica.archiver.is_running
        ]

    def _backups(self) -> list[Row]:
        return [row for _name, replica in sorted(self._replicas.items()) for row in replica.backups.rows()]

    def _limits(self) -> list[Row]:
        node = self._host.node
        return [
            row
            for name, replica in sorted(self._replicas.items())
            if replica.opened is not None
            for row in limit_rows(name, node, replica.opened.store.limits())
        ]

    async def _leader(self, name: str) -> LeaderRecord | None:
        path = self._host.coordination.layout.tablespace(name).leader
        znode = await self._host.bk.znodes.exists(path)
        return None if znode is None else decode(LeaderRecord, path, znode.data)

    def _nodes(self, infos: list[TablespaceInfo], leads: list[str]) -> list[Row]:
        placed = [node for info in infos if not info.dropped for node in info.replicas]
        return [
            {
                "node": node,
                "is_here": node == self._host.node,
                "sql_address": _text(record.sql),
                "grpc_address": _text(record.grpc),
                "http_address": _text(record.http),
                "version": record.version,
                "started": record.started_us,
                "replicas": placed.count(node),
                "leads": leads.count(node),
            }
            for node, record in sorted(self._host.coordination.membership.nodes.items())
        ]

    def _placed(self, info: TablespaceInfo, needs: Needs, leader: LeaderRecord | None) -> list[Row]:
        """The replicas that are to be, and those that are still there."""
        nodes = self._host.coordination.membership.nodes
        rows = []
        for node in dict.fromkeys((*info.replicas, *sorted(needs.replicas))):
            record, kept = needs.replicas.get(node), needs.positions.get(node)
            row: Row = {
                "tablespace": info.name,
                "node": node,
                "is_wanted": node in info.replicas and not info.dropped,
                "is_leader": leader is not None and leader.node == node,
                "state": "starting" if node in nodes else "away",
            }
            if record is not None:
                row |= {
                    "state": record.state,
                    "applied": str(record.applied),
                    "durable": str(record.durable),
                    "lag_entries": record.lag_entries,
                    "problem": record.problem or None,
                    "reported": record.updated_us,
                }
            elif kept is not None:
                row |= {
                    "durable": str(kept.durable),
                    "reported": kept.seen_us,
                    "problem": kept.kept or None,
                }
            rows.append(row)
        return rows

    def _log_status(self) -> list[Row]:
        """The log of each tablespace that this node has a replica of, as it is now."""
        rows = []
        for name, replica in sorted(self._replicas.items()):
            opened, lease, log = replica.opened, replica.guard.basis, replica.log
            leader = replica.guard.leader
            may_answer = None if lease is None else self._host.coordination.renewal.rests or lease.is_held
            failures = (
                ()
                if opened is None
                else (
                    log and log.failure,
                    opened.checkpointer.failure,
                    replica.publishing.failure,
                )
            )
            rows.append(
                {
                    "tablespace": name,
                    "node": self._host.node,
                    "state": replica.state.value,
                    "leader": None if leader is None else leader.node,
                    "epoch": None if leader is None else leader.epoch,
                    "applied": str(replica.applied),
                    "durable": None if opened is None else str(opened.store.durable),
                    "log_end": str(max(replica.log_end, replica.applied)),
                    "lag_entries": replica.lag_entries,
                    "pending": 0 if opened is None else opened.tablespace.pending,
                    "lease_is_valid": may_answer,
                    "problem": next((str(one) for one in failures if one), replica.unfit or replica.problem),
                }
            )
        return rows


def _tablespace(
    info: TablespaceInfo,
    leader: LeaderRecord | None,
    ledgers: LedgerListState | None,
    published: PublishedRecord | None,
) -> Row:
    listed = () if ledgers is None else ledgers.ledgers
    return {
        "name": info.name,
        "uuid": info.uuid,
        "state": "dropping" if info.dropped else "led" if leader is not None else "without leader",
        "leader": None if leader is None else leader.node,
        "preferred_leader": info.leader,
        "epoch": 0 if leader is None else leader.epoch,
        "replicas": ",".join(info.replicas),
        "expected_replicas": info.expected_replicas,
        "ensemble": info.ensemble,
        "write_quorum": info.write_quorum,
        "ack_quorum": info.ack_quorum,
        "strict": info.strict,
        "retention_bytes": info.retention_bytes,
        "retention_s": info.retention_s,
        "ledgers": len(listed),
        "log_bytes": sum(one.length for one in listed if one.closed),
        "snapshot_url": info.snapshot_url or None,
        "snapshot_interval_s": info.snapshot_interval_s,
        "snapshot_keep": info.snapshot_keep,
        "snapshot_history_s": info.snapshot_history_s,
        "snapshot": None if published is None else str(published.lsn),
        "snapshot_time": None if published is None else published.time_us,
        "created": info.created_us,
    }


def _text(address: object) -> str | None:
    return None if address is None else str(address)

"""What operators do to tablespaces, and what they see: a node as its sessions know it (``Cluster``).

Above ``cluster.tablespaces``, which changes one znode by compare-and-set; the replicas of all nodes follow
that. Any node does it for any tablespace. Here statements become changes, those that cannot work are refused
before anything is changed, and what the cluster does about a change is waited for where a client wants to
rely on it: a new leader leads, a dropped tablespace is gone.

A node leads when the election says so and its replica says "leading": elected, it has the log to recover
first. That is waited for by watches.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from herdpy.bookkeeper import BookKeeperError
from herdpy.bookkeeper.metadata.znodes import Watch, Znode, Znodes
from herdpy.log.wait import Wait
from herdpy_server.cluster.errors import MalformedMetadataError
from herdpy_server.cluster.layout import LeaderRecord, R, ReplicaRecord, TablespacePaths, decode
from herdpy_server.cluster.placement import check_room, loads_of
from herdpy_server.cluster.positions import read_needs
from herdpy_server.cluster.tablespaces import TablespaceInfo, validate
from herdpy_server.replica.facts import ClusterFacts
from herdpy_server.replica.guard import ReplicaState
from herdpy_server.replica.host import Host
from herdpy_server.replica.replica import Replica
from herdpy_server.tablespace.cluster import Checked, Facts, Remark
from herdpy_sql.errors import SqlError
from herdpy_sql.parse.object_commands import TablespaceCommand

logger = logging.getLogger("herdpy.node")

T = TypeVar("T")

_LEADER_PATIENCE_S = 10.0
_PREFERRED_PATIENCE_S = 3.0
_GONE_PATIENCE_S = 20.0
_QUORUMS = ("ensemble", "write_quorum", "ack_quorum")
_WHOLE = (ReplicaState.FOLLOWING.value, ReplicaState.LEADING.value)


class Administration:
    """See ``Cluster``. To be made on the loop, once the node has joined."""

    def __init__(
        self,
        host: Host,
        defaults: TablespaceInfo,
        create: Callable[[TablespaceInfo], Awaitable[TablespaceInfo]],
        facts: ClusterFacts,
        find: Callable[[str], Replica],
    ) -> None:
        """Args:
        defaults: what is not said of a new tablespace; its name is the default one's.
        create: places and makes a tablespace.
        find: the replica of a tablespace that is on this node; SqlError where there is none.
        """
        self._host = host
        self._defaults = defaults
        self._make = create
        self._facts = facts
        self._find = find
        self._running: set[asyncio.Task[Any]] = set()

    # What sessions ask.

    def change(self, command: TablespaceCommand, connected: str) -> Wait[Sequence[Remark]]:
        """See ``Cluster``."""
        logger.info("%s", command.name, extra={"tablespace": command.tablespace})
        if command.name == "CREATE TABLESPACE":
            return self._begun(self._create(command))
        if command.name == "ALTER TABLESPACE":
            return self._begun(self._alter(command))
        return self._begun(self._drop(command, connected))

    def check(self, tablespace: str) -> Wait[Checked]:
        """See ``Cluster``."""
        return self._begun(self._check(tablespace))

    def databases(self) -> Sequence[str]:
        """See ``Cluster``."""
        known = self._host.coordination.tablespaces.known
        return [name for name, info in known.items() if not info.dropped]

    def facts(self) -> Wait[tuple[Facts, Remark | None]]:
        """See ``Cluster``."""
        return self._begun(self._facts.read())

    def _begun(self, work: Coroutine[Any, Any, T]) -> Wait[T]:
        """What a task of its own comes to: sessions wait without one."""
        wait: Wait[T] = Wait()

        async def run() -> None:
            try:
                wait.resolve(await work)
            except (BookKeeperError, MalformedMetadataError) as error:
                wait.fail(SqlError("08001", "ZooKeeper does not answer as it should", detail=str(error)))
            except asyncio.CancelledError:
                wait.fail(SqlError("57P01", "the node is being closed", outcome="unknown"))
                raise
            except Exception as error:  # noqa: BLE001 - handed to the session that waits
                wait.fail(error)

        task = asyncio.get_running_loop().create_task(run(), name="administration")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return wait

    async def close(self) -> None:
        """End what is under way; what was written to ZooKeeper stands."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # The statements.

    async def _check(self, tablespace: str) -> Checked:
        replica = self._find(tablespace)
        logger.info("CHECK TABLESPACE", extra={"tablespace": tablespace})
        return await replica.checker.check()

    async def _create(self, command: TablespaceCommand) -> Sequence[Remark]:
        said = dict(command.changes)
        remarks: list[Remark] = []
        info = validate(_fitting(self._defaults, said, command.tablespace))
        known = self._host.coordination.tablespaces.known.get(info.name)
        if known is not None and not known.dropped:
            if "IF NOT EXISTS" in command.options:
                return [Remark("NOTICE", "42710", f'tablespace "{info.name}" already exists, skipping')]
            raise SqlError("42710", f'tablespace "{info.name}" already exists')
        named = (*info.replicas, *([info.leader] if info.leader is not None else []))
        self._check_nodes(named)
        self._check_room(named or None)
        remarks += self._bookies(info)
        made = await self._make(info)
        remarks += self._counts(made)
        # Its replica may be slower to open than another, which would lead for a moment and then make way.
        leader = await self._await_leader(made.name, made.leader, _PREFERRED_PATIENCE_S)
        if leader is None and await self._await_leader(made.name, None) is None:
            remarks.append(
                Remark("WARNING", "57P03", f'tablespace "{made.name}" is made, and no node leads it yet')
            )
        return remarks

    async def _alter(self, command: TablespaceCommand) -> Sequence[Remark]:
        name, said = command.tablespace, dict(command.changes)
        tablespaces = self._host.coordination.tablespaces
        before = await tablespaces.get(name)
        after = _altered(before, said)
        named = [node for node in after.replicas if node not in before.replicas]
        if "leader" in said and after.leader is not None:
            named.append(after.leader)
        self._check_nodes(named)
        self._check_room([node for node in named if node not in before.replicas])
        validate(after)
        if "replicas" in said:
            await self._check_kept(before, after)
        remarks: list[Remark] = []
        if any(getattr(before, one) != getattr(after, one) for one in (*_QUORUMS, "strict")):
            remarks += self._bookies(after)
            remarks.append(
                Remark(
                    "NOTICE",
                    "00000",
                    "ensemble, quorums and strict are those of the ledgers that the next leader makes",
                )
            )
        altered = await tablespaces.alter(name, lambda now: _altered(now, said), uuid=before.uuid)
        remarks += self._counts(altered)
        if "leader" in said and altered.leader is not None:
            leader = await self._await_leader(name, altered.leader)
            if leader is None:
                raise await self._taken_back(before, altered)
        return remarks

    async def _taken_back(self, before: TablespaceInfo, altered: TablespaceInfo) -> SqlError:
        """A hand-over failed: forget who was to lead, or it would happen some time later, unasked."""
        failed = await self._not_leading(altered)

        def chosen_before(now: TablespaceInfo) -> TablespaceInfo:
            if now.leader != altered.leader:
                return now  # somebody has chosen another one meanwhile
            leader = before.leader if before.leader in now.replicas else None
            return msgspec.structs.replace(now, leader=leader)

        await self._host.coordination.tablespaces.alter(altered.name, chosen_before, uuid=altered.uuid)
        return failed

    async def _drop(self, command: TablespaceCommand, connected: str) -> Sequence[Remark]:
        name, tablespaces = command.tablespace, self._host.coordination.tablespaces
        if name == connected:
            raise SqlError(
                "55006",
                "cannot drop the tablespace that the session is connected to",
                hint="Connect to another one.",
            )
        if name == self._defaults.name and "FORCE" not in command.options:
            raise SqlError(
                "55006",
                f'tablespace "{name}" is the default one of this cluster',
                hint=f'DROP TABLESPACE "{name}" WITH (FORCE) drops it all the same.',
            )
        try:
            info = await tablespaces.get(name)
        except SqlError as error:
            if error.sqlstate == "42704" and "IF EXISTS" in command.options:
                return [Remark("NOTICE", "00000", f'tablespace "{name}" does not exist, skipping')]
            raise
        gone = asyncio.Event()
        stop = await tablespaces.watch(
            lambda one, now: gone.set() if one == name and (now is None or now.uuid != info.uuid) else None
        )
        try:
            await tablespaces.drop(name)
            async with asyncio.timeout(_GONE_PATIENCE_S):
                await gone.wait()
        except TimeoutError:
            text = f'tablespace "{name}" is dropped; its ledgers are still being removed'
            return [Remark("WARNING", "01000", text)]
        finally:
            stop()
        return []

    # Refusals and messages.

    def _check_nodes(self, named: Sequence[str]) -> None:
        """SqlError 42704 for a node that is not there."""
        nodes = self._host.coordination.membership.nodes
        for node in named:
            if node not in nodes:
                raise SqlError(
                    "42704",
                    f'node "{node}" is not there',
                    hint=f"The nodes of this cluster are {', '.join(sorted(nodes))}.",
                )

    def _check_room(self, nodes: Sequence[str] | None) -> None:
        """SqlError 53400 when one of the nodes cannot take another replica; None: when no node can."""
        infos = self._host.coordination.tablespaces.known.values()
        if nodes is None:
            loads = loads_of(infos)
            nodes = sorted(self._host.coordination.membership.nodes, key=lambda node: loads.get(node, 0))[:1]
        check_room(nodes, infos)

    async def _check_kept(self, before: TablespaceInfo, after: TablespaceInfo) -> None:
        """SqlError 55000 when no replica would be left that has the state."""
        if not set(before.replicas) - set(after.replicas):
            return
        paths = self._host.coordination.layout.tablespace(before.name)
        needs = await read_needs(self._host.bk.znodes, paths)
        whole = [
            node
            for node in after.replicas
            if (record := needs.replicas.get(node)) is not None and record.state in _WHOLE
        ]
        if not whole:
            raise SqlError(
                "55000",
                f'no replica of tablespace "{before.name}" that has its data would be left',
                detail=f"Its replicas are on {', '.join(before.replicas)}.",
                hint="Add the new ones first, wait until herdpy.replicas shows them as followers, then"
                " remove the old ones.",
            )

    def _bookies(self, info: TablespaceInfo) -> Sequence[Remark]:
        """SqlError 53000 when no ledger could be made; a warning when it would be a smaller one."""
        count = len(self._host.bk.usable_bookies())
        least = info.ensemble if info.strict else info.ack_quorum
        if count < least:
            raise SqlError(
                "53000",
                f"{least} bookies are needed, and {count} take writes",
                hint="Start bookies, or choose smaller counts"
                + (", or strict = off." if info.strict and count >= info.ack_quorum else "."),
            )
        if count < info.ensemble:
            text = f"only {count} bookies take writes: ledgers are smaller than the ensemble of "
            return [Remark("WARNING", "01000", f"{text}{info.ensemble} until there are more")]
        return []

    def _counts(self, info: TablespaceInfo) -> Sequence[Remark]:
        count = len(self._host.coordination.membership.nodes)
        if info.expected_replicas > count:
            text = f"{info.expected_replicas} replicas are expected, and there are {count} nodes"
            return [Remark("WARNING", "01000", text)]
        return []

    async def _await_leader(
        self, name: str, node: str | None, patience_s: float = _LEADER_PATIENCE_S
    ) -> str | None:
        paths = self._host.coordination.layout.tablespace(name)
        return await await_leader(self._host.bk.znodes, paths, node, patience_s)

    async def _not_leading(self, info: TablespaceInfo) -> SqlError:
        paths = self._host.coordination.layout.tablespace(info.name)
        needs = await read_needs(self._host.bk.znodes, paths)
        record = needs.replicas.get(info.leader or "")
        state = "is away" if record is None else f"is {record.state}, {record.lag_entries} entries behind"
        if record is not None and record.unfit:
            state += f", and should not lead: {record.unfit}"
        return SqlError(
            "55000",
            f'node "{info.leader}" does not lead tablespace "{info.name}" after {_LEADER_PATIENCE_S:g} s',
            detail=f"Its replica {state}.",
            hint="It was not chosen. Try again when herdpy.replicas shows that it follows closely.",
        )


def _fitting(defaults: TablespaceInfo, said: dict[str, Any], name: str) -> TablespaceInfo:
    """A new tablespace: what is said, and defaults that are no larger than what is said allows."""
    if "replicas" in said and "expected_replicas" not in said:
        said["expected_replicas"] = max(len(said["replicas"]), 1)
    leader, replicas = said.get("leader"), said.get("replicas")
    if leader is not None and not replicas:
        said["replicas"] = (leader,)  # the others are chosen
    for larger, smaller in itertools.pairwise(_QUORUMS):
        if smaller not in said:
            said[smaller] = min(getattr(defaults, smaller), said.get(larger, getattr(defaults, larger)))
    return msgspec.structs.replace(defaults, name=name, **said)


def _altered(info: TablespaceInfo, said: dict[str, Any]) -> TablespaceInfo:
    """The tablespace with what is said of it; applied to its own result it changes nothing."""
    changes = dict(said)
    if "replicas" in changes:
        if not changes["replicas"]:
            raise SqlError("22023", "a tablespace needs a replica")
        changes.setdefault("expected_replicas", len(changes["replicas"]))
        if "leader" not in changes and info.leader not in changes["replicas"]:
            changes["leader"] = None
    return msgspec.structs.replace(info, **changes)


class _News:
    """What the watches have reported last."""

    def __init__(self, paths: TablespacePaths) -> None:
        self.paths = paths
        self.leader: LeaderRecord | None = None
        self.states: dict[str, str] = {}
        self.changed = asyncio.Event()

    def set_leader(self, znode: Znode | None) -> None:
        self.leader = _read(LeaderRecord, self.paths.leader, znode)
        self.changed.set()

    def set_replica(self, node: str, znode: Znode | None) -> None:
        record = _read(ReplicaRecord, f"{self.paths.replicas}/{node}", znode)
        self.states[node] = "" if record is None else record.state
        self.changed.set()

    def leads(self, node: str | None) -> bool:
        leader = self.leader
        if leader is None or node not in (None, leader.node):
            return False
        return self.states.get(leader.node) == ReplicaState.LEADING.value


def _read(kind: type[R], path: str, znode: Znode | None) -> R | None:
    try:
        return None if znode is None else decode(kind, path, znode.data)
    except MalformedMetadataError:
        return None


async def await_leader(
    znodes: Znodes, paths: TablespacePaths, node: str | None, timeout_s: float
) -> str | None:
    """Who leads, once ``node`` does (None: anybody); None when the time is over."""
    news = _News(paths)
    watches: dict[str, Watch] = {"": znodes.watch_data(paths.leader, news.set_leader)}
    try:
        async with asyncio.timeout(timeout_s):
            while not news.leads(node):
                for name in {one for one in (node, news.leader and news.leader.node) if one} - watches.keys():
                    changed = functools.partial(news.set_replica, name)
                    watches[name] = znodes.watch_data(f"{paths.replicas}/{name}", changed)
                await news.changed.wait()
                news.changed.clear()
    except TimeoutError:
        return None
    finally:
        for watch in watches.values():
            watch.cancel()
    assert news.leader is not None
    return news.leader.node

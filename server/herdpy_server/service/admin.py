"""The service Admin (``herdpy/rpc/admin.proto``), and what it asks of the process that it is in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from herdpy.rpc import admin_pb2, admin_pb2_grpc
from herdpy.rpc.positions import lsn_message
from herdpy_server.service.calls import not_there
from herdpy_server.sessions.registry import SessionEntry, SessionRegistry
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.serving.node import ServedNode, TablespaceStatus, UpgradeState

_LEVELS = frozenset({"debug", "info", "warning", "error"})
_MAX_LEVELS = 100


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """A setting with its value and default as TOML writes them."""

    name: str
    value: str
    default: str
    description: str
    reloadable: bool


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What reading the configuration again led to: full names of settings, or what is wrong with it."""

    taken_over: Sequence[str] = ()
    need_restart: Sequence[str] = ()
    problems: Sequence[str] = ()


class NodeControl(Protocol):
    """The process: its state, its configuration, its logs. All of it is for the loop's thread."""

    version: str

    @property
    def phase(self) -> str:
        """ "starting", "serving" or "stopping"."""

    @property
    def is_ready(self) -> bool:
        """Whether clients should be sent here."""

    @property
    def uptime_s(self) -> float:
        """Since the process began to start."""

    def problems(self) -> Mapping[str, str]:
        """By the name of its check what is wrong now."""

    def settings(self) -> Sequence[ShownSetting]:
        """Every setting, with the value that holds."""

    def log_levels(self) -> tuple[str, Mapping[str, str]]:
        """The level of all logs, and of single ones."""

    def set_log_levels(self, level: str, levels: Mapping[str, str]) -> None:
        """Change them until the next reload."""

    def reload(self) -> Reloaded:
        """Read the configuration again."""


class AdminService(admin_pb2_grpc.AdminServicer):
    """Answers calls out of the process, its tablespaces and its sessions."""

    def __init__(self, node: NodeControl, tablespaces: ServedNode, registry: SessionRegistry) -> None:
        self._node = node
        self._tablespaces = tablespaces
        self._registry = registry

    async def GetNode(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del request, context
        node = self._node
        return admin_pb2.Node(
            version=node.version,
            pid=os.getpid(),
            phase=node.phase,
            uptime_s=node.uptime_s,
            directory=str(self._tablespaces.path),
            problems=node.problems(),
            sessions=len(self._registry),
            node=self._tablespaces.node_id,
        )

    async def ListTablespaces(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del request, context
        return admin_pb2.ListTablespacesResponse(tablespaces=map(_tablespace, self._tablespaces.statuses()))

    async def ListLedgers(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        return admin_pb2.ListLedgersResponse(
            ledgers=[
                admin_pb2.Ledger(
                    ledger_id=one.ledger_id,
                    created_us=one.created_us,
                    closed=one.closed,
                    last_entry_id=one.last_entry_id,
                    size_bytes=one.length,
                )
                for one in self._tablespaces.find(request.tablespace).ledgers()
            ]
        )

    async def ListSessions(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del request, context
        return admin_pb2.ListSessionsResponse(sessions=map(_session, self._registry))

    async def CancelSession(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        return self._signal(request.pid, terminate=False)

    async def TerminateSession(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del context
        return self._signal(request.pid, terminate=True)

    def _signal(self, pid: int, *, terminate: bool) -> Any:
        if not self._registry.signal(pid, terminate=terminate):
            raise not_there(f"session as {pid}")
        return admin_pb2.SignalResponse()

    async def Checkpoint(self, request: Any, context: Any) -> Any:
        """See the protocol. One that has begun is not broken off."""
        del context
        served = self._tablespaces.find(request.tablespace)
        deleted = await asyncio.shield(served.checkpoint())
        durable = lsn_message(served.status().durable)
        return admin_pb2.CheckpointResponse(durable=durable, deleted_ledger_ids=deleted)

    async def ListSettings(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del request, context
        return admin_pb2.ListSettingsResponse(
            settings=[
                admin_pb2.Setting(
                    name=one.name,
                    value=one.value,
                    default_value=one.default,
                    description=one.description,
                    reloadable=one.reloadable,
                )
                for one in self._node.settings()
            ]
        )

    async def GetLogLevels(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del request, context
        level, levels = self._node.log_levels()
        return admin_pb2.LogLevels(level=level, levels=levels)

    async def SetLogLevels(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        levels = dict(request.levels)
        level = request.level or self._node.log_levels()[0]
        wrong = sorted({level, *levels.values()} - _LEVELS)
        if wrong:
            raise SqlError("22023", f'"{wrong[0]}" is no level', hint="Levels: debug, info, warning, error.")
        strange = sorted(name for name in levels if name != "herdpy" and not name.startswith("herdpy."))
        if strange:
            raise SqlError(
                "22023", f'"{strange[0]}" is no part of the server', hint="Parts begin with herdpy."
            )
        if len(levels) > _MAX_LEVELS:
            raise SqlError("54000", f"levels of more than {_MAX_LEVELS} parts")
        self._node.set_log_levels(level, levels)
        return await self.GetLogLevels(request, context)

    async def GetUpgrade(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del request, context
        return _upgrade(await self._tablespaces.upgrade_state())

    async def FinishUpgrade(self, request: Any, context: Any) -> Any:
        """See the protocol. One that has begun is not broken off."""
        del request, context
        return _upgrade(await asyncio.shield(self._tablespaces.finish_upgrade()))

    async def ReloadConfiguration(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        del request, context
        found = self._node.reload()
        return admin_pb2.ReloadConfigurationResponse(
            taken_over=found.taken_over, need_restart=found.need_restart, problems=found.problems
        )


def _upgrade(state: UpgradeState) -> Any:
    servers = [
        admin_pb2.UpgradeServer(node=one.node, version=one.version, level=one.level) for one in state.servers
    ]
    return admin_pb2.Upgrade(
        level=state.level, newest_level=state.newest, servers=servers, hindrance=state.hindrance
    )


def _tablespace(one: TablespaceStatus) -> Any:
    answer = admin_pb2.Tablespace(
        name=one.name,
        applied=lsn_message(one.applied),
        durable=lsn_message(one.durable),
        log_end=lsn_message(one.log_end),
        pending_commits=one.pending,
        role=one.role,
        state=one.state,
        lag_entries=one.lag_entries,
        leader=one.leader or "",
        epoch=one.epoch,
        takeovers=one.takeovers,
        seedings=one.seedings,
        problem=one.problem or "",
    )
    store = one.store
    if store is not None:
        answer.memtable_rows, answer.memtable_bytes = store.memtable_rows, store.memtable_bytes
        answer.store_uuid, answer.tables = store.uuid, len(store.catalog.tables)
    if one.seeding is not None:
        answer.seeding.donor = one.seeding.donor
        answer.seeding.received_bytes = one.seeding.received_bytes
        answer.seeding.total_bytes = one.seeding.total_bytes
    return answer


def _session(entry: SessionEntry) -> Any:
    return admin_pb2.Session(
        pid=entry.pid,
        user=entry.user,
        database=entry.database,
        application_name=entry.session.settings["application_name"],
        client_address=entry.address or "",
        client_port=entry.port or 0,
        state=entry.state,
        query=entry.query,
        began_us=entry.began_us,
        transaction_began_us=entry.transaction_began_us or 0,
        query_began_us=entry.query_began_us or 0,
    )

"""gRPC's front end: its settings; listens, puts the services together, and ends them.

Top of ``service``. Everything runs on the loop of its tablespaces; gRPC's own threads do no Python. Disks and
passwords are for a few threads, the rows of partitions for one. Health is answered here (grpc.health.v1), to
anybody: probes have no passwords.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from herdpy.rpc import (
    admin_pb2_grpc,
    backups_pb2_grpc,
    loads_pb2_grpc,
    logs_pb2_grpc,
    partitions_pb2_grpc,
    snapshots_pb2_grpc,
)
from herdpy_server.cluster.secret import NodeSecret
from herdpy_server.loading.files import StagedFiles
from herdpy_server.pgwire.authentication import Authority
from herdpy_server.pgwire.subscriptions import Subscriptions
from herdpy_server.roles.permissions import judge_table
from herdpy_server.service.admin import AdminService
from herdpy_server.service.backups import BackupsService
from herdpy_server.service.gate import CALLER, HEALTH, REFLECTION, Callers, Gate
from herdpy_server.service.loads import LoadsService
from herdpy_server.service.logs import LogsService
from herdpy_server.service.partitions import PartitionsService, Plans
from herdpy_server.service.snapshots import SnapshotShelf, SnapshotsService
from herdpy_server.serving.backups import BackupDefaults

if TYPE_CHECKING:
    from herdpy_server.service.admin import NodeControl
    from herdpy_server.serving.node import ServedNode
    from herdpy_server.sessions.registry import SessionRegistry
    from herdpy_sql.catalog import Catalog, Table


_LOOK_S = 0.25

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class HealthService(health_pb2_grpc.HealthServicer):
    """Tells the state of the server, for all of its services together.

    Args:
        is_ready: asked at every check, and for watchers a few times a second.
        services: their names; the empty name is the server's.
    """

    def __init__(self, is_ready: Callable[[], bool], services: Collection[str]) -> None:
        self._is_ready = is_ready
        self._services = {"", *services}
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Nothing is served any more: watchers get that state, and their streams end."""
        self._stopping.set()

    def _status(self, service: str) -> Any:
        if service not in self._services:
            return SERVICE_UNKNOWN
        return SERVING if self._is_ready() and not self._stopping.is_set() else NOT_SERVING

    async def Check(self, request: Any, context: Any) -> Any:
        """See the protocol."""
        status = self._status(request.service)
        if status == SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service")
        return health_pb2.HealthCheckResponse(status=status)

    async def Watch(self, request: Any, context: Any) -> None:
        """See the protocol."""
        published = None
        while True:
            status = self._status(request.service)
            if status != published:
                await context.write(health_pb2.HealthCheckResponse(status=status))
                published = status
            if self._stopping.is_set():
                return
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(_LOOK_S):
                await self._stopping.wait()
        except TimeoutError:
            pass


logger = logging.getLogger("herdpy.rpc")
ADMIN, SNAPSHOTS, PARTITIONS = "herdpy.v1.Admin", "herdpy.v1.Snapshots", "herdpy.v1.Partitions"
LOADS, LOGS, BACKUPS = "herdpy.v1.Loads", "herdpy.v1.Logs", "herdpy.v1.Backups"
SERVICES = (ADMIN, BACKUPS, LOADS, LOGS, PARTITIONS, SNAPSHOTS)
_THREADS = 4
_LAST_PATIENCE_S = 0.5  # for callers to take the error that ends their call
_TRANSPORTS_S = 3.0  # for gRPC to send what ended the last calls, before their connections are broken
_KEEPALIVE_MS = 30_000
_LEAST_PING_MS = 10_000  # clients may ping as often


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The settings of gRPC's front end.

    Attributes:
        address, port: where it listens; port 0 takes a free one.
        max_message_bytes: the longest request.
        max_calls: calls at a time, streams among them; more are refused.
        max_streams: of one connection, at a time; more wait.
        max_snapshots, max_plans: how many there may be at a time.
        tls_certificate, tls_key: files in PEM form; with them every connection is TLS.
        tls_client_ca: certificates of clients must be signed by one of these; None asks for none.
        tls_required: refuse calls without TLS.
        backups: how they are made where callers say nothing else.
    """

    address: str = "127.0.0.1"
    port: int = 8481
    max_message_bytes: int = 4 << 20
    max_calls: int = 200
    max_streams: int = 100
    max_snapshots: int = 4
    max_plans: int = 16
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    tls_required: bool = False
    backups: BackupDefaults = field(default_factory=BackupDefaults)

    def certificates(self) -> grpc.ServerCertificateConfiguration | None:
        """What TLS connections are made with; None without TLS. OSError when a file cannot be read."""
        if self.tls_certificate is None or self.tls_key is None:
            return None
        ca = None if self.tls_client_ca is None else self.tls_client_ca.read_bytes()
        pair = (self.tls_key.read_bytes(), self.tls_certificate.read_bytes())
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=ca)


class GrpcServer:
    """gRPC in front of tablespaces.

    Attributes:
        port: the port that is listened to, once started.
    """

    def __init__(
        self,
        tablespaces: ServedNode,
        settings: ServiceSettings,
        authority: Authority,
        registry: SessionRegistry,
        node: NodeControl,
        secret: NodeSecret | None = None,
        subscriptions: Subscriptions | None = None,
    ) -> None:
        """Args:
        secret: that of the nodes of a cluster: who proves to be one may take snapshots.
        subscriptions: of the front end that speaks PostgreSQL's protocol, where there is one.
        """
        self.settings = settings
        self.port = 0
        self._files = ThreadPoolExecutor(_THREADS, "herdpy-rpc")
        self._reader = ThreadPoolExecutor(1, "herdpy-partitions")
        self._callers = Callers(
            authority,
            registry.role_store,
            self._files,
            secret,
            tls_required=settings.tls_required,
            effective_roles=registry.effective_roles,
        )
        self._callers.auditor = registry.auditor
        self._gate = Gate(
            self._callers,
            {
                ADMIN: lambda caller: caller.is_superuser,
                SNAPSHOTS: lambda caller: caller.replicates,
                BACKUPS: lambda caller: caller.replicates,
                PARTITIONS: lambda _caller: True,
                LOADS: lambda _caller: True,
                LOGS: lambda _caller: True,  # and what it does not tell everybody it judges by itself
                REFLECTION: lambda _caller: True,
            },
        )
        self._health = HealthService(lambda: node.is_ready, (*SERVICES, HEALTH))
        self._shelf = SnapshotShelf(tablespaces.path, settings.max_snapshots, self._files)
        self._plans = Plans(settings.max_plans, self._reader)
        self._stagers = ThreadPoolExecutor(_THREADS, "herdpy-loads")
        files = StagedFiles(tablespaces.path, self._stagers)
        self._loads = LoadsService(
            tablespaces, files, self._stagers, settings.max_message_bytes, self._callers
        )
        self._tablespaces = tablespaces
        self._admin = AdminService(node, tablespaces, registry)
        self._logs = LogsService(tablespaces, self._callers, subscriptions)
        self._backups = BackupsService(tablespaces, lambda: self.settings.backups)
        self._certificates: grpc.ServerCertificateConfiguration | None = None
        self._server: Any = None

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be had, or a file of TLS cannot be read.
        """
        await self._shelf.open()
        settings = self.settings
        server = grpc.aio.server(
            interceptors=[self._gate],
            maximum_concurrent_rpcs=settings.max_calls,
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", settings.max_message_bytes),
                ("grpc.max_concurrent_streams", settings.max_streams),
                ("grpc.max_metadata_size", 16 << 10),
                ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
                ("grpc.keepalive_timeout_ms", _KEEPALIVE_MS // 2),
                ("grpc.http2.min_ping_interval_without_data_ms", _LEAST_PING_MS),
            ],
        )
        admin_pb2_grpc.add_AdminServicer_to_server(self._admin, server)
        snapshots = SnapshotsService(self._tablespaces, self._shelf, self._files)
        snapshots_pb2_grpc.add_SnapshotsServicer_to_server(snapshots, server)
        partitions = PartitionsService(self._tablespaces, self._plans, self._reader, self._may_read)
        partitions_pb2_grpc.add_PartitionsServicer_to_server(partitions, server)
        loads_pb2_grpc.add_LoadsServicer_to_server(self._loads, server)
        logs_pb2_grpc.add_LogsServicer_to_server(self._logs, server)
        backups_pb2_grpc.add_BackupsServicer_to_server(self._backups, server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection((*SERVICES, HEALTH, REFLECTION), server)
        self.load_tls()
        certificates = self._certificates
        place = f"{_host(settings.address)}:{settings.port}"
        _check_place(settings.address, settings.port)
        try:
            if certificates is None:
                self.port = server.add_insecure_port(place)
            else:
                credentials = grpc.dynamic_ssl_server_credentials(
                    certificates,
                    lambda: self._certificates or certificates,
                    settings.tls_client_ca is not None,
                )
                self.port = server.add_secure_port(place, credentials)
        except RuntimeError as error:
            raise OSError(str(error)) from error
        await server.start()
        self._loads.open()
        self._server = server
        logger.info("gRPC is served on port %d", self.port)

    def _may_read(self, tablespace: str, catalog: Catalog, table: Table) -> None:
        """SqlError 42501 unless the caller at hand may read all of a table; for the record when he does."""
        caller, effective_roles = CALLER.get(), self._callers.effective_roles
        judge_table(catalog, table, "r", caller.effective_role, effective_roles.of_key, tablespace)
        name = f"{table.schema}.{table.name}"
        self._callers.record_event("read", "partitions", user=caller.user, database=tablespace, table=name)

    def load_tls(self) -> None:
        """Read the files of TLS, again when they have changed. OSError when one cannot be read."""
        self._certificates = self.settings.certificates()

    async def stop(self, graceful_timeout_s: float = 0.0) -> None:
        """Let no call in, end those there are, and let go of the stores.

        Args:
            graceful_timeout_s: how long streams of data may go on before they are ended with 57P01.
                Watchers and reflection end at once. A second call may end them sooner.
        """
        self._health.stop()
        self._logs.stop()
        self._gate.stopping.set()
        self._plans.is_closing = self._shelf.is_closing = True
        server = self._server
        if server is not None:
            ending = asyncio.get_running_loop().call_later(graceful_timeout_s, self._gate.ended.set)
            try:
                await self._stopped(server, graceful_timeout_s + _LAST_PATIENCE_S)
            finally:
                ending.cancel()
        self._gate.ended.set()
        await self._shelf.close()
        await self._loads.close()
        await asyncio.get_running_loop().run_in_executor(None, self._reader.shutdown)
        self._plans.close()
        await asyncio.get_running_loop().run_in_executor(None, self._files.shutdown)
        await asyncio.get_running_loop().run_in_executor(None, self._stagers.shutdown)

    async def _stopped(self, server: Any, patience_s: float) -> None:
        """Have gRPC stop.

        It may wait for the transport's end of a call that was answered long ago, so it gets little time once
        no call is under way.
        """
        stopping = asyncio.ensure_future(server.stop(patience_s))
        idle = asyncio.ensure_future(self._gate.idle.wait())
        try:
            await asyncio.wait({stopping, idle}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({stopping}, timeout=_TRANSPORTS_S)
            if self._gate.idle.is_set():
                await server.stop(None)
            await stopping
        finally:
            idle.cancel()
            stopping.cancel()


def _check_place(address: str, port: int) -> None:
    """OSError, with its reason, when nobody can listen there: gRPC would not say why."""
    host = None if address == "*" else address
    for family, kind, protocol, _name, place in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(place)


def _host(address: str) -> str:
    """An address as gRPC takes it."""
    if address == "*":
        return "[::]"
    return f"[{address}]" if ":" in address and not address.startswith("[") else address

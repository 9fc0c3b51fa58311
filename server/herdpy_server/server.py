"""The server process: a directory served, from its configuration to its end.

The top layer. logs -> status page -> database (recovery) -> front ends, each started when the one before
it is up, and stopped in the other order; signals, readiness and statistics around them. One event loop runs
everything. Exit codes: 0 it was asked to end, 1 it could not start or could not end as it should.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import ssl
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop

from herdpy._version import __version__
from herdpy.first_errors import page_of
from herdpy_server.backup.archiver import LogArchiver
from herdpy_server.config import ConfigError, LoadedConfig, ServerConfig, listeners
from herdpy_server.http import Phase, ServerMetrics, ServerStatus, StatusPage
from herdpy_server.pgwire.context import PgContext
from herdpy_server.pgwire.forwarding import NodeForwarding
from herdpy_server.process.archive import archive_settings, backup_schedule
from herdpy_server.process.front_ends import FrontEnd, GrpcFrontEnd, PostgresFrontEnd
from herdpy_server.process.logs import Logs
from herdpy_server.process.loop_delay import LoopDelay
from herdpy_server.process.node import ProcessNode, changed, taken_over
from herdpy_server.process.notify import notify
from herdpy_server.process.statements import StatementStatistics
from herdpy_server.roles.role import RoleFile, RoleStore
from herdpy_server.service import Reloaded
from herdpy_server.serving import AlonePlacements, ServedDatabase, ServedNode, settle_interpreter
from herdpy_server.serving.backup_schedule import BackupSchedule
from herdpy_server.serving.logs import PublishSettings
from herdpy_server.serving.publishing import SnapshotPublishing
from herdpy_server.sessions.limits import SessionLimits
from herdpy_server.tablespace import Directory
from herdpy_server.tablespace_host import DatabaseSettings
from herdpy_server.workers.scheduler import WorkerSettings
from herdpy_sql.errors import SqlError
from herdpy_sql.system.state import DATABASE

if TYPE_CHECKING:
    from herdpy_server.cluster.errors import ClusterError
    from herdpy_server.console import Console
    from herdpy_server.http.page import Application
    from herdpy_server.process.member import Member
    from herdpy_server.process.tracing import ServerTracing

logger = logging.getLogger("herdpy.server")

_FAILED = 1
_OTHER_DESCRIPTORS = 256
"""Descriptors for files of the store and the log and whatever else, besides sockets and workers."""
_LAST_SPANS_S = 2.0
"""How long the end waits for the collector of traces."""
_HOST = gethostname()
_HAND_OVER_PATIENCE_S = 5.0
"""How long sessions go on undisturbed while other nodes come to lead."""
_LAST_ARCHIVE_S = 5.0
"""How long the end waits for the archive of what was written last."""
_DESCRIPTORS_OF_A_WORKER = 6  # three, and there may be twice as many while clients do not read


class ServerStartError(Exception):
    """The server cannot start; the message says what is in the way."""


class ServerProcess:
    """One server. :meth:`run` is its life."""

    def __init__(
        self, loaded: LoadedConfig, logs: Logs, reload: Callable[[], LoadedConfig] | None = None
    ) -> None:
        """``reload`` reads the configuration again, as it was read first."""
        self.config: ServerConfig = loaded.config
        self._warnings = loaded.warnings
        self._logs = logs
        self._read_again = reload
        self.status = ServerStatus()
        self.statements = StatementStatistics()
        self.metrics = ServerMetrics(self.status, self.statements, __version__)
        self.metrics.logs = logs
        self.metrics.max_sessions = self.config.postgres.max_connections
        self._delay = self.metrics.loop_delay = LoopDelay()
        self._page = StatusPage(self.status, self.metrics, __version__)
        self._front_ends: list[tuple[str, FrontEnd]] = []
        self._database: ServedDatabase | None = None
        self._publishing: SnapshotPublishing | None = None
        self._archiver: LogArchiver | None = None
        self._backups: BackupSchedule | None = None
        self._member: Member | None = None
        self._console: Console | None = None
        self._tracing: ServerTracing | None = None
        self._http_tls: ssl.SSLContext | None = None
        self._end = asyncio.Event()
        self._fast = asyncio.Event()
        self._apply(self.config)

    # Its life.

    async def run(self) -> None:
        """Start, serve until a signal comes, and end.

        Raises:
            ServerStartError, SqlError: it could not start; all that was started is stopped.
        """
        self._handle_signals()
        self._delay.start()
        about = {"version": __version__, "pid": os.getpid(), "processor_s": _processor_s()}
        logger.info("starting", extra=about)
        for warning in self._warnings:
            logger.warning("%s", warning)
        try:
            await self._start()
            if not self._end.is_set():
                self._announce_ready()
                await self._end.wait()
        finally:
            await self._stop()

    async def _start(self) -> None:
        config = self.config
        _raise_descriptor_limit(config.postgres.max_connections, config.workers.maximum)
        self._trace(config)
        if config.http.enabled:
            await self._listen("http", config, lambda: self._start_page(config))
        if config.cluster.zookeeper:
            await self._join(config)
            return
        database = await self._open()
        if self._end.is_set():
            return
        settle_interpreter()
        publish = PublishSettings(**msgspec.structs.asdict(config.publish))
        archive = archive_settings(config)
        placements = AlonePlacements(
            database, config.postgres.database or None, publish, archive, backup_schedule(config)
        )
        self._publishing = placements.served.publishing
        self._publishing.start()
        self._archiver = self.metrics.archiver = placements.served.archiver
        placements.served.start_archive()
        self._backups = self.metrics.backups = placements.served.schedule
        self._backups.start()
        if self._tracing is not None:
            database.log.look_on(self._tracing.of_log(f"{_HOST}:{database.path}", DATABASE))
        node = ServedNode(database.path, database.driver, placements)
        await self._serve(config, node, PostgresFrontEnd(config, node, RoleStore(RoleFile(database.path))))

    async def _start_page(self, config: ServerConfig) -> None:
        if config.http.tls:
            self._http_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._http_tls.minimum_version = ssl.TLSVersion.TLSv1_2
            self._http_tls.load_cert_chain(config.tls.certificate, config.tls.key)
        await self._page.start(config.http.address, config.http.port, self._http_tls)

    async def _serve(self, config: ServerConfig, node: ServedNode, postgres: PostgresFrontEnd) -> int | None:
        """Let clients in; the port of gRPC, None when there is none."""
        self.metrics.registry = registry = postgres.server.registry
        registry.statements = self.statements.table
        if self._tracing is not None:
            postgres.server.context.tracer = self._tracing.statements
        self._page.node = node
        await self._listen("postgres", config, postgres.start)
        self._front_ends.append(("postgres", postgres))
        control = ProcessNode(
            __version__, self.status, self._logs, lambda: self.config, self._read_configuration_again
        )
        context = postgres.server.context
        if config.http.enabled and config.console.enabled:
            self._page.make_console = partial(self._make_console, node, context, control)
        return await self._serve_grpc(config, node, context, control)

    def _make_console(self, node: ServedNode, context: PgContext, control: ProcessNode) -> Application:
        from herdpy_server.console import Console, ConsoleParts  # a server that nobody looks at does without

        self._console = Console(ConsoleParts(context, node, control, lambda: self.config))
        return self._console

    async def _serve_grpc(
        self, config: ServerConfig, node: ServedNode, context: PgContext, control: ProcessNode
    ) -> int | None:
        """Start gRPC's front end; its port, None when there shall be none."""
        if not config.grpc.enabled:
            return None
        secret = None if self._member is None else self._member.cluster.secret
        grpc = GrpcFrontEnd(config, node, context.registry, control, secret, context.subscriptions)
        self._front_ends.append(("grpc", grpc))  # also when it cannot listen: it has threads to be ended
        await self._listen("grpc", config, grpc.start)
        return grpc.port

    async def _join(self, config: ServerConfig) -> None:
        """Start as a node of a cluster: the front ends first, so that others can get their ports."""
        from herdpy.bookkeeper import BookKeeperError
        from herdpy_server.cluster.errors import ClusterError
        from herdpy_server.process.member import Member  # a server alone does without BookKeeper's client
        from herdpy_server.replica.roles import LoggedRoles

        self._member = member = Member(config)
        cluster = member.cluster
        cluster.observer_of = self.statements.of_session
        if self._tracing is not None:
            cluster.tracer_of = self._tracing.of_tablespace
        cluster.limits = SessionLimits(**msgspec.structs.asdict(config.sessions))
        postgres = PostgresFrontEnd(config, member.node, RoleStore(LoggedRoles(cluster)))
        postgres.server.context.forwarding = NodeForwarding(
            member.id, cluster.secret, cluster.credentials.tls_context, cluster.leads
        )
        registry = postgres.server.registry
        cluster.end_session = registry.end
        cluster.roles_changed = registry.roles_changed
        self.metrics.replicas = cluster.replicas
        if cluster.supervision is not None and config.cluster.supervisor:
            self.metrics.supervisor = cluster.supervision.supervisor
        self.status.checks["replicas"] = cluster.problem
        grpc_port = await self._serve(config, member.node, postgres)
        notify("STATUS=joining the cluster")
        http_port = self._page.port if config.http.enabled else None
        try:
            # ZooKeeper may be waited for, which is given up when the server is to end.
            await self._done_before(member.join(postgres.port, grpc_port, http_port), self._end)
        except (BookKeeperError, ClusterError) as error:
            raise ServerStartError(str(error)) from error
        cluster.refused.add_done_callback(self._refused)
        settle_interpreter()

    async def _done_before(
        self, work: Coroutine[Any, Any, None], event: asyncio.Event, patience_s: float | None = None
    ) -> bool:
        """Do what may take long until the event comes, or the time is over; whether it was done."""
        task = asyncio.ensure_future(work)
        over = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({task, over}, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            return task.done()
        finally:
            over.cancel()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _refused(self, refusal: asyncio.Future[ClusterError]) -> None:
        if not refusal.cancelled():
            logger.critical("this node must end: %s", refusal.result())
            self._asked_to_end("it may not be a node any more", fast=True)

    def _trace(self, config: ServerConfig) -> None:
        """Trace from now on, if the configuration says where spans are sent."""
        if not config.tracing.endpoint:
            return
        from herdpy_server.process.tracing import ServerTracing  # a server that does not trace has none of it
        from herdpy_server.tracing.exporter import TracingUnavailableError

        try:
            self._tracing = ServerTracing(config.tracing, __version__, config.cluster.node)
        except TracingUnavailableError as error:
            raise ServerStartError(str(error)) from error
        self.metrics.tracing = self._tracing
        self._tracing.start()

    async def _open(self) -> ServedDatabase:
        directory = Path(self.config.data.directory).absolute()
        if not self.config.data.create and not Directory(directory).exists():
            raise ServerStartError(f"there is no database in {directory}, and data.create is false")
        notify("STATUS=opening the database")
        settings = DatabaseSettings(**msgspec.structs.asdict(self.config.storage))
        workers = WorkerSettings(**msgspec.structs.asdict(self.config.workers))
        self._database = database = await ServedDatabase.open(directory, settings, workers)
        database.observer_of = self.statements.of_session
        database.limits = SessionLimits(**msgspec.structs.asdict(self.config.sessions))
        self.metrics.database = database
        self.status.checks["checkpoint"] = lambda: _failure(database.checkpoint_failure)
        self.status.checks["log"] = lambda: _failure(database.log.failure)
        _log_recovery(database)
        return database

    async def _listen(
        self, name: str, config: ServerConfig, start: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        try:
            await start()
        except OSError as error:
            places = ", ".join(
                f"{address}:{port}" for listener, address, port in listeners(config) if listener == name
            )
            raise ServerStartError(f"{name} cannot listen on {places}: {_reason(error)}") from error

    def _announce_ready(self) -> None:
        self.status.phase = Phase.SERVING
        places: dict[str, object] = {"directory": self.config.data.directory, "pid": os.getpid()}
        for name, front_end in self._front_ends:
            places[f"{name}_port"] = front_end.port
        if self.config.http.enabled:
            places["http_port"] = self._page.port
        logger.info("ready", extra=places | {"processor_s": _processor_s()})
        notify("READY=1", f"serving {self.config.data.directory}")

    async def _stop(self) -> None:
        self.status.phase = Phase.STOPPING
        notify("STOPPING=1")
        graceful_until_s = time.monotonic() + self.config.shutdown.graceful_timeout_s
        await self._hand_over()  # before sessions come to their end, which may take long
        front_ends, self._front_ends = self._front_ends, []
        self._page.make_console = None
        if self._console is not None:
            await self._console.close()
        await asyncio.gather(*[self._close(one, graceful_until_s) for _name, one in front_ends])
        publishing, self._publishing = self._publishing, None
        if publishing is not None:
            await publishing.close()
        backups, self._backups = self._backups, None
        if backups is not None:
            await backups.close()
        archiver, self._archiver = self._archiver, None
        if archiver is not None:
            await archiver.close(0.0 if self._fast.is_set() else _LAST_ARCHIVE_S)
        database, self._database = self._database, None
        if database is not None:
            await database.close()
        member, self._member = self._member, None
        if member is not None:
            await member.close()
        await self._page.stop()
        self._delay.stop()
        tracing, self._tracing = self._tracing, None
        if tracing is not None:
            await asyncio.get_running_loop().run_in_executor(None, tracing.stop, _LAST_SPANS_S)
        logger.info("stopped")

    async def _hand_over(self) -> None:
        """Have other nodes lead what this one leads, unless it shall be fast, or that takes too long."""
        patience_s = min(_HAND_OVER_PATIENCE_S, self.config.shutdown.graceful_timeout_s)
        if self._member is None or self._fast.is_set() or not patience_s:
            return
        if not await self._done_before(self._member.cluster.hand_over(), self._fast, patience_s):
            logger.warning("not every leadership is handed over yet")

    async def _close(self, front_end: FrontEnd, graceful_until_s: float) -> None:
        """Stop a front end: gracefully until that is over or shall be fast."""
        patience = 0.0 if self._fast.is_set() else max(graceful_until_s - time.monotonic(), 0.0)
        graceful = asyncio.ensure_future(front_end.stop(patience))
        fast = asyncio.ensure_future(self._fast.wait())
        try:
            await asyncio.wait({graceful, fast}, return_when=asyncio.FIRST_COMPLETED)
            if not graceful.done():
                graceful.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await graceful
                await front_end.stop(0.0)
                return
            graceful.result()
        finally:
            fast.cancel()

    # Signals.

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._asked_to_end, "SIGTERM", False)
        loop.add_signal_handler(signal.SIGINT, self._asked_to_end, "SIGINT", True)
        loop.add_signal_handler(signal.SIGHUP, self._reload)

    def _asked_to_end(self, name: str, fast: bool) -> None:
        """SIGTERM: let sessions come to their end. SIGINT, or a second SIGTERM: end them."""
        if self.status.phase is Phase.STARTING and self._end.is_set():
            logger.warning("%s again while starting: leaving at once; nothing is lost by that", name)
            self._logs.close()
            os._exit(_FAILED)
        fast = fast or self._end.is_set()
        if fast:
            logger.info("%s: ending all sessions", name)
            self._fast.set()
        else:
            seconds = self.config.shutdown.graceful_timeout_s
            logger.info("%s: no more sessions; those that are may go on for %g s", name, seconds)
        self._end.set()

    def _reload(self) -> None:
        """SIGHUP."""
        self._read_configuration_again()

    def _read_configuration_again(self) -> Reloaded:
        """Take over what can be taken over of the configuration; a wrong one changes nothing."""
        notify("RELOADING=1")
        try:
            return self._take_over()
        finally:
            if self.status.phase is Phase.SERVING:
                notify("READY=1")

    def _take_over(self) -> Reloaded:
        if self._read_again is None:
            return Reloaded()
        try:
            new = self._read_again()
        except ConfigError as error:
            for problem in error.problems:
                logger.error("the configuration is not taken over: %s", problem)
            return Reloaded(problems=error.problems)
        taken, left = changed(self.config, new.config)
        self.config = taken_over(self.config, new.config)
        self._apply(self.config)
        for _name, front_end in self._front_ends:
            front_end.reload(self.config)
        if self._http_tls is not None:
            try:
                self._http_tls.load_cert_chain(self.config.tls.certificate, self.config.tls.key)
            except OSError as error:
                logger.error("certificate and key are not taken over by HTTP: %s", error)
        logger.info("configuration read again", extra={"changed": ", ".join(taken) or "nothing"})
        if left:
            logger.warning("these settings need another start: %s", ", ".join(left))
        return Reloaded(taken, left)

    def _apply(self, config: ServerConfig) -> None:
        self._logs.set_levels(config.logging.level, config.logging.levels)
        self.statements.slow_s = config.logging.slow_statement_s
        self.statements.slow_chars = config.logging.slow_statement_chars
        self.statements.slow_plan = config.logging.slow_statement_plan
        self.statements.table.limit(config.statistics.statements, config.statistics.statement_bytes)


def serve(loaded: LoadedConfig, reload: Callable[[], LoadedConfig] | None = None) -> int:
    """Run a server to its end; the exit code. OSError when its log file cannot be opened."""
    logs = Logs(loaded.config.logging.format, loaded.config.logging.file)
    logs.open()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(ServerProcess(loaded, logs, reload).run())
    except ServerStartError as error:
        logger.critical("cannot start: %s", error, extra=_page(str(error)))
    except SqlError as error:
        parts = {"sqlstate": error.sqlstate, "detail": error.detail, "hint": error.hint}
        logger.critical(
            "cannot start: %s",
            error.message,
            extra={name: text for name, text in parts.items() if text} | _page(error.message, error.sqlstate),
        )
    except Exception:
        logger.critical("ended by an error", exc_info=True)
    else:
        return 0
    finally:
        logs.close()
    return _FAILED


def _reason(error: OSError) -> str:
    """The reason alone: asyncio's own messages repeat the place in many words."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


def _page(message: str, sqlstate: str | None = None) -> dict[str, str]:
    """The field of the log that says where an error is explained."""
    page = page_of(message, sqlstate)
    return {} if page is None else {"page": page}


def _failure(error: BaseException | None) -> str | None:
    return None if error is None else str(error)


def _log_recovery(database: ServedDatabase) -> None:
    found = database.recovery
    logger.info(
        "database open",
        extra={
            "checkpoint": str(found.checkpoint),
            "end": str(found.end),
            "transactions": found.transactions,
            "seconds": round(found.seconds, 3),
        },
    )
    for torn in database.torn:
        logger.warning(
            "the log's end was torn by a crash, and is cut", extra={"file": torn.file, "bytes": torn.bytes}
        )
    if database.rebuilt is not None:
        logger.warning("the store was rebuilt from the log: %s", database.rebuilt)


def _processor_s() -> float:
    """What this process has used of the processors so far."""
    return round(time.process_time(), 3)


def _raise_descriptor_limit(connections: int, workers: int) -> None:
    """Let the process have as many files open as it may, and say when that is too few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    if soft < connections + workers * _DESCRIPTORS_OF_A_WORKER + _OTHER_DESCRIPTORS:
        logger.warning(
            "%d connections are allowed, but the process may have only %d files open (ulimit -n)",
            connections,
            soft,
        )

"""The HTTP page: /health, /ready, /status, /metrics, and / with links to them; below /console the console.

Its own pages are read-only, and small: what is asked for is answered from memory, on the server's loop. They
know no passwords, so they say nothing of statements or data; keep them on an address that only operators
reach. An ASGI application of five pages, on uvicorn's HTTP/1.1 protocol: uvicorn's own server would look at
its state ten times a second. uvicorn is imported at the first connection, Prometheus's client when the
metrics are first asked for, and the console, another application, is made at its first request.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import ssl

    from uvicorn.protocols.http.h11_impl import H11Protocol

    from herdpy_server.http.families import MetricsText
    from herdpy_server.http.status import ServerMetrics, ServerStatus
    from herdpy_server.serving.node import ServedNode, TablespaceStatus

logger = logging.getLogger("herdpy.http")

_INDEX = """<!doctype html>
<title>HerdPy</title>
<h1>HerdPy {version}</h1>
<p>{phase}
<ul>
<li><a href="/health">health</a>: the process answers
<li><a href="/ready">ready</a>: clients may use this server
<li><a href="/status">status</a>: the tablespaces, and where they stand
<li><a href="/metrics">metrics</a>: for Prometheus
{console}</ul>
"""
_CONSOLE_LINK = '<li><a href="/console/">console</a>: the cluster, sessions, tables and SQL, for people\n'
_CONSOLE = "/console"
_MAX_LINE_BYTES = 4096
_MAX_HEAD_BYTES = 8192
"""Of a head that does not come in one piece."""
_MAX_CONNECTIONS = 256
_KEEPALIVE_S = 75
_SHUTDOWN_S = 1.0

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]
"""ASGI 3."""


class Page(NamedTuple):
    """What is answered."""

    status: int
    content_type: str
    body: bytes


class StatusPage:
    """The page, from :meth:`start` to :meth:`stop`.

    Attributes:
        node: set once there is one.
        make_console: makes the console; set once it can be, None for none.
    """

    def __init__(self, status: ServerStatus, metrics: ServerMetrics, version: str) -> None:
        self._status = status
        self._metrics = metrics
        self._version = version
        self.node: ServedNode | None = None
        self.make_console: Callable[[], Application] | None = None
        self._console: Application | None = None
        self._pages: dict[str, Callable[[str], Page]] = {
            "/": self._index,
            "/health": self._health,
            "/ready": self._ready,
            "/status": self._status_text,
            "/metrics": self._metrics_text,
        }
        self._text: MetricsText | None = None
        self._protocol: Callable[[], H11Protocol] | None = None
        self._connections: set[Any] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self.port = 0

    async def start(self, address: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Listen; ``port`` 0 takes a free one. OSError when the port is taken.

        Args:
            tls: what connections are made with; None: plain HTTP.
        """
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._connected, address, port, ssl=tls)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Listen no more, and end the connections; a second call does nothing."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        listener.close()
        for connection in list(self._connections):
            connection.shutdown()
        answering = list(self._tasks)
        if answering:
            await asyncio.wait(answering, timeout=_SHUTDOWN_S)
        for connection in list(self._connections):
            connection.transport.abort()

    def _connected(self) -> H11Protocol:
        if self._protocol is None:
            self._protocol = self._load_protocol()
        return self._protocol()

    def _load_protocol(self) -> Callable[[], H11Protocol]:
        """What makes the protocol of a connection."""
        from uvicorn import Config
        from uvicorn.protocols.http.h11_impl import H11Protocol
        from uvicorn.server import ServerState

        config = Config(
            self._answer,
            interface="asgi3",
            http=H11Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_keep_alive=_KEEPALIVE_S,
            h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
        )
        config.load()
        clients = ServerState()
        self._connections, self._tasks = clients.connections, clients.tasks
        return lambda: H11Protocol(config, clients, {})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request (ASGI 3)."""
        path = scope["path"]
        if self.make_console is not None and (path == _CONSOLE or path.startswith(f"{_CONSOLE}/")):
            if self._console is None:
                self._console = self.make_console()
            await self._console(scope, receive, send)
            return
        page = self._page_of(scope)
        headers = [
            (b"content-type", page.content_type.encode()),
            (b"content-length", b"%d" % len(page.body)),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": page.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else page.body
        await send({"type": "http.response.body", "body": body})

    def _page_of(self, scope: Scope) -> Page:
        if len(scope["raw_path"]) + len(scope["query_string"]) > _MAX_LINE_BYTES:
            return Page(400, "text/plain; charset=utf-8", b"400: Bad Request\n")
        page = self._pages.get(scope["path"])
        if page is None:
            return Page(404, "text/plain; charset=utf-8", b"404: Not Found\n")
        if scope["method"] not in {"GET", "HEAD"}:
            return Page(405, "text/plain; charset=utf-8", b"405: Method Not Allowed\n")
        accepted = [value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"]
        return page(", ".join(accepted))

    def _index(self, _accepted: str) -> Page:
        console = "" if self.make_console is None else _CONSOLE_LINK
        text = _INDEX.format(version=self._version, phase=self._status.phase.value, console=console)
        return Page(200, "text/html; charset=utf-8", text.encode())

    def _health(self, _accepted: str) -> Page:
        """The process answers, so it need not be started again, whatever else is wrong with it."""
        status = self._status
        return _json(
            200,
            {
                "status": "ok",
                "phase": status.phase.value,
                "version": self._version,
                "uptime_s": round(status.uptime_s, 3),
            },
        )

    def _ready(self, _accepted: str) -> Page:
        status = self._status
        problems = status.problems()
        ready = status.is_ready
        return _json(
            200 if ready else 503, {"ready": ready, "phase": status.phase.value, "problems": problems}
        )

    def _status_text(self, _accepted: str) -> Page:
        node = self.node
        reports = [] if node is None else [_tablespace_status(one) for one in node.statuses()]
        node_id = "" if node is None else node.node_id
        return _json(200, {"node": node_id, "phase": self._status.phase.value, "tablespaces": reports})

    def _metrics_text(self, accepted: str) -> Page:
        if self._text is None:
            from herdpy_server.http.families import MetricsText

            self._text = MetricsText(self._metrics)
        body, content_type = self._text.of(accepted)
        return Page(200, content_type, body)


def _tablespace_status(one: TablespaceStatus) -> dict[str, object]:
    seeding = one.seeding
    return {
        "name": one.name,
        "role": one.role,
        "state": one.state,
        "applied": str(one.applied),
        "durable": str(one.durable),
        "log_end": str(one.log_end),
        "lag_entries": one.lag_entries,
        "hears_leader": one.hears_leader,
        "read_index_questions": one.read_index_questions,
        "reads_in_place": one.reads_in_place,
        "reads_waited": one.reads_waited,
        "leader": one.leader,
        "epoch": one.epoch,
        "takeovers": one.takeovers,
        "log_confirmed_reads": one.log_confirmed_reads,
        "seedings": one.seedings,
        "problem": one.problem,
        "unfit": one.unfit,
        "seeding": None
        if seeding is None
        else {
            "donor": seeding.donor,
            "received_bytes": seeding.received_bytes,
            "total_bytes": seeding.total_bytes,
        },
    }


def _json(status: int, said: dict[str, object]) -> Page:
    return Page(status, "application/json; charset=utf-8", f"{json.dumps(said)}\n".encode())

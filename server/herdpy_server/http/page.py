"""The HTTP page: /health, /ready, /status, /metrics, and / with links to them.

Read-only, and small: what is asked for is answered from memory, on the server's loop. It knows no
passwords, so it says nothing of statements or data; keep it on an address that only operators reach.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from herdpy_server.http.metrics import ServerMetrics
    from herdpy_server.http.status import ServerStatus
    from herdpy_server.serving.tablespaces import Standing, Tablespaces

logger = logging.getLogger("herdpy.http")

_INDEX = """<!doctype html>
<title>HerdPy</title>
<h1>HerdPy {version}</h1>
<p>{phase}
<ul>
<li><a href="/health">health</a>: the process answers
<li><a href="/ready">ready</a>: clients should be sent here
<li><a href="/status">status</a>: the tablespaces, and where they stand
<li><a href="/metrics">metrics</a>: for Prometheus
</ul>
"""
_MAX_LINE_BYTES = 4096
_KEEPALIVE_S = 75.0


class StatusPage:
    """The page, from :meth:`start` to :meth:`stop`.

    Attributes:
        tablespaces: set once there are some.
    """

    def __init__(self, status: ServerStatus, metrics: ServerMetrics, version: str) -> None:
        self._status = status
        self._metrics = metrics
        self._version = version
        self.tablespaces: Tablespaces | None = None
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, address: str, port: int) -> None:
        """Listen; ``port`` 0 takes a free one. OSError when the port is taken."""
        app = web.Application(client_max_size=1)
        app.add_routes(
            [
                web.get("/", self._index),
                web.get("/health", self._health),
                web.get("/ready", self._ready),
                web.get("/status", self._status_text),
                web.get("/metrics", self._metrics_text),
            ]
        )
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            keepalive_timeout=_KEEPALIVE_S,
            max_line_size=_MAX_LINE_BYTES,
            max_field_size=_MAX_LINE_BYTES,
            shutdown_timeout=1.0,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, address, port).start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self.port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Listen no more; a second call does nothing."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _index(self, _request: web.Request) -> web.Response:
        text = _INDEX.format(version=self._version, phase=self._status.phase.value)
        return web.Response(text=text, content_type="text/html")

    async def _health(self, _request: web.Request) -> web.Response:
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

    async def _ready(self, _request: web.Request) -> web.Response:
        status = self._status
        problems = status.problems()
        ready = status.is_ready
        return _json(
            200 if ready else 503, {"ready": ready, "phase": status.phase.value, "problems": problems}
        )

    async def _status_text(self, _request: web.Request) -> web.Response:
        tablespaces = self.tablespaces
        told = [] if tablespaces is None else [_standing(one) for one in tablespaces.standings()]
        node = "" if tablespaces is None else tablespaces.node_id
        return _json(200, {"node": node, "phase": self._status.phase.value, "tablespaces": told})

    async def _metrics_text(self, request: web.Request) -> web.Response:
        body, content_type = self._metrics.expose(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})


def _standing(one: Standing) -> dict[str, object]:
    seeding = one.seeding
    return {
        "name": one.name,
        "role": one.role,
        "state": one.state,
        "applied": str(one.applied),
        "durable": str(one.durable),
        "log_end": str(one.log_end),
        "lag_entries": one.lag_entries,
        "leader": one.leader,
        "epoch": one.epoch,
        "takeovers": one.takeovers,
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


def _json(status: int, said: dict[str, object]) -> web.Response:
    return web.Response(
        status=status,
        text=json.dumps(said) + "\n",
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )

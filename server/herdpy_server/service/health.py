"""grpc.health.v1: whether calls should be sent here. It asks nobody who he is, as probes need it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

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
        """Nothing is served any more: watchers are told, and their streams end."""
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
        told = None
        while True:
            status = self._status(request.service)
            if status != told:
                await context.write(health_pb2.HealthCheckResponse(status=status))
                told = status
            if self._stopping.is_set():
                return
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(_LOOK_S):
                await self._stopping.wait()
        except TimeoutError:
            pass

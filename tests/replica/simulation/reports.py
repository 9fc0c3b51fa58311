"""A leader's reports to its followers over the simulated network: late, out of order, held back by a cut.

What is sent is what the leader's node would send over gRPC; what arrives goes to the follower's own listener.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from contextvars import copy_context
from typing import Any, Protocol

import grpc

from herdpy.rpc.address import RemoteError
from herdpy.rpc.lac_reports import LacReport
from herdpy.testing.model import on_host
from herdpy.testing.model.network import SimulatedLink, SimulatedNetwork
from herdpy_server.cluster.layout import LeaderRecord
from herdpy_server.replica.lac_reports import Reports
from herdpy_server.replica.replica import Replica
from herdpy_sql.errors import SqlError
from tests.cluster.simulated import NOWHERE

_HELD_S = 0.05


class ReportingNode(Protocol):
    """The node of a leader."""

    host: str
    replica: Replica | None
    is_dead: bool

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]: ...


class Wire:
    """Takes reports from one node to another."""

    def __init__(self, link: SimulatedLink, rng: random.Random) -> None:
        self.arrived: asyncio.Queue[LacReport | None] = asyncio.Queue()
        self._link = link
        self._rng = rng

    async def send(self, node: ReportingNode) -> None:
        """Send what the node reports, on its host."""
        try:
            assert node.replica is not None
            _log_id, reports = node.replica.served.log.lac_reports()
            async with aclosing(reports):
                async for report in reports:
                    self._post(report)
        except SqlError:
            pass
        self._post(None)

    def _post(self, report: LacReport | None) -> None:
        with on_host(NOWHERE):  # it arrives, whatever becomes of its sender
            context = copy_context()
        loop = asyncio.get_running_loop()
        loop.call_later(self._link.delay.draw(self._rng), self._arrive, report, context=context)

    def _arrive(self, report: LacReport | None) -> None:
        if self._link.is_cut:
            asyncio.get_running_loop().call_later(_HELD_S, self._arrive, report)
        else:
            self.arrived.put_nowait(report)


def simulated_reports(
    nodes: dict[str, Any], network: SimulatedNetwork, own_host: str, rng: random.Random
) -> Reports:
    """Reports to the node on ``own_host``; ``nodes`` are those that there are, by name."""

    async def reports(
        leader: LeaderRecord, _tablespace: str, _log_id: str
    ) -> AsyncGenerator[LacReport, None]:
        node: ReportingNode = nodes[leader.node]
        if node.is_dead or node.replica is None:
            raise RemoteError(grpc.StatusCode.UNAVAILABLE, "08006", "nobody is there")
        wire = Wire(network.links.between(node.host, own_host), rng)
        sending = node.begin(wire.send(node), "reports")
        try:
            while (report := await wire.arrived.get()) is not None:
                yield report
        finally:
            sending.cancel()

    return reports

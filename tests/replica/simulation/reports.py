"""A leader's reports to its followers over the simulated network: late, out of order, held back by a cut.

Questions for read indexes, and the answers, travel with them in the same way, and some come twice.

What is sent is what the leader's node would send over gRPC; what arrives goes to the follower's own listener.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from contextvars import copy_context
from typing import Any, Protocol

import grpc

from herdpy.rpc.address import RemoteError
from herdpy.rpc.lac_reports import LacReport
from herdpy.rpc.read_index import ReadIndex, ReadIndexAnswerer, ReadIndexAsker
from herdpy.testing.model import on_host
from herdpy.testing.model.network import SimulatedLink, SimulatedNetwork
from herdpy_server.cluster.layout import LeaderRecord
from herdpy_server.replica.lac_reports import Reports
from herdpy_server.replica.replica import Replica
from herdpy_sql.errors import SqlError
from tests.cluster.simulated import NOWHERE

_HELD_S = 0.05
_TWICE = 0.1


class ReportingNode(Protocol):
    """The node of a leader."""

    host: str
    replica: Replica | None
    is_dead: bool

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]: ...


class Wire:
    """Takes reports from one node to another, and questions and answers between them.

    Unlike one connection it does not keep their order, and what is late arrives also when it has ended.
    """

    def __init__(
        self, network: SimulatedNetwork, node: ReportingNode, own_host: str, rng: random.Random
    ) -> None:
        self.arrived: asyncio.Queue[LacReport | None] = asyncio.Queue()
        self._node = node
        self._own_host = own_host
        self._here = network.links.between(node.host, own_host)
        self._there = network.links.between(own_host, node.host)
        self._rng = rng

    async def send(self, asker: ReadIndexAsker) -> None:
        """Send what the node reports, on its host."""
        try:
            assert self._node.replica is not None
            log_id, reports, answerer = self._node.replica.served.log.lac_reports()
            self._carry(self._here, self._connect, asker, answerer, log_id)
            try:
                async with aclosing(reports):
                    async for report in reports:
                        self._carry(self._here, self.arrived.put_nowait, report)
            finally:
                answerer.close()
        except SqlError:
            pass
        self._carry(self._here, self.arrived.put_nowait, None)

    def _connect(self, asker: ReadIndexAsker, answerer: ReadIndexAnswerer, log_id: str) -> None:
        def answer(index: ReadIndex) -> None:
            for _ in range(2 if self._rng.random() < _TWICE else 1):
                self._carry(
                    self._here, self._at(self._own_host, _answered, asker), index.encode(log_id), log_id
                )

        def ask(number: int) -> None:
            self._carry(self._there, self._at(self._node.host, self._asked, answerer), number, answer)

        asker.connected(ask)

    def _asked(self, answerer: ReadIndexAnswerer, number: int, answer: Callable[[ReadIndex], object]) -> None:
        if not self._node.is_dead:
            answerer.answer(number, answer)

    @staticmethod
    def _at(host: str, call: Callable[..., object], *first: object) -> Callable[..., object]:
        """Have something called on a host: later, while that is paused."""
        with on_host(host):
            context = copy_context()
        return lambda *rest: asyncio.get_running_loop().call_soon(call, *first, *rest, context=context)

    def _carry(self, link: SimulatedLink, arrive: Callable[..., object], *what: object) -> None:
        with on_host(NOWHERE):  # it arrives, whatever becomes of its sender
            context = copy_context()
        delay_s = link.delay.draw(self._rng)
        asyncio.get_running_loop().call_later(delay_s, self._pass, link, arrive, what, context=context)

    def _pass(self, link: SimulatedLink, arrive: Callable[..., object], what: tuple[object, ...]) -> None:
        if link.is_cut:
            asyncio.get_running_loop().call_later(_HELD_S, self._pass, link, arrive, what)
        else:
            arrive(*what)


def _answered(asker: ReadIndexAsker, encoded: bytes, log_id: str) -> None:
    asker.answered(ReadIndex.decode(encoded, log_id))


def simulated_reports(
    nodes: dict[str, Any], network: SimulatedNetwork, own_host: str, rng: random.Random
) -> Reports:
    """Reports to the node on ``own_host``; ``nodes`` are those that there are, by name."""

    async def reports(
        leader: LeaderRecord, _tablespace: str, _log_id: str, asker: ReadIndexAsker
    ) -> AsyncGenerator[LacReport, None]:
        node: ReportingNode = nodes[leader.node]
        if node.is_dead or node.replica is None:
            raise RemoteError(grpc.StatusCode.UNAVAILABLE, "08006", "nobody is there")
        wire = Wire(network, node, own_host, rng)
        sending = node.begin(wire.send(asker), "reports")
        try:
            while (report := await wire.arrived.get()) is not None:
                yield report
        finally:
            sending.cancel()

    return reports

"""The cluster that faults happen to: how each fault is done to a server, and how all of it is healed.

`heal` returns when every server works again, shown by ZooKeeper hearing from the session of each bookie's
registration: what a test does next meets no late consequence of the fault before.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from kazoo.client import KazooClient

from herdpy.bookkeeper import BookieUnavailableError, BookKeeper, ClientSettings
from herdpy.bookkeeper.metadata.znodes import ZooKeeperState
from herdpy.bookkeeper.metadata.zookeeper import KazooZnodes
from herdpy.testing import BookieServer, BookKeeperCluster, ZooKeeperServer
from herdpy.testing.process import await_until
from herdpy.testing.zookeeper import LEDGERS_ROOT, ClusterZnodes
from tests.bookkeeper.faults.history import History
from tests.bookkeeper.faults.judge import find, judge
from tests.bookkeeper.faults.workload import PATIENCE_S, Tailing

QUICK = ClientSettings(
    request_timeout_s=1.5,
    connect_timeout_s=1.5,
    speculative_read_s=0.1,
    long_poll_s=0.5,
    backoff_max_s=0.5,
    quarantine_s=5.0,
    zookeeper_timeout_s=4.0,
)
"""Time-outs short enough that silence is noticed while a test looks."""

LOUD = replace(QUICK, request_timeout_s=10.0)
"""Where bookies are only killed, which closes their connections: a slow machine must not add faults."""

FAULTS = ("kill", "pause", "cut")
CUTS = ("cut", "mute", "deaf")
"""Both directions, what the server sends, what is sent to it."""


def all_but(*rare: str) -> list[Any]:
    """Every fault as a test's parameter; the rare ones, which take long, in `make soak` only."""
    return [pytest.param(fault, marks=[pytest.mark.soak] if fault in rare else []) for fault in FAULTS]


_CONNECTION = re.compile(r"recved=(\d+).*?sid=(0x[0-9a-f]+)")

Server = BookieServer | ZooKeeperServer


class World:
    """A cluster of the tests' own. `cannot_cut` is None, or the reason why servers cannot be cut off."""

    def __init__(self, cluster: BookKeeperCluster, cannot_cut: str | None = None) -> None:
        self.cluster = cluster
        self.cannot_cut = cannot_cut
        self._hurt: list[Server] = []
        self._read_only: list[BookieServer] = []

    @property
    def uri(self) -> str:
        """What clients are given."""
        return self.cluster.uri

    def client(self, settings: ClientSettings = QUICK) -> BookKeeper:
        """A client with short time-outs."""
        return BookKeeper(self.uri, settings=settings)

    def bookie(self, bookie_id: str) -> BookieServer:
        """The bookie of that id."""
        return next(bookie for bookie in self.cluster.bookies if bookie.id == bookie_id)

    def hurt(self, fault: str, server: Server) -> None:
        """Let a server fail, at once: `kill`, `pause`, `cut`, or cut in one direction (`mute`, `deaf`)."""
        self._hurt.append(server)
        if fault == "kill":
            server.kill()
        elif fault == "pause":
            server.pause()
        else:
            server.cut(incoming=fault != "mute", outgoing=fault != "deaf")

    def is_hurt(self, server: Server) -> bool:
        """Whether anything was done to the server since all was healed."""
        return server in self._hurt

    def restart_read_only(self, bookie: BookieServer) -> None:
        """Restart a bookie so that it takes no writes, until everything is healed."""
        self._read_only.append(bookie)
        bookie.stop()
        bookie.configure(forceReadOnlyBookie="true")
        bookie.start()

    def restore(self, *servers: Server) -> None:
        """Undo what was done to servers; blocks while killed ones start, all at the same time."""
        for server in servers:
            if self.cannot_cut is None:
                server.heal()
            server.resume()
        if self.cluster.zookeeper in servers:
            self.cluster.zookeeper.start()
        killed = [one for one in servers if isinstance(one, BookieServer) and not one.is_running]
        if killed:
            with ClusterZnodes(self.cluster.zookeeper.hostport) as znodes:
                for bookie in killed:
                    bookie.launch(znodes)
                for bookie in killed:
                    bookie.await_ready(znodes)

    def heal(self) -> None:
        """Undo everything, and wait until ZooKeeper has heard from every bookie since."""
        while self._read_only:
            bookie = self._read_only.pop()
            bookie.stop()
            bookie.configure(forceReadOnlyBookie="false")
            self._hurt.append(bookie)
        if not self._hurt:
            return
        ended = [one for one in self.cluster.bookies if not one.is_running]  # perhaps by themselves
        self.restore(self.cluster.zookeeper, *self._hurt, *ended)
        with _session(self.cluster.zookeeper) as client:
            at_first: dict[tuple[str, int], int] = {}

            def all_heard() -> bool:
                heard = _requests_of_sessions(self.cluster.zookeeper)
                well = True
                for bookie_id in self.cluster.bookie_ids:
                    owner = _owner(client, bookie_id)
                    now = heard.get(owner, -1)
                    well &= now > at_first.setdefault((bookie_id, owner), max(now, 0))
                return well

            assert await_until(all_heard, PATIENCE_S), f"a bookie did not come back: {at_first}"
        self._hurt.clear()

    async def judged(self, history: History, *tails: Tailing, resealed: bool = False) -> None:
        """Heal everything, look at the ledger, and fail with every promise that was broken.

        The tails must come to their end then. `resealed`: auto recovery has copied entries; its copies say
        that everything up to the end of the ledger is confirmed.
        """
        await asyncio.to_thread(self.heal)
        found = await find(self.uri, history.ledger_id)
        found.is_resealed = resealed
        for tail in tails:
            await tail.finished()
        broken = judge(history, found)
        assert not broken, "\n".join(broken[:20])


async def expire_session(bk: BookKeeper) -> None:
    """End a client's ZooKeeper session at the server: another connection takes it over and closes it."""
    znodes = bk.znodes
    assert isinstance(znodes, KazooZnodes)
    kazoo = znodes._client

    def take_over() -> None:
        usurper = KazooClient(znodes._hosts, client_id=kazoo.client_id)
        usurper.start(PATIENCE_S)
        usurper.stop()
        usurper.close()

    await asyncio.to_thread(take_over)


async def reaches(bk: BookKeeper, bookie_id: str) -> None:
    """Wait until a client reaches a bookie that came back: it pauses between attempts to connect."""
    bookie = bk._open_parts().pool.get(bookie_id)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await bookie.info()
                return
            except BookieUnavailableError:
                await asyncio.sleep(0.05)


async def lost_zookeeper(bk: BookKeeper) -> None:
    """Wait until a client has noticed that ZooKeeper does not answer."""
    znodes = bk.znodes
    assert isinstance(znodes, KazooZnodes)
    noticed = asyncio.Event()
    watch = znodes.on_session(lambda _: noticed.set())
    async with asyncio.timeout(PATIENCE_S):
        if znodes.state is ZooKeeperState.CONNECTED:
            await noticed.wait()
    watch.cancel()


def run(program: Coroutine[Any, Any, None]) -> None:
    """Run a test's program; nothing may be left running behind it."""

    async def main() -> None:
        await program
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:  # asked to end, perhaps, and not at their end yet
            _, left = await asyncio.wait(left, timeout=PATIENCE_S / 10)
        assert not left, left

    asyncio.run(main())


@contextmanager
def _session(zookeeper: ZooKeeperServer) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.hostport)
    client.start(PATIENCE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def _owner(client: KazooClient, bookie_id: str) -> int:
    """The session of a bookie's registration, -1 when it has none."""
    for directory in ("available", "available/readonly"):
        stat = client.exists(f"{LEDGERS_ROOT}/{directory}/{bookie_id}")
        if stat is not None:
            return int(stat.ephemeralOwner)
    return -1


def _requests_of_sessions(zookeeper: ZooKeeperServer) -> dict[int, int]:
    """How many requests, pings among them, ZooKeeper received on each session's present connection."""
    with socket.create_connection((zookeeper.address, zookeeper.port), PATIENCE_S) as connection:
        connection.sendall(b"cons")
        with connection.makefile("r") as answer:
            found = _CONNECTION.findall(answer.read())
    return {int(session, 16): int(received) for received, session in found}

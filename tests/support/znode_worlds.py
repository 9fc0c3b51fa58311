"""Two ZooKeepers for one suite: the model in virtual time and a real server, behind the same few methods."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from kazoo.client import KazooClient

from herdpy.bookkeeper.errors import Outcome, ZooKeeperUnavailableError
from herdpy.bookkeeper.metadata.znodes import Znodes
from herdpy.bookkeeper.metadata.zookeeper import KazooZnodes
from herdpy.testing import ZooKeeperServer
from herdpy.testing.model.loop import VirtualLoop
from herdpy.testing.model.network import SimulatedNetwork
from herdpy.testing.model.zookeeper import ModelZnodes, ModelZooKeeper

Program = Callable[[], Awaitable[None]]


class ModelWorld:
    """The model: nothing is started, and time is a number."""

    def __init__(self) -> None:
        self.root = "/ledgers"
        self._loop = VirtualLoop(1, limit_s=1000)
        network = SimulatedNetwork(self._loop, random.Random(1))
        self._zookeeper = ModelZooKeeper(self._loop, random.Random(1), network.links)
        self._hosts = itertools.count()

    def run(self, program: Program) -> None:
        async def main() -> None:
            await program()
            for client in list(self._zookeeper.clients):
                await client.close()

        self._loop.run(main())
        assert self._loop.leaked == []

    async def client(self) -> Znodes:
        znodes = ModelZnodes(self._zookeeper, f"client{next(self._hosts)}")
        await znodes.start()
        return znodes

    async def expire(self, znodes: Znodes) -> None:
        assert isinstance(znodes, ModelZnodes)
        znodes.expire()

    def close(self) -> None:
        self._loop.close()


_ENDING_S = 15.0
"""How long threads may take to end once their client is closed: less than the long time-outs of tests."""


def await_ended(threads: set[threading.Thread]) -> None:
    """Wait until threads have ended; a client that is closed leaves none that go on.

    A client is closed in a bounded time, and its threads end a little later where a busy machine, or a server
    that it slows down, has let that time pass.
    """
    until_s = time.monotonic() + _ENDING_S
    for thread in threads:
        thread.join(max(0.0, until_s - time.monotonic()))
    left = [thread.name for thread in threads if thread.is_alive()]
    assert not left, f"threads go on after their client was closed: {left}"


class RealWorld:
    """A real server, shared by many tests: each has a root of its own."""

    _roots = itertools.count()

    def __init__(self, server: ZooKeeperServer) -> None:
        self.root = f"/test{next(self._roots)}/ledgers"
        self._server = server
        self._clients: list[KazooZnodes] = []

    def run(self, program: Program) -> None:
        before = set(threading.enumerate())

        async def main() -> None:
            try:
                async with asyncio.timeout(60):
                    await program()
            finally:
                for client in self._clients:
                    await client.close()

        asyncio.run(main())
        await_ended(set(threading.enumerate()) - before)

    async def client(self, **options: Any) -> KazooZnodes:
        patience = {"operation_timeout_s": 30.0}  # Java beside whatever else the machine does
        znodes = KazooZnodes(self._server.hostport, session_timeout_s=4.0, **(patience | options))
        self._clients.append(znodes)
        await znodes.start()
        return znodes

    async def expire(self, znodes: Znodes) -> None:
        """End the session at the server: another client takes it over and closes it."""
        assert isinstance(znodes, KazooZnodes)
        session = znodes._client.client_id
        await asyncio.to_thread(self._take_over_and_close, session)

    def _take_over_and_close(self, session: tuple[int, bytes]) -> None:
        usurper = KazooClient(self._server.hostport, client_id=session)
        usurper.start(15)
        usurper.stop()
        usurper.close()

    def close(self) -> None:
        """The server is another's."""


World = ModelWorld | RealWorld


class Meddler:
    """Znodes between a program and the real ones, that loses requests and replies on demand."""

    def __init__(self, znodes: Znodes) -> None:
        self._znodes = znodes
        self.lose_replies: list[str] = []
        """Operations whose next reply is lost: the change is made, and nobody is notified."""
        self.lose_requests: list[str] = []
        """Operations whose next request is lost: nothing is made, and nobody can tell."""
        self.before: dict[str, Callable[[], Awaitable[object]]] = {}
        """What happens once, just before the next operation of a name."""
        self.made: list[str] = []
        """The paths of successful creates."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._znodes, name)

    async def _meddle(self, name: str, operation: Callable[[], Awaitable[Any]]) -> Any:
        if (first := self.before.pop(name, None)) is not None:
            await first()
        if name in self.lose_requests:
            self.lose_requests.remove(name)
            raise ZooKeeperUnavailableError(outcome=Outcome.UNKNOWN)
        result = await operation()
        if name in self.lose_replies:
            self.lose_replies.remove(name)
            raise ZooKeeperUnavailableError(outcome=Outcome.UNKNOWN)
        return result

    async def create(self, path: str, data: bytes = b"", **flags: bool) -> str:
        made: str = await self._meddle("create", lambda: self._znodes.create(path, data, **flags))
        self.made.append(made)
        return made

    async def set(self, path: str, data: bytes, version: int) -> int:
        version = await self._meddle("set", lambda: self._znodes.set(path, data, version))
        return version

    async def delete(self, path: str, version: int = -1) -> None:
        await self._meddle("delete", lambda: self._znodes.delete(path, version))


class Seen:
    """A callback that keeps its arguments, and can be waited for."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._news = asyncio.Event()

    def __call__(self, *states: Any) -> None:
        self.all.append(states[0] if states else None)
        self._news.set()

    async def until(self, wanted: Callable[[Any], bool]) -> Any:
        """Wait until a state is delivered that is wanted, now or later; the newest one is looked at."""
        while not (self.all and wanted(self.all[-1])):
            self._news.clear()
            await self._news.wait()
        return self.all[-1]

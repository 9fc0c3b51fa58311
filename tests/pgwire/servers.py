"""Servers for the tests of pgwire: one in a thread of this process, one in a child process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from herdpy_server.pgwire import Authority, PgServer, PgSettings
from herdpy_server.roles.role import RoleFile, RoleStore
from herdpy_server.serving import Databases, ServedDatabase, alone
from herdpy_server.sessions.registry import SessionRegistry
from tests.support.server_process import PATIENCE_S

T = TypeVar("T")
MakeDatabases = Callable[[ServedDatabase], Databases]
ROOT = Path(__file__).parents[2]


class ThreadServer:
    """A server on a loop of its own in a thread of this process, so that tests can look inside."""

    def __init__(
        self,
        path: Path,
        settings: PgSettings,
        authority: Authority | None = None,
        databases: MakeDatabases = alone,
    ) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.database: ServedDatabase
        self.server: PgServer
        self.run(self._open(path, settings, authority, databases))

    async def _open(
        self, path: Path, settings: PgSettings, authority: Authority | None, databases: MakeDatabases
    ) -> None:
        self.database = await ServedDatabase.open(path)
        registry = SessionRegistry(RoleStore(RoleFile(path)))
        self.server = PgServer(databases(self.database), settings, authority, registry)
        await self.server.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(20)

    def look(self, what: Callable[[], T]) -> T:
        """Call something on the server's loop."""

        async def call() -> T:
            return what()

        return self.run(call())

    def wait_for(self, what: Callable[[], bool]) -> None:
        """Wait until something is true of the server."""

        async def watch() -> None:
            async with asyncio.timeout(PATIENCE_S):
                while not what():
                    await asyncio.sleep(0.005)

        self.run(watch())

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=herdpy dbname=herdpy"

    def is_clean(self) -> bool:
        """Whether nothing is left of any session."""
        database = self.database
        return (
            self.server.sessions == 0
            and self.server.connections == 0
            and not database.driver.waiting
            and len(database.tablespace.locks) == 0
        )

    def close(self) -> None:
        async def close() -> None:
            await self.server.stop()
            await self.database.close()

        self.run(close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(60)
        self.loop.close()


@contextlib.contextmanager
def thread_server(
    path: Path, authority: Authority | None = None, databases: MakeDatabases = alone, **settings: Any
) -> Iterator[ThreadServer]:
    server = ThreadServer(path, PgSettings(port=0, **settings), authority, databases)
    try:
        yield server
    finally:
        server.close()


def waits(server: ThreadServer, count: int = 1) -> None:
    """Wait until so many statements wait for locks."""
    server.wait_for(lambda: server.database.tablespace.locks.waiting == count)


class ChildServer:
    """A server in a process of its own, so that it can be killed, stopped and counted."""

    def __init__(self, path: Path, **settings: Any) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in (".", "server", "sql"))
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.pgwire.child", str(path), repr(settings)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment,
            text=True,
        )
        assert self.process.stdout is not None
        word, _, port = self.process.stdout.readline().partition(" ")
        assert word == "ready", "the server did not start"
        self.address = ("127.0.0.1", int(port))
        self.dsn = f"host=127.0.0.1 port={int(port)} user=herdpy dbname=herdpy"

    @property
    def descriptors(self) -> int:
        """How many files and sockets it has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    @property
    def resident_bytes(self) -> int:
        """How much memory it has."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> int:
        """End it as an administrator does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(120)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextlib.contextmanager
def child_server(path: Path, **settings: Any) -> Iterator[ChildServer]:
    server = ChildServer(path, **settings)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()

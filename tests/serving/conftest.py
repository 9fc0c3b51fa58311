"""A served database for a test, on a loop of each kind, and a way to hold or fail its log's disk."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from herdpy.log import FileLog
from herdpy.log.write_place import WritePlace
from herdpy_server.serving import ServedDatabase
from herdpy_server.sessions import Session
from herdpy_server.tablespace_host import DatabaseSettings

Main = Callable[[], Coroutine[Any, Any, Any]]


@pytest.fixture(params=["asyncio", "uvloop"])
def on_loop(request: pytest.FixtureRequest) -> Callable[[Main], Any]:
    """Runs a coroutine function on a loop; afterwards no thread of the engine may be left.

    What a callback of the loop raises fails the test too.
    """

    def run(main: Main) -> Any:
        before = set(threading.enumerate())  # other tests of this process may have made lasting ones
        told: list[dict[str, Any]] = []

        async def watched() -> Any:
            asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
            result = await main()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, "tasks are left"
            return result

        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            result = runner.run(watched())
        assert not told
        left = set(threading.enumerate()) - before
        names = [thread.name for thread in left if thread.name.startswith("herdpy")]
        assert names == []
        return result

    return run


@asynccontextmanager
async def served(path: Path, **settings: Any) -> AsyncIterator[ServedDatabase]:
    database = await ServedDatabase.open(path, DatabaseSettings(**settings))
    try:
        yield database
    finally:
        await database.close()


async def sql(database: ServedDatabase, text: str, *params: object, session: Session | None = None) -> Any:
    """Run a statement, in a session of its own when none is named; its rows as Python objects."""
    session = session or database.session()
    return (await database.call(session.execute(text, params))).python_rows()


class _ThreadAlone(WritePlace):
    def takes(self, size_bytes: int) -> bool:
        return False


def keep_in_thread(log: FileLog) -> None:
    """Never let the loop write, however quick the disk is: a test will hold the disk."""
    log.write_place = _ThreadAlone()


class DiskGate:
    """Holds each sync of a database's log until it is let go, or fails it."""

    def __init__(self, database: ServedDatabase) -> None:
        self.entered = asyncio.Semaphore(0)
        self._loop = asyncio.get_running_loop()
        self._go: queue.Queue[OSError | None] = queue.Queue()
        self._files = database.log._files
        self._sync = self._files.fdatasync
        self._files.fdatasync = self._held
        keep_in_thread(database.log)

    def _held(self, fd: int) -> None:
        self._loop.call_soon_threadsafe(self.entered.release)
        error = self._go.get()
        if error is not None:
            raise error
        self._sync(fd)

    def let_go(self, error: OSError | None = None) -> None:
        """One sync goes through, or fails with ``error``."""
        self._go.put(error)

    def open(self) -> None:
        """Hold no more."""
        self._files.fdatasync = self._sync
        self._go.put(None)

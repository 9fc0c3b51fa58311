"""A served database with workers on a loop of its own, and what tests do to them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from herdpy_server.serving import ServedDatabase
from herdpy_server.sessions import Session
from herdpy_server.tablespace_host import DatabaseSettings
from herdpy_server.workers.process import WorkerProcess
from herdpy_server.workers.scheduler import WorkerSettings

Main = Callable[[], Coroutine[Any, Any, Any]]

QUICK = WorkerSettings(maximum=1, threads=1)
LONG = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE (a * b) % 7 = 3"
"""A query that nobody waits for."""
PATIENCE_S = 90.0


@pytest.fixture
def on_loop() -> Callable[[Main], Any]:
    """Runs a coroutine function; what a callback raises fails the test, and so do tasks that are left."""

    def run(main: Main) -> Any:
        told: list[dict[str, Any]] = []

        async def watched() -> Any:
            asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
            result = await main()
            assert not asyncio.all_tasks() - {asyncio.current_task()}, "tasks are left"
            return result

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            result = runner.run(watched())
        assert not told
        return result

    return run


@asynccontextmanager
async def served(
    path: Path, workers: WorkerSettings | None = QUICK, **settings: Any
) -> AsyncIterator[ServedDatabase]:
    """A database with workers; afterwards none of them is left."""
    database = await ServedDatabase.open(path, DatabaseSettings(**settings), workers)
    pids: set[int] = set()
    try:
        yield database
        pids = {worker.pid for worker in (database.workers.workers if database.workers else ())}
    finally:
        await database.close()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert not list((path / "spill").glob("*"))


async def sql(database: ServedDatabase, text: str, *params: object, session: Session | None = None) -> Any:
    """Run a statement, in a session of its own when none is named; its rows as Python objects."""
    session = session or database.session()
    return (await database.call(session.execute(text, params))).python_rows()


def only(database: ServedDatabase) -> WorkerProcess:
    """The one worker there is."""
    assert database.workers is not None
    (worker,) = database.workers.workers
    return worker


async def until(condition: Callable[[], object]) -> None:
    """Return when it holds; fails when it does not for long."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        await asyncio.sleep(0.002)


async def computing(database: ServedDatabase) -> WorkerProcess:
    """The one worker, once DuckDB works in it: it has used the processor for a while since it was asked."""

    def asked() -> bool:
        workers = database.workers.workers if database.workers else ()
        return any(w.exchange is not None and w.exchange.at.value == "asked" for w in workers)

    await until(asked)
    worker = only(database)
    began = ticks(worker.pid)
    await until(lambda: ticks(worker.pid) >= began + 20)
    return worker


def ticks(pid: int) -> int:
    """Processor time that a process has used, in hundredths of a second."""
    with suppress(FileNotFoundError, ProcessLookupError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0


def memory_bytes(pid: int) -> int:
    """What a process has in memory of its own."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")

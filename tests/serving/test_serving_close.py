"""Closing a served database: gracefully, at once, twice; what waits is ended and what commits is not."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from herdpy.log.wait import Work
from herdpy_server.embedded import opened
from herdpy_server.serving import ServedDatabase
from herdpy_server.tablespace_host import DatabaseSettings, OpenDirectory
from herdpy_sql.errors import SqlError
from tests.serving.conftest import DiskGate, sql

TABLE = "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)"


async def lock_and_waiter(database: ServedDatabase) -> tuple[object, asyncio.Future[object]]:
    """A session whose transaction has a row locked, and a statement that waits for it."""
    await sql(database, TABLE)
    await sql(database, "INSERT INTO t VALUES (1, 0)")
    holder = database.session()
    await sql(database, "BEGIN", session=holder)
    await sql(database, "UPDATE t SET b = 1 WHERE a = 1", session=holder)
    waiter = asyncio.ensure_future(sql(database, "UPDATE t SET b = b + 10 WHERE a = 1"))
    await asyncio.sleep(0)
    return holder, waiter


def rows(path: Path) -> list[tuple[object, ...]]:
    with opened(path) as database:
        return database.run(database.session().execute("SELECT a, b FROM t ORDER BY a")).python_rows()


def test_a_graceful_close_lets_statements_end(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        database = await ServedDatabase.open(tmp_path / "db")
        holder, waiter = await lock_and_waiter(database)
        closing = asyncio.ensure_future(database.close(60.0))
        await asyncio.sleep(0)
        with pytest.raises(SqlError) as refused:
            database.session()
        assert refused.value.sqlstate == "57P03"
        assert not closing.done()
        await sql(database, "COMMIT", session=holder)
        await waiter
        await closing

    on_loop(main)
    assert rows(tmp_path / "db") == [(1, 11)]


def test_a_fast_close_ends_what_waits_and_rolls_back(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        database = await ServedDatabase.open(tmp_path / "db")
        holder, waiter = await lock_and_waiter(database)
        closing = asyncio.ensure_future(database.close())
        with pytest.raises(SqlError) as ended:
            await waiter
        assert ended.value.sqlstate == "57P01"
        await closing
        assert holder.transaction is None

    on_loop(main)
    assert rows(tmp_path / "db") == [(1, 0)]


def test_a_graceful_close_ends_those_who_take_too_long(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        database = await ServedDatabase.open(tmp_path / "db")
        _, waiter = await lock_and_waiter(database)
        await database.close(0.01)
        with pytest.raises(SqlError) as ended:
            await waiter
        assert ended.value.sqlstate == "57P01"

    on_loop(main)


def test_a_fast_close_waits_for_commits(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        database = await ServedDatabase.open(tmp_path / "db")
        await sql(database, TABLE)
        disk = DiskGate(database)
        session = database.session()
        await sql(database, "BEGIN", session=session)
        await sql(database, "INSERT INTO t VALUES (1, 1)", session=session)
        committing = [
            asyncio.ensure_future(sql(database, "COMMIT", session=session)),
            asyncio.ensure_future(sql(database, "INSERT INTO t VALUES (2, 2)")),
        ]
        await disk.entered.acquire()
        closing = asyncio.ensure_future(database.close())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not closing.done()
        disk.open()
        await asyncio.gather(*committing)
        await closing

    on_loop(main)
    assert rows(tmp_path / "db") == [(1, 1), (2, 2)]


def test_work_for_a_statement_is_waited_for_and_its_answer_dropped(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        database = await ServedDatabase.open(tmp_path / "db")
        began, free = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def work() -> None:
            loop.call_soon_threadsafe(began.set)
            assert free.wait(60)

        async def statement() -> str:
            await Work(work)
            return "too late"

        working = asyncio.ensure_future(database.call(statement()))
        await began.wait()
        closing = asyncio.ensure_future(database.close())
        await asyncio.sleep(0)
        free.set()
        with pytest.raises(SqlError) as ended:
            await working
        assert ended.value.sqlstate == "57P01"
        await closing

    on_loop(main)


def test_a_writer_that_waits_for_memory_is_ended(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        settings = DatabaseSettings(checkpoint_interval_s=1000.0, memtable_limit_bytes=20_000)
        database = await ServedDatabase.open(tmp_path / "db", settings)
        database.tablespace.memtable_full = lambda: None  # no checkpoint comes to make room
        await sql(database, TABLE)
        number = 0
        while not database.tablespace.is_full:
            await sql(database, "INSERT INTO t VALUES ($1, 0)", number)
            number += 1
        writer = asyncio.ensure_future(sql(database, "INSERT INTO t VALUES (-1, 0)"))
        await asyncio.sleep(0)
        assert len(database.driver.waiting) == 1
        await database.close()
        with pytest.raises(SqlError) as ended:
            await writer
        assert ended.value.sqlstate == "57P01"

    on_loop(main)


def test_a_second_close_waits_for_the_first(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        database = await ServedDatabase.open(tmp_path / "db")
        first = asyncio.ensure_future(database.close())
        await asyncio.sleep(0)
        assert database.is_closed
        await database.close()
        assert first.done()
        await database.close()
        with pytest.raises(SqlError) as refused:
            await database.checkpoint()
        assert refused.value.sqlstate == "57P03"
        again = await ServedDatabase.open(tmp_path / "db")  # the directory is free
        await again.close()

    on_loop(main)


@pytest.mark.parametrize("cancels", [1, 2])
def test_a_cancelled_opening_leaves_the_directory_to_the_next(
    tmp_path: Path, on_loop: Any, monkeypatch: pytest.MonkeyPatch, cancels: int
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        entered, go, closed = asyncio.Event(), threading.Event(), asyncio.Event()
        close = OpenDirectory.close

        def held(*given: Any, **more: Any) -> OpenDirectory:
            loop.call_soon_threadsafe(entered.set)
            go.wait()
            return OpenDirectory(*given, **more)

        def watched(directory: OpenDirectory) -> None:
            close(directory)
            loop.call_soon_threadsafe(closed.set)

        with monkeypatch.context() as patch:
            patch.setattr("herdpy_server.serving.database.OpenDirectory", held)
            patch.setattr(held, "close", watched, raising=False)
            opening = asyncio.create_task(ServedDatabase.open(tmp_path, DatabaseSettings()))
            await entered.wait()
            for _ in range(cancels):
                opening.cancel()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            go.set()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await closed.wait()
        database = await ServedDatabase.open(tmp_path, DatabaseSettings())
        await database.close()

    on_loop(main)

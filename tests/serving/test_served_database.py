"""A database on one loop: statements side by side, what one waits for, opening and closing."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from herdpy.log.wait import Work
from herdpy_server.embedded import opened
from herdpy_server.serving import ServedDatabase
from herdpy_server.tablespace_host import OpenDirectory
from herdpy_sql.errors import SqlError
from tests.serving.conftest import DiskGate, served, sql

TABLE = "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)"


def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path, on_loop) -> None:
    async def write() -> None:
        async with served(tmp_path / "db") as database:
            await sql(database, TABLE)
            await sql(database, "INSERT INTO t VALUES (1, 2)")

    async def read() -> list[tuple[object, ...]]:
        async with served(tmp_path / "db") as database:
            return await sql(database, "SELECT * FROM t WHERE a = 1")

    on_loop(write)
    assert on_loop(read) == [(1, 2)]
    with opened(tmp_path / "db") as database:  # the same format, whoever wrote it
        assert database.run(database.session().execute("SELECT * FROM t")).python_rows() == [(1, 2)]


def test_a_second_owner_is_refused(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path / "db"):
            with pytest.raises(SqlError) as refused:
                await ServedDatabase.open(tmp_path / "db")
            assert refused.value.sqlstate == "55006"

    on_loop(main)


def test_many_sessions_keep_the_sum(tmp_path: Path, on_loop) -> None:
    """Transfers in transactions and in autocommit statements, deadlocks among them, and checkpoints."""
    accounts, clients, moves = 6, 16, 15

    async def transfer(database: ServedDatabase, seed: int) -> int:
        rng, session, deadlocks = random.Random(seed), database.session(), 0
        for _ in range(moves):
            source, target = rng.sample(range(accounts), 2)
            while True:
                try:
                    await sql(database, "BEGIN", session=session)
                    for account, change in ((source, -7), (target, 7)):
                        text = "UPDATE t SET b = b + $2 WHERE a = $1"
                        await sql(database, text, account, change, session=session)
                    await sql(database, "COMMIT", session=session)
                    break
                except SqlError as error:
                    if error.sqlstate != "40P01":
                        raise
                    deadlocks += 1
                    await sql(database, "ROLLBACK", session=session)
            await sql(database, "UPDATE t SET b = b + 1 WHERE a = 100", session=session)
        return deadlocks

    async def main() -> None:
        async with served(tmp_path / "db", checkpoint_interval_s=0.01) as database:
            await sql(database, TABLE)
            await sql(database, "INSERT INTO t SELECT i, 100 FROM generate_series(0, 5) AS s(i)")
            await sql(database, "INSERT INTO t VALUES (100, 0)")
            await asyncio.gather(*(transfer(database, seed) for seed in range(clients)))
            assert await sql(database, "SELECT sum(b) FROM t WHERE a < 100") == [(100 * accounts,)]
            assert await sql(database, "SELECT b FROM t WHERE a = 100") == [(clients * moves,)]
            assert len(database.tablespace.locks) == 0
            await database.checkpoint()
            assert list(database.store.check()) == []

    on_loop(main)


def test_a_statement_that_waits_for_a_lock_stops_no_other(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path / "db") as database:
            await sql(database, TABLE)
            await sql(database, "INSERT INTO t VALUES (1, 0), (2, 0)")
            holder, waiter = database.session(), database.session()
            await sql(database, "BEGIN", session=holder)
            await sql(database, "UPDATE t SET b = 1 WHERE a = 1", session=holder)
            waiting = asyncio.ensure_future(
                sql(database, "UPDATE t SET b = b + 10 WHERE a = 1", session=waiter)
            )
            await asyncio.sleep(0)
            assert await sql(database, "UPDATE t SET b = 5 WHERE a = 2") == []
            assert await sql(database, "SELECT b FROM t WHERE a = 1") == [(0,)]
            assert not waiting.done()
            await sql(database, "COMMIT", session=holder)
            await waiting
            assert await sql(database, "SELECT b FROM t WHERE a = 1") == [(11,)]

    on_loop(main)


def test_a_statement_that_waits_for_the_log_stops_no_other(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path / "db") as database:
            await sql(database, TABLE)
            await sql(database, "INSERT INTO t VALUES (1, 0), (2, 0)")
            disk = DiskGate(database)
            writing = asyncio.ensure_future(sql(database, "UPDATE t SET b = 1 WHERE a = 1"))
            await disk.entered.acquire()
            assert await sql(database, "SELECT b FROM t WHERE a = 2") == [(0,)]
            assert not writing.done()
            disk.let_go()
            await writing
            disk.open()

    on_loop(main)


def test_who_reads_what_is_not_durable_is_answered_once_it_is(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path / "db") as database:
            await sql(database, TABLE)
            await sql(database, "INSERT INTO t VALUES (1, 0)")
            disk = DiskGate(database)
            writing = asyncio.ensure_future(sql(database, "UPDATE t SET b = 1 WHERE a = 1"))
            await disk.entered.acquire()
            before = database.log.lac
            reading = asyncio.ensure_future(sql(database, "SELECT b FROM t WHERE a = 1"))
            telling = asyncio.ensure_future(sql(database, "INSERT INTO t VALUES (1, 9)"))  # a duplicate
            for _ in range(5):
                await asyncio.sleep(0)
            assert not reading.done()
            assert not telling.done()
            disk.let_go()
            assert await reading == [(1,)]
            assert database.log.lac > before
            with pytest.raises(SqlError, match="duplicate"):
                await telling
            await writing
            disk.open()

    on_loop(main)


def test_a_statement_that_waits_for_other_work_stops_no_other(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path / "db") as database:
            await sql(database, TABLE)
            began, free = asyncio.Event(), threading.Event()
            loop = asyncio.get_running_loop()

            def work() -> int:
                loop.call_soon_threadsafe(began.set)
                assert free.wait(60)
                return 42

            async def statement() -> int:
                return await Work(work)

            working = asyncio.ensure_future(database.call(statement()))
            await began.wait()
            await sql(database, "INSERT INTO t VALUES (1, 2)")
            assert await sql(database, "SELECT b FROM t WHERE a = 1") == [(2,)]
            free.set()
            assert await working == 42

    on_loop(main)


def test_groups_follow_one_another_while_the_first_is_on_its_way(tmp_path: Path, on_loop) -> None:
    """What gathers during a sync is the next group, as one entry."""

    async def main() -> None:
        async with served(tmp_path / "db") as database:
            await sql(database, TABLE)
            start = database.log.lac
            disk = DiskGate(database)
            first = asyncio.ensure_future(sql(database, "INSERT INTO t VALUES (0, 0)"))
            await disk.entered.acquire()
            rest = [
                asyncio.ensure_future(sql(database, "INSERT INTO t VALUES ($1, 0)", i)) for i in range(1, 10)
            ]
            for _ in range(3):
                await asyncio.sleep(0)
            disk.let_go()
            await first
            assert database.log.lac.entry_id == start.entry_id + 1
            assert not any(one.done() for one in rest)
            disk.open()
            await asyncio.gather(*rest)
            assert database.log.lac.entry_id == start.entry_id + 2

    on_loop(main)


def test_a_lock_is_waited_for_no_longer_than_its_time_out(tmp_path: Path, on_loop) -> None:
    before = set(threading.enumerate())  # other tests' servers have readers of their own

    async def main() -> None:
        async with served(tmp_path / "db") as database:
            await sql(database, TABLE)
            await sql(database, "INSERT INTO t VALUES (1, 0)")
            holder, waiter = database.session(), database.session()
            await sql(database, "BEGIN", session=holder)
            await sql(database, "UPDATE t SET b = 1 WHERE a = 1", session=holder)
            for setting, sqlstate in (("lock_timeout", "55P03"), ("statement_timeout", "57014")):
                await sql(database, f"SET {setting} = '20ms'", session=waiter)
                with pytest.raises(SqlError) as late:
                    await sql(database, "UPDATE t SET b = 2 WHERE a = 1", session=waiter)
                assert late.value.sqlstate == sqlstate
                await sql(database, f"RESET {setting}", session=waiter)
            names = {thread.name for thread in set(threading.enumerate()) - before}
            assert not any(name.startswith("Thread-") for name in names), "time is kept on the loop"
            await sql(database, "ROLLBACK", session=holder)
            await sql(database, "UPDATE t SET b = 3 WHERE a = 1", session=waiter)
            assert await sql(database, "SELECT b FROM t WHERE a = 1") == [(3,)]

    on_loop(main)


def test_a_checkpoint_lets_waiting_writers_in(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        settings = {"checkpoint_interval_s": 1000.0, "memtable_limit_bytes": 100_000}
        async with served(tmp_path / "db", **settings) as database:
            await sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
            for number in range(300):  # three times what memory may hold
                await sql(database, "INSERT INTO t VALUES ($1, $2)", number, "b" * 1000)
            assert await sql(database, "SELECT count(*) FROM t") == [(300,)]

    on_loop(main)


def test_no_checkpoint_ends_before_the_loop_has_the_database(
    tmp_path: Path, on_loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is opened in another thread: a checkpoint that came at once would find nobody to report to.
    others = set(threading.enumerate())  # such as those of databases that other tests share
    threads: list[list[str]] = []

    class Opened(OpenDirectory):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            threads.append([one.name for one in set(threading.enumerate()) - others])

    monkeypatch.setattr("herdpy_server.serving.database.OpenDirectory", Opened)

    async def main() -> list[int]:
        async with served(tmp_path / "db") as database:
            return await database.checkpoint()

    assert on_loop(main) == []
    assert "herdpy-checkpointer" not in threads[0]

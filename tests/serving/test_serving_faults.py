"""When the log's disk fails under a served database: each statement gets its outcome, reading goes on."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

from herdpy_sql.errors import SqlError
from tests.serving.conftest import DiskGate, served, sql

TABLE = "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)"


async def states(*statements: asyncio.Future[object]) -> list[tuple[str, str]]:
    """(SQLSTATE, outcome) of each; of one that succeeded ("00000", "done")."""
    found = []
    for answer in await asyncio.gather(*statements, return_exceptions=True):
        if isinstance(answer, SqlError):
            found.append((answer.sqlstate, answer.outcome))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found.append(("00000", "done"))
    return found


def test_a_full_disk_gives_each_its_own_answer(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path / "db") as database:
            await sql(database, TABLE)
            await sql(database, "INSERT INTO t VALUES (1, 0), (2, 0)")
            disk = DiskGate(database)
            writer = asyncio.ensure_future(sql(database, "UPDATE t SET b = 1 WHERE a = 1"))
            await disk.entered.acquire()
            behind = asyncio.ensure_future(sql(database, "UPDATE t SET b = b + 1 WHERE a = 1"))
            reader = asyncio.ensure_future(sql(database, "SELECT b FROM t WHERE a = 1"))
            duplicate = asyncio.ensure_future(sql(database, "INSERT INTO t VALUES (1, 5)"))
            session = database.session()
            await sql(database, "BEGIN", session=session)
            open_one = asyncio.ensure_future(
                sql(database, "UPDATE t SET b = b + 1 WHERE a = 1", session=session)
            )
            await open_one  # a count is reported before what it counts is durable, rows are not
            await sql(database, "SAVEPOINT s", session=session)
            rows = asyncio.ensure_future(sql(database, "SELECT b FROM t WHERE a = 1", session=session))
            for _ in range(5):
                await asyncio.sleep(0)
            disk.let_go(OSError(errno.ENOSPC, "injected"))
            assert await states(writer, behind, reader, duplicate, rows) == [
                ("53100", "not done"),
                ("53100", "not done"),
                ("40001", "not done"),  # what it read is gone
                ("40001", "not done"),  # and what was reported of it
                ("40001", "not done"),
            ]
            await sql(database, "ROLLBACK TO s", session=session)
            commit = asyncio.ensure_future(sql(database, "COMMIT", session=session))
            assert await states(commit) == [("40001", "not done")]  # its UPDATE rests on the same
            disk.open()
            assert await sql(database, "SELECT b FROM t WHERE a = 1") == [(0,)]
            await sql(database, "UPDATE t SET b = 7 WHERE a = 1")
            assert await sql(database, "SELECT b FROM t WHERE a = 1") == [(7,)]
            assert len(database.tablespace.locks) == 0

    on_loop(main)

    async def again() -> None:
        async with served(tmp_path / "db") as database:
            assert await sql(database, "SELECT a, b FROM t WHERE a = 1") == [(1, 7)]

    on_loop(again)


def test_an_outcome_that_nobody_knows_is_told_as_such(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path / "db") as database:
            await sql(database, TABLE)
            await sql(database, "INSERT INTO t VALUES (1, 0)")
            disk = DiskGate(database)

            def refuse(*_: object) -> None:
                raise OSError(errno.EIO, "injected")

            database.log._files.truncate = refuse  # so it cannot be cut off again
            database.log._list.write = refuse  # nor the ledger closed before it
            writer = asyncio.ensure_future(sql(database, "UPDATE t SET b = 1 WHERE a = 1"))
            await disk.entered.acquire()
            disk.let_go(OSError(errno.EIO, "injected"))
            assert await states(writer) == [("08007", "unknown")]
            assert await sql(database, "SELECT b FROM t WHERE a = 1") == [(0,)]
            disk.open()
            del database.log._files.truncate, database.log._list.write

    on_loop(main)

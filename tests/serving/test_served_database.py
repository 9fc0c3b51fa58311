"""A database on one loop: statements side by side, opening, and both ways of closing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from herdpy_server.serving import ServedDatabase


def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    async def write() -> None:
        database = await ServedDatabase.open(tmp_path / "db")
        session = database.session()
        await database.call(session.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)"))
        await database.call(session.execute("INSERT INTO t VALUES (1, 'x')"))
        await database.close()

    async def read() -> list[tuple[object, ...]]:
        database = await ServedDatabase.open(tmp_path / "db")
        try:
            return (await database.call(database.session().execute("SELECT * FROM t"))).python_rows()
        finally:
            await database.close()

    asyncio.run(write())
    assert asyncio.run(read()) == [(1, "x")]

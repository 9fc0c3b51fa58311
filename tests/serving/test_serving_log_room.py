"""While the log's queue is full, commits wait for room instead of failing; reading goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from herdpy.log import LogBusyError
from herdpy_server.serving import ServedDatabase
from herdpy_sql.errors import SqlError
from tests.serving.conftest import served, sql


class FullLog:
    """A database's log, made to be full until ``open``: then it refuses, as one in BookKeeper does."""

    def __init__(self, database: ServedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = True
        self.told: list[Callable[[], object]] = []
        log, append = type(database.log), database.log.append

        def refusing(transaction: object) -> object:
            if self.full:
                raise LogBusyError("too much is queued")
            return append(transaction)

        monkeypatch.setattr(log, "is_full", property(lambda _log: self.full))
        monkeypatch.setattr(database.log, "append", refusing)
        monkeypatch.setattr(database.log, "when_roomy", lambda callback: self.told.append(callback))

    def open(self, *, again: bool = False) -> None:
        """There is room; ``again``: somebody else takes it before those who wait have their turn."""
        self.full = again
        told, self.told = self.told, []
        for callback in told:
            callback()


async def waiting(*asked: asyncio.Future[object]) -> None:
    """Let others go on: none of these may be done."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert not any(one.done() for one in asked)


def test_commits_wait_for_room_in_the_log(tmp_path: Path, on_loop, monkeypatch) -> None:
    async def main() -> None:
        async with served(tmp_path / "db") as database:
            await sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY)")
            await sql(database, "INSERT INTO t VALUES (1)")
            session, named = database.session(), database.session()
            await sql(database, "BEGIN", session=session)
            await sql(database, "INSERT INTO t VALUES (2)", session=session)
            log = FullLog(database, monkeypatch)
            asked = [
                asyncio.ensure_future(one)
                for one in (
                    sql(database, "INSERT INTO t VALUES (3)"),
                    sql(database, "INSERT INTO t SELECT 4"),
                    sql(database, "COMMIT", session=session),
                    sql(database, "SELECT herdpy.forbid_commit('x')", session=named),
                )
            ]
            await waiting(*asked)
            assert await sql(database, "SELECT count(*) FROM t") == [(1,)]
            log.open(again=True)
            await waiting(*asked)
            log.open()
            answers = await asyncio.gather(*asked)
            assert answers[-1] == [("not done",)]
            assert await sql(database, "SELECT a FROM t ORDER BY a") == [(1,), (2,), (3,), (4,)]
            monkeypatch.undo()

    on_loop(main)


def test_who_waits_for_the_log_can_be_cancelled_and_nothing_is_done(
    tmp_path: Path, on_loop, monkeypatch
) -> None:
    async def main() -> None:
        async with served(tmp_path / "db") as database:
            await sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY)")
            session = database.session()
            await sql(database, "BEGIN", session=session)
            await sql(database, "INSERT INTO t VALUES (1)", session=session)
            log = FullLog(database, monkeypatch)
            commit = asyncio.ensure_future(sql(database, "COMMIT", session=session))
            await waiting(commit)
            session.cancel()
            with pytest.raises(SqlError) as ended:
                await commit
            assert (ended.value.sqlstate, ended.value.outcome) == ("57014", "not done")
            other = database.session()
            await sql(database, "SET statement_timeout = '10ms'", session=other)
            with pytest.raises(SqlError) as ended:
                await sql(database, "INSERT INTO t VALUES (2)", session=other)
            assert ended.value.sqlstate == "57014"
            log.open()
            assert await sql(database, "SELECT count(*) FROM t") == [(0,)]
            await sql(database, "INSERT INTO t VALUES (1)", session=session)
            assert len(database.tablespace.locks) == 0
            monkeypatch.undo()

    on_loop(main)

"""Large answers: nobody holds more of them than the client takes, and an end gives the worker free."""

from __future__ import annotations

import asyncio
from pathlib import Path

from herdpy_server.copy import CopyDataForm, CopyTarget
from herdpy_server.workers.exchange import BUFFERED_BYTES
from herdpy_server.workers.process import WorkerProcess
from tests.workers.asking import question
from tests.workers.conftest import memory_bytes, only, served, sql, ticks, until

LARGE = "SELECT a, repeat('x', 1000) AS b FROM generate_series(1, 1000000) a"
"""A gigabyte, of which one row follows from another."""
_FRAME_BYTES = 12 << 20
"""More than a frame takes: 8192 rows of LARGE."""


async def stopped(worker: WorkerProcess) -> None:
    """Return when the worker has done nothing for a while: it waits for who reads."""
    before = -1
    while (now := ticks(worker.pid)) != before:
        before = now
        await asyncio.sleep(0.3)


def test_who_does_not_read_makes_nobody_hold_the_answer(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path, query_memory_bytes=64 << 20) as database:
            assert database.workers is not None
            answer = await database.workers.ask(question(database, LARGE))
            batch = await answer.next()
            assert batch is not None
            worker = only(database)
            exchange = worker.exchange
            assert exchange is not None
            await stopped(worker)
            assert exchange._bytes <= BUFFERED_BYTES + _FRAME_BYTES
            assert memory_bytes(worker.pid) < 500 << 20
            most = 0
            rows = batch.num_rows
            for _ in range(60):
                batch = await answer.next()
                assert batch is not None
                assert batch.column("b")[0].as_py() == "x" * 1000
                rows += batch.num_rows
                most = max(most, exchange._bytes)
            assert most <= BUFFERED_BYTES + _FRAME_BYTES
            assert memory_bytes(worker.pid) < 500 << 20
            assert rows >= 60
            answer.close()
            await until(lambda: worker.exchange is None)
            assert await sql(database, "SELECT count(*) FROM generate_series(1, 10) a") == [(10,)]
            assert only(database) is worker

    on_loop(main)


def test_clients_that_do_not_read_do_not_keep_others_from_asking(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path, query_memory_bytes=64 << 20) as database:
            assert database.workers is not None
            slow = await database.workers.ask(question(database, LARGE))
            first = only(database)
            await until(lambda: first.is_stalled)
            assert await sql(database, "SELECT count(*) FROM generate_series(1, 10) a") == [(10,)]
            rows = 0
            while rows < 20_000:
                batch = await slow.next()
                assert batch is not None
                rows += batch.num_rows
            slow.close()
            await until(lambda: len(database.workers.workers) == 1)
            assert database.workers.counts.died == 0

    on_loop(main)


def test_every_row_comes_once_and_in_order(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            assert database.workers is not None
            text = "SELECT a FROM generate_series(1, 500000) a ORDER BY a DESC"
            answer = await database.workers.ask(question(database, text))
            expected = 500_000
            while (batch := await answer.next()) is not None:
                values = batch.column(0).to_pylist()
                assert values == list(range(expected, expected - len(values), -1))
                expected -= len(values)
            assert expected == 0
            assert await answer.next() is None
            answer.close()

    on_loop(main)


def test_an_export_that_nobody_wants_any_more(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path, query_memory_bytes=64 << 20) as database:
            assert database.workers is not None
            asked = question(database, LARGE)
            columns = tuple((column.name, column.type) for column in asked.query.columns)
            export = await database.workers.export(asked, CopyDataForm(CopyTarget("t", columns)))
            await export.next()
            await export.next()
            assert 0 < export.rows < 1_000_000
            worker = only(database)
            export.close()
            await until(lambda: worker.exchange is None)
            assert worker in database.workers.workers

    on_loop(main)

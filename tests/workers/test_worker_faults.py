"""Workers that die, hang, take too much or are not wanted any more; and what the statement gets."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from herdpy_server.workers import process, scheduler
from herdpy_server.workers.scheduler import WorkerSettings
from herdpy_sql.errors import SqlError
from tests.workers.asking import by_both, question
from tests.workers.conftest import LONG, computing, only, served, sql, until

TABLE = "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)"
FILLED = "INSERT INTO t SELECT i, i % 7 FROM generate_series(1, 1000) i"
SHORT = "SELECT b, count(*) FROM t GROUP BY b ORDER BY b"


async def failure(task: asyncio.Future[object]) -> SqlError:
    with pytest.raises(SqlError) as caught:
        await task
    return caught.value


def test_a_query_whose_worker_is_killed_is_asked_again_once(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            assert database.workers is not None
            asked = asyncio.ensure_future(sql(database, LONG))
            first = await computing(database)
            os.kill(first.pid, signal.SIGKILL)
            await until(lambda: database.workers.counts.repeated == 1)
            second = await computing(database)
            assert second.pid != first.pid
            os.kill(second.pid, signal.SIGKILL)
            error = await failure(asked)
            assert error.sqlstate == "58000"
            assert "killed by SIGKILL" in (error.detail or "")
            assert error.hint
            assert database.workers.counts.died == 2
            assert await sql(database, "SELECT count(*) FROM generate_series(1, 10) a") == [(10,)]

    on_loop(main)


def test_a_query_is_answered_though_its_first_worker_was_killed(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            await sql(database, TABLE)
            await sql(database, FILLED)
            expected = await sql(database, SHORT)
            os.kill(only(database).pid, signal.SIGSTOP)
            asked = asyncio.ensure_future(sql(database, SHORT))
            await until(lambda: only(database).exchange is not None)
            await sql(database, "UPDATE t SET b = b + 0 WHERE a = 1")
            os.kill(only(database).pid, signal.SIGKILL)
            assert await asked == expected
            await database.checkpoint()
            assert len(await by_both(database, SHORT)) == 7

    on_loop(main)


def test_an_answer_that_has_begun_ends_with_an_error(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            assert database.workers is not None
            answer = await database.workers.ask(
                question(database, "SELECT a, repeat('x', 1000) FROM generate_series(1, 1000000) a")
            )
            assert await answer.next() is not None
            os.kill(only(database).pid, signal.SIGKILL)
            assert (await failure(asyncio.ensure_future(answer.all()))).sqlstate == "58000"
            answer.close()
            assert database.workers.counts.repeated == 0

    on_loop(main)


def test_a_worker_killed_while_idle_is_replaced_unnoticed(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            assert database.workers is not None
            await sql(database, TABLE)
            await sql(database, FILLED)
            expected = await sql(database, SHORT)
            pid = only(database).pid
            readers = database.store.disk.env.info()["num_readers"]
            os.kill(pid, signal.SIGKILL)
            assert await sql(database, SHORT) == expected
            assert only(database).pid != pid
            assert database.store.disk.env.reader_check() == 0  # it was done when the worker died
            assert database.store.disk.env.info()["num_readers"] <= readers + 1

    on_loop(main)


@pytest.mark.parametrize("how", ["cancel", "statement_timeout", "close"])
def test_a_query_is_ended(tmp_path: Path, on_loop, how: str) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            ann = database.session()
            await sql(database, "SELECT count(*) FROM generate_series(1, 10) a")
            if how == "statement_timeout":
                await sql(database, "SET statement_timeout = '1500ms'", session=ann)
            asked = asyncio.ensure_future(sql(database, LONG, session=ann))
            worker = only(database) if how == "statement_timeout" else await computing(database)
            if how == "cancel":
                ann.cancel()
            if how == "close":
                await database.close()
            error = await failure(asked)
            assert error.sqlstate == ("57P01" if how == "close" else "57014")
            if how != "close":  # and the worker goes on
                assert await sql(database, "SELECT count(*) FROM generate_series(1, 10) a") == [(10,)]
                assert only(database) is worker

    on_loop(main)


def test_the_servers_own_time_limit(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path, WorkerSettings(maximum=1, query_timeout_s=1.5)) as database:
            error = await failure(asyncio.ensure_future(sql(database, LONG)))
            assert error.sqlstate == "57014"
            assert "workers.query_timeout_s" in (error.hint or "")
            assert await sql(database, "SELECT count(*) FROM generate_series(1, 10) a") == [(10,)]

    on_loop(main)


def test_a_worker_that_does_not_heed_a_cancel_is_killed(tmp_path: Path, on_loop, monkeypatch) -> None:
    monkeypatch.setattr(process, "KILL_AFTER_S", 0.1)

    async def main() -> None:
        async with served(tmp_path) as database:
            ann = database.session()
            asked = asyncio.ensure_future(sql(database, LONG, session=ann))
            worker = await computing(database)
            os.kill(worker.pid, signal.SIGSTOP)
            ann.cancel()
            assert (await failure(asked)).sqlstate == "57014"
            assert await sql(database, "SELECT count(*) FROM generate_series(1, 10) a") == [(10,)]
            assert only(database).pid != worker.pid

    on_loop(main)


def test_memory_is_limited(tmp_path: Path, on_loop) -> None:
    greedy = "SELECT string_agg(repeat('x', 1000) || a, '') FROM generate_series(1, 3000000) a"

    async def main() -> None:
        async with served(tmp_path, query_memory_bytes=64 << 20) as database:
            assert database.workers is not None
            error = await failure(asyncio.ensure_future(sql(database, greedy)))
            assert error.sqlstate == "53200"
            assert await sql(database, "SELECT count(*) FROM generate_series(1, 10) a") == [(10,)]
            assert database.workers.counts.died == 0

    on_loop(main)


def test_the_process_may_not_take_more_than_it_is_given(tmp_path: Path, on_loop) -> None:
    """Columns are not DuckDB's memory: the limit of the process holds for them."""

    async def main() -> None:
        workers = WorkerSettings(maximum=1, memory_bytes=96 << 20)
        async with served(tmp_path, workers, column_cache_bytes=0) as database:
            await sql(database, "CREATE TABLE wide (a INTEGER PRIMARY KEY, b TEXT)")
            for row in range(130):
                await sql(database, "INSERT INTO wide VALUES ($1, $2)", row, "x" * 1_000_000)
            await database.checkpoint()
            error = await failure(asyncio.ensure_future(sql(database, "SELECT max(b || a) FROM wide")))
            assert error.sqlstate in {"53200", "58000"}
            assert await sql(database, "SELECT count(*) FROM generate_series(1, 10) a") == [(10,)]
            assert await sql(database, "SELECT count(b) FROM wide WHERE a < 2") == [(2,)]

    on_loop(main)


def test_those_who_wait_are_limited(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        workers = WorkerSettings(maximum=1, queue=1, queue_timeout_s=0.2)
        async with served(tmp_path, workers) as database:
            assert database.workers is not None
            await sql(database, TABLE)
            ann = database.session()
            with pytest.raises(SqlError):
                await sql(database, SHORT)  # longer than that takes it to start
            await until(lambda: only(database).is_started)
            busy = asyncio.ensure_future(sql(database, LONG, session=ann))
            await computing(database)
            # Both in one pass of the loop, so that the first one's time is not up before the second comes.
            waits, second = (asyncio.ensure_future(sql(database, SHORT)) for _ in range(2))
            refused = await failure(second)
            assert (refused.sqlstate, refused.message) == (
                "53000",
                "too many queries wait for a worker process",
            )
            late = await failure(waits)
            assert (late.sqlstate, late.message) == ("53000", "no worker process was free in time")
            ann.cancel()
            await failure(busy)
            await until(lambda: not database.workers.busy)
            assert await sql(database, SHORT) == []

    on_loop(main)


def test_queries_that_never_end_do_not_keep_short_ones_waiting(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        workers = WorkerSettings(maximum=1, long_query_s=0.5, queue_timeout_s=0.0)
        async with served(tmp_path, workers) as database:
            pool = database.workers
            assert pool is not None
            await sql(database, TABLE)
            ann, bob = database.session(), database.session()
            first = asyncio.ensure_future(sql(database, LONG, session=ann))
            await computing(database)
            assert await sql(database, SHORT) == []  # by another, as the first takes long
            second = asyncio.ensure_future(sql(database, LONG, session=bob))
            await until(lambda: sum(one.is_long for one in pool.workers) == 2)
            waits = asyncio.ensure_future(sql(database, SHORT))
            await until(lambda: pool.waiting == 1)
            assert len(pool.workers) == 2  # twice the maximum, and no more
            ann.cancel()
            assert (await failure(first)).sqlstate == "57014"
            assert await waits == []
            bob.cancel()
            await failure(second)
            await until(lambda: len(pool.workers) == 1)
            assert not any(one.is_long for one in pool.workers)

    on_loop(main)


def test_who_waits_in_the_queue_can_be_cancelled(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            assert database.workers is not None
            ann, bob = database.session(), database.session()
            busy = asyncio.ensure_future(sql(database, LONG, session=ann))
            await computing(database)
            waits = asyncio.ensure_future(sql(database, LONG, session=bob))
            await until(lambda: database.workers.waiting == 1)
            bob.cancel()
            assert (await failure(waits)).sqlstate == "57014"
            assert database.workers.waiting == 0
            ann.cancel()
            await failure(busy)

    on_loop(main)


def test_idle_workers_end(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path, WorkerSettings(maximum=1, idle_timeout_s=0.1)) as database:
            assert database.workers is not None
            await sql(database, TABLE)
            await sql(database, FILLED)
            for _ in range(2):
                assert len(await by_both(database, SHORT)) == 7
                await until(lambda: not database.workers.workers)
                await database.checkpoint()
            assert database.workers.counts.died == 0

    on_loop(main)


def test_workers_that_cannot_start_are_told_and_tried_again(tmp_path: Path, on_loop, monkeypatch) -> None:
    monkeypatch.setattr(scheduler, "_PAUSE_S", 0.01)

    async def main() -> None:
        async with served(tmp_path) as database:
            assert database.workers is not None
            with monkeypatch.context() as broken:
                broken.setattr(process, "_MODULE", "herdpy_server.workers.not_there")
                error = await failure(asyncio.ensure_future(sql(database, LONG)))
                assert (error.sqlstate, error.message) == ("58000", "no worker process can be started")
                assert database.workers.counts.started == 3
            assert await sql(database, "SELECT count(*) FROM generate_series(1, 10) a") == [(10,)]

    on_loop(main)


def test_a_worker_that_says_nonsense_is_killed(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            await sql(database, "SELECT count(*) FROM generate_series(1, 10) a")
            worker = only(database)
            worker._received((b"\xc1", b""))
            assert await sql(database, "SELECT count(*) FROM generate_series(1, 10) a") == [(10,)]
            assert only(database).pid != worker.pid

    on_loop(main)


def test_a_query_called_off_while_its_changes_are_sent(tmp_path: Path, on_loop) -> None:
    """Half of a delta must not be taken for the whole of it by the next question."""

    async def main() -> None:
        async with served(tmp_path, checkpoint_interval_s=3600.0, checkpoint_rows=10_000_000) as database:
            assert database.workers is not None
            await sql(database, TABLE)
            await sql(database, TABLE.replace("TABLE t", "TABLE u"))
            await sql(database, SHORT)
            worker = only(database)
            for pieces in (1, 4, 9):
                more = f"generate_series({pieces}00001, {pieces}30000)"
                await sql(database, f"INSERT INTO t SELECT i, i % 7 FROM {more} i")
                sent: list[object] = []
                asked = question(database, SHORT)
                send = worker._link.send

                def counted(message: object, send=send, sent=sent, pieces=pieces, asked=asked) -> None:
                    send(message)
                    sent.append(message)
                    if len(sent) == pieces:
                        asked.interrupt.cancel()

                worker._link.send = counted  # type: ignore[method-assign]
                ended = asyncio.ensure_future(database.workers.ask(asked))
                other = asyncio.ensure_future(sql(database, SHORT.replace("FROM t", "FROM u")))
                error = await failure(ended)
                assert await other == []
                worker._link.send = send  # type: ignore[method-assign]
                assert error.sqlstate == "57014"
                assert len(await by_both(database, SHORT + " LIMIT 7")) == 7
            assert only(database) is worker

    on_loop(main)

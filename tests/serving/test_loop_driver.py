"""Runs of coroutines on a loop, stepped by hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from herdpy.log.wait import OwnWait, Pause, Wait, Work
from herdpy_server.serving import Driver, Run
from herdpy_sql.errors import SqlError
from tests.serving.conftest import served, sql


class Steps:
    """A driver, and the runs that have ended."""

    def __init__(self) -> None:
        self.driver = Driver(asyncio.get_running_loop())
        self.ended: list[Run[Any]] = []
        self.over = asyncio.Event()

    def done(self, run: Run[Any]) -> None:
        self.ended.append(run)
        self.over.set()

    def run(self, coroutine: Any) -> Run[Any]:
        return self.driver.run(coroutine, self.done)


def test_what_need_not_wait_is_over_at_once(on_loop) -> None:
    async def main() -> None:
        steps = Steps()

        async def quick() -> int:
            return 42

        async def wrong() -> int:
            raise ZeroDivisionError

        run = steps.run(quick())
        with pytest.raises(asyncio.InvalidStateError):
            run.result()
        assert run.start()
        assert run.result() == 42
        run = steps.run(wrong())
        assert run.start()
        with pytest.raises(ZeroDivisionError):
            run.result()
        assert steps.ended == []  # whoever started them knows
        assert not steps.driver.waiting

    on_loop(main)


@pytest.mark.parametrize("where", ["loop", "thread"])
def test_a_wait_is_taken_up_on_the_loop_and_never_within_what_ended_it(on_loop, where: str) -> None:
    async def main() -> None:
        steps, wait, seen = Steps(), Wait(), []

        async def waits() -> int:
            value = await wait
            seen.append(threading.get_ident())
            return value

        run = steps.run(waits())
        assert not run.start()
        assert run.is_waiting
        assert steps.driver.waiting == {run}
        if where == "loop":
            wait.resolve(7)
        else:
            await asyncio.get_running_loop().run_in_executor(None, wait.resolve, 7)
        assert seen == [] or where == "thread"
        await steps.over.wait()
        assert (run.result(), seen, steps.ended) == (7, [threading.get_ident()], [run])
        assert not steps.driver.waiting

    on_loop(main)


def test_one_wait_after_another(on_loop) -> None:
    async def main() -> None:
        steps = Steps()

        async def waits() -> list[object]:
            return [await Pause(), await Work(lambda: 1), await Work(lambda: 2), await Pause()]

        run = steps.run(waits())
        assert not run.start()
        await steps.over.wait()
        assert run.result() == [None, 1, 2, None]

    on_loop(main)


def test_an_error_is_thrown_where_it_waits_and_the_old_wait_is_forgotten(on_loop) -> None:
    async def main() -> None:
        steps, first, second = Steps(), Wait(), OwnWait()

        async def waits() -> str:
            try:
                await first
            except ZeroDivisionError:
                return await second
            raise AssertionError("it was not thrown")

        run = steps.run(waits())
        run.start()
        assert run.throw(ZeroDivisionError())
        first.resolve("late")  # taken for the second one's, it would end the run
        await asyncio.sleep(0.01)
        assert not run.finished
        second.resolve("second")
        await steps.over.wait()
        assert run.result() == "second"
        assert not run.throw(ZeroDivisionError())

    on_loop(main)


def test_work_is_waited_for_before_an_error_is_thrown(on_loop) -> None:
    async def main() -> None:
        steps, free = Steps(), threading.Event()

        async def waits() -> None:
            await Work(lambda: free.wait(60))

        run = steps.run(waits())
        run.start()
        assert run.throw(ZeroDivisionError())
        assert not run.finished
        free.set()
        await steps.over.wait()
        with pytest.raises(ZeroDivisionError):
            run.result()

    on_loop(main)


def test_one_who_cannot_take_its_end_stops_no_other(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
        async with served(tmp_path / "db") as database:
            await sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY)")
            steps = Steps()

            def bad(run: Run[Any]) -> None:
                raise ZeroDivisionError

            sessions = [database.session() for _ in range(3)]
            dones: list[Callable[[Run[Any]], None]] = [steps.done, bad, steps.done]
            for number, (session, done) in enumerate(zip(sessions, dones, strict=True)):
                assert not database.run(session.execute(f"INSERT INTO t VALUES ({number})"), done).start()
            while len(steps.ended) < 2:
                steps.over.clear()
                await steps.over.wait()
            assert not database.driver.waiting

    asyncio.run(main())
    assert [type(context["exception"]) for context in told] == [ZeroDivisionError]


def test_a_cancelled_task_takes_its_statement_with_it(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path / "db") as database:
            await sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)")
            await sql(database, "INSERT INTO t VALUES (1, 0)")
            holder, waiter = database.session(), database.session()
            await sql(database, "BEGIN", session=holder)
            await sql(database, "UPDATE t SET b = 1 WHERE a = 1", session=holder)
            task = asyncio.ensure_future(sql(database, "UPDATE t SET b = 2 WHERE a = 1", session=waiter))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not database.driver.waiting
            await sql(database, "COMMIT", session=holder)
            assert len(database.tablespace.locks) == 0
            await sql(database, "UPDATE t SET b = b + 5 WHERE a = 1", session=waiter)
            assert await sql(database, "SELECT b FROM t WHERE a = 1") == [(6,)]

    on_loop(main)


def test_a_session_that_is_cancelled_ends_its_wait_and_goes_on(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path / "db") as database:
            await sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)")
            await sql(database, "INSERT INTO t VALUES (1, 0)")
            holder, waiter = database.session(), database.session()
            await sql(database, "BEGIN", session=holder)
            await sql(database, "UPDATE t SET b = 1 WHERE a = 1", session=holder)
            for where in ("loop", "thread"):
                task = asyncio.ensure_future(sql(database, "UPDATE t SET b = 2 WHERE a = 1", session=waiter))
                await asyncio.sleep(0)
                if where == "loop":
                    waiter.cancel()
                else:
                    await asyncio.get_running_loop().run_in_executor(None, waiter.cancel)
                with pytest.raises(SqlError) as cancelled:
                    await task
                assert cancelled.value.sqlstate == "57014"
            await sql(database, "ROLLBACK", session=holder)
            await sql(database, "UPDATE t SET b = 3 WHERE a = 1", session=waiter)

    on_loop(main)

"""A load leaves others their turn: on a server's loop between slices, under its id one after the other."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from herdpy.log.wait import Wait
from herdpy_server.loading import BulkLoad, LoadMode, Publishing
from herdpy_server.loading.publishing import FIRST_ROWS, LEAST_ROWS, MOST_ROWS, Pace
from herdpy_server.loading.rows import Batches, in_one_part
from herdpy_server.serving import ServedDatabase
from herdpy_server.tablespace.locks import LoadTurns
from herdpy_sql.errors import SqlError

ROWS = 5000


async def execute(database, sql):
    session = database.session()
    await database.call(session.execute(sql))
    await session.close()


async def published(database, batches):
    load = BulkLoad("one", "t", LoadMode.APPEND)
    return await database.call(Publishing(database.session(), load, Batches(in_one_part(batches))).run())


def served(tmp_path, work):
    async def run():
        database = await ServedDatabase.open(tmp_path / "db")
        try:
            await execute(database, "CREATE TABLE t (id int PRIMARY KEY)")
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(run())


def batch(first=0, count=ROWS):
    return pa.RecordBatch.from_pydict({"id": pa.array(range(first, first + count), pa.int32())})


def test_the_loop_has_a_turn_after_each_slice(tmp_path, monkeypatch):
    turns, taken_in = 0, []
    monkeypatch.setattr(Pace, "took", lambda _self, _seconds: taken_in.append(turns))

    async def work(database):
        nonlocal turns
        loading = asyncio.ensure_future(published(database, [batch()]))
        while not loading.done():
            await asyncio.sleep(0)
            turns += 1
        return loading.result()

    assert served(tmp_path, work).inserted == ROWS
    assert len(taken_in) == -(-ROWS // FIRST_ROWS)
    assert len(set(taken_in)) == len(taken_in)


def test_a_load_can_be_cancelled(db):
    db("CREATE TABLE t (id int PRIMARY KEY)")
    session = db.database.session()

    def batches():
        yield batch()
        session.cancel()
        yield batch(ROWS)

    load = BulkLoad("one", "t", LoadMode.APPEND)
    with pytest.raises(SqlError) as caught:
        db.database.run(Publishing(session, load, Batches(in_one_part(batches()))).run())
    assert caught.value.sqlstate == "57014"
    assert db("SELECT count(*) FROM t") == [(0,)]


def test_a_load_ends_when_its_database_closes(tmp_path):
    closing = asyncio.Event()

    async def work(database):
        loop = asyncio.get_running_loop()

        def endless():
            first = 0
            while True:
                yield batch(first)
                first += ROWS
                loop.call_soon_threadsafe(closing.set)

        loading = asyncio.ensure_future(published(database, endless()))
        await closing.wait()
        await database.close()
        with pytest.raises(SqlError) as caught:
            await loading
        return caught.value.sqlstate

    assert served(tmp_path, work) == "57P01"


def test_pace_follows_the_time_that_rows_take():
    pace = Pace()
    for _ in range(20):
        pace.took(0.0001)
    assert pace.rows == MOST_ROWS
    pace.took(0.002)
    assert pace.rows == MOST_ROWS
    for _ in range(20):
        pace.took(0.1)
    assert pace.rows == LEAST_ROWS


def test_turns_go_in_order_and_past_those_who_gave_up():
    turns, log = LoadTurns(), []
    waits = {}

    async def waiting(name, wait):
        waits[name] = wait
        await wait

    async def busy(name, leave):
        async with turns.turn("load", lambda wait: waiting(name, wait)):
            log.append(name)
            await leave
        log.append(f"{name} left")

    async def run():
        leaves = {name: Wait() for name in "abc"}
        tasks = {name: asyncio.ensure_future(busy(name, leaves[name])) for name in "abc"}
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        async with turns.turn("another"):
            assert log == ["a"]
        waits["b"].fail(SqlError("57014", "gave up"))
        with pytest.raises(SqlError):
            await tasks["b"]
        leaves["a"].resolve(None)
        leaves["c"].resolve(None)
        await asyncio.gather(tasks["a"], tasks["c"])
        assert sorted(log) == ["a", "a left", "c", "c left"]
        assert turns._busy == {}

    asyncio.run(run())

"""Statements of pages: little time, few rows, the rights of their role, and nothing left behind."""

from __future__ import annotations

import asyncio

import pytest

from herdpy_server.console.authentication import Visitor
from herdpy_server.console.gateway import ConsoleGateway
from herdpy_server.console.logins import Logins
from herdpy_sql.errors import SqlError
from tests.console.world import ConsoleWorld

HERE = Visitor("127.0.0.1", False, True)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = ConsoleWorld(tmp_path_factory.mktemp("gateway") / "data", max_statements=2, max_rows=10)
    made.sql(
        "CREATE ROLE ann LOGIN PASSWORD 'of ann' CONNECTION LIMIT 1",
        "CREATE TABLE t (i INT PRIMARY KEY)",
        "INSERT INTO t SELECT g FROM generate_series(1, 5000) g(g)",
    )
    yield made
    made.close()


@pytest.fixture
def gateway(world):
    return ConsoleGateway(world.context, world.config.console)


def login(user="herdpy"):
    return Logins(100, 100, 10).begin(user, "herdpy", "trust", "")[1]


def run(world, gateway, sql, *params, user="herdpy", **more):
    async def run_it():
        async with gateway.session(login(user), HERE, **more) as session:
            return await session.run(sql, *params)

    return world.run(run_it())


def state_of(world, gateway, sql, **more):
    with pytest.raises(SqlError) as raised:
        run(world, gateway, sql, **more)
    return raised.value.sqlstate


@pytest.mark.parametrize(
    "sql", ["SELECT i FROM t ORDER BY i", "SELECT i, count(*) FROM t GROUP BY i ORDER BY i"]
)
def test_a_page_has_the_first_rows_of_an_answer(world, gateway, sql):
    answer = run(world, gateway, sql)
    assert [row[0] for row in answer.rows] == list(range(1, 11))
    assert not answer.is_complete
    assert not world.database.driver.waiting


@pytest.mark.parametrize(("count", "is_complete"), [(9, True), (10, True), (11, False)])
def test_it_says_whether_these_are_all(world, gateway, count, is_complete):
    answer = run(world, gateway, "SELECT i FROM t WHERE i <= $1", count)
    assert (len(answer.rows), answer.is_complete) == (min(count, 10), is_complete)
    assert answer.records[0] == {"i": 1}


def test_a_statement_has_little_time(world, gateway):
    assert state_of(world, gateway, "SELECT pg_sleep(20)", timeout_s=0.05) == "57014"


def test_too_many_at_a_time_are_refused(world, gateway):
    async def scenario():
        async with gateway.session(login(), HERE), gateway.session(login(), HERE):
            with pytest.raises(SqlError) as raised:
                async with gateway.session(login(), HERE):
                    pass
        assert raised.value.sqlstate == "53300"
        async with gateway.session(login(), HERE):
            pass

    world.run(scenario())
    assert len(world.registry) == 0


def test_the_limits_of_a_role_hold(world, gateway):
    async def scenario():
        async with gateway.session(login("ann"), HERE):
            with pytest.raises(SqlError) as raised:
                async with gateway.session(login("ann"), HERE):
                    pass
        assert raised.value.sqlstate == "53300"

    world.run(scenario())


def test_a_role_reads_what_it_may(world, gateway):
    assert state_of(world, gateway, "SELECT i FROM t", user="ann") == "42501"
    assert run(world, gateway, "SELECT current_user", user="ann").rows == [("ann",)]


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "COPY t TO STDOUT", "nonsense"])
def test_what_is_not_one_statement_with_rows_is_refused(world, gateway, sql):
    assert state_of(world, gateway, sql) in {"42601", "0A000"}
    assert len(world.registry) == 0


def test_a_session_of_a_page_is_seen_and_can_be_ended(world, gateway):
    async def scenario():
        async with gateway.session(login(), HERE) as session:
            (row,) = await session.records(
                "SELECT application_name, client_addr FROM pg_stat_activity WHERE pid = pg_backend_pid()"
            )
            assert (row["application_name"], str(row["client_addr"])) == ("herdpy console", "127.0.0.1")
            sleeping = asyncio.ensure_future(session.run("SELECT pg_sleep(20)"))
            while not session.session.is_running:
                await asyncio.sleep(0)
            world.registry.signal(session.entry.pid, terminate=True)
            with pytest.raises(SqlError) as raised:
                await sleeping
            assert raised.value.sqlstate == "57P01"
            with pytest.raises(SqlError) as raised:
                await session.run("SELECT 1")
            assert raised.value.sqlstate == "57P01"

    world.run(scenario())


def test_a_request_that_is_broken_off_leaves_nothing(world, gateway):
    async def scenario():
        async def page():
            async with gateway.session(login(), HERE) as session:
                await session.run("SELECT pg_sleep(20)")

        task = asyncio.ensure_future(page())
        while not any(entry.session.is_running for entry in world.registry):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    world.run(scenario())
    assert len(world.registry) == 0
    assert not world.database.driver.waiting


def test_a_transaction_that_is_left_open_is_rolled_back(world, gateway):
    async def scenario():
        async with gateway.session(login(), HERE) as session:
            await session.run("BEGIN")
            await session.run("DELETE FROM t")

    world.run(scenario())
    assert run(world, gateway, "SELECT count(*) FROM t").rows == [(5000,)]

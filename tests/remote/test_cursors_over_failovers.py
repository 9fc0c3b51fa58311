"""Cursors by name and streams when the leader goes: rows of their moment, or an honest error.

Their rows are the old session's. When its server is killed, nobody can go on with them elsewhere: a read in a
transaction says that it was lost (40001), a cursor WITH HOLD that it is not there any more (34000). A server
that handed over goes on giving the rows that it has, and refuses all else.
"""

from __future__ import annotations

import asyncio

import pytest

import herdpy
from herdpy import TransactionStatus, aio

pytestmark = pytest.mark.timeout(120)

COUNT = 5_000
NUMBERS = "SELECT n FROM counted ORDER BY n"


def opened(conn, name, **options):
    """A cursor with two of its rows fetched, of which one was given."""
    cursor = conn.cursor(name, **options)
    cursor.itersize = 2
    assert cursor.execute(NUMBERS).fetchone() == (1,)
    return cursor


class Readers:
    """A connection for each way to read by a cursor."""

    def __init__(self, url: str) -> None:
        self.within = herdpy.connect(url)
        self.streaming, self.holding = (herdpy.connect(url, autocommit=True) for _ in range(2))
        self.holding.execute("CREATE TABLE counted (n INTEGER PRIMARY KEY)")
        self.holding.execute(f"INSERT INTO counted SELECT n FROM generate_series(1, {COUNT}) AS s (n)")
        self.cursor = opened(self.within, "within")
        self.stream = self.streaming.stream(NUMBERS, size=2)
        assert next(self.stream.__enter__()) == (1,)
        self.held = opened(self.holding, "held", withhold=True)

    def are_lost(self) -> None:
        """The server is no more."""
        for cursor, conn in ((self.cursor, self.within), (self.stream, self.streaming)):
            assert next(cursor) == (2,)  # it is here already
            for _ in range(2):
                with pytest.raises(herdpy.OperationalError) as caught:
                    next(cursor)
                assert (caught.value.sqlstate, caught.value.outcome) == ("40001", "not done")
                assert caught.value.retryable
                assert conn.info.transaction_status == TransactionStatus.INERROR
        assert next(self.held) == (2,)
        with pytest.raises(herdpy.Error) as caught:
            next(self.held)
        assert caught.value.sqlstate == "34000"
        self.end()

    def go_on(self) -> None:
        """The server does not lead any more, and others have changed the table."""
        for cursor in (self.cursor, self.stream):
            assert [n for (n,) in cursor.fetchmany(COUNT)] == list(range(2, COUNT + 1))
        with pytest.raises(herdpy.OperationalError) as caught:
            self.within.execute("INSERT INTO counted VALUES (0)")
        assert (caught.value.sqlstate, caught.value.outcome) == ("40001", "not done")
        self.end()

    def end(self) -> None:
        """Let go of the cursors: the connections are of use."""
        self.cursor.close()
        self.within.rollback()
        self.stream.__exit__(None, None, None)
        self.held.close()
        for conn in (self.within, self.streaming, self.holding):
            assert conn.info.transaction_status == TransactionStatus.IDLE
            with conn.transaction():  # the first that the connection hears of the new leader
                opened(conn, "within").close()
                assert conn.execute("SHOW in_hot_standby").fetchone() == ("off",)
            there = conn.execute("SELECT count(*) FROM counted").fetchone()
            with conn.stream(NUMBERS, size=1_000) as rows:
                assert (len(list(rows)),) == there

    def close(self) -> None:
        """Let go of everything."""
        for conn in (self.within, self.streaming, self.holding):
            conn.close()


@pytest.fixture
def url(cluster):
    cluster.await_leader()
    return f"herdpy+zk://{cluster.zookeeper}/herdpy?tablespace=herdpy"


@pytest.fixture
def readers(url):
    readers = Readers(url)
    yield readers
    readers.close()
    with herdpy.connect(url, autocommit=True) as conn:
        conn.execute("DROP TABLE counted")


@pytest.mark.soak
def test_the_leader_is_handed_over(cluster, readers):
    old = cluster.await_leader()
    successor = next(name for name in ("server-1", "server-2", "server-3") if name != old)
    with herdpy.connect(cluster.url, autocommit=True) as conn:
        conn.execute(f"ALTER TABLESPACE herdpy LEADER '{successor}'")
        assert cluster.await_leader(other_than=old) == successor
        conn.execute("DELETE FROM counted WHERE n > 10")
        readers.go_on()
        conn.execute("ALTER TABLESPACE herdpy LEADER DEFAULT")


def test_the_leader_is_killed_under_cursors_and_pools_on_a_loop(cluster, url, readers):
    """An ``AsyncPool`` finds the cluster by its ZooKeeper, and goes on; cursors say what was lost."""

    async def add(conn, number):
        await conn.execute("INSERT INTO added VALUES (%s)", (number,))

    async def main():
        async with aio.AsyncPool(url, 1, 3, timeout_s=60) as pool:

            async def add_all(numbers):
                await asyncio.gather(*(aio.run_transaction(pool, lambda c, n=n: add(c, n)) for n in numbers))

            async with pool.connection() as conn:
                await conn.execute("CREATE TABLE added (n INTEGER PRIMARY KEY)")
            await add_all(range(10))
            old = cluster.await_leader()
            cluster.kill(old)
            await add_all(range(10, 20))
            query = "SELECT n FROM added ORDER BY n"
            async with pool.connection() as conn, conn.stream(query, size=3) as rows:
                assert [n async for (n,) in rows] == list(range(20))
            assert (pool.stats().lent, pool.stats().broken) == (0, 0)
        return old

    old = asyncio.run(main())
    readers.are_lost()
    cluster.start(old)

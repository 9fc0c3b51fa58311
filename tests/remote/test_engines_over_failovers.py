"""SQLAlchemy's engines, whose pools are full of connections, when the leader or the only server is killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from tests.remote.test_killed_server import free_port
from tests.support.server_process import RunningServer

pytestmark = pytest.mark.timeout(180)
INSERT = sa.text("INSERT INTO kept VALUES (:who, :what)")
KEPT = sa.text("SELECT what FROM kept WHERE who = :who ORDER BY what")


@contextlib.contextmanager
def engine_of(url, **options):
    engine = sa.create_engine(url, pool_size=2, max_overflow=0, **options)
    lost = []
    sa.event.listen(engine, "invalidate", lambda *_: lost.append(1))
    try:
        yield engine, lost
    finally:
        engine.dispose()


def fill(engine):
    """Two connections that the pool keeps."""
    with engine.connect() as one, engine.connect() as other:
        assert one.scalar(sa.text("SELECT 1")) == other.scalar(sa.text("SELECT 1")) == 1
    assert engine.pool.checkedin() == 2


def look_again(engine, who, open_one, lost):
    """What becomes of an engine of which ``open_one`` was in a transaction as the leader was killed."""
    with pytest.raises(sa.exc.OperationalError) as caught:
        open_one.execute(INSERT, {"who": who, "what": "after it was killed"})
    assert (caught.value.orig.sqlstate, caught.value.orig.outcome) == ("40001", "not done")
    assert caught.value.orig.retryable
    assert not caught.value.connection_invalidated
    open_one.rollback()
    open_one.execute(INSERT, {"who": who, "what": "again"})
    open_one.commit()
    open_one.close()
    with engine.begin() as one, engine.begin() as other:  # of these the second was idle since before
        one.execute(INSERT, {"who": who, "what": "by one"})
        other.execute(INSERT, {"who": who, "what": "by the other"})
    with engine.connect() as connection:
        kept = connection.scalars(KEPT, {"who": who}).all()
    assert kept == ["again", "by one", "by the other"]
    assert not lost
    assert engine.pool.checkedin() == 2


def test_engines_follow_the_leader(cluster):
    """A transaction that was open is reported as lost; the connections go on, and none leaves its pool."""
    first, *others = [f"127.0.0.1:{one.sql_port}" for one in cluster.status().servers]
    hosts = f"herdpy://{first}/herdpy?hosts={','.join(others)}"
    zookeeper = f"herdpy+zk://{cluster.zookeeper}/herdpy?tablespace=herdpy"
    with (
        engine_of(hosts) as (told, lost_of_told),
        engine_of(hosts, pool_pre_ping=True) as (looking, lost_of_looking),
        engine_of(zookeeper) as (found, lost_of_found),
    ):
        with found.begin() as connection:
            connection.execute(sa.text("DROP TABLE IF EXISTS kept"))
            connection.execute(sa.text("CREATE TABLE kept (who TEXT, what TEXT)"))
        ways = [
            (told, "told", lost_of_told),
            (looking, "looking", lost_of_looking),
            (found, "found", lost_of_found),
        ]
        opened = []
        for engine, who, _ in ways:
            fill(engine)
            opened.append(engine.connect())
            opened[-1].execute(INSERT, {"who": who, "what": "open when it was killed"})
        old = cluster.await_leader()
        cluster.kill(old)
        for (engine, who, lost), open_one in zip(ways, opened, strict=True):
            look_again(engine, who, open_one, lost)
        assert sa.inspect(found).get_columns("kept")[1]["name"] == "what"
    cluster.start(old)


def test_an_asynchronous_engine_finds_servers_in_zookeeper(cluster):
    async def main():
        engine = create_async_engine(f"herdpy+zk://{cluster.zookeeper}/herdpy?tablespace=herdpy")
        async with engine.begin() as connection:
            await connection.execute(sa.text("CREATE TABLE found (n INTEGER)"))
            await connection.execute(sa.text("INSERT INTO found VALUES (1)"))
            assert await connection.scalar(sa.text("SHOW in_hot_standby")) == "off"
        async with engine.connect() as connection:
            assert await connection.run_sync(lambda sync: sa.inspect(sync).has_table("found"))
            assert await connection.scalar(sa.text("SELECT n FROM found")) == 1
        await engine.dispose()

    asyncio.run(main())


@pytest.mark.soak
def test_a_server_that_does_not_come_back_is_a_lost_connection(tmp_path):
    """It costs one error, or none where connections are looked at first; the pool replaces all of them."""
    port = free_port()
    server = RunningServer(tmp_path / "data", "--port", port).ready()
    url = f"herdpy://ann@127.0.0.1:{port}/test?failover_timeout=0.2"
    try:
        with (
            engine_of(url) as (engine, lost),
            engine_of(url, pool_pre_ping=True) as (looking, lost_of_looking),
        ):
            fill(engine)
            fill(looking)
            server.signal(signal.SIGKILL)
            server.wait()
            server.close()
            with engine.connect() as connection:
                with pytest.raises(sa.exc.OperationalError) as caught:
                    connection.execute(sa.text("SELECT 2"))
                assert caught.value.orig.sqlstate.startswith("08")
                assert caught.value.connection_invalidated
                assert connection.invalidated
            assert lost == [1]
            with pytest.raises(sa.exc.OperationalError) as caught:
                looking.connect()
            assert caught.value.orig.sqlstate.startswith("08")
            server = RunningServer(tmp_path / "data", "--port", port).ready()
            for one in (engine, looking):
                fill(one)
            assert lost == [1]
            assert len(lost_of_looking) == 1
    finally:
        server.close()

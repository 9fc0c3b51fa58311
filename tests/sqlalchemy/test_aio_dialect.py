"""herdpy+aio: SQLAlchemy's asyncio on a directory and on a server."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading

import pytest
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

import herdpy
from herdpy import aio
from herdpy.aio import worker
from herdpy.sqlalchemy import insert
from herdpy.sqlalchemy.aio import AdaptedServerCursor, HerdPyAsyncDialect, HerdPyZooKeeperAsyncDialect
from tests.aio.test_aio_lifetime import program


class Base(orm.DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id = orm.mapped_column(sa.Integer, sa.Identity(), primary_key=True)
    name = orm.mapped_column(sa.Text, unique=True, nullable=False)
    books = orm.relationship("Book", back_populates="author", order_by="Book.id")


class Book(Base):
    __tablename__ = "book"
    id = orm.mapped_column(sa.Integer, sa.Identity(), primary_key=True)
    author_id = orm.mapped_column(sa.ForeignKey("author.id"))
    title = orm.mapped_column(sa.Text)
    author = orm.relationship(Author, back_populates="books")


@pytest.fixture(autouse=True)
def _leaves_no_thread():
    yield
    worker.settle()
    assert [one.name for one in threading.enumerate() if one.name.startswith("herdpy-aio")] == []


@contextlib.asynccontextmanager
async def awaiting(engine, **options):
    """An asynchronous engine on the database of ``engine``, with the tables."""
    made = create_async_engine(engine.url.set(drivername="herdpy+aio"), **options)
    try:
        async with made.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        yield made
    finally:
        await made.dispose()


async def names(made):
    """Of all authors that were kept."""
    async with AsyncSession(made) as session:
        return (await session.scalars(sa.select(Author.name).order_by(Author.name))).all()


async def runs(connection):
    """Until a statement runs on the driver's connection."""
    while connection.info.transaction_status != herdpy.TransactionStatus.ACTIVE:
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("url", "dialect", "driver"),
    [
        ("herdpy+aio:///./shop", HerdPyAsyncDialect, "herdpy:///./shop"),
        ("herdpy:///./shop", HerdPyAsyncDialect, "herdpy:///./shop"),
        ("herdpy+aio://u:p@h1:5433/shop", HerdPyAsyncDialect, "herdpy://u:p@h1:5433/shop"),
        ("herdpy+zk://z1/r?tablespace=x", HerdPyZooKeeperAsyncDialect, "herdpy+zk://z1/r?tablespace=x"),
    ],
)
def test_urls(url, dialect, driver):
    engine = create_async_engine(url)
    assert type(engine.dialect) is dialect
    assert isinstance(engine.pool, AsyncAdaptedQueuePool)
    assert engine.dialect.create_connect_args(engine.url) == ([driver], {})
    assert not sa.create_engine(url.replace("+aio", "")).dialect.is_async


def test_the_orm(engine):
    async def main():
        async with awaiting(engine) as made:
            async with AsyncSession(made, expire_on_commit=False) as session:
                session.add_all(
                    [Author(name=f"a{n}", books=[Book(title="x"), Book(title="y")]) for n in range(3)]
                )
                await session.commit()
                session.add(Author(name="undone"))
                await session.flush()
                await session.rollback()
            async with AsyncSession(made) as session:
                query = sa.select(Author).options(orm.selectinload(Author.books)).order_by(Author.id)
                authors = (await session.scalars(query)).all()
                assert [(one.name, [book.title for book in one.books]) for one in authors] == [
                    (f"a{n}", ["x", "y"]) for n in range(3)
                ]
                await session.delete(authors[0].books[0])
                authors[1].name = "b"
                await session.commit()
            assert await names(made) == ["a0", "a2", "b"]

    asyncio.run(main())


def test_returning_upserts_and_many_rows(engine):
    async def main():
        async with awaiting(engine) as made, made.begin() as connection:
            rows = [{"name": f"n{n}"} for n in range(300)]
            many = sa.insert(Author).execution_options(preserve_rowcount=True)
            assert (await connection.execute(many, rows)).rowcount == 300
            upsert = insert(Author).on_conflict_do_update(index_elements=["name"], set_={"name": "again"})
            made_anew = await connection.execute(upsert.returning(Author.id, Author.name), {"name": "n7"})
            assert made_anew.one() == (8, "again")
            keys = await connection.execute(
                sa.insert(Author).returning(Author.id, sort_by_parameter_order=True),
                [{"name": "x"}, {"name": "y"}],
            )
            first, second = keys.scalars()
            assert second == first + 1
            everything = await connection.execute(sa.select(Author.id))
            assert len(everything.all()) == 302

    asyncio.run(main())


def test_streams_come_as_they_are_asked_for(engine):
    numbers = sa.select(sa.func.generate_series(1, 20_000).label("n"))

    async def main():
        async with awaiting(engine) as made, AsyncSession(made) as session:
            result = await session.stream(numbers)
            assert isinstance(result._real_result.cursor, AdaptedServerCursor)
            assert sum([n async for (n,) in result]) == 20_000 * 20_001 // 2
            parts = (await session.stream(numbers, execution_options={"yield_per": 500})).partitions()
            assert [len(part) async for part in parts] == [500] * 40
            async with made.connect() as connection, connection.stream(numbers) as result:
                assert await result.fetchone() == (1,)
                assert await result.fetchmany(2) == [(2,), (3,)]
                # left in the middle
            left = await session.stream_scalars(numbers)
            assert await left.first() == 1
            assert await session.scalar(sa.select(sa.func.count()).select_from(Author)) == 0

    asyncio.run(main())


def test_errors_keep_their_classes_and_savepoints_go_on(engine):
    async def main():
        async with awaiting(engine) as made:
            async with AsyncSession(made) as session, session.begin():
                session.add(Author(name="a"))
                with pytest.raises(sa.exc.IntegrityError) as caught:
                    async with session.begin_nested():
                        session.add(Author(name="a"))
                assert isinstance(caught.value.orig, herdpy.IntegrityError)
                assert caught.value.orig.sqlstate == "23505"
                assert not caught.value.connection_invalidated
                async with session.begin_nested():
                    session.add(Author(name="b"))
            assert await names(made) == ["a", "b"]
            async with made.connect() as connection:
                await connection.execute(sa.text("SELECT 1"))
                with pytest.raises(sa.exc.ProgrammingError, match="nowhere") as caught:
                    await connection.execute(sa.text("SELECT * FROM nowhere"))
                assert caught.value.orig.sqlstate == "42P01"
                with pytest.raises(sa.exc.InternalError):  # the transaction has failed
                    await connection.stream(sa.text("SELECT 1"))
                await connection.rollback()
                with pytest.raises(sa.exc.DataError):
                    await connection.execute(sa.text("SELECT 1 / 0"))

    asyncio.run(main())


def test_one_that_cannot_connect(tmp_path):
    async def main():
        made = create_async_engine(f"herdpy+aio:///{tmp_path}/none?create=false")
        with pytest.raises(sa.exc.OperationalError) as caught:
            await made.connect()
        assert isinstance(caught.value.orig, herdpy.OperationalError)
        await made.dispose()

    asyncio.run(main())


def test_isolation_is_the_transactions(engine):
    level = sa.text("SHOW transaction_isolation")

    async def main():
        async with awaiting(engine, pool_size=1, max_overflow=0) as made:
            async with made.connect() as connection:
                assert await connection.get_isolation_level() == "READ COMMITTED"
                await connection.execution_options(isolation_level="SERIALIZABLE")
                assert await connection.scalar(level) == "serializable"
            async with made.connect() as connection:
                assert await connection.scalar(level) == "read committed"
            at_once = made.execution_options(isolation_level="AUTOCOMMIT")
            async with at_once.connect() as connection:
                await connection.execute(sa.insert(Author).values(name="a"))
                await connection.rollback()
            async with made.connect() as connection:
                await connection.execution_options(postgresql_readonly=True)
                assert await connection.scalar(sa.select(Author.name)) == "a"
                with pytest.raises(sa.exc.InternalError, match="read-only"):
                    await connection.execute(sa.delete(Author))

    asyncio.run(main())


def test_reflection_by_run_sync(engine):
    async def main():
        async with awaiting(engine) as made, made.connect() as connection:
            found = sa.MetaData()
            await connection.run_sync(found.reflect)
            book = found.tables["book"]
            assert list(book.c.keys()) == ["id", "author_id", "title"]
            (key,) = book.foreign_keys
            assert key.target_fullname == "author.id"
            unique = await connection.run_sync(lambda sync: sa.inspect(sync).get_unique_constraints("author"))
            assert [one["column_names"] for one in unique] == [["name"]]

    asyncio.run(main())


def test_tasks_have_transactions_of_their_own(engine):
    async def main():
        async with awaiting(engine, pool_size=3, max_overflow=0) as made:
            async with AsyncSession(made) as session, session.begin():
                session.add(Author(name="0"))

            async def count():
                async with AsyncSession(made) as session, session.begin():
                    counted = sa.cast(sa.cast(Author.name, sa.Integer) + 1, sa.Text)
                    await session.execute(sa.update(Author).values(name=counted))

            await asyncio.gather(*(count() for _ in range(20)))
            assert await names(made) == ["20"]
            async with made.connect() as one, made.connect() as other:
                await one.execute(sa.insert(Author).values(name="mine"))
                assert await other.scalar(sa.select(sa.func.count()).select_from(Author)) == 1
            assert made.pool.checkedout() == 0

    asyncio.run(main())


def test_a_task_that_is_cancelled_leaves_the_pool_usable(engine):
    async def main():
        async with awaiting(engine, pool_size=1, max_overflow=0) as made:

            async def work():
                async with AsyncSession(made) as session, session.begin():
                    session.add(Author(name="undone"))
                    await session.flush()
                    raw = await (await session.connection()).get_raw_connection()
                    began.set_result(raw.driver_connection)
                    await session.execute(sa.text("SELECT pg_sleep(600)"))

            for _ in range(2):
                began = asyncio.get_running_loop().create_future()
                task = asyncio.create_task(work())
                await runs(await began)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert made.pool.checkedout() == 0
                assert await names(made) == []

            async with AsyncSession(made) as session:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await session.execute(sa.text("SELECT pg_sleep(600)"))
            assert await names(made) == []

    asyncio.run(main())


def test_a_task_that_is_cancelled_while_it_waits_for_the_pool(engine):
    async def main():
        async with awaiting(engine, pool_size=1, max_overflow=0) as made:
            async with made.connect() as connection:
                task = asyncio.create_task(names(made))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await connection.scalar(sa.text("SELECT 1")) == 1
            assert await names(made) == []

    asyncio.run(main())


def test_a_pool_replaces_sessions_that_were_ended(server):
    pid = sa.text("SELECT pg_backend_pid()")

    async def main():
        url = f"herdpy+aio://127.0.0.1:{server.port}/herdpy"
        made = create_async_engine(url, pool_pre_ping=True, pool_size=1, max_overflow=0)
        with server.connect(autocommit=True) as other:
            async with made.connect() as connection:
                first = await connection.scalar(pid)
            other.execute("SELECT pg_terminate_backend(%s)", (first,))
            async with made.connect() as connection:
                second = await connection.scalar(pid)
                assert second != first
                other.execute("SELECT pg_terminate_backend(%s)", (second,))
                with pytest.raises(sa.exc.OperationalError) as caught:
                    await connection.execute(sa.text("SELECT 1"))
                assert caught.value.orig.retryable  # by the same connection: it has found a session
                assert not caught.value.connection_invalidated
                await connection.rollback()
                assert await connection.scalar(pid) not in (first, second)
        await made.dispose()

    asyncio.run(main())


def test_the_drivers_connection_is_at_hand(engine):
    async def main():
        async with awaiting(engine) as made, made.connect() as connection:
            raw = await connection.get_raw_connection()
            driver = raw.driver_connection
            assert isinstance(driver, aio.AsyncConnection)
            async with driver.cursor() as cursor:
                await cursor.execute("SELECT 7 AS n")
                assert (await cursor.fetch_arrow_table()).to_pydict() == {"n": [7]}
            told = []
            raw.dbapi_connection.add_notice_handler(told.append)
            await connection.execute(sa.text("DROP TABLE IF EXISTS none"))
            assert len(told) == 1
            raw.dbapi_connection.remove_notice_handler(told.append)

    asyncio.run(main())


def test_a_forgotten_connection_is_terminated(engine):
    async def main():
        async with awaiting(engine, pool_size=1, max_overflow=0) as made:
            connection = await made.connect()
            await connection.execute(sa.insert(Author).values(name="undone"))
            driver = (await connection.get_raw_connection()).driver_connection
            kept = [connection]
            del connection

            def forget():
                kept.clear()
                gc.collect()

            with pytest.warns(sa.exc.SAWarning, match="garbage collector"):
                forget()
            assert driver.closed
            with pytest.raises(herdpy.InterfaceError, match="terminated"):
                await driver.execute("SELECT 1")
            assert await names(made) == []

    asyncio.run(main())


def test_nothing_is_left(tmp_path):
    code = """
import asyncio, sys, threading
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
async def main():
    engine = create_async_engine(f"herdpy+aio:///{sys.argv[1]}")
    async def work(n):
        async with engine.connect() as connection:
            result = await connection.stream(sa.text("SELECT generate_series(1, 2000)"))
            return len([row async for row in result])
    print(await asyncio.gather(*map(work, range(4))))
    await engine.dispose()
    print(len(asyncio.all_tasks()))
asyncio.run(main())
print([thread.name for thread in threading.enumerate()])
"""
    assert program(code, tmp_path / "db") == "[2000, 2000, 2000, 2000]\n1\n['MainThread']\n"


async def writes(made):
    async with made.begin() as connection:
        await connection.execute(sa.insert(Author).values(name="a"))
        await connection.execute(sa.delete(Author))


async def reads(made):
    async with made.connect() as connection, connection.stream(sa.select(Author.id)) as result:
        assert [row async for row in result] == []


HOWS = ({}, {"warm": True}, {"warm": True, "recycle": True}, {"warm": True, "cancels": 2})
EVERY = [pytest.param(what, how, marks=pytest.mark.soak) for what in (writes, reads) for how in HOWS]


@pytest.mark.parametrize(("scenario", "how"), [(writes, {"warm": True}), *EVERY])
def test_cancelled_wherever_it_waits(engine, scenario, how):
    """At each await in turn: the task ends cancelled, no connection is left open, and the pool goes on."""
    cancellation = pytest.importorskip("sqlalchemy.testing.cancellation", reason="it came with 2.1")

    def create():
        url = engine.url.set(drivername="herdpy+aio")
        return create_async_engine(url, pool_size=1, max_overflow=0, pool_pre_ping=True)

    async def main():
        async with awaiting(engine):
            assert await cancellation.sweep(create, scenario, **how) == []

    asyncio.run(main())


def test_rows_of_executemany_come_with_it(engine):
    async def main():
        async with awaiting(engine) as made, made.connect() as conn:
            sql = "INSERT INTO author (name) VALUES (%s) RETURNING name"
            rows = await conn.exec_driver_sql(sql, [("a",), ("b",), ("c",)])
            assert rows.scalars().all() == ["a", "b", "c"]

    asyncio.run(main())

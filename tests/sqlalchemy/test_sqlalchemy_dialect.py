"""What SQLAlchemy's own suite does not ask of a dialect: URLs, streams, upserts, types, lost sessions."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pytest
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql

import herdpy
from herdpy.sqlalchemy import VECTOR, HerdPyDialect, insert
from herdpy.sqlalchemy.dialect import driver_url


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("herdpy:///relative/is/absolute", "herdpy:///relative/is/absolute"),
        ("herdpy:////data/shop?create=false", "herdpy:////data/shop?create=false"),
        ("herdpy:///./here", "herdpy:///./here"),
        ("herdpy:///a%20b?x=1%262", "herdpy:///a%20b?x=1%262"),
        ("herdpy://u:p%40w@h1:5433/shop", "herdpy://u:p%40w@h1:5433/shop"),
        ("herdpy://h1/shop?hosts=h2:5,h3", "herdpy://h1/shop?hosts=h2%3A5%2Ch3"),
        ("herdpy:///shop?hosts=h2:5,h3", "herdpy:///shop?hosts=h2%3A5%2Ch3"),
        ("herdpy://[::1]:5433/shop", "herdpy://[::1]:5433/shop"),
    ],
)
def test_urls(url, driver):
    assert driver_url(sa.make_url(url), "herdpy") == driver


def test_several_hosts_share_a_port():
    assert driver_url(sa.make_url("herdpy+zk://z1,z2:2182/root?tablespace=x"), "herdpy+zk") == (
        "herdpy+zk://z1:2182,z2:2182/root?tablespace=x"
    )


def test_upsert_and_returning(engine):
    stock = sa.Table(
        "stock", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("n", sa.Integer)
    )
    stock.create(engine)
    statement = insert(stock).on_conflict_do_update(
        index_elements=[stock.c.id], set_={"n": stock.c.n + insert(stock).excluded.n}
    )
    with engine.begin() as connection:
        connection.execute(statement, [{"id": 1, "n": 5}, {"id": 2, "n": 1}])
        made = connection.execute(
            statement.returning(stock.c.id, stock.c.n), [{"id": 1, "n": 2}, {"id": 3, "n": 9}]
        )
        assert sorted(map(tuple, made)) == [(1, 7), (3, 9)]
        ignored = insert(stock).values(id=1, n=0).on_conflict_do_nothing().returning(stock.c.id)
        assert connection.execute(ignored).all() == []


def test_many_updates_and_deletes_return_their_rows_in_order(engine):
    stock = sa.Table(
        "stock", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("n", sa.Integer)
    )
    stock.create(engine)
    here = stock.c.id == sa.bindparam("here")
    with engine.begin() as connection:
        connection.execute(stock.insert(), [{"id": n, "n": 10 * n} for n in range(1, 41)])
        raised = stock.update().where(here).values(n=stock.c.n + sa.bindparam("by"))
        changes = [{"here": n, "by": n} for n in (40, 3, 99, *range(4, 34))]
        changed = connection.execute(raised.returning(stock.c.id, stock.c.n), changes)
        assert changed.all() == [(n, 11 * n) for n in (40, 3, *range(4, 34))]
        gone = connection.execute(stock.delete().where(here).returning(stock.c.n), [{"here": 3}, {"here": 1}])
        assert gone.scalars().all() == [33, 10]
        counted = connection.execute(stock.delete().where(here), [{"here": 2}, {"here": 1}])
        assert counted.rowcount == 1


def test_streams_come_as_they_are_asked_for(engine):
    numbers = sa.select(sa.func.generate_series(1, 20_000).label("n"))
    with engine.connect() as connection:
        result = connection.execution_options(stream_results=True, max_row_buffer=100).execute(numbers)
        assert isinstance(result.cursor, herdpy.dbapi.ServerCursor)
        assert [result.fetchone() for _ in range(3)] == [(1,), (2,), (3,)]
        assert sum(n for (n,) in result) == 20_000 * 20_001 // 2 - 6
        parts = connection.execution_options(yield_per=500).execute(numbers).partitions()
        assert [len(part) for part in parts] == [500] * 40


def test_values_of_every_type_come_back(engine):
    every = sa.Table(
        "every",
        sa.MetaData(),
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("number", sa.Numeric(20, 4)),
        sa.Column("real", sa.Double),
        sa.Column("text", sa.String(20)),
        sa.Column("bytes", sa.LargeBinary),
        sa.Column("day", sa.Date),
        sa.Column("hour", sa.Time),
        sa.Column("moment", sa.DateTime(timezone=True)),
        sa.Column("span", sa.Interval),
        sa.Column("key", sa.Uuid),
        sa.Column("told", sa.JSON),
        sa.Column("kept", postgresql.JSONB),
        sa.Column("list", postgresql.ARRAY(sa.Integer)),
        sa.Column("state", sa.Enum("new", "sent", name="states")),
        sa.Column("place", VECTOR(3)),
        sa.Column("yes", sa.Boolean),
    )
    row = {
        "number": Decimal("12345.6789"),
        "real": 0.1,
        "text": "ü%s",
        "bytes": b"\x00\xff",
        "day": dt.date(2024, 2, 29),
        "hour": dt.time(1, 2, 3, 4),
        "moment": dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC),
        "span": dt.timedelta(days=3, seconds=4, microseconds=5),
        "key": uuid.UUID(int=7),
        "told": {"a": [1, None, "ü"]},
        "kept": [1, {"b": True}],
        "list": [3, 1, 2],
        "state": "sent",
        "place": [1.0, 0.5, -2.0],
        "yes": True,
    }
    every.metadata.create_all(engine)
    try:
        with engine.begin() as connection:
            connection.execute(every.insert(), row)
            connection.execute(every.insert(), [row, dict.fromkeys(row)])
            found = connection.execute(every.select().order_by(every.c.id)).mappings().all()
        assert [{name: one[name] for name in row} for one in found] == [row, row, dict.fromkeys(row)]
        types = {column["name"]: column["type"] for column in sa.inspect(engine).get_columns("every")}
        assert isinstance(types["place"], VECTOR)
        assert types["place"].dimensions == 3
        assert isinstance(types["state"], postgresql.ENUM)
    finally:
        every.metadata.drop_all(engine)


def test_isolation_is_the_transactions(engine):
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "READ COMMITTED"
    with engine.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
        assert connection.scalar(sa.text("SHOW transaction_isolation")) == "serializable"
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SHOW transaction_isolation")) == "read committed"
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("CREATE TABLE at_once (a INTEGER)"))
        connection.rollback()
        assert sa.inspect(connection).has_table("at_once")
    with engine.connect().execution_options(postgresql_readonly=True) as connection:
        with pytest.raises(sa.exc.InternalError, match="read-only"):
            connection.execute(sa.text("INSERT INTO at_once VALUES (1)"))
        connection.rollback()


def test_savepoints_of_the_orm(engine):
    registry = orm.registry()

    @registry.mapped
    class Item:
        __tablename__ = "item"
        id = sa.Column(sa.Integer, primary_key=True)
        name = sa.Column(sa.String(10), unique=True)

    registry.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add(Item(name="a"))
        session.flush()
        savepoint = session.begin_nested()
        session.add(Item(name="a"))
        with pytest.raises(sa.exc.IntegrityError):
            session.flush()
        savepoint.rollback()
        session.add(Item(name="b"))
        session.commit()
        assert session.scalars(sa.select(Item.name).order_by(Item.name)).all() == ["a", "b"]


def test_a_pool_replaces_sessions_that_were_ended(server):
    engine = sa.create_engine(f"herdpy://127.0.0.1:{server.port}/herdpy", pool_pre_ping=True, pool_size=1)
    with engine.connect() as connection:
        pid = connection.scalar(sa.text("SELECT pg_backend_pid()"))
    with server.connect(autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (pid,))
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1
    engine.dispose()


@pytest.mark.parametrize(
    ("sqlstate", "lost"), [("08006", True), ("57P01", True), ("40001", False), (None, False)]
)
def test_what_is_a_lost_connection(sqlstate, lost):
    error = herdpy.OperationalError("x", sqlstate=sqlstate)
    assert HerdPyDialect().is_disconnect(error, None, None) is lost

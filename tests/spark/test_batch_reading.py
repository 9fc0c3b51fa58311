"""Tables and queries of a real cluster, from replicas and from the log: exactly the rows of one state."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from decimal import Decimal

import pytest

from herdpy.log.lsn import LSN
from herdpy.rpc.address import RemoteError
from herdpy.rpc.snapshots import publish
from herdpy.testing.process import await_until
from herdpy.testing.zookeeper import LEDGERS_ROOT
from herdpy_spark.access import AccessError
from herdpy_spark.options import OptionError
from tests.spark.reading import read

pytestmark = pytest.mark.timeout(300)

SOURCES = ("replica", "log")
ORDERS = [(n, n % 7, f"customer {n % 5}", Decimal(n) / 4) for n in range(1, 3001)]


@pytest.fixture(scope="session")
def zookeeper(cluster):
    """The URL that needs no server."""
    return f"herdpy+zk://{cluster.zookeeper}/herdpy?tablespace=herdpy&ledgers_root={LEDGERS_ROOT}"


@pytest.fixture(scope="module")
def sold(sql):
    """A table with a key of two columns, and what is in it."""
    sql("CREATE TABLE sold (id INT, kind INT, customer TEXT, price NUMERIC(9,2), PRIMARY KEY (id, kind))")
    sql(
        "INSERT INTO sold SELECT g, g % 7, 'customer ' || g % 5, g / 4.0 "
        "FROM generate_series(1, 3000) AS s (g)"
    )
    return ORDERS


@pytest.fixture(scope="module")
def kinds(sql):
    """A table with a column of every type: its rows as SQL has them."""
    sql(
        "CREATE TABLE kinds (id INT PRIMARY KEY, b BOOLEAN, s SMALLINT, l BIGINT, r REAL, d FLOAT8, "
        "n NUMERIC(12,3), u NUMERIC, t TEXT, v VARCHAR(9), c CHAR(4), y BYTEA, day DATE, clock TIME, "
        "ts TIMESTAMP, tz TIMESTAMPTZ, id2 UUID, j JSON)"
    )
    sql(
        "INSERT INTO kinds SELECT g, g % 2 = 0, g, g * 1000000000000, g / 4.0, g / 3.0, g / 8.0, "
        "123456789012345678901234567890::numeric + g, 'text ' || g, 'v' || g, 'four', '\\x00ff'::bytea, "
        "date '2026-01-01' + g, time '12:00' + g * interval '1 second', "
        "timestamp '2026-01-01 00:00' + g * interval '1 hour', "
        "timestamptz '2026-01-01 00:00+01' + g * interval '1 microsecond', "
        "'00000000-0000-0000-0000-0000000000ab'::uuid, '{\"g\": 1}'::json "
        "FROM generate_series(1, 50) AS s (g)"
    )
    sql("INSERT INTO kinds (id) VALUES (0)")
    return sql("SELECT * FROM kinds ORDER BY id")


def as_spark(value):
    """A value of the driver as DataFrames have it."""
    if isinstance(value, dt.time):
        return value.isoformat("microseconds")
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    if isinstance(value, Decimal) and value > 10**20:
        return str(value)
    if isinstance(value, bytes):
        return bytearray(value)
    return value if isinstance(value, int | float | str | Decimal | dt.date | None) else str(value)


@pytest.mark.parametrize("source", SOURCES)
def test_every_type_arrives_as_sql_has_it(spark, cluster, kinds, source):
    reader = spark.read.format("herdpy").option("url", cluster.url).option("from", source)
    frame = reader.option("table", "kinds").option("numPartitions", 3).load()
    found = sorted(tuple(row) for row in frame.collect())
    # JSON is an object for the driver, and its text for Spark.
    assert [row[:-1] for row in found] == [tuple(map(as_spark, row[:-1])) for row in kinds]
    assert [row[-1] for row in found] == [None, *(['{"g": 1}'] * 50)]
    assert dict(frame.dtypes)["id2"] == "string"
    assert not frame.schema["id"].nullable


@pytest.mark.parametrize("source", SOURCES)
def test_all_actions_of_a_frame_see_one_state(spark, cluster, sql, new_name, source):
    table = new_name("accounts")
    sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, balance INT)")
    sql(f"INSERT INTO {table} SELECT g, 100 FROM generate_series(1, 200) AS s (g)")
    reader = spark.read.format("herdpy").option("url", cluster.url).option("from", source)
    frame = reader.option("table", table).option("numPartitions", 4).load()
    before = frame.groupBy().sum("balance").first()[0]
    sql(f"UPDATE {table} SET balance = balance + 1")
    sql(f"DELETE FROM {table} WHERE id > 100")
    assert frame.count() == 200
    assert (
        frame.filter("balance = 100").join(frame.select("id"), "id").groupBy().sum("balance").first()[0]
        == before
    )
    assert reader.option("table", table).load().count() == 100


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("partitions", [1, 3, 16])
def test_partitions_have_each_row_once(cluster, sold, source, partitions):
    found = read(cluster.url, table="sold", source=source, numPartitions=partitions)
    parts = [found.partition(number) for number in range(len(found.partitions))]
    assert 1 <= len(parts) <= partitions
    assert sorted(row for part in parts for row in part) == sold
    if source == "replica":
        assert max(map(len, parts)) - min(map(len, parts)) <= 2


@pytest.mark.parametrize("source", SOURCES)
def test_columns_conditions_and_bounds(cluster, sold, source):
    def rows(**options):
        return sorted(read(cluster.url, table="sold", source=source, numPartitions=3, **options).rows())

    assert rows(columns="price,id") == sorted((price, n) for n, _k, _c, price in sold)
    assert rows(columns="id", where="customer = 'customer 3' AND price < 20") == [
        (3 + 5 * n,) for n in range(16)
    ]
    assert rows(where="id >= 100 AND id < 200 AND kind = 1") == [row for row in sold[99:199] if row[1] == 1]
    assert rows(lowerBound="2990", columns="id") == [(n,) for n in range(2990, 3001)]
    assert rows(lowerBound="10", upperBound="20", where="kind <> 3") == [
        row for row in sold[9:19] if row[1] != 3
    ]
    assert rows(where="false") == []
    with pytest.raises((OptionError, AccessError), match="invalid input syntax for type integer"):
        rows(lowerBound="ten")


@pytest.mark.parametrize("source", SOURCES)
def test_even_steps_of_the_key_choose_no_rows(cluster, sold, source):
    steps = {"partitionColumn": "ID", "lowerBound": "1000", "upperBound": "2000", "numPartitions": 4}
    found = read(cluster.url, dbtable="Sold", source=source, **steps)
    parts = [found.partition(number) for number in range(len(found.partitions))]
    assert [(part[0][0], part[-1][0]) for part in map(sorted, parts)] == [
        (1, 1249),
        (1250, 1499),
        (1500, 1749),
        (1750, len(sold)),
    ]
    assert sorted(row for part in parts for row in part) == sold
    some = read(cluster.url, dbtable="sold", source=source, where="id > 1600 AND id <= 1700", **steps)
    assert some.rows() == sold[1600:1700]
    with pytest.raises(OptionError, match="sold is cut at the first column of its key, id"):
        read(cluster.url, dbtable="sold", source=source, **{**steps, "partitionColumn": "price"})
    with pytest.raises(OptionError, match="2000 is not below 1000"):
        read(cluster.url, dbtable="sold", source=source, **{**steps, "lowerBound": 2000, "upperBound": 1000})


@pytest.mark.parametrize("source", SOURCES)
def test_batches_have_so_many_rows_at_most(cluster, sold, source):
    found = read(cluster.url, dbtable="sold", source=source, fetchsize=70, numPartitions=2)
    sizes = [batch.num_rows for partition in found.partitions for batch in found.reader.read(partition)]
    assert sum(sizes) == len(sold)
    assert max(sizes) == 70


@pytest.mark.parametrize("source", SOURCES)
def test_a_query_reads_its_tables_at_one_state(cluster, sql, sold, new_name, source):
    names = new_name("names")
    sql(f"CREATE TABLE {names} (kind INT PRIMARY KEY, name TEXT)")
    sql(f"INSERT INTO {names} SELECT g, 'kind ' || g FROM generate_series(0, 5) AS s (g)")
    found = read(
        cluster.url,
        source=source,
        query=f"WITH some AS (SELECT kind, price FROM sold WHERE id <= 70) "
        f"SELECT n.name, count(*) AS items, sum(price) AS total FROM some LEFT JOIN {names} n USING (kind)"
        " GROUP BY n.name ORDER BY 1",
    )
    sql(f"DELETE FROM {names}")
    assert found.schema.names == ["name", "items", "total"]
    wanted = {kind: [price for n, of, _c, price in sold if of == kind and n <= 70] for kind in range(7)}
    assert found.rows() == [
        *((f"kind {kind}", 10, str(sum(wanted[kind]))) for kind in range(6)),
        (None, 10, str(sum(wanted[6]))),
    ]
    count = read(cluster.url, source=source, query=f"SELECT count(*) AS n FROM {names}")
    assert count.rows() == [(0,)]


def test_a_state_of_the_past_is_read_from_the_log(cluster, sql, new_name):
    table = new_name("past")
    sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)")
    sql(f"INSERT INTO {table} VALUES (1, -1)")
    positions = []
    for version in range(3):
        sql(f"UPDATE {table} SET v = {version}")
        positions.append((sql.position(), sql("SELECT clock_timestamp()")[0][0]))
    sql(f"DELETE FROM {table}")
    for version, (position, moment) in enumerate(positions):
        assert read(cluster.url, table=table, snapshot=position).rows() == [(1, version)]
        assert read(cluster.url, table=table, snapshot=moment.isoformat()).rows() == [(1, version)]
    assert read(cluster.url, table=table).rows() == []


def test_what_was_committed_before_is_in_the_frame_and_a_follower_is_read(cluster, sql, new_name):
    table = new_name("fresh")
    sql(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
    leader = next(one.grpc_port for one in cluster.status().servers if one.role == "leader")
    for n in range(1, 6):
        sql(f"INSERT INTO {table} VALUES ({n})")
        found = read(cluster.url, table=table)
        assert found.reader.lsn >= sql.position()
        assert sorted(found.rows()) == [(one,) for one in range(1, n + 1)]
        assert found.reader._rows.place.port != leader


@pytest.mark.parametrize("source", SOURCES)
def test_a_state_that_is_let_go_of_says_so(cluster, sold, source):
    found = read(cluster.url, table="sold", numPartitions=2, source=source)
    assert found.partition(0)
    for _again in range(2):
        found.reader._rows.release()
    with pytest.raises(Exception, match="Make the DataFrame again"):
        found.partition(1)


def test_sums_are_the_same_while_money_moves(cluster, sql, new_name):
    table = new_name("bank")
    sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, balance INT)")
    sql(f"INSERT INTO {table} SELECT g, 1000 FROM generate_series(1, 500) AS s (g)")
    over, moves = threading.Event(), 0

    def move():
        nonlocal moves
        while not over.is_set():
            one, other = 1 + moves * 7 % 500, 1 + moves * 13 % 500
            if one != other:
                sql(
                    f"UPDATE {table} SET balance = balance + CASE id WHEN {one} THEN 5 ELSE -5 END "
                    f"WHERE id IN ({one}, {other})"
                )
            moves += 1

    mover = threading.Thread(target=move)
    mover.start()
    try:
        seen = set()
        for turn in range(3):
            for source in SOURCES:
                found = read(cluster.url, table=table, source=source, numPartitions=1 + 3 * turn)
                rows = found.rows()
                assert (len(rows), sum(balance for _id, balance in rows)) == (500, 500_000)
                seen.add(found.reader.lsn)
    finally:
        over.set()
        mover.join()
    assert len(seen) == 6


def test_what_is_not_there(cluster, zookeeper, sold):
    for url, source in ((cluster.url, "replica"), (cluster.url, "log"), (zookeeper, "log")):
        with pytest.raises(Exception, match="nowhere"):
            read(url, table="nowhere", source=source)
    with pytest.raises(OptionError, match="no column nothing"):
        read(cluster.url, table="sold", columns="id,nothing")
    with pytest.raises(OptionError, match=r"where: column .nothing. does not exist"):
        read(cluster.url, table="sold", where="nothing = 1")
    with pytest.raises(AccessError, match=r"127\.0\.0\.1"):
        read("herdpy://127.0.0.1:1/herdpy", table="sold")
    with pytest.raises(AccessError, match="no tablespace elsewhere"):
        read(zookeeper.replace("tablespace=herdpy", "tablespace=elsewhere"), table="sold")


def test_a_schema_may_be_given(spark, cluster, sold):
    reader = spark.read.format("herdpy").option("url", cluster.url).option("table", "sold")
    assert reader.schema("kind int, id int").load().filter("id = 9").collect() == [(2, 9)]
    with pytest.raises(Exception, match=r"the column price is decimal\(9,2\), not double"):
        reader.schema("price double").load().count()


def published(place):
    """Publish a snapshot; None while the cadence publishes one, which may have begun before."""
    try:
        return asyncio.run(publish(place))
    except RemoteError as error:
        if "being published" not in str(error):
            raise
        return None


def test_snapshot_and_ledgers_are_read_with_every_server_stopped(cluster, sql, zookeeper, new_name, tmp_path):
    table = new_name("kept")
    sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)")
    sql(f"INSERT INTO {table} SELECT g, g FROM generate_series(1, 2000) AS s (g)")
    sql(f"ALTER TABLESPACE herdpy SET (snapshot_url = '{tmp_path}', snapshot_interval = '1h')")
    servers = [one.id for one in cluster.status().servers]
    try:
        place = read(cluster.url, table=table, source="log").reader._rows.keeper.servers.places[0]
        await_until(lambda: published(place), 60)
        sql(f"UPDATE {table} SET v = -v WHERE id % 100 = 7")
        sql(f"DELETE FROM {table} WHERE id > 1990")
        sql(f"INSERT INTO {table} VALUES (5000, 5)")
        wanted = sql(f"SELECT * FROM {table} ORDER BY id")
        position: LSN = sql.position()
        for name in servers:
            cluster.stop(name)
        found = read(zookeeper, table=table, source="log", numPartitions=2)
        (plan,) = found.reader._rows.plans
        assert plan.snapshot is not None
        assert plan.snapshot.lsn < position <= found.reader.lsn
        assert sorted(found.rows()) == wanted
    finally:
        for name in servers:
            cluster.start(name)
        cluster.await_leader(timeout_s=60.0)
        sql("SELECT 1")  # may be asked again, as no ALTER may, which would meet a lost connection
        sql("ALTER TABLESPACE herdpy SET (snapshot_url = '')")

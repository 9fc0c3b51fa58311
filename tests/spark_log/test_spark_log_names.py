"""Tables of one name in several schemas, and sessions' temporary ones: the log's readers tell them apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import herdpy
from herdpy.log.published import load, newest
from herdpy_server.embedded import Database
from herdpy_spark import access
from herdpy_spark.batch.query import BatchQuery
from herdpy_spark.batch.rows import plan_log_tables
from herdpy_spark.feed.driver import FeedDriver, describe, newest_table
from herdpy_spark.feed.table import FeedShape
from herdpy_spark.feed.tasks import read_task
from herdpy_spark.log import LogAddress, NoSuchTableError, plan_table, read_partition
from herdpy_spark.options import OptionError

OTHERS_FIRST = ["s2.t", "pg_temp.t", "t"]
OTHERS_LAST = ["t", "pg_temp.t", "s2.t"]


class House:
    """A database with three tables t, its log, and a place to publish at."""

    def __init__(self, path: Path, order: list[str]) -> None:
        self.path, self.url = path / "db", str(path / "published")
        self.address = LogAddress.of_database(self.path, snapshot_url=self.url)
        self.database = access.SparkDatabase(None, str(self.path), self.address)
        self.connection: Any = None
        self("CREATE SCHEMA s2")
        for name in order:
            self(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)")
        self.write(1)

    def close(self) -> None:
        """Let the log be read to its end; the temporary table goes."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def __call__(self, *statements: str) -> None:
        if self.connection is None:
            self.connection = herdpy.connect(str(self.path), autocommit=True)
        for sql in statements:
            self.connection.execute(sql).close()

    def write(self, number: int) -> None:
        """A row into each, and a change of each."""
        self("CREATE TEMP TABLE IF NOT EXISTS t (id int PRIMARY KEY, v text)")
        for name, word in (("public.t", "public"), ("s2.t", "second"), ("pg_temp.t", "temporary")):
            self(f"INSERT INTO {name} VALUES ({number}, '{word}')")
            self(f"UPDATE {name} SET v = v || '!' WHERE id = {number}")

    def publish(self) -> None:
        database = Database.acquire(self.path)
        try:
            database.publish(self.url, "herdpy")
        finally:
            database.release()

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        self.close()
        plan = plan_table(self.address, name)
        found = [batch for number in range(len(plan.ranges)) for batch in read_partition(plan, number)]
        return [tuple(row.values()) for batch in found for row in batch.to_pylist()]

    def changes(self, name: str, starting: str = "earliest", **options: Any) -> list[tuple[str, Any]]:
        self.close()
        table = newest_table(self.database, name)
        driver = FeedDriver(self.database, name, FeedShape.of(table), **options)
        at = driver.first(starting)  # type: ignore[arg-type]
        found = []
        while (end := driver.next(at, None)) != at:
            for task in driver.tasks(at, end):
                for batch in read_task(task, FeedShape.of(table)):
                    found += [(row["op"], row["after"] and row["after"]["v"]) for row in batch.to_pylist()]
            at = end
        return found


@pytest.fixture(params=[OTHERS_FIRST, OTHERS_LAST], ids=["others first", "others last"])
def house(request, tmp_path):
    made = House(tmp_path, request.param)
    yield made
    made.close()


@pytest.mark.parametrize("published", [False, True])
def test_the_log_has_rows_of_the_table_that_is_meant(house, published):
    if published:
        house.publish()
        house.write(2)
    count = 2 if published else 1
    numbers = range(1, count + 1)
    assert house.rows("t") == [(number, "public!") for number in numbers]
    assert house.rows("public.t") == house.rows("t")
    assert house.rows("s2.t") == [(number, "second!") for number in numbers]
    for name in ("pg_temp_1.t", "pg_temp.t", "s3.t", "s2.public.t"):
        with pytest.raises(NoSuchTableError):
            plan_table(house.address, name)


def test_a_snapshot_has_no_temporary_tables(house):
    house.publish()
    manifest = load(newest(house.url, "herdpy"))
    assert sorted((one.schema, one.name, one.rows) for one in manifest.tables) == [
        ("public", "t", 1),
        ("s2", "t", 1),
    ]
    assert len(manifest.temporary) == 1
    assert manifest.table("t", "s2").schema == "s2"
    assert manifest.table("t", "s3") is None
    assert type(manifest).decode(manifest.encode()) == manifest
    house("DROP TABLE pg_temp.t")
    house.write(2)
    assert house.rows("t") == [(1, "public!"), (2, "public!")]


@pytest.mark.parametrize("name", ["t", "public.t", "s2.t"])
def test_a_feed_has_the_changes_of_its_table_and_loses_none(house, name):
    word = "second" if name == "s2.t" else "public"
    own = [("create", None), ("insert", word), ("update", f"{word}!")]
    assert house.changes(name) == own
    other = "s2.t" if word == "public" else "public.t"
    house(f"DROP TABLE {other}", f"CREATE TABLE {other} (id int PRIMARY KEY, v text)")
    house.write(2)
    assert house.changes(name) == [*own, ("insert", word), ("update", f"{word}!")]


def test_a_table_that_moves_to_another_schema_leaves_one_feed_and_comes_into_the_other(house):
    house("CREATE SCHEMA s3", "ALTER TABLE s2.t SET SCHEMA s3")
    assert house.rows("s3.t") == [(1, "second!")]
    with pytest.raises(NoSuchTableError):
        house.rows("s2.t")
    assert newest_table(house.database, "s2.t") is None
    house("ALTER SCHEMA s3 RENAME TO s4", "INSERT INTO s4.t VALUES (2, 'moved')")
    assert house.rows("s4.t") == [(1, "second!"), (2, "moved")]
    assert house.changes("s4.t")[-1] == ("insert", "moved")
    assert [op for op, _ in house.changes("t")] == ["create", "insert", "update"]


def test_what_a_snapshot_tells_of_a_name_is_of_its_schema(house):
    """The log is trimmed: only the snapshot knows the tables."""
    house.publish()
    house("CHECKPOINT")
    house("INSERT INTO public.t VALUES (7, 'later')", "INSERT INTO s2.t VALUES (7, 'later too')")
    assert house.rows("t") == [(1, "public!"), (7, "later")]
    assert house.rows("s2.t") == [(1, "second!"), (7, "later too")]
    described = describe(house.database, "s2.t")
    if described is not None:  # the log was cut
        assert described.table.schema == "s2"
    assert describe(house.database, "pg_temp_1.t") is None


def test_a_name_with_a_dot_in_it_is_a_name_in_public_first(house):
    house('CREATE TABLE "s2.t" (id int PRIMARY KEY, v text)', "INSERT INTO \"s2.t\" VALUES (9, 'dotted')")
    assert house.rows("s2.t") == [(9, "dotted")]
    assert house.changes("s2.t")[-1] == ("insert", "dotted")
    assert house.rows('"s2.t"') == [(9, "dotted")]
    assert house.rows('"s2"."t"') == [(1, "second!")]
    assert house.changes('"s2.t"')[-1] == ("insert", "dotted")
    assert house.changes('"s2"."t"')[-1] == ("update", "second!")
    query = BatchQuery.of('SELECT a.v AS x, b.v AS y FROM "s2.t" AS a, s2.t AS b')
    rows = plan_log_tables(house.address, query.tables(), None, None)
    assert [batch.to_pylist() for batch in query.run(rows)] == [[{"x": "dotted", "y": "second!"}]]
    house('DROP TABLE "s2.t"')
    assert house.rows("s2.t") == [(1, "second!")]


def test_a_query_reads_the_tables_that_it_names(house):
    query = BatchQuery.of("SELECT a.v AS x, b.v AS y FROM t AS a JOIN s2.t AS b ON a.id = b.id")
    assert query.tables() == ("t", '"s2"."t"')
    house.close()
    rows = plan_log_tables(house.address, query.tables(), None, None)
    assert [batch.to_pylist() for batch in query.run(rows)] == [[{"x": "public!", "y": "second!"}]]
    for name in ("pg_catalog.pg_class", "other.s2.t"):
        with pytest.raises(OptionError, match="is no table of the tablespace"):
            BatchQuery.of(f"SELECT * FROM {name}")

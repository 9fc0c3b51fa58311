"""DataFrames written to three servers and three bookies: all of a DataFrame is there, or nothing of it."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pytest
from pyspark import TaskContext
from pyspark.sql.types import (
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    StructField,
    StructType,
    TimestampNTZType,
)

from herdpy_spark.jobs import bulk_load, loading
from herdpy_spark.jobs.job import JobRun, UsageError, job_parser
from tests.spark.staged import staged_ledgers


@pytest.fixture
def write(cluster):
    """Write a DataFrame to a table, with options."""

    def write(frame, table, save_mode="append", **options):
        writer = frame.write.format("herdpy").option("url", cluster.url).option("table", table)
        writer.options(**options).mode(save_mode).save()

    return write


@pytest.fixture
def accounts(sql, new_name):
    """A table of accounts 0 to 9, each with 100."""
    name = new_name("accounts")
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, owner TEXT DEFAULT 'bank', amount NUMERIC(10,2) NOT NULL)")
    sql(f"INSERT INTO {name} (id, amount) SELECT g, 100 FROM generate_series(0, 9) AS s(g)")
    return name


def rows(sql, table):
    return sql(f"SELECT id, owner, amount FROM {table} ORDER BY id")


def frame_of(spark, *tuples):
    return spark.createDataFrame(list(tuples), "id INT, owner STRING, amount INT").repartition(2)


def test_all_rows_of_all_partitions_are_there_once(spark, sql, write, new_name):
    table = new_name()
    sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT)")
    write(spark.range(0, 10_000, 1, 4).selectExpr("id", "concat('row ', id) AS name"), table)
    assert sql(f"SELECT count(*), sum(id), min(name), max(name) FROM {table}") == [
        (10_000, sum(range(10_000)), "row 0", "row 9999")
    ]


def test_hundreds_of_small_partitions_share_a_ledger(spark, sql, write, new_name, cluster):
    table = new_name()
    sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT)")
    write(spark.range(0, 600, 1, 200).selectExpr("id", "concat('row ', id) AS name"), table, loadId="small")
    assert sql(f"SELECT count(*), sum(id), min(name) FROM {table}") == [(600, sum(range(600)), "row 0")]
    assert len(staged_ledgers(cluster.bookkeeper_uri, "small")) == 1


def test_values_of_every_type_arrive(spark, sql, write, new_name):
    table = new_name()
    columns = {
        "b BOOLEAN": True,
        "s SMALLINT": -3,
        "i INTEGER": 2**31 - 1,
        "l BIGINT": -(2**63),
        "r REAL": 0.5,
        "d DOUBLE PRECISION": 1e300,
        "n NUMERIC(20,3)": Decimal("-12345678901234567.125"),
        "x NUMERIC": Decimal("1.50"),
        "t TEXT": "größer",
        "y BYTEA": b"\0\xff",
        "a DATE": dt.date(2026, 2, 28),
        "z TIMESTAMP": dt.datetime(2026, 2, 28, 23, 59, 59, 999999),
        "w TIMESTAMPTZ": dt.datetime(2026, 2, 28, 23, 59, 59, tzinfo=dt.UTC),
        "u UUID": uuid.UUID(int=7),
        "j JSON": {"a": [1, None]},
    }
    sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, {', '.join(columns)})")
    frame = spark.sql(
        "SELECT 1 AS id, true AS b, -3S AS s, 2147483647 AS i, -9223372036854775808L AS l, 0.5F AS r,"
        " 1e300D AS d,"
        " -12345678901234567.125 AS n, 1.50 AS x, 'größer' AS t, X'00ff' AS y, DATE '2026-02-28' AS a,"
        " TIMESTAMP_NTZ '2026-02-28 23:59:59.999999' AS z, TIMESTAMP '2026-02-28 23:59:59Z' AS w,"
        " '00000000-0000-0000-0000-000000000007' AS u, '{\"a\": [1, null]}' AS j"
    )
    write(
        frame.unionAll(
            frame.selectExpr("2 AS id", *(f"CAST(NULL AS {kind}) {name}" for name, kind in frame.dtypes[1:]))
        ),
        table,
    )
    assert sql(f"SELECT * FROM {table} ORDER BY id") == [
        (1, *columns.values()),
        (2, *[None] * len(columns)),
    ]


def test_columns_are_matched_by_name_and_others_get_their_default(spark, sql, write, accounts):
    write(spark.sql("SELECT 7.5 AS AMOUNT, 20 AS Id"), accounts)
    assert rows(sql, accounts)[-1] == (20, "bank", Decimal("7.50"))


def test_every_row_has_a_default_of_its_own(spark, sql, write, new_name):
    table = new_name()
    sql(
        f"CREATE TABLE {table} (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v BIGINT, n SERIAL, "
        "u UUID DEFAULT gen_random_uuid())"
    )
    write(spark.range(0, 1000, 1, 4).selectExpr("id AS v"), table)
    write(spark.range(1000, 1010, 1, 2).selectExpr("id AS v"), table)
    assert sql(
        f"SELECT count(*), count(DISTINCT v), min(id), max(id), count(DISTINCT n), max(n), count(DISTINCT u) "
        f"FROM {table}"
    ) == [(1010, 1010, 1, 1010, 1010, 1010, 1010)]


def test_labels_are_read_and_written_as_text(spark, sql, write, cluster, new_name):
    table, mood = new_name(), new_name("mood")
    sql(f"CREATE TYPE {mood} AS ENUM ('new', 'old')")
    sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, m {mood}, ms {mood}[])")
    sql(f"INSERT INTO {table} VALUES (1, 'old', '{{new,old}}'), (2, NULL, NULL)")
    frame = spark.read.format("herdpy").option("url", cluster.url).option("table", table).load()
    assert sorted(map(tuple, frame.collect())) == [(1, "old", ["new", "old"]), (2, None, None)]
    other = new_name()
    sql(f"CREATE TABLE {other} (id INT PRIMARY KEY, m {mood})")
    write(frame.select("id", "m"), other)
    assert sql(f"SELECT id, m FROM {other} ORDER BY id") == [(1, "old"), (2, None)]


TARGET = {
    "n": (IntegerType(), "integer"),
    "d": (DateType(), "date"),
    "m": (DecimalType(10, 2), "numeric(10,2)"),
    "t": (TimestampNTZType(), "timestamp without time zone"),
    "f": (FloatType(), "real"),
}
KEPT = [
    ("1.0D AS n", 1), ("CAST(2 AS DECIMAL(5,1)) AS n", 2), ("'3' AS n", 3),
    ("CAST(NULL AS DOUBLE) AS n", None),
    ("DATE'2026-03-01' AS d", dt.date(2026, 3, 1)), ("'2026-03-01' AS d", dt.date(2026, 3, 1)),
    ("TIMESTAMP_NTZ'2026-03-01 00:00:00' AS d", dt.date(2026, 3, 1)),
    ("1.005D AS m", Decimal("1.01")), ("'1.2345' AS m", Decimal("1.23")), ("7 AS m", Decimal(7)),
    ("'2026-03-01 10:00:00.5' AS t", dt.datetime(2026, 3, 1, 10, 0, 0, 500_000)),
    ("1.5D AS f", 1.5), ("'inf' AS f", float("inf")),
]  # fmt: skip
REFUSED = [
    "1.5D AS n", "CAST(1.5 AS DECIMAL(5,1)) AS n", "'1.5' AS n", "true AS n", "DATE'2026-03-01' AS n",
    "TIMESTAMP'2026-03-01 10:00:00' AS n", "TIMESTAMP_NTZ'2026-03-01 10:00:00' AS d", "'2026' AS d",
    "'2026-03-01 10:00' AS d", "'2026-03-01 rest' AS d", "5 AS t", "'12:30' AS t", "1e300D AS f",
    "'1e300' AS f",
]  # fmt: skip


def test_a_load_job_changes_no_value_without_a_word(spark):
    """What the job bulk_load makes of a source's values; it needs no database."""
    target = StructType(
        [StructField(name, kind, True, {loading.SQL_TYPE: told}) for name, (kind, told) in TARGET.items()]
    )

    def checked(select):
        frame = spark.sql(f"SELECT {select}")
        found = loading.checked(frame, target, {name: name for name in frame.columns})
        ((value, reason),) = [(row[0], row[loading.REASON]) for row in found.collect()]
        return value, reason

    for select, kept in KEPT:
        assert checked(select) == (kept, None), select
    for select in REFUSED:
        _, reason = checked(select)
        assert " is no " in str(reason), select


def test_a_job_takes_a_file_without_a_header_and_sets_bad_text_aside(spark, sql, cluster, new_name, tmp_path):
    table, mood = f"app.{new_name()}", new_name("mood")
    sql("CREATE SCHEMA IF NOT EXISTS app")
    sql(f"CREATE TYPE app.{mood} AS ENUM ('new', 'old')")
    sql(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, twice INT GENERATED ALWAYS AS (2 * id) STORED, n INT[], "
        f"g INT[][], v VECTOR(2), d INTERVAL, m app.{mood})"
    )
    file = tmp_path / "rows.csv"
    file.write_text(
        "1;{1,NULL,3};[[1,2],[3,4]];[1,2.5];1 day;new\n"
        "2;;;;;\n3;{x};;;;\n4;;{{1},{2,3}};;;\n5;;;[1];;\n6;;;;soon;\n7;;;;;lost\n"
    )

    def load(*more):
        argv = ["--url", cluster.url, "--table", table, str(file), "--option", "sep=;", *more]
        arguments = job_parser(bulk_load.JOB).parse_args([*argv, "--quarantine", str(tmp_path / "bad")])
        this = JobRun(arguments, {}, lambda line: None, lambda: spark)
        bulk_load.run(this)
        return this.report

    report = load("--option", "HEADER=false")
    assert (report["inserted"], report["bad"]) == (2, 5)
    assert sql(f"SELECT id, twice, n::text, g::text, v::text, d::text, m::text FROM {table} ORDER BY id") == [
        (1, 2, "{1,NULL,3}", "{{1,2},{3,4}}", "[1,2.5]", "1 day", "new"),
        (2, 4, None, None, None, None, None),
    ]
    reasons = sorted(row.reason for row in spark.read.json(report["quarantine"]).collect())
    assert [one.partition(":")[0] for one in reasons] == [f"column {name}" for name in "dgmnv"]
    with pytest.raises(UsageError, match="the file has 6 columns, and 2 are named: id, n"):
        load("--option", "header=false", "--columns", "id,n")


def test_a_job_sets_lists_aside_that_the_table_does_not_take(spark, sql, cluster, new_name, tmp_path):
    """Lists that Spark has as such: labels, lengths, dimensions and elements are judged one by one."""
    table, mood = f'"app".{new_name()}', new_name("mood")
    sql("CREATE SCHEMA IF NOT EXISTS app")
    sql(f"CREATE TYPE app.{mood} AS ENUM ('new', 'o''ld')")
    sql(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, m app.{mood}[], c VARCHAR(3)[], v VECTOR(2), "
        f"g app.{mood}[][], u UUID[])"
    )
    kinds = (
        "id INT, m ARRAY<STRING>, c ARRAY<STRING>, v ARRAY<FLOAT>, g ARRAY<ARRAY<STRING>>, u ARRAY<STRING>"
    )
    some_id = str(uuid.UUID(int=7))
    given = [
        (1, ["new", None, "o'ld"], ["abc"], [1.0, 2.5], [["new"], ["o'ld"]], [some_id]),
        (2, None, None, None, None, None),
        (3, ["new", "lost"], None, None, None, None),
        (4, None, ["abcd"], None, None, None),
        (5, None, None, [1.0], None, None),
        (6, None, None, None, [["new"], ["new", "new"]], None),
        (7, None, None, None, [["gone"]], None),
        (8, None, None, None, None, ["x"]),
        (9, [], [], None, None, []),
    ]
    file = str(tmp_path / "rows.parquet")
    spark.createDataFrame(given, kinds).coalesce(1).write.parquet(file)
    argv = ["--url", cluster.url, "--table", table.replace('"', ""), file]
    arguments = job_parser(bulk_load.JOB).parse_args([*argv, "--quarantine", str(tmp_path / "bad")])
    this = JobRun(arguments, {}, lambda line: None, lambda: spark)
    bulk_load.run(this)
    assert (this.report["inserted"], this.report["bad"]) == (3, 6)
    assert sql(f"SELECT id, m::text, c::text, v::text, g::text FROM {table} ORDER BY id") == [
        (1, "{new,NULL,o'ld}", "{abc}", "[1,2.5]", "{{new},{o'ld}}"),
        (2, None, None, None, None),
        (9, "{}", "{}", None, None),
    ]
    reasons = sorted(row.reason for row in spark.read.json(this.report["quarantine"]).collect())
    assert [one.partition(":")[0] for one in reasons] == [f"column {name}" for name in "cggmuv"]
    assert reasons[3] == f'column m: invalid input value for enum {mood}: "lost"'


def test_upsert_replaces_and_adds(spark, sql, write, accounts):
    write(frame_of(spark, (9, "eve", 1), (10, "eve", 2)), accounts, mode="upsert")
    assert rows(sql, accounts)[-3:] == [(8, "bank", 100), (9, "eve", 1), (10, "eve", 2)]


def test_ignore_adds_and_leaves_what_is_there(spark, sql, write, accounts):
    write(frame_of(spark, (9, "eve", 1), (10, "eve", 2)), accounts, mode="ignore")
    assert rows(sql, accounts)[-2:] == [(9, "bank", 100), (10, "eve", 2)]


def test_delete_takes_rows_away_by_their_key(spark, sql, write, accounts):
    write(frame_of(spark, (3, "whoever", 0), (4, None, None), (99, None, None)), accounts, mode="delete")
    assert [id for id, *_ in rows(sql, accounts)] == [0, 1, 2, 5, 6, 7, 8, 9]


def test_rows_that_others_refer_to_are_overwritten_when_their_keys_come_back(
    spark, sql, write, accounts, new_name, cluster
):
    child = f'app."{new_name()} c"'
    sql("CREATE SCHEMA IF NOT EXISTS app")
    sql(f"CREATE TABLE {child} (id INT PRIMARY KEY, account INT REFERENCES {accounts} ON DELETE CASCADE)")
    sql(f"INSERT INTO {child} VALUES (1, 3), (2, NULL)")
    frame = frame_of(spark, (3, "eve", 1), (44, "eve", 2))
    with pytest.raises(Exception, match="is still referenced from table"):
        write(frame.where("id = 44"), accounts, "overwrite", loadId="refused parent")
    assert staged_ledgers(cluster.bookkeeper_uri, "refused parent") == []
    write(frame, accounts, "overwrite")
    assert rows(sql, accounts) == [(3, "eve", 1), (44, "eve", 2)]
    assert sql(f"SELECT * FROM {child} ORDER BY id") == [(1, 3), (2, None)]
    with pytest.raises(Exception, match="is not present in table"):
        write(spark.sql("SELECT 7 AS id, 4 AS account"), child.replace('"', ""), mode="append")
    write(spark.sql("SELECT 7 AS id, 44 AS account"), child.replace('"', ""), mode="append")
    sql(f"DROP TABLE {child}")


def test_overwrite_leaves_only_the_new_rows(spark, sql, write, accounts):
    write(frame_of(spark, (3, "eve", 1)), accounts, "overwrite")
    assert rows(sql, accounts) == [(3, "eve", 1)]


def test_an_empty_dataframe_is_a_load_too(spark, sql, write, accounts):
    write(spark.sql("SELECT 1 AS id, 'x' AS owner, 1 AS amount").where("false"), accounts, "overwrite")
    assert rows(sql, accounts) == []


def test_a_table_without_a_key_takes_rows_that_are_alike(spark, sql, write, new_name):
    table = new_name()
    sql(f"CREATE TABLE {table} (n INT)")
    write(spark.sql("SELECT 1 AS n FROM range(0, 100, 1, 2)"), table)
    assert sql(f"SELECT count(*), count(DISTINCT n) FROM {table}") == [(100, 1)]


def test_a_load_that_was_done_adds_nothing(spark, sql, write, accounts):
    write(frame_of(spark, (20, "eve", 1)), accounts, loadId="nightly-1")
    write(frame_of(spark, (21, "eve", 1), (22, "eve", 1)), accounts, loadId="nightly-1")
    assert [id for id, *_ in rows(sql, accounts)] == [*range(10), 20]


# What is refused.


def refused(write, frame, table, **options):
    with pytest.raises(Exception) as caught:
        write(frame, table, loadId="refused", **options)
    return str(caught.value)


def test_a_null_is_refused_by_its_task_with_its_row(spark, sql, write, accounts, cluster):
    text = refused(write, frame_of(spark, (10, "eve", 1), (11, "eve", None)), accounts)
    assert '(id = 11), column "amount": NULL in a column that is NOT NULL' in text
    assert len(rows(sql, accounts)) == 10
    assert staged_ledgers(cluster.bookkeeper_uri, "refused") == []


def test_a_key_that_is_there_is_refused_with_its_row(spark, sql, write, accounts, cluster):
    frame = spark.range(0, 2, 1, 2).selectExpr("if(id = 0, 10, 3) AS id", "'eve' AS owner", "1 AS amount")
    text = refused(write, frame, accounts)
    assert "duplicate key value violates unique constraint" in text
    assert "(id)=(3)" in text
    assert "row 2 of the load, row 1 of Spark's partition 1" in text
    assert len(rows(sql, accounts)) == 10
    assert staged_ledgers(cluster.bookkeeper_uri, "refused") == []


def test_a_row_that_breaks_a_check_is_refused(spark, sql, write, new_name):
    table = new_name()
    sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT CHECK (n > 0))")
    text = refused(write, spark.sql("SELECT * FROM VALUES (1, 5), (2, 0) AS v(id, n)").coalesce(1), table)
    assert "violates check constraint" in text
    assert "row 2 of the load" in text


@pytest.mark.parametrize(
    ("select", "says"),
    [
        ("SELECT 1 AS id, 2 AS amount, 3 AS colour", 'no column "colour"; it has id, owner, amount'),
        ("SELECT 1 AS id, 'x' AS owner", 'null value in column "amount"'),
        ("SELECT array(1) AS id, 2 AS amount", 'column "id": an Arrow column of type list'),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_any_task(spark, write, accounts, select, says):
    assert says in refused(write, spark.sql(select), accounts)


def test_a_table_that_is_not_there_is_refused(spark, write, new_name):
    assert "42P01" in refused(write, spark.sql("SELECT 1 AS id"), new_name("nothing"))


def test_options_that_contradict_each_other_are_refused(spark, write, accounts):
    with pytest.raises(Exception, match="the option mode is upsert, and the save mode overwrite"):
        write(frame_of(spark, (1, "x", 1)), accounts, "overwrite", mode="upsert")


# Tasks that fail.


def test_a_task_that_is_tried_again_adds_its_rows_once(spark, sql, write, new_name):
    table = new_name()
    sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY)")

    def fail_late(batches):
        """Every partition's first two attempts fail when they have staged some rows."""
        yield from batches
        if TaskContext.get().attemptNumber() < 2:
            raise RuntimeError("this attempt fails")

    frame = spark.range(0, 30_000, 1, 3)
    write(frame.mapInArrow(fail_late, frame.schema), table)
    assert sql(f"SELECT count(*), sum(id) FROM {table}") == [(30_000, sum(range(30_000)))]


def test_a_job_that_fails_leaves_nothing(spark, sql, write, new_name, cluster):
    table = new_name()
    sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY)")

    def fail_last(batches):
        yield from batches
        if TaskContext.get().partitionId() == 2:
            raise RuntimeError("this partition fails")

    frame = spark.range(0, 3_000, 1, 3)
    with pytest.raises(Exception, match="this partition fails"):
        write(frame.mapInArrow(fail_last, frame.schema), table, loadId="failed")
    assert sql(f"SELECT count(*) FROM {table}") == [(0,)]
    # Those of tasks that ended are gone; what a worker that was killed has left is for the sweep.
    assert len(staged_ledgers(cluster.bookkeeper_uri, "failed")) <= 4

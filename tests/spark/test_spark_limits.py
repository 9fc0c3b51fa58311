"""What Spark's API for sources in Python lacks, as docs/spark.md says it: each fails when Spark gets it.

And what is there instead: `where` and `columns`, measured by the rows and columns that come to Spark.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, EqualTo
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

import herdpy
from herdpy_spark.jobs.running import settings


class Digits(DataSource):
    """Ten rows; it takes the filter `digit = n`."""

    def schema(self) -> str:
        return "digit INT"

    def reader(self, schema: Any) -> DataSourceReader:
        return DigitsReader()


class DigitsReader(DataSourceReader):
    """Keeps what it was to filter by, as Spark's documentation has it."""

    def __init__(self) -> None:
        self.only: int | None = None

    def pushFilters(self, filters):
        for one in filters:
            if isinstance(one, EqualTo):
                self.only = one.value
            else:
                yield one

    def read(self, partition):
        return ((digit,) for digit in range(10) if self.only in (None, digit))


def test_a_filter_that_is_pushed_down_still_leaks_into_other_queries(spark):
    """If this fails, Spark was mended: `pushFilters` can be used (spark_jobs/DESIGN.md has why it is not)."""
    spark.dataSource.register(Digits)
    with settings(spark, spark__sql__python__filterPushdown__enabled="true"):
        digits = spark.read.format("Digits").load()
        assert digits.where("digit = 3").count() == 1
        assert digits.count() != 10
        assert spark.read.format("Digits").load().count() == 10


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


_PYTHON = "org.apache.spark.sql.execution.datasources.v2.python"
_SCANS = {
    "PythonScan": {"Scan", "SupportsMetadata"},  # not SupportsReportStatistics
    "PythonScanBuilder": {"SupportsPushDownFilters"},  # not SupportsPushDownRequiredColumns
    "PythonMicroBatchStreamWithAdmissionControl": {"SupportsAdmissionControl"},  # not ReportsSourceMetrics
}


def test_sources_in_python_still_have_no_pruning_statistics_or_metrics(spark):
    """If this fails, Spark has more to offer: see docs/spark.md, "Limits of Spark's API"."""
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for name, supported in _SCANS.items():
        interfaces = loader.loadClass(f"{_PYTHON}.{name}").getInterfaces()
        assert {one.getSimpleName() for one in interfaces} == supported
    assert public(DataSourceReader) == {"pushFilters", "partitions", "read"}
    stream = {"initialOffset", "latestOffset", "getDefaultReadLimit", "reportLatestOffset", "partitions"}
    assert public(DataSourceStreamReader) == stream | {"read", "commit", "stop"}
    assert public(SupportsTriggerAvailableNow) == {"prepareForTriggerAvailableNow"}


@pytest.fixture
def table(tmp_path):
    """Options of a table of 1,000 rows with a wide column."""
    url = f"herdpy://{tmp_path / 'db'}"
    with herdpy.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY, half INT, wide TEXT)")
        connection.execute("INSERT INTO t SELECT n, n / 2, repeat('x', 500) FROM generate_series(1, 1000) n")
    return {"url": url, "table": "t"}


def received(frame) -> int:
    """How many rows came from the source's processes of Python, by Spark's own metric."""
    execution = frame._jdf.queryExecution()
    execution.toRdd().count()
    plan = execution.executedPlan()
    while plan.children().nonEmpty():
        plan = plan.children().head()
    return plan.metrics().apply("numOutputRows").value()


def test_a_small_table_is_broadcast_when_that_is_said(spark, table):
    tables = spark.read.format("herdpy").options(**table)
    joined = tables.load().join(tables.option("columns", "id").load(), "id")
    said = tables.load().join(tables.load().hint("broadcast"), "id")
    first = [frame._jdf.queryExecution().sparkPlan().toString() for frame in (joined, said)]
    assert "SortMergeJoin" in first[0]
    assert "BroadcastHashJoin" in first[1]


def test_where_and_columns_choose_what_comes_to_spark(spark, table):
    whole = spark.read.format("herdpy").options(**table).load()
    assert received(whole.where("half < 10").select("id")) == 1000
    few = spark.read.format("herdpy").options(**table, where="half < 10", columns="id").load()
    assert received(few) == 19
    assert few.columns == ["id"]

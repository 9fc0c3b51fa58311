"""The session and the cluster that other tests of Spark build on."""

from __future__ import annotations

import pyspark
import pytest


def test_a_session_runs_python_in_its_tasks(spark):
    assert spark.range(10, numPartitions=2).rdd.map(lambda row: row.id + 1).sum() == 55


def test_its_processes_import_what_is_installed_and_compiled(spark):
    def found(_rows):
        yield pyspark.__file__

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(found).collect() == [pyspark.__file__]


def test_the_format_is_registered_and_says_what_is_missing(spark):
    with pytest.raises(Exception, match="the option url is missing"):
        spark.read.format("herdpy").load()


def test_the_cluster_answers(sql, new_name):
    table = new_name()
    sql(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
    sql(f"INSERT INTO {table} VALUES (1)")
    assert sql(f"SELECT id FROM {table}") == [(1,)]
    assert sql.position().entry_id >= 0

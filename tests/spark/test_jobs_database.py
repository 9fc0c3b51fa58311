"""What a job reads at one position is held while it reads, and no longer."""

from __future__ import annotations

from typing import cast
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from herdpy_spark.jobs.database import JobDatabase
from tests.support.server_process import RunningServer

PLANS = 16
"""As many plans of partitions a server holds at a time (``sections.py``)."""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The options that say where a server with a table t is."""
    running = RunningServer(tmp_path_factory.mktemp("pinned") / "data").ready()
    with running.connect(user="herdpy") as connection:
        connection.execute("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1), (2)")
    yield {
        "url": f"herdpy://127.0.0.1:{running.port}/data",
        "grpc": f"127.0.0.1:{running.grpc_port}",
    }
    running.close()


def test_a_server_holds_no_state_of_exports_that_are_over(base):
    spark = cast(SparkSession, Mock())
    for _ in range(PLANS + 1):
        with JobDatabase(base, "t").pinned(spark, {"table": "t"}, {}) as pinned:
            assert pinned.schema.names == ["id"]


def test_a_server_holds_no_state_of_exports_that_failed(base):
    spark = cast(SparkSession, Mock())
    for _ in range(PLANS + 1):
        with (
            pytest.raises(ZeroDivisionError),
            JobDatabase(base, "t").pinned(spark, {"table": "t"}, {}),
        ):
            raise ZeroDivisionError

"""One Spark session and one cluster for all tests here, which run in one process (`make test`, second part).

A test that asks for one of them, by any fixture, is marked `spark`; all others run side by side.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from herdpy.dev import LocalCluster
from tests.spark.cluster_sql import ClusterSql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARED = {"spark", "cluster"}
SETTINGS = {"storage.max_ledger_age_s": 10.0}  # several ledgers within a run

# Short runs spend more on compiling well than they gain by it: half of the time of the processor.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# What Spark says when one of its processes of Python did not begin within 10 s, which no setting changes.
SLOW = "Python worker failed to connect back"

_SESSION = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the session or the cluster, before `-m` looks."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and SHARED & set(getattr(item, "fixturenames", ())):
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two tasks at a time, each tried up to four times; its processes end with the run."""
    place = tmp_path_factory.mktemp("spark")
    os.environ |= {
        "SPARK_HOME": str(_spark_home(place)),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2,4]").appName("tests")
    for name, value in _SESSION.items():
        builder = builder.config(name, value)
    for name in ("warehouse", "local"):
        (place / name).mkdir()
    builder = builder.config("spark.sql.warehouse.dir", str(place / "warehouse"))
    session = builder.config("spark.local.dir", str(place / "local")).getOrCreate()
    import herdpy_spark

    herdpy_spark.register(session)
    gateway: Any = session.sparkContext._gateway
    yield session
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when nobody holds it
    gateway.proc.wait(60)


def _spark_home(place: Path) -> Path:
    """The Spark that is installed beside us, without its archives of modules of Python.

    Each process of Python that Spark starts looks into ``$SPARK_HOME/python/lib/pyspark.zip`` first. What is
    imported from an archive is compiled anew in each process: that takes 1.7 s of the processor, and on a
    busy machine more than the 10 s that Spark waits for it. Modules as they are installed are compiled
    already, and take 0.5 s.
    """
    import pyspark

    home, installed = place / "home", Path(pyspark.__file__).parent
    home.mkdir()
    for name in ("bin", "jars"):
        (home / name).symlink_to(installed / name)
    return home


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three servers and three bookies; each test leaves all of them running."""
    directory = tmp_path_factory.mktemp("cluster") / "c"
    with LocalCluster(directory, servers=3, bookies=3, server_settings=SETTINGS) as running:
        running.await_leader(timeout_s=60.0)
        yield running


@pytest.fixture(scope="session")
def sql(cluster: LocalCluster) -> Iterator[ClusterSql]:
    """``sql("SELECT ...", parameters)`` on the leader: the rows; see ``ClusterSql``."""
    with ClusterSql(cluster) as connected:
        yield connected


_NUMBERS = itertools.count(1)


@pytest.fixture
def new_name() -> Callable[[str], str]:
    """Names for tables that no other test has."""
    return lambda stem="t": f"{stem}_{next(_NUMBERS)}"

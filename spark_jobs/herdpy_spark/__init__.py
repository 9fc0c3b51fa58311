"""HerdPy for PySpark: tables as DataFrames, loads, and the change feed.

    spark.read.format("herdpy").option("url", "herdpy://host/shop").option("table", "orders").load()
    herdpy_spark.attach(spark, "herdpy://host/shop")  # all tables, by name

Spark finds the format where herdpydb[spark] is installed (``pyspark_herdpy``); elsewhere ``register`` has a
session know it.

The data source (``source``) delegates: reads of tables are ``batch``, loads ``writing``, the stream of
changes ``feed``; ``views`` has a schema's tables by name. They stand on ``log``, which reads snapshots and
ledgers and knows nothing of Spark. Nothing here is part of a server.
"""

from __future__ import annotations

import os
import site
import sys
from typing import TYPE_CHECKING, Any

from herdpy_spark.views import attach

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["attach", "register"]


def register(spark: SparkSession) -> None:
    """Make the format "herdpy" known to a session, and the session to this thread, where they are not.

    A session finds the format by itself where these packages are installed for Spark's own Python, and not
    where they came by ``--py-files``. Spark looks for it in the session that is active in the calling thread,
    which only the thread that made the session has: so a thread that writes calls this first. What is known
    stays as it is. Executors need herdpydb[spark] installed, or its wheel.
    """
    from pyspark.sql.utils import is_remote

    from herdpy_spark.source import HerdPyDataSource

    if not is_remote():
        _pass_path(spark.sparkContext.environment)
        _activate(spark)
        if _is_known(spark, HerdPyDataSource.name()):
            return
    spark.dataSource.register(HerdPyDataSource)


def _activate(spark: SparkSession) -> None:
    """Make the session the active one of this thread, if it has none."""
    if type(spark).getActiveSession() is None:
        spark.createDataFrame([], "nothing INT")  # the one call of PySpark that activates its session


def _is_known(spark: SparkSession, name: str) -> bool:
    """Whether a format is: Spark warns when one is registered again."""
    formats: Any = spark._jsparkSession.sessionState().dataSourceManager()
    return bool(formats.dataSourceExists(name))


def _pass_path(environment: dict[str, str]) -> None:
    """Have Spark's Python processes find these packages where they were found here.

    Tasks get the files of ``--py-files``; the processes that plan a stream do not. Packages
    that are installed need nothing.
    """
    installed = {*site.getsitepackages(), site.getusersitepackages()}
    roots = (entry for entry in sys.path if entry not in installed and _holds_packages(entry))
    paths = dict.fromkeys([*roots, *environment.get("PYTHONPATH", "").split(os.pathsep)])
    paths.pop("", None)
    if paths:
        environment["PYTHONPATH"] = os.pathsep.join(paths)


def _holds_packages(entry: str) -> bool:
    import herdpy
    import herdpy_sql

    found = (herdpy.__file__, herdpy_sql.__file__, __file__)
    return any(file.startswith(os.path.join(entry, "herdpy")) for file in found if file and entry)

"""The Spark session of a job: the one that is there, or one that is made for it and stopped after it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from herdpy_spark.jobs.errors import JobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_EXTENSIONS = "spark.sql.extensions"
_CATALOG = "spark.sql.catalog.spark_catalog"


def open_session(arguments: argparse.Namespace, name: str) -> tuple[SparkSession, bool]:
    """The session, with the data source registered; and whether it was made here.

    Raises:
        JobError: PySpark is not installed; Delta cannot be fetched.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise JobError(f"PySpark is needed: {error}", hint='pip install "herdpy[spark]"') from None
    import herdpy_spark

    there = SparkSession.getActiveSession()
    if there is not None:
        herdpy_spark.register(there)
        return there, False
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"herdpy {name}")
    # Jobs compare times with those of the database and of other runs: one zone for all.
    settings = {"spark.sql.session.timeZone": "UTC"}
    jars = list(arguments.jars)
    if arguments.with_delta:
        jars += delta_jars()
        settings |= {_EXTENSIONS: DELTA_EXTENSION, _CATALOG: DELTA_CATALOG}
    if jars:
        settings["spark.jars"] = ",".join(jars)
    settings |= dict(arguments.conf)
    if arguments.master:
        builder = builder.master(arguments.master)
    elif "MASTER" not in os.environ and "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master("local[*]")  # not below spark-submit, which has chosen one
    for key, value in settings.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    herdpy_spark.register(made)
    return made, True


def delta_jars() -> list[str]:
    """Delta Lake's jars, from the cache or fetched with Maven; JobError where that cannot be."""
    from herdpy.testing.errors import MissingSoftwareError
    from herdpy.testing.java import delta_jars as fetched

    try:
        return [str(path) for path in sorted(fetched().glob("*.jar"))]
    except MissingSoftwareError as error:
        raise JobError(
            f"Delta Lake is not here: {error}",
            hint="Give its jars with --jars, or with spark-submit --packages.",
        ) from None


def has_delta(spark: SparkSession) -> bool:
    """Whether the session reads and writes tables of Delta Lake."""
    return DELTA_EXTENSION in (spark.conf.get(_EXTENSIONS, "") or "")


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    """The session with these settings (dots are written as two underscores), and as it was after it."""
    named = {name.replace("__", "."): value for name, value in values.items()}
    before = {name: spark.conf.get(name, None) for name in named}
    try:
        for name, value in named.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)

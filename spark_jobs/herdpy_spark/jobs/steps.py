"""What a job's work is called in Spark's UI: "herdpy export of orders: write the files".

The name of the job is a local property of Spark, which every task can read; a step's name is the description
of the jobs, and of the queries of SQL, that this thread starts meanwhile. Spark has no other place for names
of work on a source in Python: it gives each scan the name of the source, and no metrics but its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from herdpy_spark.lines import PROPERTY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = "herdpy.job"
_DESCRIPTION = "spark.job.description"


def begin_job(spark: SparkSession, name: str) -> None:
    """Name what this thread does from now on, up to ``end_job``."""
    context = spark.sparkContext
    context.setLocalProperty(JOB, name)
    context.setJobDescription(name)


def end_job(spark: SparkSession) -> None:
    """Take the name away, for whatever this thread does next with a session that others have too."""
    context = spark.sparkContext
    for name in (JOB, _DESCRIPTION, PROPERTY):
        context.setLocalProperty(name, None)  # type: ignore[arg-type]  # which removes it


@contextmanager
def step(spark: SparkSession, text: str) -> Iterator[None]:
    """Name a part of the job, such as "write the files"."""
    context = spark.sparkContext
    job, before = context.getLocalProperty(JOB), context.getLocalProperty(_DESCRIPTION)
    context.setJobDescription(f"{job}: {text}" if job else text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # None removes it

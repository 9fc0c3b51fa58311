"""A Delta table that follows a table of the database: every batch of its changes is one commit."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from herdpy_spark.jobs.exporting import changeset, places
from herdpy_spark.jobs.exporting.to_delta import merge
from herdpy_spark.jobs.session import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_APPLICATION = "spark__databricks__delta__write__txnAppId"
_VERSION = "spark__databricks__delta__write__txnVersion"


class Copy:
    """The Delta table.

    Args:
        to: its directory or URL; it is made with the first batch.
        key: columns of the primary key.
    """

    def __init__(self, to: str, key: tuple[str, ...]) -> None:
        self._to = to
        self._key = key

    def apply(self, batch: DataFrame, number: int) -> None:
        """Apply the batch with this number, once: Delta passes over a number that it has seen of this stream.

        A table that begins anew (its checkpoint was removed) would begin with number 0 again, so the stream's
        own identity is part of the name under which numbers are told.
        """
        from pyspark.sql.types import StructType

        spark = batch.sparkSession
        at = places.place(self._to, spark)
        table = at.join("").rstrip("/")
        after = batch.schema["after"].dataType
        assert isinstance(after, StructType)
        if not at.names("_delta_log"):
            spark.createDataFrame([], after).write.format("delta").save(table)
        batch.persist()
        try:
            changes = changeset.net(batch, after, self._key)
            if not changes.events and not changes.voided:
                return
            stream = spark.sparkContext.getLocalProperty("sql.streaming.queryId") or str(uuid.uuid4())
            with settings(spark, **{_APPLICATION: f"herdpy-changes-{stream}", _VERSION: str(number)}):
                merge(spark, table, changes, self._key)
        finally:
            batch.unpersist()

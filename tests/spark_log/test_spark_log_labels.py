"""An ENUM's labels in what is read from the log: rows and changes, also of labels that came later."""

from __future__ import annotations

import herdpy
from herdpy_spark import access
from herdpy_spark.batch import table_schema
from herdpy_spark.feed.driver import FeedDriver, newest_table
from herdpy_spark.feed.spark_columns import SPARK
from herdpy_spark.feed.table import FeedShape
from herdpy_spark.feed.tasks import read_task
from herdpy_spark.log import LogAddress, plan_table, read_partition
from herdpy_spark.types import to_spark
from herdpy_sql.definitions import decode_table


def test_labels_are_read_as_text_whenever_they_came(tmp_path):
    path = tmp_path / "db"
    with herdpy.connect(str(path), autocommit=True) as connection:
        for sql in (
            "CREATE TYPE mood AS ENUM ('new', 'old')",
            "CREATE TABLE t (id int PRIMARY KEY, m mood, ms mood[])",
            "INSERT INTO t VALUES (1, 'old', '{new,NULL,old}'), (2, NULL, NULL)",
            "ALTER TYPE mood ADD VALUE 'between' BEFORE 'old'",
            "INSERT INTO t VALUES (3, 'between', '{between}')",
            "ALTER TYPE mood RENAME VALUE 'new' TO 'fresh'",
            "INSERT INTO t VALUES (4, 'fresh', '{}')",
        ):
            connection.execute(sql)
    address = LogAddress.of_database(path)
    plan = plan_table(address, "t")
    table = decode_table(plan.definition)
    schema = table_schema(table, ["id", "m", "ms"])
    assert [field.dataType.simpleString() for field in schema] == ["int", "string", "array<string>"]
    types = [table.columns[at].type for at in table.visible]
    rows = [to_spark(batch, schema, types).to_pylist() for batch in read_partition(plan, 0)]
    assert [tuple(row.values()) for batch in rows for row in batch] == [
        (1, "old", ["fresh", None, "old"]),
        (2, None, None),
        (3, "between", ["between"]),
        (4, "fresh", []),
    ]
    database = access.SparkDatabase(None, str(path), address)
    shape = FeedShape.of(newest_table(database, "t"), SPARK)
    driver = FeedDriver(database, "t", shape)
    start = driver.first("earliest")
    tasks = driver.tasks(start, driver.next(start, None))
    changes = [row for task in tasks for batch in read_task(task, shape) for row in batch.to_pylist()]
    told = [row["after"] and row["after"]["m"] for row in changes if row["op"] == "insert"]
    assert told == ["old", None, "between", "fresh"]

"""The feed of an embedded database's log, replayed into nothing, is the table after every commit."""

from __future__ import annotations

import pytest

from herdpy.log import START
from herdpy.log.records import CreateTable
from herdpy_spark.feed.changes import ChangeReader
from herdpy_spark.feed.table import FeedShape, FollowedTable
from herdpy_spark.log import LogAddress, bounds, entries
from herdpy_sql.definitions import decode_table
from tests.spark_feed.feed_workload import TABLES, work
from tests.support.feed_replay import Replica


def none_staged(record, part):
    raise AssertionError(f"a log in files has no staged rows: {record}, {part}")


def first_definition(address):
    for entry in entries(address, START):
        for transaction in entry.transactions():
            for record in transaction.records:
                if isinstance(record, CreateTable) and decode_table(record.definition).name == "t":
                    return decode_table(record.definition)
    raise AssertionError("there is no table t")


@pytest.mark.parametrize("create", TABLES.values(), ids=list(TABLES))
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 20))])
def test_a_replayed_feed_is_the_table_after_every_commit(tmp_path, create, seed):
    states = work(tmp_path / "db", create, seed, 45)
    assert len(states) > 20
    address = LogAddress.of_database(tmp_path / "db")
    assert bounds(address).base == START
    shape = FeedShape.of(first_definition(address))
    reader = ChangeReader(FollowedTable("t", None), shape, none_staged)
    replica, seen = Replica(), [None]
    before = None
    for _table, batch in reader.changes(entries(address, START)):
        batch.validate(full=True)
        assert batch.schema == shape.schema
        for change in batch.to_pylist():
            if change["transaction_id"] != before and replica.values() != seen[-1]:
                seen.append(replica.values())
            before = change["transaction_id"]
            replica.apply(change)
    if replica.values() != seen[-1]:
        seen.append(replica.values())
    assert seen == states

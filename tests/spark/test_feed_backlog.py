"""What a stream reports of its backlog: how many entries of the log are after its newest batch."""

from __future__ import annotations

from itertools import pairwise

from pyspark.sql.streaming.datasource import ReadAllAvailable

import herdpy
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from herdpy.log.lsn import LSN, START
from herdpy_spark.feed.driver import entries_between
from herdpy_spark.feed.reader import FeedReader, feed_schema
from herdpy_spark.options import Options


def test_entries_between_positions_are_those_of_all_ledgers_there():
    closed = [LedgerInfo(1, 0, True, 9), LedgerInfo(2, 0, True, -1), LedgerInfo(3, 0, True, 4)]
    state = LedgerListState(1, "log", ledgers=(*closed, LedgerInfo(5, 0)))
    assert entries_between(state, START, LSN(5, 1)) == 10 + 0 + 5 + 2
    assert entries_between(state, LSN(1, 7), LSN(3, 0)) == 2 + 1
    assert entries_between(state, LSN(5, 1), LSN(5, 1)) == 0
    assert entries_between(state, LSN(3, 4), LSN(5, 8)) == 9


def test_a_stream_reports_the_entries_behind_its_batch(tmp_path):
    url = f"herdpy://{tmp_path / 'db'}"
    with herdpy.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        for number in range(6):
            connection.execute("INSERT INTO t VALUES (%s)", (number,))
    given = {"url": url, "table": "t", "startingOffsets": "earliest", "maxEntriesPerTrigger": "2"}
    options = Options.parse(given, "stream")
    reader = FeedReader(options, feed_schema(options))
    assert reader.reportLatestOffset() is None
    at = reader.initialOffset()
    behind = []
    while (following := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        at = following
        behind.append(reader.reportLatestOffset()["entriesBehind"])
    assert behind == sorted(behind, reverse=True)
    assert behind[0] >= 4
    assert behind[-1] == 0
    assert {before - after for before, after in pairwise(behind)} <= {1, 2}
    reader.latestOffset(at, ReadAllAvailable())
    assert reader.reportLatestOffset()["entriesBehind"] == 0

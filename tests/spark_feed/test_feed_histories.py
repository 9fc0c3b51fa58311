"""Random histories of tables that share a name: a fold of the feed by key is the table, at every position.

What the table was is known twice: by SELECT after each commit, and by reading the log at its position.
"""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

import herdpy
from herdpy.log.lsn import LSN
from herdpy_spark.access import SparkDatabase
from herdpy_spark.feed import changes as feed_changes
from herdpy_spark.feed.driver import FeedDriver, newest_table
from herdpy_spark.feed.table import FeedShape
from herdpy_spark.log import LogAddress
from tests.support.feed_histories import SETUP, Histories, at_position, fold, followed, held, values

NAMED = ["t", "app.t"]


def work(path, seed, transactions):
    """Do it; the positions of commits, and what the tables held at each."""
    histories, states = Histories(seed), {}
    with herdpy.connect(str(path), autocommit=True) as connection, connection.cursor() as cursor:
        for statement in SETUP:
            cursor.execute(statement)
        cursor.execute(
            "CREATE TEMP TABLE t (id INT, part TEXT, v TEXT, n NUMERIC(9,2), PRIMARY KEY (id, part))"
        )
        for _ in range(transactions):
            cursor.execute("BEGIN")
            try:
                for statement in histories.transaction():
                    cursor.execute(statement)
                cursor.execute("COMMIT")
            except (herdpy.IntegrityError, herdpy.NotSupportedError):
                cursor.execute("ROLLBACK")
                continue
            ((text,),) = cursor.execute("SELECT herdpy.commit_position()").fetchall()
            states[LSN.parse(text)] = held(cursor)
    return states


def judged(path, states, seed):
    """How many states the folds were compared with; AssertionError where one differs."""
    address, random_ = LogAddress.of_database(path), random.Random(seed)
    database = SparkDatabase(None, str(path), address)
    compared = 0
    for number, name in enumerate(NAMED):
        shape = FeedShape.of(newest_table(database, name))
        rows, left = {}, sorted(states)
        for end, changes in followed(FeedDriver(database, name, shape), shape, max(states), random_):
            done = 0
            while left and left[0] <= end:
                lsn = left.pop(0)
                reached = [one for one in changes if LSN.parse(one["lsn"]) <= lsn]
                fold(rows, reached[done:])
                done = len(reached)
                assert values(rows) == states[lsn][number], f"{name} at {lsn}"
                compared += 1
                if random_.random() < 0.1:
                    assert at_position(address, name, lsn) == states[lsn][number], f"{name} at {lsn}"
            fold(rows, changes[done:])
    return compared


SEEDS = [1, 2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 40))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fold_by_key_is_the_table_at_every_position(tmp_path, seed):
    states = work(tmp_path / "db", seed, 120)
    assert len(states) > 60
    assert judged(tmp_path / "db", states, seed) == 2 * len(states)


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    path = tmp_path_factory.mktemp("histories") / "db"
    return path, work(path, 5, 60)


def keyed_by_the_new_key(self, record, position):
    """A feed that has a moved row as one update under its new key."""
    if isinstance(record, feed_changes.Update):
        self._block.row(feed_changes.UPDATE, position, record.key, record.row)
    else:
        ROW(self, record, position)


def keyed_by_the_old_key(self, record, position):
    if isinstance(record, feed_changes.Update):
        self._block.row(feed_changes.UPDATE, position, record.old_key or record.key, record.row)
    else:
        ROW(self, record, position)


ROW = feed_changes.ChangeReader._row


@pytest.mark.parametrize("seeded", [keyed_by_the_new_key, keyed_by_the_old_key])
def test_a_feed_with_one_key_of_a_moved_row_is_found_out(worked, monkeypatch, seeded):
    path, states = worked
    judged(path, states, 5)
    monkeypatch.setattr(feed_changes.ChangeReader, "_row", seeded)
    with pytest.raises((AssertionError, KeyError)):
        judged(path, states, 5)


def test_rows_that_come_with_a_renamed_table_are_in_the_feed(tmp_path):
    with herdpy.connect(str(tmp_path), autocommit=True) as connection:
        for statement in (
            "CREATE TABLE t (id INT PRIMARY KEY, n NUMERIC(9,2))",
            "INSERT INTO t VALUES (1, 1)",
            "CREATE TABLE other (id INT PRIMARY KEY, n NUMERIC(9,2))",
            "INSERT INTO other VALUES (2, 2), (3, 3)",
            "BEGIN",
            "ALTER TABLE t RENAME TO was",
            "ALTER TABLE other RENAME TO t",
            "UPDATE t SET id = 4 WHERE id = 3",
            "COMMIT",
            "DELETE FROM t WHERE id = 2",
        ):
            connection.execute(statement)
        ((end,),) = connection.execute("SELECT herdpy.commit_position()").fetchall()
    database = SparkDatabase(None, str(tmp_path), LogAddress.of_database(tmp_path))
    shape = FeedShape.of(newest_table(database, "t"))
    rows, ops = {}, []
    for _, changes in followed(FeedDriver(database, "t", shape), shape, LSN.parse(end), random.Random(1)):
        fold(rows, changes)
        ops.append([change["op"] for change in changes])
    assert rows == {(4,): {"id": 4, "n": Decimal(3)}}
    assert ["truncate", "insert", "insert"] in ops

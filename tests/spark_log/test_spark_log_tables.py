"""A table read from its log is what it was: at every LSN, in any partitions, with and without snapshots."""

import pickle
import random
from functools import partial

import pytest

import herdpy_server.tablespace_host
from herdpy.log import LogSettings
from herdpy.log.published import SnapshotWriter, newest, tables
from herdpy_spark.log import (
    LogAddress,
    NoSuchTableError,
    end,
    partition,
    plan_table,
    plan_tables,
    position_at,
    read_partition,
)
from herdpy_spark.log.history import shape_of
from tests.spark_log.workload import Workload, plain


def rows_of(plan, columns=None):
    found = []
    for number in range(len(plan.ranges)):
        for batch in read_partition(plan, number, columns):
            assert batch.num_rows
            found += plain(batch)
    return sorted(found, key=repr)


@pytest.fixture(scope="module", params=range(3))
def worked(tmp_path_factory, request):
    """A database after many statements, the snapshots that were published meanwhile, and a random source.

    Entries, row groups and files are so small that everything is in several.
    """
    seed = request.param
    directory = tmp_path_factory.mktemp("worked")
    url = str(directory / "published")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            herdpy_server.tablespace_host, "LogSettings", partial(LogSettings, max_entry_bytes=1500)
        )
        patch.setattr(tables, "MAX_ROW_GROUP", 5)
        patch.setattr(SnapshotWriter.__init__, "__kwdefaults__", {"file_bytes": 1500})
        work = Workload(directory / "db", seed, url)
        for _ in range(5):
            work.run(10)
            if seed:  # the first one has no snapshot at all
                work.publish()
        work.run(5)
        work.close()
    partition._kept.clear()
    return work, LogAddress.of_database(directory / "db", snapshot_url=url), random.Random(seed)


def test_a_table_is_what_it_was_at_every_lsn(worked):
    work, address, random_ = worked
    assert end(address) == work.lsns[-1]
    seen_in_parts = 0
    for lsn in work.lsns:
        for name, expected in work.held[lsn].items():
            if expected is None:
                with pytest.raises(NoSuchTableError, match=name):
                    plan_table(address, name, lsn)
                continue
            plan = pickle.loads(pickle.dumps(plan_table(address, name, lsn, random_.choice([1, 2, 7]))))
            assert rows_of(plan) == expected, (lsn, name, plan)
            seen_in_parts += len(plan.ranges) > 1 and len(plan.files) > 1 and bool(plan.spans)
    assert seen_in_parts or not address.snapshot_url or newest(address.snapshot_url, "herdpy") is None


def test_columns_ranges_and_partitions_are_parts_of_the_whole(worked, monkeypatch):
    work, address, random_ = worked
    for lsn in random_.sample(work.lsns, 8):
        for name, expected in work.held[lsn].items():
            if expected is None:
                continue
            if random_.random() < 0.5:
                monkeypatch.setattr(partition, "KEPT_BYTES", 100)  # too little to keep what is not asked for
            whole = plan_table(address, name, lsn, 4)
            edges = [one for pair in whole.ranges for one in pair]
            assert (edges[0], edges[-1], edges[1:-1:2]) == (None, None, edges[2:-1:2])
            assert rows_of(whole) == expected
            columns = shape_of(whole.definition).visible
            some = random_.sample(columns, random_.randrange(1, len(columns) + 1))
            projected = sorted(({one: row[one] for one in some} for row in expected), key=repr)
            assert rows_of(whole, some) == projected
            if name == "u":
                continue  # its key is not for users
            first = {"t": "id", "v": "k"}[name]
            low, high = sorted([random_.randrange(70), random_.randrange(70)])
            if name == "v":
                low, high = "a", "c"
            between = [row for row in expected if low <= row[first] < high]
            assert rows_of(plan_table(address, name, lsn, 3, low=[low], high=[high])) == between
            monkeypatch.undo()


def test_tables_of_one_plan_are_of_one_lsn_and_a_time_is_an_lsn(worked):
    work, address, random_ = worked
    names = [name for name, rows in work.held[work.lsns[-1]].items() if rows is not None]
    plans = plan_tables(address, names)
    assert {plan.upto for plan in plans} == {work.lsns[-1]}
    for lsn in random_.sample(work.lsns, 5):
        time_us = work.times[lsn]
        assert position_at(address, time_us) == lsn
        for name, expected in work.held[lsn].items():
            if expected is not None:
                assert rows_of(plan_table(address, name, time_us)) == expected

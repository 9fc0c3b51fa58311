"""A table read from its log is what it was: at every LSN, in any partitions, with and without snapshots."""

import pickle
import random
from functools import partial

import pytest

import herdpy_server.engine
from herdpy.log import LogSettings
from herdpy_spark.log import LogAddress, NoSuchTableError, plan_table, read_partition
from tests.spark_log.workload import Workload, plain


def rows_of(plan, columns=None):
    found = []
    for number in range(len(plan.ranges)):
        for batch in read_partition(plan, number, columns):
            assert batch.num_rows
            found += plain(batch)
    return sorted(found, key=repr)


@pytest.mark.parametrize("seed", range(4))
def test_a_table_is_what_it_was_at_every_lsn(tmp_path, seed, monkeypatch):
    monkeypatch.setattr(herdpy_server.engine, "LogSettings", partial(LogSettings, max_entry_bytes=3000))
    random_ = random.Random(seed)
    url = str(tmp_path / "published")
    work = Workload(tmp_path / "db", seed, url)
    for _ in range(6):
        work.run(8)
        if seed:  # the first one has no snapshot at all
            work.publish()
    work.close()
    address = LogAddress.of_database(tmp_path / "db", snapshot_url=url)
    for lsn in work.lsns:
        for name, expected in work.held[lsn].items():
            partitions = random_.choice([1, 2, 5])
            if expected is None:
                with pytest.raises(NoSuchTableError, match=name):
                    plan_table(address, name, lsn, partitions)
                continue
            plan = pickle.loads(pickle.dumps(plan_table(address, name, lsn, partitions)))
            assert rows_of(plan) == expected, (lsn, name, plan)

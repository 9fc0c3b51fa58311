"""Servers and bookies killed in the middle of exports, while clients move money between accounts.

What a lost snapshot, or a trimmed log, does to an export is shown without a cluster in tests/spark_log.
"""

from __future__ import annotations

import itertools
import random

import pytest

from herdpy_spark.access import AccessError
from tests.spark.reading import read

pytestmark = pytest.mark.timeout(600)
ACCOUNTS, EACH = 400, 100


@pytest.fixture
def bank(sql, new_name):
    """A table of accounts; ``bank.move()`` makes some transfers, each a statement of its own."""
    table = new_name("bank")
    sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, balance INT)")
    sql(f"INSERT INTO {table} SELECT g, {EACH} FROM generate_series(1, {ACCOUNTS}) AS s (g)")
    dice = random.Random(table)

    class Bank:
        name = table

        def move(self):
            for _ in range(10):
                payer, payee = dice.sample(range(1, ACCOUNTS + 1), 2)
                sql(
                    f"UPDATE {table} SET balance = balance + CASE id WHEN {payer} THEN -7 ELSE 7 END"
                    f" WHERE id IN ({payer}, {payee})"
                )

        def now(self):
            return sorted(sql(f"SELECT id, balance FROM {table}"))

    return Bank()


def parts(found):
    """The partitions that are left to be read, one by one."""
    return (found.partition(number) for number in range(len(found.partitions)))


def test_exports_go_on_when_the_leader_is_killed(cluster, bank):
    bank.move()
    before = bank.now()
    exports = {
        source: parts(read(cluster.url, table=bank.name, source=source, numPartitions=4))
        for source in ("replica", "log")
    }
    rows = {source: next(export) for source, export in exports.items()}
    leader = cluster.await_leader()
    cluster.kill(leader)
    try:
        bank.move()  # by whoever leads then
        for source, export in exports.items():
            rows[source] += itertools.chain.from_iterable(export)
    finally:
        cluster.start(leader)
    assert {source: sorted(found) for source, found in rows.items()} == dict.fromkeys(exports, before)
    assert sum(balance for _id, balance in bank.now()) == ACCOUNTS * EACH


def test_an_export_whose_server_is_killed_says_so_and_can_be_made_again(cluster, bank):
    found = read(cluster.url, table=bank.name, numPartitions=4)
    assert len(found.partition(0)) > 0
    port = found.reader._rows.place.port
    (server,) = (one.id for one in cluster.status().servers if one.grpc_port == port)
    cluster.kill(server)
    try:
        bank.move()
        with pytest.raises(AccessError):
            found.partition(1)
        again = read(cluster.url, table=bank.name, numPartitions=4)
        assert sorted(again.rows()) == bank.now()
    finally:
        cluster.start(server)


def test_an_export_from_the_log_passes_over_a_bookie_that_is_killed(cluster, bank):
    bank.move()
    before = bank.now()
    export = parts(read(cluster.url, table=bank.name, source="log", numPartitions=4))
    rows = next(export)
    cluster.kill("bookie-3")
    try:
        bank.move()
        rows += itertools.chain.from_iterable(export)
    finally:
        cluster.start("bookie-3")
    assert sorted(rows) == before

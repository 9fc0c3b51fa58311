"""TPC-C on a cluster whose leaders are killed: the conditions hold, and no acknowledged order is lost."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import herdpy
from bench.tpcc.conditions import broken
from bench.tpcc.population import load
from bench.tpcc.scale import SMALL
from bench.tpcc.terminals import started
from herdpy.dev import LocalCluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

KILLS, TERMINALS, ENOUGH, SEED = 5, 4, 30, 11


def test_leader_kills_break_no_condition(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    with LocalCluster(tmp_path / "c", servers=3, bookies=3) as cluster:

        def connect() -> Any:
            return herdpy.connect(cluster.url)

        cluster.await_leader()
        loader = connect()
        load(loader, SMALL, SEED)
        loader.close()
        stop = threading.Event()
        terminals = started(connect, SMALL, TERMINALS, SEED, stop, (herdpy.OperationalError,))
        for _ in range(KILLS):
            goal = sum(len(one.profiles.ordered) for one in terminals) + ENOUGH
            while sum(len(one.profiles.ordered) for one in terminals) < goal:
                assert not any(one.error for one in terminals), [one.error for one in terminals]
                stop.wait(0.05)
            leader = cluster.await_leader()
            cluster.kill(leader)
            cluster.await_leader()
            cluster.start(leader)
        stop.set()
        acknowledged = set()
        for one in terminals:
            one.join(120)
            assert one.error is None, one.error
            acknowledged.update(one.profiles.ordered)
        connection = connect()
        assert broken(connection) == {}
        cursor = connection.cursor()
        cursor.execute("SELECT o_w_id, o_d_id, o_id FROM orders")
        found = {tuple(row) for row in cursor.fetchall()}
        connection.close()
        assert acknowledged - found == set()

"""The steps of a server's start, as its log has them and the benchmark of cold starts reads them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module")
def cold():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(BENCH), *sys.path])
        yield importlib.import_module("cluster_cold")


def test_the_log_of_a_server_that_leads_has_every_step_in_order(cluster, cold):
    log = cluster.log_path(cluster.await_leader()).read_text()
    steps_s = cold.steps_s(log, 0.0)
    assert list(cold.STEPS) == sorted(steps_s, key=lambda step: (steps_s[step], list(cold.STEPS).index(step)))


def test_a_step_counts_when_it_is_reached_first(cold):
    log = """2026-01-02T03:04:05.500Z INFO    herdpy.server: starting version=1 pid=1
2026-01-02T03:04:06.000Z INFO    herdpy.replica: leads tablespace=herdpy epoch=3 end=2:0
2026-01-02T03:04:09.000Z INFO    herdpy.replica: leads tablespace=herdpy epoch=5 end=4:0
a line that is none
"""
    began_s = 1767323045.0
    assert cold.steps_s(log, began_s) == {"modules loaded": 0.5, "leads": 1.0}

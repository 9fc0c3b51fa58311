"""The cluster that faults happen to: one for each process of a test run, healed behind every test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from herdpy.testing import BookKeeperCluster, Network, NetworkUnavailableError
from tests.bookkeeper.faults.world import CUTS, World


@pytest.fixture(scope="package")
def faulty_cluster() -> Iterator[World]:
    """Four bookies, in namespaces of their own where there can be some."""
    with ExitStack() as stack:
        network, cannot_cut = None, None
        try:
            network = stack.enter_context(Network())
        except NetworkUnavailableError as error:
            cannot_cut = str(error)
        cluster = stack.enter_context(BookKeeperCluster(4, network=network))
        yield World(cluster, cannot_cut)


@pytest.fixture
def world(faulty_cluster: World, request: pytest.FixtureRequest) -> Iterator[World]:
    """The cluster, whole again after the test; skips a test whose fault cannot be done here."""
    wanted = getattr(request.node, "callspec", None)
    if faulty_cluster.cannot_cut and wanted and set(CUTS) & set(map(str, wanted.params.values())):
        pytest.skip(faulty_cluster.cannot_cut)
    yield faulty_cluster
    faulty_cluster.heal()

"""pytest fixtures: put ``pytest_plugins = ["herdpy.testing.pytest_plugin"]`` into the conftest.py at the root
of tests.

`bookkeeper_cluster` is one cluster for the whole run, also with several pytest-xdist workers: for tests that
create ledgers and harm nobody. `own_cluster` starts clusters for one test, which may do with them what it
likes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from herdpy.testing.cluster import UNSYNCED, BookKeeperCluster, ClusterView
from herdpy.testing.errors import NetworkUnavailableError
from herdpy.testing.network import Network
from herdpy.testing.shared import shared_cluster
from herdpy.testing.zookeeper import ZooKeeperServer


@pytest.fixture(scope="session")
def bookkeeper_cluster() -> Iterator[ClusterView]:
    """The run's cluster of three bookies: ``bookkeeper_cluster.uri``, ``.bookie_ids``, ``.shell(...)``."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    with shared_cluster(run) as view:
        yield view


@pytest.fixture
def own_cluster() -> Iterator[Callable[..., BookKeeperCluster]]:
    """Starts a BookKeeperCluster with the arguments it is given, its journals unsynced unless they say
    otherwise; all are stopped after the test.
    """
    with ExitStack() as clusters:

        def start(*arguments: Any, **options: Any) -> BookKeeperCluster:
            options["configuration"] = {**UNSYNCED, **(options.get("configuration") or {})}
            return clusters.enter_context(BookKeeperCluster(*arguments, **options))

        yield start


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """A ZooKeeper server for one test."""
    with ZooKeeperServer(tmp_path / "zookeeper") as server:
        yield server


@pytest.fixture
def network() -> Iterator[Network]:
    """A network of namespaces, to be handed to `own_cluster`; tests are skipped where there can be none."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(Network())
        except NetworkUnavailableError as error:
            pytest.skip(str(error))
        yield made

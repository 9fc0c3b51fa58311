"""One cluster for all tests of faults and drills: four bookies, auto recovery, a network, fault injector."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from herdpy.drill.control import ClusterNeeds, ClusterObserver
from herdpy.drill.control.local import LocalControl, local_cluster
from herdpy.drill.faults.ledgers import TINY_LEDGERS

NEEDS = ClusterNeeds(bookies=4, network=True, fault_injector=True, auto_recovery=True, settings=TINY_LEDGERS)


@pytest.fixture(scope="package")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControl]:
    """Each test leaves everything running, and nothing cut, full or slow."""
    with local_cluster(tmp_path_factory.mktemp("drills"), NEEDS) as made:
        yield made


@pytest.fixture(scope="package")
def view(control: LocalControl) -> ClusterObserver:
    return ClusterObserver(control)

"""One cluster for all tests of faults and drills: four bookies, auto recovery, a network, bad luck."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from herdpy.drill.faults.ledgers import TINY_LEDGERS
from herdpy.drill.hands import ClusterView, Needs
from herdpy.drill.hands.local import LocalHands, local_cluster

NEEDS = Needs(bookies=4, network=True, bad_luck=True, auto_recovery=True, settings=TINY_LEDGERS)


@pytest.fixture(scope="session")
def hands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHands]:
    """Each test leaves everything running, and nothing cut, full or slow."""
    with local_cluster(tmp_path_factory.mktemp("drills"), NEEDS) as made:
        yield made


@pytest.fixture(scope="session")
def view(hands: LocalHands) -> ClusterView:
    return ClusterView(hands)

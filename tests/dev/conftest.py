"""Local clusters that end with the tests that use them."""

import pytest

from herdpy.dev import LocalCluster
from tests.dev.dev_programs import processes_of


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster of three bookies and two servers for all tests of a file, which leave it running."""
    directory = tmp_path_factory.mktemp("dev") / "c"
    with LocalCluster(directory, servers=2, bookies=3) as running:
        yield running
    assert not processes_of(directory)


@pytest.fixture
def place(tmp_path):
    """A directory for a cluster of one's own; whatever is left of it is stopped."""
    directory = tmp_path / "c"
    yield directory
    if (directory / "cluster.json").exists():
        LocalCluster(directory).down()

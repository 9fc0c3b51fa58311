"""Every example of docs/dev-cluster.md runs, in order, on a cluster that the page itself starts and ends."""

from pathlib import Path

import pytest

from herdpy.dev import LocalCluster
from tests.dev.dev_programs import processes_of
from tests.docs.test_examples import run_page

PAGE = Path(__file__).parents[2] / "docs" / "dev-cluster.md"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory of the examples; what they leave running is stopped."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    if (tmp_path / "c").exists():
        LocalCluster(tmp_path / "c").down()


def test_examples_of_the_page(place):
    assert run_page(PAGE) == 5
    assert not (place / "c").exists()
    assert not processes_of(place / "c")

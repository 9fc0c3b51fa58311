"""What the driver's tests share: a fresh database in a temporary directory, and connections to it."""

from __future__ import annotations

import pytest

import herdpy


@pytest.fixture
def path(tmp_path):
    """A directory that does not exist yet."""
    return tmp_path / "db"


@pytest.fixture
def url(path):
    return f"herdpy://{path}"


@pytest.fixture
def conn(url):
    """A connection as PEP 249 has it: transactions begin by themselves."""
    connection = herdpy.connect(url)
    yield connection
    connection.close()


@pytest.fixture
def auto(url):
    """A connection with autocommit."""
    connection = herdpy.connect(url, autocommit=True)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One autocommit connection for the many examples of property tests."""
    connection = herdpy.connect(tmp_path_factory.mktemp("shared") / "db", autocommit=True)
    yield connection
    connection.close()

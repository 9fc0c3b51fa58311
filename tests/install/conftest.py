"""The wheels and environments that the tests of a run share, whichever process needs them first."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.install import environments
from tests.install.environments import Installed


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for all processes of the run."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "installed"


@pytest.fixture(scope="session")
def wheels(place: Path) -> Path:
    """The directory with the wheels and sdists, and constraints with the versions of uv.lock."""
    (found,) = environments.once(place / "dist", environments.build).glob("wheels-*")
    return found


def _environment(place: Path, wheels: Path, name: str, requirement: str) -> Installed:
    words = (requirement, "--constraints", wheels / "constraints.txt")
    return Installed(environments.once(place / name, lambda to: environments.install(to, wheels, *words)))


@pytest.fixture(scope="session")
def plain(place: Path, wheels: Path) -> Installed:
    """``pip install herdpydb``."""
    return _environment(place, wheels, "plain", "herdpydb")


@pytest.fixture(scope="session")
def server(place: Path, wheels: Path) -> Installed:
    """``pip install "herdpydb[server]"``."""
    return _environment(place, wheels, "server", "herdpydb[server]")


@pytest.fixture(scope="session")
def client(place: Path, wheels: Path) -> Installed:
    """``pip install herdpydb-client``."""
    return _environment(place, wheels, "client", "herdpydb-client")


@pytest.fixture(scope="session")
def dialects(place: Path, wheels: Path) -> Installed:
    """``pip install "herdpydb-client[sqlalchemy]"``."""
    return _environment(place, wheels, "dialects", "herdpydb-client[sqlalchemy]")


@pytest.fixture
def unused_tcp_port() -> Iterator[int]:
    """A port of this machine at which nothing listens, nor will as long as the test runs."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        yield nobody.getsockname()[1]

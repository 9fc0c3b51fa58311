"""A fresh database in a directory and on a server, for pools."""

from __future__ import annotations

import threading

import pytest

from herdpy.aio import worker
from tests.dbapi.conftest import emptied
from tests.support.server_process import RunningServer

_PATIENCE_S = 20.0


def pytest_generate_tests(metafunc):
    if "link" in metafunc.fixturenames:
        metafunc.parametrize("link", ["embedded", "server"], scope="module")


@pytest.fixture(scope="package")
def server(tmp_path_factory):
    running = RunningServer(tmp_path_factory.mktemp("server") / "data").ready()
    yield running
    running.close()


@pytest.fixture
def url(link, tmp_path, request):
    """The URL of a database without tables."""
    if link == "server":
        return emptied(request.getfixturevalue("server"))
    return f"herdpy://{tmp_path / 'db'}"


@pytest.fixture(autouse=True)
def _leaves_no_thread():
    yield
    worker.settle()
    left = [one for one in threading.enumerate() if one.name.startswith(("herdpy-aio", "herdpy-pool"))]
    for thread in left:  # that of a pool which was forgotten ends with its next look
        thread.join(_PATIENCE_S)
    assert [one.name for one in left if one.is_alive()] == []

"""A fresh database in a directory and on a server, for asynchronous connections."""

from __future__ import annotations

import threading

import pytest

from herdpy.aio import worker
from tests.aio.blocking import Loop, connect
from tests.dbapi.conftest import emptied
from tests.support.server_process import RunningServer

__all__ = ["server"]


WITHOUT_SERVER = ("tests.dbapi.test_driver_errors", "tests.dbapi.test_driver_parameters")
"""What these ask is below the asynchronous face, and asked of servers by the blocking driver's tests."""


def pytest_generate_tests(metafunc):
    if "link" in metafunc.fixturenames:
        only = metafunc.function.__module__ in WITHOUT_SERVER
        metafunc.parametrize("link", ["embedded"] if only else ["embedded", "server"], scope="module")


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


@pytest.fixture(scope="session")
def loop():
    """A loop in a thread, for the blocking driver's tests."""
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def conn(url, loop):
    """As the blocking driver's tests have it, but asynchronous underneath."""
    connection = connect(loop, url)
    yield connection
    connection.close()


@pytest.fixture
def auto(url, loop):
    """The same with autocommit."""
    connection = connect(loop, url, autocommit=True)
    yield connection
    connection.close()


@pytest.fixture(autouse=True)
def _leaves_no_thread():
    yield
    worker.settle()
    assert [
        one.name for one in threading.enumerate() if one.name.startswith(("herdpy-aio", "herdpy-pool"))
    ] == []

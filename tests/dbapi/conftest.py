"""What the driver's tests share: a fresh database, and connections to it, in a directory and on a server.

A test that takes ``url``, ``conn``, ``auto`` or ``shared`` runs on both links, unless it takes ``path`` too,
or stands in EMBEDDED_ONLY.
"""

from __future__ import annotations

import inspect

import pytest

import herdpy
from tests.support.server_process import RunningServer

EMBEDDED_ONLY = {
    "test_settings_of_the_database": "a server's are in its configuration",
    "test_ctrl_c_while_waiting_for_a_lock": "it looks into the session, which is in the server",
    "test_cancel_of_one_that_waits_for_a_lock": "as above; tests/remote/test_cancel.py has it for servers",
    "test_cancel_of_a_long_query": "as above",
}


def pytest_generate_tests(metafunc):
    if "link" not in metafunc.fixturenames:
        return
    only = "path" in inspect.signature(metafunc.function).parameters
    only = only or metafunc.function.__name__ in EMBEDDED_ONLY
    metafunc.parametrize("link", ["embedded"] if only else ["embedded", "server"], scope="module")


@pytest.fixture(scope="package")
def server(tmp_path_factory):
    """A server for all tests; what they leave is dropped before the next one."""
    running = RunningServer(tmp_path_factory.mktemp("server") / "data").ready()
    yield running
    running.close()


def emptied(server: RunningServer) -> str:
    """The URL of the server, which holds no tables."""
    url = f"herdpy://ann@127.0.0.1:{server.port}/test"
    with herdpy.connect(url, autocommit=True) as conn:
        for (name,) in conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall():
            quoted = name.replace('"', '""')
            conn.execute(f'DROP TABLE "{quoted}"')
    return url


@pytest.fixture
def path(tmp_path):
    """A directory that does not exist yet."""
    return tmp_path / "db"


@pytest.fixture
def url(link, path, request):
    if link == "server":
        return emptied(request.getfixturevalue("server"))
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
def shared(link, tmp_path_factory, request):
    """One autocommit connection for the many examples of property tests."""
    if link == "server":
        url = emptied(request.getfixturevalue("server"))
    else:
        url = f"herdpy://{tmp_path_factory.mktemp('shared') / 'db'}"
    connection = herdpy.connect(url, autocommit=True)
    yield connection
    connection.close()

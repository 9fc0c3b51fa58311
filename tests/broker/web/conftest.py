"""Brokers in a directory, and their pages: in process, and served to a browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from herdpy_broker import schema, types
from herdpy_broker.web.app import BrokerApp
from herdpy_broker.web.serving import PageServer

import herdpy
from herdpy.testing.process import await_until
from tests.support.chromium import chromium, tab

__all__ = ["chromium", "tab"]

TOKEN = "correct-horse-battery"
TABLES = ("dependency", "task", "finished", "dead", "schedule", "task_group", "worker")


@pytest.fixture(scope="package")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database with the broker's tables, and a type ``mail``; open as long as tests run."""
    found = str(tmp_path_factory.mktemp("broker") / "db")
    with herdpy.connect(found, autocommit=True) as connection:
        schema.migrate(connection)
        types.define(connection, "mail")
        yield found


@pytest.fixture
def connection(url: str) -> Iterator[herdpy.Connection[Any]]:
    """A connection to it, in which nothing is left of other tests."""
    with herdpy.connect(url, autocommit=True) as made:
        for table in TABLES:
            made.execute(f"DELETE FROM broker.{table}")
        yield made


class ServedPage:
    """A page that is served on a free port of loopback.

    Attributes:
        app: the page. ``address``: its URL, without a slash at the end. ``same_origin``: the headers that a
            browser sends with a form of it.
    """

    def __init__(self, app: BrokerApp, most_streams: int = 10) -> None:
        self.app = app
        self._server = PageServer(app, "127.0.0.1", 0, most_streams)
        self._thread = threading.Thread(target=self._server.serve_page)
        self._thread.start()
        assert await_until(lambda: self._server.started, 30)
        self.address = self._server.address
        self.same_origin = {"sec-fetch-site": "same-origin", "origin": self.address}

    def client(self) -> httpx.Client:
        """A browser with cookies of its own."""
        return httpx.Client(base_url=self.address, timeout=30, verify=False)

    def close(self) -> None:
        """End it, and see that it ends."""
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.fixture(scope="package")
def served(url: str) -> Iterator[ServedPage]:
    """A page without a token, for all tests of a process; each of its pages is read anew."""
    made = ServedPage(BrokerApp(url, interval_s=0.0))
    yield made
    made.close()


@pytest.fixture(scope="package")
def living(url: str) -> Iterator[ServedPage]:
    """A page without a token that is read five times a second while it is open."""
    made = ServedPage(BrokerApp(url, interval_s=0.2))
    yield made
    made.close()


@pytest.fixture
def client(served: ServedPage) -> Iterator[httpx.Client]:
    """A browser on this machine."""
    with served.client() as made:
        yield made


@pytest.fixture
def guarded(url: str) -> Iterator[ServedPage]:
    """A page that needs the token."""
    made = ServedPage(BrokerApp(url, token=TOKEN, interval_s=0.05))
    yield made
    made.close()

"""Every example of docs/grpc.md runs, in order, against a server; what its table of limits says holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from herdpy_server.config import ServerConfig
from herdpy_server.service import backups, gate, partitions, server
from tests.docs.test_examples import run_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "grpc.md"


@pytest.fixture
def served(start):
    """A server with the table of the examples."""
    running = start().ready()
    with running.connect() as connection:
        connection.execute("CREATE TABLE item (id INT PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO item SELECT g, 'item ' || g FROM generate_series(1, 10000) g")
    return running


def test_the_examples_run(served, tmp_path, monkeypatch):
    page = tmp_path / "grpc.md"
    place = f"127.0.0.1:{ServerConfig().grpc.port}"
    assert place in PAGE.read_text()
    page.write_text(PAGE.read_text().replace(place, f"127.0.0.1:{served.grpc_port}"))
    monkeypatch.chdir(tmp_path)
    assert run_page(page) == 5


def test_limits_and_names_are_those_of_the_source():
    text = PAGE.read_text()
    for number, what in (
        (partitions.MAX_PARTITIONS, "partitions of a plan"),
        (partitions.MAX_READINGS, "partitions being read at a time"),
        (gate.MAX_OPEN_STREAMS, "streams of health"),
        (backups.MAX_BACKUPS, "backups under way"),
    ):
        assert f"| {number} | {what} |" in text
    for service in (*server.SERVICES, gate.HEALTH, gate.REFLECTION):
        assert f"| `{service}` |" in text
    assert f"the role `{gate.NOBODY}`" in text

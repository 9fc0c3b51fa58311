"""pgjdbc, by a Java program that does what such programs do: it finds what it finds on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.server.pgjdbc import door_to, run
from tests.support.server_process import RunningServer


@pytest.fixture(scope="module")
def peer_port(postgres: str) -> Iterator[int]:
    """A port of PostgreSQL."""
    host = dict(part.split("=") for part in postgres.split())["host"]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE tools_pgjdbc TEMPLATE template0")
        with door_to(f"{host}/.s.PGSQL.5432") as port:
            yield port
        connection.execute("DROP DATABASE tools_pgjdbc WITH (FORCE)")


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the compiled program is."""
    return tmp_path_factory.mktemp("classes")


@pytest.mark.parametrize(
    "properties",
    [(), ("prepareThreshold=1", "reWriteBatchedInserts=true"), ("prepareThreshold=0", "autosave=always")],
    ids=["as it comes", "prepared at once", "never prepared"],
)
def test_a_java_program_finds_what_it_finds_on_postgres(
    shared_server: RunningServer, peer_port: int, classes: Path, properties: tuple[str, ...]
) -> None:
    expected = run(peer_port, "tools_pgjdbc", classes, *properties)
    assert expected[-1] == "end"
    assert "batch = 500" in expected
    assert run(shared_server.port, "test", classes, *properties) == expected

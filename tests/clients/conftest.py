"""One server for all tests of clients in a process, with the tables of ``library``."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.clients.library import DEFINITIONS, VECTORS
from tests.support.server_process import RunningServer


@pytest.fixture(scope="package")
def clients_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with the library, and vectors in it."""
    running = RunningServer(tmp_path_factory.mktemp("clients") / "data").ready()
    with running.connect() as connection:
        for statement in (*DEFINITIONS, *VECTORS):
            connection.execute(statement)
    yield running
    running.close()


@pytest.fixture(scope="package")
def clients_postgres(postgres: str) -> Iterator[str]:
    """A database of the real PostgreSQL with the library: where its socket is, as a directory.

    It lives as long as the server does: what a test has changed in both is in both, or in neither.
    """
    host = dict(part.split("=") for part in postgres.split())["host"]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE clients TEMPLATE template0")
        with psycopg.connect(postgres.replace("dbname=postgres", "dbname=clients"), autocommit=True) as own:
            for statement in DEFINITIONS:
                own.execute(statement)
        yield host
        connection.execute("DROP DATABASE clients WITH (FORCE)")

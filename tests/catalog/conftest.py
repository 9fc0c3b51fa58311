"""A database with a few tables, alone and served, for the tests of the system catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import herdpy
from herdpy.dbapi import Connection
from tests.catalog.catalog_data import DEFINITIONS
from tests.pgwire.servers import ThreadServer, thread_server


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A database in this process, with the tables of ``catalog_data``."""
    with herdpy.connect(tmp_path_factory.mktemp("catalog") / "data", autocommit=True) as connection:
        for statement in DEFINITIONS:
            connection.execute(statement)
        yield connection


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Connection]:
    """A database in this process with nothing in it."""
    with herdpy.connect(tmp_path / "data", autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    """A server without tables."""
    with thread_server(tmp_path_factory.mktemp("catalog") / "served") as found:
        yield found


@pytest.fixture(scope="session")
def postgres_catalog(postgres: str) -> Iterator[str]:
    """A database of the real PostgreSQL with the tables of ``catalog_data``."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE catalog_test TEMPLATE template0")
        dsn = postgres.replace("dbname=postgres", "dbname=catalog_test")
        with psycopg.connect(dsn, autocommit=True) as own:
            for statement in DEFINITIONS:
                own.execute(statement)
        yield dsn
        connection.execute("DROP DATABASE catalog_test WITH (FORCE)")

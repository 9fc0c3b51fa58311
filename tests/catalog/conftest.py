"""A database with a few tables, alone and served, for the tests of the system catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import herdpy
from herdpy.dbapi import Connection
from tests.catalog.alike import Asked, Both
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


@pytest.fixture
def both(tmp_path: Path, postgres: str) -> Iterator[Both]:
    """A server and a database of the real PostgreSQL, both without tables, both called "alike"."""
    import psycopg

    own = postgres.replace("dbname=postgres", "dbname=alike")
    with psycopg.connect(postgres, autocommit=True) as connection, thread_server(tmp_path / "data") as served:
        connection.execute("CREATE DATABASE alike TEMPLATE template0")
        users = connection.execute("SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_'").fetchall()
        known = {name for (name,) in users}
        ours = Asked(f"host=127.0.0.1 port={served.port} user={connection.info.user} dbname=alike")
        theirs = Asked(own)
        try:
            yield Both(ours, theirs)
        finally:
            ours.connection.finish()
            theirs.connection.finish()
            connection.execute("DROP DATABASE alike WITH (FORCE)")
            for (name,) in connection.execute("SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_'"):
                if name not in known:
                    connection.execute(f'DROP ROLE "{name}"')

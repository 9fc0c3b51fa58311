"""A database in a directory and one on a server, for the same tests."""

from __future__ import annotations

import pytest

import herdpy
from tests.support.server_process import RunningServer


@pytest.fixture(scope="package")
def frames_server(tmp_path_factory):
    running = RunningServer(tmp_path_factory.mktemp("server") / "data").ready()
    yield running
    running.close()


@pytest.fixture(scope="package", params=["directory", "server"])
def url(request, tmp_path_factory):
    """The URL of an empty database, of either kind."""
    if request.param == "directory":
        return f"herdpy:///{tmp_path_factory.mktemp('frames')}/d"
    return f"herdpy://ann@127.0.0.1:{request.getfixturevalue('frames_server').port}"


@pytest.fixture
def conn(url):
    """A connection in autocommit mode to it; the tables that a test leaves are dropped."""
    with herdpy.connect(url, autocommit=True) as conn:
        yield conn
        if conn.info.transaction_status != herdpy.TransactionStatus.IDLE:
            conn.rollback()
        for (name,) in conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall():
            conn.execute(f'DROP TABLE "{name}"')


ALL_TYPES = """
CREATE TABLE kinds (
  id INTEGER PRIMARY KEY, small SMALLINT, big BIGINT, flag BOOLEAN, half REAL, twice DOUBLE PRECISION,
  price NUMERIC(8, 2), exact NUMERIC, name TEXT, day DATE, at TIMESTAMP, at_zone TIMESTAMPTZ,
  code UUID, data BYTEA
);
INSERT INTO kinds VALUES
  (1, 2, 3000000000, true, 0.5, 0.25, 3.50, 12345678901234567890.125, 'pear', '2024-02-29',
   '2024-02-29 12:30:00.000001', '2024-02-29 12:30:00+02', '00000000-0000-0000-0000-00000000002a', '\\x00ff'),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
"""


@pytest.fixture
def kinds(conn):
    """A table ``kinds`` with a column of each type that frames know, one row of values, one of NULL."""
    conn.execute(ALL_TYPES)
    return conn

"""A database in a directory for all tests of the broker's functions, and a server for those that need one.

Each test leaves the directory's tables empty, and the server without any.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from herdpy_broker import claim, finish, schema, types, workers
from herdpy_broker.reading import TaskView, task
from herdpy_broker.transactions import Connection

import herdpy
from tests.support.server_process import RunningServer

TABLES = (
    "dependency", "task", "finished", "dead", "schedule", "worker", "task_group", "task_type",
)  # fmt: skip


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for all tests of workers as processes."""
    made = RunningServer(tmp_path_factory.mktemp("broker-server")).ready()
    yield made
    made.close()


@pytest.fixture
def server_url(server: RunningServer) -> Iterator[str]:
    """The URL of the server's database, which has the broker's tables while the test runs."""
    url = f"herdpy://ann:a-secret-password@127.0.0.1:{server.port}/herdpy"
    with contextlib.closing(herdpy.connect(url, autocommit=True)) as connection:
        schema.migrate(connection)
    yield url
    with contextlib.closing(herdpy.connect(url, autocommit=True)) as connection:
        connection.execute("DROP SCHEMA broker CASCADE")


@pytest.fixture
def server_db(server_url: str) -> Iterator[Connection]:
    """A connection to it, in autocommit."""
    with contextlib.closing(herdpy.connect(server_url, autocommit=True)) as connection:
        yield connection


@pytest.fixture(scope="package")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database that has the broker's tables, and stays open."""
    url = f"herdpy:{tmp_path_factory.mktemp('broker') / 'database'}"
    with herdpy.connect(url, autocommit=True) as connection:
        schema.migrate(connection)
        yield url


@pytest.fixture
def connect(directory: str) -> Iterator[Callable[[], Connection]]:
    """Makes connections in autocommit; a type "t" is defined: two attempts, no backoff."""
    made: list[Connection] = []

    def connect() -> Connection:
        made.append(herdpy.connect(directory, autocommit=True))
        return made[-1]

    types.define(connect(), "t", max_attempts=2, backoff_s=0)
    yield connect
    for connection in made:
        connection.close()
    with herdpy.connect(directory) as connection:
        for table in TABLES:
            connection.execute(f"DELETE FROM broker.{table}")


@pytest.fixture
def connection(connect: Callable[[], Connection]) -> Connection:
    """A connection in autocommit."""
    return connect()


@pytest.fixture
def desk(connection: Connection) -> Desk:
    """A worker, and what tests ask of the broker in one word."""
    return Desk(connection)


class Desk:
    """A worker on a connection.

    Attributes:
        connection: the connection.
        worker: the worker's id.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.worker = workers.register(connection, "desk", 10, 60.0)

    def claim(self, most: int = 10, group: str = "default") -> list[int]:
        """The ids of claimed tasks."""
        return [claimed.id for claimed in claim.claim(self.connection, self.worker, group, most)]

    def finish(self, *ids: int) -> None:
        """Finish tasks without results."""
        finish.finish(self.connection, self.worker, [(one, None) for one in ids])

    def fail(self, one: int, error: str = "it broke") -> None:
        """Fail a task."""
        finish.fail(self.connection, self.worker, one, error)

    def task(self, one: int) -> TaskView:
        """A task as it is seen."""
        return task(self.connection, one)

    def state(self, one: int) -> str:
        """A task's state."""
        return self.task(one).state

    def states(self, *ids: int) -> list[str]:
        """The states of tasks."""
        return [self.state(one) for one in ids]

    def age(self, table: str, column: str, seconds: float, condition: str = "true") -> None:
        """Move a time of rows into the past."""
        earlier = f"{column} - $1::float8 * INTERVAL '1 second'"
        self.connection.execute(
            f"UPDATE broker.{table} SET {column} = {earlier} WHERE {condition}", (seconds,)
        )

"""The brokers that the broker's benchmark compares: their servers, their programs, and how many tasks wait.

    server          herdpy_broker on one server with file ledgers, each commit synced
    cluster         the same on three servers with three bookies (3-3-2) and ZooKeeper
    celery-always   Celery on Redis with an append-only file that is synced at each write
    celery-everysec the same, synced every second, which is Redis' own advice
    procrastinate   Procrastinate on a PostgreSQL with its own defaults, each commit synced

Each is a context manager that gives a :class:`System`. The peers' programs run in an environment of their
own, ``.venv/broker-peers``, which the Makefile makes of ``bench/broker_peers/requirements.txt``.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postgresql import connect, postgres
from processor_time import listener

import herdpy
from herdpy.dev import LocalCluster
from herdpy.testing.process import Child, PortReservation
from tests.support.server_process import RunningServer

CLIENTS = 8
"""Connections that submit."""
WORKERS = 2
"""Processes that work, one a core."""
CONCURRENCY = 16
"""Tasks that one of Procrastinate's workers runs at a time, and connections of Celery's pool."""
DATABASE = "herdpy"
_HERE = Path(__file__).parent
_ROOT = _HERE.parent
_PEERS = _HERE / "broker_peers"
_PEERS_BIN = _ROOT / ".venv" / "broker-peers" / "bin"
_START_S = 60.0


@dataclass(frozen=True)
class System:
    """A broker whose servers run.

    Attributes:
        servers: process ids by what they are called.
        producer: the command of the program that submits (``broker_load.serve``).
        workers: the commands of the programs that work.
        environment: of these programs.
        waiting: how many tasks are submitted and not finished.
        connect: a connection to its database, None for Redis.
    """

    name: str
    servers: Mapping[str, int]
    producer: Sequence[str]
    workers: Sequence[Sequence[str]]
    environment: Mapping[str, str]
    waiting: Callable[[], int]
    connect: Callable[[], Any] | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it is a HerdPy."""
        return self.name in {"server", "cluster"}


@contextmanager
def herdpy_server(directory: Path) -> Iterator[System]:
    """One server with its own defaults."""
    server = RunningServer(directory / "server").ready()
    try:
        url = f"herdpy://herdpy@127.0.0.1:{server.port}/{DATABASE}"
        yield from _herdpy("server", url, server.port, lambda: {"server": listener(server.port)})
    finally:
        server.close()


@contextmanager
def herdpy_cluster(directory: Path) -> Iterator[System]:
    """Three servers and three bookies."""
    with LocalCluster(directory / "cluster", servers=3, bookies=3) as cluster:
        leader = cluster.await_leader(timeout_s=_START_S)
        status = cluster.status()
        port = next(one.sql_port for one in status.servers if one.id == leader)
        pids = {one.id: one.pid for one in status.processes if one.pid is not None}
        named = {f"{name} (leads)" if name == leader else name: pid for name, pid in pids.items()}
        yield from _herdpy("cluster", cluster.url, port, lambda: named)


def _herdpy(name: str, url: str, port: int, servers: Callable[[], Mapping[str, int]]) -> Iterator[System]:
    """A database with the broker's tables."""
    from herdpy_broker.schema import migrate
    from herdpy_broker.types import define

    with closing(herdpy.connect(url, autocommit=True)) as connection:
        migrate(connection)
        define(connection, "work")
    program = [sys.executable, str(_HERE / "broker_herdpy.py")]
    with connect(port, DATABASE) as connection:

        def waiting() -> int:
            return int(connection.execute("SELECT count(*) FROM broker.task").fetchall()[0][0])

        yield System(
            name, servers(),
            [*program, "produce", url, str(CLIENTS)],
            [[*program, "work", url]] * WORKERS,
            _environment(url), waiting, lambda: herdpy.connect(url, autocommit=True),
        )  # fmt: skip


def celery(fsync: str) -> Callable[[Path], AbstractContextManager[System]]:
    """Celery on a Redis whose ``appendfsync`` is this."""

    @contextmanager
    def system(directory: Path) -> Iterator[System]:
        if shutil.which("redis-server") is None:
            raise SystemExit("Redis is not installed: sh tools/install-redis.sh")
        home = directory / f"redis-{fsync}"
        home.mkdir()
        with closing(PortReservation()) as reservation:
            settings = {"port": reservation.port, "bind": "127.0.0.1", "dir": home, "save": "",
                        "appendonly": "yes", "appendfsync": fsync}  # fmt: skip
            options = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
            redis = Child("redis", ["redis-server", *options], home / "log")
            redis.start()
            try:
                redis.await_listening("127.0.0.1", reservation.port, _START_S)
                yield from _celery(f"celery-{fsync}", reservation.port, redis)
            finally:
                redis.terminate()

    return system


def _celery(name: str, port: int, redis: Child) -> Iterator[System]:
    assert redis.pid is not None
    worker = ["-A", "celery_tasks", "worker", "--concurrency", str(WORKERS), "--loglevel", "WARNING"]
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rwb") as stream:

        def length(command: str) -> int:
            stream.write(command.encode() + b"\r\n")
            stream.flush()
            return int(stream.readline()[1:])

        yield System(
            name, {"redis": redis.pid}, _produces("celery_tasks"),
            [[str(_peer("celery")), *worker]],
            _environment(f"redis://127.0.0.1:{port}/0"),
            lambda: length("LLEN celery") + length("HLEN unacked"),
        )  # fmt: skip


@contextmanager
def procrastinate(directory: Path) -> Iterator[System]:
    """Procrastinate on PostgreSQL."""
    home = directory / "postgresql"
    home.mkdir()
    with postgres(home) as port, connect(port) as connection:
        environment = _environment(f"host=127.0.0.1 port={port} user=herdpy dbname=postgres")
        command = [str(_peer("procrastinate")), "--app", "procrastinate_tasks.app"]
        subprocess.run([*command, "schema", "--apply"], check=True, env=os.environ | environment)
        worker = [*command, "--log-level", "warning", "worker", "--concurrency", str(CONCURRENCY)]
        living = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        yield System(
            "procrastinate", {"postgres": listener(port)}, _produces("procrastinate_tasks"),
            [worker] * WORKERS, environment,
            lambda: int(connection.execute(living).fetchall()[0][0]), lambda: connect(port),
        )  # fmt: skip


SYSTEMS: dict[str, Callable[[Path], AbstractContextManager[System]]] = {
    "server": herdpy_server,
    "cluster": herdpy_cluster,
    "celery-always": celery("always"),
    "celery-everysec": celery("everysec"),
    "procrastinate": procrastinate,
}
"""By name, in the order of the report."""


def _peer(program: str) -> Path:
    path = _PEERS_BIN / program
    if not path.exists():
        raise SystemExit(f"{path} is not there: make {_PEERS_BIN.parent.relative_to(_ROOT)}/.ready")
    return path


def _produces(module: str) -> list[str]:
    return [str(_peer("python")), str(_PEERS / "produce.py"), module, str(CLIENTS)]


def _environment(url: str) -> dict[str, str]:
    paths = [_HERE, _PEERS, _ROOT / "examples" / "broker"]
    return {"HERDPY_BENCH_URL": url, "PYTHONPATH": os.pathsep.join(map(str, paths))}

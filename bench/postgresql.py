"""PostgreSQL servers that benchmarks run beside HerdPy, and pgbench against either."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from herdpy.testing.process import PortReservation
from tests.support.postgres import find_server

SCRIPTS = {"select-only": "-S", "simple-update": "-N", "tpcb-like": "-b tpcb-like"}
DATABASE = "postgres"
_START_S = 60.0
_STOP_S = 60.0


def binaries() -> Path:
    """Where initdb, postgres, pg_basebackup and pgbench are; ends the program when they are not installed."""
    found = find_server()
    if found is None:
        raise SystemExit("PostgreSQL is not installed")
    return found


@contextmanager
def postgres(directory: Path) -> Iterator[int]:
    """A PostgreSQL with its own defaults in this directory; its port."""
    home = _home(directory, "postgres")
    _make(home)
    with _running(home) as port:
        yield port


@contextmanager
def replicated_postgres(directory: Path) -> Iterator[tuple[int, list[int]]]:
    """A primary with two standbys, one of which must have a commit before it is answered.

    Yields:
        The ports of the primary and of the standbys.
    """
    home = _home(directory, "primary")
    _make(home)
    with ExitStack() as stack:
        primary = stack.enter_context(
            _running(home, "wal_level=replica", "max_wal_senders=8", "wal_keep_size=4096")
        )
        standbys = []
        for name in ("s1", "s2"):
            standby = _home(directory, name)
            source = f"host=127.0.0.1 port={primary} user=herdpy application_name={name}"
            _run(standby, "pg_basebackup", "-D", standby / "data", "-d", source, "-R", "-c", "fast")
            standbys.append(stack.enter_context(_running(standby)))
        with connect(primary) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (s1, s2)'")
            connection.execute("SELECT pg_reload_conf()")
            states = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'"
            _await(lambda: connection.execute(states).fetchall() == [(2,)])
        yield primary, standbys


@contextmanager
def archiving_postgres(directory: Path) -> Iterator[tuple[int, Path]]:
    """A PostgreSQL that archives its WAL in a directory; its port, and that directory."""
    home = _home(directory, "archiving")
    archive = _home(directory, "wal")
    _make(home)
    command = f"archive_command=cp %p {archive}/%f"
    with _running(home, "wal_level=replica", "archive_mode=on", command, "max_wal_size=4GB") as port:
        yield port, archive


def base_backup(directory: Path, name: str, port: int) -> Path:
    """What pg_basebackup copies of a server into a new directory."""
    home = _home(directory, name)
    source = f"host=127.0.0.1 port={port} user=herdpy"
    _run(home, "pg_basebackup", "-D", home / "data", "-d", source, "-X", "none", "-c", "fast")
    return home


@contextmanager
def recovered_postgres(home: Path, archive: Path) -> Iterator[int]:
    """The server of a base backup, once it has replayed all of the archive and takes writes; its port."""
    (home / "data" / "recovery.signal").touch()
    if _user():
        shutil.chown(home / "data" / "recovery.signal", "postgres", "postgres")
    restored = f"restore_command=cp {archive}/%f %p"
    with _running(home, restored, "max_wal_size=4GB") as port, connect(port) as connection:
        _await(lambda: connection.execute("SELECT pg_is_in_recovery()").fetchall() == [(False,)])
        yield port


def _home(directory: Path, name: str) -> Path:
    home = directory / name
    home.mkdir()
    if _user():
        directory.chmod(0o755)
        shutil.chown(home, "postgres", "postgres")
    return home


def _user() -> dict[str, Any]:
    """As whom it is run: PostgreSQL refuses to be root."""
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


def _run(home: Path, program: str, *arguments: object) -> None:
    command = [str(binaries() / program), *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, cwd=home, **_user())


def _make(home: Path) -> None:
    _run(home, "initdb", "-D", home / "data", "-A", "trust", "-U", "herdpy", "-E", "UTF8", "--locale=C")


@contextmanager
def _running(home: Path, *settings: str) -> Iterator[int]:
    with closing(PortReservation()) as reservation, (home / "log").open("wb") as log:
        port = reservation.port
        own = (
            f"port={port}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={home}",
            "max_connections=64",
        )
        options = [f"-c{setting}" for setting in (*own, *settings)]
        server = subprocess.Popen(
            [binaries() / "postgres", "-D", home / "data", *options],
            stdout=log, stderr=log, cwd=home, **_user(),
        )  # fmt: skip
        try:
            _await(lambda: _answers(port))
            yield port
        finally:
            server.send_signal(2)  # SIGINT: it ends its sessions, a standby's among them
            server.wait(_STOP_S)


def _answers(port: int) -> bool:
    try:
        connect(port).close()
    except psycopg.OperationalError:
        return False
    return True


def _await(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + _START_S
    while not condition():
        if time.monotonic() > until:
            raise SystemExit("PostgreSQL does not come to serve")
        time.sleep(0.05)


def connect(port: int, database: str = DATABASE) -> psycopg.Connection[Any]:
    """A connection to either server, in autocommit mode."""
    return psycopg.connect(host="127.0.0.1", port=port, user="herdpy", dbname=database, autocommit=True)


def pgbench(port: int, *arguments: str, database: str = DATABASE) -> str:
    """What pgbench prints; it must end well."""
    where = ["-h", "127.0.0.1", "-p", str(port), "-U", "herdpy"]
    done = subprocess.run(
        [binaries() / "pgbench", *where, *arguments, database],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if done.returncode != 0 or "ERROR" in done.stderr:
        raise SystemExit(f"pgbench {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def transactions_per_s(
    port: int, script: str, mode: str, clients: int, seconds: int, database: str = DATABASE
) -> float:
    """What pgbench says its rate is, with a script of SCRIPTS in one of its modes of query."""
    return rate_and_count(port, script, mode, clients, seconds, database)[0]


def rate_and_count(
    port: int, script: str, mode: str, clients: int, seconds: int, database: str = DATABASE
) -> tuple[float, int]:
    """As :func:`transactions_per_s`, with the number of transactions."""
    run = ["-n", *SCRIPTS[script].split(), "-M", mode, "-c", str(clients), "-T", str(seconds)]
    return _rate_said(pgbench(port, *run, database=database))


def script_rate(port: int, script: Path, clients: int, seconds: int, database: str = DATABASE) -> float:
    """Transactions a second of a script in a file, as prepared statements."""
    run = ["-n", "-f", str(script), "-M", "prepared", "-c", str(clients), "-T", str(seconds)]
    return _rate_said(pgbench(port, *run, database=database))[0]


def _rate_said(said: str) -> tuple[float, int]:
    """The rate and the number of transactions in what pgbench prints."""
    found = re.search(r"actually processed: (\d+)(?:.*\n)*?tps = ([0-9.]+)", said)
    assert found is not None, said
    return float(found[2]), int(found[1])


def warm(ports: Iterable[int], seconds: int, database: str = DATABASE) -> None:
    """Make pgbench's tables in each, and run TPC-B for so long: caches and compilers are to be warm."""
    for port in ports:
        pgbench(port, "-i", "-q", "-s", "1", database=database)
        rate_and_count(port, "tpcb-like", "prepared", 8, seconds, database)

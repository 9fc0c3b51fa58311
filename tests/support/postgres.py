"""A real PostgreSQL server for differential tests: started on first use, stopped at the end, always.

Tests take the fixture ``postgres`` (a psycopg connection string) and are skipped where no server is
installed. The server runs in a temporary directory, listens on a Unix socket there only, and dies
with this process: it is a child that is stopped at the end of the session, and its parent's
death signal stops it when the session is killed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_ROOTS = ("/usr/lib/postgresql", "/usr/pgsql-15", "/usr/local/pgsql", "/opt/homebrew/opt/postgresql")
_START_SECONDS = 60


def find_server() -> Path | None:
    """The directory of initdb and postgres: the newest version that is installed, or None."""
    on_path = shutil.which("postgres")
    found = [Path(on_path).parent] if on_path and shutil.which("initdb") else []
    for root in _ROOTS:
        found += [p.parent for p in Path(root).glob("**/bin/postgres") if (p.parent / "initdb").exists()]
    return max(found, key=lambda path: [int(part) for part in path.parts if part.isdigit()], default=None)


def run_server(**settings: str) -> Iterator[str]:
    """Start a server, yield its connection string, stop it."""
    binaries = find_server()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed")
    identity = _identity()
    directory = Path(tempfile.mkdtemp(prefix="herdpy-pg-", dir="/tmp"))
    try:
        if identity is not None:
            os.chown(directory, identity[0], identity[1])
        yield from _serve(binaries, directory, identity, settings)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _serve(
    binaries: Path, directory: Path, identity: tuple[int, int] | None, settings: dict[str, str]
) -> Iterator[str]:
    environment = {"LC_ALL": "C", "PATH": os.environ.get("PATH", ""), "TZ": "UTC"}
    data = directory / "data"
    subprocess.run(
        [*f"{binaries}/initdb -A trust -U herdpy -E UTF8 --locale=C --lc-ctype=C.UTF-8 -N -D".split(), data],
        check=True,
        capture_output=True,
        env=environment,
        cwd=directory,
        **_as_user(identity),
    )
    options = {
        "listen_addresses": "",
        "unix_socket_directories": str(directory),
        "fsync": "off",
        "full_page_writes": "off",
        "synchronous_commit": "off",
        "shared_buffers": "16MB",
        "timezone": "UTC",
        "max_connections": "20",
        **settings,
    }
    arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    with (directory / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [*_dying_with_parent(), str(binaries / "postgres"), "-D", str(data), *arguments],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=directory,
            **_as_user(identity),
        )
    try:
        dsn = f"host={directory} port={options.get('port', 5432)} user=herdpy dbname=postgres"
        _await_ready(server, dsn, directory / "server.log")
        yield dsn
    finally:
        server.send_signal(signal.SIGINT)  # fast shutdown: connections are cut, nothing is left behind
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.send_signal(signal.SIGQUIT)
            server.wait(timeout=20)


def _await_ready(server: subprocess.Popen[bytes], dsn: str, log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"PostgreSQL did not start:\n{log.read_text(errors='replace')}")
            time.sleep(0.05)
        else:
            return


def _identity() -> tuple[int, int] | None:
    """The user to run as when this process is root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    pytest.skip("PostgreSQL does not run as root, and there is no other user")


def _as_user(identity: tuple[int, int] | None) -> dict[str, Any]:
    return {} if identity is None else {"user": identity[0], "group": identity[1], "extra_groups": []}


def _dying_with_parent() -> list[str]:
    setpriv = shutil.which("setpriv")  # util-linux; SIGINT is PostgreSQL's fast shutdown
    return [setpriv, "--pdeathsig", "INT"] if setpriv else []


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The connection string of a PostgreSQL server of this test process."""
    yield from run_server()

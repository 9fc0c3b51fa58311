"""PostgreSQL's own programs, run against a server: psql and pgbench."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.postgres import find_server

SUMS = (
    "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers), "
    "(SELECT sum(bbalance) FROM pgbench_branches), coalesce(sum(delta), 0), count(*) FROM pgbench_history"
)
"""The sums that TPC-B keeps equal: accounts, tellers, branches, history; and how many rows history has."""

_TIMEOUT_S = 150


def environment(port: int, host: str = "127.0.0.1", database: str = "test") -> dict[str, str]:
    """Where the programs find the server."""
    return os.environ | {
        "PGHOST": host,
        "PGPORT": str(port),
        "PGDATABASE": database,
        "PGUSER": "herdpy",
        "PGCONNECT_TIMEOUT": "30",
        "LC_ALL": "C.UTF-8",
    }


def program(name: str) -> str:
    """The path of a program of PostgreSQL's; skips the test where it is not installed."""
    binaries = find_server()
    if binaries is None or not (binaries / name).exists():
        pytest.skip(f"{name} is not installed")
    return str(binaries / name)


def pgbench(port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pgbench to its end, which must be a good one."""
    done = subprocess.run(
        [program("pgbench"), *arguments],
        env=environment(port),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def psql(
    port: int, script: str, *arguments: str, cwd: Path, **where: str
) -> subprocess.CompletedProcess[str]:
    """Run a script, given on standard input, without anybody's settings."""
    return subprocess.run(
        [program("psql"), "-X", *arguments],
        env=environment(port, **where),
        input=script,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )

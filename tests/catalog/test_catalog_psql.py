"""The real psql and pgbench: what they show of HerdPy is what they show of PostgreSQL."""

# ruff: noqa: E501 - lists of commands
from __future__ import annotations

import os
import subprocess

import pytest

from tests.catalog.catalog_data import DEFINITIONS
from tests.pgwire.servers import ThreadServer
from tests.support.postgres import find_server

SAME = [
    r"\d", r"\d t_pkey", r"\d nokey", r"\d child", r"\d+ child", r"\d \"Mixed Case\"", r"\d t_a_idx", r"\d mixed_u",
    r"\d nosuch", r"\dt", r"\dt public.*", r"\dt t*", r"\dt nosuch", r"\di", r"\di *key", r"\dv", r"\ds", r"\dm",
    r"\dE", r"\du", r"\dg+", r"\df", r"\dT", r"\dT+", r"\dp", r"\z t", r"\dD", r"\dO", r"\ddp", r"\drds", r"\dRp",
    r"\dRs", r"\des", r"\det", r"\dew", r"\dy", r"\dP", r"\dX", r"\dc", r"\sf nosuch", r"\encoding",
    "SELECT 't'::regclass, 'int4'::regtype",
]  # fmt: skip
"""Commands whose output is PostgreSQL's to the letter."""

ANSWERED = [
    r"\d t", r"\d+ t", r"\dt+", r"\di+", r"\l", r"\l+", r"\dn", r"\dn+", r"\db", r"\dx", r"\dS", r"\dt pg_*", r"\dC",
    r"\da", r"\do", r"\dL", r"\dA", r"\dAc", r"\dF", r"\dFp", r"\dd", r"\dconfig", r"\conninfo",
    r"\d pg_class", r"\d information_schema.columns",
]  # fmt: skip
"""Commands whose output differs, because there is less of PostgreSQL, or sizes are not known."""


def _environment(host: str, port: int, database: str) -> dict[str, str]:
    return os.environ | {
        "PGHOST": host, "PGPORT": str(port), "PGDATABASE": database, "PGUSER": "herdpy", "LC_ALL": "C",
        "PGCONNECT_TIMEOUT": "30",
    }  # fmt: skip


def _run(program: str, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    binaries = find_server()
    if binaries is None or not (binaries / program).exists():
        pytest.skip(f"{program} is not installed")
    return subprocess.run(
        [binaries / program, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )


def _psql(environment: dict[str, str], command: str) -> str:
    done = _run("psql", environment, "-X", "-c", command)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def herdpy_psql(served: ThreadServer) -> dict[str, str]:
    """How to reach a HerdPy with the tables of ``catalog_data``."""
    environment = _environment("127.0.0.1", served.port, "herdpy")
    for statement in DEFINITIONS:
        assert _run("psql", environment, "-X", "-c", statement).stderr == ""
    return environment


@pytest.fixture(scope="module")
def postgres_psql(postgres_catalog: str) -> dict[str, str]:
    """How to reach such a PostgreSQL."""
    parts = dict(part.split("=") for part in postgres_catalog.split())
    return _environment(parts["host"], 5432, parts["dbname"])


def test_output_is_the_same(herdpy_psql: dict[str, str], postgres_psql: dict[str, str]) -> None:
    for command in SAME:
        expected = _psql(postgres_psql, command)
        assert expected, command
        assert _psql(herdpy_psql, command) == expected, command


def test_is_answered(herdpy_psql: dict[str, str]) -> None:
    for command in ANSWERED:
        done = _run("psql", herdpy_psql, "-X", "-q", "-c", command)
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout, command


def test_describes_a_table(herdpy_psql: dict[str, str], postgres_psql: dict[str, str]) -> None:
    def lines(environment: dict[str, str]) -> list[str]:
        return [line for line in _psql(environment, r"\d+ t").splitlines() if line]

    found = lines(herdpy_psql)
    assert found == lines(postgres_psql)
    assert '    "positive" CHECK (d > 0::double precision)' in found


@pytest.mark.soak  # pgbench runs on whole servers with every commit
def test_pgbench(served: ThreadServer, tmp_path_factory: pytest.TempPathFactory) -> None:
    environment = _environment("127.0.0.1", served.port, "herdpy")
    made = _run("pgbench", environment, "-i", "-I", "dtGvp", "-s", "1")
    assert made.returncode == 0, made.stderr
    done = _run("pgbench", environment, "-t", "10", "-c", "2")
    assert done.returncode == 0, done.stderr
    sums = (
        "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(bbalance) FROM pgbench_branches), "
        "(SELECT count(*) FROM pgbench_accounts), (SELECT count(*) FROM pgbench_history)"
    )
    assert _psql(environment, sums).splitlines()[2].replace(" ", "").split("|") == ["t", "100000", "20"]
    for options in (["-N", "-M", "extended"], ["-S", "-M", "prepared"]):
        done = _run("pgbench", environment, "-t", "10", *options)
        assert done.returncode == 0, done.stderr
        assert "number of failed transactions: 0" in done.stdout
    again = _run("pgbench", environment, "-i", "-I", "dtGvp", "--unlogged-tables")
    assert again.returncode == 0, again.stderr

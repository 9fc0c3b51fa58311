"""Sessions of random statements in a directory and on a server: the same answers, through the wire and not.

A soak test does the same on a cluster, whose leader may be any of its servers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import herdpy
from tests.support.server_process import RunningServer

sys.path.insert(0, str(Path(__file__).parent))

from diff_generate import Generator
from diff_run import Statement, on_herdpy, on_postgres, report, same

SEED = int(os.environ.get("HERDPY_SEED", "1"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection[Any]]:
    running = RunningServer(tmp_path_factory.mktemp("served") / "data").ready()
    try:
        yield running.connect()
    finally:
        running.close()


def run_session(seed: int, served: psycopg.Connection[Any], path: Path, count: int) -> int:
    """One session in both, which have no tables; fails with its script. Returns how many were compared."""
    generator, script, compared = Generator(seed), list[Statement](), 0
    served.execute("SET timezone = 'UTC'")
    with herdpy.connect(path, autocommit=True) as embedded:
        embedded.execute("SET timezone = 'UTC'")

        def check(statement: Statement) -> bool:
            nonlocal compared
            compared += 1
            here, there = on_herdpy(embedded, statement), on_postgres(served, statement)
            if not same(here, there, statement):
                pytest.fail(report(script, statement, here, there, str(seed)), pytrace=False)
            if not here.state and not statement.sql.startswith(("SELECT", "WITH")):
                script.append(statement)
            return bool(here.state)

        for _ in range(count):
            generator.told(check(generator.next()))
        last = generator.finish()
        if last is not None:
            generator.told(check(last))
        for table in generator.tables.values():
            check(Statement(f"SELECT * FROM {table.name}"))
        names = served.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (name,) in names:
            served.execute(f'DROP TABLE "{name}" CASCADE')
    return compared


@pytest.mark.parametrize("seed", [SEED * 1000 + n for n in range(500, 503)])
def test_a_server_answers_as_a_directory(seed: int, served: psycopg.Connection[Any], tmp_path: Path) -> None:
    assert run_session(seed, served, tmp_path / "db", 120) >= 120


@pytest.mark.soak
def test_a_cluster_answers_as_a_directory(tmp_path: Path) -> None:
    from herdpy.dev import LocalCluster
    from tests.replica.replicas import await_leader, connect

    with LocalCluster(tmp_path / "c", servers=3, bookies=3) as cluster:
        for number in range(6):
            with connect(cluster, await_leader(cluster)) as served:
                seed = SEED * 1000 + 600 + number
                assert run_session(seed, served, tmp_path / f"db{number}", 300) >= 300


@pytest.mark.soak
def test_many_sessions_on_a_server(served: psycopg.Connection[Any], tmp_path: Path) -> None:
    for number in range(100):
        assert run_session(SEED * 1000 + 700 + number, served, tmp_path / f"db{number}", 200) >= 200

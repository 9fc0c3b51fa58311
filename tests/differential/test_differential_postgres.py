"""Whole sessions of random statements, on HerdPy and on a real PostgreSQL: every answer is the same.

``HERDPY_SEED`` sets the first seed; a failure prints the session as a script. What is known to differ is
not generated: ``diff_generate.EXCLUDED`` says what, how, and why.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

import herdpy

sys.path.insert(0, str(Path(__file__).parent))

from diff_generate import Generator
from diff_run import Answer, Statement, on_herdpy, on_postgres, report, same

SEED = int(os.environ.get("HERDPY_SEED", "1"))
STATEMENTS = 150


def table_query(table: Any) -> Statement:
    return Statement(f"SELECT * FROM {table.name}")


def run_session(seed: int, connection: psycopg.Connection[Any], path: Path, count: int = STATEMENTS) -> int:
    """One session; fails with its script where the databases differ. Returns the statements compared."""
    schema = f"s{seed}_{os.getpid()}"
    connection.execute(f"CREATE SCHEMA {schema}")  # type: ignore[arg-type]
    connection.execute(f"SET search_path = {schema}")  # type: ignore[arg-type]
    connection.execute("SET timezone = 'UTC'")
    generator = Generator(seed)
    script: list[Statement] = []
    compared = 0

    def check(statement: Statement) -> Answer:
        nonlocal compared
        ours, theirs = on_herdpy(ours_connection, statement), on_postgres(connection, statement)
        compared += 1
        if not same(ours, theirs, statement):
            made = [s for s in script if s is not statement and not s.sql.startswith(("SELECT", "WITH"))]
            pytest.fail(report(made, statement, ours, theirs, str(seed)), pytrace=False)
        return theirs

    with herdpy.connect(path, autocommit=True) as ours_connection:
        for _ in range(count):
            statement = generator.next()
            answer = check(statement)
            if not answer.state:
                script.append(statement)
            generator.told(bool(answer.state))
        last = generator.finish()
        if last is not None:
            check(last)
        for table in generator.tables.values():
            check(table_query(table))
    connection.execute(f"DROP SCHEMA {schema} CASCADE")  # type: ignore[arg-type]
    return compared


@pytest.mark.parametrize("offset", range(10))
def test_session_as_postgresql(offset: int, postgres: str, tmp_path: Path) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        assert run_session(SEED + offset, connection, tmp_path) >= STATEMENTS


@pytest.mark.soak
def test_many_sessions_as_postgresql(postgres: str, tmp_path: Path) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        total = sum(run_session(SEED + n, connection, tmp_path / str(n), 300) for n in range(100, 250))
    assert total >= 40_000

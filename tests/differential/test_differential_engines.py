"""The same answers inside HerdPy: by either engine, with or without an index, wherever the rows lie.

A session of random statements is run; at points of it every query of a batch is asked in several
circumstances that must not matter. Errors are compared by SQLSTATE; 0A000 is an engine's right to refuse.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import herdpy

sys.path.insert(0, str(Path(__file__).parent))

from diff_generate import Generator
from diff_queries import select
from diff_run import Answer, Statement, on_herdpy, same

SEED = int(os.environ.get("HERDPY_SEED", "1"))
BATCH = 12


def differing(seed: int, what: str, statement: Statement, one: Answer, other: Answer) -> str:
    return f"HERDPY_SEED={seed}: {what}\n{statement.script()}\none:   {one}\nother: {other}"


def ask(connection: Any, statement: Statement) -> Answer:
    """Its answer; an error leaves an open transaction as it was."""
    if connection.info.transaction_status != herdpy.TransactionStatus.INTRANS:
        return on_herdpy(connection, statement)
    connection.execute("SAVEPOINT ask")
    answer = on_herdpy(connection, statement)
    connection.execute("ROLLBACK TO SAVEPOINT ask; RELEASE SAVEPOINT ask")
    return answer


class Batch:
    """Queries and their answers now, to be asked again when nothing but circumstances has changed."""

    def __init__(self, connection: Any, generator: Generator, seed: int, count: int = BATCH) -> None:
        tables = list(generator.tables.values())
        rng = random.Random(generator.rng.random())
        self.seed = seed
        self.statements = [select(rng, tables) for _ in range(count)]
        self.statements += [Statement(f"SELECT * FROM {table.name}") for table in tables]
        self.answers = [ask(connection, statement) for statement in self.statements]

    def again(self, connection: Any, what: str) -> list[str]:
        """Ask again; which answers are others now."""
        return [
            differing(self.seed, what, statement, answer, now)
            for statement, answer in zip(self.statements, self.answers, strict=True)
            if not same(now := ask(connection, statement), answer, statement)
        ]

    def engines(self, connection: Any) -> int:
        """Ask each engine; how many queries both answered."""
        both = 0
        for statement, answer in zip(self.statements, self.answers, strict=True):
            for engine in ("own", "columnar"):
                connection.execute(f"SET herdpy.engine = '{engine}'")
                now = ask(connection, statement)
                connection.execute("SET herdpy.engine = 'auto'")
                if now.state == "0A000":
                    assert engine == "own", f"{statement.script()}: {now}"
                    continue
                both += engine == "own"
                if not same(now, answer, statement):
                    what = f"engine {engine} (one: auto)"
                    pytest.fail(differing(self.seed, what, statement, answer, now), pytrace=False)
        return both


def grow(connection: Any, generator: Generator, count: int) -> None:
    """Run the session's next statements."""
    for _ in range(count):
        statement = generator.next()
        if statement.sql.startswith(("SELECT", "WITH")):
            continue
        generator.told(bool(on_herdpy(connection, statement).state))


def settle(connection: Any, generator: Generator) -> None:
    last = generator.finish()
    if last is not None:
        generator.told(bool(on_herdpy(connection, last).state))


@pytest.mark.parametrize("seed", [SEED * 1000 + n for n in range(3)])
def test_both_engines_answer_alike(seed: int, tmp_path: Path) -> None:
    generator, both = Generator(seed), 0
    with herdpy.connect(tmp_path, autocommit=True) as connection:
        for _ in range(3):
            grow(connection, generator, 60)
            settle(connection, generator)
            both += Batch(connection, generator, seed, 30).engines(connection)
    assert both > 20


@pytest.mark.parametrize("seed", [SEED * 1000 + n for n in range(100, 101)])
def test_nothing_but_meaning_matters(seed: int, tmp_path: Path) -> None:
    """Indexes, checkpoints, reopening, and a copy made while the database is open (as a crash leaves it)."""
    generator = Generator(seed, ddl_in_transactions=False)
    home, crashed = tmp_path / "db", tmp_path / "copy"
    rng = random.Random(seed)
    for turn in range(2):
        with herdpy.connect(home, autocommit=True, checkpoint_interval_s=3600) as connection:
            grow(connection, generator, 80)
            settle(connection, generator)
            batch = Batch(connection, generator, seed, 25)
            for n, table in enumerate(generator.tables.values()):
                for column in table.comparable:
                    order = rng.choice(["", " DESC"])
                    connection.execute(
                        f"CREATE INDEX x{turn}_{n}_{column.name} ON {table.name} ({column.name}{order})"
                    )
            assert batch.again(connection, "with indexes") == []
            connection.execute("CHECKPOINT")
            assert batch.again(connection, "after a checkpoint") == []
            for n, table in enumerate(generator.tables.values()):
                for column in table.comparable:
                    connection.execute(f"DROP INDEX x{turn}_{n}_{column.name}")
            assert batch.again(connection, "without indexes") == []
            grow(connection, generator, 40)
            settle(connection, generator)
            batch = Batch(connection, generator, seed, 25)
            shutil.copytree(home, crashed)
        with herdpy.connect(crashed, autocommit=True) as connection:
            assert batch.again(connection, "in a copy made while it was open") == []
            connection.execute("CHECKPOINT")
            assert batch.again(connection, "in that copy after a checkpoint") == []
        shutil.rmtree(crashed)
        with herdpy.connect(home, autocommit=True) as connection:
            assert batch.again(connection, "after closing and opening") == []


@pytest.mark.parametrize("seed", [SEED * 1000 + n for n in range(200, 201)])
def test_own_uncommitted_rows_are_rows(seed: int, tmp_path: Path) -> None:
    generator = Generator(seed, ddl_in_transactions=False)
    generator._transaction = lambda: select(generator.rng, list(generator.tables.values()))  # type: ignore[method-assign]
    with herdpy.connect(tmp_path, autocommit=True) as connection:
        grow(connection, generator, 60)
        for turn in range(3):
            connection.execute("BEGIN")
            for n in range(30):
                statement = (
                    generator._insert()
                    if n % 3 == 0
                    else generator.rng.choice([generator._update, generator._delete, generator._insert])()
                )
                connection.execute("SAVEPOINT one")
                if on_herdpy(connection, statement).state:
                    connection.execute("ROLLBACK TO SAVEPOINT one")
                connection.execute("RELEASE SAVEPOINT one")
            batch = Batch(connection, generator, seed, 25)
            batch.engines(connection)
            connection.execute("COMMIT")
            assert batch.again(connection, f"after COMMIT of transaction {turn}") == []
            connection.execute("CHECKPOINT")
            assert batch.again(connection, "after a checkpoint") == []


@pytest.mark.soak
def test_many_sessions_of_both_engines(tmp_path: Path) -> None:
    for seed in range(SEED * 1000 + 1000, SEED * 1000 + 1060):
        test_both_engines_answer_alike(seed, tmp_path / f"a{seed}")
        test_nothing_but_meaning_matters(seed, tmp_path / f"b{seed}")
        test_own_uncommitted_rows_are_rows(seed, tmp_path / f"c{seed}")

"""Columns that are added with a DEFAULT: rows that are there have it, and a fold of the feed by key, too."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import herdpy
from herdpy.log.lsn import LSN
from herdpy_spark.access import SparkDatabase
from herdpy_spark.feed.driver import FeedDriver, newest_table
from herdpy_spark.feed.table import PLAIN, AdaptingShape, FeedShape, SchemaChangedError
from herdpy_spark.feed.tasks import read_task
from herdpy_spark.log import LogAddress
from tests.support.feed_histories import fold

DEFAULTS = (
    "INT DEFAULT 7",
    "TEXT DEFAULT 'it''s \"x\"'",
    "NUMERIC(9,2) NOT NULL DEFAULT 1.50",
    "DATE DEFAULT '2026-03-01'",
    "INT[] DEFAULT '{1,NULL}'",
    "BOOLEAN",
    "TEXT DEFAULT upper('now')",
    "DOUBLE PRECISION DEFAULT random()",
)


def statement(dice: random.Random, columns: list[str], *, drops: bool) -> str:
    """One statement about app."t t", whose columns beside id and v are these; it changes the list."""
    kind = dice.randrange(12)
    key = dice.randrange(9)
    if kind < 5:
        return f"INSERT INTO app.\"t t\" (id, v) VALUES ({key}, 'v{kind}') ON CONFLICT DO NOTHING"
    if kind < 8:
        step = dice.choice([0, 0, dice.randrange(100, 10**6)])
        return f"UPDATE app.\"t t\" SET v = v || '+', id = id + {step} WHERE id = {key}"
    if kind == 8:
        return f'DELETE FROM app."t t" WHERE id = {key}'
    if kind == 9 and columns and drops:
        name = columns.pop(dice.randrange(len(columns)))
        return f'ALTER TABLE app."t t" DROP COLUMN "{name}"'
    if kind == 10 and dice.random() < 0.2:
        return 'TRUNCATE app."t t"'
    name = dice.choice([name for number in range(40) if (name := f"c {number}") not in columns][:2])
    columns.append(name)
    return f'ALTER TABLE app."t t" ADD COLUMN "{name}" {dice.choice(DEFAULTS)}'


def work(path: Path, seed: int, *, drops: bool) -> dict[LSN, list[dict[str, Any]]]:
    """What the table held after each commit."""
    dice, states = random.Random(seed), {}
    columns: list[str] = []
    with herdpy.connect(path, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA app")
        cursor.execute('CREATE TABLE app."t t" (id INT PRIMARY KEY, v TEXT)')
        cursor.execute('CREATE TABLE public."t t" (id INT PRIMARY KEY)')
        for _ in range(70):
            cursor.execute("BEGIN")
            for _ in range(dice.choice([1, 1, 3])):
                cursor.execute(statement(dice, columns, drops=drops))
            cursor.execute("COMMIT")
            ((text,),) = cursor.execute("SELECT herdpy.commit_position()").fetchall()
            cursor.execute('SELECT * FROM app."t t"')
            names = [one[0] for one in cursor.description or ()]
            states[LSN.parse(text)] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return states


def judge(path: Path, states: dict[LSN, list[dict[str, Any]]], shape: Any, seed: int) -> None:
    """AssertionError where a fold differs from the table."""
    dice = random.Random(seed)
    address = LogAddress.of_database(path)
    driver = FeedDriver(SparkDatabase(None, str(path), address), "app.t t", shape)
    rows: dict[Any, dict[str, Any]] = {}
    at, left = driver.first("earliest"), sorted(states)
    while left:
        end = driver.next(at, dice.choice([1, 3, None]))
        assert end != at
        tasks = driver.tasks(at, end)
        changes = [one for task in tasks for batch in read_task(task, shape) for one in batch.to_pylist()]
        changes.sort(key=lambda one: tuple(one["sequence"].values()))
        while left and left[0] <= end.lsn:
            lsn = left.pop(0)
            reached = [one for one in changes if LSN.parse(one["lsn"]) <= lsn]
            fold(rows, reached)
            changes = changes[len(reached) :]
            held = states[lsn]
            names = list(held[0]) if held else []
            found = [{name: row[name] for name in names} for row in rows.values()]
            assert sorted(found, key=lambda row: row["id"]) == sorted(held, key=lambda row: row["id"]), lsn
        fold(rows, changes)
        at = end


SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 30))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fold_by_key_is_the_table_whose_columns_come_and_go(tmp_path: Path, seed: int):
    states = work(tmp_path / "db", seed, drops=True)
    judge(tmp_path / "db", states, AdaptingShape(PLAIN), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stream_that_has_all_columns_from_the_beginning_folds_to_the_table(tmp_path: Path, seed: int):
    states = work(tmp_path / "db", seed, drops=False)
    address = LogAddress.of_database(tmp_path / "db")
    table = newest_table(SparkDatabase(None, str(tmp_path / "db"), address), "app.t t")
    assert table is not None
    judge(tmp_path / "db", states, FeedShape.of(table), seed)


def test_a_stream_without_the_column_ends_rather_than_lose_its_default(tmp_path: Path):
    """One whose rows have NULL in it loses nothing, and goes on until a row comes."""
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
    address = LogAddress.of_database(tmp_path / "db")
    database = SparkDatabase(None, str(tmp_path / "db"), address)
    table = newest_table(database, "t")
    assert table is not None
    shape = FeedShape.of(table)

    def changes() -> list[tuple[str, Any]]:
        driver = FeedDriver(database, "t", shape)
        at, found = driver.first("earliest"), []
        while (end := driver.next(at, None)) != at:
            for task in driver.tasks(at, end):
                for batch in read_task(task, shape):
                    found += [(one["op"], json.loads(one["schema"] or "{}").get("added")) for one in
                              batch.to_pylist()]  # fmt: skip
            at = end
        return found

    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        connection.execute("ALTER TABLE t ADD COLUMN a INT")
    assert changes()[-1] == ("alter", None)
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        connection.execute("ALTER TABLE t ADD COLUMN b INT DEFAULT 3")
    with pytest.raises(SchemaChangedError, match='column "a"'):
        changes()

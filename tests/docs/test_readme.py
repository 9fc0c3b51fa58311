"""README: what it says is there works, and what is not there is refused. The lists are read from it."""

from __future__ import annotations

import asyncio
import datetime
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
import typer.core
import typer.main

import herdpy
import herdpy.aio
from herdpy.cli.app import app
from herdpy.drill.faults import FAULTS
from herdpy.drill.workloads import WORKLOADS

TEXT = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")

MISSING = {
    "triggers": ["CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()"],
    "privileges on columns": ["GRANT SELECT (k) ON t TO PUBLIC", "GRANT UPDATE (v, k) ON t TO PUBLIC"],
    "privileges on functions": ["GRANT EXECUTE ON FUNCTION lower(text) TO PUBLIC"],
    "materialized views": ["CREATE MATERIALIZED VIEW m AS SELECT k FROM t"],
}
PRESENT: dict[str, tuple[list[str], object]] = {
    "foreign keys": (
        [
            "CREATE TABLE part (t int REFERENCES t (k) ON DELETE CASCADE)",
            "INSERT INTO part VALUES (1)",
            "DELETE FROM t",
            "SELECT count(*) FROM part",
        ],
        0,
    ),
    "ALTER TABLE": (["ALTER TABLE t ADD COLUMN more int DEFAULT 5 NOT NULL", "SELECT more FROM t"], 5),
    "views": (["CREATE VIEW seen AS SELECT k FROM t", "SELECT k FROM seen"], 1),
    "sequences": (["CREATE SEQUENCE numbers", "SELECT nextval('numbers')"], 1),
    "schemas": (["CREATE SCHEMA room", "CREATE TABLE room.t AS SELECT 2 AS k", "SELECT k FROM room.t"], 2),
    "ON CONFLICT": (
        ["INSERT INTO t VALUES (1, 'b') ON CONFLICT (k) DO UPDATE SET v = excluded.v", "SELECT v FROM t"],
        "b",
    ),
    "MERGE": (
        [
            "MERGE INTO t USING (VALUES (1)) AS s (k) ON t.k = s.k WHEN MATCHED THEN DELETE",
            "SELECT count(*) FROM t",
        ],
        0,
    ),
    "changes in WITH": (["WITH gone AS (DELETE FROM t RETURNING k) SELECT count(*) FROM gone"], 1),
    "arrays": (["SELECT (ARRAY[[1, 2], [3, 4]])[2][1]"], 3),
    "jsonb": (["""SELECT '{"a": [1]}'::jsonb -> 'a' @> '[1]'"""], True),
    "intervals": (["SELECT interval '1 month' + date '2024-01-31'"], datetime.datetime(2024, 2, 29)),
    "enums": (["CREATE TYPE mood AS ENUM ('low', 'high')", "SELECT 'low'::mood < 'high'::mood"], True),
    "indexes on expressions": (
        ["CREATE UNIQUE INDEX lowered ON t (lower(v))", "SELECT k FROM t WHERE lower(v) = 'a'"],
        1,
    ),
}
"""Statements, and the one value that the last of them gives."""


def _dialect(place: Path) -> object:
    engine = sqlalchemy.create_engine(f"herdpy:///{place}")
    try:
        with engine.connect() as connection:
            return connection.scalar(sqlalchemy.text("SELECT 1"))
    finally:
        engine.dispose()


def _aio(place: Path) -> object:
    async def ask() -> object:
        async with await herdpy.aio.connect(place) as connection:
            return await (await connection.execute("SELECT 1")).fetchone()

    return asyncio.run(ask())


def _pool(place: Path) -> object:
    with herdpy.Pool(place) as pool, pool.connection() as connection:
        return connection.execute("SELECT 1").fetchone()


WAYS: dict[str, tuple[Callable[[Path], object], object]] = {
    "SQLAlchemy": (_dialect, 1),
    "asyncio": (_aio, (1,)),
    "pools": (_pool, (1,)),
}
"""What asks for 1 each way, and its answer."""


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[Any]:
    with herdpy.connect(tmp_path / "db", autocommit=True) as made:
        made.execute("CREATE TABLE t (k int PRIMARY KEY, v text)")
        made.execute("INSERT INTO t VALUES (1, 'a')")
        yield made


def test_the_lists_are_those_of_the_page() -> None:
    (missing,) = re.findall(r"^- No (.*); what is not there is refused with 0A000\.$", TEXT, re.MULTILINE)
    assert [re.sub(r"^no ", "", one) for one in missing.split(", ")] == list(MISSING)
    (sql,) = re.findall(
        r"^\| \*\*SQL\*\* \| PostgreSQL's everyday language: (.*), and SELECT", TEXT, re.MULTILINE
    )
    assert sql.replace("`", "").split(", ") == list(PRESENT)
    (ways,) = re.findall(r"^\| \*\*(SQLAlchemy.*?)\*\* \|", TEXT, re.MULTILINE)
    assert ways.split(", ") == list(WAYS)


@pytest.mark.parametrize("what", MISSING)
def test_what_is_missing_is_refused(conn: Any, what: str) -> None:
    for statement in MISSING[what]:
        with pytest.raises(herdpy.NotSupportedError) as refused:
            conn.execute(statement)
        assert refused.value.sqlstate == "0A000"


@pytest.mark.parametrize("what", PRESENT)
def test_what_is_present_works(conn: Any, what: str) -> None:
    statements, value = PRESENT[what]
    *_, last = [conn.execute(statement) for statement in statements]
    assert last.fetchall() == [(value,)]


@pytest.mark.parametrize("what", WAYS)
def test_a_way_in_works(tmp_path: Path, what: str) -> None:
    ask, answer = WAYS[what]
    assert ask(tmp_path / "db") == answer


def test_the_commands_are_those_of_the_page() -> None:
    (row,) = re.findall(r"^\| \*\*Command line\*\* \| (.*): \[the command\]", TEXT, re.MULTILINE)
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    assert set(re.findall(r"`(\w+)`", row)) == set(group.commands)


def test_the_drills_have_as_many_faults_and_workloads() -> None:
    ((faults, workloads),) = re.findall(r"(\d+) faults under (\d+) workloads", TEXT)
    assert (int(faults), int(workloads)) == (len(FAULTS), len(WORKLOADS))


def test_every_page_is_on_the_page() -> None:
    docs = Path(__file__).parents[2] / "docs"
    pages = {f"docs/{one.name}" for one in docs.glob("*.md")} - {"docs/index.md"}
    pages |= {f"docs/{one.relative_to(docs)}" for one in docs.glob("*/README.md")}
    pages |= {f"docs/tutorials/{one.name}" for one in (docs / "tutorials").glob("*.md")}
    assert pages - set(re.findall(r"\]\(([\w./-]+)\)", TEXT)) == set()

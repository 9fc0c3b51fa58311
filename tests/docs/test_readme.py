"""README: what it says is there works, and what is not there is refused. The lists are read from it."""

from __future__ import annotations

import asyncio
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
    "functions of one's own": ["CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'"],
    "LISTEN and NOTIFY": ["LISTEN news", "NOTIFY news, 'x'"],
    "privileges on columns": ["GRANT SELECT (k) ON t TO PUBLIC", "GRANT UPDATE (v, k) ON t TO PUBLIC"],
    "materialized views": ["CREATE MATERIALIZED VIEW m AS SELECT k FROM t"],
}
PRESENT = {
    "foreign keys": "CREATE TABLE part (t int REFERENCES t (k) ON DELETE CASCADE)",
    "ALTER TABLE": "ALTER TABLE t ADD COLUMN more int DEFAULT 5 NOT NULL",
    "views": "CREATE VIEW seen AS SELECT k FROM t",
    "sequences": "CREATE SEQUENCE numbers",
    "schemas": "CREATE SCHEMA room",
    "ON CONFLICT": "INSERT INTO t VALUES (1, 'b') ON CONFLICT (k) DO UPDATE SET v = excluded.v",
    "MERGE": "MERGE INTO t USING (VALUES (1)) AS s (k) ON t.k = s.k WHEN MATCHED THEN DELETE",
    "changes in WITH": "WITH gone AS (DELETE FROM t RETURNING k) SELECT count(*) FROM gone",
    "arrays": "SELECT ARRAY[[1, 2], [3, 4]][2][1]",
    "jsonb": """SELECT '{"a": [1]}'::jsonb -> 'a' @> '[1]'""",
    "intervals": "SELECT interval '1 month' + date '2024-01-31'",
    "enums": "CREATE TYPE mood AS ENUM ('low', 'high')",
    "indexes on expressions": "CREATE INDEX lowered ON t (lower(v))",
}


def _dialect(place: Path) -> None:
    engine = sqlalchemy.create_engine(f"herdpy:///{place}")
    with engine.connect() as connection:
        assert connection.scalar(sqlalchemy.text("SELECT 1")) == 1
    engine.dispose()


def _aio(place: Path) -> None:
    async def ask() -> None:
        async with await herdpy.aio.connect(place) as connection:
            cursor = await connection.execute("SELECT 1")
            assert await cursor.fetchone() == (1,)

    asyncio.run(ask())


def _pool(place: Path) -> None:
    with herdpy.Pool(place) as pool, pool.connection() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


WAYS: dict[str, Callable[[Path], None]] = {"SQLAlchemy": _dialect, "asyncio": _aio, "pools": _pool}


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
    conn.execute(PRESENT[what])


@pytest.mark.parametrize("what", WAYS)
def test_a_way_in_works(tmp_path: Path, what: str) -> None:
    WAYS[what](tmp_path / "db")


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
